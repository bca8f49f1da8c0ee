"""Stories of Kueue's scheduler, retold with pod groups that gatelog queues alone.

Each names the test of Kueue that it follows, in test/integration/singlecluster/scheduler: `S` is
scheduler_test.go and `P` preemption_test.go (August 2026). Where gatelog differs on purpose the
test names the row of docs/differences.md.
"""

from typing import Any

import pytest

from podgroup.model.names import ADMISSION_GATED_BY
from podgroup.model.objects import AdmissionCheckView, Requirement, Selector, Toleration
from tests.parity.telling import Story

OWN: dict[str, Any] = {"within_cluster_queue": "LowerPriority"}
NEWER: dict[str, Any] = {"within_cluster_queue": "LowerOrNewerEqualPriority"}
ANY: dict[str, Any] = {"reclaim_within_cohort": "Any"}
BOTH = OWN | ANY
STRICT: dict[str, Any] = {"strategy": "StrictFIFO"}
TAINT: dict[str, Any] = {"key": "instance-type", "value": "spot", "effect": "NoSchedule"}
TOLERATES: dict[str, Any] = {"tolerations": (Toleration(operator="Equal", **TAINT),)}
ENG = Selector(expressions=(Requirement(key="dep", operator="In", values=("eng",)),))


def tainted(*others: str) -> Story:
    story = Story(*others)
    story.flavor("spot", taints=(Toleration(**TAINT),))
    return story


def alone(cpu: int, **more: Any) -> Story:
    """One queue `q` of one flavor."""
    story = Story("f")
    story.queue("q", f"f={cpu}", **more)
    return story


def test_groups_are_admitted_as_they_fit() -> None:
    """S: Should admit workloads as they fit in their ClusterQueue"""
    story = tainted("on-demand")
    story.queue("prod", "spot=5/5 on-demand=5", "lab")
    story.queue("dev", "spot=5 on-demand=5")
    story.group("p1", "prod", 2)
    story.group("p2", "prod", 5)
    story.group("d1", "dev", 5, **TOLERATES)
    story.runs("p1 d1")
    assert (story.flavors("p1"), story.flavors("d1")) == ({"on-demand"}, {"spot"})
    story.finish("p1")
    story.runs("p2 d1")
    assert story.use("p2") == 5


@pytest.mark.parametrize("flavor", ["f=cpu:100,pods:5", "f=pods:5"])
def test_the_number_of_pods_is_a_quota(flavor: str) -> None:
    """S: Should admit workloads as number of pods allows it (and: number of pods only)"""
    story, cpu = Story("f"), 2 if "cpu" in flavor else 0
    story.queue("q", flavor)
    story.group("a", "q", cpu, pods=3)
    story.group("b", "q", cpu, pods=3)
    story.group("c", "q", cpu, pods=2)
    story.runs("a c")
    assert (story.use("a", "pods"), story.use("a")) == (3, 3 * cpu)
    story.finish("a")
    story.runs("b c")


def test_what_is_reclaimed_counts_for_a_group_that_was_preempted() -> None:
    """S: Should admit workloads when resources are dynamically reclaimed"""
    story = alone(3, **OWN)
    story.group("a", "q", pods=3)
    story.finish("a", 1)
    story.group("b", "q", pods=3, priority=100)
    story.runs("b")
    story.finish("b", 2)
    story.runs("a b")
    assert (story.use("a"), story.toy.workloads["b"].reclaimable) == (2, {"r": 2})


def test_resources_are_released_pod_by_pod() -> None:
    """S: Should admit workloads when resources are gradually released"""
    story = alone(3, **OWN)
    story.group("a", "q", pods=3)
    story.group("b", "q")
    story.runs("a")
    story.finish("a", 1)
    story.runs("a b")


