"""A node is drained or lost: what its pods hold until somebody says that they have ended."""

from typing import Any

import pytest

from podgroup.model.objects import Condition
from podgroup.model.policy import Policy
from tests.support.toy import Toy

DISRUPTED = Condition(type="DisruptionTarget", status="True", reason="DeletionByPodGC")


def test_pods_in_limbo_hold_their_quota_until_they_are_collected() -> None:
    """Deleted by the node controller, and no kubelet answers: nobody knows whether they run."""
    toy = Toy(cpu=4)
    toy.slow = True
    toy.pod("p0", "g", 2, cpu=2)
    toy.pod("p1", "g", 2, cpu=2)
    toy.run("p0", "p1")
    toy.pod("waits", cpu=2)
    toy.delete("p0")  # its node is lost; p1 runs on another one
    assert toy.named("p0").finalizers and toy.gated("waits")
    toy.pod("again", "g", 2, cpu=2)
    assert toy.gated("again"), "p0 may still run"
    # The node is deleted: the collector of pods fails its pods and removes them.
    toy.change(toy.named("p0").uid, phase="Failed", conditions=(DISRUPTED,))
    assert "p0" not in {pod.name for pod in toy.pods.values()}, "its finalizer is off"
    assert not toy.gated("again") and toy.gated("waits"), "the group keeps its quota"


def test_a_single_pod_of_a_lost_node_gives_its_quota_back_when_it_is_collected() -> None:
    toy = Toy(cpu=2)
    toy.slow = True
    toy.pod("lost", cpu=2)
    toy.run("lost")
    toy.pod("waits", cpu=2)
    toy.delete("lost")
    assert toy.gated("waits")
    toy.change(toy.named("lost").uid, phase="Failed", conditions=(DISRUPTED,))
    assert not toy.gated("waits")
    assert {pod.name for pod in toy.pods.values()} == {"waits"}


def test_an_evicted_pod_of_a_group_is_replaced_and_the_others_run_on() -> None:
    toy = Toy(cpu=2)
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.run("p0", "p1")
    toy.pod("waits")
    toy.delete("p0")  # the kubelet of a drained node ends it
    assert toy.gated("waits"), "its place is the replacement's"
    toy.pod("again", "g", 2)
    assert not toy.gated("again") and toy.named("p1").phase == "Running"
    toy.run("again")
    toy.end("p1", "again")
    assert not toy.gated("waits")


@pytest.mark.parametrize("timeout_s", [30, 600])
def test_a_pod_whose_kubelet_does_not_answer_keeps_its_quota_for_a_time(timeout_s: int) -> None:
    toy = Toy(cpu=2, policy=Policy(unreachable_timeout_s=timeout_s))
    toy.slow = True
    toy.pod("limbo", cpu=2)
    toy.run("limbo")
    toy.pod("waits", cpu=2)
    toy.unreach("limbo")
    toy.change(toy.named("limbo").uid, deleted_at=toy.now, grace_s=0)
    toy.wait(timeout_s - 1)
    assert toy.gated("waits")
    toy.wait(2)
    assert not toy.gated("waits")


COLLECTED = Policy(deleted_node_timeout_s=60)


def lost(name: str, toy: Toy, **more: Any) -> None:
    """Its Node is deleted: the collector says it failed, then deletes it without grace."""
    uid = toy.named(name).uid
    toy.change(uid, phase="Failed", conditions=(DISRUPTED, *more.pop("conditions", ())), **more)
    if any(pod.uid == uid for pod in toy.pods.values()):
        toy.change(uid, deleted_at=toy.now, grace_s=0)


def test_a_pod_of_a_deleted_node_keeps_its_quota_while_its_container_may_run() -> None:
    toy = Toy(cpu=2, policy=COLLECTED)
    toy.slow = True
    toy.pod("lost", cpu=2, termination_grace_s=20)
    toy.run("lost")
    toy.pod("waits", cpu=2)
    lost("lost", toy)
    assert toy.named("lost").finalizers, "who looks sees what is charged"
    toy.wait(79)
    assert toy.gated("waits")
    toy.wait(2)
    assert not toy.gated("waits")
    assert {pod.name for pod in toy.pods.values()} == {"waits"}


def test_a_kubelet_that_comes_back_says_that_it_has_ended() -> None:
    toy = Toy(cpu=2, policy=COLLECTED)
    toy.slow = True
    toy.pod("lost", cpu=2)
    toy.run("lost")
    toy.pod("waits", cpu=2)
    lost("lost", toy)
    ended = Condition(type="PodReadyToStartContainers", status="False")
    assert toy.gated("waits")
    toy.change(toy.named("lost").uid, conditions=(DISRUPTED, ended), phase="Failed")
    assert not toy.gated("waits")


def test_a_group_replaces_a_pod_of_a_deleted_node_when_it_must_have_ended() -> None:
    toy = Toy(cpu=2, policy=COLLECTED)
    toy.slow = True
    toy.pod("p0", "g", 2)
    toy.pod("p1", "g", 2)
    toy.run("p0", "p1")
    lost("p0", toy)
    toy.pod("again", "g", 2)
    toy.wait(89)
    assert toy.gated("again"), "p0 may still run"
    toy.wait(2)
    assert not toy.gated("again") and toy.named("p1").phase == "Running"


def test_a_pod_of_a_deleted_node_waits_for_none_that_has_longer() -> None:
    toy = Toy(cpu=3, policy=COLLECTED)
    toy.slow = True
    toy.pod("long", "g", 3, termination_grace_s=7_200)
    toy.pod("brief", "g", 3)
    toy.pod("p2", "g", 3)
    toy.run("long", "brief", "p2")
    lost("long", toy)
    lost("brief", toy)
    toy.pod("again", "g", 3)
    toy.wait(89)
    assert toy.gated("again"), "brief may still run"
    toy.wait(62)
    assert not toy.gated("again") and toy.named("long").finalizers
