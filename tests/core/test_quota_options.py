"""Each way in which gatelog decides better than Kueue (docs/differences.md, Q1 to Q19)."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from podgroup.admission import Scheduler
from podgroup.admission.holding import AdmittedWorkload
from podgroup.admission.model import (
    Configuration,
    Eviction,
    PodSet,
    Reservation,
    UsageSharing,
    Workload,
)
from podgroup.admission.tree import Forest
from podgroup.admission.verdicts import HeadVerdict, Verdicts
from podgroup.admission.victims import Field, Preemptor, in_order
from podgroup.model.names import PENDING_NO_MATCHING_FLAVOR, PENDING_WAITING_FOR_QUOTA
from podgroup.model.objects import ClusterQueueView, FlavorQuotas, Quota, ResourceGroup, Selector
from podgroup.model.reasons import effect_of
from tests.support.offers import (
    ClusterQueue,
    Cohort,
    Flavor,
    Fungibility,
    LocalQueue,
    Namespace,
    Preemption,
)

LOWER = Preemption(within_cluster_queue="LowerPriority")


class Tree:
    """A few queues with flavors, a LocalQueue each, and what was told in the last pass."""

    def __init__(
        self, *queues: ClusterQueueView, fair: bool = False, as_kueue: bool = False
    ) -> None:
        self.scheduler = Scheduler(
            Configuration(fair_strategies=() if fair else None, as_kueue=as_kueue)
        )
        self.cache = self.scheduler.cache
        self.cache.apply(Namespace(name="ns"))
        self.now = 0.0
        for queue in queues:
            for group in queue.groups:
                for flavor in group.flavors:
                    self.cache.apply(Flavor(name=flavor.name))
            self.cache.apply(queue)
            self.cache.apply(LocalQueue(namespace="ns", name=queue.name, cluster_queue=queue.name))

    def submit(self, name: str, queue: str, priority: int = 0, **more: Any) -> None:
        self.now += 1
        requests = tuple(more.pop("requests", {"cpu": 1}).items())
        pods = PodSet(name="main", count=more.pop("count", 1), requests=requests)
        fields: dict[str, Any] = {
            "namespace": "ns",
            "created": self.now,
            "pod_sets": (pods,),
        } | more
        self.cache.submit(Workload(id=name, uid=name, queue=queue, priority=priority, **fields))

    def decide(self) -> Verdicts:
        self.now += 1
        return self.scheduler.decide(self.now)

    def settle(self, passes: int = 12) -> list[tuple[str, str]]:
        """Decide until nothing changes; evictions end at once. Return who was preempted by whom."""
        told = []
        for _ in range(passes):
            verdicts = self.decide()
            told += [(one.id, one.by_id) for one in verdicts.preempted]
            for one in verdicts.preempted:
                self.cache.release(one.id)
        return told

    @property
    def holding(self) -> set[str]:
        return set(self.cache.reservations.admitted)


def queue(name: str, quotas: Mapping[str, Mapping[str, int]], **more: Any) -> ClusterQueueView:
    flavors = tuple(
        FlavorQuotas(name=flavor, resources={r: Quota(nominal=n) for r, n in resources.items()})
        for flavor, resources in quotas.items()
    )
    covered = tuple(next(iter(quotas.values())))
    return ClusterQueue(
        name=name, groups=(ResourceGroup(covered=covered, flavors=flavors),), **more
    )


def test_q1_what_is_freed_is_kept_for_whom_it_was_freed() -> None:
    """Two of a queue's victims leave at different times; the first must not take its place back."""
    tree = Tree(
        queue(
            "a",
            {"f": {"cpu": 4}},
            cohort="c",
            preemption=Preemption(reclaim_within_cohort="Any"),
        ),
        queue("b", {"f": {"cpu": 0}}, cohort="c"),
    )
    for name in ("b1", "b2"):
        tree.submit(name, "b", requests={"cpu": 2})
    tree.decide()
    assert tree.holding == {"b1", "b2"}
    tree.submit("a1", "a", requests={"cpu": 4})
    assert {one.id for one in tree.decide().preempted} == {"b1", "b2"}
    tree.submit("b3", "b", priority=9, requests={"cpu": 2})
    tree.cache.release("b1")
    tree.decide()
    assert tree.holding == {"b2"}
    tree.cache.release("b2")
    tree.decide()
    assert tree.holding == {"a1"}


