"""Rows about time-outs and back-offs, in builtin mode: Kueue's core does this for its own."""

import msgspec
import pytest

from podgroup.model.names import FAST_ADMISSION, MAX_EXEC_SECONDS
from podgroup.model.objects import RequeueState
from podgroup.model.policy import Policy
from tests.parity.groups import SHORT
from tests.support.toy import Toy

IMPATIENT = Policy(
    pods_ready_timeout_s=300,
    pods_ready_recovery_timeout_s=100,
    requeuing_backoff_s=60,
    requeuing_backoff_max_s=90,
    requeuing_limit=1,
)


def pair(toy: Toy, *names: str, **more: object) -> None:
    for name in names:
        toy.pod(name, "g", len(names), **more)  # type: ignore[arg-type] # passed on


@pytest.mark.parity("I-32", "B15")
def test_two_time_outs_evict_with_back_off_and_then_deactivate() -> None:
    toy = Toy(policy=IMPATIENT)
    pair(toy, "p0", "p1")
    toy.run("p0")
    toy.wait(299)
    assert "Evicted" not in toy.true("g")
    toy.wait(2)
    assert toy.condition("g", "Evicted") == (
        "True",
        "PodsReadyTimeout",
        "Exceeded the PodsReady timeout ns/g",
    )
    assert toy.condition("g", "QuotaReserved")[0] == "False"
    assert toy.condition("g", "Requeued")[:2] == ("False", "PodsReadyTimeout")
    assert toy.condition("g", SHORT)[:2] == ("True", "PodsReadyTimeout")
    said = toy.workloads["g"].requeue
    assert said.count == 1 and said.at is not None
    assert 50 < (said.at - toy.now).total_seconds() <= 60
    pair(toy, "p2", "p3")
    assert toy.gated("p2"), "the back-off is not over"
    toy.wait(61)
    assert not toy.gated("p2") and not toy.gated("p3")
    assert toy.condition("g", "Requeued")[:2] == ("True", "BackoffFinished")
    assert toy.workloads["g"].requeue == RequeueState(count=1)
    toy.wait(301)
    assert not toy.workloads["g"].active
    reason = "DeactivatedDueToRequeuingLimitExceeded"
    assert toy.condition("g", "Evicted")[:2] == ("True", reason)
    assert toy.condition("g", "QuotaReserved")[0] == "False"
    assert toy.condition("g", SHORT)[:2] == ("True", reason)
    assert toy.workloads["g"].requeue == RequeueState()
    toy.wait(10_000)
    pair(toy, "p4", "p5")
    assert toy.gated("p4") and toy.condition("g", "QuotaReserved")[1] == "Deactivated"
    toy.put_workload(msgspec.structs.replace(toy.workloads["g"], active=True))
    toy.settle()
    assert not toy.gated("p4"), "B15: and a person can take it back"


@pytest.mark.parity("I-33", "I-34")
@pytest.mark.parametrize("fast", [False, True])
def test_after_the_back_off_it_waits_for_its_pods(fast: bool) -> None:
    toy = Toy(policy=IMPATIENT)
    notes = {FAST_ADMISSION: "true"} if fast else {}
    toy.pod("p0", "g", 1, annotations=notes)
    toy.run("p0")
    toy.change(toy.named("p0").uid, conditions=())
    toy.wait(301)
    toy.wait(3600)
    assert toy.condition("g", "Requeued")[:2] == ("True", "BackoffFinished")
    assert "QuotaReserved" not in toy.true("g") and SHORT in toy.true("g")
    toy.pod("p1", "g", 1, annotations=notes)
    assert not toy.gated("p1") and "Admitted" in toy.true("g")


@pytest.mark.parity("I-40")
def test_a_single_pod_that_timed_out_is_replaced_by_its_owner() -> None:
    toy = Toy(cpu=1, policy=IMPATIENT)
    toy.pod("pod-1")
    (first,) = toy.workloads
    toy.run("pod-1")
    toy.change(toy.named("pod-1").uid, conditions=())
    toy.pod("pod-2")
    assert toy.gated("pod-2")
    toy.wait(301)
    assert toy.stopped("pod-1")[0] == "WorkloadEvictedDueToPodsReadyTimeout"
    assert "pod-1" not in toy.there() and first not in toy.workloads
    ended = [d for d in toy.decisions if d.reason == "OwnerNotFound" or d.rule == "finish"]
    assert ended
    assert not toy.gated("pod-2")


@pytest.mark.parity("I-32")
def test_a_group_that_was_ready_has_a_time_out_of_its_own_and_a_quick_one_is_left_alone() -> None:
    toy = Toy(policy=IMPATIENT)
    pair(toy, "p0", "p1")
    toy.run("p0", "p1")
    toy.wait(10_000)
    assert "Evicted" not in toy.true("g")
    toy.end("p0", phase="Failed")
    toy.wait(99)
    assert "Evicted" not in toy.true("g")
    toy.wait(2)
    assert toy.condition("g", "Evicted")[1] == "PodsReadyTimeout"


@pytest.mark.parity("B6")
def test_a_group_that_completes_is_never_timed_out() -> None:
    toy = Toy(policy=IMPATIENT)
    pair(toy, "p0", "p1")
    toy.run("p0", "p1")
    toy.end("p0")
    toy.wait(100_000)
    assert "Evicted" not in toy.true("g")


def test_without_a_policy_nobody_is_timed_out() -> None:
    toy = Toy()
    pair(toy, "p0", "p1")
    toy.wait(1_000_000)
    assert "Evicted" not in toy.true("g")


def test_the_maximum_execution_time_counts_over_admissions() -> None:
    toy = Toy()
    pair(toy, "p0", "p1", labels={MAX_EXEC_SECONDS: "100"})
    toy.run("p0", "p1")
    toy.wait(99)
    assert "Evicted" not in toy.true("g")
    toy.wait(2)
    reason = "DeactivatedDueToMaximumExecutionTimeExceeded"
    assert toy.condition("g", "Evicted") == (
        "True",
        reason,
        "The workload is deactivated due to exceeding the maximum execution time",
    )
    assert not toy.workloads["g"].active and toy.there() == {"p0", "p1"}
    assert "MaximumExecutionTimeExceeded" in {r for _, r, _ in toy.said}
    assert {p.phase for p in toy.pods.values()} == {"Failed"}
