"""A least run time before preemption: who is spared, who waits until when, and what is kept.

The laws are played on the scheduler by itself, in simulated time: no victim goes before it has run
for its least time; who comes first in a ClusterQueue is in once that time is over, whatever else
arrives meanwhile; and no eviction is in vain. Stories on the whole core have the rest: reasons,
timers, restarts and replays.
"""

import heapq
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ingest.translate.queues import PriorityWire, workload_priority_class_view
from podgroup.admission import Scheduler
from podgroup.admission.holding import PendingWorkload
from podgroup.admission.model import Configuration
from podgroup.admission.verdicts import Verdicts
from podgroup.log import events as e
from podgroup.model import commands as c
from podgroup.model.least_run import MOST_S, REASONS, by_reason, read
from podgroup.model.names import LEAST_RUN_ANNOTATION, PRIORITY_CLASS
from podgroup.model.objects import (
    ClusterQueueView,
    FlavorQuotas,
    Quota,
    ResourceGroup,
    WorkloadPriorityClassView,
)
from podgroup.model.policy import Policy
from tests.core.test_checks import check
from tests.core.test_laws import replayed
from tests.core.test_quota_laws import check_limits, enter, workload
from tests.core.test_shared_quota import (
    HIGH,
    LOW,
    decide_and_say_the_same,
    happens,
    of,
    resumed,
    team,
)
from tests.support.examples import examples
from tests.support.offers import ClusterQueue, Cohort, Flavor, LocalQueue, Preemption
from tests.support.toy import Toy

LEAST_S = 600
QUICK = examples(120, brief=120)
TEN_MINUTES = Policy(least_run_s=LEAST_S)


# -- laws ----------------------------------------------------------------------------------------


class Arrival(NamedTuple):
    """A workload that comes `after` seconds, and would run for so many; 0: for ever."""

    after: int
    queue: str
    cpu: int
    priority: int
    lasts: int


def arrivals(queues: str) -> st.SearchStrategy[list[Arrival]]:
    one = st.builds(
        Arrival,
        after=st.integers(0, 300),
        queue=st.sampled_from(queues),
        cpu=st.integers(1, 4),
        priority=st.integers(0, 2),
        lasts=st.sampled_from([0, 0, 100, 700, 2000]),
    )
    return st.lists(one, min_size=2, max_size=14)


def queue(name: str, cpu: int, preemption: Preemption, **more: Any) -> ClusterQueueView:
    quota = FlavorQuotas(name="one", resources={"cpu": Quota(nominal=cpu)})
    groups = (ResourceGroup(covered=("cpu",), flavors=(quota,)),)
    return ClusterQueue(name=name, groups=groups, preemption=preemption, **more)


