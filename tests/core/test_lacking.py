"""What groups fall short of and who gave way to whom: told once, in the log, and ended."""

import pytest
from msgspec.structs import replace

from podgroup.log import events as e
from podgroup.log.records import ShortageChanged
from podgroup.model.ids import GroupID
from podgroup.model.policy import Policy
from podgroup.model.shortage import BORROWING, COHORT, LENDING, NOMINAL, Shortage
from tests.core.test_laws import reloaded, replayed
from tests.core.test_shared_quota import of, team
from tests.support.toy import Toy


def said(toy: Toy) -> list[ShortageChanged]:
    return [r for one in toy.concluded for r in one.records if isinstance(r, ShortageChanged)]


def short(toy: Toy, name: str) -> Shortage:
    lack = toy.group(name).quota.shortage
    assert lack is not None
    (one,) = lack.shortages
    assert (one.flavor, one.resource) == ("f", "cpu")
    return one


def where(one: Shortage) -> tuple[str, str, int, int, int]:
    """Node, limit, and cores: asked for, available, without the limit."""
    amounts = (one.requested, one.available, one.without)
    return one.node, one.limit, *(amount // 1000 for amount in amounts)  # type: ignore[return-value] # three


def singles(toy: Toy, team: str, count: int, name: str = "", cpu: int = 1) -> list[str]:
    names = [f"{name or team}{n}" for n in range(count)]
    for one in names:
        toy.pod(one, cpu=cpu, labels=of(team))
    return names


def test_a_queue_of_its_own_is_short_of_its_own_quota() -> None:
    toy = Toy(cpu=4)
    toy.run(*singles(toy, "lq", 3))
    toy.pod("late", cpu=2)
    assert where(short(toy, "late")) == ("cq", NOMINAL, 2, 1, 1)
    toy.pod("huge", cpu=9)
    assert where(short(toy, "huge")) == ("cq", NOMINAL, 9, 4, 4)
    assert short(toy, "huge").ever and not short(toy, "late").ever
    replayed(toy)


def test_the_limit_is_named_that_ends_the_search_for_room() -> None:
    toy = Toy()
    team(toy, "red", 4, lends=3)
    team(toy, "blue", 4, borrows=2)
    team(toy, "green", 0)
    toy.run(*singles(toy, "blue", 6))
    singles(toy, "blue", 1, "more")
    one = short(toy, "more0")
    assert (where(one), one.cohort) == (("blue", BORROWING, 1, 0, 1), False), "red lends 1 more"
    toy.run(*singles(toy, "green", 1))
    singles(toy, "green", 1, "last")
    one = short(toy, "last0")
    assert (where(one), one.cohort, one.lender) == (("lab", LENDING, 1, 0, 1), True, "red")
    toy.pod("own", labels=of("red"))
    toy.run("own")
    singles(toy, "green", 2, "late")
    assert where(short(toy, "late0")) == ("lab", COHORT, 1, 0, 0), "red uses what it kept"
    replayed(toy)


def test_it_is_told_once_however_often_it_is_tried_and_whoever_waits_with_it() -> None:
    toy = Toy(cpu=4)
    toy.run(*singles(toy, "lq", 4))
    waiting = singles(toy, "lq", 10, "w", cpu=3)
    assert [r.group for r in said(toy)] == [toy.group(one).id for one in waiting], "each once"
    toy.pod("other", cpu=2)
    told = len(said(toy))
    for number in range(2):
        toy.end(f"lq{number}")  # there is 1, then 2: everybody is tried again
    assert toy.group("w0").quota.shortage == toy.group("w0").quota.shortage
    assert len(said(toy)) == told, "of the same short, by the same limit"
    toy.end("lq2", "lq3")
    assert not toy.gated("w0") or not toy.gated("other")
    lacking = {g.name for g in toy.world.groups.values() if g.quota.shortage is not None}
    assert lacking == {p.name for p in toy.pods.values() if p.gates}, "who is in lacks nothing"
    replayed(toy)


def test_rows_begin_and_end_and_what_is_short_outlives_a_restart() -> None:
    toy = Toy(cpu=4)
    toy.run(*singles(toy, "lq", 4))
    toy.pod("w", cpu=2)
    was = toy.group("w").quota.shortage
    journal = toy.world.journal
    toy.world = reloaded(toy.world)
    toy.world.journal = journal
    assert toy.group("w").quota.shortage == was is not None
    toy.end("lq0")
    (row,) = toy.world.journal.shortages.values()
    assert (row.group, row.cluster_queue, row.to_at) == (toy.group("w").id, "cq", None)
    toy.end("lq1")
    assert not toy.gated("w")
    (row,) = toy.world.journal.shortages.values()
    assert row.to_at is not None and row.to_at > row.from_at
    replayed(toy)


@pytest.mark.parametrize("kind", ["cluster_queues", "local_queues"])
def test_a_queue_that_is_stopped_ends_what_its_groups_fall_short_of(kind: str) -> None:
    toy = Toy(cpu=1)
    toy.run(*singles(toy, "lq", 1))
    toy.pod("w")
    assert toy.group("w").quota.shortage is not None
    for stop in ("Hold", "None"):
        (view,) = getattr(toy.world, kind).values()
        stopped = replace(view, stop_policy=stop, resource_version=toy.bump())
        toy.do(e.ObjectApplied(object=stopped))
        assert (toy.group("w").quota.reason[0] == "OnHold") == (stop == "Hold")
        assert (toy.group("w").quota.shortage is None) == (stop == "Hold")
    replayed(toy)


def test_a_preemption_is_told_with_both_sides() -> None:
    toy = Toy(policy=Policy(fair_sharing=("LessThanOrEqualToFinalShare",)))
    team(toy, "red", 4)
    team(toy, "blue", 4)
    toy.slow = True
    toy.run(*singles(toy, "blue", 8))
    toy.pod("r", cpu=2, labels=of("red"))
    rows = toy.world.journal.preemptions
    assert len(rows) == 2
    for row in rows:
        between = row.between
        assert (between.policy, between.cohort) == ("InCohortReclamation", "lab")
        assert row.victim_was[:2] == ("ns", toy.world.groups[GroupID(row.victim)].name)
        assert row.preemptor_was == ("ns", "r", 0)
        victim, preemptor = between.victim, between.preemptor
        assert (victim.cluster_queue, preemptor.cluster_queue) == ("blue", "red")
        assert (victim.borrowed, preemptor.borrowed) == ((("f", "cpu", 4000),), ())
        assert (victim.share, preemptor.share) == (500, 0), "4 of the 8 that could be lent"
        assert row.assignments[0].usage == {"cpu": 1000}
    one = short(toy, "r")
    assert where(one) == ("lab", COHORT, 2, 0, 0)
    replayed(toy)
