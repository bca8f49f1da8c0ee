"""Rows about eviction: stop, release of quota, shortage meanwhile, and coming back."""

from datetime import timedelta

import msgspec
import pytest

from podgroup.model.names import FAST_ADMISSION, PRIORITY_CLASS
from podgroup.model.objects import CheckView, Condition
from podgroup.model.policy import Policy
from tests.parity.groups import SHORT, admitted, placed
from tests.support.toy import Toy

HIGH, LOW = {PRIORITY_CLASS: "high"}, {PRIORITY_CLASS: "low"}


@pytest.mark.parity("C-26", "I-13")
def test_gated_pods_of_an_evicted_group_stay_gated() -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.evict("g")
    before = dict(toy.pods)
    toy.change(toy.named("p0").uid)
    assert toy.gated("p0") and toy.gated("p1")
    assert toy.named("p1") == before[toy.named("p1").uid]


@pytest.mark.parity("C-33", "C-111", "C-113")
def test_quota_stays_while_a_pod_of_the_group_runs_out_its_grace_period() -> None:
    toy = Toy(mode="kueue")
    placed(toy, ("r1", 1))
    toy.pod("p0", "g", 1)
    toy.change(
        toy.named("p0").uid, phase="Running", deleted_at=toy.now + timedelta(seconds=30), grace_s=30
    )
    toy.evict("g")
    assert toy.workloads["g"].cluster_queue == "cq" and toy.held("p0")


@pytest.mark.parity("C-34", "C-110")
@pytest.mark.parametrize("how", ["Failed", "Succeeded", "grace expired"])
@pytest.mark.parametrize("mode", ["kueue"])
def test_quota_goes_when_nothing_runs_any_more(how: str, mode: str) -> None:
    toy = Toy(mode=mode)
    toy.slow = True
    admitted(toy, 1)
    toy.now += timedelta(seconds=10)
    toy.evict("g")
    assert toy.stopped("p0")[0] == "WorkloadEvictedDueToPreempted"
    assert toy.workloads["g"].cluster_queue == "cq"
    if how == "grace expired":
        # The kubelet is gone. Kubernetes sets the deletion to the end of the grace period already;
        # Kueue allows as much again, and so do we.
        toy.change(toy.named("p0").uid, grace_s=30, deleted_at=toy.now + timedelta(seconds=30))
        toy.unreach("p0")
        toy.wait(45)
        assert toy.workloads["g"].cluster_queue == "cq"
        toy.wait(20)
    else:
        toy.end("p0", phase=how)
    if how == "Succeeded":
        # It exits 0 on SIGTERM: that is a success, and the group is over (as in Kueue).
        assert not toy.pods and not toy.workloads
        assert toy.decisions[-1].group not in toy.world.quotas.charges
        return
    assert toy.workloads["g"].cluster_queue == ""
    assert toy.condition("g", "QuotaReserved") == ("False", "PendingEvaluation", "By test")
    assert toy.condition("g", "Admitted")[:2] == ("False", "NoReservation")
    assert toy.condition("g", "Requeued") == ("True", "Preempted", "By test")
    assert toy.workloads["g"].executed_s >= 10
    assert toy.held("p0"), "held until another pod takes its place"


@pytest.mark.parity("C-58")
def test_a_pod_that_is_terminating_already_is_not_stopped_again() -> None:
    toy = Toy(mode="kueue")
    toy.slow = True
    admitted(toy, 3)
    toy.delete("p0")
    toy.evict("g")
    assert {n for n, reason, _ in toy.said if reason == "Stopped"} == {"p1", "p2"}
    assert toy.stopped("p0") == ("", "")


@pytest.mark.parity("C-79", "C-80", "C-81", "I-19")
def test_a_shortage_after_an_eviction_says_what_the_eviction_says() -> None:
    toy = Toy(mode="kueue")
    admitted(toy)
    toy.evict("g", "Preempted", "first")
    assert toy.condition("g", SHORT) == ("True", "Preempted", "first")
    toy.evict("g", "InactiveWorkload", "second")
    assert toy.condition("g", SHORT) == ("True", "InactiveWorkload", "second")
    toy.admit("g")
    assert "Evicted" not in toy.true("g")
    assert toy.condition("g", SHORT) == ("True", "InactiveWorkload", "second")
    toy.pod("p2", "g", 2)
    toy.pod("p3", "g", 2)
    assert toy.condition("g", SHORT) == ("False", "PodsReady", "No pods need replacement")


