"""Rule: a group is charged what it holds (builtin mode), less what its succeeded pods gave back.

Where a group holds no quota, its running pods are charged all the same (`helpers.unadmitted`).

Invariant: a group is charged for its quota, or for pods that run without an admission, never both.
"""

from podgroup.model.objects import ClusterQueueView, FlavorView
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import BUILTIN, Rule
from podgroup.rules.helpers.timing import no_wake, timer_of, wake_at
from podgroup.rules.helpers.unadmitted import charge_for, charged_to, usage_of_live
from podgroup.state.asked import charge_of
from podgroup.state.changes import SUCCEEDED
from podgroup.state.derived import Charged
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.termination import GIVEN_UP


def charge(ctx: RuleContext, group: Group) -> Conclusions:
    """Charge a group."""
    holding = group.quota.holding
    if holding is not None:
        return (Charged(group.id, charge_of(ctx.world, group, holding)),)
    return charge_unadmitted(ctx, group)


def charge_unadmitted(ctx: RuleContext, group: Group) -> Conclusions:
    """Charge running pods of a group without quota, or end their charge."""
    if group.quota.holding is not None:
        return
    charges, members = ctx.world.quotas.charges, ctx.members(group)
    queue = charged_to(ctx.world, group)
    if not members.count(Flag.LIVE) or queue is None:
        if group.id in charges:
            yield Charged(group.id, None)
        yield from no_wake(ctx, group, GIVEN_UP)
        return
        # One pass whenever a pod starts or ends; other events of the group cause none.
    source = (members.moves, group.composition.priority, queue, _flavors(ctx, queue))
    if (*source, _lapsed(ctx, group)) == members.charged_for and group.id in charges:
        return
    usage, lapses = usage_of_live(ctx.world, group, queue, ctx.here.at)
    if lapses:
        yield from wake_at(ctx, group, GIVEN_UP, min(lapses))
    else:
        yield from no_wake(ctx, group, GIVEN_UP)
        # A pod is to lapse: the charge is worked out anew once the timer is gone.
    worked_out = (*source, not lapses)
    yield Charged(group.id, charge_for(ctx.world, group, queue, usage), worked_out)


def _lapsed(ctx: RuleContext, group: Group) -> bool:
    """Tell whether a kubelet should have answered for a pod by now."""
    return timer_of(ctx, group, GIVEN_UP) is None


def _flavors(ctx: RuleContext, queue: ClusterQueueView) -> tuple[FlavorView | None, ...]:
    return tuple(ctx.world.flavors.get(f.name) for r in queue.groups for f in r.flavors)


RULE = Rule(
    name="charge",
    run=charge,
    parked=True,
    reads=SUCCEEDED,
    mode=BUILTIN,
)
