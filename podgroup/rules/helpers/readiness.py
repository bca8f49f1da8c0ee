"""Whether a group is admitted and goes on, and whether its pods are ready.

Invariant: nothing is changed here.
"""

from podgroup.rules.helpers.context import RuleContext
from podgroup.state.group import Group, QuotaReservation
from podgroup.state.members import Flag


def admitted(group: Group) -> QuotaReservation | None:
    """Return the quota of a group that is admitted and neither evicted nor over, else None."""
    holding = group.quota.holding
    if holding is None or not holding.admitted:
        return None
    ends = group.requeueing.evicted is not None or group.ending.finish is not None
    return None if ends else holding


def all_ready(ctx: RuleContext, group: Group) -> bool:
    """Tell whether every pod of a composed group is ready or succeeded (B6)."""
    ready = ctx.members(group).count(Flag.READY)
    for role in group.roles.values():
        ready += role.succeeded_gone
    return ready >= group.composition.total