def test_checks_are_asked_once_there_is_quota() -> None:
    """S: Should admit workloads with admission checks"""
    story = Story("f")
    for name in ("one", "two"):
        said: dict[str, Any] = {
            "uid": name,
            "name": name,
            "controller": "c",
            "active": ("True", "Active", ""),
        }
        story._say(AdmissionCheckView(resource_version=story.toy.bump(), **said))
    story.queue("q", "f=5", checks=("one", "two"))
    story.group("a", "q", 2)
    assert story.reserved() == {"a"}
    assert "Admitted" not in story.toy.true("a")
    assert {c.state for c in story.toy.workloads["a"].checks} == {"Pending"}
    assert not story.pods("a", "Running")


@pytest.mark.parametrize("held", ["ClusterQueue", "LocalQueue"])
def test_what_was_held_starts_by_priority(held: str) -> None:
    """S: Should admit workloads according to their priorities; each Hold ... at startup"""
    story, stop = Story("f"), {"stop_policy": "Hold"}
    story.cluster_queue("q", "f=5", **(stop if held == "ClusterQueue" else {}))
    story.local_queue("q", **(stop if held == "LocalQueue" else {}))
    for name, priority in (("low", 0), ("mid1", 10), ("mid2", 10), ("high1", 100), ("high2", 100)):
        story.group(name, "q", 2, priority)
    story.runs("")
    story.queue("q", "f=5")
    story.runs("high1 high2")
    story.finish("high1")
    story.finish("high2")
    story.runs("mid1 mid2")


def test_a_boost_of_priority_is_not_read() -> None:
    """S: when PriorityBoost is enabled, boosting ... preempts (smaller differences: not read)"""
    story = alone(3, **OWN)
    story.group("mid1", "q", 2, 10)
    story.group("mid2", "q", 2, 10)
    story.group("low", "q", 2)
    story.toy.say("low", annotations={"kueue.x-k8s.io/priority-boost": "100"})
    story.go_on()
    story.runs("mid1")


def test_two_small_groups_follow_a_big_one() -> None:
    """S: Should admit two small workloads after a big one finishes"""
    story = alone(5)
    story.group("big", "q", 5)
    story.group("small1", "q", 2.5)
    story.group("small2", "q", 2.5)
    story.runs("big")
    story.finish("big")
    story.runs("small1 small2")


def test_nothing_of_a_resource_without_quota_is_no_obstacle() -> None:
    """S: Should admit workload with zero quantity request for resource not in ClusterQueue"""
    story = alone(5)
    story.group("a", "q", 1, requests={"example.com/gpu": 0})
    story.runs("a")
    assert "example.com/gpu" not in story.toy.workloads["a"].assignments[0].flavors
    story.group("b", "q", 1, requests={"example.com/gpu": 1})
    story.runs("a")


def test_a_deletion_in_the_same_queue_is_heard() -> None:
    """S: Should re-enqueue by the delete event of workload belonging to the same ClusterQueue"""
    story = tainted("on-demand")
    story.queue("q", "spot=5/5 on-demand=5", "prod")
    story.group("a", "q", 4)
    story.group("b", "q", 4)
    story.group("c", "q", 1)
    story.runs("a c")
    story.delete("a")
    story.runs("b c")


def test_a_deletion_in_the_same_cohort_is_heard() -> None:
    """S: Should re-enqueue by the delete event of workload belonging to the same Cohort"""
    story = tainted("on-demand")
    story.queue("q", "spot=5/5 on-demand=5", "prod")
    story.queue("foo", "on-demand=5", "prod")
    story.group("a", "foo", 8)
    story.group("b", "q", 8)
    story.group("c", "foo", 2)
    story.runs("a c")
    story.delete("a")
    story.runs("b c")


def test_a_change_of_the_queue_is_heard() -> None:
    """S: Should re-enqueue by the update event of ClusterQueue"""
    story = alone(5)
    story.group("a", "q", 6)
    story.runs("")
    story.queue("q", "f=6/0", "cohort")
    story.runs("a")


def test_namespaces_are_selected_by_their_labels() -> None:
    """S: Should admit workloads from the selected namespaces"""
    story = alone(5, namespaces=ENG)
    story.group("a", "q")
    story.runs("")
    story.namespace(dep="eng")
    story.runs("a")


