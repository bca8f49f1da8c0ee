"""Rule: admitted and not ready for too long: evicted as PodsReadyTimeout (builtin mode).

The back-off doubles each time; after as many times as an operator allows the group is deactivated.
A group that was ready once and is no longer has a time-out of its own, for recovery.
Off unless `Policy.pods_ready_timeout_s` is set; in kueue mode Kueue's core does this.

Invariant: the time that counts is the log's own, so a replay evicts the same groups.
"""

from datetime import datetime, timedelta

from podgroup.log.records import Readied
from podgroup.model.names import EVICTED_PODS_READY_TIMEOUT, EVICTED_REQUEUING_LIMIT
from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.evicting import deactivate, evict_group
from podgroup.rules.helpers.readiness import admitted, all_ready
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.helpers.timing import is_over, no_wake
from podgroup.state.group import Group, QuotaReservation

PODS_READY = "podsready"


def timeout(ctx: RuleContext, group: Group) -> Conclusions:
    """Evict a group that does not get ready."""
    holding = admitted(group)
    if holding is None:
        return (*_readied(group, ready=False, unready_at=None), *no_wake(ctx, group, PODS_READY))
    return _timeout(ctx, group, holding) if ctx.world.policy.pods_ready_timeout_s else ()


def _timeout(ctx: RuleContext, group: Group, holding: QuotaReservation) -> Conclusions:
    policy = ctx.world.policy
    if all_ready(ctx, group):
        yield from _readied(group, ready=True, unready_at=None)
        yield from no_wake(ctx, group, PODS_READY)
        return
    since = group.readiness.unready_at
    if since is None:
        since = ctx.here.at if group.readiness.ready else holding.admitted_at or holding.at
        yield from _readied(group, ready=group.readiness.ready, unready_at=since)
    limit_s = policy.pods_ready_timeout_s
    if group.readiness.ready:
        limit_s = policy.pods_ready_recovery_timeout_s or limit_s
    due = since + timedelta(seconds=limit_s)
    if not (yield from is_over(ctx, group, PODS_READY, due)):
        return
    if 0 <= policy.requeuing_limit <= group.requeueing.timeouts:
        why = "exceeding the maximum number of re-queuing retries"
        yield from deactivate(ctx, group, "timeout", EVICTED_REQUEUING_LIMIT, why)
    else:
        message = f"Exceeded the PodsReady timeout {group.namespace}/{group.mirror.name}"
        yield evict_group(ctx, group, "timeout", EVICTED_PODS_READY_TIMEOUT, message)


def _readied(group: Group, *, ready: bool, unready_at: datetime | None) -> Conclusions:
    if (group.readiness.ready, group.readiness.unready_at) != (ready, unready_at):
        return (Readied(group.id, ready, unready_at),)
    return ()


RULE = Rule(
    name="timeout",
    run=timeout,
    mode=BUILTIN,
    once_admitted=True,
    docs=(
        RuleDoc(
            "timeout",
            "an admitted group was not ready for `queueing.pods_ready_timeout_s`",
            "evicts it with a back-off, at last deactivates it (`queueing.requeuing_limit`)",
        ),
    ),
)
