"""The table of reasons against what groups of the golden logs waited for, and what rules say."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from podgroup import rules
from podgroup.fold.group import explained, quota
from podgroup.log.records import Explained, Pending
from podgroup.model import names
from podgroup.model.reasons import PLAIN, REASONS, effect_of
from tests.golden import rows as golden
from tests.support.toy import Toy

GOLDEN = golden.logs("v1")


def test_whatever_a_group_waited_for_is_in_the_table() -> None:
    known = {reason.word for reason in REASONS if reason.waits}
    seen: dict[str, str] = {}
    for path in GOLDEN:
        log = golden.FileLog(path)
        if log.header.mode != "builtin":
            continue  # Kueue says reasons of its own
        for row in golden.parsed(golden.kept(path)).get("waits", []):
            seen.setdefault(row["reason"], path.name)
    assert len(seen) > 15
    assert {word: where for word, where in seen.items() if word not in known} == {}


def test_blocked_is_what_the_golden_logs_call_blocked() -> None:
    blocked = {reason.word for reason in REASONS if reason.blocked}
    for path in GOLDEN:
        for row in golden.parsed(golden.kept(path)).get("groups", []):
            if row["state"] == "Blocked" and row["wait_reason"]:
                assert row["wait_reason"] in blocked, (path.name, row["wait_reason"])


def _warnings() -> Iterator[tuple[str, str]]:
    """Yield (module, reason) of every Warning that a rule writes, by name or as it is."""
    for page in Path(rules.__path__[0]).rglob("*.py"):
        inside = page.relative_to(Path(rules.__path__[0]).parents[1]).with_suffix("")
        for call in ast.walk(ast.parse(page.read_text())):
            if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "KubeEvent":
                continue
            given = {k.arg: k.value for k in call.keywords}
            kind, reason = given["type"], given["reason"]
            if isinstance(kind, ast.Constant) and kind.value != "Warning":
                continue
            if isinstance(reason, ast.Constant):
                yield page.name, reason.value
            elif isinstance(reason, ast.Name):
                module = importlib.import_module(".".join(inside.parts))
                if isinstance(named := getattr(module, reason.id, None), str):
                    yield page.name, named


def test_whatever_rules_warn_of_is_in_the_table_or_is_kueues() -> None:
    known = {reason.event_name for reason in REASONS}
    known |= {value for name, value in vars(names).items() if name.startswith("EVENT_")}
    said = set(_warnings())
    assert len(said) >= 5
    unknown = {(where, word) for where, word in said if word not in known}
    assert not unknown, f"say in podgroup/model/reasons.py what these Warnings mean: {unknown}"


def _said(toy: Toy) -> Iterator[Pending | Explained]:
    """Yield the records that say a reason."""
    for concluded in toy.concluded:
        for record in concluded.records:
            if isinstance(record, Pending) or (
                isinstance(record, Explained) and (record.wait or record.reason is not None)
            ):
                yield record


def test_what_follows_from_a_reason_is_recorded_be_it_nothing() -> None:
    """Who adds an effect to a word changes nothing that was recorded before."""
    toy = Toy(cpu=1)
    toy.pod("odd", "g", 0)
    toy.pod("few", "h", 2)
    toy.pod("runs")
    toy.pod("waits")
    told = [record.effect for record in _said(toy)]
    assert None not in told and PLAIN in told and len(set(told)) > 2
    wire = msgspec.json.encode(list(_said(toy)))
    again = msgspec.json.decode(wire, type=list[Pending | Explained])
    assert [record.effect for record in again] == told


def test_what_a_log_says_of_a_reason_goes_before_the_word() -> None:
    toy = Toy()
    toy.pod("few", "h", 2)
    group = toy.group("h")
    word = group.explained.reason
    assert group.quota.effect == group.explained.effect == effect_of(word) != PLAIN
    quota.refused(group, word, "", PLAIN)
    explained.said(group, None, word, None, PLAIN)
    assert group.quota.effect == group.explained.effect == PLAIN
    # A log from before the field bears none: the word is read.
    quota.refused(group, word, "", None)
    explained.said(group, None, word, None, None)
    assert group.quota.effect == group.explained.effect == effect_of(word)
