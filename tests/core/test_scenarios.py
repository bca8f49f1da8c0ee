"""User scenarios on the pure core: the same stories as the conformance suite, without any I/O."""

from datetime import timedelta

import pytest

from podgroup.log.records import Timed
from podgroup.model.names import (
    FAST_ADMISSION,
    POD_FINALIZER,
    PRIORITY_CLASS,
    RETRIABLE_IN_GROUP,
    SERVING,
    workload_name,
)
from podgroup.model.objects import NodeView
from podgroup.state.changes import EVERYTHING
from tests.support.toy import Toy, taken

DAY = timedelta(days=1)
HIGH, LOW = {PRIORITY_CLASS: "high"}, {PRIORITY_CLASS: "low"}


def held(toy: Toy, name: str) -> bool:
    return bool(toy.named(name).finalizers)


def there(toy: Toy) -> set[str]:
    return {p.name for p in toy.pods.values()}


def test_single_pod_is_gated_admitted_runs_and_is_released() -> None:
    toy = Toy()
    foo = toy.pod("foo")
    assert not toy.gated("foo")
    assert toy.named("foo").node_selector == {"pool": "a"}
    name = workload_name("foo", foo.uid)
    assert toy.true(name) >= {"QuotaReserved", "Admitted"}
    toy.run("foo")
    toy.end("foo")
    assert not held(toy, "foo")
    assert "Finished" in toy.true(name)
    assert toy.group("foo").explained.state == "Finished"
    toy.delete("foo")
    assert not toy.world.groups and not toy.world.pods and not toy.workloads


def test_driver_and_workers_compose_when_all_are_there() -> None:
    toy = Toy()
    toy.pod("driver", "g", 3, cpu=1)
    toy.pod("w0", "g", 3, cpu=2)
    assert toy.gated("driver") and toy.group("g").explained.state == "Composing"
    toy.pod("w1", "g", 3, cpu=2)
    assert not any(toy.gated(n) for n in ("driver", "w0", "w1"))
    assert [p.count for p in toy.workloads["g"].pod_sets] == [1, 2]
    toy.run("driver", "w0", "w1")
    toy.end("w0")
    assert toy.workloads["g"].reclaimable == {"r2": 1}
    toy.end("w1", "driver")
    assert toy.group("g").explained.state == "Finished" and not held(toy, "w0")
    assert toy.group("g").ending.finish.reason == "Succeeded"


def test_excess_before_admission_takes_the_youngest() -> None:
    toy = Toy()
    toy.pod("hog", cpu=10)
    toy.run("hog")
    for i in range(4):
        toy.pod(f"p{i}", "g", 3)
    assert there(toy) == {"hog", "p0", "p1", "p2"}
    assert toy.group("g").explained.wait.reason == "WaitingForQuota"
    toy.end("hog")
    toy.run("p0", "p1", "p2")
    assert toy.group("g").explained.state == "Running"


def test_excess_after_admission_is_deleted() -> None:
    toy = Toy()
    for i in range(3):
        toy.pod(f"p{i}", "g", 3)
    toy.run("p0", "p1", "p2")
    toy.pod("extra", "g", 3)
    assert there(toy) == {"p0", "p1", "p2"}
    assert ("Normal", "ExcessPodDeleted", "Excess pod deleted") in toy.events


def test_failed_pod_is_replaced_and_released_only_then() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.run("p0", "p1")
    toy.end("p0", phase="Failed")
    assert held(toy, "p0") and "WaitingForReplacementPods" in toy.true("g")
    assert toy.group("g").explained.state == "Running"
    toy.pod("again", "g", 2)
    assert not held(toy, "p0") and not toy.gated("again")
    assert "WaitingForReplacementPods" not in toy.true("g")
    toy.run("again")
    toy.end("p1", "again")
    assert toy.group("g").ending.finish.reason == "Succeeded"
    assert {o.name for o in toy.workloads["g"].owners} == {"p0", "p1", "again"}


@pytest.mark.parity("B20")
def test_pod_that_failed_first_is_released_first() -> None:
    toy = Toy()
    for i in range(3):
        toy.pod(f"p{i}", "g", 3)
    toy.run("p0", "p1", "p2")
    toy.end("p1", phase="Failed")
    toy.end("p0", phase="Failed")
    toy.pod("r", "g", 3)
    assert not held(toy, "p1") and held(toy, "p0")