def test_a_queue_waits_for_its_flavor() -> None:
    """S: Should be inactive until the flavor is created"""
    story = Story()
    story.queue("q", "late=15")
    story.group("a", "q")
    story.runs("")
    story.flavor("late")
    story.runs("a")


def test_tainted_flavors_are_for_those_that_tolerate_them() -> None:
    """S: Should schedule workloads on tolerated flavors"""
    story = tainted("on-demand")
    story.queue("q", "spot=5/5 on-demand=5", "cohort")
    story.group("a", "q", 5)
    story.group("b", "q", 5)
    story.group("c", "q", 5, **TOLERATES)
    story.runs("a c")
    assert (story.flavors("a"), story.flavors("c")) == ({"on-demand"}, {"spot"})


def test_a_node_selector_chooses_the_flavor() -> None:
    """S: Should admit workloads with affinity to specific flavor"""
    story = Story("spot", "on-demand")
    story.queue("q", "spot=5 on-demand=5")
    story.group("a", "q")
    story.group("b", "q", node_selector={"instance-type": "on-demand", "foo": "bar"})
    story.runs("a b")
    assert (story.flavors("a"), story.flavors("b")) == ({"spot"}, {"on-demand"})


@pytest.mark.parametrize(
    "order",
    ["flavor local group cluster", "group flavor local cluster",
     "group flavor cluster local", "group cluster local flavor"],
)  # fmt: skip
def test_objects_come_in_any_order(order: str) -> None:
    """S: Should admit workload when creating ... (each of the four orders)"""
    story = Story()
    make = {
        "flavor": lambda: story.flavor("on-demand"),
        "local": lambda: story.local_queue("q"),
        "cluster": lambda: story.cluster_queue("q", "on-demand=5"),
        "group": lambda: story.group("a", "q", 2),
    }
    for word in order.split():
        assert not story.reserved()
        make[word]()
    story.runs("a")


def test_a_queue_that_joins_the_cohort_is_borrowed_from() -> None:
    """S: Should admit workloads using borrowed ClusterQueue (sharing unused resources)"""
    story = tainted("on-demand")
    story.queue("prod", "spot=5/0 on-demand=5", "all")
    story.group("a", "prod", 10, **TOLERATES)
    story.runs("")
    story.queue("fallback", "spot=5 on-demand=5", "all")
    story.runs("a")
    assert story.flavors("a") == {"on-demand"}


def test_two_queues_borrow_from_a_third() -> None:
    """S: Should schedule workloads borrowing quota from ClusterQueues in the same Cohort"""
    story = Story("f")
    story.queue("prod", "f=5/10", "all")
    story.queue("dev", "f=5/10", "all")
    story.group("a", "prod", 11)
    story.group("b", "dev", 11)
    story.runs("")
    story.queue("test", "f=15/0", "all")
    story.runs("a b")


def test_who_has_quota_of_its_own_starts_before_who_borrows() -> None:
    """S: Should start workloads that are under min quota before borrowing"""
    story = Story("f")
    story.queue("prod", "f=2", "all", **STRICT)
    story.queue("dev", "f=0", "all", **STRICT)
    story.group("p1", "prod", 2)
    story.group("d1", "dev", 1)
    story.group("p2", "prod", 2)
    story.runs("p1")
    story.finish("p1")
    story.runs("p2")
    story.finish("p2")
    story.runs("d1")


def test_the_next_flavor_is_tried_where_none_can_be_preempted() -> None:
    """S: Should try next flavor if can't preempt on first"""
    story = Story("one", "two")
    story.queue("q", "one=2 two=2", "all", when_can_preempt="MayStopSearch", **STRICT, **OWN)
    for name in "abc":
        story.group(name, "q")
    story.runs("a b c")
    assert [story.flavors(name) for name in "abc"] == [{"one"}, {"one"}, {"two"}]


