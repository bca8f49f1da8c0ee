"""Rules about the Workload's status: keep it equal to the group's state.

In builtin mode every condition and status.admission are ours and the Workload is a mirror for
kubectl users. In kueue mode Kueue's core owns most of them; ours are WaitingForReplacementPods,
PodsReady, Finished, reclaimablePods and, after an eviction, the release of quota, which the core
never does by itself.

One write at a time: the next write has all changes since the write in flight was made. Conditions
are compared by status, reason and message, cut as ingest cuts what it reads; times are the
actuator's.

Invariant: with nothing in flight and nothing changing, the rule is silent.
"""

from msgspec.structs import replace

from podgroup.log.events import Decision
from podgroup.model.commands import WriteWorkloadStatus
from podgroup.model.limits import cut
from podgroup.model.names import (
    ADMITTED,
    EVICTED,
    FINISHED,
    NOT_ADMITTED_CHECKS,
    NOT_ADMITTED_NO_RESERVATION,
    PENDING_EVALUATION,
    PODS_READY,
    PREEMPTED,
    PREEMPTED_IN_CLUSTER_QUEUE,
    QUOTA_RESERVED,
    REACTIVATED,
    READY_RECOVERED,
    READY_STARTED,
    READY_WAIT_FOR_RECOVERY,
    READY_WAIT_FOR_START,
    REPLACEMENT_PODS_READY,
    REQUEUED,
    REQUEUED_BACKOFF_FINISHED,
    WAITING_FOR_REPLACEMENT_PODS,
)
from podgroup.model.objects import NOT_REQUEUED, Condition, RequeueState, WorkloadView, to_write
from podgroup.model.reasons import Effect, effect_of, recovers
from podgroup.rules.helpers.checks import awaits_checks, wanted_checks
from podgroup.rules.helpers.context import (
    Concluding,
    Conclusions,
    RuleContext,
    workload_free,
    workload_ref,
)
from podgroup.rules.helpers.readiness import all_ready
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.helpers.timing import still_running
from podgroup.state.changes import ALL_READY, SUCCEEDED, WINDS_UP, WORKLOAD
from podgroup.state.facts import ran_s, readiness_shown, role_of
from podgroup.state.group import Group
from podgroup.state.members import Flag

READY_MESSAGE = "All pods reached readiness and the workload is running"
WAITING_MESSAGE = "Not all pods are ready or succeeded"
RECOVERY_MESSAGE = "At least one pod has failed, waiting for recovery"
UNCHECKED_MESSAGE = "Not all admission checks are ready"
NO_RESERVATION_MESSAGE = "The workload has no reservation"

Said = dict[str, Condition]
"""The conditions of a Workload, by type."""
Wanted = list[tuple[str, bool, str, str]]
"""The conditions that a Workload should have: type, whether it holds, reason, message. Only one
that differs becomes a Condition, which is seldom any."""


def mirror(ctx: RuleContext, group: Group) -> Conclusions:
    """Write the Workload's status if it differs from the group's state."""
    workload = group.mirror.workload
    if workload is None or workload.deleted_at is not None or not workload_free(group):
        return ()
    if group.ending.finish is not None:
        return _mirror_finish(ctx, group, workload)
    if not group.composition.done or group.mirror.lost:
        return ()
    said = {condition.type: condition for condition in workload.conditions}
    if ctx.world.mode == "kueue":
        return _mirror_beside_kueue(ctx, group, workload, said)
    return _mirror(ctx, group, workload, said)


def _mirror_beside_kueue(
    ctx: RuleContext, group: Group, workload: WorkloadView, said: Said
) -> Conclusions:
    wanted: Wanted = []
    _shared(ctx, group, said, wanted)
    releasing = yield from _release_due(ctx, group, workload)
    if releasing:
        _released(ctx, group, said, wanted)
    else:
        _reactivated(workload, said, wanted)
    changed = _different(said, wanted)
    reclaim = _reclaimable(ctx, group, said)
    if changed or releasing or reclaim != workload.reclaimable:
        status = WriteWorkloadStatus(
            target=workload_ref(group), conditions=tuple(changed), reclaimable=reclaim
        )
        yield _write(ctx, group, status, clear=releasing)


