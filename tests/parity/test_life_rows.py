"""Rows of the end-to-end suite as stories on the pure core, and rows where gatelog differs."""

from typing import Any

import msgspec
import pytest

from podgroup.engine import step
from podgroup.log.events import Batch, PodApplied
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED_LABEL,
    MAX_OWNERS,
    PODSET_LABEL,
    QUEUE_NAME,
    SUSPENDING_PARENT,
)
from podgroup.model.objects import Condition, LocalQueueView, OwnerRef, PodView
from tests.parity.groups import SHORT
from tests.support.calls import calls_of
from tests.support.toy import Toy


@pytest.mark.parity("E-01")
def test_a_group_that_fits_runs_and_is_cleaned_up() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    for name in ("p0", "p1"):
        assert toy.named(name).node_selector == {"pool": "a"}
    assert toy.true("g") >= {"QuotaReserved", "Admitted"}
    toy.run("p0", "p1")
    toy.end("p0", "p1")
    assert "Finished" in toy.true("g")
    toy.delete("p0")
    toy.delete("p1")
    assert not toy.pods and not toy.workloads


@pytest.mark.parity("E-02")
def test_an_incomplete_group_can_be_deleted_and_a_complete_one_finishes() -> None:
    toy = Toy()
    toy.pod("p0", "g", 2)
    assert toy.gated("p0")
    toy.delete("p0")
    assert not toy.pods
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.run("p0", "p1")
    toy.end("p0", "p1")
    assert "Finished" in toy.true("g")


@pytest.mark.parity("E-03")
def test_deleted_while_running_replaced_and_a_surplus_pod_on_top() -> None:
    toy = Toy()
    toy.slow = True
    for i in range(3):
        toy.pod(f"p{i}", "g", 3)
    toy.run("p0", "p1", "p2")
    toy.delete("p0")
    toy.end("p0", phase="Failed")
    assert toy.condition("g", SHORT)[:2] == ("True", "PodsFailed")
    toy.pod("again", "g", 3)
    toy.run("again")
    assert "p0" not in toy.there()
    toy.pod("surplus", "g", 3)
    assert "surplus" not in toy.there()
    assert ("surplus", "ExcessPodDeleted", "Excess pod deleted") in toy.said
    assert toy.condition("g", SHORT)[0] == "False"
    toy.end("p1", "p2", "again")
    assert toy.condition("g", "Finished")[2] == "Pods succeeded: 3/3."


@pytest.mark.parity("E-07")
@pytest.mark.parametrize("group", [False, True])
def test_a_pod_gated_for_its_parent_is_queued_later(group: bool) -> None:
    toy = Toy()
    parent = {SUSPENDING_PARENT: "mine"}
    toy.pod("foo", labels={QUEUE_NAME: "", MANAGED_LABEL: ""}, annotations=parent, finalizers=())
    assert not toy.world.pods and toy.gated("foo")
    foo = toy.named("foo")
    labels = {QUEUE_NAME: "lq", MANAGED_LABEL: "true"} | ({GROUP_NAME: "g"} if group else {})
    notes = parent | ({GROUP_TOTAL_COUNT: "1"} if group else {})
    toy.change(foo.uid, labels=labels, annotations=notes)
    assert not toy.gated("foo")
    assert toy.named("foo").labels[PODSET_LABEL] == ("r1" if group else "main")
    (workload,) = toy.workloads
    toy.run("foo")
    toy.end("foo")
    assert "Finished" in toy.true(workload) and not toy.workloads[workload].finalizers
    toy.delete("foo")
    assert not toy.pods


def replica(toy: Toy, name: str, **labels: str) -> None:
    owner = OwnerRef(kind="ReplicaSet", name="rs", uid="rs", controller=True)
    toy.pod(name, owners=(owner,), labels=labels)


@pytest.mark.parity("E-08")
def test_pods_of_a_deployment_each_have_a_workload() -> None:
    toy = Toy()
    for i in range(3):
        replica(toy, f"r{i}")
        toy.run(f"r{i}")
    assert len(toy.workloads) == 3
    for i in range(3):
        toy.delete(f"r{i}")
    assert not toy.pods and not toy.workloads and not toy.world.groups


@pytest.mark.parity("E-09")
def test_a_deployment_whose_queue_changes_starts_in_the_new_one() -> None:
    from podgroup.log.events import ObjectApplied

    toy = Toy()
    replica(toy, "old", **{QUEUE_NAME: "nowhere"})
    assert toy.gated("old")
    toy.do(
        ObjectApplied(
            object=LocalQueueView(
                uid="o", namespace="ns", name="other", resource_version=toy.bump(),
                cluster_queue="cq",
            )
        )
    )  # fmt: skip
    replica(toy, "new", **{QUEUE_NAME: "other"})
    toy.delete("old")
    assert toy.there() == {"new"} and not toy.gated("new")
    assert {w.queue for w in toy.workloads.values()} == {"other"}