class Market:
    """A scheduler in simulated time. Evicted workloads stop `stops_s` later and queue again."""

    def __init__(
        self, configuration: Configuration, *queues: ClusterQueueView, stops_s: int
    ) -> None:
        self.scheduler = Scheduler(configuration)
        self.objects: list[Any] = [Flavor(name="one"), *queues]
        for one in queues:
            self.objects.append(
                LocalQueue(namespace="ns", name=one.name, cluster_queue=one.name),
            )
        enter(self.scheduler, self.objects)
        self.stops_s = stops_s
        self.lasts: dict[str, int] = {}
        self.due: list[tuple[float, int, str, str]] = []
        self.evicted_for: dict[str, set[str]] = {}

    def play(self, story: list[Arrival]) -> Iterator[float]:
        """Let a story happen; yields the time after each decision."""
        at = 0.0
        for number, one in enumerate(story):
            at += one.after
            heapq.heappush(self.due, (at, number, "comes", f"w{number}"))
        while self.due:
            now = self.due[0][0]
            if now > 50_000:
                return
            while self.due and self.due[0][0] == now:
                _, number, what, id = heapq.heappop(self.due)
                self._happens(what, id, story, number, now)
            self._decide(now)
            yield now

    def _happens(self, what: str, id: str, story: list[Arrival], number: int, now: float) -> None:
        cache = self.scheduler.cache
        if what == "comes":
            one = story[number]
            self.lasts[id] = one.lasts
            cache.submit(workload(id, one.queue, one.cpu, priority=one.priority, created=int(now)))
        elif what == "stops" and id in cache.reservations.admitted:
            cache.release(id)
        elif what == "ends":
            holding = cache.reservations.admitted.get(id)
            if holding is not None and holding.began == now - self.lasts[id]:
                cache.remove(id)

    def _decide(self, now: float) -> None:
        cache = self.scheduler.cache
        self._carry_out(self.scheduler.decide(now), now)
        self._comes_to_rest(now)
        cache.wake_ups.release_all()
        self._comes_to_rest(now)
        for claim in cache.claims.by_id.values():
            assert not claim.until or claim.until > now, "a claim that is overdue"
            if claim.until:
                heapq.heappush(self.due, (claim.until, 0, "looks", claim.waiter.id))

    def _carry_out(self, verdicts: Verdicts, now: float) -> None:
        cache = self.scheduler.cache
        check_limits(self.scheduler, self.objects)
        for one in verdicts.preempted:
            holding = cache.reservations.admitted[one.id]
            assert holding.began is not None
            least = cache.objects.least_run.over_at(holding, one.reason)
            assert least <= now, f"{one.id} has run from {holding.began} to {now}"
            heapq.heappush(self.due, (now + self.stops_s, 0, "stops", one.id))
            self.evicted_for.setdefault(one.by_id, set()).add(one.id)
        for admitted in verdicts.admitted:
            cache.reservations.admitted[admitted.id].began = now
            self.evicted_for.pop(admitted.id, None)
            if self.lasts[admitted.id]:
                end = now + self.lasts[admitted.id]
                heapq.heappush(self.due, (end, 0, "ends", admitted.id))

    def _comes_to_rest(self, now: float) -> None:
        """Passes without news soon decide nothing: what they decide is news itself."""
        for _ in range(4):
            kept = self._postponed()
            again = self.scheduler.decide(now)
            self._carry_out(again, now)
            if not again.changing and self._postponed() == kept:
                return
        raise AssertionError("decides otherwise each time")

    def _postponed(self) -> dict[str, tuple[float, tuple[str, ...]]]:
        by_id = self.scheduler.cache.claims.by_id
        return {id: (one.until, one.victims) for id, one in by_id.items() if one.until}

    def first(self, name: str) -> PendingWorkload | None:
        """Who comes first of those that wait in a ClusterQueue."""
        line = self.scheduler.cache.queues.line(name)
        return min(line, key=lambda one: (-one.priority, one.since, one.uid), default=None)

    def may_have(self, name: str, waiter: PendingWorkload) -> int:
        """Of a ClusterQueue's quota what a waiter could ever make free by its priority."""
        cache = self.scheduler.cache
        spared = cache.preemptions.exempt(waiter.id)
        return 4 - sum(
            sum(one.usage.values())
            for one in cache.reservations.admitted.values()
            if one.cluster_queue == name and (one.priority >= waiter.priority or one.id in spared)
        )


@QUICK
@given(arrivals("a"), st.sampled_from(["BestEffortFIFO", "StrictFIFO"]), st.sampled_from([0, 20]))
def test_who_comes_first_is_in_once_the_least_time_is_over(
    story: list[Arrival], strategy: Any, stops_s: int
) -> None:
    within = Preemption(within_cluster_queue="LowerPriority")
    configuration = Configuration(least_run=(("", LEAST_S),))
    market = Market(configuration, queue("a", 4, within, strategy=strategy), stops_s=stops_s)
    since: dict[str, float] = {}
    for now in market.play(story):
        first = market.first("a")
        cpu = sum(first.shape.total(False).values()) if first is not None else 0
        if first is None or market.may_have("a", first) < cpu:
            since.clear()
            continue
        since = {first.id: since.get(first.id, now)}
        assert now <= since[first.id] + LEAST_S + stops_s, f"{first.id} waits still"
    assert not any(market.evicted_for.values()), "evicted in vain"


