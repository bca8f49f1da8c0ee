"""Fold of decisions: what a decision changes the moment it is made, before anything acts on it.

Theory. Decided-but-not-observed is state. The same function serves the live projector, right after
a rule made a decision, and replay, which applies recorded decisions instead of deciding.

Invariant: applying a decision depends on the state and the decision only, never on why it was made.
"""

from datetime import timedelta

from podgroup.commands import (
    Admission,
    AdmitGroup,
    CreateWorkload,
    DeletePod,
    EmitEvent,
    EvictGroup,
    FinalizePod,
    FinalizeWorkload,
    FinishGroup,
    PodSetSpec,
    ReleaseQuota,
    ReportPod,
    StopPod,
    UngatePod,
    UpdateWorkload,
    WriteWorkloadStatus,
)
from podgroup.events import Decision
from podgroup.fold.common import EXCESS, REPLACED, At, expect, note, touch
from podgroup.fold.placing import needed, replace
from podgroup.fold.workloads import admit, recharge, release, role_of
from podgroup.ids import PodUID
from podgroup.names import EVICTED_PODS_READY_TIMEOUT
from podgroup.state import Eviction, Expectation, Finish, Group, Pod, Role, World

RULE_REPLACED = "replace"


def apply_decision(world: World, decision: Decision) -> None:
    """Apply a decision to the state and put it in the journal."""
    world.meta.decisions = max(world.meta.decisions, decision.number)
    world.journal.decisions.append(decision)
    group = world.groups.get(decision.group)  # type: ignore[call-overload] # text in a decision
    if group is None:
        return
    command = decision.command
    action = type(command).__name__
    if isinstance(command, UngatePod | FinalizePod | DeletePod | StopPod):
        pod = world.pods.get(command.target.uid)
        if pod is not None:
            if isinstance(command, StopPod) and command.finalize:
                action = "DeletePod"  # seen when our finalizer is off as well, not at the deletion
            _fate(group, pod, decision)
            expect(world, group, pod, _awaited(decision, action))
        touch(world, group.id)
        return
    here = At(decision.as_of, decision.at)
    match command:
        case CreateWorkload():
            _compose(world, here, group, command)
            expect(world, group, None, _awaited(decision, action))
        case UpdateWorkload():
            _reshape(world, group, command)
            expect(world, group, None, _awaited(decision, action))
        case WriteWorkloadStatus() | FinalizeWorkload():
            expect(world, group, None, _awaited(decision, action))
        case EmitEvent():
            pass  # an Event is said, nothing waits for it
        case ReportPod():
            _report(world, group, command)
        case AdmitGroup():
            admission = Admission(
                cluster_queue=command.cluster_queue, assignments=command.assignments
            )
            admit(world, here, group, admission, decision.id)
        case EvictGroup():
            group.evicted = Eviction(command.reason, command.message, here.at, command.preempted_by)
            if group.holding is not None and not command.preempted_by:
                # What it holds is as good as free for those who wait; a preemptor knows already.
                world.quotas.dirty[group.holding.admission.cluster_queue] = None
            if command.reason == EVICTED_PODS_READY_TIMEOUT:
                _back_off(world, here, group)
            note(
                world,
                here,
                "GroupEvicted",
                group=group.id,
                reason=command.reason,
                message=command.message,
                decision=decision.id,
            )
        case ReleaseQuota():
            release(world, here, group, command.reason)
            group.requeued = command.requeue
            group.queued_at = group.complete_at
            if group.requeue_at is not None and group.evicted is not None:
                group.queued_at = group.evicted.at  # behind those that did nothing wrong
        case FinishGroup():
            group.finish = Finish(command.reason, command.message, here.at)
            group.finished_at = here.at
            note(
                world,
                here,
                "GroupFinished",
                group=group.id,
                reason=command.reason,
                message=command.message,
                decision=decision.id,
            )
            release(world, here, group, "Finished")
            world.quotas.dequeue(group.id)
    touch(world, group.id)


def _awaited(decision: Decision, action: str) -> Expectation:
    return Expectation(decision.id, action, decision.as_of, decision.at)


def _back_off(world: World, here: At, group: Group) -> None:
    """Count a time-out; each next one holds the group back for twice as long."""
    policy = world.policy
    delay_s = policy.requeuing_backoff_s * 2 ** min(group.timeouts, 30)
    group.timeouts += 1
    group.requeue_at = here.at + timedelta(seconds=min(delay_s, policy.requeuing_backoff_max_s))


def _reshape(world: World, group: Group, command: UpdateWorkload) -> None:
    """What an update of the Workload's spec changes for the group."""
    if command.priority is not None and command.priority != group.priority:
        group.priority = command.priority
        recharge(world, group)
    if command.active is False:
        group.deactivating = True
        group.timeouts = 0
    if command.pod_sets is not None:
        _fill(world, group, command.pod_sets)


def _report(world: World, group: Group, command: ReportPod) -> None:
    pod = world.pods.get(command.target.uid)
    if pod is None:
        return
    group.reported -= pod.reported is not None
    waits = command.status == "False"
    pod.reported = (command.reason, command.message) if waits else None
    group.reported += pod.reported is not None
    world.journal.pods.add(command.target.uid)


def _fate(group: Group, pod: Pod, decision: Decision) -> None:
    if isinstance(decision.command, DeletePod):
        if pod.fate != EXCESS:
            pod.fate = EXCESS
            group.roles[pod.role].excess += 1
    elif decision.rule == RULE_REPLACED and pod.fate != REPLACED:
        pod.fate = REPLACED
        group.roles[pod.role].replaced += 1


def _compose(world: World, here: At, group: Group, command: CreateWorkload) -> None:
    """Fix roles and counts: from here on the group is complete."""
    fresh = not group.composed
    group.priority = command.priority
    group.workload_lost = False
    group.composed = True
    _fill(world, group, command.pod_sets)
    if fresh:
        group.complete_at = group.queued_at = here.at
        note(
            world,
            here,
            "GroupComplete",
            group=group.id,
            message=", ".join(f"{p.count} x {p.name}" for p in command.pod_sets),
        )


def _fill(world: World, group: Group, pod_sets: tuple[PodSetSpec, ...]) -> None:
    for role in group.roles.values():
        role.count = 0
    for pod_set in pod_sets:
        name = role_of(group, pod_set.name)
        role = group.roles.setdefault(name, Role(name=name))
        role.count = pod_set.count
        role.requests = pod_set.requests
        role.need = needed(group, name, pod_set.count)
        role.peak = 0
        role.sample = PodUID(pod_set.sample.uid if pod_set.sample is not None else "")
    group.composed_total = sum(pod_set.count for pod_set in pod_sets)
    uids = world.members[group.id].flags
    if group.dialect:
        for uid in list(uids):
            replace(world, group, world.pods[uid])
    world.journal.pods.update(uids)
