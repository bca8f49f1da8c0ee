"""Rule: the back-off after an eviction is over: the group may queue again (builtin mode).

Invariant: the time that counts is the log's own.
"""

from datetime import datetime

from podgroup.log.records import Requeued
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.readiness import admitted
from podgroup.rules.helpers.rule import BUILTIN, Rule
from podgroup.rules.helpers.timing import is_over, no_wake
from podgroup.state.group import Group

BACKOFF = "backoff"


def backoff(ctx: RuleContext, group: Group) -> Conclusions:
    """Let a group queue again."""
    return () if admitted(group) is not None else _backoff(ctx, group)


def _backoff(ctx: RuleContext, group: Group) -> Conclusions:
    due = group.requeueing.requeue_at
    if due is None or group.quota.holding is not None or group.requeueing.evicted is None:
        return no_wake(ctx, group, BACKOFF)
    return _requeue(ctx, group, due)


def _requeue(ctx: RuleContext, group: Group, due: datetime) -> Conclusions:
    if (yield from is_over(ctx, group, BACKOFF, due)):
        yield Requeued(group.id, waited=True)


RULE = Rule(
    name="backoff",
    run=backoff,
    mode=BUILTIN,
    once_admitted=True,
)