@pytest.mark.parity("I-13", "E-06")
def test_an_evicted_group_is_replaced_and_comes_back_under_its_workload() -> None:
    toy = Toy(mode="kueue")
    toy.slow = True
    admitted(toy)
    uid = toy.workloads["g"].uid
    toy.evict("g")
    assert all(p.deleted_at is not None for p in toy.pods.values())
    toy.end("p0", phase="Failed")
    assert toy.workloads["g"].cluster_queue == "cq", "p1 still runs"
    toy.end("p1", phase="Failed")
    assert "Admitted" not in toy.true("g")
    toy.pod("p2", "g", 2)
    toy.pod("p3", "g", 2)
    assert toy.there() == {"p2", "p3"}
    toy.admit("g")
    toy.run("p2", "p3")
    toy.end("p2", "p3")
    assert toy.condition("g", "Finished")[2] == "Pods succeeded: 2/2."
    assert toy.condition("g", SHORT)[0] == "False"
    assert toy.workloads["g"].uid == uid


@pytest.mark.parity("I-19")
def test_admitted_again_while_the_old_pod_still_terminates() -> None:
    toy = Toy(mode="kueue")
    toy.slow = True
    admitted(toy, 1)
    toy.evict("g")
    toy.end("p0", phase="Failed")
    assert toy.condition("g", SHORT) == ("True", "Preempted", "By test")
    toy.admit("g")
    assert toy.condition("g", "Evicted")[0] == "False"
    assert toy.condition("g", SHORT) == ("True", "Preempted", "By test")
    toy.pod("again", "g", 1)
    assert toy.condition("g", SHORT)[0] == "False" and not toy.gated("again")


@pytest.mark.parity("C-73", "C-74")
@pytest.mark.parametrize("group", ["", "g"])
def test_what_pending_checks_say_is_told_to_each_pod(group: str) -> None:
    toy = Toy(mode="kueue")
    names = ("p0", "p1") if group else ("p0",)
    for name in names:
        toy.pod(name, group, len(names))
    (workload,) = toy.workloads
    checks = (
        CheckView(name="acName1", state="Pending", message="one"),
        CheckView(name="acName2", state="Pending", message="two"),
        CheckView(name="silent", state="Pending"),
        CheckView(name="done", state="Ready", message="yes"),
    )
    toy.reserve(workload, checks=checks)
    text = "acName1: one; acName2: two"
    told = [(n, t) for n, reason, t in toy.said if reason == "UpdatedAdmissionCheck"]
    assert told == [(name, text) for name in names]
    toy.change(toy.named("p0").uid)
    told = [n for n, reason, t in toy.said if reason == "UpdatedAdmissionCheck"]
    assert len(told) == len(names), "once"


@pytest.mark.parity("E-06")
@pytest.mark.parametrize("fast", [False, True])
def test_a_preempted_group_resumes_when_the_other_one_is_done(fast: bool) -> None:
    toy = Toy(cpu=2)
    notes = {FAST_ADMISSION: "true"} if fast else {}
    for name in ("l0", "l1"):
        toy.pod(name, "low", 2, labels=LOW, annotations=notes)
    toy.run("l0", "l1")
    for name in ("h0", "h1"):
        toy.pod(name, "high", 2, labels=HIGH)
    stopped = [text for _, reason, text in toy.said if reason == "Stopped"]
    assert len(stopped) == 2 and all("Preempted" in text for text in stopped)
    assert toy.stopped("l0")[0] == "WorkloadEvictedDueToPreempted"
    toy.run("h0", "h1")
    for name in ("l2", "l3"):
        toy.pod(name, "low", 2, labels=LOW, annotations=notes)
    assert toy.there() == {"h0", "h1", "l2", "l3"} and toy.gated("l2")
    toy.end("h0", "h1")
    toy.run("l2", "l3")
    toy.end("l2", "l3")
    assert toy.condition("low", "Finished")[2] == "Pods succeeded: 2/2."