def test_q1_evictions_under_way_count_before_new_victims() -> None:
    tree = Tree(queue("q", {"f": {"cpu": 2}}, preemption=LOWER))
    tree.submit("old", "q")
    tree.submit("other", "q")
    tree.decide()
    tree.cache.evict("old", Eviction(tree.now, effect_of("Deactivated")))
    tree.submit("new", "q", priority=5)
    verdicts = tree.decide()
    assert not verdicts.preempted
    assert verdicts.heads[0].mode == "DeferredFit"
    tree.cache.release("old", requeue=False)
    assert [one.id for one in tree.decide().admitted] == ["new"]


def test_q1_what_evictions_free_exactly_needs_no_victims_in_another_flavor() -> None:
    first = Fungibility(when_can_preempt="MayStopSearch")
    quotas = {"f": {"cpu": 1}, "g": {"cpu": 1}}
    tree = Tree(queue("q", quotas, preemption=LOWER, fungibility=first))
    tree.submit("in f", "q")
    tree.submit("in g", "q")
    tree.decide()
    tree.cache.evict("in f", Eviction(tree.now, effect_of("Deactivated")))
    tree.submit("new", "q", priority=5)
    verdicts = tree.decide()
    assert not verdicts.preempted
    assert verdicts.heads[0].mode == "DeferredFit"


def test_q2_a_pass_admits_all_that_fits() -> None:
    def admitted(*, as_kueue: bool) -> int:
        tree = Tree(queue("q", {"f": {"cpu": 5}}), as_kueue=as_kueue)
        for number in range(8):
            tree.submit(f"w{number}", "q")
        return len(tree.decide().admitted)

    assert admitted(as_kueue=True) == 1
    assert admitted(as_kueue=False) == 5


def test_q3_victims_make_room_for_pods_too() -> None:
    def preempted(*, as_kueue: bool) -> int:
        tree = Tree(queue("q", {"f": {"cpu": 20, "pods": 4}}, preemption=LOWER), as_kueue=as_kueue)
        for number in range(4):
            tree.submit(f"low{number}", "q")
        tree.settle()
        tree.submit("high", "q", priority=1, count=3)
        return len(tree.settle())

    assert preempted(as_kueue=True) == 0
    assert preempted(as_kueue=False) == 3


def test_q4_other_flavors_are_tried_when_victims_do_not_suffice() -> None:
    """In the first flavor each resource alone has victims, both together do not."""
    quotas = {"f": {"cpu": 4, "memory": 4}, "g": {"cpu": 4, "memory": 4}}
    fungible = Fungibility(when_can_preempt="MayStopSearch")

    tree = Tree(queue("q", quotas, preemption=LOWER, fungibility=fungible))
    for name, flavor, usage, priority in (
        ("c", "f", {"cpu": 4}, 0),
        ("m", "f", {"memory": 4}, 5),
        ("both", "g", {"cpu": 4, "memory": 4}, 0),
    ):
        tree.submit(name, "q", priority=priority, requests=usage)
        waiter = tree.cache.queues.waiting[name]
        pods = {"name": "main", "count": 1, "flavors": dict.fromkeys(usage, flavor)}
        tree.cache.admit(waiter, reservation(pods, usage))
    tree.submit("high", "q", priority=6, requests={"cpu": 4, "memory": 1})
    low = tree.cache.reservations.admitted["m"]
    tree.cache.reserve(replace(low.workload, priority=7), low.reservation)
    assert [one.id for one in tree.decide().preempted] == ["both"]


