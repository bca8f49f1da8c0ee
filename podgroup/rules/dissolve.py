"""Rule: the Workload is being deleted or is gone: its pods are stopped, and both are released.

A Workload that is gone while its pods run is created again instead (`helpers.lost_workload`).

Invariant: quota is given back only after every ungating in flight has ended.
"""

from podgroup.log.events import Decision
from podgroup.log.records import Reopened, WorkloadBack
from podgroup.model.commands import ReleaseQuota, StopPod
from podgroup.model.names import EVENT_STOPPED, REASON_NO_MATCHING_WORKLOAD, REASON_WORKLOAD_DELETED
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref, normal, pod_ref
from podgroup.rules.helpers.lost_workload import still_admitted
from podgroup.rules.helpers.releasing import finalize
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.timing import may_run
from podgroup.rules.release import release_workload
from podgroup.state.group import Group
from podgroup.state.members import Flag


def dissolve(ctx: RuleContext, group: Group) -> Conclusions:
    """Stop a group whose Workload is being deleted or gone."""
    if not group.mirror.lost or group.ending.finish is not None or not group.composition.done:
        return ()
    return _dissolve(ctx, group)


def _dissolve(ctx: RuleContext, group: Group) -> Conclusions:
    members = ctx.members(group)
    workload = group.mirror.workload
    back = workload is not None and workload.deleted_at is None
    if back or still_admitted(ctx, group):
        yield WorkloadBack(group.id)
        return
    deleting = workload is not None
    reason = REASON_WORKLOAD_DELETED if deleting else REASON_NO_MATCHING_WORKLOAD
    message = "Workload is deleted" if deleting else "Missing Workload; unable to restore pods"
    flags = (Flag.STOPPABLE, Flag.GATED, Flag.HELD) if deleting else (Flag.STOPPABLE,)
    for uid in dict.fromkeys(uid for flag in flags for uid in members.listed(flag)):
        pod = ctx.pod(uid)
        if pod.deleting and not pod.held:
            continue
        if pod.deleting:
            yield from finalize(
                ctx, group, pod, "dissolve", reason, f"{message}: pod is already going"
            )
            continue
        yield ctx.decision(
            group,
            "dissolve",
            reason,
            f"{message}: stop pod {pod.view.name}",
            StopPod(
                target=pod_ref(pod),
                reason=reason,
                message=message,
                finalize=deleting and (ctx.world.mode == "kueue" or not may_run(ctx, pod)),
                events=normal(EVENT_STOPPED, message),
            ),
        )
    if members.count(Flag.OPENING):
        return  # a pod being ungated may start by now: it is stopped first
    if group.quota.holding is not None:
        yield ctx.decision(
            group,
            "dissolve",
            reason,
            "the Workload is gone and its quota with it",
            ReleaseQuota(target=group_ref(group), reason=reason, message=message, requeue=True),
        )
    if deleting:
        yield from release_workload(ctx, group, reason)
    elif not members.count(Flag.STOPPABLE):
        yield Reopened(group.id)


def no_pods_left(ctx: RuleContext, group: Group) -> Decision:
    """Decide that a group gives its quota back, since no Workload can be made of its pods."""
    message = "no pod has a place in the group, and no Workload can be made of them"
    return ctx.decision(
        group,
        "dissolve",
        "NoPodsLeft",
        message,
        ReleaseQuota(target=group_ref(group), reason="NoPodsLeft", message=message, requeue=True),
    )


RULE = Rule(
    name="dissolve",
    run=dissolve,
    docs=(
        RuleDoc(
            "dissolve",
            "the Workload is being deleted, or was",
            "stops the pods, gives the quota back",
        ),
    ),
)
