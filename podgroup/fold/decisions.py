"""Fold of decisions: what a decision changes the moment it is made, before anything acts on it.

Theory. Decided-but-not-observed is state. The same function serves the live projector, right after
a rule made a decision, and replay, which applies recorded decisions instead of deciding.

Invariant: applying a decision depends on the state and the decision alone, never on its causes.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from msgspec import structs

from podgroup.fold import marking
from podgroup.fold import sentences as say
from podgroup.fold.common import (
    EXCESS,
    REPLACED,
    end_shortage,
    end_start,
    expect,
    index,
    mark,
    note,
    write_places,
)
from podgroup.fold.group import composition, ending, mirror, quota, reporting, requeueing
from podgroup.fold.placing import needed, replace, replace_all
from podgroup.fold.queues import expect_condition, record_status
from podgroup.fold.reservations import admit, checked, recharge, release, resize
from podgroup.log.events import Decision
from podgroup.log.journal import At, PreemptionRow
from podgroup.model.commands import (
    SILENCING,
    Admission,
    AdmitGroup,
    Command,
    ComposeGroup,
    CreateWorkload,
    DeletePod,
    EvictGroup,
    FinalizePod,
    FinishGroup,
    KeepPod,
    MarkInUse,
    PodSetSpec,
    ReleaseQuota,
    ReplaceNodes,
    ReportPod,
    ReportQueue,
    ResizeGroup,
    StopPod,
    UngatePod,
    UpdateWorkload,
    WriteQueueStatus,
)
from podgroup.model.ids import PodUID
from podgroup.model.names import START_LEFT
from podgroup.model.objects import Since
from podgroup.model.reasons import replaces
from podgroup.model.shortage import Preempted
from podgroup.state.changes import EVERYTHING
from podgroup.state.facts import cluster_queue_name, place_of, priority_class_of, role_of
from podgroup.state.group import Eviction, Finish, Group, Role
from podgroup.state.pod import Expectation, OutOfSelector
from podgroup.state.world import World


def apply_decision(world: World, decision: Decision) -> None:
    """Apply a decision to the state and put it in the journal."""
    meta = world.meta
    meta.decisions = max(meta.decisions, decision.number)
    meta.decided_in = meta.epoch
    world.journal.decisions.append(decision)
    command = decision.command
    group = world.groups.get(decision.group)  # type: ignore[call-overload] # text in a decision
    if group is None:
        _of_queue(world, decision)
        return
    apply = _APPLIED.get(type(command)) or _WRITTEN.get(command.about.kind)
    if apply is not None:
        apply(world, group, decision, command)
    mark(world, group.id, 0 if type(command) in SILENCING else EVERYTHING)


def _of_queue(world: World, decision: Decision) -> None:
    """Apply a decision about an object of no group: a queue's status, or the mark of use."""
    command = decision.command
    if isinstance(command, WriteQueueStatus):
        expect_condition(world, command)
    elif isinstance(command, MarkInUse):
        marking.decided(world, decision)
    elif isinstance(command, ReportQueue):
        on = command.target
        here = At(decision.as_of, decision.at)
        record_status(world, here, (on.kind, on.namespace, on.name), on.uid, command.standing)


def _pod_is_written(world: World, group: Group, decision: Decision, command: Any) -> None:
    """A write of a pod is in flight from here on."""
    pod = world.pods.get(command.target.uid)
    if pod is None:
        return
    place: tuple[str, ...] = ()
    if isinstance(command, UngatePod):
        pod.ungate_decided = True
        where = place_of(group, pod.role)
        levels = where.levels if where is not None else ()
        place = tuple(command.node_selector.get(level, "") for level in levels)
    elif isinstance(command, KeepPod):
        hiding = pod.hiding or OutOfSelector()
        pod.hiding = OutOfSelector(hiding.since, hiding.kept + 1, decision.at)
        world.members[group.id].keep(pod.view.uid, pod.kept)
    elif isinstance(command, DeletePod):
        if pod.fate != EXCESS:
            pod.fate = EXCESS
            group.roles[pod.role].excess += 1
    elif isinstance(command, FinalizePod) and pod.fate != REPLACED:
        if command.replaced or replaces(decision.rule):
            pod.fate = REPLACED
            group.roles[pod.role].replaced += 1
    expect(world, group, pod, _expectation(decision, place, pod.view.resource_version))


def _workload_is_written(world: World, group: Group, decision: Decision, command: Any) -> None:
    expect(world, group, None, _expectation(decision))