def reservation(pods: dict[str, Any], usage: Mapping[str, int]) -> Reservation:
    from podgroup.admission.model import PodSetAssignment

    return Reservation(
        cluster_queue="q", at=1, pod_sets=(PodSetAssignment(usage=dict(usage), **pods),)
    )


def test_q5_a_flavor_is_as_good_as_its_worst_resource() -> None:
    def mode(*, as_kueue: bool) -> str:
        first = Fungibility(when_can_borrow="TryNextFlavor", preference="PreemptionOverBorrowing")
        tree = Tree(
            queue(
                "q", {"f": {"cpu": 2, "memory": 1}}, cohort="c", fungibility=first, preemption=LOWER
            ),
            queue("r", {"f": {"cpu": 0, "memory": 9}}, cohort="c"),
            as_kueue=as_kueue,
        )
        tree.submit("low", "q", requests={"cpu": 2})
        tree.settle()
        tree.submit("high", "q", priority=1, requests={"cpu": 1, "memory": 4})
        return next(head.mode for head in tree.decide().heads if head.id == "high")

    assert mode(as_kueue=True) == "Fit", "though cpu is all taken"
    assert mode(as_kueue=False) == "Preempt"


def test_q6_a_strict_queue_is_not_blocked_by_what_can_never_fit() -> None:
    def holding(*, as_kueue: bool) -> set[str]:
        tree = Tree(queue("q", {"f": {"cpu": 2}}, strategy="StrictFIFO"), as_kueue=as_kueue)
        tree.submit("huge", "q", priority=9, requests={"cpu": 3})
        tree.submit("small", "q")
        tree.settle()
        return tree.holding

    assert holding(as_kueue=True) == set()
    assert holding(as_kueue=False) == {"small"}


def test_q6_it_is_blocked_by_what_would_fit_later() -> None:
    tree = Tree(queue("q", {"f": {"cpu": 2}}, strategy="StrictFIFO"))
    tree.submit("one", "q")
    tree.settle()
    tree.submit("two", "q", priority=9, requests={"cpu": 2})
    tree.submit("three", "q")
    tree.settle()
    assert tree.holding == {"one"}
    tree.cache.remove("one")
    tree.settle()
    assert tree.holding == {"two"}


def waiting_in_a_cohort(waiting: int) -> set[str]:
    tree = Tree(
        queue("a", {"f": {"cpu": 4}}, cohort="c", strategy="StrictFIFO"),
        queue("b", {"f": {"cpu": 4}}, cohort="c"),
    )
    tree.submit("running", "a", requests={"cpu": 3})
    tree.submit("busy", "b", requests={"cpu": 4})
    tree.settle()
    tree.submit("head", "a", priority=5, requests={"cpu": waiting})
    tree.settle()
    tree.submit("other", "b")
    tree.settle()
    return tree.holding


def test_q7_a_head_that_would_borrow_does_not_keep_the_cohort_from_idle_quota() -> None:
    """Eight in all, seven taken: the last one is of the head's own nominal quota, or it is not."""
    tree = Tree(
        queue("a", {"f": {"cpu": 2}}, cohort="c", strategy="StrictFIFO"),
        queue("b", {"f": {"cpu": 2}}, cohort="c"),
    )
    tree.submit("running", "a", requests={"cpu": 2})
    tree.settle()
    tree.submit("head", "a", priority=5, requests={"cpu": 3})
    tree.settle()
    tree.submit("other", "b", requests={"cpu": 2})
    tree.settle()
    assert tree.holding == {"running", "other"}


def test_q7_a_head_within_its_quota_keeps_what_it_cannot_reclaim() -> None:
    assert waiting_in_a_cohort(4) == {"running", "busy"}
    assert waiting_in_a_cohort(1) == {"running", "busy", "head"}


