"""One concept, one word: every text that reaches a person keeps to the glossary of
docs/concepts.md.

Theory. A synonym looks harmless where it is written, and costs each reader a question: is it
another thing? So `INSTEAD_OF` lists the words that were used, or are likely to be, for something
that has a word; a text with one of them fails here with the word to use. A name in backticks, a
metric, a setting or a command in a text is one that exists.

Invariant: nothing is counted and nothing tolerated. `QUOTED` has sentences of other software that
are passed on as they are, by their exact text.
"""

import ast
import re
from functools import cache
from typing import Final

import pytest
import typer

from gatelog.cli import app
from gatelog.viacluster.app import app as plugin
from runtime.settings_source import describe
from tests.deploy.test_names import everything as identifiers
from tests.deploy.test_names import missing, ticked
from tests.metrics.reference import everything
from tests.support.texts import ROOT, SOURCES, Text, sentences, texts

MOST_WORDS: Final = 60

INSTEAD_OF: Final = {
    r"surplus|supernumerary|superfluous": "excess",
    r"line-?ups?|(?:in|into|the) line (?:for|of (?:groups|pods))|in line|waiting list": "queue",
    r"heads?(?= (?:of (?:the|a|its) queue|that waits?|counted))|its head|heads are": "first group",
    r"set(?:s|ting)? aside|quarantined?|dead letters?": "park",
    r"(?:not )?heed(?:s|ed|ing)?|leaves? it alone": "ignore",
    r"books?": "scheduler cache",
    r"ways": "dialects, or options",
    r"told|untold": "report, or write",
    r"stands|stands? still|stood still": "is, or is stuck",
    r"hand(?:s|ed|ing)? over": "publish, or pass",
    r"whoever|whosoever": "who, the client, or the user",
    r"let(?:s|ting)? go(?: of)?": "release",
    r"in vain": "wasted, or failing",
    r"pod sets?": "podset",
    r"gangs?": "pod group",
    r"\w+\(s\)": "the plural, or the number's own form",
    r"cluster queues?": "ClusterQueue",
    r"local queues?": "LocalQueue",
    r"resource flavou?rs?": "ResourceFlavor",
    r"spared?(?= (?:group|pod|one)s?)|are spared": "keep",
    r"kick(?:s|ed|ing)? out|expel(?:s|led)?|oust(?:s|ed)?": "evict, or preempt",
    r"degat(?:e|es|ed|ing)|un-gat(?:e|es|ed|ing)|open(?:s|ed)? the gate": "ungate",
    r"(?:nobody|somebody|anybody|everybody)": "no group, another client, all, …",
    r"(?:not )?in our hands(?: any more)?": "managed, or no longer managed",
    r"until it is mended": "until the field is fixed",
    r"takes more nominal quota .* than it has in all": "needs a larger quota: …",
    r"was to have started by now": "late: 9 of 10 like it had started by now",
    r"a victim that was none": "pods preempted only in the simulation",
}
"""Words not to be used, and the glossary's (or the field's) word for what they were used for."""

QUOTED: Final = (
    "couldn't assign flavors to pod set",
    r"pod set (\S+):",
    "Pending the preemption of {} workload(s)",
    "references missing ResourceFlavor(s)",
    "references missing AdmissionCheck(s)",
    "references inactive AdmissionCheck(s)",
    "Added {} owner reference(s)",
    "slice(s) fit on level {}",
    "no replacement for unhealthy node(s)",
    "Not admitted by cluster queue",
)
"""Sentences of Kueue's that are passed on, or recognised, as they are."""

_WRONG: Final = {
    re.compile(rf"(?<![\w-])(?:{words})(?![\w-])", re.IGNORECASE): word
    for words, word in INSTEAD_OF.items()
}
_ROW: Final = re.compile(r"^\| (?!---|\*\*)([^|]+?) \| (?!\|)", re.MULTILINE)


def wrong(text: Text) -> list[str]:
    """What a text says in other words than the glossary's, with the word to use."""
    said = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " · ", text.text) if text.name else text.text
    said = " ".join(said.split())
    for sentence in QUOTED:
        said = said.replace(sentence, "")
    return [
        f"{text.place}: {found!r}: say {word!r}"
        for pattern, word in _WRONG.items()
        for found in pattern.findall(said)
    ]


