"""What is said of a standstill, by what is known: pure."""

from datetime import UTC, datetime, timedelta

import pytest

from gatelog.readmodel import heldup, standstill
from gatelog.readmodel.rows import HeldUpRow, ReplicaRow
from runtime.streak import AFTER_S, FORGET_S, Streak
from tests.standstill import reference

NOW = datetime(2026, 11, 23, 10, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def replica(
    part: str, instance: str = "a", problem: str = "", *, leads: bool = False, heard: float = 1,
    since: float = 100,
) -> ReplicaRow:  # fmt: skip
    return ReplicaRow(part, instance, problem, leads, ago(since), ago(heard))


WELL = [replica(part, instance) for part in standstill.PARTS for instance in "ab"]


def said(*rows: ReplicaRow) -> dict[str, tuple[bool, str]]:
    found = standstill.troubles(rows, NOW)
    assert all(one.remedy for one in found)
    return {one.part: (one.stopped, one.sentence) for one in found}


def test_of_what_works_nothing_is_said() -> None:
    assert said(*WELL) == {}


def test_a_part_is_stopped_if_the_one_that_leads_or_all_of_them_cannot_work() -> None:
    others = [row for row in WELL if row.part != "ingest"]
    full = "NATS stores nothing on events.>: failed 2 times in 12 s, last: no answer"
    leading = said(*others, replica("ingest", "a", full, leads=True), replica("ingest", "b"))
    assert leading["ingest"] == (True, f"ingest cannot work, since 1 m 40 s: {full}")
    both = said(*others, replica("ingest", "a", full), replica("ingest", "b", full))
    assert both["ingest"][0]
    standby = said(*others, replica("ingest", "a", leads=True), replica("ingest", "b", full))
    assert not standby["ingest"][0]


def test_silence_is_absence_and_without_a_projector_nothing_else_is_known() -> None:
    others = [row for row in WELL if row.part != "actuator"]
    assert said(*others)["actuator"][1] == "no actuator runs: none has said how it is"
    gone = said(*others, replica("actuator", heard=70))
    assert gone["actuator"] == (True, "no actuator runs: nothing was heard of one for 1 m 10 s")
    one = said(*others, replica("actuator", "a"), replica("actuator", "b", heard=70))
    assert not one["actuator"][0] and "actuator b has said nothing" in one["actuator"][1]
    assert list(said(*(row for row in WELL if row.part == "ingest"))) == ["projector"]
    assert list(said()) == ["projector"]


def test_what_starts_and_ends_again_and_again_does_not_work() -> None:
    others = [row for row in WELL if row.part != "actuator"]
    ended = [replica("actuator", i, since=s + 33, heard=s + 30) for s, i in enumerate("abc", 1)]
    young = replica("actuator", "d", since=3)
    assert said(*others, *ended, young)["actuator"] == (
        True,
        "actuator starts and ends again and again: 3 replicas fell silent, none lasts",
    )
    lasting = replica("actuator", "d", since=25)
    assert not said(*others, *ended, lasting)["actuator"][0]
    assert not said(*others, *ended[1:], young)["actuator"][0]


def test_who_cannot_hear_the_others_does_not_accuse_them() -> None:
    deaf = [replica("projector", i, "NATS: Connection refused") for i in "ab"]
    silent = [replica(part, heard=90) for part in ("ingest", "actuator")]
    assert list(said(*deaf, *silent)) == ["projector"]


def held(**more: object) -> HeldUpRow:
    row = {
        **{"namespace": "ns", "name": "g", "kind": "group", "state": "Admitted", "queue": "q"},
        **{"cluster_queue": "cq", "priority": 0, "pods": 1, "since": ago(73), "decided": 1},
        **{"decided_at": ago(73), "tries": 0, "last_at": None, "http_status": 0, "said": ""},
        **more,
    }
    return HeldUpRow(**row)  # type: ignore[arg-type]


def test_a_gate_that_stays_says_what_was_tried_how_often_and_what_was_answered() -> None:
    tried = held(tries=3, last_at=ago(12), http_status=403, said="pods p is forbidden")
    assert heldup.sentence(tried, NOW) == (
        "admitted 1 m 13 s ago; the gate could not be removed: refused 3 times, last 403 "
        "12.0 s ago: pods p is forbidden"
    )
    assert "no actuator has answered" in heldup.sentence(held(), NOW)
    assert "no decision to remove it" in heldup.sentence(held(decided=0), NOW)
    assert "the gates of 4 pods" in heldup.sentence(held(pods=4), NOW)


def test_a_streak_is_a_problem_once_it_has_lasted_until_a_success_or_long_silence() -> None:
    now = 0.0
    streak = Streak("no gate could be removed", clock=lambda: now)
    streak.failed("403")
    assert streak.problem == ""
    now = AFTER_S
    streak.failed("404")
    assert streak.problem == "no gate could be removed: failed 2 times in 10 s, last: 404"
    now += FORGET_S
    assert streak.problem
    now += 1
    assert streak.problem == ""
    streak.failed("403")
    now += AFTER_S
    assert streak.problem.endswith("failed once in 10 s, last: 403")
    streak.succeeded()
    assert streak.problem == ""


def test_failures_of_too_few_objects_are_theirs() -> None:
    now = 0.0
    streak = Streak("no gate could be removed", objects=3, clock=lambda: now)
    for _ in range(30):
        streak.failed("403", "a")
        streak.failed("403", "b")
        now += 1
    assert streak.problem == ""
    streak.failed("403", "c")
    assert streak.problem.startswith("no gate could be removed: failed 61 times in 30 s")
    now += FORGET_S + 1
    streak.failed("403", "a")
    now += AFTER_S
    streak.failed("403", "b")
    assert streak.problem == "", "the third was long ago"


@pytest.mark.parametrize(
    ("problem", "doing"),
    [
        ("API server: this account may not patch pods", "helm -n gatelog-system get manifest"),
        ("gates: no gate could be removed: failed 3 times in 12 s, last: PATCH /api/v1/pods/a: 403 "
         "admission webhook denied the request: env may not change", "the answer names"),
        ("gates: no gate could be removed: failed 3 times in 12 s, last: PATCH /api/v1/pods/a: 500 "
         "x509: certificate has expired", "the answer names"),
        ("database: certificate has expired", "is PostgreSQL up"),
        ("boom", "says more"),
    ],
)  # fmt: skip
def test_the_remedy_is_for_what_we_say_not_for_what_another_server_answered(
    problem: str, doing: str
) -> None:
    assert doing in standstill.remedy_of(problem)


def test_the_page_has_the_table() -> None:
    assert reference.written() == reference.table(), "python -m tests.standstill.reference"
