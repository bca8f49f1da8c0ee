"""What users are told on their pods: after 5 s, once per change, taken back when it is over."""

import itertools
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from podgroup.engine import due_timers
from podgroup.log.events import PodApplied, RelistCompleted, RelistStarted
from podgroup.model.commands import ReportPod
from podgroup.model.names import FAST_ADMISSION, PRIORITY_CLASS, QUEUE_NAME
from podgroup.model.policy import Policy
from tests.support.toy import Toy


def reports(toy: Toy) -> list[tuple[str, str, str]]:
    return [
        (d.command.target.name, d.command.status, d.command.reason)
        for d in toy.decisions
        if isinstance(d.command, ReportPod)
    ]


def wait(toy: Toy, seconds: float) -> None:
    toy.now += timedelta(seconds=seconds)
    due = due_timers(toy.world, toy.now)
    if due:
        toy.do(*due)


@pytest.mark.parity("B12")
def test_a_reason_is_told_once_it_has_held_for_five_seconds_and_taken_back() -> None:
    toy = Toy(cpu=2)
    toy.pod("hog", cpu=2)
    toy.run("hog")
    toy.pod("foo", cpu=1)
    wait(toy, 4)
    assert reports(toy) == []
    wait(toy, 2)
    assert reports(toy) == [("foo", "False", "WaitingForQuota")]
    wait(toy, 60)
    assert len(reports(toy)) == 1, "told once"
    toy.end("hog")
    assert reports(toy)[1:] == [("foo", "True", "Admitted")]


@pytest.mark.parity("B12")
def test_a_group_that_is_admitted_soon_says_nothing() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    wait(toy, 3)
    toy.pod("p1", "g", 2)
    wait(toy, 30)
    assert reports(toy) == []
    assert not toy.world.meta.timers


@pytest.mark.parity("B1")
def test_a_blocked_group_warns_on_its_pods_naming_both_and_the_values() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 3)
    wait(toy, 6)
    assert {name for name, _, _ in reports(toy)} == {"p0", "p1"}
    kind, reason, message = toy.events[-1]
    assert (kind, reason) == ("Warning", "ErrWorkloadCompose")
    assert "'p0'" in message and "'p1'" in message and "2" in message and "3" in message


@pytest.mark.parity("B12")
def test_pods_that_arrive_one_by_one_do_not_repeat_the_reason() -> None:
    toy = Toy()
    for i in range(4):
        toy.pod(f"p{i}", "g", 10)
        wait(toy, 1)
    wait(toy, 6)
    assert {r for _, _, r in reports(toy)} == {"WaitingForPods"}
    assert len(reports(toy)) == len({name for name, _, _ in reports(toy)})


@pytest.mark.parity("B7")
def test_a_pod_of_a_role_the_workload_does_not_have_is_told_which_roles_there_are() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.run("p0", "p1")
    toy.end("p0", phase="Failed")
    toy.pod("odd", "g", 2, cpu=3)
    wait(toy, 6)
    assert reports(toy) == [("odd", "False", "UnknownRole")]
    assert toy.gated("odd")
    assert "r1" in toy.events[-1][2] and "r3" in toy.events[-1][2]


def test_a_thousand_waiting_pods_of_one_group_are_told_of_by_some() -> None:
    toy = Toy(cpu=1)
    for i in range(120):
        toy.pod(f"p{i:03d}", "g", 120)
    wait(toy, 6)
    assert len(reports(toy)) == 50


@pytest.mark.parity("B12")
def test_a_thousand_blocked_pods_are_told_once_each_whatever_happens_beside_them() -> None:
    toy = Toy()
    for i in range(1000):
        toy.pod(f"p{i:03d}", labels={QUEUE_NAME: "nowhere"})
    wait(toy, 6)
    assert Counter(reports(toy)) == {
        (f"p{i:03d}", "False", "LocalQueueNotFound"): 1 for i in range(1000)
    }
    said = len(toy.events)
    toy.pod("other", cpu=1)
    toy.run("other")
    toy.end("other")
    for _ in range(10):
        wait(toy, 600)
    assert len(reports(toy)) == 1000
    assert not [event for event in toy.events[said:] if event[1] == "LocalQueueNotFound"]


def restored(toy: Toy, views: list[Any], version: str) -> None:
    toy.do(
        RelistStarted(kind="Pod", relist="again", reason="410"),
        *[PodApplied(pod=v, relist="again") for v in views],
        RelistCompleted(kind="Pod", relist="again", resource_version=version),
    )


