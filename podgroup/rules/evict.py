"""Rule: the group was evicted: its running pods are stopped; gated and ended pods stay.

Invariant: what is stopped gives its quota back when it has ended (`yield_`).
"""

from podgroup.model.names import REASON_EVICTED_PREFIX
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.stopping import stop_pod
from podgroup.state.group import Group
from podgroup.state.members import Flag


def evict(ctx: RuleContext, group: Group) -> Conclusions:
    """Stop what runs of an evicted group."""
    evicted = group.requeueing.evicted
    if evicted is None or group.ending.finish is not None or group.mirror.lost:
        return ()
    return _stop_all(ctx, group, REASON_EVICTED_PREFIX + evicted.reason, evicted.message)


def _stop_all(ctx: RuleContext, group: Group, reason: str, message: str) -> Conclusions:
    for uid in ctx.members(group).listed(Flag.STOPPABLE):
        yield stop_pod(ctx, ctx.pod(uid), "evict", reason, message)


RULE = Rule(
    name="evict",
    run=evict,
    docs=(RuleDoc("evict", "the group was evicted", "stops its running pods"),),
)
