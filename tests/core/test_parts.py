"""Each part of a group is written by one module."""

import ast
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import fields

import podgroup.fold.group as owners
from podgroup.state.group import Group, Part

ROOT = Path(__file__).parents[2]
PARTS = {one.name: one.type for one in fields(Group) if isinstance(one.type, type(Part))}


def written(source: str) -> Iterator[tuple[str, str]]:
    """Yield (part, field) of each assignment to a part, by whatever name it goes, or ("", part)."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        named = dict(zip(PARTS, PARTS, strict=True))
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
                for target in node.targets:
                    if isinstance(target, ast.Name) and node.value.attr in PARTS:
                        named[target.id] = node.value.attr
        for node in ast.walk(function):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
                continue
            whole = node.value
            name = whole.attr if isinstance(whole, ast.Attribute) else ast.unparse(whole)
            part = named.get(name, "")
            if part and node.attr in PARTS[part].__struct_fields__:
                yield part, node.attr
            elif node.attr in PARTS and ast.unparse(whole) == "group":
                yield "", node.attr


def test_a_part_is_written_by_the_module_of_its_name_alone() -> None:
    home = Path(owners.__file__).parent
    assert {file.stem for file in home.glob("*.py")} == {*PARTS, "__init__"}
    found = {}
    for package in ("podgroup", "projector", "gatelog"):
        for file in (ROOT / package).rglob("*.py"):
            for part, field in written(file.read_text()):
                assert (file.parent, file.stem) == (home, part), f"{file}: {part}.{field}"
                found[part, field] = file
    every = {(part, field) for part, kind in PARTS.items() for field in kind.__struct_fields__}
    assert set(found) == every, "a field that nothing writes"


def test_other_ways_to_write_a_part_are_seen() -> None:
    assert list(written("def f(group): group.quota.holding = None")) == [("quota", "holding")]
    assert list(written("def f(g):\n m = g.mirror\n m.refusals += 1")) == [("mirror", "refusals")]
    assert list(written("def f(group): group.spec = Spec()")) == [("", "spec")]
    assert not list(written("def f(pod): pod.expect = None; pod.larger = True"))
