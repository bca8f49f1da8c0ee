"""Builtin mode on trees of quota: lending, taking back, and what outlives a restart of that."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from podgroup.engine import new_world, step
from podgroup.fold.account import enter, known
from podgroup.log import events as e
from podgroup.model import commands as c
from podgroup.model.names import QUEUE_NAME
from podgroup.model.objects import CohortView, FlavorQuotas, LocalQueueView, Quota, ResourceGroup
from podgroup.model.policy import Policy
from tests.core.test_laws import reloaded, replayed
from tests.support.toy import Toy

HIGH = {"kueue.x-k8s.io/priority-class": "high"}
LOW = {"kueue.x-k8s.io/priority-class": "low"}


def of(team: str, **labels: str) -> dict[str, str]:
    return {QUEUE_NAME: team, **labels}


def team(
    toy: Toy,
    name: str,
    cpu: int,
    lends: int | None = None,
    borrows: int | None = None,
    **more: Any,
) -> None:
    """A ClusterQueue in cohort `lab` and a LocalQueue of the same name."""
    quota = Quota(
        nominal=cpu * 1000,
        lending_limit=None if lends is None else lends * 1000,
        borrowing_limit=None if borrows is None else borrows * 1000,
    )
    groups = (
        ResourceGroup(
            covered=("cpu",), flavors=(FlavorQuotas(name="f", resources={"cpu": quota}),)
        ),
    )
    queue = toy.cluster_queue(cpu)
    more = {"cohort": "lab", "reclaim_within_cohort": "Any"} | more
    toy.do(
        e.ObjectApplied(object=replace(queue, uid=name, name=name, groups=groups, **more)),
        e.ObjectApplied(
            object=LocalQueueView(
                uid=f"l-{name}",
                namespace="ns",
                name=name,
                resource_version=toy.bump(),
                cluster_queue=name,
                active=("True", "Ready", "Can submit new workloads to localQueue"),
            )
        ),
    )


def cohort(toy: Toy, name: str, parent: str = "", cpu: int = 0) -> None:
    groups: tuple[ResourceGroup, ...] = ()
    if cpu:
        quota = {"cpu": Quota(nominal=cpu * 1000)}
        flavors = (FlavorQuotas(name="f", resources=quota),)
        groups = (ResourceGroup(covered=("cpu",), flavors=flavors),)
    toy.do(
        e.ObjectApplied(
            object=CohortView(
                uid=name, name=name, resource_version=toy.bump(), parent=parent, groups=groups
            )
        )
    )


def two_teams(policy: Policy | None = None) -> Toy:
    toy = Toy(policy=policy)
    team(toy, "red", 4, lends=3)
    team(toy, "blue", 4)
    return toy


def started(toy: Toy) -> set[str]:
    return {p.name for p in toy.pods.values() if not p.gates}


def test_a_team_borrows_what_others_lend_and_gives_it_back() -> None:
    toy = two_teams()
    toy.slow = True
    for number in range(8):
        toy.pod(f"b{number}", labels=of("blue"))
    assert started(toy) == {f"b{n}" for n in range(7)}, "red lends 3 of its 4"
    toy.run(*started(toy))
    toy.pod("r", cpu=4, labels=of("red"))
    evicted = [d for d in toy.decisions if isinstance(d.command, c.EvictGroup)]
    assert len(evicted) == 3, "red takes back what blue borrows, and no more"
    assert {d.rule for d in evicted} == {"preempt"}
    for decision in evicted:
        assert decision.reason == "Preempted"
        assert decision.message.startswith("preempted by ns/r (group ")
        assert isinstance(decision.command, c.EvictGroup)
        said = decision.command.message
        right = "(reclaims nominal quota for ClusterQueue red)"
        assert said.startswith(f"preempted by ns/r {right} — "), "both have priority 0"
        assert f" {right} in /lab/red: " in decision.message
        assert "due to reclamation within the cohort; preemptor path: /lab/red" in said
        assert "preemptee path: /lab/blue" in said
    waits = toy.group("r").explained.wait
    assert waits.reason == "WaitingForPreemptedWorkloads"
    assert "Pending the preemption of 3 workload(s)" in waits.message
    victims = [d.name for d in evicted]
    toy.end(*victims[:2], phase="Failed")
    assert toy.gated("r"), "not before all have left"
    toy.end(victims[2], phase="Failed")
    assert not toy.gated("r")
    replayed(toy)


def test_what_is_kept_for_a_preemptor_outlives_a_restart_and_nobody_takes_it() -> None:
    toy = two_teams()
    toy.slow = True
    for number in range(7):
        toy.pod(f"b{number}", labels=of("blue"))
    toy.run(*started(toy))
    toy.pod("r", cpu=4, labels=of("red"))
    kept = toy.group("r").quota.kept
    assert kept is not None and len(kept.victims) == 3
    journal = toy.world.journal
    toy.world = reloaded(toy.world)
    toy.world.journal = journal
    victims = [d.name for d in toy.decisions if isinstance(d.command, c.EvictGroup)]
    toy.end(victims[0], phase="Failed")
    toy.pod("small", labels=of("red"))
    assert toy.gated("small") and toy.gated("r")
    assert toy.group("r").quota.kept == kept
    assert len([d for d in toy.decisions if isinstance(d.command, c.EvictGroup)]) == 3
    toy.end(*victims[1:], phase="Failed")
    assert not toy.gated("r") and toy.gated("small")
    assert toy.group("r").quota.kept is None


FAIR = Policy(fair_sharing=("LessThanOrEqualToFinalShare",))


def contested(seed: int) -> Toy:
    """Three teams fill what they share, and then ask for more at higher priorities."""
    chance = random.Random(seed)
    teams = ["red", "blue", "green"]
    toy = Toy(policy=FAIR)
    toy.slow = True
    for name in teams:
        team(toy, name, chance.choice([0, 1, 2]), reclaim_within_cohort="LowerPriority")
    cohort(toy, "lab", cpu=6)
    for number in range(9):
        toy.pod(f"a{number}", labels=of(chance.choice(teams), **LOW))
        toy.run(*started(toy))
    for number in range(9):
        labels = of(chance.choice(teams), **chance.choice([HIGH, {}]))
        toy.pod(f"b{number}", labels=labels)
        if (victims := leaving(toy)) and chance.random() < 0.4:
            toy.end(victims[0], phase="Failed")
    while victims := leaving(toy):
        toy.end(victims[0], phase="Failed")
    return toy


def leaving(toy: Toy) -> list[str]:
    """Names of the pods that are preempted and still run, the first preempted first."""
    running = {p.name for p in toy.pods.values() if p.phase == "Running" and not p.gates}
    evicted = [d.name for d in toy.decisions if isinstance(d.command, c.EvictGroup)]
    return [name for name in evicted if name in running]


def test_who_lost_a_claim_is_known_after_a_restart_and_its_victims_wait_on() -> None:
    toy = contested(28)
    whole, world = new_world("test", "builtin", FAIR), new_world("test", "builtin", FAIR)
    decisions, lost = [], 0
    for position, at, batch in toy.messages:
        step(whole, position, at, batch)
        world = reloaded(world)
        world.policy = FAIR
        step(world, position, at, batch)
        decisions += world.journal.decisions
        if whole.quotas.deciding is None:
            continue
        live, fresh = whole.quotas.scheduler.cache, known(whole).scheduler.cache
        there = live.queues.waiting.keys() | live.reservations.admitted.keys()
        assert fresh.claims.lost == live.claims.lost
        for who in there:
            assert fresh.claims.held_back.get(who) == live.claims.held_back.get(who)
        lost += bool(live.claims.lost)
    assert lost, "no claim has passed to a smaller share"
    assert decisions == toy.world.journal.decisions
    replayed(toy)


def test_quota_of_a_cohort_comes_and_goes_with_the_object() -> None:
    toy = two_teams()
    toy.pod("big", cpu=9, labels=of("blue"))
    assert toy.group("big").explained.wait.reason == "ExceedsMaxQuota"
    cohort(toy, "lab", cpu=2)
    assert not toy.gated("big")
    assert toy.decisions[-1].message != "" and "borrowing from its cohort" in next(
        d.message for d in toy.decisions if d.rule == "admit"
    )
    cohort(toy, "lab", parent="all")
    toy.pod("next", cpu=2, labels=of("blue"))
    assert toy.gated("next"), "more is in use than there is"


def test_a_circle_of_cohorts_takes_nobody_in_and_is_named() -> None:
    toy = two_teams()
    cohort(toy, "lab", parent="all")
    cohort(toy, "all", parent="lab")
    toy.pod("r", labels=of("red"))
    assert toy.group("r").explained.state == "Blocked"
    assert "circle of cohorts: lab -> all -> lab" in toy.group("r").explained.message
    status, reason, message = toy.world.cluster_queues["red"].active
    assert (status, reason) == ("False", "CohortCycle") and "lab -> all -> lab" in message
    assert toy.world.cohorts["all"].active[:2] == ("False", "CohortCycle")
    cohort(toy, "all")
    assert not toy.gated("r")
    assert toy.world.cohorts["all"].active[0] == "True"


def chain(toy: Toy, length: int, last: str = "") -> None:
    """Cohort lab with so many above it, one above the other; the last one has parent `last`."""
    names = ["lab", *(f"above-{n}" for n in range(length))]
    toy.do(
        *(
            e.ObjectApplied(
                object=CohortView(uid=name, name=name, resource_version=toy.bump(), parent=parent)
            )
            for name, parent in zip(names, [*names[1:], last], strict=True)
        )
    )


def test_cohorts_that_are_nested_too_deep_admit_nobody_below_and_cost_little() -> None:
    toy = two_teams()
    team(toy, "apart", 4, cohort="")
    chain(toy, 100)
    toy.pod("r", cpu=6, labels=of("red"))
    assert not toy.gated("r"), "a hundred are no reason"
    for length, last in ((101, ""), (2_000, ""), (2_000, "lab"), (2_000, "above-1990")):
        chain(toy, length, last)
        for name in ("red", "apart"):
            toy.pod(f"{name}-{length}{last}", labels=of(name))
        assert toy.gated(f"red-{length}{last}")
        assert not toy.gated(f"apart-{length}{last}")
        assert toy.world.cluster_queues["red"].active[1] == "CohortsTooDeep"
        assert toy.world.cohorts["lab"].active == (
            *("False", "CohortsTooDeep"),
            "Is below more than 100 cohorts, one above the other",
        )
    circle = toy.world.cohorts["above-1995"].active
    assert circle[1] == "CohortCycle" and len(circle[2]) < 1_000
    chain(toy, 3)
    assert not toy.gated("red-101")


def test_what_builtin_mode_does_not_heed_is_said() -> None:
    toy = Toy()
    team(toy, "red", 4, usage_based=True)
    status, _, message = toy.world.cluster_queues["red"].active
    assert status == "True"
    assert "; ignored fields: admissionScope (queueing.usage_half_life_s" in message


@pytest.mark.parametrize("strategies", [(), ("LessThanOrEqualToFinalShare",)])
def test_shares_decide_where_they_are_asked_for(strategies: tuple[str, ...]) -> None:
    toy = Toy(policy=Policy(fair_sharing=strategies))
    for name, cpu in (("red", 0), ("blue", 0), ("green", 6)):
        team(toy, name, cpu)
    for number in range(6):
        toy.pod(f"b{number}", labels=of("blue"))
    toy.run(*started(toy))
    for number in range(6):
        toy.pod(f"r{number}", labels=of("red"))
    mine = {name[0] for name in started(toy)}
    assert mine == ({"b", "r"} if strategies else {"b"})
    shares = sum(name.startswith("r") for name in started(toy))
    assert shares == (3 if strategies else 0)


def test_nobody_is_told_again_because_amounts_change() -> None:
    toy = two_teams()
    toy.pod("b", cpu=7, labels=of("blue"))
    toy.pod("waits", cpu=6, labels=of("blue"))
    said = toy.group("waits").explained.wait
    assert "more needed" in said.message
    toy.pod("r", labels=of("red"))
    toy.run("r")
    toy.end("r")
    assert toy.group("waits").explained.wait == said


@pytest.mark.parametrize("seed", range(12))
def test_what_is_kept_up_to_date_equals_what_is_made_anew(seed: int) -> None:
    rng = random.Random(seed)
    toy = two_teams()
    team(toy, "green", 2, strategy="StrictFIFO")
    for number in range(40):
        match rng.randrange(5):
            case 0 | 1:
                labels = of(rng.choice(["red", "blue", "green"]), **rng.choice([HIGH, LOW, {}]))
                toy.pod(f"p{number}", cpu=rng.randint(1, 4), labels=labels)
            case 2:
                ready = [n for n in started(toy) if toy.named(n).phase == "Pending"]
                toy.run(*ready[:2])
            case 3:
                running = sorted(p.name for p in toy.pods.values() if p.phase == "Running")
                if running:
                    toy.end(rng.choice(running))
            case 4:
                cohort(toy, "lab", cpu=rng.randint(0, 3))
    enter(toy.world)
    kept, anew = (
        toy.world.quotas.scheduler.cache,
        known(toy.world).scheduler.cache,
    )
    kept.settle(0)
    assert kept.reservations.admitted.keys() == anew.reservations.admitted.keys()
    assert kept.queues.waiting.keys() >= anew.queues.waiting.keys()
    for name, node in anew.objects.present.queues.items():
        there = kept.objects.present.queues[name]
        assert {k: v for k, v in there.usage.items() if v} == {
            k: v for k, v in node.usage.items() if v
        }
    assert sum(kept.objects.present.cohorts["lab"].usage.values()) == sum(
        anew.objects.present.cohorts["lab"].usage.values()
    )


def resumed(toy: Toy) -> None:
    journal, policy = toy.world.journal, toy.world.policy
    toy.world = reloaded(toy.world)
    toy.world.journal, toy.world.policy = journal, policy


def happens(toy: Toy, what: int, pick: float, name: str, **pod: Any) -> None:
    """Let a pod come or pods run, or one end that may be evicted, or a minute go by."""
    running = sorted(p.name for p in toy.pods.values() if p.phase == "Running")
    evicted = [one for one in running if toy.group(one).requeueing.evicted is not None]
    match what:
        case 0 | 1 | 2:
            toy.pod(name, **pod)
        case 3:
            toy.run(*(n for n in sorted(started(toy)) if toy.named(n).phase == "Pending"))
        case 4 if running:
            toy.end(running[int(pick * len(running))])
        case 5 if evicted:
            toy.end(evicted[int(pick * len(evicted))], phase="Failed")
        case 6:
            toy.wait(60)


def decide_and_say_the_same(toys: list[Toy]) -> None:
    one, other = ([(d.id, d.rule, d.message) for d in toy.decisions] for toy in toys)
    assert other == one
    assert [g.explained.wait for g in toys[1].world.groups.values()] == [
        g.explained.wait for g in toys[0].world.groups.values()
    ]


@pytest.mark.parametrize("restart", [False, True])
def test_what_the_head_of_a_strict_queue_waits_for_is_kept_for_it_after_a_start(
    restart: bool,
) -> None:
    toy = Toy()
    toy.slow = True
    team(toy, "red", 3, strategy="StrictFIFO", reclaim_within_cohort="Never")
    team(toy, "blue", 3)
    toy.pod("first", cpu=1, labels=of("red"))
    toy.pod("b", cpu=3, labels=of("blue"))
    toy.run("first", "b")
    toy.pod("head", cpu=3, labels=of("red"))
    kept = toy.group("head").quota.kept
    assert kept is not None and kept.head
    assert [one.usage for one in kept.assignments] == [{"cpu": 2000}], "what is free of its own"
    if restart:
        resumed(toy)
    toy.pod("borrower", cpu=1, labels=of("blue"))
    assert toy.gated("borrower"), "nobody borrows what the head waits for"
    toy.pod("behind", cpu=1, labels=of("red"))
    assert toy.gated("behind"), "nobody passes it"
    toy.end("first")
    assert not toy.gated("head") and toy.group("head").quota.kept is None
    assert toy.gated("borrower") and toy.gated("behind")
    if not restart:
        replayed(toy)


KUEUE = Policy(compatibility="kueue")


@pytest.mark.parametrize("restart", [False, True])
def test_a_preemptor_stays_before_all_others_after_a_start_where_kueue_has_it_so(
    restart: bool,
) -> None:
    toy = Toy(policy=KUEUE)
    toy.slow = True
    team(toy, "red", 4, cohort="", reclaim_within_cohort="Never")
    toy.pod("first", cpu=4, labels=of("red"))
    toy.run("first")
    toy.pod("preemptor", cpu=4, labels=of("red", **LOW))
    toy.pod("behind", cpu=4, labels=of("red", **HIGH))
    kept = toy.group("preemptor").quota.kept
    assert kept is not None and kept.head and kept.assignments == ()
    if restart:
        resumed(toy)
    toy.end("first", phase="Failed")
    admitted = [d.name for d in toy.decisions if d.rule == "admit"]
    assert admitted[:2] == ["first", "preemptor"], "whoever else came meanwhile"
    if not restart:
        replayed(toy)


@pytest.mark.parametrize("restart", [False, True])
def test_a_strict_head_keeps_nobody_from_coming_first_after_a_start_by_kueues_ways(
    restart: bool,
) -> None:
    toy = Toy(policy=KUEUE)
    team(toy, "red", 4, strategy="StrictFIFO", cohort="", reclaim_within_cohort="Never")
    toy.pod("running", cpu=2, labels=of("red"))
    toy.pod("head", cpu=4, labels=of("red"))
    told = toy.group("head").explained.wait
    if restart:
        resumed(toy)
    toy.pod("behind", cpu=1, labels=of("red"))
    assert toy.group("head").explained.wait == told
    assert toy.group("behind").quota.reason[0] == "", "nobody looked at it"
    toy.pod("urgent", cpu=2, labels=of("red", **HIGH))
    assert not toy.gated("urgent") and toy.gated("behind")


@pytest.mark.parametrize(
    ("policy", "seed"),
    [(Policy(), seed) for seed in range(12)] + [(KUEUE, s) for s in (1, 4, 7, 26, 138, 140)],
    ids=lambda each: each.compatibility if isinstance(each, Policy) else str(each),
)
def test_starting_anew_at_any_moment_decides_and_tells_the_same(policy: Policy, seed: int) -> None:
    rng = random.Random(seed)
    toys = [Toy(policy=policy), Toy(policy=policy)]
    for name in ("red", "blue", "green"):
        ways: dict[str, Any] = {
            "strategy": rng.choice(["StrictFIFO", "StrictFIFO", "BestEffortFIFO"]),
            "reclaim_within_cohort": rng.choice(["Any", "Never", "LowerPriority"]),
            "within_cluster_queue": rng.choice(["Never", "LowerPriority"]),
        }
        for toy in toys:
            toy.slow = True
            team(toy, name, 3, **ways)
    for number in range(30):
        what, cpu, pick, restart = rng.randrange(6), rng.randint(1, 5), rng.random(), rng.random()
        labels = of(rng.choice(["red", "blue", "green"]), **rng.choice([HIGH, LOW, {}]))
        for toy in toys:
            if toy is toys[1] and restart < 0.4:
                resumed(toy)
            happens(toy, what, pick, f"p{number}", labels=labels, cpu=cpu)
        decide_and_say_the_same(toys)