def test_the_next_flavor_is_tried_instead_of_borrowing() -> None:
    """S: Should try next flavor instead of borrowing"""
    story = tainted("on-demand")
    story.queue("prod", "on-demand=10/10", "all")
    story.queue("dev", "on-demand=10/10 spot=11", "all", when_can_borrow="TryNextFlavor")
    story.group("a", "prod", 9)
    story.group("b", "dev", 11, **TOLERATES)
    story.runs("a b")
    assert (story.flavors("a"), story.flavors("b")) == ({"on-demand"}, {"spot"})


def test_preemption_goes_before_the_next_flavor() -> None:
    """S: Should preempt before try next flavor"""
    story = Story("one", "two")
    story.queue("prod", "one=10/10 two=11", "all", when_can_preempt="MayStopSearch", **ANY)
    story.queue("dev", "one=10/10", "all", when_can_borrow="TryNextFlavor")
    story.group("a", "dev", 9)
    story.group("b", "dev", 9, 1)
    story.runs("a b")
    story.group("c", "prod", 5)
    story.runs("b c")
    assert (story.flavors("c"), story.preempted("a")) == ({"one"}, "InCohortReclamation")


def test_a_cohort_has_quota_of_its_own() -> None:
    """S: Should admit workload using resources borrowed from cohort"""
    story = Story("f")
    story.queue("q", "f=0", "cohort")
    story.group("a", "q", 10)
    story.cohort("cohort", "f=5")
    story.runs("")
    story.cohort("cohort", "f=10")
    story.runs("a")


def test_nothing_of_a_resource_is_borrowed_from_a_cohort() -> None:
    """S: Should admit workload borrowing from cohort when requesting zero of a resource"""
    story = Story("f")
    story.queue("q", "f=0", "cohort")
    story.cohort("cohort", "f=10")
    story.group("a", "q", 5, requests={"example.com/gpu": 0})
    story.runs("a")
    assert (story.use("a"), story.flavors("a")) == (5, {"f"})


def test_a_queue_changes_into_a_cohort_that_has_quota() -> None:
    """S: Should admit workload when cq switches into cohort with capacity"""
    story = Story("f")
    story.queue("q", "f=0", "poor")
    story.group("a", "q", 10)
    story.cohort("rich", "f=10")
    story.runs("")
    story.queue("q", "f=0", "rich")
    story.runs("a")


def test_quota_is_borrowed_over_a_long_distance() -> None:
    """S: Long distance resource allows workload to be scheduled"""
    story = Story("f")
    story.queue("q", "f=0", "left")
    story.cohort("left", parent="root")
    story.cohort("right", parent="root")
    story.group("a", "q", 10)
    story.runs("")
    story.cohort("bank", "f=10", parent="right")
    story.runs("a")


def test_a_cohort_gets_a_richer_parent() -> None:
    """S: Should admit overflow workload after reparenting child cohort to a larger root"""
    story = Story("f")
    story.cohort("a", "f=1")
    story.cohort("b", "f=2")
    story.cohort("child", parent="a")
    story.queue("q", "f=0", "child")
    for name in ("w1", "w2", "w3"):
        story.group(name, "q", 0.5)
    story.runs("w1 w2")
    story.cohort("child", parent="b")
    story.runs("w1 w2 w3")


def test_as_much_is_borrowed_as_is_lent() -> None:
    """S: Should admit workloads using borrowed ClusterQueue (sharing with LendingLimit)"""
    story = Story("f")
    story.queue("prod", "f=5//1", "all")
    story.group("a", "prod", 9)
    story.runs("")
    story.queue("dev", "f=5//4", "all")
    story.runs("a")


def test_a_change_of_what_is_lent_is_heard() -> None:
    """S: Should admit workloads after updating lending limit"""
    story = Story("f")
    story.queue("prod", "f=5//0", "all")
    story.queue("dev", "f=5//0", "all")
    story.group("a", "prod", 5)
    story.group("b", "prod", 5)
    story.runs("a")
    story.queue("dev", "f=5//5", "all")
    story.runs("a b")


