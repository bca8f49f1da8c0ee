"""When a pod that is asked to stop has ended for certain: by the log's time, not by a user's."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from podgroup.log import events as e
from podgroup.log.records import Timed
from podgroup.model.commands import StopPod
from podgroup.model.objects import Condition, NodeView
from podgroup.model.policy import Policy
from podgroup.state.members import Flag
from podgroup.state.pod import Terminating
from podgroup.state.termination import GRACE
from tests.support.toy import Toy, taken

MOST = 2**63 - 1
GO_MOST = 9_223_372_037
"""Seconds by which the API server's sum of a time and a grace period wraps around."""
DAY_S = 86_400
SHORT = Policy(termination_grace_max_s=60)


def lender(policy: Policy | None = None, **view: Any) -> Toy:
    """A group of low priority holds all; `view` are fields of its pod."""
    toy = Toy(cpu=2, policy=policy)
    toy.slow = True
    toy.pod("low", cpu=2, labels={"kueue.x-k8s.io/priority-class": "low"}, **view)
    toy.run("low")
    return toy


def preempted(policy: Policy | None = None, **view: Any) -> Toy:
    """It gives way to one of higher priority, and runs on."""
    toy = lender(policy, **view)
    toy.pod("high", cpu=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    return toy


def stops(toy: Toy) -> list[tuple[str, int | None]]:
    found = [d.command for d in toy.decisions if isinstance(d.command, StopPod)]
    return [(one.target.name, one.grace_s) for one in found]


def used(toy: Toy) -> int:
    return taken(toy.world, "cq").get(("f", "cpu"), 0)


def unparked(toy: Toy) -> None:
    assert not toy.world.journal.parked
    assert not [g.name for g in toy.world.groups.values() if g.parked]


@pytest.mark.parametrize("grace_s", [GO_MOST, GO_MOST * 2, MOST, 2**31, 31_536_000, -1, -MOST])
def test_a_grace_period_frees_no_quota(grace_s: int) -> None:
    """`kubectl delete --grace-period=9223372037` gives deletionTimestamp 1734-08-18."""
    toy = lender()
    toy.pod("waits", cpu=2)
    toy.act = False  # nothing of ours shortens it
    toy.ask("low", grace_s)
    for _ in range(20):
        toy.wait(3_600)
        assert used(toy) == 2000
    toy.act = True
    toy.settle()
    assert toy.gated("waits")
    unparked(toy)


@pytest.mark.parametrize("at", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)])
def test_a_deletion_timestamp_frees_no_quota(at: datetime) -> None:
    toy = lender()
    toy.pod("waits", cpu=2)
    toy.unreach("low")
    toy.change(toy.named("low").uid, deleted_at=at, grace_s=60)
    toy.wait(118)
    assert used(toy) == 2000 and toy.gated("waits")
    toy.wait(4)
    assert not toy.gated("waits"), "silent for another grace period: lost, whatever the time says"
    unparked(toy)


def test_an_absurd_grace_period_is_shortened() -> None:
    toy = lender()
    toy.ask("low", GO_MOST)
    assert stops(toy) == [("low", DAY_S)]
    assert toy.named("low").grace_s == DAY_S
    assert ("low", "Stopped") in {said[:2] for said in toy.said}
    toy.change(toy.named("low").uid, message="still here")
    assert len(stops(toy)) == 1


def test_a_grace_period_that_is_shortened_counts_from_when_it_was_seen() -> None:
    toy = lender()
    toy.pod("waits", cpu=2)
    toy.unreach("low")
    toy.ask("low", 3_600)
    toy.wait(1_800)
    toy.ask("low", 10)
    toy.wait(29)
    assert toy.gated("waits"), "it was due long ago, but its kubelet has heard of it just now"
    toy.wait(3)
    assert not toy.gated("waits")


def test_asking_again_and_again_does_not_put_the_end_off() -> None:
    toy = lender()
    toy.pod("waits", cpu=2)
    toy.unreach("low")
    toy.ask("low", 60)
    for grace_s in range(59, 50, -1):
        toy.wait(1)
        toy.ask("low", grace_s)
    toy.wait(51 - 9 + 51)
    toy.wait(3)
    assert not toy.gated("waits")


def test_a_kubelet_that_reports_is_not_silent() -> None:
    toy = lender()
    toy.pod("waits", cpu=2)
    toy.unreach("low")
    toy.ask("low", 1)
    for turn in range(40):
        toy.wait(3)
        toy.change(toy.named("low").uid, message=f"running {turn}")
    assert toy.gated("waits")
    toy.wait(29)
    assert toy.gated("waits")
    toy.wait(3)
    assert not toy.gated("waits")


