"""What the API server refuses of our writes is said first, in every state, until it takes one."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from podgroup.engine import due_timers
from podgroup.log.events import ObjectApplied, OutcomeRecorded
from podgroup.log.outcomes import TOO_LARGE
from podgroup.model.commands import CreateWorkload, UngatePod
from podgroup.model.policy import Policy
from podgroup.state.members import Flag, Members
from tests.parity.test_life_rows import cost_of
from tests.support.toy import Toy

NO = "PATCH /api/v1/namespaces/ns/pods/p: 422 Pod is invalid: spec: Forbidden"

MINUTE = timedelta(minutes=1)


def refusing(toy: Toy, *commands: str) -> None:
    """Let the API server refuse these commands from here on, as another mutation makes it do."""
    toy.rejecting = set(commands)
    toy.refusing = ""


def shown(toy: Toy, group: str = "p") -> tuple[str, str, str]:
    found = toy.group(group).explained
    return found.state, found.reason, found.message


def test_an_admitted_group_says_what_keeps_its_gates_on() -> None:
    toy = Toy()
    refusing(toy, "UngatePod")
    toy.pod("p")
    state, reason, message = shown(toy)
    assert (state, reason) == ("Admitted", "WriteRefused")
    assert "a write of pod p: UngatePod: no" in message and "admitted by ClusterQueue cq" in message
    toy.wait(6)
    assert ("p", "WriteRefused") in {(on, why) for on, why, _ in toy.said}
    refusing(toy)
    toy.wait(60 * 2)
    assert not toy.gated("p")
    assert shown(toy)[1] == "", "it goes when the write succeeds"


def test_a_deactivation_does_not_cover_it() -> None:
    toy = Toy(policy=Policy(pods_ready_timeout_s=60, requeuing_limit=0))
    refusing(toy, "UngatePod")
    toy.pod("p")
    toy.wait(60 * 5)
    state, reason, message = shown(toy)
    assert (state, reason) == ("Blocked", "WriteRefused")
    assert "UngatePod: no" in message and "beside that: " in message and "Deactivated" in message


@pytest.mark.parametrize("way", ["preempted", "drained"])
def test_a_refusal_is_over_with_the_admission_that_it_was_for(way: str) -> None:
    """Nobody tries to let it start any more: it waits, and that is what has to be said."""
    toy = Toy(cpu=2)
    refusing(toy, "UngatePod")
    toy.pod("p", cpu=2, labels={"kueue.x-k8s.io/priority-class": "low"})
    assert shown(toy)[:2] == ("Admitted", "WriteRefused")
    if way == "preempted":
        toy.pod("high", cpu=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    else:
        toy.do(ObjectApplied(object=toy.cluster_queue(2, stop_policy="HoldAndDrain")))
    wanted = "WaitingForQuota" if way == "preempted" else "OnHold"
    for _ in range(3):
        toy.wait(60)
        assert shown(toy)[:2] == ("Queued", wanted)
    if way == "preempted":
        toy.delete("high")
    else:
        toy.do(ObjectApplied(object=toy.cluster_queue(2)))
    assert shown(toy)[:2] == ("Admitted", "WriteRefused"), "tried again, and refused again"
    refusing(toy)
    toy.wait(120)
    assert not toy.gated("p")


def test_a_stop_that_was_refused_is_over_with_the_pod() -> None:
    toy = Toy(cpu=2)
    for name in "ab":
        toy.pod(name, "g", 2, labels={"kueue.x-k8s.io/priority-class": "low"})
    toy.run("a", "b")
    refusing(toy, "StopPod", "DeletePod")
    toy.pod("urgent", cpu=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    assert shown(toy, "g")[1] == "WriteRefused"
    toy.end("a", "b", phase="Failed")
    assert shown(toy, "g")[1] != "WriteRefused"


def test_neither_does_the_end_of_the_group() -> None:
    """Pods hang in Terminating, since our finalizer cannot be taken off."""
    toy = Toy()
    refusing(toy, "UngatePod", "FinalizePod", "DeletePod", "StopPod")
    toy.pod("p")
    toy.delete("p")
    state, reason, message = shown(toy)
    assert (state, reason) == ("Finishing", "WriteRefused")
    assert "FinalizePod: no" in message and "no longer exists" in message
    said = len(toy.said)
    toy.wait(6)
    assert ("p", "WriteRefused") in {(on, why) for on, why, _ in toy.said[said:]}
    refusing(toy)
    toy.wait(60 * 11)
    assert "p" not in {pod.name for pod in toy.pods.values()}


def test_the_end_of_a_group_shows_again_once_the_write_succeeds() -> None:
    toy = Toy()
    toy.pod("a", "g", 2)
    toy.pod("b", "g", 2)
    toy.run("a", "b")
    refusing(toy, "FinalizePod")
    toy.end("a", "b")
    assert shown(toy, "g")[:2] == ("Finishing", "WriteRefused")
    refusing(toy)
    toy.wait(60 * 11)
    assert shown(toy, "g")[:2] == ("Finished", "Succeeded")


def test_a_member_that_cannot_be_stopped_is_named_before_what_its_group_waits_for() -> None:
    toy = Toy(cpu=2)
    for name in "ab":
        toy.pod(name, "g", 2, labels={"kueue.x-k8s.io/priority-class": "low"})
    toy.run("a", "b")
    refusing(toy, "StopPod", "DeletePod")
    toy.pod("urgent", cpu=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    _, reason, message = shown(toy, "g")
    assert reason == "WriteRefused" and "StopPod: no" in message


def test_beside_kueue_a_workload_that_cannot_be_written_is_named() -> None:
    toy = Toy(mode="kueue")
    toy.pod("p")
    (name,) = toy.workloads
    refusing(toy, "UpdateWorkload")
    pod = toy.named("p")
    toy.change(pod.uid, labels={**pod.labels, "kueue.x-k8s.io/priority-class": "high"})
    _, reason, message = shown(toy)
    assert reason == "WriteRefused" and f"a write of Workload {name}: UpdateWorkload" in message
    refusing(toy)
    toy.wait(60 * 1)
    assert shown(toy)[1] == "PendingEvaluation"


def test_a_pod_that_is_gone_refuses_nothing() -> None:
    toy = Toy(cpu=2)
    toy.pod("a", "g", 2)
    toy.pod("b", "g", 2)
    toy.run("a")
    refusing(toy, "UngatePod")
    toy.end("a", phase="Failed")
    toy.pod("c", "g", 2)
    assert shown(toy, "g")[1] == "WriteRefused"
    refusing(toy, "nothing")
    toy.delete("c")
    assert shown(toy, "g")[1] != "WriteRefused"


def too_large(toy: Toy, decision: str, group: str) -> None:
    """The answer that cannot change: 413, by the API server or as the actuator reads etcd's."""
    toy.do(
        OutcomeRecorded(
            decision=decision,
            group=group,
            status="rejected",
            http_status=TOO_LARGE,
            message="too large for the API server: it takes 3000000 bytes, 2900000 of them for "
            "template of podset main, containers[0].env; etcdserver: request is too large",
        )
    )