@pytest.mark.parity("B5")
def test_unretriable_group_with_failures_is_failed() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.run("p0", "p1")
    p0 = toy.named("p0")
    toy.change(p0.uid, annotations={**p0.annotations, RETRIABLE_IN_GROUP: "false"})
    toy.end("p0", phase="Failed")
    assert toy.group("g").explained.state == "Running"
    toy.end("p1", phase="Failed")
    assert toy.group("g").ending.finish.reason == "Failed"
    assert not held(toy, "p0") and not held(toy, "p1")


@pytest.mark.parity("B1")
def test_different_total_counts_block_and_say_who() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 3)
    group = toy.group("g")
    assert (
        group.explained.state == "Blocked" and group.explained.wait.reason == "DifferentTotalCounts"
    )
    assert "'p0'" in group.explained.wait.message and "'p1'" in group.explained.wait.message
    assert not toy.workloads


def test_deleted_workload_takes_the_group_down() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.run("p0", "p1")
    toy.delete_workload("g")
    assert not toy.pods and not toy.workloads and not toy.world.groups
    assert not toy.world.quotas.charges


def test_second_group_waits_for_quota() -> None:
    toy = Toy()
    for n in ("a0", "a1"):
        toy.pod(n, "ga", 2, cpu=5)
    toy.run("a0", "a1")
    for n in ("b0", "b1"):
        toy.pod(n, "gb", 2, cpu=5)
    assert toy.group("gb").explained.state == "Queued"
    toy.end("a0")
    assert toy.gated("b0")
    toy.end("a1")
    assert not toy.gated("b0") and not toy.gated("b1")


def test_low_priority_group_is_preempted_and_comes_back() -> None:
    toy = Toy()
    for n in ("l0", "l1"):
        toy.pod(n, "gl", 2, cpu=5, labels=LOW)
    toy.run("l0", "l1")
    toy.pod("h", cpu=10, labels=HIGH)
    assert not toy.gated("h")
    assert toy.group("gl").explained.state == "Evicted"
    assert toy.true("gl") >= {"Evicted", "WaitingForReplacementPods", "Requeued"}
    assert "Admitted" not in toy.true("gl") and toy.workloads["gl"].cluster_queue == ""
    toy.run("h")
    for n in ("l0-again", "l1-again"):
        toy.pod(n, "gl", 2, cpu=5, labels=LOW)
    assert there(toy) == {"h", "l0-again", "l1-again"}
    assert toy.group("gl").explained.state == "Queued"
    toy.end("h")
    toy.run("l0-again", "l1-again")
    assert toy.group("gl").quota.admissions == 2
    assert toy.true("gl") >= {"Admitted", "QuotaReserved"} and "Evicted" not in toy.true("gl")


@pytest.mark.parity("B2")
def test_gated_pod_that_is_deleted_leaves_at_once() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.delete("p0")
    assert not toy.pods and not toy.world.groups


def test_running_pod_that_is_deleted_is_kept_until_replaced() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.run("p0", "p1")
    toy.delete("p0")
    assert held(toy, "p0")
    toy.pod("again", "g", 2)
    toy.run("again")
    assert there(toy) == {"p1", "again"}
    assert {o.name for o in toy.workloads["g"].owners} == {"p1", "again"}


@pytest.mark.parity("B4")
def test_replacement_of_a_terminating_bound_pod_waits_gated_instead_of_being_deleted() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.run("p0", "p1")
    toy.change(toy.named("p0").uid, deleted_at=toy.now)
    toy.pod("again", "g", 2)
    assert toy.gated("again") and "excess" not in toy.rules()
    toy.change(toy.named("p0").uid, phase="Failed", conditions=())
    assert there(toy) == {"p1", "again"} and not toy.gated("again")


def test_fast_admission_starts_with_the_first_pod() -> None:
    toy = Toy()
    fast = {FAST_ADMISSION: "true"}
    toy.pod("p0", "g", 3, annotations=fast)
    assert not toy.gated("p0")
    toy.run("p0")
    toy.pod("p1", "g", 3, annotations=fast)
    toy.pod("p2", "g", 3, annotations=fast)
    assert not toy.gated("p1") and not toy.gated("p2")
    assert {o.name for o in toy.workloads["g"].owners} == {"p0", "p1", "p2"}