def _mirror(ctx: RuleContext, group: Group, workload: WorkloadView, said: Said) -> Conclusions:
    holding = group.quota.holding
    stale_admission = workload.cluster_queue != (
        holding.admission.cluster_queue if holding is not None else ""
    )
    stale_admission = stale_admission or _moved(group, workload) or _resized(group, workload)
    status = _due(ctx, group, workload, said, stale=stale_admission)
    if status is None:
        return ()
    return (_write(ctx, group, status, clear=holding is None and stale_admission),)


def _due(
    ctx: RuleContext, group: Group, workload: WorkloadView, said: Said, *, stale: bool
) -> WriteWorkloadStatus | None:
    """Return the write of a Workload's status that is due, None if the status is right.

    `stale`: status.admission is not the present admission.
    """
    wanted: Wanted = []
    _quota(group, said, wanted)
    _shared(ctx, group, said, wanted)
    changed = _different(said, wanted)
    reclaim = _reclaimable(ctx, group, said)
    checks = wanted_checks(ctx.world, group, workload)
    requeue = _requeue_state(group)
    same = reclaim == workload.reclaimable and requeue == workload.requeue
    if not (changed or stale or not same or checks is not None):
        return None
    holding = group.quota.holding
    return WriteWorkloadStatus(
        target=workload_ref(group),
        conditions=tuple(changed),
        reclaimable=reclaim,
        admission=holding.admission if holding is not None else None,
        checks=checks,
        reset_checks=checks is not None and not awaits_checks(group, stale=False),
        requeue=requeue if requeue != workload.requeue else None,
    )


def first_status(ctx: RuleContext, group: Group) -> WriteWorkloadStatus | None:
    """Return the status with which a Workload is created, None for none yet (builtin mode)."""
    if ctx.world.mode != BUILTIN:
        return None
    new = WorkloadView(
        uid="",
        namespace=group.namespace,
        name=group.mirror.name,
        resource_version="",
        created_at=ctx.here.at,
    )
    return _due(ctx, group, new, {}, stale=group.quota.holding is not None)


def _moved(group: Group, workload: WorkloadView) -> bool:
    """Tell whether the Workload's status has other places of a podset than the group."""
    holding = group.quota.holding
    said = {one.name: one.place for one in workload.assignments if one.place is not None}
    if holding is None or not said:
        return False
    given = holding.admission.assignments
    return any(one.place != said[one.name] for one in given if one.name in said)


def _resized(group: Group, workload: WorkloadView) -> bool:
    """Tell whether the Workload's status has another count of a podset than the group."""
    holding = group.quota.holding
    if holding is None or not group.spec.owner:
        return False
    said = {one.name: one.count for one in workload.assignments}
    return any(one.count != said.get(one.name) for one in holding.admission.assignments)


def _write(ctx: RuleContext, group: Group, status: WriteWorkloadStatus, *, clear: bool) -> Decision:
    """Have the status written; `clear` takes its admission back."""
    changed = status.conditions
    names = (
        ", ".join(f"{c.type}={c.status}" for c in changed)
        or "admission, checks, reclaimable pods or requeueState"
    )
    if clear:
        status = replace(status, clear_admission=True, executed_s=_executed_s(ctx, group))
    return ctx.decision(
        group,
        "mirror",
        changed[0].reason if changed else "StatusChanged",
        f"the Workload should say {names}",
        status,
    )


def _executed_s(ctx: RuleContext, group: Group) -> int:
    holding = group.quota.holding
    if holding is None:
        return group.quota.executed_s
    return group.quota.executed_s + ran_s(holding, ctx.here.at)


