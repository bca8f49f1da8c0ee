"""Counts and usage of queues: what is told, to whom, how often, and that it is in the log."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from podgroup.log import events as e
from podgroup.model import commands as c
from podgroup.model.policy import Policy
from podgroup.model.standing import COUNTS_TIMER, Standing
from tests.core.test_laws import encoded, reloaded, replayed
from tests.core.test_shared_quota import cohort, of, team
from tests.support.toy import Toy

EVERY_S = 5
TOLD = Policy(status_interval_s=EVERY_S)
FAIR = Policy(status_interval_s=EVERY_S, fair_sharing=("LessThanOrEqualToFinalShare",))


def reports(toy: Toy, since: int = 0) -> list[c.ReportQueue]:
    found = [d for d in toy.decisions[since:] if isinstance(d.command, c.ReportQueue)]
    assert {(d.rule, d.group) for d in found} <= {("count", "")}
    return [d.command for d in found if isinstance(d.command, c.ReportQueue)]


def stands(toy: Toy, kind: str, name: str) -> Standing:
    told = toy.world.standings[kind, "ns" if kind == "LocalQueue" else "", name]
    assert told.standing is not None
    return told.standing


def cpu(standing: Standing) -> tuple[int, int, int]:
    """Cores reserved, used and borrowed."""
    (amount,) = standing.amounts
    assert (amount.flavor, amount.resource) == ("f", "cpu")
    return amount.reserved // 1000, amount.used // 1000, amount.borrowed // 1000


def teams(policy: Policy = TOLD) -> Toy:
    toy = Toy(cpu=10, policy=policy)
    team(toy, "red", 4, lends=3)
    team(toy, "blue", 4)
    toy.wait(EVERY_S)
    return toy


def test_queues_and_cohorts_stand_as_groups_come_borrow_and_go() -> None:
    toy = teams()
    for number in range(8):
        toy.pod(f"b{number}", labels=of("blue"))
    toy.run(*(f"b{n}" for n in range(7)))
    toy.wait(EVERY_S)
    blue = stands(toy, "ClusterQueue", "blue")
    assert (blue.pending, blue.reserving, blue.admitted) == (1, 7, 7)
    assert cpu(blue) == (7, 7, 3), "3 more than its 4"
    assert (blue.cohort, blue.root, blue.share) == ("lab", "lab", 429), "3 of the 7 of the cohort"
    front = stands(toy, "LocalQueue", "blue")
    assert (front.pending, front.reserving, front.admitted) == (1, 7, 7)
    assert cpu(front) == (7, 7, 0)
    lab = stands(toy, "Cohort", "lab")
    assert cpu(lab) == (7, 7, 0)
    assert lab.amounts[0].quota == 7000, "red keeps one of its 4 to itself"
    assert {r.target.kind for r in reports(toy)} == {"ClusterQueue", "LocalQueue"}, (
        "lab is implicit"
    )
    toy.end(*(f"b{n}" for n in range(7)))
    toy.run("b7")
    toy.wait(EVERY_S)
    blue = stands(toy, "ClusterQueue", "blue")
    assert (blue.pending, blue.reserving, blue.admitted, cpu(blue)) == (0, 1, 1, (1, 1, 0))
    assert blue.share == 0
    replayed(toy)


def test_each_queue_is_told_once_in_the_interval_and_not_while_nothing_changes() -> None:
    toy = teams()
    since, begin = len(toy.decisions), toy.now
    for number in range(200):
        toy.pod(f"p{number}", labels=of(("red", "blue")[number % 2]))
        toy.wait(0.1)
    took_s = (toy.now - begin).total_seconds()
    often = Counter((r.target.kind, r.target.name) for r in reports(toy, since))
    assert set(often) == {(k, n) for k in ("ClusterQueue", "LocalQueue") for n in ("red", "blue")}
    assert max(often.values()) <= took_s / EVERY_S + 1
    toy.wait(EVERY_S)
    since = len(toy.decisions)
    for _ in range(5):
        toy.wait(EVERY_S)
        toy.do(e.WatchProgressed(kind="Pod", resource_version=toy.bump()))
    assert reports(toy, since) == []
    assert COUNTS_TIMER not in toy.world.meta.timers
    replayed(toy)


def test_a_change_after_a_quiet_time_is_told_at_once() -> None:
    toy = teams()
    toy.wait(10 * EVERY_S)
    since = len(toy.decisions)
    toy.pod("p", labels=of("red"))
    assert [r.target.name for r in reports(toy, since)][:2] == ["red", "red"]


def test_without_an_interval_nothing_is_told() -> None:
    toy = Toy()
    toy.pod("p")
    toy.wait(60)
    assert reports(toy) == []
    assert not toy.world.standings
    assert not toy.world.journal.usage


def test_a_cohort_is_written_where_shares_decide() -> None:
    toy = teams(FAIR)
    cohort(toy, "lab", parent="all")
    toy.wait(EVERY_S)
    for number in range(5):
        toy.pod(f"b{number}", labels=of("blue"))
    toy.wait(EVERY_S)
    written = [r for r in reports(toy) if r.target.kind == "Cohort"]
    assert {(r.target.name, r.fair_sharing) for r in written} == {("lab", True)}
    assert stands(toy, "Cohort", "all").amounts[0].reserved == 5000


def test_a_restart_tells_nothing_anew_and_forgets_nothing() -> None:
    toy = teams()
    toy.wait(EVERY_S)
    toy.pod("a", labels=of("red"))
    toy.pod("b", labels=of("red"))
    before, since = encoded(toy.world), len(toy.decisions)
    toy.world = reloaded(toy.world)
    toy.do(e.WatchProgressed(kind="Pod", resource_version=toy.bump()))
    assert reports(toy, since) == []
    assert encoded(toy.world)["told"] == before["told"]
    toy.wait(EVERY_S)
    assert cpu(stands(toy, "ClusterQueue", "red")) == (2, 2, 0)


def test_what_is_due_is_told_when_the_log_says_so_started_anew_or_not() -> None:
    for anew in (False, True):
        toy = teams()
        toy.wait(EVERY_S)
        toy.pod("a", labels=of("red"))
        toy.pod("b", labels=of("red"))
        assert COUNTS_TIMER in toy.world.meta.timers
        since = len(toy.decisions)
        if anew:
            toy.world = reloaded(toy.world)
        toy.now += timedelta(seconds=2 * EVERY_S)  # the timer's event is on its way
        toy.do(e.WatchProgressed(kind="Pod", resource_version=toy.bump()))
        assert reports(toy, since) == [], anew
        toy.wait(0)
        assert reports(toy, since) and COUNTS_TIMER not in toy.world.meta.timers


def test_a_queue_that_is_deleted_or_made_anew_stands_anew() -> None:
    toy = teams()
    toy.wait(EVERY_S)
    gone = toy.world.cluster_queues["red"]
    toy.do(
        e.ObjectDeleted(
            kind="ClusterQueue",
            namespace="",
            name="red",
            uid=gone.uid,
            resource_version=toy.bump(),
        )
    )
    assert ("ClusterQueue", "", "red") not in toy.world.standings
    open_rows = [r for r in toy.world.journal.usage.values() if r.to_at is None]
    assert "red" not in {r.name for r in open_rows if r.kind == "ClusterQueue"}
    toy.wait(EVERY_S)
    since = len(toy.decisions)
    again: Any = replace(gone, uid="other", resource_version=toy.bump())
    toy.do(e.ObjectApplied(object=again))
    toy.wait(EVERY_S)
    assert ("other", "red") in {(r.target.uid, r.target.name) for r in reports(toy, since)}
    replayed(toy)


def test_usage_rows_of_one_resource_follow_each_other_without_a_gap() -> None:
    toy = teams()
    for number in range(9):
        toy.pod(f"b{number}", labels=of("blue"))
        toy.wait(3)
    rows = sorted(
        (
            r
            for r in toy.world.journal.usage.values()
            if (r.kind, r.name) == ("ClusterQueue", "blue")
        ),
        key=lambda r: r.from_seq,
    )
    assert len(rows) > 3
    for row, following in pairwise(rows):
        assert (row.to_at, row.to_seq) == (following.from_at, following.from_seq)
        assert row.from_at < following.from_at
    assert rows[-1].to_at is None
    assert [r.amount.reserved for r in rows] == sorted(r.amount.reserved for r in rows)