def test_a_strict_queue_goes_by_priority_and_lets_none_pass() -> None:
    """S: Should schedule workloads by their priority strictly"""
    story = Story("f")
    story.cluster_queue("q", "f=5/0", "cohort", **STRICT)
    for name, cpu, priority in (("a", 2, 100), ("b", 5, 10), ("c", 1, 1)):
        story.group(name, "q", cpu, priority)
    story.local_queue("q")
    story.runs("a")


def test_the_head_of_a_strict_queue_keeps_none_from_a_third_queue() -> None:
    """S: Pending workload with StrictFIFO doesn't block other CQ from borrowing from a third CQ

    Row Q7: the head keeps the rest of its own nominal quota, here 2.
    """
    story = Story("f")
    story.queue("strict", "f=5/0", "cohort", **STRICT)
    story.queue("team", "f=5", "cohort")
    story.queue("shared", "f=5", "cohort")
    story.group("s1", "strict", 3, 10)
    story.group("t1", "team", 5, 1)
    story.queue("team", "f=5", "cohort", stop_policy="Hold")
    story.group("s2", "strict", 3, 99)
    story.group("t2", "team", 5, 11)
    story.group("t3", "team", 1, 10)
    story.queue("team", "f=5", "cohort")
    story.runs("s1 t1 t2")


def test_a_queue_that_goes_admits_nothing_new() -> None:
    """S: Should not admit new created workloads (Deleting clusterQueues)"""
    story = alone(5)
    story.group("a", "q")
    story.cluster_queue("q", "f=5", deleting=True)
    story.group("b", "q")
    story.runs("a")
    story.finish("a")
    story.runs("")


@pytest.mark.parametrize("stopped", ["ClusterQueue", "LocalQueue"])
def test_a_queue_is_drained_and_filled_again(stopped: str) -> None:
    """S: Should evict workloads when stop policy is drain (of a ClusterQueue; of a LocalQueue)"""
    story = alone(5)
    story.group("a", "q")
    if stopped == "ClusterQueue":
        story.cluster_queue("q", "f=5", stop_policy="HoldAndDrain")
    else:
        story.local_queue("q", stop_policy="HoldAndDrain")
    story.runs("")
    assert story.toy.condition("a", "Evicted")[1] == f"{stopped}Stopped"
    story.group("b", "q")
    story.runs("")
    story.queue("q", "f=5")
    story.runs("a b")


def test_best_effort_uses_what_the_foundation_can_take_back() -> None:
    """S: foundation-queue allows best-effort queue to use capacity until it is ready"""
    story = Story("f")
    story.queue("base", "f=2", "cohort", **STRICT, **ANY)
    story.queue("best", "f=0", "cohort")
    story.group("f1", "base", 1, 1000)
    story.group("f2", "base", 2, 1000)
    story.group("b1", "best", 1)
    story.group("b2", "best", 1)
    story.runs("f1 b1")
    story.finish("f1")
    story.runs("f2")


def test_the_foundation_keeps_what_it_may_be_unable_to_take_back() -> None:
    """S: foundation-queue blocks capacity when it is not sure that it can reclaim"""
    story = Story("f")
    story.queue("base", "f=2", "cohort", **STRICT, reclaim_within_cohort="LowerPriority")
    story.queue("best", "f=0", "cohort")
    story.group("f1", "base", 1, 1000)
    story.group("f2", "base", 2, 1000)
    story.group("b1", "best", 1)
    story.group("b2", "best", 1)
    story.runs("f1")
    story.finish("f1")
    story.runs("f2")


def test_the_flavor_is_found_in_which_preemption_is_possible() -> None:
    """S: finds correct flavor by discarding the first one in which preemption is not possible"""
    story, how = Story("f1", "f2"), {"when_can_borrow": "TryNextFlavor", **BOTH}
    how |= {"borrow_within_cohort": "LowerPriority"}
    story.queue("one", "f1=0 f2=1", "cohort", **how)
    story.queue("two", "f1=1 f2=0", "cohort", **how)
    story.group("low", "one")
    story.group("high", "one", 1, 9999)
    story.runs("low high")
    assert (story.flavors("low"), story.flavors("high")) == ({"f2"}, {"f1"})
    story.group("middle", "two", 1, 105)
    story.runs("high middle")
    assert (story.flavors("high"), story.flavors("middle")) == ({"f2"}, {"f1"})


