"""Rule: a group waits for quota, or does not, as its state says (builtin mode).

Invariant: after this and `charge` a group is either charged for what it holds, or pending, or
neither.
"""

from podgroup.changes import SUCCEEDED
from podgroup.derived import Dequeued, Enqueued
from podgroup.records import Requeued
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.eligible import active_again, ineligible, may_wait
from podgroup.rules.helpers.rule import BUILTIN, Rule
from podgroup.rules.helpers.shortages import record_shortage
from podgroup.view import Group


def enqueue(ctx: RuleContext, group: Group) -> Conclusions:
    """Let a group wait for quota, or not, as its state says."""
    if not may_wait(ctx.world, group):
        yield from record_shortage(ctx, group)
        yield Dequeued(group.id)
        return
    evicted = group.requeueing.evicted
    if evicted is not None and not group.requeueing.requeued and active_again(group):
        yield Requeued(group.id)
    why = ineligible(ctx.world, group)
    if why is not None:
        yield from ctx.pending(group, *why)
        yield from record_shortage(ctx, group)
        yield Dequeued(group.id)
        return
    yield Enqueued(group.id)


RULE = Rule(
    name="enqueue",
    run=enqueue,
    reads=SUCCEEDED,
    mode=BUILTIN,
)