def test_q8_nobody_preempts_whom_it_was_preempted_by() -> None:
    tree = Tree(queue("q", {"f": {"cpu": 1}}, preemption=LOWER))
    tree.submit("a", "q")
    tree.settle()
    tree.submit("b", "q", priority=1)
    assert tree.settle() == [("a", "b")]
    tree.cache.submit(replace_priority(tree, "a", 2))
    assert tree.settle() == []
    assert tree.holding == {"b"}
    other = Tree(queue("q", {"f": {"cpu": 1}}, preemption=LOWER), as_kueue=True)
    other.submit("a", "q")
    other.settle()
    other.submit("b", "q", priority=1)
    other.settle()
    other.cache.submit(replace_priority(other, "a", 2))
    assert other.settle() == [("b", "a")]


def replace_priority(tree: Tree, name: str, priority: int) -> Workload:
    waiter = tree.cache.queues.waiting[name]
    return Workload(
        id=name,
        uid=name,
        namespace="ns",
        queue=waiter.queue,
        created=waiter.created,
        priority=priority,
        pod_sets=waiter.shape.pod_sets,
    )


def test_who_waited_before_the_cluster_queue_came_is_tried_once_it_has() -> None:
    tree = Tree()
    tree.cache.apply(LocalQueue(namespace="ns", name="q", cluster_queue="q"))
    tree.submit("early", "q")
    tree.settle()
    tree.cache.apply(Flavor(name="f"))
    tree.cache.apply(queue("q", {"f": {"cpu": 1}}))
    tree.settle()
    assert tree.holding == {"early"}


def test_q9_a_release_through_a_stopped_local_queue_is_heard() -> None:
    def holding(*, as_kueue: bool) -> set[str]:
        tree = Tree(queue("q", {"f": {"cpu": 1}}), as_kueue=as_kueue)
        tree.cache.apply(LocalQueue(namespace="ns", name="other", cluster_queue="q"))
        tree.submit("first", "other")
        tree.settle()
        tree.submit("second", "q")
        tree.settle()
        tree.cache.apply(
            LocalQueue(namespace="ns", name="other", cluster_queue="q", stop_policy="Hold")
        )
        tree.cache.remove("first")
        tree.settle()
        return tree.holding

    assert holding(as_kueue=True) == set()
    assert holding(as_kueue=False) == {"second"}


def test_q10_who_queues_for_longer_is_looked_at_itself() -> None:
    newer = Preemption(within_cluster_queue="LowerOrNewerEqualPriority")

    def preempted(*, as_kueue: bool) -> Sequence[tuple[str, str]]:
        tree = Tree(queue("q", {"f": {"cpu": 1}}, preemption=newer), as_kueue=as_kueue)
        tree.submit("runs", "q", created=50.0)
        tree.settle()
        tree.submit("younger", "q", created=60.0)
        tree.settle()
        tree.submit("older", "q", created=40.0)
        return tree.settle()

    assert preempted(as_kueue=True) == []
    assert preempted(as_kueue=False) == [("runs", "older")]


def test_q11_there_is_always_a_reason() -> None:
    def reason(*, as_kueue: bool) -> str:
        # memory is looked at before nvidia.com/gpu, and fits
        tree = Tree(queue("q", {"f": {"memory": 8}}), as_kueue=as_kueue)
        tree.submit("w", "q", requests={"memory": 1, "nvidia.com/gpu": 1})
        return tree.decide().heads[0].reason

    assert reason(as_kueue=True) == ""
    assert reason(as_kueue=False) == "NoMatchingFlavor"


def test_q12_ties_are_broken_by_uid() -> None:
    for names in (("x", "y"), ("y", "x")):
        for fair in (False, True):
            tree = Tree(
                queue("a", {"f": {"cpu": 1}}, cohort="c"),
                queue("b", {"f": {"cpu": 0}}, cohort="c"),
                queue("d", {"f": {"cpu": 0}}, cohort="c"),
                fair=fair,
            )
            for name, target in zip(names, ("b", "d"), strict=True):
                tree.submit(name, target, created=1.0)
            tree.settle()
            assert tree.holding == {"x"}