def test_a_lender_that_is_gone_lends_nothing() -> None:
    """S: Should prevent incorrect admission through borrowing after ClusterQueue deletion"""
    story = Story("f")
    story.queue("one", "f=8", "lab")
    story.queue("two", "f=0", "lab")
    story.drop("ClusterQueue", "one")
    story.group("a", "two", 8, 1000)
    story.runs("")


def test_the_quota_below_a_cohort_that_is_gone_is_out_of_reach() -> None:
    """S: Should not admit from stale subtree quota after deleting sibling cohort"""
    story = Story("f")
    story.cohort("root")
    story.cohort("left", "f=0", parent="root")
    story.cohort("right", "f=5", parent="root")
    story.queue("a", "f=10", "left")
    story.queue("b", "f=7", "right")
    story.group("a1", "a", 10)
    story.drop("Cohort", "right")
    story.group("a2", "a", 8)
    story.runs("a1")


def test_nothing_is_borrowed_through_a_cohort_that_is_gone() -> None:
    """S: Should not allow borrowing through deleted mid-tree cohort"""
    story = Story("f")
    story.cohort("root", "f=2")
    story.cohort("mid", "f=2", parent="root")
    story.queue("q", "f=1", "mid")
    story.group("a", "q", 1)
    story.drop("Cohort", "mid")
    story.group("b", "q", 2)
    story.runs("a")


def test_a_cohort_lends_up_to_its_limit() -> None:
    """S: Should admit only up to the lendingLimit of sibling cohort"""
    story = Story("f")
    story.cohort("root", "f=0")
    story.cohort("lender", "f=1//0.5", parent="root")
    story.cohort("borrower", parent="root")
    story.queue("l", "f=1", "lender")
    story.queue("b", "f=0", "borrower")
    story.group("w1", "b", 0.5)
    story.group("w2", "b", 0.5)
    story.runs("w1")


def test_a_controller_gates_the_admission() -> None:
    """S: Should gate workload admission with AdmissionGatedBy annotation and admit when removed

    Row B28: the annotation is one of pods.
    """
    story = alone(5)
    story.group("a", "q", 0.1, annotations={ADMISSION_GATED_BY: "example.com/controller1"})
    story.runs("")
    (name,) = story.pods("a")
    pod = story.toy.named(name)
    left = {k: v for k, v in pod.annotations.items() if k != ADMISSION_GATED_BY}
    story.wishes["a"]["annotations"] = left
    story.toy.change(pod.uid, annotations=left)
    story.go_on()
    story.runs("a")


def test_lower_priorities_are_preempted() -> None:
    """P: Should preempt Workloads with lower priority when there is not enough quota"""
    story = alone(4, **NEWER)
    for name, priority in (("low1", -1), ("low2", -1), ("mid", 0), ("high1", 1)):
        story.group(name, "q", 1, priority)
    story.group("low3", "q", 1, -1)
    story.runs("low1 low2 mid high1")
    story.group("high2", "q", 2, 1)
    story.runs("mid high1 high2")


def test_newer_ones_of_equal_priority_are_preempted() -> None:
    """P: Should preempt newer Workloads with the same priority when there is not enough quota"""
    story = alone(4, **NEWER)
    story.group("w1", "q")
    story.group("w2", "q")
    story.group("w3", "q", 3)
    story.group("w4", "q")
    story.runs("w1 w2 w4")
    story.finish("w1")
    story.runs("w2 w3")
    assert story.preempted("w4") == "InClusterQueue"


def test_each_is_preempted_once() -> None:
    """P: Should issue preemption exactly once for each preempted workload"""
    story, low = alone(4, **NEWER), [f"low{n}" for n in range(8)]
    for name in low:
        story.group(name, "q", 0.5, 10)
    for round_ in (1, 2):
        story.runs(" ".join(low))
        story.group(f"high{round_}", "q", 4, 100)
        story.runs(f"high{round_}")
        said = [on.split("-")[0] for on, reason, _ in story.toy.said if reason == "Stopped"]
        assert sorted(said) == sorted(low * round_)
        story.finish(f"high{round_}")


