"""The glossary of docs/concepts.md is used, and a name in a text is the name of something.

Theory. A text that names a metric, a setting or a command that is gone sends its reader to look for
it. So each name in backticks is looked up here. Which words to choose is a matter of style, and
CONTRIBUTING.md speaks of it.

Invariant: nothing is counted and nothing tolerated.
"""

import re
from functools import cache
from typing import Final

import pytest
import typer

from gatelog.cli import app
from gatelog.viacluster.app import app as plugin
from runtime.settings_source import describe, gone
from tests.deploy.test_names import everything as identifiers
from tests.deploy.test_names import missing, ticked
from tests.metrics.reference import everything
from tests.support.texts import ROOT, SOURCES, Text, texts

_ROW: Final = re.compile(r"^\| (?!---|\*\*)([^|]+?) \| (?!\|)", re.MULTILINE)


def glossary() -> list[str]:
    """The words of docs/concepts.md, in their order."""
    page = (ROOT / "docs" / "concepts.md").read_text()
    section = page.split("\n## Words\n")[1].split("\n## ")[0]
    rows = [row for row in _ROW.findall(section) if row not in ("Kubernetes", "Kueue", "gatelog")]
    return [word.strip() for row in rows for word in re.split(r"[,:]", row)]


def test_each_word_of_the_glossary_is_used() -> None:
    words = glossary()
    assert words and len(set(words)) == len(words)
    said = "\n".join(one.text for source in SOURCES for one in texts(source) if outside(one))
    unused = [word for word in words if not re.search(_stem(word), said, re.IGNORECASE)]
    assert unused == []


def outside(text: Text) -> bool:
    """Whether a text is not the glossary itself, which uses all its words."""
    return not text.place.startswith("docs/concepts.md:")


def _stem(word: str) -> str:
    """A pattern of a word in its forms: park, parked; expectation, expectations."""
    return rf"\b{re.escape(word)}(?:s|es|d|ed|ing)?\b"


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


_PATHS: Final = {doc.path for doc in describe()} | set(gone())
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