def test_q1_what_a_victim_leaves_over_serves_another() -> None:
    tree = Tree(queue("q", {"f": {"cpu": 4}}, preemption=LOWER))
    tree.submit("big", "q", requests={"cpu": 4})
    tree.decide()
    tree.submit("one", "q", priority=5, requests={"cpu": 2})
    tree.submit("two", "q", priority=5, requests={"cpu": 2})
    verdicts = tree.decide()
    assert [(one.id, one.by_id) for one in verdicts.preempted] == [("big", "one")]
    assert [head.mode for head in verdicts.heads] == ["Preempt", "DeferredFit"]
    tree.cache.release("big")
    assert {one.id for one in tree.decide().admitted} == {"one", "two"}


def test_q12_victims_of_several_queues_come_in_one_order_where_use_counts() -> None:
    """By use within a queue, by priority and time between queues: pair by pair that is a circle."""
    used = {"x": 9.0, "y": 1.0, "z": 5.0}
    some = (("p", "x", 3), ("p", "y", 1), ("q", "z", 2), ("q", "x", 2), ("r", "y", 1))
    holders = [
        AdmittedWorkload(
            Workload(
                id=f"{at}", uid=f"{at}", namespace="ns", queue=local, created=at, priority=priority
            ),
            Reservation(cluster_queue=name, at=at),
            "Eviction",
        )
        for at, (name, local, priority) in enumerate(some)
    ]
    forest = Forest([queue(name, {"f": {"cpu": 1}}) for name in "apqr"], ())
    field = Field(forest, lambda _: True, Configuration(), lambda key: used[key[1]])
    asks = Preemptor("new", queue("a", {"f": {"cpu": 1}}), forest.queues["a"], 9, 9)
    orders = {
        tuple(one.id for one in in_order(field, asks, given)) for given in permutations(holders)
    }
    assert len(orders) == 1


def test_q15_what_a_queue_gives_up_itself_makes_others_fair_game() -> None:
    """Of 12 cores `a` owns 2 and `b` none; whoever comes to `a` may take from its own as well."""

    def victims(*, as_kueue: bool) -> set[str]:
        tree = Tree(
            queue(
                "a",
                {"f": {"cpu": 2}},
                cohort="c",
                preemption=Preemption(
                    within_cluster_queue="LowerPriority", reclaim_within_cohort="Any"
                ),
            ),
            queue("b", {"f": {"cpu": 0}}, cohort="c"),
            queue("idle", {"f": {"cpu": 10}}, cohort="c"),
            fair=True,
            as_kueue=as_kueue,
        )
        tree.submit("own", "a", requests={"cpu": 2})
        for name in ("b1", "b2", "b3"):
            tree.submit(name, "b", requests={"cpu": 3})
        tree.settle()
        tree.submit("new", "a", priority=5, requests={"cpu": 7})
        return {one.id for one in tree.decide().preempted}

    assert not victims(as_kueue=True)
    found = victims(as_kueue=False)
    assert "own" in found and len(found) == 3, "with its own kept it would have the larger share"


def test_q16_within_its_own_queue_one_that_is_larger_than_nominal_may_preempt() -> None:
    def victims(*, as_kueue: bool) -> list[tuple[str, str]]:
        tree = Tree(
            queue("a", {"f": {"cpu": 2}}, cohort="c", preemption=LOWER),
            queue("b", {"f": {"cpu": 2}}, cohort="c"),
            fair=True,
            as_kueue=as_kueue,
        )
        tree.submit("low", "a", requests={"cpu": 4})
        tree.settle()
        tree.submit("high", "a", priority=5, requests={"cpu": 3})
        return tree.settle()

    assert not victims(as_kueue=True)
    assert victims(as_kueue=False) == [("low", "high")]


