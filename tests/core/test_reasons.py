"""The table of reasons against what groups of the golden logs waited for."""

from podgroup.model.reasons import REASONS
from tests.golden import rows as golden

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