@pytest.mark.parity("B3", "I-20")
def test_serving_group_keeps_the_successor_of_a_succeeded_pod() -> None:
    toy = Toy()
    serving = {SERVING: "true", FAST_ADMISSION: "true"}
    toy.pod("p0", "g", 2, annotations=serving)
    toy.pod("p1", "g", 2, annotations=serving)
    toy.run("p0", "p1")
    toy.end("p0")
    assert toy.workloads["g"].reclaimable == {}
    toy.pod("p0-again", "g", 2, annotations=serving)
    toy.run("p0-again")
    assert there(toy) == {"p0", "p1", "p0-again"} and not held(toy, "p0")


@pytest.mark.parametrize("mode", ["builtin", "kueue"])
def test_a_successor_in_a_serving_group_can_have_the_name_of_a_pod_that_ended(mode: str) -> None:
    """A StatefulSet's pods: no second object of a name before the first is gone (Kueue #13830)."""
    toy = Toy(cpu=2, mode=mode)
    serving = {SERVING: "true", FAST_ADMISSION: "true"}
    for name in ("s0", "s1"):
        toy.pod(name, "g", 2, annotations=serving)
    if mode == "kueue":
        toy.admit("g")
    toy.run("s0", "s1")
    toy.slow = True
    toy.delete("s0")
    assert there(toy) == {"s0", "s1"} and held(toy, "s0"), "it runs in its grace period"
    toy.end("s0", phase="Failed")
    assert there(toy) == {"s1"} and not toy.gated("s1")
    toy.pod("s0", "g", 2, annotations=serving)
    assert not toy.gated("s0"), "it has the place that it had"
    toy.run("s0")
    toy.end("s1", phase="Failed")
    assert held(toy, "s1"), "nobody has asked for its deletion: its place is counted by it"
    toy.delete("s1")
    assert there(toy) == {"s0"}


def test_an_evicted_serving_group_comes_back_under_the_same_names() -> None:
    """Its pods were left in Terminating for successors that could not come (Kueue #13830)."""
    toy = Toy(cpu=2, within="LowerPriority")
    serving = {SERVING: "true", FAST_ADMISSION: "true"}
    for name in ("s0", "s1"):
        toy.pod(name, "g", 2, annotations=serving, labels=LOW)
    toy.run("s0", "s1")
    toy.pod("urgent", cpu=2, labels=HIGH)
    assert there(toy) == {"urgent"} and not toy.gated("urgent")
    for name in ("s0", "s1"):
        toy.pod(name, "g", 2, annotations=serving, labels=LOW)
    assert toy.gated("s0") and toy.gated("s1") and toy.group("g").explained.state == "Queued"
    toy.run("urgent")
    toy.end("urgent")
    assert not toy.gated("s0") and not toy.gated("s1")


def test_a_serving_group_runs_no_more_than_its_quota_while_pods_terminate() -> None:
    """A day of grace was a day of twice the quota, and the next deletion of three times."""
    toy = Toy(cpu=2)
    toy.slow = True
    for name in ("a0", "a1"):
        toy.pod(name, "g", 2, annotations={SERVING: "true"})
    toy.run("a0", "a1")
    for name in ("a0", "a1"):
        toy.change(toy.named(name).uid, deleted_at=toy.now + DAY, grace_s=86_400)
        toy.pod(f"b{name}", "g", 2, annotations={SERVING: "true"})
    toy.wait(3600)
    assert toy.gated("ba0") and toy.gated("ba1")
    assert sum(taken(toy.world, "cq").values()) == 2000
    toy.end("a1", phase="Failed")
    assert [toy.gated(name) for name in ("ba0", "ba1")] == [False, True]
    assert there(toy) == {"a0", "ba0", "ba1"}


def test_a_successor_in_a_serving_group_starts_once_its_predecessor_is_taken_for_lost() -> None:
    toy = Toy(cpu=2)
    toy.slow = True
    for name in ("a0", "a1"):
        toy.pod(name, "g", 2, annotations={SERVING: "true"})
    toy.run("a0", "a1")
    lost = toy.named("a0")
    silent = tuple(one for one in lost.conditions if one.type != "Ready")
    toy.change(lost.uid, deleted_at=toy.now, grace_s=5, conditions=silent)
    toy.pod("b0", "g", 2, annotations={SERVING: "true"})
    assert toy.gated("b0")
    toy.wait(120)
    assert not toy.gated("b0")