def test_a_large_workload_starves_where_the_strategy_lets_others_pass() -> None:
    """The choice is the queue's; docs/differences.md says so."""

    def admitted(strategy: Any) -> bool:
        tree = Tree(queue("a", {"f": {"cpu": 4}}, strategy=strategy))
        tree.submit("first", "a", requests={"cpu": 1})
        tree.settle()
        tree.submit("large", "a", requests={"cpu": 4})
        for number in range(6):
            tree.submit(f"small{number}", "a", requests={"cpu": 1})
            tree.settle()
            ends = min(name for name in (*tree.holding, "small9") if name != "large")
            tree.cache.remove(ends)
            tree.settle()
        return "large" in tree.holding

    assert admitted("StrictFIFO")
    assert not admitted("BestEffortFIFO")


def test_equal_workloads_are_one_question() -> None:
    """A thousand wait; what becomes free is offered to one, and refused by one."""
    tree = Tree(queue("a", {"f": {"cpu": 2}}))
    tree.submit("first", "a", requests={"cpu": 2})
    tree.settle()
    for number in range(1000):
        tree.submit(f"w{number:04}", "a", requests={"cpu": 2})
    tree.decide()
    tree.cache.remove("first")
    assert [head.id for head in tree.decide().heads] == ["w0000", "w0001"]


def test_a_strict_head_blocks_its_own_queue_and_no_other() -> None:
    tree = Tree(
        queue("a", {"f": {"cpu": 2}}, cohort="c", strategy="StrictFIFO"),
        queue("b", {"g": {"cpu": 2}}, cohort="c", strategy="StrictFIFO"),
    )
    tree.submit("running", "a", requests={"cpu": 1})
    tree.settle()
    tree.submit("head", "a", requests={"cpu": 2})
    tree.submit("behind", "a", requests={"cpu": 1})
    tree.submit("other", "b", requests={"cpu": 2})
    tree.settle()
    assert tree.holding == {"running", "other"}


def test_an_unselected_namespace_waits_for_its_labels() -> None:
    tree = Tree(
        queue(
            "q", {"f": {"cpu": 1}}, strategy="StrictFIFO", namespaces=Selector(labels={"team": "a"})
        ),
    )
    tree.submit("w", "q")
    tree.settle()
    assert tree.cache.queues.waiting["w"].reason == "Misconfigured"
    tree.cache.apply(Namespace(name="ns", labels={"team": "a"}))
    tree.settle()
    assert tree.holding == {"w"}


def test_cohorts_in_a_circle_admit_nobody_until_it_is_broken() -> None:
    tree = Tree(queue("q", {"f": {"cpu": 1}}, cohort="a"))
    tree.cache.apply(Cohort(name="a", parent="b"))
    tree.cache.apply(Cohort(name="b", parent="a"))
    tree.submit("w", "q")
    tree.settle()
    assert tree.cache.queues.waiting["w"].message == "ClusterQueue q is inactive"
    tree.cache.apply(Cohort(name="b", weight=Fraction(2)))
    tree.settle()
    assert tree.holding == {"w"}


def test_a_back_off_is_waited_for() -> None:
    tree = Tree(queue("q", {"f": {"cpu": 1}}))
    tree.submit("w", "q", waiting_until=10.0)
    tree.scheduler.decide(9.0)
    assert tree.holding == set()
    tree.scheduler.decide(10.0)
    assert tree.holding == {"w"}


def test_a_stopped_queue_lends_and_admits_nobody() -> None:
    tree = Tree(
        queue("a", {"f": {"cpu": 1}}, cohort="c", stop_policy="Hold"),
        queue("b", {"f": {"cpu": 0}}, cohort="c"),
    )
    tree.submit("own", "a")
    tree.submit("other", "b")
    tree.settle()
    assert tree.holding == {"other"}


