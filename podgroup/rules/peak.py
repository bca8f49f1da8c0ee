"""Rule: in groups that declare their roles, how many places were taken at once is remembered.

Invariant: a worker that its driver never created is not missing.
"""

from podgroup.log.records import Peaked
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.places import staffed
from podgroup.rules.helpers.rule import Rule
from podgroup.state.group import Group
from podgroup.state.members import Flag


def peak(ctx: RuleContext, group: Group) -> Conclusions:
    """Declared roles: remember how many places were taken at once in this admission.

    A worker that its driver never created is not missing; a failed worker is. Before the group is
    admitted, and again after an eviction, only the pods that it needs to start can be missing.
    """
    if not group.spec.dialect or not staffed(group):
        return ()
    return _peak(ctx, group)


def _peak(ctx: RuleContext, group: Group) -> Conclusions:
    members = ctx.members(group)
    for role in group.roles.values():
        active = min(role.count, members.count(Flag.ACTIVE, role.name) + role.succeeded_gone)
        peak = max(role.peak, active) if group.quota.holding is not None else active
        if peak != role.peak:
            yield Peaked(group.id, role.name, peak)


RULE = Rule(
    name="peak",
    run=peak,
)