def test_a_status_of_which_a_view_shows_nothing_is_a_sign_too() -> None:
    toy = lender()
    toy.pod("waits", cpu=2)
    toy.unreach("low")
    toy.ask("low", 1)
    for _ in range(40):
        toy.wait(3)
        toy.change(toy.named("low").uid)
    assert toy.gated("waits")


def test_what_its_user_writes_is_no_sign_of_a_kubelet() -> None:
    toy = lender()
    toy.pod("waits", cpu=2)
    toy.unreach("low")
    toy.ask("low", 1)
    for turn in range(11):
        toy.wait(3)
        view = toy.named("low")
        toy.change(view.uid, labels={**view.labels, "x": str(turn)}, writer="me")
    assert not toy.gated("waits")


def test_a_pod_that_is_ready_is_on_a_node_that_answers() -> None:
    """The node controller takes Ready from the pods of a node whose Lease is not renewed."""
    toy = lender()
    toy.pod("waits", cpu=2)
    toy.ask("low", 1)
    toy.wait(7_200)
    assert toy.gated("waits")
    toy.unreach("low")
    toy.wait(29)
    assert toy.gated("waits")
    toy.wait(3)
    assert not toy.gated("waits")


@pytest.mark.parametrize(("ready", "reporting"), [(True, False), (False, True), (False, False)])
def test_the_node_says_whether_it_answers(ready: bool, reporting: bool) -> None:
    """A kubelet that says that its node is not ready is no silent one."""
    toy = lender()
    toy.pod("waits", cpu=2)
    toy.world.nodes["node"] = NodeView(name="node", ready=ready, reporting=reporting)
    toy.unreach("low")
    toy.ask("low", 1)
    for _ in range(20):
        toy.wait(30)
    assert toy.gated("waits") is (ready or reporting)
    toy.world.nodes["node"] = NodeView(name="node", ready=False)
    toy.wait(61)
    assert not toy.gated("waits")


def test_a_pod_that_was_stored_without_it_counts_from_its_start() -> None:
    toy = lender()
    toy.ask("low", 60)
    (pod,) = toy.world.pods.values()
    assert pod.terminating == Terminating(toy.now, toy.now + timedelta(seconds=60))


# -- A6: a preempted group gives back what is its lender's


@pytest.mark.parametrize("own_s", [601, 31_536_000, 2**31, MOST])
def test_a_preempted_pod_has_ten_minutes_to_end(own_s: int) -> None:
    toy = preempted(termination_grace_s=own_s)
    assert stops(toy) == [("low", 600)]
    (text,) = {message for name, _, message in toy.said if name == "low" and "600 s" in message}
    assert "queueing.preemption_grace_s" in text
    assert toy.gated("high") and used(toy) == 2000
    toy.unreach("low")
    toy.wait(1_195)
    assert toy.gated("high"), "charged until it has ended, or its kubelet is silent"
    toy.wait(10)
    assert not toy.gated("high")
    unparked(toy)


@pytest.mark.parametrize("own_s", [0, 30, 600])
def test_a_preempted_pod_that_asks_for_less_has_that(own_s: int) -> None:
    assert stops(preempted(termination_grace_s=own_s)) == [("low", None)]


def test_the_bound_of_preemption_is_a_setting() -> None:
    toy = preempted(Policy(preemption_grace_s=5), termination_grace_s=30)
    assert stops(toy) == [("low", 5)]
    toy = preempted(Policy(preemption_grace_s=0), termination_grace_s=7_200)
    assert stops(toy) == [("low", None)]


