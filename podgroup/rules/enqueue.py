"""Rule: a group waits for quota, or does not, as its state says (builtin mode).

Invariant: after this and `charge` a group is either charged for what it holds, or pending, or
neither; a group that holds quota is pending as well while it waits for more (`resize`).
"""

from podgroup.log.records import Requeued
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.eligible import active_again, ineligible, may_wait
from podgroup.rules.helpers.rule import BUILTIN, Rule
from podgroup.rules.helpers.shortages import record_shortage
from podgroup.state.changes import SUCCEEDED
from podgroup.state.derived import Waits
from podgroup.state.facts import grows
from podgroup.state.group import Group


def enqueue(ctx: RuleContext, group: Group) -> Conclusions:
    """Let a group wait for quota, or not, as its state says."""
    if grows(group):
        return _wait(ctx, group)
    if not may_wait(ctx.world, group):
        return _leave(ctx, group)
    evicted = group.requeueing.evicted
    if evicted is not None and not group.requeueing.requeued and active_again(group):
        return _requeue(ctx, group)
    return _wait(ctx, group)


def _requeue(ctx: RuleContext, group: Group) -> Conclusions:
    yield Requeued(group.id)
    yield from _wait(ctx, group)


def _wait(ctx: RuleContext, group: Group) -> Conclusions:
    why = ineligible(ctx.world, group)
    if why is None:
        return (Waits(group.id, True),)
    return (*ctx.pending(group, *why), *_leave(ctx, group))


def _leave(ctx: RuleContext, group: Group) -> Conclusions:
    if group.quota.shortage is None and group.id not in ctx.world.quotas.waiting:
        return ()
    return (*record_shortage(ctx, group), Waits(group.id, False))


RULE = Rule(
    name="enqueue",
    run=enqueue,
    reads=SUCCEEDED,
    mode=BUILTIN,
)