def _mirror_finish(ctx: RuleContext, group: Group, workload: WorkloadView) -> Conclusions:
    finish = group.ending.finish
    assert finish is not None
    if finish.written:
        return ()
    said = {condition.type: condition for condition in workload.conditions}
    wanted: Wanted = [(FINISHED, True, finish.reason, finish.message)]
    releasing = group.requeueing.evicted is not None and bool(workload.cluster_queue)
    if releasing:
        # The group ended before its eviction could be written: this last write has both.
        if ctx.world.mode == "kueue":
            _released(ctx, group, said, wanted)
        else:
            _quota(group, said, wanted)
    return (
        ctx.decision(
            group,
            "mirror",
            finish.reason,
            f"the group is over: {finish.message}",
            WriteWorkloadStatus(
                target=workload_ref(group),
                conditions=tuple(_different(said, wanted)),
                clear_admission=releasing,
                executed_s=group.quota.executed_s if releasing else None,
            ),
        ),
    )


def _different(said: Said, wanted: Wanted) -> list[Condition]:
    found: list[Condition] = []
    for kind, holds, reason, message in wanted:
        status = "True" if holds else "False"
        old = said.get(kind)
        if (
            old is None
            or old.status != status
            or old.reason != reason
            or old.message != cut(message)
        ):
            found.append(to_write(kind, status, reason, message))
    return found


def _quota(group: Group, said: Said, wanted: Wanted) -> None:
    """Conditions that Kueue's core would write (builtin mode only)."""
    holding, evicted = group.quota.holding, group.requeueing.evicted
    if holding is not None:
        message = f"Quota reserved in ClusterQueue {holding.admission.cluster_queue}"
        wanted.append((QUOTA_RESERVED, True, QUOTA_RESERVED, message))
        if holding.admitted:
            wanted.append((ADMITTED, True, ADMITTED, "The workload is admitted"))
        else:
            wanted.append((ADMITTED, False, NOT_ADMITTED_CHECKS, UNCHECKED_MESSAGE))
    else:
        reason, message = group.quota.reason
        if not reason and evicted is not None:
            reason, message = PENDING_EVALUATION, evicted.message
        if reason:
            wanted.append((QUOTA_RESERVED, False, reason, message))
        if ADMITTED in said:
            wanted.append((ADMITTED, False, NOT_ADMITTED_NO_RESERVATION, NO_RESERVATION_MESSAGE))
    if evicted is not None:
        wanted.append((EVICTED, True, evicted.reason, evicted.message))
        if evicted.effect.preempts:
            policy = evicted.policy or PREEMPTED_IN_CLUSTER_QUEUE
            wanted.append((PREEMPTED, True, policy, evicted.message))
        if holding is None:
            again = group.requeueing.requeued
            wanted.append(_requeued(evicted.reason, evicted.message, evicted.effect, again=again))
    elif holding is not None:
        for kind in (EVICTED, PREEMPTED):
            old = said.get(kind)
            if old is not None and old.status == "True":
                wanted.append((kind, False, QUOTA_RESERVED, f"Previously: {old.message}"))
        old = said.get(REQUEUED)
        if old is not None and old.status == "False":
            wanted.append(_requeued(old.reason, old.message, effect_of(old.reason), again=True))


def _requeued(
    reason: str, message: str, effect: Effect, *, again: bool
) -> tuple[str, bool, str, str]:
    if again and (effect.backs_off or effect.rechecks):
        return (REQUEUED, True, REQUEUED_BACKOFF_FINISHED, "The back-off is over")
    return (REQUEUED, again, reason, message)


def _requeue_state(group: Group) -> RequeueState:
    """Return the value of status.requeueState, to the second, as the API has it.

    Empty for a deactivated group, which begins anew once it is active again.
    """
    evicted = group.requeueing.evicted
    if not group.requeueing.timeouts and evicted is None:
        return NOT_REQUEUED
    if evicted is not None and evicted.effect.deactivates:
        return NOT_REQUEUED
    at = group.requeueing.requeue_at if evicted is not None else None
    return RequeueState(
        count=group.requeueing.timeouts, at=at.replace(microsecond=0) if at is not None else None
    )


def _shared(ctx: RuleContext, group: Group, said: Said, wanted: Wanted) -> None:
    """Conditions that are ours in both modes."""
    kind = WAITING_FOR_REPLACEMENT_PODS
    if group.composition.short is not None:
        wanted.append((kind, True, *group.composition.short))
    elif kind in said:
        wanted.append((kind, False, REPLACEMENT_PODS_READY, "No pods need replacement"))
    ready = _pods_ready(ctx, group, said.get(PODS_READY))
    if ready is not None:
        wanted.append((PODS_READY, *ready))