# -- on purpose different ---


def cost_of(toy: Toy, view: PodView) -> int:
    """Python calls that folding and deciding one event takes."""
    toy.position += 1
    batch = Batch(source="watch", events=(PodApplied(pod=view),))
    return calls_of(lambda: step(toy.world, toy.position, toy.now, batch)).total()


@pytest.mark.parity("B14")
@pytest.mark.parametrize("moment", ["starts", "succeeds"])
def test_an_event_costs_the_same_in_a_large_group(moment: str) -> None:
    cost = {}
    for size in (20, 1000):
        toy = Toy(cpu=10_000)
        for i in range(size):
            toy.pod(f"p{i}", "g", size, settle=False)
        toy.settle(100_000)
        names = [f"p{i}" for i in range(10)]
        toy.run(*names)
        pod = toy.named("p5") if moment == "succeeds" else toy.named("p15")
        fields: dict[str, Any] = {"phase": "Running", "node": "n"}
        if moment == "succeeds":
            fields = {"phase": "Succeeded", "conditions": ()}
        view = msgspec.structs.replace(pod, resource_version=toy.bump(), **fields)
        cost[size] = cost_of(toy, view)
    assert cost[1000] <= cost[20] * 1.5 + 50, cost


@pytest.mark.parity("B16")
def test_a_very_large_group_has_a_bounded_number_of_owners_and_is_cleaned_up() -> None:
    toy = Toy(cpu=10_000)
    size = MAX_OWNERS + 5
    for i in range(size):
        toy.pod(f"p{i}", "g", size, settle=False)
    toy.settle(100_000)
    assert len(toy.workloads["g"].owners) == MAX_OWNERS
    assert not any(ADMISSION_GATE in p.gates for p in toy.pods.values())
    for uid in list(toy.pods):
        toy.change(uid, gates=(), node="n", phase="Succeeded", settle=False)
    toy.settle(100_000)
    assert "Finished" in toy.true("g")
    for uid in list(toy.pods):
        toy.change(uid, deleted_at=toy.now, settle=False)
    toy.settle(100_000)
    assert not toy.pods and not toy.workloads and not toy.world.groups


@pytest.mark.parity("B17")
def test_a_pod_without_our_label_that_runs_with_a_queue_is_accounted() -> None:
    toy = Toy(cpu=2)
    toy.pod("wild", cpu=2, gated=False, labels={MANAGED_LABEL: ""}, finalizers=())
    toy.run("wild")
    toy.pod("foo")
    assert toy.gated("foo") and not toy.stopped("wild")[0]
    assert toy.group("wild").explained.wait.reason == "RunningUnadmitted"


@pytest.mark.parity("B7")
def test_a_pod_without_a_place_does_not_cost_the_others_theirs() -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.admit("g")
    toy.run("p0", "p1")
    toy.end("p1", phase="Failed")
    toy.pod("odd", "g", 2, cpu=3)
    toy.wait(6)
    told = [text for name, reason, text in toy.said if reason == "UnknownRole"]
    assert told and "r3" in told[0] and "r1" in told[0]
    assert toy.gated("odd") and toy.workloads["g"].cluster_queue == "cq"


@pytest.mark.parity("B4")
def test_the_successor_of_a_terminating_pod_waits_for_its_place() -> None:
    toy = Toy(mode="kueue")
    toy.slow = True
    toy.pod("p0", "g", 1)
    toy.admit("g")
    toy.run("p0")
    toy.delete("p0")
    toy.pod("again", "g", 1)
    assert toy.there() == {"p0", "again"} and toy.gated("again")
    toy.end("p0", phase="Failed")
    assert toy.there() == {"again"} and not toy.gated("again")


@pytest.mark.parity("B6")
def test_a_completing_group_is_not_waiting_for_recovery() -> None:
    toy = Toy(mode="kueue")
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.admit("g")
    toy.run("p0", "p1")
    toy.end("p0")
    assert toy.condition("g", "PodsReady")[:2] == ("True", "Started")
    toy.change(toy.named("p1").uid, conditions=(Condition(type="Ready", status="False"),))
    assert toy.condition("g", "PodsReady")[1] == "WaitForRecovery", "but a pod that is not ready is"