def glossary() -> list[str]:
    """The words of docs/concepts.md, in their order."""
    page = (ROOT / "docs" / "concepts.md").read_text()
    section = page.split("\n## Words\n")[1].split("\n## ")[0]
    rows = [row for row in _ROW.findall(section) if row not in ("Kubernetes", "Kueue", "gatelog")]
    return [word.strip() for row in rows for word in re.split(r"[,:]", row)]


@pytest.mark.parametrize("source", SOURCES)
def test_texts_use_the_words_of_the_glossary(source: str) -> None:
    found = texts(source)
    assert found
    assert [line for text in found for line in wrong(text)] == []


def test_the_glossary_is_short_and_each_of_its_words_is_used() -> None:
    words = glossary()
    assert 40 <= len(words) <= MOST_WORDS and len(set(words)) == len(words)
    said = "\n".join(one.text for source in SOURCES for one in texts(source) if outside(one))
    unused = [word for word in words if not re.search(_stem(word), said, re.IGNORECASE)]
    assert unused == []


def outside(text: Text) -> bool:
    """Whether a text is not the glossary itself, which uses all its words."""
    return not text.place.startswith("docs/concepts.md:")


def _stem(word: str) -> str:
    """A pattern of a word in its forms: park, parked; expectation, expectations."""
    return rf"\b{re.escape(word)}(?:s|es|d|ed|ing)?\b"


def test_no_synonym_is_a_word_of_the_glossary() -> None:
    assert [line for word in glossary() for line in wrong(Text("glossary", word))] == []


@pytest.mark.parametrize(
    ("planted", "word"),
    [
        (Text("a reason", "pod spare is surplus"), "excess"),
        (Text("a page", "An event that\ncannot be read is set\naside."), "park"),
        (Text("a message", "{} groups stand still: whoever made them was told"), "report"),
        (Text("a log event", "messages_set_aside_told", name=True), "report"),
        (Text("a reason", "GangIncomplete", name=True), "pod group"),
    ],
)
def test_a_planted_wrong_word_is_found(planted: Text, word: str) -> None:
    found = wrong(planted)
    assert any(word in line for line in found) and all(planted.place in line for line in found)


def test_a_planted_sentence_is_read_from_source() -> None:
    tree = ast.parse('"""It stands."""\n\nSAID = f"{1} pods were told of it"\nNAME = "told"\n')
    (found,) = sentences("there.py", tree)
    assert found == Text("there.py:3", "{} pods were told of it") and wrong(found)


def unknown(text: Text) -> list[str]:
    """Names in a text, in backticks or by their form, that nothing has."""
    measured = families() | {one.text for one in texts("log events")}
    found = [name for name in ticked(text.text) if missing(name, identifiers())]
    for name in re.findall(r"`(gatelog_\w*[a-z0-9])\b", text.text):
        if re.sub(r"_(?:bucket|sum|count)$", "", name) not in measured:
            found.append(name)
    for name in re.findall(rf"`((?:{_SECTIONS})\.[a-z_]+)(?:`| =)", text.text):
        package = ROOT / name.replace(".", "/")
        if name not in _PATHS and not package.is_dir() and not package.with_suffix(".py").exists():
            found.append(name)
    for name in re.findall(r"`(?:kubectl )?gatelog ([a-z][a-z-]+)", text.text):
        if name not in commands():
            found.append(f"gatelog {name}")
    return [f"{text.place}: `{name}` is nowhere" for name in found]


_PATHS: Final = {doc.path for doc in describe()}
_SECTIONS: Final = "|".join(sorted({doc.section for doc in describe() if doc.section}))


@cache
def families() -> frozenset[str]:
    """Names of the metrics."""
    return frozenset(everything().families)


@cache
def commands() -> set[str]:
    """Names of the commands of the shell and of the plugin."""
    found = (getattr(typer.main.get_command(one), "commands", {}) for one in (app, plugin))
    return {name for names in found for name in names}


@pytest.mark.parametrize("source", SOURCES)
def test_names_in_texts_exist(source: str) -> None:
    assert [line for text in texts(source) for line in unknown(text)] == []


@pytest.mark.parametrize(
    "planted",
    ["`gatelog_pods_told_total` counts", "run `gatelog liberate`", "`queueing.lineup_s` is 3"],
)
def test_a_planted_name_is_found(planted: str) -> None:
    assert unknown(Text("a page", planted))
