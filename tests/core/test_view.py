"""Rules see the state through types by which nothing can be written.

The type checker says so, of this file too: an assignment that it lets pass makes its `type: ignore`
one that is not needed, which is an error (`make check`).
"""

import ast
import re
from pathlib import Path
from typing import get_type_hints

from msgspec import Struct

from podgroup import rules
from podgroup.log import events, records
from podgroup.model import commands, objects
from podgroup.model.objects import PodView
from podgroup.state import quota, view
from podgroup.state import world as state
from podgroup.state.members import Members


def refused(world: view.World, group: view.Group, pod: view.Pod, seen: PodView) -> None:
    """What no rule may do; never called."""
    group.spec.queue = "other"  # type: ignore[misc]
    group.roles["main"].count = 3  # type: ignore[misc]
    group.roles["main"] = state.Role("main")  # type: ignore[index]
    pod.ungate_decided = True  # type: ignore[misc]
    seen.phase = "Running"  # type: ignore[misc]
    seen.labels["team"] = "b"  # type: ignore[index]
    world.groups.clear()  # type: ignore[attr-defined]
    world.meta.timers.pop("wake")  # type: ignore[attr-defined]
    world.quotas.charge("group", None)  # type: ignore[attr-defined]
    world.members[group.id].drop("uid")  # type: ignore[attr-defined]
    if group.quota.holding is not None:
        group.quota.holding.admitted = False  # type: ignore[misc]


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


def test_what_rules_see_is_there_and_has_no_setter() -> None:
    told = ast.parse(Path(view.__file__).with_suffix(".pyi").read_text())
    for kind in (node for node in told.body if isinstance(node, ast.ClassDef)):
        own = (
            next(vars(m)[kind.name] for m in (state, quota) if kind.name in vars(m))
            if kind.name != "Members"
            else Members
        )
        assert getattr(view, kind.name) is own
        for member in kind.body:
            assert isinstance(member, ast.FunctionDef), f"{kind.name}: {ast.unparse(member)}"
            assert hasattr(own, member.name), f"{kind.name}.{member.name}"
            marks = [ast.unparse(mark) for mark in member.decorator_list]
            assert marks in (["property"], []), f"{kind.name}.{member.name}"


def _rule_modules() -> list[Path]:
    return sorted(Path(rules.__file__).parent.glob("**/*.py"))


def test_no_rule_names_the_types_that_can_be_written() -> None:
    for file in _rule_modules():
        text = file.read_text()
        assert "podgroup.state.world" not in text, file
        assert "podgroup.fold" not in text, file


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