def test_the_example_of_the_page() -> None:
    """docs/queues.md: red and blue with 10 cores each, red lends at most 4."""

    def most(idle: str) -> int:
        tree = Tree()
        tree.cache.apply(Flavor(name="f"))
        for name, lending in (("red", 4), ("blue", None)):
            quota = Quota(nominal=10, lending_limit=lending)
            flavors = (FlavorQuotas(name="f", resources={"cpu": quota}),)
            group = ResourceGroup(covered=("cpu",), flavors=flavors)
            tree.cache.apply(ClusterQueue(name=name, cohort="lab", groups=(group,)))
            tree.cache.apply(LocalQueue(namespace="ns", name=name, cluster_queue=name))
        busy = "blue" if idle == "red" else "red"
        for number in range(25):
            tree.submit(f"{busy}{number}", busy)
        tree.settle()
        return len(tree.holding)

    assert most(idle="blue") == 20
    assert most(idle="red") == 14


def test_a_verdict_says_which_node_was_short_of_what() -> None:
    quota = Quota(nominal=4, borrowing_limit=1)
    group = ResourceGroup(
        covered=("cpu",), flavors=(FlavorQuotas(name="f", resources={"cpu": quota}),)
    )
    tree = Tree(
        ClusterQueue(name="a", cohort="c", groups=(group,)),
        queue("b", {"f": {"cpu": 4}}, cohort="c"),
    )
    tree.submit("one", "a", requests={"cpu": 4})
    tree.settle()
    tree.submit("two", "a", requests={"cpu": 2})
    (short,) = tree.decide().heads[0].shortages
    assert (short.node, short.cohort, short.requested, short.available) == ("a", False, 2, 1)
    tree.submit("three", "b", requests={"cpu": 4})
    tree.settle()
    tree.submit("four", "b", requests={"cpu": 1})
    (short,) = tree.decide().heads[0].shortages
    assert (short.node, short.cohort, short.available) == ("c", True, 0)
    tree.submit("five", "a", requests={"cpu": 6})
    (short,) = tree.decide().heads[0].shortages
    assert (short.node, short.requested, short.available) == ("a", 6, 5)


def test_q13_use_for_which_nobody_looked_while_it_lasted_is_remembered() -> None:
    """Q13: it held a core for an hour, and nothing else happened."""
    used = {}
    for as_kueue in (False, True):
        tree = Tree(queue("a", {"f": {"cpu": 4000}}, usage_based=True), as_kueue=as_kueue)
        sharing = UsageSharing(half_life_s=3600, sampling_s=60)
        tree.scheduler = Scheduler(Configuration(usage_sharing=sharing, as_kueue=as_kueue))
        cache = tree.scheduler.cache
        cache.apply(Namespace(name="ns"))
        cache.apply(Flavor(name="f"))
        cache.apply(queue("a", {"f": {"cpu": 4000}}, usage_based=True))
        cache.apply(LocalQueue(namespace="ns", name="a", cluster_queue="a"))
        tree.cache = cache
        tree.submit("one", "a", requests={"cpu": 1000})
        tree.decide()
        cache.wake_ups.begin(tree.now + 3600)
        cache.remove("one")
        tree.scheduler.decide(tree.now + 3600)
        used[as_kueue] = cache.reservations.used_by(("ns", "a")) or 0.0
    assert 0.5 <= used[False] < 0.52
    assert used[True] < 0.01


def test_no_more_is_looked_at_in_a_longer_queue() -> None:
    looks = []
    for waiting in (60, 600):
        tree = Tree(queue("q", {"one": {"cpu": 10}}), as_kueue=True)
        for number in range(10 + waiting):
            tree.submit(f"w{number:03}", "q")
        while len(tree.holding) < 10:
            tree.decide()
        tree.decide()
        tree.cache.remove("w000")
        verdicts = tree.decide()
        assert [one.id for one in verdicts.admitted] == ["w010"]
        looks.append(len(verdicts.heads))
    assert looks[0] == looks[1]


def two_groups(*flavors: str, gpu: Sequence[str], cpu: int = 4) -> ClusterQueueView:
    """A ClusterQueue with cpu in one resource group and gpu in another."""
    one = queue("cq", {name: {"cpu": cpu} for name in flavors})
    other = queue("cq", {name: {"gpu": 4} for name in gpu})
    return replace(one, groups=(*one.groups, *other.groups))