def _expectation(decision: Decision, place: tuple[str, ...] = (), version: str = "") -> Expectation:
    command = decision.command
    return Expectation(
        decision.id,
        command.awaited,
        decision.as_of,
        decision.at,
        place=place,
        grace_s=command.grace_s if isinstance(command, StopPod) else None,
        version=version,
    )


def _workload_is_made(
    world: World, group: Group, decision: Decision, command: CreateWorkload
) -> None:
    composition.ranked(group, None)
    _compose(world, At(decision.as_of, decision.at), group, command.priority, command.pod_sets)
    _workload_is_written(world, group, decision, command)


def _composed(world: World, group: Group, decision: Decision, command: ComposeGroup) -> None:
    ref = command.priority_ref
    before = priority_class_of(group)
    composition.ranked(group, f"{ref.kind}/{ref.name}" if ref is not None else "")
    if group.quota.holding is not None and priority_class_of(group) != before:
        world.quotas.news[group.id] = None
    if command.pod_sets is not None:
        _compose(world, At(decision.as_of, decision.at), group, command.priority, command.pod_sets)
    else:
        _reprioritize(world, group, command.priority)


def _workload_is_changed(
    world: World, group: Group, decision: Decision, command: UpdateWorkload
) -> None:
    _reshape(world, group, command)
    _workload_is_written(world, group, decision, command)


def _admitted(world: World, group: Group, decision: Decision, command: AdmitGroup) -> None:
    here = At(decision.as_of, decision.at)
    if group.quota.holding is not None and not group.quota.holding.admitted and not command.checks:
        checked(world, here, group, group.quota.holding, decision.id)
        return
    admission = Admission(cluster_queue=command.cluster_queue, assignments=command.assignments)
    admit(world, here, group, admission, decision.id, command.checks)


def _resized(world: World, group: Group, decision: Decision, command: ResizeGroup) -> None:
    here = At(decision.as_of, decision.at)
    changed = []
    for name, count in sorted(command.counts.items()):
        role = group.roles.setdefault(name, Role(name=name))
        changed.append((name, role.count, count))
        role.count, role.need = count, needed(group, name, count)
        role.peak = min(role.peak, count)
    composition.filled(group, sum(role.count for role in group.roles.values()))
    still = tuple(one for one in group.composition.wanted if one[1] > group.roles[one[0]].count)
    composition.wanted(group, still, group.composition.wanted_at if still else None)
    said = say.resized_to(changed)
    note(world, here, "GroupResized", group.id, "", decision.reason, said, decision.id)
    if group.quota.holding is not None and command.assignments is not None:
        resize(world, here, group, group.quota.holding, command.assignments, decision.id)
    else:
        quota.asked_anew(group)
    replace_all(world, group)
    world.quotas.news[group.id] = None


def _placed_anew(world: World, group: Group, decision: Decision, command: ReplaceNodes) -> None:
    holding = group.quota.holding
    if holding is not None:
        here = At(decision.as_of, decision.at)
        write_places(world, group, holding, until=here)
        given = structs.replace(holding.admission, assignments=command.assignments)
        since = Since(seq=here.position, at=here.at)
        holding = structs.replace(holding, admission=given, moved=since)
        quota.changed(group, holding)
        write_places(world, group, holding)
        world.quotas.news[group.id] = None


def _evicted(world: World, group: Group, decision: Decision, command: EvictGroup) -> None:
    here = At(decision.as_of, decision.at)
    policy = command.preemption.policy if command.preemption is not None else ""
    eviction = Eviction(
        command.reason, command.message, here.at, command.preempted_by, policy, command.told
    )
    requeueing.evicted(group, eviction)
    if command.preemption is not None:
        _preempted(world, group, decision, command, command.preemption)
    world.quotas.news[group.id] = None  # for waiting groups its quota is as good as free
    mirror.distrust_checks(group)
    if eviction.effect.backs_off:
        requeueing.timed_out(group, here.at, world.policy)
    elif command.requeue_after_s:
        requeueing.held_back(group, here.at + timedelta(seconds=command.requeue_after_s))
    _note(world, here, group, "GroupEvicted", decision, command)


def _preempted(
    world: World, group: Group, decision: Decision, command: EvictGroup, between: Preempted
) -> None:
    by = world.groups.get(command.preempted_by)  # type: ignore[call-overload] # text in a decision
    was = ("", "", 0) if by is None else (by.namespace, by.name, by.composition.priority)
    held = () if group.quota.holding is None else group.quota.holding.admission.assignments
    world.journal.preemptions.append(
        PreemptionRow(
            seq=decision.as_of,
            at=decision.at,
            decision=decision.id,
            victim=group.id,
            victim_was=(group.namespace, group.name, group.composition.priority),
            preemptor=command.preempted_by,
            preemptor_was=was,
            between=between,
            assignments=held,
        )
    )


