"""Rules about time (builtin mode): groups that do not get ready, and those that run too long.

    timeout     admitted and not ready for too long: evicted as PodsReadyTimeout, with a back-off
                that doubles; after as many times as an operator allows it is deactivated
    backoff     the back-off is over: the group may queue again
    overrun     the maximum execution time is used up, all admissions together: deactivated

A deactivated group waits until a person sets spec.active of its Workload to true (B15). A group
that was ready once and is not any more has a time-out of its own, for recovery. In kueue mode the
core does all this. The first two are off unless `Policy.pods_ready_timeout_s` is set.

Invariant: times are compared with the log's own, so a replay expires the same groups.
"""

from datetime import datetime, timedelta

from podgroup.commands import EvictGroup, KubeEvent, UpdateWorkload
from podgroup.decide.context import Deciding, group_ref, workload_free, workload_ref
from podgroup.decide.mirroring import all_ready
from podgroup.decide.rule import BUILTIN, Line, Rule
from podgroup.decide.timing import no_wake, wake_at
from podgroup.names import (
    EVENT_MAX_EXEC_TIME,
    EVICTED_MAX_EXEC_TIME,
    EVICTED_PODS_READY_TIMEOUT,
    EVICTED_REQUEUING_LIMIT,
)
from podgroup.records import Readied, Requeued
from podgroup.view import Group, Holding

READY = "podsready"
OVERRUN = "maxexec"
BACKOFF = "backoff"


def expiring(d: Deciding, group: Group) -> None:
    """Run the rules of this module."""
    holding = group.quota.holding
    if (
        holding is None
        or not holding.admitted
        or group.requeueing.evicted is not None
        or group.ending.finish is not None
    ):
        _readied(d, group, ready=False, unready_at=None)
        no_wake(d, group, READY)
        no_wake(d, group, OVERRUN)
        _backoff(d, group)
        return
    _overrun(d, group, holding)
    if d.world.policy.pods_ready_timeout_s and group.requeueing.evicted is None:
        _timeout(d, group, holding)


def _timeout(d: Deciding, group: Group, holding: Holding) -> None:
    policy = d.world.policy
    if all_ready(d, group):
        _readied(d, group, ready=True, unready_at=None)
        no_wake(d, group, READY)
        return
    since = group.readiness.unready_at
    if since is None:
        since = d.here.at if group.readiness.ready else holding.admitted_at or holding.at
        _readied(d, group, ready=group.readiness.ready, unready_at=since)
    limit_s = policy.pods_ready_timeout_s
    if group.readiness.ready:
        limit_s = policy.pods_ready_recovery_timeout_s or limit_s
    due = since + timedelta(seconds=limit_s)
    if due > d.here.at:
        wake_at(d, group, READY, due)
    elif 0 <= policy.requeuing_limit <= group.requeueing.timeouts:
        why = "exceeding the maximum number of re-queuing retries"
        deactivate(d, group, "timeout", EVICTED_REQUEUING_LIMIT, why)
    else:
        message = f"Exceeded the PodsReady timeout {group.namespace}/{group.mirror.name}"
        evict(d, group, "timeout", EVICTED_PODS_READY_TIMEOUT, message)


def _readied(d: Deciding, group: Group, *, ready: bool, unready_at: datetime | None) -> None:
    if (group.readiness.ready, group.readiness.unready_at) != (ready, unready_at):
        d.record(Readied(group.id, ready, unready_at))


def _overrun(d: Deciding, group: Group, holding: Holding) -> None:
    workload = group.mirror.workload
    if workload is None or not workload.max_execution_s:
        no_wake(d, group, OVERRUN)
        return
    begin = holding.admitted_at or holding.at
    due = begin + timedelta(seconds=workload.max_execution_s - group.quota.executed_s)
    if due > d.here.at:
        wake_at(d, group, OVERRUN, due)
        return
    why = "exceeding the maximum execution time"
    deactivate(d, group, "overrun", EVICTED_MAX_EXEC_TIME, why, event=EVENT_MAX_EXEC_TIME)


def _backoff(d: Deciding, group: Group) -> None:
    due = group.requeueing.requeue_at
    if due is None or group.quota.holding is not None or group.requeueing.evicted is None:
        no_wake(d, group, BACKOFF)
    elif due > d.here.at:
        wake_at(d, group, BACKOFF, due)
    else:
        d.record(Requeued(group.id, waited=True))


def deactivate(
    d: Deciding, group: Group, rule: str, reason: str, why: str, event: str = ""
) -> None:
    """Set spec.active of the Workload to false and evict the group."""
    if not workload_free(group):
        return  # again when what is in flight has been seen
    message = f"The workload is deactivated due to {why}"
    events = (KubeEvent(type="Warning", reason=event, message=message),) if event else ()
    d.emit(
        group,
        rule,
        reason,
        message,
        UpdateWorkload(target=workload_ref(group), active=False, events=events),
    )
    evict(d, group, rule, reason, message)


def evict(
    d: Deciding, group: Group, rule: str, reason: str, message: str, requeue_after_s: int = 0
) -> None:
    """Evict the group; it stays out of the queue for `requeue_after_s` seconds at least."""
    d.emit(
        group,
        rule,
        reason,
        message,
        EvictGroup(
            target=group_ref(group),
            reason=reason,
            message=message,
            requeue_after_s=requeue_after_s,
        ),
    )


def beginning(d: Deciding, group: Group) -> None:
    """Let the time of a group that was admitted just now begin."""
    holding = group.quota.holding
    if holding is not None and holding.seq == d.here.position:
        expiring(d, group)


EXPIRE = Rule(
    run=expiring,
    mode=BUILTIN,
    says=(
        Line(
            "timeout",
            "an admitted group was not ready for longer than `queueing.pods_ready_timeout_s`",
            "evicts it, with a back-off; deactivates it after `queueing.requeuing_limit` times",
        ),
        Line("overrun", "the maximum execution time is used up", "deactivates it"),
    ),
)
BEGIN = Rule(run=beginning, mode=BUILTIN, says=())