@QUICK
@given(arrivals("ab"), st.sampled_from([0, 20]), st.sampled_from([None, (), "initial"]))
def test_a_lender_has_its_own_back_once_the_least_time_is_over(
    story: list[Arrival], stops_s: int, strategies: Any
) -> None:
    """Whatever others borrow and whatever comes: shares and priorities do not keep it away."""
    ways = Preemption(reclaim_within_cohort="Any")
    fair: Any = ("LessThanInitialShare",) if strategies == "initial" else strategies
    configuration = Configuration(least_run=(("", LEAST_S),), fair_strategies=fair)
    both = [queue(name, 4, ways, cohort="c") for name in "ab"]
    market = Market(configuration, *both, stops_s=stops_s)
    since: dict[str, float] = {}
    for now in market.play(story):
        first, cache = market.first("a"), market.scheduler.cache
        held = cache.objects.present.queues["a"].usage.get(("one", "cpu"), 0)
        cpu = sum(first.shape.total(False).values()) if first is not None else 0
        spared = cache.preemptions.exempt(first.id) if first is not None else set()
        if first is None or held + cpu > 4 or spared & cache.reservations.admitted.keys():
            since.clear()
            continue
        since = {first.id: since.get(first.id, now)}
        assert now <= since[first.id] + LEAST_S + stops_s, f"{first.id} waits still"


@QUICK
@given(arrivals("abc"), st.sampled_from([0, 20]), st.data())
def test_no_victim_is_below_its_time_whatever_the_tree(
    story: list[Arrival], stops_s: int, data: Any
) -> None:
    """The law itself is checked at each preemption (`Market`), with times by reason and class."""
    any_one = st.sampled_from(["Never", "LowerPriority", "Any"])
    fair = data.draw(st.sampled_from([None, (), ("LessThanInitialShare",)]))
    times = data.draw(
        st.dictionaries(st.sampled_from(["", *REASONS]), st.sampled_from([0, 90, 500]))
    )
    queues = []
    for name in "abc":
        reclaim = data.draw(any_one)
        borrow = data.draw(st.sampled_from(["Never", "LowerPriority"]))
        queues.append(
            queue(
                name,
                data.draw(st.integers(1, 4)),
                Preemption(
                    within_cluster_queue=data.draw(
                        st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
                    ),
                    reclaim_within_cohort=reclaim,
                    borrow_within_cohort="Never" if reclaim == "Never" else borrow,
                ),
                cohort=data.draw(st.sampled_from(["c", "d"])),
                strategy=data.draw(st.sampled_from(["BestEffortFIFO", "StrictFIFO"])),
            )
        )
    configuration = Configuration(least_run=tuple(sorted(times.items())), fair_strategies=fair)
    market = Market(configuration, *queues, stops_s=stops_s)
    market.scheduler.cache.apply(Cohort(name="d", parent="c"))
    market.objects.append(Cohort(name="d", parent="c"))
    for _ in market.play(story):
        pass
    assert not market.scheduler.cache.reservations.leaving_later & set(
        market.scheduler.cache.queues.waiting
    )


# -- texts ---------------------------------------------------------------------------------------


def test_a_text_names_seconds_for_all_reasons_or_for_one() -> None:
    assert read("") == () and read(" 600 ") == (("", 600),)
    both = read("600, InCohortReclamation=0")
    assert by_reason(both) == dict.fromkeys(set(REASONS) - {"InCohortReclamation"}, 600)
    assert by_reason((("", 60),), read("InClusterQueue=5")) == {
        **dict.fromkeys(REASONS, 60),
        "InClusterQueue": 5,
    }
    assert by_reason((("InClusterQueue", 60),), read("0")) == {}


@pytest.mark.parametrize(
    "text", ["ten", "-1", "600s", "Preempted=5", f"{MOST_S + 1}", "5=5", "1.5"]
)
def test_another_text_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=rf"'{text}' is no least run time: write seconds from 0"):
        read(text)


# -- stories -------------------------------------------------------------------------------------


def evictions(toy: Toy) -> list[str]:
    return [d.name for d in toy.decisions if isinstance(d.command, c.EvictGroup)]


def waits(toy: Toy, name: str) -> tuple[str, str]:
    wait = toy.group(name).explained.wait
    return (wait.reason, wait.message.partition(" — ")[0]) if wait is not None else ("", "")


def test_a_preemptor_waits_until_its_victim_has_run_for_ten_minutes() -> None:
    toy = Toy(1, policy=TEN_MINUTES)
    toy.pod("low", labels=LOW)
    toy.run("low")
    toy.wait(180)
    toy.pod("high", labels=HIGH)
    assert evictions(toy) == []
    assert waits(toy, "high") == (
        "WaitingForLeastRunTime",
        "waits until 00:10:00 UTC, when ns/low has run for 10 min",
    )
    toy.wait(419)
    assert evictions(toy) == []
    toy.wait(2)
    assert evictions(toy) == ["low"] and not toy.gated("high")
    assert not any(timer.startswith("postponed/") for timer in toy.world.meta.timers)
    replayed(toy)


