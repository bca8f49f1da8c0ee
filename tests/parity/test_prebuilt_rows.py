"""Rows about Workloads that the pods bring along (prebuilt-workload-name)."""

import pytest

from podgroup.model.names import JOB_UID, PREBUILT_WORKLOAD
from podgroup.model.objects import OwnerRef
from tests.support.toy import Toy

NAMED = {PREBUILT_WORKLOAD: "g"}


def opened(toy: Toy, *names: str, total: int = 2) -> None:
    """Pods of group `g` whose gates somebody took off by hand."""
    toy.act = False
    for name in names:
        pod = toy.pod(name, "g", total, labels=NAMED)
        toy.change(pod.uid, gates=(), phase="Running", node="n")
    toy.act = True
    toy.settle()


@pytest.mark.parity("C-83", "C-84")
@pytest.mark.parametrize("owned", [False, True])
def test_pods_own_their_prebuilt_workload_and_wait_for_it(owned: bool) -> None:
    toy = Toy(mode="kueue")
    owners = (OwnerRef(kind="Pod", name="p0", uid="u0001"),) if owned else ()
    toy._uid = 100
    toy.workload("g", ("r1", 2), owners=owners)
    toy._uid = 0
    opened(toy, "p0", "p1")
    assert {o.name for o in toy.workloads["g"].owners} == {"p0", "p1"}
    added = [text for _, reason, text in toy.said if reason == "OwnerReferencesAdded"]
    assert added == ["Added 1 owner reference(s)"] * (1 if owned else 2)
    for name in ("p0", "p1"):
        assert toy.stopped(name) == ("NotAdmitted", "Not admitted by cluster queue")


@pytest.mark.parity("C-85")
@pytest.mark.parametrize("pod_set", [("r1", 1), ("other", 2)])
def test_a_prebuilt_workload_that_does_not_fit_is_out_of_sync(pod_set: tuple[str, int]) -> None:
    toy = Toy(mode="kueue")
    toy.slow = True
    toy.act = False
    toy.workload("g", pod_set)
    for name in ("p0", "p1"):
        pod = toy.pod(name, "g", 2, labels=NAMED)
        toy.change(pod.uid, gates=(), phase="Running", node="n")
    toy.act = True
    toy.settle()
    status, reason, message = toy.condition("g", "Finished")
    assert (status, reason) == ("True", "OutOfSync")
    assert message == "The prebuilt workload is out of sync with its user job"
    assert toy.workloads["g"].pod_sets[0].name == pod_set[0], "its spec is not ours"


@pytest.mark.parity("C-85")
def test_pods_past_the_gate_whose_prebuilt_workload_is_missing_are_stopped() -> None:
    toy = Toy(mode="kueue")
    opened(toy, "p0", "p1")
    for name in ("p0", "p1"):
        assert toy.stopped(name) == ("NoMatchingWorkload", "missing workload")
    assert not toy.workloads, "it is never made by us"


@pytest.mark.parity("I-10", "I-26")
@pytest.mark.parametrize("by", ["label", "annotation"])
@pytest.mark.parametrize("first", ["workload", "pod"])
def test_a_single_pod_runs_under_its_prebuilt_workload(by: str, first: str) -> None:
    toy = Toy(mode="kueue")
    if first == "workload":
        toy.workload("mine", ("main", 1))
    named = {PREBUILT_WORKLOAD: "mine"}
    foo = toy.pod("foo", **{"labels" if by == "label" else "annotations": named})  # type: ignore[arg-type] # passed on
    if first == "pod":
        toy.wait(6)
        assert toy.gated("foo") and not toy.workloads
        assert toy.group("foo").explained.wait.reason == "PrebuiltWorkloadNotFound"
        toy.workload("mine", ("main", 1))
    workload = toy.workloads["mine"]
    assert [(o.uid, o.controller) for o in workload.owners] == [(foo.uid, True)]
    assert workload.labels[JOB_UID] == foo.uid
    toy.admit("mine")
    assert not toy.gated("foo") and set(toy.workloads) == {"mine"}
    toy.run("foo")
    toy.end("foo")
    assert toy.condition("mine", "Finished")[:2] == ("True", "Succeeded")


@pytest.mark.parity("I-21")
def test_a_prebuilt_group_has_roles_of_its_own_names() -> None:
    toy = Toy(mode="kueue")
    toy.workload("g", ("leader", 1), ("worker", 2))
    toy.pod("l", "g", 3, role="leader", labels=NAMED)
    toy.pod("w0", "g", 3, role="worker", labels=NAMED)
    toy.pod("w1", "g", 3, role="worker", labels=NAMED)
    toy.admit("g")
    assert not any(toy.gated(n) for n in ("l", "w0", "w1"))
    assert toy.named("l").labels["kueue.x-k8s.io/podset"] == "leader"
    assert {o.name for o in toy.workloads["g"].owners} == {"l", "w0", "w1"}


@pytest.mark.parity("C-56")
def test_a_prebuilt_workload_is_released_when_its_pods_are_gone() -> None:
    toy = Toy(mode="kueue")
    toy.workload("g", ("r1", 1))
    toy.pod("p0", "g", 1, labels=NAMED)
    toy.admit("g")
    toy.change(toy.named("p0").uid, finalizers=(), deleted_at=toy.now)
    assert not toy.pods and not toy.world.groups
    assert "g" not in toy.workloads or not toy.workloads["g"].finalizers
