"""Pure parts: quantities, field sets, patches, selectors."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster import fields, patches
from simcluster.quantity import QuantityError, canonical, parse


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5", "500m"),
        ("100000", "100k"),
        ("1024", "1024"),
        ("0", "0"),
        ("0Gi", "0"),
        ("1500m", "1500m"),
        ("1e3", "1e3"),
        ("2E", "2E"),
        ("0.1n", "1n"),
    ],
)
def test_canonical_quantities(text: str, wanted: str) -> None:
    assert canonical(text) == wanted
    assert canonical(wanted) == wanted


@pytest.mark.parametrize("text", ["", "x", "1KiB", "1 Gi", "--1", "1e", "."])
def test_no_quantities(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)


@given(st.integers(0, 10**12), st.sampled_from(["m", "", "k", "M", "G", "Ki", "Mi", "Gi", "u"]))
def test_canonical_keeps_the_value(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert parse(canonical(text)) == parse(text)
    assert canonical(canonical(text)) == canonical(text)
    assert isinstance(parse(text), Fraction)


SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"])
GATES = st.lists(
    st.builds(lambda n: {"name": n}, st.sampled_from("xyz")), max_size=3, unique_by=str
)
OBJECTS = st.dictionaries(
    st.sampled_from(["a", "b", "nodeSelector"]),
    st.recursive(SCALARS, lambda c: st.dictionaries(st.sampled_from("ab"), c, max_size=2)),
    max_size=3,
)
DOCUMENTS = st.builds(lambda o, g: {**o, "schedulingGates": g}, OBJECTS, GATES)


def members(found: fields.Fields | None, at: str = "") -> set[str]:
    """The set as paths: a bare or explicit member, and everything below."""
    paths: set[str] = set()
    for key, value in (found or {}).items():
        here = f"{at}/{key}"
        if key == ".":
            paths.add(at)
        elif not value:
            paths.add(here)
        else:
            paths |= members(value, here)
    return paths


@given(DOCUMENTS, DOCUMENTS)
def test_compare_finds_nothing_only_in_equal_documents(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    added, removed, whole = fields.compare(old, new)
    assert not whole
    if old == new:
        assert (added, removed) == (None, None)
    elif not added and not removed:
        # Only the order of an associative list, or an empty container, differs.
        assert fields.leaves(old) == fields.leaves(new)


@given(DOCUMENTS, DOCUMENTS)
def test_union_and_minus_are_those_of_sets(a: dict[str, Any], b: dict[str, Any]) -> None:
    left, right = fields.bare(fields.leaves(a)), fields.bare(fields.leaves(b))
    if left and right:
        assert members(fields.union(left, right)) == members(left) | members(right)
    assert members(fields.minus(left, left)) == set()
    rest = members(fields.minus(left, right))
    assert rest <= members(left)
    assert members(left) - members(right) <= rest | members(right)


@given(OBJECTS, OBJECTS)
def test_merge_patch_is_idempotent_and_pure(a: dict[str, Any], b: dict[str, Any]) -> None:
    before = repr(a)
    once = patches.merge_patch(a, b)
    assert patches.merge_patch(once, b) == once
    assert repr(a) == before


@settings(max_examples=60)
@given(OBJECTS, st.sampled_from(["add", "replace", "remove"]), st.sampled_from(["/a", "/a/b"]))
def test_json_patch_shares_what_it_does_not_touch(
    document: dict[str, Any], op: str, path: str
) -> None:
    before = repr(document)
    try:
        got = patches.json_patch(document, [{"op": op, "path": path, "value": 7}])
    except patches.PatchConflict:
        return
    finally:
        assert repr(document) == before
    for key in document.keys() - {"a"}:
        assert got[key] is document[key]


@pytest.mark.parametrize(
    ("document", "operations", "wanted"),
    [
        ({"a": [1, 2]}, [{"op": "add", "path": "/a/-", "value": 3}], {"a": [1, 2, 3]}),
        ({"a": [1, 2]}, [{"op": "add", "path": "/a/0", "value": 0}], {"a": [0, 1, 2]}),
        ({"a": [1, 2]}, [{"op": "remove", "path": "/a/1"}], {"a": [1]}),
        ({"x/y": 1}, [{"op": "replace", "path": "/x~1y", "value": 2}], {"x/y": 2}),
        ({"x~y": 1}, [{"op": "test", "path": "/x~0y", "value": 1.0}], {"x~y": 1}),
        ({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}),
        ({"a": 1}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": 1, "b": 1}),
        ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
    ],
)
def test_json_patch(document: Any, operations: Any, wanted: Any) -> None:
    assert patches.json_patch(document, operations) == wanted


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": True},
        {"op": "remove", "path": "/b"},
        {"op": "replace", "path": "/b", "value": 1},
        {"op": "add", "path": "/b/c", "value": 1},
        {"op": "add", "path": "/l/5", "value": 1},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "test", "path": "a", "value": 1},
        {"op": "explode", "path": "/a"},
    ],
)
def test_json_patch_that_does_not_apply(operation: dict[str, Any]) -> None:
    with pytest.raises(patches.PatchConflict):
        patches.json_patch({"a": 1, "l": [1]}, [operation])


def test_strategic_merge() -> None:
    document = {
        "containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}],
        "finalizers": ["x"],
        "tolerations": [{"key": "a"}],
        "labels": {"k": "v", "gone": "1"},
    }
    patch = {
        "containers": [{"name": "b", "image": "2"}, {"$patch": "delete", "name": "a"}],
        "finalizers": ["y"],
        "tolerations": [{"key": "b"}],
        "labels": {"gone": None, "new": "1"},
    }
    assert patches.strategic(document, patch) == {
        "containers": [{"name": "b", "image": "2"}],
        "finalizers": ["x", "y"],
        "tolerations": [{"key": "b"}],
        "labels": {"k": "v", "new": "1"},
    }
    emptied = patches.strategic(document, {"$deleteFromPrimitiveList/finalizers": ["x"]})
    assert emptied["finalizers"] == []
    replaced = {
        "containers": [{"$patch": "replace"}, {"name": "c"}],
        "labels": {"$patch": "delete"},
    }
    got = patches.strategic(document, replaced)
    assert (got["containers"], got["labels"]) == ([{"name": "c"}], {})