@pytest.mark.parametrize("policy", [Policy(), replace(TEN_MINUTES, compatibility="kueue")])
def test_without_it_and_as_kueue_a_preemptor_waits_for_nothing(policy: Policy) -> None:
    toy = Toy(1, policy=policy)
    toy.pod("low", labels=LOW)
    toy.run("low")
    toy.pod("high", labels=HIGH)
    assert evictions(toy) == ["low"] and not toy.gated("high")


def test_what_becomes_free_meanwhile_is_kept_for_the_preemptor() -> None:
    """Or the next small one would be there at that moment, and have run for a moment only."""
    toy = Toy(2, policy=TEN_MINUTES)
    for name in ("a", "b"):
        toy.pod(name, labels=LOW)
    toy.run("a", "b")
    toy.pod("high", labels=HIGH, cpu=2)
    toy.wait(60)
    toy.end("a")
    toy.pod("late", labels=LOW)
    assert toy.gated("late") and toy.gated("high"), "kept for high"
    toy.wait(545)
    assert evictions(toy) == ["b"] and not toy.gated("high") and toy.gated("late")
    replayed(toy)


def test_what_is_kept_is_counted_again_after_an_error_without_it() -> None:
    toy = Toy(2, policy=TEN_MINUTES)
    toy.pod("low", labels=LOW)
    toy.run("low")
    toy.pod("high", labels=HIGH, cpu=2)
    cache = toy.world.quotas.scheduler.cache
    (claim,) = cache.claims.by_id.values()
    usage = cache.objects.forest.queues["cq"].usage
    kept = dict(usage)
    with pytest.raises(ZeroDivisionError), cache.claims.without([claim]):
        assert usage != kept
        raise ZeroDivisionError
    assert usage == kept


def test_who_is_not_needed_for_the_preemptor_starts_beside_it() -> None:
    toy = Toy(3, policy=TEN_MINUTES)
    toy.pod("low", labels=LOW, cpu=2)
    toy.run("low")
    toy.pod("high", labels=HIGH, cpu=2)
    toy.pod("small", labels=LOW)
    assert toy.gated("high") and not toy.gated("small")
    toy.wait(601)
    assert evictions(toy) == ["low"] and not toy.gated("high")


def test_a_victim_that_ends_by_itself_lets_the_preemptor_in_and_others_go_on() -> None:
    toy = Toy(2, policy=TEN_MINUTES)
    for name in ("a", "b"):
        toy.pod(name, labels=LOW)
    toy.run("a", "b")
    toy.pod("high", labels=HIGH)
    toy.wait(60)
    toy.end("a")
    assert not toy.gated("high")
    toy.wait(3600)
    assert evictions(toy) == [], "b was needed no longer"
    replayed(toy)


def test_who_is_more_important_takes_the_postponed_preemption_over() -> None:
    toy = Toy(1, policy=TEN_MINUTES)
    toy.pod("low", labels=LOW)
    toy.run("low")
    toy.pod("plain", labels={PRIORITY_CLASS: "middle"})
    toy.do(e.ObjectApplied(object=middle(toy)))
    assert waits(toy, "plain")[0] == "WaitingForLeastRunTime"
    toy.pod("high", labels=HIGH)
    assert waits(toy, "high")[0] == "WaitingForLeastRunTime"
    assert waits(toy, "plain")[0] == "WaitingForQuota"
    toy.wait(601)
    assert evictions(toy) == ["low"] and not toy.gated("high") and toy.gated("plain")
    replayed(toy)


def middle(toy: Toy, **more: Any) -> Any:
    low = toy.world.workload_classes["low"]
    return replace(low, uid="middle", name="middle", value=10, resource_version=toy.bump(), **more)


def test_a_preemptor_that_goes_away_lets_its_victim_be() -> None:
    toy = Toy(1, policy=TEN_MINUTES)
    toy.pod("low", labels=LOW)
    toy.run("low")
    toy.pod("high", labels=HIGH)
    toy.delete("high")
    toy.wait(3600)
    assert evictions(toy) == [] and toy.group("low").explained.state == "Running"
    toy.pod("other", labels=HIGH)
    assert evictions(toy) == ["low"]
    replayed(toy)