def test_a_pod_that_was_deleted_before_its_group_is_preempted_is_hastened() -> None:
    """The user deletes the pod with a year of grace: it is no less a victim."""
    toy = lender()
    toy.ask("low", 31_536_000 // 365)
    toy.pod("high", cpu=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    assert stops(toy) == [("low", 600)]
    assert toy.gated("high")
    toy.end("low")
    assert not toy.gated("high")


@pytest.mark.parametrize("way", ["refused", "in flight", "stop refused", "stop in flight"])
def test_a_preempted_pod_that_is_deleted_at_that_moment_has_no_more_time(way: str) -> None:
    """A write of ours is in flight or refused as its group is preempted, or as its user deletes."""
    toy = lender()
    toy.rejecting = {"StopPod"} if way.endswith("refused") else set()
    toy.act = toy.act and not way.endswith("flight")
    asked_before = not way.startswith("stop")
    if asked_before:
        toy.ask("low", GO_MOST)  # which is shortened to a day
    toy.pod("high", cpu=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    if not asked_before:
        toy.ask("low", DAY_S)
    toy.act, toy.rejecting = True, set()
    toy.settle()
    toy.wait(120)
    assert stops(toy)[-1] == ("low", 600)
    assert toy.named("low").grace_s == 600
    made = len(stops(toy))
    toy.wait(120)
    assert len(stops(toy)) == made
    unparked(toy)


def test_what_ends_for_other_reasons_keeps_its_grace_period() -> None:
    toy = lender(termination_grace_s=7_200)
    toy.do(e.ObjectApplied(object=toy.cluster_queue(2, stop_policy="HoldAndDrain")))
    assert stops(toy) == [("low", None)]


# -- A2: parked, and counted


def raising(toy: Toy, name: str, group: str = "") -> None:
    """As an event that cannot be decoded does: its group stops."""
    view = toy.named(name)
    raw = (
        f'{{"type":"pod_applied.v1","pod":{{"uid":"{view.uid}","namespace":"ns","name":"{name}"}}}}'
    )
    toy.do(e.Undecodable(raw=raw.encode(), error="a field that no version knows"))
    assert toy.group(group or name).parked


def test_the_end_of_a_parked_group_is_seen() -> None:
    toy = lender()
    raising(toy, "low")
    toy.pod("waits", cpu=2)
    assert toy.gated("waits") and used(toy) == 2000
    toy.ask("low", 60)
    assert toy.gated("waits") and used(toy) == 2000, "it runs on"
    toy.end("low")
    assert not toy.gated("waits"), "what it held is its neighbours'"
    assert toy.there() == {"waits"}, "its finalizer is off"


def test_a_parked_group_is_a_victim() -> None:
    toy = lender(termination_grace_s=3_600)
    raising(toy, "low")
    toy.pod("high", cpu=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    assert stops(toy) == [("low", 600)]
    assert toy.gated("high") and used(toy) == 2000
    toy.end("low", phase="Failed")
    assert not toy.gated("high") and toy.there() == {"high"}


def test_a_parked_group_of_pods_gives_back_what_it_held_once_all_have_ended() -> None:
    toy = Toy(cpu=3)
    toy.slow = True
    for name in ("p0", "p1", "p2"):
        toy.pod(name, "g", 3)
    toy.run("p0", "p1", "p2")
    raising(toy, "p0", "g")
    toy.pod("waits", cpu=1)
    toy.end("p0")
    assert not toy.gated("waits"), "a success gives its share back at once"
    toy.pod("more", cpu=2)
    toy.end("p1", phase="Failed")
    assert toy.gated("more")
    toy.delete("p2")
    assert toy.gated("more") and toy.held("p1")
    toy.end("p2", phase="Failed")
    assert not toy.gated("more")
    assert not [p.name for p in toy.pods.values() if p.name in ("p0", "p1") and p.finalizers]


def released(toy: Toy, name: str) -> None:
    target = toy.group(name).id
    toy.do(e.OperatorActed(action="release", target=target, by="me", message=""))


@pytest.mark.parametrize("group", ["", "g"])
def test_a_parked_group_keeps_no_quota_for_pods_at_their_gate(group: str) -> None:
    toy = Toy(cpu=3)
    toy.rejecting = {"UngatePod"}
    toy.pod("p0", group, 1, cpu=3)
    assert used(toy) == 3000 and toy.gated("p0")
    raising(toy, "p0", group)
    toy.rejecting = set()
    toy.pod("waits", cpu=3)
    toy.wait(120)
    assert not toy.gated("waits") and toy.held("p0")
    toy.run("waits")
    released(toy, group or "p0")
    assert toy.gated("p0"), "it waits for quota anew"
    toy.end("waits")
    assert not toy.gated("p0")


def test_a_parked_group_keeps_no_quota_for_a_replacement_at_its_gate() -> None:
    toy = Toy(cpu=2)
    toy.slow = True
    for name in ("p0", "p1"):
        toy.pod(name, "g", 2)
    toy.run("p0", "p1")
    toy.rejecting = {"UngatePod"}
    toy.end("p1", phase="Failed")
    toy.pod("again", "g", 2)
    raising(toy, "p0", "g")
    toy.rejecting = set()
    toy.pod("waits", cpu=2)
    toy.wait(120)
    assert toy.gated("waits") and used(toy) == 2000, "p0 runs"
    toy.end("p0", phase="Failed")
    assert not toy.gated("waits") and toy.gated("again") and toy.held("again")


def test_several_parked_groups_end_each() -> None:
    toy = Toy(cpu=3)
    toy.slow = True
    for name in ("a", "b", "c"):
        toy.pod(name)
        toy.run(name)
    for name in ("a", "b", "c"):
        raising(toy, name)
    toy.pod("waits", cpu=3)
    for name in ("a", "b", "c"):
        assert toy.gated("waits")
        toy.end(name)
    assert not toy.gated("waits")


@pytest.mark.parametrize("flag", ["STOPPABLE", "DELETING", "UNOWNED"])
def test_a_rule_that_fails_for_a_group_hides_no_other(flag: str) -> None:
    """A state that cannot be stands in for a bug of ours; the rules that read it fail each time."""
    toy = lender()
    members = toy.world.members[toy.group("low").id]
    members.sets.setdefault(getattr(Flag, flag), {})["unknown"] = None
    toy.pod("high", cpu=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    toy.ask("low", 60)
    assert used(toy) == 2000 and toy.gated("high")
    toy.end("low", phase="Failed")
    assert toy.there() == {"high"} and not toy.gated("high")


def test_ready_written_by_others_is_not_heard() -> None:
    ours = Condition(type="gatelog.io/admitted", status="False")
    toy = lender()
    toy.pod("waits", cpu=2)
    toy.unreach("low")
    toy.ask("low", 1)
    for turn in range(11):
        toy.wait(3)
        view = toy.named("low")
        kept = tuple(one for one in view.conditions if one.type != ours.type)
        said = Condition(type=ours.type, status="False", message=str(turn))
        toy.change(view.uid, conditions=(*kept, said))
    assert not toy.gated("waits")


def test_an_evicted_group_waits_for_none_of_its_pods_that_has_ended() -> None:
    """The pod with the longest grace period ends at once; another one's kubelet is silent."""
    toy = Toy(cpu=2)
    toy.slow = True
    toy.pod("brief", "g", 2)
    toy.pod("long", "g", 2)
    toy.run("brief", "long")
    toy.unreach("brief", "long")
    toy.ask("brief", 10)
    toy.ask("long", 7_200)
    toy.do(e.ObjectApplied(object=toy.cluster_queue(2, stop_policy="HoldAndDrain")))
    toy.end("long")
    toy.wait(30)
    assert used(toy), "brief may run yet"
    toy.wait(70)
    assert not used(toy)
    unparked(toy)


def timers_set(toy: Toy) -> int:
    records = [one for said in toy.concluded for one in said.records]
    return sum(isinstance(one, Timed) and one.purpose == GRACE for one in records)


def test_a_long_grace_period_takes_few_looks() -> None:
    """Each is an event and a record: 10,000 pods with long preStop hooks are many of them."""
    toy = lender()
    toy.ask("low", 21_600)
    toy.do(e.ObjectApplied(object=toy.cluster_queue(2, stop_policy="HoldAndDrain")))
    toy.change(toy.named("low").uid, conditions=())
    toy.unreach("low")
    for _ in range(21_600 * 2 // 60 - 2):
        toy.wait(60)
    assert used(toy) and timers_set(toy) <= 12
    toy.wait(240)
    assert not used(toy)


@pytest.mark.parametrize("way", ["ends", "goes"])
def test_quota_comes_back_with_the_last_pod_that_could_run(way: str) -> None:
    """One pod's kubelet is silent; the other has hours, and ends when it was looked at lately."""
    toy = Toy(cpu=2)
    toy.slow = True
    for name in ("brief", "long"):
        toy.pod(name, "g", 2)
    toy.run("brief", "long")
    toy.unreach("brief", "long")
    toy.ask("brief", 10)
    toy.ask("long", 21_600)
    toy.do(e.ObjectApplied(object=toy.cluster_queue(2, stop_policy="HoldAndDrain")))
    for _ in range(200):
        toy.wait(60)
    assert used(toy)
    if way == "ends":
        toy.end("long")
    else:
        view = toy.named("long")
        del toy.pods[view.uid]
        toy.do(e.PodDeleted(pod=msgspec.structs.replace(view, resource_version=toy.bump())))
    assert not used(toy)
    unparked(toy)