@pytest.mark.parity("B29")
@pytest.mark.parametrize("mode", ["kueue", "builtin"])
def test_a_workload_that_is_too_large_is_tried_once(mode: str) -> None:
    toy = Toy(mode=mode)
    toy.act = False
    toy.pod("p")
    (create,) = [d for d in toy.decisions if isinstance(d.command, CreateWorkload)]
    too_large(toy, create.id, create.group)
    toy.act = True
    toy.queue = type(toy.queue)(d for d in toy.queue if d is not create)
    toy.settle()
    toy.wait(3600 * 5)
    made = [d for d in toy.decisions if isinstance(d.command, CreateWorkload)]
    assert len(made) == 1, "trying again cannot help"
    state, reason, message = shown(toy)
    assert reason == "WorkloadTooLarge" and "containers[0].env" in message
    assert state == ("Blocked" if mode == "kueue" else "Admitted")
    assert toy.gated("p") is (mode == "kueue")
    toy.delete("p")
    toy.wait(3600 * 5)
    assert not toy.pods and not toy.world.groups, "nothing outlives the group"
    assert [d for d in toy.decisions if isinstance(d.command, CreateWorkload)] == made


def test_a_pod_that_is_too_large_to_be_ungated_is_tried_once_for_each_of_its_states() -> None:
    toy = Toy()
    toy.act = False
    toy.pod("p")
    (ungate,) = [d for d in toy.decisions if isinstance(d.command, UngatePod)]
    too_large(toy, ungate.id, ungate.group)
    toy.queue.clear()
    toy.act = True
    toy.wait(3600 * 5)
    tried = [d for d in toy.decisions if isinstance(d.command, UngatePod)]
    assert len(tried) == 1 and shown(toy)[1] == "WriteRefused"
    pod = toy.named("p")
    toy.change(pod.uid, annotations={"kueue.x-k8s.io/less": "1"})
    assert not toy.gated("p")


def tries(toy: Toy, action: str) -> int:
    """How often it is tried in the ten minutes after half an hour of refusals."""
    for _ in range(60):
        toy.wait(30)
    before = len(toy.decisions)
    for _ in range(20):
        toy.wait(30)
    return sum(d.command.action == action for d in toy.decisions[before:])