def test_a_list_after_a_restore_of_etcd_is_believed_although_its_versions_are_older() -> None:
    import msgspec

    toy = Toy()
    foo = toy.pod("foo")
    toy.run("foo")
    old = msgspec.structs.replace(
        toy.pods[foo.uid], resource_version="3", phase="Pending", node="", conditions=()
    )
    restored(toy, [old], "4")
    pod = toy.world.pods[foo.uid]
    assert pod.view.phase == "Pending"
    later = msgspec.structs.replace(old, resource_version="5", phase="Running", node="n")
    toy.do(PodApplied(pod=later))
    assert pod.view.phase == "Running"


def test_a_redelivered_list_item_of_a_closed_frame_is_a_duplicate() -> None:
    toy = Toy()
    foo = toy.pod("foo")
    view = toy.pods[foo.uid]
    restored(toy, [view], toy.bump())
    toy.delete("foo")
    assert not toy.world.pods
    toy.do(PodApplied(pod=view, relist="again"))
    assert not toy.world.pods


@pytest.mark.parity("B8")
def test_a_total_changed_after_composition_is_told_and_not_obeyed() -> None:
    from podgroup.model.names import GROUP_TOTAL_COUNT

    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    p0 = toy.named("p0")
    toy.change(p0.uid, annotations={**p0.annotations, GROUP_TOTAL_COUNT: "3"})
    assert toy.events[-1][:2] == ("Warning", "TotalCountChanged")
    assert "2 to 3" in toy.events[-1][2]
    assert any(n.kind == "TotalCountChanged" for n in toy.world.journal.notes)
    toy.pod("p2", "g", 3)
    assert "p2" not in {p.name for p in toy.pods.values()}, "still a group of two"


@pytest.mark.parity("B8", "B10")
def test_a_role_count_changed_after_composition_is_told_and_not_obeyed() -> None:
    from podgroup.model.names import POD_GROUP_ROLE, POD_GROUP_ROLE_COUNT, POD_GROUP_ROLES

    toy = Toy()
    for name, role, count in (("d", "driver", "1"), ("w0", "worker", "2")):
        notes = {POD_GROUP_ROLES: "2", POD_GROUP_ROLE_COUNT: count}
        toy.pod(name, "g", None, labels={POD_GROUP_ROLE: role}, annotations=notes)
    before = toy.workloads["g"].pod_sets
    w0 = toy.named("w0")
    toy.change(w0.uid, annotations={**w0.annotations, POD_GROUP_ROLE_COUNT: "5"})
    kind, reason, message = toy.events[-1]
    assert (kind, reason) == ("Warning", "TotalCountChanged")
    assert "pod-group-role-count: 2" in message and "pod-group-role-count: 5" in message
    assert toy.workloads["g"].pod_sets == before
    told = len(toy.events)
    toy.change(w0.uid)
    assert len(toy.events) == told, "once"


def refusals(toy: Toy) -> list[str]:
    return [m for _, reason, m in toy.events if reason == "WorkloadRefused"]


def test_a_workload_that_is_refused_is_told_and_tried_ever_less_often() -> None:
    toy = Toy()
    toy.refusing = "POST workloads: 422 Invalid: podSets: too long"
    toy.pod("p0", "g", 1)
    group = toy.group("g")
    assert not toy.gated("p0"), "builtin admission does not wait for it"
    assert refusals(toy) == [
        f'the Workload "g" could not be created: {toy.refusing}; the group is queued and runs '
        "without it, and it is tried again later"
    ]
    assert (group.explained.state, group.explained.reason) == ("Admitted", "WorkloadRefused")
    assert (
        toy.refusing in group.explained.message
        and "admitted by ClusterQueue cq" in group.explained.message
    )
    assert [n.reason for n in toy.world.journal.notes if n.kind == "WorkloadRefused"] == ["422"]
    tries = []
    begin = toy.now
    while toy.now < begin + timedelta(hours=4):
        before = toy.rules().count("compose")
        wait(toy, 30)
        toy.change(toy.named("p0").uid)  # a status write of the kubelet
        if toy.rules().count("compose") > before:
            tries.append(toy.now)
    gaps = [(b - a).total_seconds() for a, b in itertools.pairwise(tries)]
    assert 8 < len(tries) < 20 and gaps[-1] >= 1800, "and never given up"
    assert len(refusals(toy)) == 1, "told once"
    toy.refusing = ""
    wait(toy, 1800)
    assert "g" in toy.workloads and toy.group("g").explained.reason == ""