@pytest.mark.parity("B15")
def test_a_workload_that_kueue_deactivated_is_queued_again_when_it_is_activated() -> None:
    import msgspec

    toy = Toy(mode="kueue")
    admitted(toy, 1)
    toy.put_workload(msgspec.structs.replace(toy.workloads["g"], active=False))
    reason = "DeactivatedDueToRequeuingLimitExceeded"
    toy.evict("g", reason)
    assert toy.workloads["g"].cluster_queue == ""
    assert toy.condition("g", "Requeued")[:2] == ("False", reason)
    toy.pod("p1", "g", 1)
    toy.put_workload(msgspec.structs.replace(toy.workloads["g"], active=True))
    toy.settle()
    assert toy.condition("g", "Requeued")[0] == "True"


@pytest.mark.parity("I-31")
@pytest.mark.parametrize("group", ["", "g"])
def test_pods_whose_admission_was_taken_away_are_stopped(group: str) -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", group, 1)
    (workload,) = toy.workloads
    toy.admit(workload)
    toy.run("p0")
    gone = [
        Condition(type=kind, status="False", reason="NoReservation")
        for kind in ("QuotaReserved", "Admitted")
    ]
    toy.say(workload, *gone, cluster_queue="", assignments=())
    assert toy.stopped("p0") == ("NotAdmitted", "Not admitted by cluster queue")


@pytest.mark.parity("C-86")
@pytest.mark.parametrize("kept_s", [0, 60])
@pytest.mark.parametrize("mode", ["builtin", "kueue"])
def test_pods_of_a_deactivated_group_are_kept_as_long_as_an_operator_says(
    mode: str, kept_s: int
) -> None:
    policy = Policy(
        pods_ready_timeout_s=10, requeuing_limit=0, retention_after_deactivation_s=kept_s
    )
    toy = Toy(mode=mode, policy=policy)
    reason = "DeactivatedDueToRequeuingLimitExceeded"
    for name in ("p0", "p1"):
        toy.pod(name, "g", 2)
    if mode == "kueue":
        toy.admit("g")
    toy.run("p0")
    toy.change(toy.named("p0").uid, conditions=())
    if mode == "kueue":
        toy.put_workload(msgspec.structs.replace(toy.workloads["g"], active=False))
        toy.evict("g", reason=reason)
    else:
        toy.wait(11)
    if kept_s:
        assert toy.held("p0") and "g" in toy.workloads
        assert not toy.workloads["g"].cluster_queue and "Deleted" not in str(toy.said)
        toy.wait(kept_s)
    assert not toy.pods and "g" not in toy.workloads
    text = "Deleted job: deactivation retention period expired"
    assert ("p0", "Deleted", text) in toy.said and ("p1", "Deleted", text) in toy.said
    assert "Stopped" in {what for name, what, _ in toy.said if name == "p0"}
    assert toy.stopped("p0")[0] == f"WorkloadEvictedDueTo{reason}"


@pytest.mark.parity("C-86")
def test_a_group_that_a_person_deactivated_is_kept() -> None:
    toy = Toy(mode="kueue", policy=Policy(retention_after_deactivation_s=0))
    admitted(toy)
    toy.put_workload(msgspec.structs.replace(toy.workloads["g"], active=False))
    toy.evict("g", reason="Deactivated")
    toy.wait(3600)
    assert toy.held("p0") and "g" in toy.workloads and "Deleted" not in str(toy.said)


@pytest.mark.parity("C-86")
def test_a_group_that_a_person_activates_again_is_kept() -> None:
    policy = Policy(pods_ready_timeout_s=10, requeuing_limit=0, retention_after_deactivation_s=60)
    toy = Toy(cpu=1, policy=policy)
    toy.pod("p0", "g", 1)
    toy.wait(11)
    toy.pod("other")
    toy.run("other")
    toy.put_workload(msgspec.structs.replace(toy.workloads["g"], active=True))
    toy.settle()
    toy.wait(60)
    assert toy.group("g").quota.holding is None and toy.held("p0"), "it waits for quota"
