"""Decided but not yet observed: nothing is decided twice, whichever of outcome and watch is first.

The API server answers the write that takes the last finalizer off a deleted object with the version
before it, because the write is a removal.
"""

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest

from podgroup.engine import decide
from podgroup.fold.common import expect
from podgroup.log import events as e
from podgroup.log.journal import At
from podgroup.log.outcomes import Status
from podgroup.model.commands import AnyCommand, FinalizeWorkload, WriteWorkloadStatus
from podgroup.model.ids import PodUID
from podgroup.model.names import JOB_UID, POD_FINALIZER, PRIORITY_CLASS
from podgroup.model.policy import Policy
from podgroup.state.changes import EVERYTHING
from podgroup.state.pod import Expectation
from tests.support.toy import Toy


def last(toy: Toy, action: str) -> e.Decision:
    return next(d for d in reversed(toy.decisions) if type(d.command).__name__ == action)


def applied(toy: Toy, decision: e.Decision, version: str) -> list[AnyCommand]:
    """Report an outcome; return what is decided because of it."""
    before = len(toy.decisions)
    uid = decision.command.target.uid
    toy.send(
        e.OutcomeRecorded(
            decision=decision.id,
            group=decision.group,
            status="applied",
            uid=uid,
            resource_version=version,
        )
    )
    return [d.command for d in toy.decisions[before:]]


def ungated(toy: Toy) -> None:
    toy.act = False
    toy.pod("a", "g", 1)


def evicted(toy: Toy) -> None:
    toy.pod("a", "g", 1)
    toy.run("a")
    toy.act = False
    toy.pod("urgent", cpu=10, labels={PRIORITY_CLASS: "high"})


def in_excess(toy: Toy) -> None:
    toy.pod("a", "g", 1)
    toy.act = False
    toy.pod("b", "g", 1)


def unlabelled(toy: Toy) -> None:
    toy.pod("a")
    toy.run("a")
    toy.act = False
    toy.unlabel("a")


@pytest.mark.parametrize(
    ("story", "rule"),
    [(ungated, "ungate"), (evicted, "evict"), (in_excess, "excess"), (unlabelled, "keep")],
)
def test_what_is_in_flight_is_not_decided_again(story: Callable[[Toy], None], rule: str) -> None:
    """Whatever is thought over, and however late: the lists that rules go over leave it out."""
    toy = Toy()
    story(toy)
    made = toy.world.journal.decisions
    assert rule in toy.rules()
    before = len(made)
    toy.world.dirty_groups.update(dict.fromkeys(toy.world.groups, EVERYTHING))
    decide(toy.world, At(toy.position, toy.now + timedelta(minutes=2)))
    assert rule not in [decision.rule for decision in made[before:]]


def test_a_pod_that_went_with_its_finalizer_is_not_finalized_again() -> None:
    toy = Toy()
    toy.pod("a", "g", 2)
    toy.act = False
    toy.delete("a")
    decision = last(toy, "FinalizePod")
    view = toy.named("a")
    assert applied(toy, decision, view.resource_version) == []
    toy.send(e.PodDeleted(pod=view))
    assert toy.world.expecting == {}
    assert not toy.world.pods


def test_a_workload_that_went_with_its_finalizer_is_not_finalized_again() -> None:
    toy = Toy()
    toy.pod("a", "g", 1)
    toy.run("a")
    toy.end("a")
    assert toy.workloads["g"].finalizers == ()
    toy = Toy()
    toy.pod("a", "g", 1)
    toy.act = False
    toy.delete_workload("g")
    decision = last(toy, "FinalizeWorkload")
    view = toy.workloads["g"]
    again = applied(toy, decision, view.resource_version)
    assert [c for c in again if c.target.kind == "Workload"] == []
    toy.send(e.WorkloadDeleted(workload=view))
    assert toy.group("g").mirror.expect is None


@pytest.mark.parity("B2")
def test_a_deletion_that_overtakes_the_ungating_leaves_nothing_behind() -> None:
    """The pod is past the gate when its deletion is seen, and gets no node any more."""
    toy = Toy()
    for name in ("a", "b"):
        toy.pod(name, "g", 2, settle=False)
    first = toy.named("a")
    toy.act = False
    toy.change(first.uid, deleted_at=toy.now)
    toy.act = True
    ungated = {"gates": (), "labels": {**first.labels, "x": "y"}}
    toy.change(first.uid, settle=False, **ungated)
    toy.settle()
    assert toy.there() == {"b"}
    assert toy.true("g") >= {"WaitingForReplacementPods"}


def test_a_pod_being_stopped_and_let_go_of_is_not_finalized_besides() -> None:
    """The watch shows the deletion before the same decision takes our finalizer off."""
    toy = Toy()
    toy.pod("a", "g", 1)
    toy.run("a")
    toy.act = False
    toy.delete_workload("g")
    stop = last(toy, "StopPod")
    assert stop.command.target.name == "a"
    toy.change(toy.named("a").uid, deleted_at=toy.now)
    assert not [d for d in toy.decisions if type(d.command).__name__ == "FinalizePod"]


@pytest.mark.parity("C-55")
@pytest.mark.parametrize("mode", ["builtin", "kueue"])
@pytest.mark.parametrize("collects", [True, False])
def test_the_workload_of_a_group_without_pods_is_let_go_of_once_and_not_deleted(
    mode: str, collects: bool
) -> None:
    """Its owners are gone, so garbage collection takes it; where there is none it stays."""
    toy = Toy(cpu=0, mode=mode)
    toy.collects = collects
    for name in ("a", "b"):
        toy.pod(name, "g", 2)
    toy.act = False
    for name in ("a", "b"):
        toy.change(toy.named(name).uid, finalizers=())
        toy.delete(name)
    toy.act = True
    toy.settle()
    toy.wait(60)
    ends = [d.command for d in toy.decisions if isinstance(d.command, FinalizeWorkload)]
    assert ends == [FinalizeWorkload(target=ends[0].target)]
    assert [w.finalizers for w in toy.workloads.values()] == ([] if collects else [()])


