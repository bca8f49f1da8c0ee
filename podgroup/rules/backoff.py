"""Rule: the back-off after an eviction is over: the group may queue again (builtin mode).

Invariant: times are compared with the log's own.
"""

from podgroup.log.records import Requeued
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.readiness import admitted
from podgroup.rules.helpers.rule import BUILTIN, Rule
from podgroup.rules.helpers.timing import no_wake, wake_at
from podgroup.state.group import Group

BACKOFF = "backoff"


def backoff(ctx: RuleContext, group: Group) -> Conclusions:
    """Let a group queue again."""
    return () if admitted(group) is not None else _backoff(ctx, group)


def _backoff(ctx: RuleContext, group: Group) -> Conclusions:
    due = group.requeueing.requeue_at
    if due is None or group.quota.holding is not None or group.requeueing.evicted is None:
        return no_wake(ctx, group, BACKOFF)
    elif due > ctx.here.at:
        return wake_at(ctx, group, BACKOFF, due)
    else:
        return (Requeued(group.id, waited=True),)


RULE = Rule(
    name="backoff",
    run=backoff,
    mode=BUILTIN,
    once_admitted=True,
)
