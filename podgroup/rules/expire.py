"""Rule: a time-out or a check deactivated a group, and the time its pods are kept is over.

The group holds no quota any more: its pods are deleted after `retention_after_deactivation_s`, and
the Workload follows when the last one is gone.

A group that a person deactivated is left alone: a person can activate it again. Kueue deletes the
first pod of a group only, and takes its finalizer off the others, which stay gated, or run on
without a charge. So here all of them are deleted.

Invariant: pods are deleted only if an operator has asked for it (`Policy`, off by default).
"""

from datetime import timedelta

from podgroup.model.commands import FinalizePod, StopPod
from podgroup.model.names import EVENT_DELETED, REASON_EVICTED_PREFIX
from podgroup.rules.helpers.context import Conclusions, RuleContext, normal, pod_ref
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.timing import is_over, may_run, no_wake
from podgroup.state.group import Group

RETENTION = "retention"


MESSAGE = "Deleted job: deactivation retention period expired"


def expire(ctx: RuleContext, group: Group) -> Conclusions:
    """Delete the pods of a group that was deactivated long enough ago."""
    kept_s = ctx.world.policy.retention_after_deactivation_s
    if kept_s < 0:
        return ()
    return _expire(ctx, group, kept_s)


def _expire(ctx: RuleContext, group: Group, kept_s: int) -> Conclusions:
    evicted, workload = group.requeueing.evicted, group.mirror.workload
    if (
        evicted is None
        or not evicted.effect.by_rule
        or workload is None
        or workload.active
        or group.quota.holding is not None
        or group.ending.finish is not None
    ):
        yield from no_wake(ctx, group, RETENTION)
        return
    due = evicted.at + timedelta(seconds=kept_s)
    if not (yield from is_over(ctx, group, RETENTION, due)):
        return
    reason = REASON_EVICTED_PREFIX + evicted.reason
    for uid in list(ctx.members(group).flags):
        pod = ctx.pod(uid)
        if not pod.free or (pod.deleting and (not pod.held or may_run(ctx, pod))):
            continue
        target, events = pod_ref(pod), normal(EVENT_DELETED, MESSAGE)
        command: FinalizePod | StopPod = FinalizePod(target=target, events=events)
        if not pod.deleting:
            command = StopPod(
                target=target,
                reason=reason,
                message=evicted.message,
                finalize=True,
                events=events,
            )
        yield ctx.decision(
            group,
            "expire",
            evicted.reason,
            f"pod {pod.view.name} goes: its group was deactivated {kept_s} s ago",
            command,
        )


RULE = Rule(
    name="expire",
    run=expire,
    docs=(
        RuleDoc(
            "expire",
            "`queueing.retention_after_deactivation_s` after a deactivation",
            "deletes and releases the pods",
        ),
    ),
)