def _released(world: World, group: Group, decision: Decision, command: ReleaseQuota) -> None:
    release(world, At(decision.as_of, decision.at), group, command.reason)
    requeueing.released(group, requeue=command.requeue)


def _finished(world: World, group: Group, decision: Decision, command: FinishGroup) -> None:
    here = At(decision.as_of, decision.at)
    finish = Finish(command.reason, command.message, here.at)
    ending.finished(group, finish, here.at, cluster_queue_name(world, group))
    ending.start_failed(group, "")
    end_shortage(world, here, group)
    end_start(world, here, group, START_LEFT)
    _note(world, here, group, "GroupFinished", decision, command)
    release(world, here, group, "Finished")
    world.quotas.dequeue(group.id)


def _note(
    world: World,
    here: At,
    group: Group,
    kind: str,
    decision: Decision,
    command: EvictGroup | FinishGroup,
) -> None:
    note(world, here, kind, group.id, "", command.reason, command.message, decision.id)


def _reshape(world: World, group: Group, command: UpdateWorkload) -> None:
    """Apply what an update of the Workload's spec changes for the group."""
    if command.priority is not None:
        _reprioritize(world, group, command.priority)
    if command.active is False:
        mirror.deactivated(group)
        requeueing.deactivated(group)
    if command.pod_sets is not None:
        _fill(world, group, command.pod_sets, fresh=True)


def _reprioritize(world: World, group: Group, priority: int) -> None:
    if priority != group.composition.priority:
        composition.reprioritized(group, priority)
        recharge(world, group)


def _report(world: World, group: Group, _: Decision, command: ReportPod) -> None:
    pod = world.pods.get(command.target.uid)
    if pod is None:
        return
    before = pod.reported is not None
    waits = command.status == "False"
    pod.reported = (command.reason, command.message) if waits else None
    reporting.conditions(group, waits - before)
    index(world, group, pod)


def _compose(
    world: World, here: At, group: Group, priority: int, pod_sets: tuple[PodSetSpec, ...]
) -> None:
    """Fix roles and counts: from here on the group is complete."""
    fresh = not group.composition.done
    composition.composed(group, priority, here.at if fresh else None)
    mirror.lost(group, False)
    _fill(world, group, pod_sets, fresh=fresh)
    if fresh:
        requeueing.queued(group, here.at)
        found = ", ".join([f"{p.count} x {p.name}" for p in pod_sets])
        note(world, here, "GroupComplete", group.id, "", "", found)


def _fill(world: World, group: Group, pod_sets: tuple[PodSetSpec, ...], *, fresh: bool) -> None:
    for role in group.roles.values():
        role.count = 0
    for pod_set in pod_sets:
        name = role_of(group, pod_set.name)
        role = group.roles.setdefault(name, Role(name=name))
        role.count = pod_set.count
        role.requests = pod_set.requests
        role.topology = pod_set.topology
        role.need = needed(group, name, pod_set.count)
        if fresh:
            role.peak = 0  # a Workload that is created again takes no pod's place
        role.sample = PodUID(pod_set.sample.uid if pod_set.sample is not None else "")
    composition.filled(group, sum(pod_set.count for pod_set in pod_sets))
    uids = world.members[group.id].flags
    if group.spec.dialect:
        for uid in list(uids):
            replace(world, group, world.pods[uid])
    world.journal.pods.update(uids)


_APPLIED: Final[dict[type[Command], Callable[[World, Group, Decision, Any], None]]] = {
    ReportPod: _report,
    ComposeGroup: _composed,
    CreateWorkload: _workload_is_made,
    UpdateWorkload: _workload_is_changed,
    AdmitGroup: _admitted,
    ResizeGroup: _resized,
    ReplaceNodes: _placed_anew,
    EvictGroup: _evicted,
    ReleaseQuota: _released,
    FinishGroup: _finished,
}
"""Command -> what it changes beside its write being in flight."""
_WRITTEN: Final[dict[str, Callable[[World, Group, Decision, Any], None]]] = {
    "Pod": _pod_is_written,
    "Workload": _workload_is_written,
}
"""Kind of the target -> what any other command changes: it is in flight from here on."""
