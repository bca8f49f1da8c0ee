"""No expression of the manifests goes over what users fill without a bound on its size.

The API server evaluates them for each request, a stop of a pod included: a pod with 60,000 labels
could not be stopped for minutes.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from podgroup.model import names
from tests.deploy.manifests import parsed

DEPLOY = Path(__file__).parents[2] / "deploy"
LOOP = re.compile(r"([\w.]+|[])])\s*\.(?:all|exists|exists_one|filter|map)\(")
OURS = re.compile(r"(?:oldObject|object)\.(?:spec|status)|]")
"""What has a bound: the fields of a kind, and a list that is written out."""
LISTS = re.compile(
    r".*\.(?:containers|initContainers|ownerReferences|schedulingGates|finalizers|oldFinalizers)"
)
"""Lists that users fill: gone over once, in no other loop, and with no look into another."""

PARTS = re.compile(r"([\w.]+)\.split\('.'\)(?:\.map\(\w+, \w+\.trim\(\)\))?$")
"""Parts of a text: as many as the text is long."""
MOST_BYTES = 4096


def expressions() -> Iterator[tuple[str, str]]:
    def below(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key.lower().endswith("expression") and isinstance(inner, str):
                    yield inner
                yield from below(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from below(inner)

    for path in sorted(DEPLOY.rglob("*.yaml")):
        if path.is_symlink() or "templates" in path.parts or "files" in path.parts:
            continue
        for document in parsed(path.read_text()):
            for text in below(document):
                yield str(path.relative_to(DEPLOY)), text


def unbounded(text: str) -> list[str]:
    """The maps and lists that an expression goes over though nothing before bounds their size.

    A bound is `size(x) <= n && x.all(...)`, as is `size(x) <= n ? x.all(...)`, or
    `size(x) > n || x.exists(...)`. A list that is gone over once takes time in its length, as does
    the request.
    """
    found = []
    for loop in LOOP.finditer(text):
        over, before = loop.group(1), text[: loop.start()]
        if OURS.fullmatch(over):
            continue
        bound = rf"size\({re.escape(over)}\) (?:<= (\d+)\s*(?:&&|\? $)|> (\d+)\)*\s*\|\|)"
        sizes = [int(one or other) for one, other in re.findall(bound, before)]
        if sizes and max(sizes) <= names.MAX_ENTRIES:
            continue
        if (parts := PARTS.search(text[: loop.end(1)])) is not None:
            long = re.findall(rf"size\(bytes\({re.escape(parts[1])}\)\) <= (\d+) +&&", before)
            if long and max(map(int, long)) <= MOST_BYTES:
                continue
        looks = re.search(r"\bin (?:variables|object|oldObject)\.", _body(text, loop.end()))
        if not LISTS.fullmatch(over) or looks or _inside(before):
            found.append(over)
    return found


def _body(text: str, begin: int) -> str:
    depth = 1
    for at in range(begin, len(text)):
        depth += (text[at] == "(") - (text[at] == ")")
        if not depth:
            return text[begin:at]
    return text[begin:]


def _inside(before: str) -> bool:
    """Whether a text ends within a loop over what users fill."""
    loops = (loop for loop in LOOP.finditer(before) if not OURS.fullmatch(loop.group(1)))
    return any(_body(before, loop.end()) == before[loop.end() :] for loop in loops)


ALL = [pytest.param(text, id=f"{file}-{n}") for n, (file, text) in enumerate(expressions())]


def test_all_manifests_are_read() -> None:
    files = {file for file, _ in expressions()}
    assert {
        "common/fence.yaml",
        "webhook/configuration.yaml",
        "admission-policy/validating-admission-policy.yaml",
    } <= files
    assert len(ALL) > 100


@pytest.mark.parametrize("text", ALL)
def test_an_expression_goes_over_bounded_maps_alone(text: str) -> None:
    assert unbounded(text) == []


LABELS = "object.metadata.labels"
GATES = "object.spec.schedulingGates"


@pytest.mark.parametrize(
    ("text", "over"),
    [
        (f"{LABELS}.all(key, true)", LABELS),
        (f"size({LABELS}) <= 500 && {LABELS}.all(key, true)", ""),
        (f"size({LABELS}) <= 500 ? {LABELS}.all(key, true) : true", ""),
        (f"size({LABELS}) <= 500 ? true : {LABELS}.all(key, true)", LABELS),
        (f"size({LABELS}) <= 5000 && {LABELS}.all(key, true)", LABELS),
        (f"size({LABELS}) > 500 || {LABELS}.exists(key, true)", ""),
        (f"size({LABELS}) > 500 && {LABELS}.exists(key, true)", LABELS),
        (f"{LABELS}.all(key, true) && size({LABELS}) <= 500", LABELS),
        (f"['a'].exists(key, key in {LABELS})", ""),
        (f"{GATES}.exists(gate, gate.name == 'a')", ""),
        (f"{GATES}.exists(gate, {GATES}.exists(other, other == gate))", GATES),
        (f"{GATES}.exists(gate, gate.name in object.metadata.finalizers)", GATES),
        ("(has(object.a) ? object.a : []).all(name, true)", ")"),
        ("object.a.split(',').all(name, true)", ")"),
        ("size(bytes(object.a)) <= 1024 && object.a.split(',').all(name, true)", ""),
        ("size(bytes(object.a)) <= 100000 && object.a.split(',').all(name, true)", ")"),
    ],
)
def test_what_counts_as_a_bound(text: str, over: str) -> None:
    assert "".join(unbounded(text)) == over
