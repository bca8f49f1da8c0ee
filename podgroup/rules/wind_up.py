"""Rule: nothing of a parked group runs or waits any more: what it held is given back.

No rule starts anything of a group that is parked, but its end counts: its quota is its neighbours',
and its pods' finalizers are ours.

Invariant: nothing is given back while a pod may run.
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


def wind_up(ctx: RuleContext, group: Group) -> Conclusions:
    """Give back what a parked group held, once all its pods have ended."""
    return _wind_up(ctx, group) if group.parked else ()


def _wind_up(ctx: RuleContext, group: Group) -> Conclusions:
    members = ctx.members(group)
    if members.count(Flag.OPENING) or members.count(Flag.GATED):
        return
    if (yield from still_running(ctx, group)):
        return
    if group.quota.holding is not None and ctx.world.mode != "kueue":
        command = ReleaseQuota(
            target=group_ref(group), reason=PARKED, message=_OVER, requeue=not group.single
        )
        yield ctx.decision(group, "wind_up", PARKED, _OVER, command)
    for uid in members.listed(Flag.HELD):
        yield from finalize(ctx, group, ctx.pod(uid), "wind_up", PARKED, _OVER)


RULE = Rule(
    name="wind_up",
    run=wind_up,
    parked=True,
    docs=(
        RuleDoc(
            "wind_up",
            "all pods of a parked group have ended",
            "gives its quota back, takes our finalizers off",
        ),
    ),
)