def test_a_class_has_its_own_time_and_may_change_it() -> None:
    toy = Toy(1, policy=TEN_MINUTES)
    low = toy.world.workload_classes["low"]
    toy.do(
        e.ObjectApplied(object=replace(low, resource_version=toy.bump(), least_run=read("3600")))
    )
    toy.pod("low", labels=LOW)
    toy.run("low")
    toy.pod("high", labels=HIGH)
    assert waits(toy, "high")[1] == "waits until 01:00:00 UTC, when ns/low has run for 1 h"
    resumed(toy)
    toy.wait(700)
    assert evictions(toy) == []
    toy.do(e.ObjectApplied(object=replace(low, resource_version=toy.bump(), least_run=())))
    assert evictions(toy) == ["low"] and not toy.gated("high")


def test_quota_that_waits_for_checks_is_taken_at_once() -> None:
    """Nothing runs, so nothing is lost; the time begins when the checks agree."""
    toy = Toy(1, policy=TEN_MINUTES)
    known = toy.world.cluster_queues["cq"]
    toy.do(e.ObjectApplied(object=replace(known, checks=("prov",), resource_version=toy.bump())))
    check(toy, "prov")
    toy.pod("low", labels=LOW)
    assert toy.group("low").quota.holding is not None and toy.gated("low")
    toy.pod("high", labels=HIGH)
    assert evictions(toy) == ["low"]


def test_a_group_of_another_namespace_is_not_named() -> None:
    toy = Toy(1, policy=TEN_MINUTES)
    toy.pod("low", labels=LOW)
    toy.run("low")
    toy.do(
        e.ObjectApplied(
            object=replace(
                toy.world.local_queues["ns", "lq"],
                uid="there",
                namespace="there",
                resource_version=toy.bump(),
            )
        ),
        e.ObjectApplied(
            object=replace(
                toy.world.namespaces["ns"], uid="there", name="there", resource_version=toy.bump()
            )
        ),
    )
    toy.pod("high", labels=HIGH, namespace="there")
    said = toy.group("high").explained.wait.message
    assert said.startswith("waits until 00:10:00 UTC, when a group of another namespace has run")


@pytest.mark.parametrize("seed", range(10))
def test_starting_anew_at_any_moment_decides_and_tells_the_same(seed: int) -> None:
    rng = random.Random(seed)
    fair = rng.choice([(), ("LessThanInitialShare",)])
    policy = Policy(
        least_run_s=300, least_run_by_reason=("InCohortReclamation=150",), fair_sharing=fair
    )
    toys = [Toy(policy=policy), Toy(policy=policy)]
    for name in ("red", "blue", "green"):
        ways: dict[str, Any] = {
            "strategy": rng.choice(["StrictFIFO", "BestEffortFIFO", "BestEffortFIFO"]),
            "reclaim_within_cohort": rng.choice(["Any", "Any", "LowerPriority"]),
            "within_cluster_queue": rng.choice(["LowerPriority", "LowerOrNewerEqualPriority"]),
        }
        for toy in toys:
            toy.slow = True
            team(toy, name, 3, **ways)
    postponed = 0
    for number in range(40):
        what, cpu, pick, restart = rng.randrange(7), rng.randint(1, 4), rng.random(), rng.random()
        labels = of(rng.choice(["red", "blue", "green"]), **rng.choice([HIGH, LOW, {}]))
        for toy in toys:
            if toy is toys[1] and restart < 0.4:
                resumed(toy)
            happens(toy, what, pick, f"p{number}", labels=labels, cpu=cpu)
        postponed += any(
            g.quota.kept is not None and g.quota.kept.until for g in toys[0].world.groups.values()
        )
        decide_and_say_the_same(toys)
    assert postponed, "nothing was postponed"
    replayed(toys[0])


def test_the_annotation_of_a_class_is_read_where_the_class_is() -> None:
    def view(text: str) -> WorkloadPriorityClassView:
        meta = {"uid": "u", "name": "low", "annotations": {LEAST_RUN_ANNOTATION: text}}
        wire = msgspec.convert({"metadata": meta, "value": 5}, PriorityWire)
        return workload_priority_class_view(wire)

    assert view("600, InClusterQueue=5").least_run == (("", 600), ("InClusterQueue", 5))
    assert view("600").problem == ""
    assert view("ten minutes").least_run == ()
    assert "'ten minutes' is no least run time" in view("ten minutes").problem