def test_a_workload_whose_owner_left_its_group_is_deleted_once() -> None:
    """The pod lives on without our label, and as long as it does nobody collects the Workload."""
    toy = Toy(cpu=0)
    toy.pod("a", "g", 1)
    toy.unlabel("a")
    assert toy.workloads == {} and toy.named("a")
    ends = [d.command for d in toy.decisions if isinstance(d.command, FinalizeWorkload)]
    assert ends == [FinalizeWorkload(target=ends[0].target, delete=True)]


@pytest.mark.parity("I-05", "C-52")
@pytest.mark.parametrize("mode", ["kueue", "builtin"])
def test_a_pod_that_goes_while_its_workload_is_written_leaves_no_quota_reserved(mode: str) -> None:
    """PodsReady is on its way when the eviction comes, and the deletion is seen before it is there.

    The group is over then, and the write that says so is the last one: it says the rest as well.
    """
    toy = Toy(mode=mode, policy=Policy(wait_for_pods_ready="on"))
    toy.pod("foo", finalizers=(POD_FINALIZER, "example.com/hold"))
    (name,) = toy.workloads
    if mode == "kueue":
        toy.admit(name)
    toy.act = False
    toy.run("foo")
    assert isinstance(toy.queue[0].command, WriteWorkloadStatus), "PodsReady is in flight"
    if mode == "kueue":
        toy.evict(name)
    else:
        toy.pod("urgent", cpu=10, labels={PRIORITY_CLASS: "high"})
    toy.change(toy.named("foo").uid, deleted_at=toy.now, phase="Failed")
    toy.act = True
    toy.settle()
    assert toy.condition(name, "Finished")[:2] == ("True", "Failed")
    assert toy.condition(name, "QuotaReserved")[0] == "False"
    assert toy.condition(name, "Admitted")[:2] == ("False", "NoReservation")
    assert toy.condition(name, "Requeued")[:2] == ("False", "Preempted")
    assert toy.workloads[name].cluster_queue == ""


def pauses(toy: Toy, action: str, seconds: int) -> list[int]:
    """Let time pass second by second; return how long after one another a write was tried."""
    before = len(toy.decisions)
    for _ in range(seconds):
        toy.wait(1)
    tried = [d.at for d in toy.decisions[before:] if type(d.command).__name__ == action]
    return [round((b - a).total_seconds()) for a, b in pairwise(tried)]


@pytest.mark.parametrize("action", ["UngatePod", "WriteWorkloadStatus"])
def test_a_write_that_is_rejected_again_and_again_is_tried_every_minute(action: str) -> None:
    """What is mended is noticed within one (law 11)."""
    toy = Toy()
    toy.takes_status = False
    toy.rejecting = {action}
    toy.pod("p0")
    found = pauses(toy, action, 2500)
    assert found == pytest.approx([60] * 41, abs=2)
    toy.rejecting.clear()
    toy.wait(600)
    assert not toy.gated("p0"), "it is never given up"
    toy.rejecting = {"WriteWorkloadStatus"}
    toy.run("p0")
    toy.end("p0")
    found = pauses(toy, "WriteWorkloadStatus", 100)
    assert found == pytest.approx([60], abs=2), "what was accepted begins anew"


def test_a_pod_that_changes_is_tried_again_at_once() -> None:
    toy = Toy()
    toy.rejecting = {"UngatePod"}
    pod = toy.pod("p0")
    toy.wait(31)
    toy.rejecting.clear()
    toy.change(pod.uid, annotations={"a": "b"})
    assert not toy.gated("p0")


@pytest.mark.parametrize("status", ["applied", "rejected"])
@pytest.mark.parametrize(("action", "pods"), [("FinalizePod", 2), ("CreateWorkload", 1)])
def test_an_outcome_ends_no_wait_for_a_later_decision(
    action: str, pods: int, status: Status
) -> None:
    """No rule decides while something is in flight; the fold does not rely on it."""
    toy = Toy()
    toy.act = False
    toy.pod("a", "g", pods)
    if action == "FinalizePod":
        toy.delete("a")
    first, group = last(toy, action), toy.group("g")
    pod = toy.world.pods[PodUID(first.command.target.uid)] if action == "FinalizePod" else None
    later = Expectation("later", action, toy.position, toy.now)
    expect(toy.world, group, pod, later)
    toy.send(
        e.OutcomeRecorded(decision=first.id, group=first.group, status=status, resource_version="1")
    )
    assert (group.mirror.expect if pod is None else pod.expect) == later


@pytest.mark.parametrize(("takes", "writes"), [(True, 0), (False, 1)])
def test_a_workload_is_made_with_what_its_status_has_to_say(takes: bool, writes: int) -> None:
    """Where the API server takes a new object's status no write follows, else one does."""
    toy = Toy(cpu=1)
    toy.takes_status = takes
    for name in ("runs", "waits"):
        toy.decisions.clear()
        toy.pod(name)
        toy.settle()
        of_status = [d for d in toy.decisions if isinstance(d.command, WriteWorkloadStatus)]
        assert len(of_status) == writes, name
    said = {
        view.labels[JOB_UID]: {one.type: one.status for one in view.conditions}
        for view in toy.workloads.values()
    }
    assert said[toy.last["runs"].uid] == {"QuotaReserved": "True", "Admitted": "True"}
    assert said[toy.last["waits"].uid] == {"QuotaReserved": "False"}
