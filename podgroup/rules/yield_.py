"""Rule: no pod of an evicted group runs any more: its quota is released (builtin mode).

Invariant: quota is not given back while a pod may run on it.
"""

from podgroup.model.commands import ReleaseQuota
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.timing import still_running
from podgroup.state.group import Group
from podgroup.state.members import Flag


def yield_single(ctx: RuleContext, group: Group) -> Conclusions:
    """Release the quota of an evicted single pod, before its end is decided."""
    waits = group.single and group.requeueing.evicted is not None
    return _yield(ctx, group) if waits else ()


def yield_quota(ctx: RuleContext, group: Group) -> Conclusions:
    """Release the quota of an evicted group that goes on."""
    if group.requeueing.evicted is None or group.ending.finish is not None or group.mirror.lost:
        return ()
    return _yield(ctx, group)


def _yield(ctx: RuleContext, group: Group) -> Conclusions:
    evicted, holding = group.requeueing.evicted, group.quota.holding
    if evicted is None or holding is None or ctx.world.mode == "kueue":
        return
    if ctx.members(group).count(Flag.OPENING):
        return  # a pod being ungated may start by now: it is stopped first
    if (yield from still_running(ctx, group)):
        return
    # A single pod that was started is stopped and never comes back; a gated pod waits again.
    again = not group.single or bool(ctx.members(group).count(Flag.GATED))
    yield ctx.decision(
        group,
        "yield",
        evicted.reason,
        "nothing of the group runs any more",
        ReleaseQuota(
            target=group_ref(group),
            reason=evicted.reason,
            message=evicted.message,
            requeue=again
            and group.requeueing.requeue_at is None
            and not evicted.effect.deactivates,
        ),
    )


SINGLE = Rule(
    name="yield",
    run=yield_single,
    parked=True,
)


RULE = Rule(
    name="yield",
    run=yield_quota,
    parked=True,
    docs=(RuleDoc("yield", "an evicted group runs nothing any more", "gives its quota back"),),
)