def three(**of_beta: Any) -> Story:
    """Queues alpha, beta and gamma of 2 CPU each in a cohort; beta preempts nobody."""
    story = Story("f")
    story.queue("alpha", "f=2", "all", **BOTH)
    story.queue("beta", "f=2", "all", **of_beta)
    story.queue("gamma", "f=2", "all", **BOTH)
    return story


def test_who_borrows_gives_back() -> None:
    """P: Should preempt Workloads in the cohort borrowing quota, when ... less than nominal

    Smaller differences: the preemptor's Workload is not there yet, so its UID is UNKNOWN. Row Q14:
    the message says who gave way to whom before Kueue's words.
    """
    story = three()
    story.group("alow", "alpha", 1, -1)
    story.group("bmid", "beta", 1, 0)
    story.group("bhigh", "beta", 4, 1)
    story.runs("alow bmid bhigh")
    story.group("amid", "alpha", 2, 0)
    story.runs("amid bhigh")
    said = (story.preempted("alow"), story.preempted("bmid"))
    assert said == ("InClusterQueue", "InCohortReclamation")
    _, _, text = story.toy.condition("bmid", "Preempted")
    assert text.endswith(
        "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: UNKNOWN) due to reclamation "
        "within the cohort; preemptor path: /all/alpha; preemptee path: /all/beta"
    )
    story.finish("amid")
    story.runs("alow bmid bhigh")
    status, reason, again = story.toy.condition("bmid", "Preempted")
    assert (status, reason) == ("False", "QuotaReserved") and again.startswith("Previously: ")


def test_who_would_borrow_takes_nothing_back() -> None:
    """P: Should not preempt Workloads in the cohort, if the ClusterQueue requires borrowing"""
    story = three()
    story.group("ahigh1", "alpha", 2, 1)
    story.group("blow", "beta", 4, -1)
    story.group("ahigh2", "alpha", 2, 1)
    story.runs("ahigh1 blow")


def test_two_take_back_at_once_what_has_different_priorities() -> None:
    """P: Should preempt all necessary workloads in concurrent ... with different priorities"""
    story = three()
    story.group("bmid", "beta", 3, 0)
    story.group("bhigh", "beta", 3, 1)
    story.group("amid", "alpha", 2, 0)
    assert story.reserved() == {"bhigh", "amid"}
    story.group("gmid", "gamma", 2, 0)
    story.runs("amid gmid")


def test_two_take_back_at_once_what_has_one_priority() -> None:
    """P: Should preempt all necessary workloads in concurrent ... with the same priority"""
    story = three()
    for name in ("b1", "b2", "b3"):
        story.group(name, "beta", 2)
    story.group("a", "alpha", 2)
    story.group("g", "gamma", 2)
    assert len(story.reserved() & {"b1", "b2", "b3"}) == 1
    assert {"a", "g"} <= story.reserved()


def test_a_strict_queue_gives_back_though_others_wait_in_it() -> None:
    """P: Should reclaim from cohort even if another CQ has pending workloads"""
    story = Story("f")
    story.queue("alpha", "f=2", "all", **STRICT, **BOTH)
    story.queue("beta", "f=2", "all", **STRICT, **BOTH)
    story.group("all", "alpha", 4, 1)
    story.group("waits", "alpha", 1, 0)
    story.runs("all")
    story.group("takes", "beta", 1, -1)
    assert "takes" in story.reserved() and "all" not in story.reserved()