def _pods_ready(
    ctx: RuleContext, group: Group, old: Condition | None
) -> tuple[bool, str, str] | None:
    """Return status, reason, message of PodsReady, None if it is not to be written (`Policy`)."""
    how = readiness_shown(ctx.world)
    if how == "off":
        return None
    if group.quota.holding is None or group.requeueing.evicted is not None:
        if old is None and how != "on":
            return None  # an absent condition says the same
        return False, READY_WAIT_FOR_START, WAITING_MESSAGE
    if all_ready(ctx, group):
        recovered = old is not None and recovers(old.reason)
        return True, READY_RECOVERED if recovered else READY_STARTED, READY_MESSAGE
    if old is not None and (old.status == "True" or recovers(old.reason)):
        return False, READY_WAIT_FOR_RECOVERY, RECOVERY_MESSAGE
    if old is None and how != "on":
        return None
    return False, READY_WAIT_FOR_START, WAITING_MESSAGE


def _reclaimable(ctx: RuleContext, group: Group, said: Said) -> dict[str, int]:
    """Succeeded pods per podset, capped at its count; none for single pods and serving groups."""
    holding = group.quota.holding
    if group.single or group.spec.serving:
        return {}
    if holding is None:
        return dict(group.mirror.workload.reclaimable) if group.mirror.workload is not None else {}
    members = ctx.members(group)
    found: dict[str, int] = {}
    for assignment in holding.admission.assignments:
        role = group.roles.get(role_of(group, assignment.name))
        if role is None:
            continue
        done = min(role.count, members.count(Flag.SUCCEEDED, role.name) + role.succeeded_gone)
        if done:
            found[assignment.name] = done
    workload = group.mirror.workload
    reserved = said.get(QUOTA_RESERVED)
    if workload is not None and reserved is not None and reserved.status == "True":
        # Reclaimed counts never fall: Kueue refuses a status that lowers one.
        for name, before in workload.reclaimable.items():
            found[name] = max(before, found.get(name, 0))
    return found


def _release_due(ctx: RuleContext, group: Group, workload: WorkloadView) -> Concluding[bool]:
    """Tell whether an evicted Workload still holds quota while no pod runs (kueue mode)."""
    if group.requeueing.evicted is None or not workload.cluster_queue:
        return False
    if ctx.members(group).count(Flag.OPENING):
        return False  # the pod may be ungated by now
    return not (yield from still_running(ctx, group))


def _released(ctx: RuleContext, group: Group, said: Said, wanted: Wanted) -> None:
    evicted = group.requeueing.evicted
    assert evicted is not None
    # A single pod that was started never comes back; a pod that is still gated waits again.
    started = group.single and not ctx.members(group).count(Flag.GATED)
    dies = started and ctx.world.policy.skip_reassignment
    requeue = evicted.effect.requeues and not dies
    requeue = requeue and group.ending.finish is None
    wanted.append((QUOTA_RESERVED, False, PENDING_EVALUATION, evicted.message))
    wanted.append((REQUEUED, requeue, evicted.reason, evicted.message))
    if ADMITTED in said:
        wanted.append((ADMITTED, False, NOT_ADMITTED_NO_RESERVATION, NO_RESERVATION_MESSAGE))


def _reactivated(workload: WorkloadView, said: Said, wanted: Wanted) -> None:
    """Let a Workload queue again that a user has activated again (B15).

    After a plain `Deactivated` the core does so itself; after `DeactivatedDueTo...` it does not.
    """
    requeued = said.get(REQUEUED)
    if requeued is None or requeued.status == "True" or not workload.active:
        return
    if effect_of(requeued.reason).by_rule:
        wanted.append((REQUEUED, True, REACTIVATED, "The workload was reactivated"))


RULE = Rule(
    name="mirror",
    run=mirror,
    reads=SUCCEEDED | ALL_READY | WORKLOAD | WINDS_UP,
    docs=(RuleDoc("mirror", "the Workload's status says something else", "writes it"),),
)
