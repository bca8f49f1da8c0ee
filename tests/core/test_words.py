"""Fields decide, words do not: only the table of reasons compares a reason's or message's text.

Two texts may be compared with each other: that tells whether something new is said. A text and a
word that the code knows may not: `podgroup.model.reasons` reads what follows from a word, once.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from podgroup.model import names, reasons

ROOT = Path(__file__).parents[2]
PACKAGES = ("podgroup", "ingest", "projector", "actuator", "gatelog")
OWNERS = {
    "podgroup/model/reasons.py": "the table",
    "podgroup/model/wording.py": "puts our words before Kueue's, and takes them apart",
    "podgroup/rules/helpers/plainly.py": "makes a sentence of a sentence",
    "podgroup/admission/wording.py": "makes Kueue's sentences",
    "gatelog/readmodel/advice.py": "advice beside a message, of what the row says",
    "podgroup/model/podwaits.py": "Kubernetes' own words on a pod behind its gate, to be shown",
    "ingest/translate/pods.py": "the kubelet's own words on containers",
    "actuator/kubeevents.py": "which of our Events are routine",
    "actuator/replies.py": "the API server's own words: an answer has no fields",
    "actuator/verdicts.py": "the API server's own words: an answer has no fields",
    "ingest/states.py": "the API server's own words",
    "ingest/lookout.py": "the API server's own words",
    "ingest/metrics.py": "classes of a metric, of why a list was needed",
    "projector/measures/increments.py": "metrics, of lines of history",
    "projector/schema/views.py": "SQL, of rows",
    "gatelog/readmodel/inforce.py": "settings, of lines of history",
}
"""Who may look at the text, and why."""

_TEXT = {"reason", "message", "wait_reason", "wait_message"}
_PAIRS = {"why", "wanted", "refused"}
"""Names of pairs of both."""
_READS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"}
_READS |= {"split", "find", "index", "replace", "match", "search", "fullmatch", "findall"}
_WORD = re.compile(
    "(?:EVICTED|PENDING|FINISHED|READY|NOT_ADMITTED|PREEMPTED|REQUEUED|REPLACEMENT|EVENT)_.*"
)
_WORDS = {name for name in vars(names) if _WORD.fullmatch(name)} | {
    name for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)
}
"""Names of the constants that are a word of a reason."""
_SPELT = {reason.word for reason in reasons.REASONS}
"""Words of the table, which a helper could compare under any name."""


def _is_text(node: ast.expr, known: set[str]) -> bool:
    match node:
        case ast.Attribute(attr=name):
            return name in _TEXT
        case ast.Name(id=name):
            return name in _TEXT or name in known
        case ast.Subscript(value=ast.Attribute() as value):
            return _is_text(value, known)
        case ast.Subscript(value=ast.Name(id=name)):
            return name in _PAIRS
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(_is_text(part, known) for part in parts)
        case ast.Call(func=ast.Name(id="cut" | "kueues" | "first" | "plain"), args=[part, *_]):
            return _is_text(part, known)
        case ast.NamedExpr(value=value):
            return _is_text(value, known)
    return False


def _is_word(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return text != ""
        case ast.JoinedStr():
            return True
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.isupper()
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(map(_is_word, parts))
    return False


def _names_a_reason(node: ast.expr) -> bool:
    """It is a constant of a reason, or a display of such; what is given to a call is not seen."""
    match node:
        case ast.Constant(value=str(text)):
            return text in _SPELT
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in _WORDS
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return any(map(_names_a_reason, parts))
    return False


def _aliases(function: ast.AST) -> set[str]:
    """Other names that a text gets in a function."""
    known: set[str] = set()
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign) or not _is_text(node.value, known):
            continue
        if isinstance(node.value, ast.Attribute | ast.Name | ast.Subscript):
            known |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return known


def _compared(text: str) -> Iterator[str]:
    """Yield each expression that looks at the text of a reason or message."""
    tree = ast.parse(text)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    found: dict[tuple[int, int], str] = {}
    for function in functions:
        known = _aliases(function)
        for node in (n for n in ast.walk(function) if isinstance(n, ast.expr | ast.Match)):
            hit = False
            match node:
                case ast.Compare(left=left, comparators=others):
                    sides = [left, *others]
                    said = any(_is_text(side, known) for side in sides)
                    hit = (said and any(map(_is_word, sides))) or any(map(_names_a_reason, sides))
                case ast.Call(func=ast.Attribute(value=value, attr=name), args=args):
                    given = any(_is_text(arg, known) for arg in args)
                    hit = name in _READS and bool(args) and (_is_text(value, known) or given)
                    hit = hit or (name == "get" and _is_word(value) and given)
                case ast.Subscript(value=value, slice=key):
                    hit = _is_word(value) and _is_text(key, known)
                case ast.Match(subject=subject):
                    hit = _is_text(subject, known)
            if hit:
                found[node.lineno, node.col_offset] = ast.unparse(node).partition("\n")[0]
    yield from (f"line {line}: {what}" for (line, _), what in sorted(found.items()))


SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def test_only_the_table_looks_at_words() -> None:
    found = {
        name: list(_compared(path.read_text()))
        for path in SOURCES
        if (name := str(path.relative_to(ROOT))) not in OWNERS
    }
    assert len(found) > 400
    deciding = {name: places for name, places in found.items() if places}
    assert not deciding, (
        f"decided by a word: {deciding}. Read what follows from it (`effect` of the decision or "
        "record, `Effect` of podgroup/model/reasons.py), or have a function there read the word"
    )


def test_the_table_is_read_as_one_would() -> None:
    assert len(_WORDS) > 60
    assert set(OWNERS) <= {str(path.relative_to(ROOT)) for path in SOURCES}


@pytest.mark.parametrize(
    "line",
    [
        "command.reason == EVICTED_PODS_READY_TIMEOUT",
        "eviction.reason == EVICTED_ADMISSION_CHECK",
        "evicted.reason.startswith(EVICTED_DEACTIVATED)",
        "evicted is None or not evicted.reason.startswith(EVICTED_DEACTIVATED_PREFIX)",
        "evicted.reason in (EVICTED_PREEMPTED, EVICTED_NODE_FAILURES) and not dies",
        "old is not None and old.reason in (READY_WAIT_FOR_RECOVERY, READY_RECOVERED)",
        "requeued.reason.startswith(f'{EVICTED_DEACTIVATED}DueTo')",
        "evicted.reason == 'PodsReadyTimeout' and requeue_by == 'Eviction'",
        "wait is None or wait.reason != 'WaitingForPods'",
        "places.best_of(model, group.id, now) if _NO_PLACE in group.wait_message else []",
        "group.quota.reason[0] not in REFUSED",
        "{one for one in waiting if one.reason[0] in REFUSED}",
        "refused[0] in HOPELESS",
        "head.reason == PENDING_PREEMPTED_WORKLOADS",
        "message in (OVERLAP, NO_LONGER_FITS)",
        "known == EVICTED_PREEMPTED",
        "_EFFECTS.get(evicted.reason)",
        "EFFECTS[group.explained.reason]",
        "(word := evicted.reason) == 'Preempted'",
        "re.match('Deactivated', evicted.reason)",
    ],
)
def test_what_decided_by_words_before_is_found(line: str) -> None:
    assert list(_compared(f"def rule(group):\n    return {line}\n"))


def test_a_text_is_found_under_another_name() -> None:
    assert list(_compared("def gathers(word):\n    return word == 'WaitingForPods'\n"))
    assert list(_compared("def rule(e):\n    word = e.reason\n    return word == 'Preempted'\n"))
    assert list(_compared("def rule(e):\n    match e.reason:\n        case 'Preempted': pass\n"))


@pytest.mark.parametrize(
    "line",
    [
        "evicted.effect.deactivates",
        "group.quota.reason != (reason, message)",
        "old.reason != reason or old.message != cut(message)",
        "effect_of(head.reason).hopeless",
        "finish(group, EVICTED_PREEMPTED, evicted.message)",
        "reason != ''",
    ],
)
def test_texts_may_be_told_apart_and_handed_on(line: str) -> None:
    assert not list(_compared(f"def rule(group):\n    return {line}\n"))
