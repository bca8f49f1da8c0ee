"""Rule: another pod of the same role has a failed pod's place: the failed pod is released.

Invariant: no pod is released while another pod is still to become an owner, so that the Workload
always has an owner.
"""

from podgroup.model.commands import FinalizePod
from podgroup.rules.helpers.context import Conclusions, RuleContext, pod_ref
from podgroup.rules.helpers.order import replace_key
from podgroup.rules.helpers.places import places, staffed
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.timing import may_run
from podgroup.rules.own import lacks_owners
from podgroup.state.group import Group, Role
from podgroup.state.members import Flag


def replace(ctx: RuleContext, group: Group) -> Conclusions:
    """Release pods whose places other pods have."""
    if not ctx.members(group).count(Flag.INACTIVE) or not staffed(group):
        return ()
    if lacks_owners(ctx, group):
        return ()
    return _replace_all(ctx, group)


def _replace_all(ctx: RuleContext, group: Group) -> Conclusions:
    for name in sorted(group.roles):
        yield from _replace(ctx, group, group.roles[name])


def _replace(ctx: RuleContext, group: Group, role: Role) -> Conclusions:
    members = ctx.members(group)
    inactive = members.count(Flag.INACTIVE, role.name)
    active = members.count(Flag.ACTIVE, role.name) + role.succeeded_gone
    over = min(inactive, inactive + active - places(group, role))
    if not role.count or over <= 0:
        return
    pods = sorted(map(ctx.pod, members.listed(Flag.INACTIVE, role.name)), key=replace_key)
    for pod in pods[:over]:
        if pod.held and pod.free and not may_run(ctx, pod):
            yield ctx.decision(
                group,
                "replace",
                "PodReplaced",
                f"pod {pod.view.name} ended and another pod like it has its place",
                FinalizePod(target=pod_ref(pod), replaced=True),
            )


RULE = Rule(
    name="replace",
    run=replace,
    docs=(
        RuleDoc(
            "replace",
            "a pod of the same role has a failed pod's place",
            "releases the failed one, first failed first",
        ),
    ),
)