def test_news_of_a_pod_that_terminates_on_a_node_that_answers_sets_no_timer() -> None:
    """The time at which it is lost moves on with each event; a record for each said so."""
    toy = Toy(cpu=2)
    toy.slow = True
    for name in ("a0", "a1"):
        toy.pod(name, "g", 2, annotations={SERVING: "true"})
    toy.run("a0", "a1")
    toy.world.nodes["node"] = NodeView(name="node", ready=True)
    toy.unreach("a0")
    toy.ask("a0", 1)
    toy.pod("b0", "g", 2, annotations={SERVING: "true"})
    toy.wait(5)
    toy.change(toy.named("a0").uid, message="stops")
    before = len(timers(toy))
    for number in range(20):
        toy.change(toy.named("a0").uid, message=f"still stops: {number}")
    assert len(timers(toy)) == before and toy.gated("b0")
    toy.world.nodes["node"] = NodeView(name="node", ready=False)
    toy.wait(31)
    toy.wait(31)
    assert not toy.gated("b0")


def timers(toy: Toy) -> list[Timed]:
    """What was asked for in all messages."""
    return [one for said in toy.concluded for one in said.records if isinstance(one, Timed)]


@pytest.mark.parametrize("roles", [18, 19])
def test_eighteen_roles_are_allowed_and_no_more(roles: int) -> None:
    toy = Toy(cpu=1000)
    for i in range(roles):
        toy.pod(f"p{i:02d}", "g", roles, cpu=i + 1)
    assert ("g" in toy.workloads) == (roles == 18)
    if roles == 19:
        assert toy.group("g").explained.wait.reason == "TooManyRoles"


def test_strict_fifo_blocks_behind_its_head_and_best_effort_does_not() -> None:
    for strategy, started in (("StrictFIFO", False), ("BestEffortFIFO", True)):
        toy = Toy(cpu=4, strategy=strategy)
        toy.pod("first", cpu=3)
        toy.pod("big", cpu=3)
        toy.pod("small", cpu=1)
        assert toy.gated("big")
        assert (not toy.gated("small")) == started
        toy.run("first")
        toy.end("first")
        assert not toy.gated("big") and not toy.gated("small")


def test_unknown_queue_is_named_and_admission_follows_once_it_exists() -> None:
    from podgroup.log.events import ObjectApplied
    from podgroup.model.names import QUEUE_NAME
    from podgroup.model.objects import LocalQueueView

    toy = Toy()
    toy.pod("foo", labels={QUEUE_NAME: "nope"})
    assert toy.group("foo").explained.wait.reason == "LocalQueueNotFound"
    assert "nope" in toy.group("foo").explained.wait.message
    toy.do(
        ObjectApplied(
            object=LocalQueueView(
                uid="x",
                namespace="ns",
                name="nope",
                resource_version=toy.bump(),
                cluster_queue="cq",
            )
        )
    )
    assert not toy.gated("foo")


def test_request_beyond_the_whole_quota_says_so() -> None:
    toy = Toy(cpu=4)
    toy.pod("foo", cpu=5)
    assert toy.group("foo").explained.wait.reason == "ExceedsMaxQuota"
    assert toy.group("foo").explained.state == "Blocked"


def test_deciding_again_decides_nothing() -> None:
    from podgroup.engine import decide
    from podgroup.log.journal import At

    toy = Toy()
    for n in ("a0", "a1"):
        toy.pod(n, "ga", 2, cpu=5)
    toy.pod("waiting", cpu=5)
    before = len(toy.world.journal.decisions)
    toy.world.dirty_groups.update(dict.fromkeys(toy.world.groups, EVERYTHING))
    decide(toy.world, At(toy.position, toy.now))
    assert len(toy.world.journal.decisions) == before


def test_who_succeeded_and_is_gone_has_filled_its_place() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.run("p0", "p1")
    toy.end("p0")
    toy.change(toy.named("p0").uid, finalizers=())
    toy.delete("p0")
    toy.pod("more", "g", 2)
    assert {pod.name for pod in toy.pods.values()} == {"p1"}, "more is in excess"


def test_a_pod_on_its_way_out_takes_no_place_of_those_that_may_start() -> None:
    toy = Toy(cpu=1)
    toy.pod("other")
    toy.pod("p0", "g", 1, finalizers=(POD_FINALIZER, "example.com/hold"))
    toy.delete("p0")
    toy.pod("p1", "g", 1)
    toy.run("other")
    toy.end("other")
    assert toy.gated("p0") and not toy.gated("p1")