def test_most_quota_is_in_a_queue_for_all() -> None:
    """P: should allow preempting workloads while borrowing (a shared ClusterQueue)"""
    story = Story("one", "fallback")
    how: dict[str, Any] = {
        "when_can_preempt": "MayStopSearch",
        "reclaim_within_cohort": "LowerPriority",
        "borrow_within_cohort": "LowerPriority",
    }
    for name in ("a-standard", "a-best", "b-standard", "b-best"):
        bound = {"max_priority_threshold": 0} if "standard" in name else {}
        story.queue(name, "one=1/10 fallback=10/0", "all", **how, **bound)
    story.queue("shared", "one=10", "all")
    story.group("alow", "a-best", 5, -1)
    story.group("blow", "b-best", 1, -1)
    story.group("bhigh", "b-standard", 5, 1)
    assert {f for n in ("alow", "blow", "bhigh") for f in story.flavors(n)} == {"one"}
    story.group("ahigh", "a-standard", 7, 2)
    story.runs("alow blow bhigh ahigh")
    _, reason, text = story.toy.condition("alow", "Preempted")
    assert reason == "QuotaReserved" and "reclamation within the cohort while borrowing" in text
    given = {name: story.flavors(name) for name in ("blow", "bhigh", "ahigh")}
    assert all(flavors == {"one"} for flavors in given.values())
    assert story.flavors("alow") == {"fallback"}


def test_what_is_lent_is_taken_back() -> None:
    """P: Should be able to preempt when lending limit enabled"""
    story = Story("f")
    story.queue("prod", "f=5//4", "all", **ANY)
    story.queue("dev", "f=5", "all")
    story.group("a", "dev", 4, 0)
    story.group("b", "dev", 5, 1)
    story.runs("a b")
    story.group("c", "prod", 4)
    story.runs("b c")


def test_who_borrows_preempts_up_to_a_priority() -> None:
    """P: should allow preempting workloads while borrowing (borrowWithinCohort is used)"""
    story = Story("f")
    story.queue("a", "f=0/10", "all", when_can_preempt="MayStopSearch", **BOTH)
    bound = {"borrow_within_cohort": "LowerPriority", "max_priority_threshold": 2}
    story.queue("b", "f=5/5", "all", when_can_preempt="MayStopSearch", **BOTH, **bound)
    story.queue("c", "f=5", "all", when_can_preempt="MayStopSearch", **BOTH)
    story.group("a1", "a", 4, 0)
    story.group("b1", "b", 4, 1)
    story.runs("a1 b1")
    story.group("b2", "b", 4, 1)
    story.runs("b1 b2")


def test_a_cohort_guarantees_quota_to_its_queues() -> None:
    """P: workloads in guaranteed cq should have preferential access to the resources"""
    story = Story("f")
    story.cohort("root")
    story.cohort("guaranteed", "f=3", parent="root")
    story.queue("best", "f=0", "root", **BOTH)
    story.queue("sure", "f=0", "guaranteed", **BOTH)
    story.group("b", "best", 3, 1)
    story.runs("b")
    story.group("s", "sure", 3, 0)
    story.runs("s")


def test_nobody_takes_what_a_preemptor_waits_for() -> None:
    """P: Should prevent other workloads from stealing quota when a preemptor is waiting

    Row Q1; in Kueue this is behind a feature gate.
    """
    story, lower = Story("f"), {"borrow_within_cohort": "LowerPriority"}
    story.queue("alpha", "f=2", "all", **BOTH, **lower)
    for name in ("beta", "gamma"):
        story.queue(name, "f=1", "all", **OWN, **lower, reclaim_within_cohort="LowerPriority")
    story.group("a", "alpha", 1, 0)
    story.group("b", "beta", 3, 0)
    story.group("c", "gamma", 1, -1)
    story.runs("a b")
    story.toy.slow = True
    story.group("takes", "alpha", 4, 1)
    assert story.preempted("a") and story.preempted("b")
    story.toy.end(*story.pods("b", "Running"), phase="Failed")
    story.go_on()
    assert "c" not in story.reserved() and "takes" not in story.reserved()
    story.toy.end(*story.pods("a", "Running"), phase="Failed")
    story.go_on()
    story.runs("takes")


def test_a_story_can_go_wrong() -> None:
    """What the words of these stories say is held against what is so."""
    story = alone(1)
    story.group("a", "q")
    story.group("b", "q")
    with pytest.raises(AssertionError):
        story.runs("a b")