def test_under_kueue_a_refused_workload_is_what_the_group_waits_for() -> None:
    toy = Toy(mode="kueue")
    toy.refusing = "403 Forbidden: exceeded quota"
    toy.pod("p0", "g", 1)
    assert (
        toy.group("g").explained.wait.reason == "WorkloadRefused"
        and toy.group("g").explained.state == "Blocked"
    )
    wait(toy, 6)
    assert reports(toy) == [("p0", "False", "WorkloadRefused")]


def test_a_pod_that_comes_after_the_end_of_its_group_is_told_and_queued_anew() -> None:
    toy = Toy()
    toy.pod("p0", "g", 1)
    toy.run("p0")
    toy.end("p0")
    first = toy.group("g")
    assert first.ending.finish is not None
    toy.pod("late", "g", 1)
    wait(toy, 6)
    assert toy.gated("late") and reports(toy) == [("late", "False", "GroupIsOver")]
    assert "Succeeded: Pods succeeded: 1/1." in toy.events[-1][2]
    assert toy.events[-1][0] == "Warning"
    toy.delete("p0")
    assert not toy.gated("late"), "the way is free: it is a group of its own now"
    second = toy.group("g")
    assert second.id != first.id and second.ending.finish is None
    assert toy.workloads["g"].owners[0].name == "late"
    toy.run("late")
    toy.end("late")
    toy.delete("late")
    assert not toy.pods and not toy.workloads and not toy.world.groups


def test_pods_that_never_start_are_told_so() -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2, node_selector={"pool": "b"})
    toy.admit("g")
    wait(toy, 6)
    assert ("p1", "False", "GroupIsOver") in reports(toy)
    assert "FailedToStart" in next(m for _, r, m in toy.events if r == "GroupIsOver")


def test_what_a_pods_condition_says_is_taken_back_in_another_life() -> None:
    from podgroup.model.names import ADMITTED_CONDITION
    from podgroup.model.objects import Condition

    toy = Toy()
    said = Condition(type=ADMITTED_CONDITION, status="False", reason="GroupIsOver", message="m")
    toy.pod("p0", "g", 1, conditions=(said,))
    assert reports(toy) == [("p0", "True", "Admitted")]


@pytest.mark.parity("B17")
def test_a_pod_that_was_never_gated_runs_is_reported_and_takes_quota() -> None:
    toy = Toy(cpu=4)
    toy.pod("sly", cpu=3, gated=False)
    toy.run("sly")
    wait(toy, 6)
    group = toy.group("sly")
    assert group.explained.state == "Blocked"
    assert reports(toy) == [("sly", "False", "RunningUnadmitted")]
    assert not toy.workloads
    toy.pod("foo", cpu=2)
    assert toy.gated("foo"), "three of four are taken"
    toy.end("sly")
    assert not toy.gated("foo")


def test_pods_without_a_place_are_told_so_over_an_eviction_and_never_admitted() -> None:
    """Fast admission of other shapes (kueue#11595): the odd pod never has a place."""
    toy = Toy(policy=Policy(pods_ready_timeout_s=60))
    fast = {FAST_ADMISSION: "true"}
    toy.pod("a", "g", 2, annotations=fast)
    toy.pod("odd", "g", 2, cpu=3, annotations=fast)
    wait(toy, 6)
    assert reports(toy) == [("odd", "False", "UnknownRole")]
    toy.run("a")
    for _ in range(6):
        wait(toy, 20)
    assert toy.group("g").requeueing.evicted is not None
    assert [one for one in reports(toy) if one[0] == "odd"] == [("odd", "False", "UnknownRole")]
    toy.pod("b", "g", 2, annotations=fast)
    toy.pod("c", "g", 2, annotations=fast)
    assert not toy.gated("b") and not toy.gated("c")
    wait(toy, 6)
    assert ("odd", "True", "Admitted") not in reports(toy)


def test_gated_pods_of_a_group_that_is_evicted_are_not_told_that_they_are_admitted() -> None:
    toy = Toy(cpu=2)
    for name in "ab":
        toy.pod(name, "g", 2, labels={PRIORITY_CLASS: "low"})
    toy.run("a", "b")
    toy.end("b", phase="Failed")
    toy.slow = True
    toy.pod("c", "g", 2, cpu=1, role="other", labels={PRIORITY_CLASS: "low"})
    wait(toy, 6)
    assert ("c", "False", "UnknownRole") in reports(toy)
    before = len(reports(toy))
    toy.pod("urgent", cpu=2, labels={PRIORITY_CLASS: "high"})
    wait(toy, 6)
    assert ("c", "True", "Admitted") not in reports(toy)[before:]