@pytest.mark.parametrize("action", ["UngatePod", "StopPod", "FinalizePod"])
def test_each_write_of_a_pod_is_tried_once_a_minute(action: str) -> None:
    toy = Toy(cpu=2)
    toy.pod("p", cpu=2, labels={"kueue.x-k8s.io/priority-class": "low"})
    toy.run("p")
    refusing(toy, action)
    toy.pod("next", cpu=2, labels={"kueue.x-k8s.io/priority-class": "low"})
    if action == "StopPod":
        toy.pod("urgent", cpu=2, labels={"kueue.x-k8s.io/priority-class": "high"})
    else:
        toy.end("p")
    assert 9 <= tries(toy, action) <= 11
    refusing(toy)
    toy.wait(60)
    left = {group.explained.reason for group in toy.world.groups.values()}
    assert "WriteRefused" not in left


def test_the_refusals_of_one_write_do_not_delay_another() -> None:
    toy = Toy()
    refusing(toy, "UngatePod", "FinalizePod", "StopPod", "DeletePod")
    toy.pod("p")
    for _ in range(60):
        toy.wait(30)
    toy.delete("p")
    assert shown(toy)[1] == "WriteRefused"
    refusing(toy)
    toy.wait(30)
    assert not toy.pods


@pytest.mark.parametrize(
    "action", ["CreateWorkload", "UpdateWorkload", "WriteWorkloadStatus", "FinalizeWorkload"]
)
def test_each_write_of_a_workload_is_tried_once_a_minute(action: str) -> None:
    toy = Toy(mode="builtin" if action == "WriteWorkloadStatus" else "kueue")
    if action != "CreateWorkload":
        toy.pod("p")
    refusing(toy, action)
    if action == "UpdateWorkload":
        pod = toy.named("p")
        toy.change(pod.uid, labels={**pod.labels, "kueue.x-k8s.io/priority-class": "high"})
    elif action == "CreateWorkload":
        toy.pod("p")
    elif action == "WriteWorkloadStatus":
        toy.run("p")
        toy.end("p")
    else:
        toy.delete("p")
    assert 9 <= tries(toy, action) <= 11


def test_a_workload_in_builtin_mode_for_which_no_one_waits_is_made_now_and_then() -> None:
    toy = Toy()
    refusing(toy, "CreateWorkload")
    toy.pod("p")
    assert tries(toy, "CreateWorkload") <= 1
    assert not toy.gated("p")


def test_a_log_in_which_the_next_try_came_later_is_folded_as_before() -> None:
    toy = Toy()
    refusing(toy, "UngatePod")
    toy.pod("p")
    (name,) = [name for name, each in toy.world.meta.timers.items() if each.purpose == "retry"]
    (due,) = [each for each in due_timers(toy.world, toy.now + MINUTE) if each.timer == name]
    toy.do(msgspec.structs.replace(due, due_at=due.due_at - MINUTE))
    assert name in toy.world.meta.timers, "one that was replaced"
    refusing(toy)
    toy.do(msgspec.structs.replace(due, due_at=due.due_at + MINUTE))
    assert name not in toy.world.meta.timers and not toy.gated("p")


@pytest.mark.parametrize("still_wanted", [True, False])
def test_one_more_look_at_a_refused_group_costs_no_pass_over_it(still_wanted: bool) -> None:
    cost = {}
    for size in (20, 500):
        toy = Toy(cpu=size)
        refusing(toy, "UngatePod")
        for number in range(size):
            toy.pod(f"p{number}", "g", size, settle=False)
        toy.settle()
        assert shown(toy, "g")[1] == "WriteRefused"
        if not still_wanted:
            toy.do(ObjectApplied(object=toy.cluster_queue(size, stop_policy="HoldAndDrain")))
            assert shown(toy, "g")[1] == "OnHold"
        view = toy.named("p7")
        labels = {**view.labels, "team": "red"}
        cost[size] = cost_of(
            toy, msgspec.structs.replace(view, resource_version=toy.bump(), labels=labels)
        )
    assert cost[500] <= cost[20] * 1.5 + 50, cost


def test_the_first_of_the_refused_is_named_whoever_comes_and_goes() -> None:
    members = Members()
    flags = dict.fromkeys("bcad", 0)
    for turn, uid in enumerate("bcadbacdabccbdacab" * 9):
        flags[uid] ^= Flag.REFUSED
        members.put(uid, "r", flags[uid], datetime(2026, 1, 1, tzinfo=UTC), "q", "")
        refused = sorted(one for one, has in flags.items() if has)
        assert members.listed(Flag.REFUSED) == refused
        assert members.least(Flag.REFUSED) == (refused[0] if refused else None), turn


def test_what_a_pod_became_while_a_write_was_refused_is_tried_at_once() -> None:
    """Its gate was to be taken off; it is deleted before the API server says no to that."""
    toy = Toy()
    toy.act = False
    toy.pod("p")
    (ungate,) = [one for one in toy.decisions if isinstance(one.command, UngatePod)]
    toy.ask("p", 0)
    refused = OutcomeRecorded(
        decision=ungate.id, group=ungate.group, status="rejected", http_status=422, message=NO
    )
    toy.do(refused)
    assert toy.decisions[-1].command.action == "FinalizePod", "no half minute is waited"
