"""Rules look at the state and write nothing to it: what they change, they made themselves.

What is decoded is frozen, so it cannot be written. What the fold keeps is not, for the sake of
speed; the rules are read here instead, for each write to an object that they did not make.
"""

import ast
import re
from pathlib import Path
from typing import get_type_hints

import pytest
from msgspec import Struct

from podgroup import rules
from podgroup.log import events, records
from podgroup.model import commands, objects
from podgroup.state import changes, facts, members, quota

_CHANGING = (
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop"}
    | {"popitem", "popleft", "remove", "reverse", "setdefault", "sort", "subtract", "update"}
    | {"__setattr__", "__setitem__", "__delitem__"}
)
_MADE = ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp | ast.Call


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def _root(place: ast.expr) -> str:
    while isinstance(place, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        place = place.func if isinstance(place, ast.Call) else place.value
    return place.id if isinstance(place, ast.Name) else ""


def _is_made(value: ast.expr | None) -> bool:
    """It is a new object: a display, or what a class gives."""
    if not isinstance(value, ast.Call):
        return isinstance(value, _MADE)
    name = ast.unparse(value.func)
    return name in ("dict", "list", "set", "sorted", "defaultdict") or name[:1].isupper()


def _made(function: ast.FunctionDef) -> set[str]:
    """Names that are bound to new objects there, and to nothing else."""
    made: set[str] = set()
    given = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            plain = {each.id for each in targets if isinstance(each, ast.Name)}
            (made if _is_made(node.value) else given).update(plain)
        elif isinstance(node, ast.For | ast.comprehension):
            given |= _names(node.target)
    return made - given


def _changed(function: ast.FunctionDef, methods: set[str]) -> list[str]:
    """What a function writes to that it has not made."""
    places: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.Delete):
            places += node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            places.append(node.target)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in methods:
                places.append(node.func)
    parts = [
        p for place in places for p in (place.elts if isinstance(place, ast.Tuple) else [place])
    ]
    own = _made(function)
    written = [p for p in parts if isinstance(p, ast.Attribute | ast.Subscript)]
    return [ast.unparse(p) for p in written if _root(p) not in own]


def test_what_is_decoded_holds_nothing_that_can_be_written() -> None:
    looked_at = 0
    for module in (commands, events, objects, records):
        for name, kind in vars(module).items():
            if not (isinstance(kind, type) and issubclass(kind, Struct)) or kind is Struct:
                continue
            assert kind.__struct_config__.frozen, name
            for field, told in get_type_hints(kind).items():
                assert not re.search(r"\b(dict|list|set|bytearray)\[", str(told)), (name, field)
                looked_at += 1
    assert looked_at > 200


def _rule_modules() -> list[Path]:
    return sorted(Path(rules.__file__).parent.glob("**/*.py"))


ELSEWHERE = {
    "admit.py": {
        *("judged.clear", "cache.claims.changed.clear", "cache.starts.changed.clear"),
        "ledger.marked.clear",
    },
    "context.py": {"self.world", "self.here"},
    "count.py": {f"total.{part}.update" for part in ("reserved", "used", "unadmitted")},
    "mirror.py": {"wanted.append"},
}
"""What else they write to: admission's own cache, themselves, and what their caller made."""
REFUSED = """
def rule(world, group, pod, seen):
    group.spec.queue = "other"
    group.roles["main"].count = 3
    group.roles["main"] = Role("main")
    pod.ungate_decided, other = True, False
    pod.rejections += 1
    seen.labels["team"] = "b"
    world.groups.clear()
    world.meta.timers.pop("wake")
    world.quotas.charge("group", None)
    world.members[group.id].drop("uid")
    del world.pods["uid"]
    timers = world.meta.timers
    timers.clear()
    for tally in world.quotas.tallies.values():
        tally.used.update({})
"""


def _writing_methods() -> set[str]:
    """Methods of the state's own classes by which they change."""
    found: set[str] = set()
    for module in (members, quota):
        for kind in ast.walk(ast.parse(Path(str(module.__file__)).read_text())):
            if isinstance(kind, ast.ClassDef):
                methods = [each for each in kind.body if isinstance(each, ast.FunctionDef)]
                while more := {
                    each.name
                    for each in methods
                    if each.name not in found
                    and any(x.startswith("self.") for x in _changed(each, _CHANGING | found))
                }:
                    found |= more
    return found


def _written(text: str) -> list[str]:
    methods = _CHANGING | _writing_methods()
    functions = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)]
    return [place for function in functions for place in _changed(function, methods)]


def test_each_write_to_the_state_is_seen() -> None:
    wanted = [line for line in REFUSED.splitlines() if line.startswith("    ")]
    loops = [line for line in wanted if line.endswith(":") or "timers = " in line]
    assert len(_written(REFUSED)) == len(wanted) - len(loops)
    assert not _written("def made():\n    found = {}\n    found['a'] = 1\n    found.update(b=2)\n")


ASKED = [*_rule_modules(), Path(changes.__file__), Path(facts.__file__)]


@pytest.mark.parametrize("file", ASKED, ids=lambda file: file.name)
def test_no_rule_writes_to_what_it_was_given(file: Path) -> None:
    assert set(_written(file.read_text())) == ELSEWHERE.get(file.name, set())


def test_what_a_rule_asks_another_to_conclude_is_yielded() -> None:
    """A call whose conclusions are dropped does nothing, and no type checker says so."""
    trees = [ast.parse(file.read_text()) for file in _rule_modules()]
    concluding = {
        node.name
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and node.returns is not None
        and re.match("Conclusions|Concluding|Decision|Generator", ast.unparse(node.returns))
    }
    assert len(concluding) > 60
    for tree in trees:
        handed = [
            n for n in ast.walk(tree) if isinstance(n, ast.YieldFrom | ast.Yield | ast.Return)
        ]
        yielded = {id(part) for node in handed for part in ast.walk(node)}
        foreign = {
            alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and "podgroup.rules" not in str(node.module)
            for alias in node.names
        }
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name = call.func.id if isinstance(call.func, ast.Name) else ""
            method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if name in concluding - foreign or method in (
                "decision",
                "decision_apart",
                "pending",
                "parked",
            ):
                assert id(call) in yielded, ast.unparse(call)