def zones(tree: Tree, **zone: str) -> None:
    for name, value in zone.items():
        tree.cache.apply(Flavor(name=name, labels={"zone": value}))


def given(tree: Tree, name: str) -> dict[str, str]:
    held = tree.cache.reservations.admitted.get(name)
    return {r: f for f, r in held.usage} if held is not None else {}


def refused(verdicts: Verdicts) -> HeadVerdict:
    (one,) = [one for one in verdicts.heads if not one.status]
    return one


def test_q19_flavors_of_one_podset_are_of_one_node() -> None:
    """kueue#14409: zone a is charged, and the pod's node selector says zone b."""
    tree = Tree(two_groups("cpu-a", gpu=["gpu-b"]))
    zones(tree, **{"cpu-a": "a", "gpu-b": "b"})
    tree.submit("both", "cq", requests={"cpu": 1, "gpu": 1})
    tree.submit("one", "cq", requests={"cpu": 1})
    verdicts = tree.decide()
    assert tree.holding == {"one"}
    pending = refused(verdicts)
    assert pending.reason == PENDING_NO_MATCHING_FLAVOR
    said = "flavor cpu-a wants nodes with zone=a, flavor gpu-b of the same pods zone=b"
    assert said in pending.message
    tree = Tree(two_groups("cpu-a", gpu=["gpu-b"]), as_kueue=True)
    zones(tree, **{"cpu-a": "a", "gpu-b": "b"})
    tree.submit("both", "cq", requests={"cpu": 1, "gpu": 1})
    tree.decide()
    assert tree.holding == {"both"}


@pytest.mark.parametrize("gpu", [["gpu-b"], ["gpu-b", "gpu-c"], ["gpu-c", "gpu-b"]])
def test_q19_another_flavor_is_taken_where_the_first_has_no_node_in_common(gpu: list[str]) -> None:
    tree = Tree(two_groups("cpu-a", "cpu-b", gpu=gpu))
    zones(tree, **{"cpu-a": "a", "cpu-b": "b", "gpu-b": "b", "gpu-c": "c"})
    tree.submit("both", "cq", requests={"cpu": 1, "gpu": 1})
    tree.submit("one", "cq", requests={"cpu": 1})
    tree.settle()
    assert given(tree, "both") == {"cpu": "cpu-b", "gpu": "gpu-b"}
    assert given(tree, "one") == {"cpu": "cpu-a"}


def test_q19_three_flavors_agree_two_by_two_and_all_together() -> None:
    made = two_groups("cpu-a", "cpu-b", gpu=["gpu-any", "gpu-b"])
    third = queue("cq", {"disk-b": {"disk": 4}})
    tree = Tree(replace(made, groups=(*made.groups, *third.groups)))
    zones(tree, **{"cpu-a": "a", "cpu-b": "b", "gpu-b": "b", "disk-b": "b"})
    tree.submit("all", "cq", requests={"cpu": 1, "gpu": 1, "disk": 1})
    tree.settle()
    assert given(tree, "all") == {"cpu": "cpu-b", "gpu": "gpu-any", "disk": "disk-b"}


def test_q19_a_group_waits_for_quota_of_the_flavors_that_agree() -> None:
    """Not for ever: what becomes free lets it in."""
    tree = Tree(two_groups("cpu-a", "cpu-b", gpu=["gpu-b"], cpu=1))
    zones(tree, **{"cpu-a": "a", "cpu-b": "b", "gpu-b": "b"})
    tree.submit("first", "cq", requests={"cpu": 1, "gpu": 1})
    tree.settle()
    tree.submit("second", "cq", requests={"cpu": 1, "gpu": 1})
    pending = refused(tree.decide())
    assert pending.reason == PENDING_WAITING_FOR_QUOTA
    assert "insufficient unused quota for cpu in flavor cpu-b" in pending.message
    tree.cache.remove("first")
    tree.settle()
    assert tree.holding == {"second"}
