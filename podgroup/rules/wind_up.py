"""Rule: no pod of a parked group runs: its quota is given back.

No rule starts pods of a parked group, but its end counts: others need its quota, and the pods'
finalizers are ours. Gated pods do not delay this: once the group is released it queues again.

Invariant: no quota is given back while a pod may run.
"""

from podgroup.model.commands import ReleaseQuota
from podgroup.model.reasons import PARKED
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.releasing import finalize
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.timing import still_running
from podgroup.state.group import Group
from podgroup.state.members import Flag

_OVER = "all its pods have ended, and it is parked"
_IDLE = "none of its pods runs, and it is parked"


def wind_up(ctx: RuleContext, group: Group) -> Conclusions:
    """Give back a parked group's quota, once none of its pods runs."""
    return _wind_up(ctx, group) if group.parked else ()


def _wind_up(ctx: RuleContext, group: Group) -> Conclusions:
    members = ctx.members(group)
    if members.count(Flag.OPENING):
        return  # the pod may be ungated by now
    if (yield from still_running(ctx, group)):
        return
    if group.quota.holding is not None and ctx.world.mode != "kueue":
        gated = bool(members.count(Flag.GATED))
        why = _IDLE if gated else _OVER
        command = ReleaseQuota(
            target=group_ref(group), reason=PARKED, message=why, requeue=gated or not group.single
        )
        yield ctx.decision(group, "wind_up", PARKED, why, command)
    for uid in members.listed(Flag.HELD):
        if members.flags[uid] & Flag.GATED:
            continue
        yield from finalize(ctx, group, ctx.pod(uid), "wind_up", PARKED, _OVER)


RULE = Rule(
    name="wind_up",
    run=wind_up,
    parked=True,
    docs=(
        RuleDoc(
            "wind_up",
            "nothing of a parked group runs",
            "gives its quota back, takes our finalizers off",
        ),
    ),
)
