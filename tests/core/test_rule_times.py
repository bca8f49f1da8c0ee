"""No rule of a group compares a time with now: it asks `helpers.timing`, which sets a timer.

A rule that compares by itself concludes at whatever message comes next, or never: where a change
touches nothing that rules read, none is asked (`podgroup.state.changes`), and no story may have the
annotation or the setting that the rule goes by. So the rules are read.
"""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from podgroup import rules
from podgroup.rules import RULES
from podgroup.rules.helpers import timing
from podgroup.rules.helpers.rule import ClusterRule

TAKEN = {"given_up_at", "lost_at", "ran_s", "usage_of_live"}
"""What may be told the time: functions whose answer is looked at when a timer fires."""
_ORDER = ast.Lt | ast.LtE | ast.Gt | ast.GtE
HELP = (
    "compares the time by itself: ask `is_over` or `fallen_due` of podgroup/rules/helpers/timing.py"
)


def _names_now(node: ast.AST) -> bool:
    """It is `….here.at` or `….meta.at`."""
    if not (isinstance(node, ast.Attribute) and node.attr == "at"):
        return False
    return _last_name(node.value) in ("here", "meta")


def _last_name(node: ast.expr) -> str:
    """Return the name of a variable, or of an attribute; "" for anything else."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _bound(function: ast.FunctionDef) -> set[str]:
    """Return other names that the time of the message gets in a function."""
    known: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                targets = [target]
            case ast.NamedExpr(target=target, value=value):
                targets = [target]
            case _:
                continue
        if any(map(_names_now, _parts(value))):
            known |= {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
    return known


def _parts(value: ast.expr) -> list[ast.expr]:
    """Return what names are bound to: of a tuple each part."""
    return list(value.elts) if isinstance(value, ast.Tuple) else [value]


def _now(node: ast.AST, known: set[str]) -> bool:
    """It is made of the time of the message."""
    return any(
        _names_now(part) or (isinstance(part, ast.Name) and part.id in known)
        for part in ast.walk(node)
    )


def _tells(call: ast.Call, known: set[str]) -> bool:
    """It hands the time to a function that is no class and may not be told."""
    name = _last_name(call.func)
    if name in TAKEN or name[:1].isupper():
        return False
    return any(_now(part, known) for part in (*call.args, *(k.value for k in call.keywords)))


def compared(text: str) -> Iterator[int]:
    """Yield the lines of a module at which the time of the message is compared or counted from."""
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        known = _bound(function)
        for node in ast.walk(function):
            parts: list[ast.expr] = []
            if not isinstance(node, ast.expr):
                continue
            if isinstance(node, ast.Compare) and any(isinstance(op, _ORDER) for op in node.ops):
                parts = [node.left, *node.comparators]
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                parts = [node.left, node.right]
            elif isinstance(node, ast.Call) and _tells(node, known):
                yield node.lineno
            if any(_now(part, known) for part in parts):
                yield node.lineno


def _of_groups() -> list[Path]:
    """Modules of rules that are asked of groups, and their helpers."""
    whole = {rule.run.__module__ for rule in RULES if isinstance(rule, ClusterRule)}
    apart = {Path(str(importlib.import_module(name).__file__)) for name in whole}
    apart.add(Path(str(timing.__file__)))
    return sorted(set(Path(rules.__path__[0]).rglob("*.py")) - apart)


@pytest.mark.parametrize("file", _of_groups(), ids=lambda file: file.stem)
def test_no_rule_compares_times_by_itself(file: Path) -> None:
    lines = [f"{file.name}:{line} {HELP}" for line in compared(file.read_text())]
    assert lines == []


@pytest.mark.parametrize(
    "line",
    [
        "if due <= ctx.here.at: return ()",
        "if ctx.world.meta.at > due: return ()",
        "waited_s = (ctx.here.at - group.created_at).total_seconds()",
        "if _is_late(group, ctx.here.at): return ()",
        "last = max(due, ctx.here.at)",
        "now = ctx.here.at\n    if now > due: return ()",
        "now: datetime = ctx.here.at\n    if now > due: return ()",
        "if (now := ctx.here.at) > due or due < now: return ()",
        "if (now := ctx.here.at) and due < now: return ()",
        "first, now = due, ctx.here.at\n    if now > due: return ()",
        "if group.explained.is_late(ctx.here.at): return ()",
        "if helpers.lateness.is_late(group, at=ctx.world.meta.at): return ()",
        "if group.parts[0].is_late(ctx.here.at): return ()",
    ],
)
def test_each_way_to_compare_is_found(line: str) -> None:
    assert list(compared(f"def rule(ctx, group, due):\n    {line}\n"))


@pytest.mark.parametrize(
    "line",
    [
        "yield Readied(group.id, False, ctx.here.at)",
        "yield Reportable(group.id, said, ctx.here.at + HOLD)",
        "if (yield from is_over(ctx, group, PURPOSE, due)): return",
        "if holding.seq != ctx.here.position: return ()",
        "fresh = group.composition.complete_at == ctx.here.at",
    ],
)
def test_a_time_that_is_written_down_is_compared_with_nothing(line: str) -> None:
    assert not list(compared(f"def rule(ctx, group, due):\n    {line}\n"))
