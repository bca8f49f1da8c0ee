"""Why a group had to stop, and when and where it queues again (`state.Requeueing`)."""

from datetime import datetime, timedelta

from podgroup.model.policy import Policy
from podgroup.state.group import Eviction, Group


def queued(group: Group, at: datetime) -> None:
    """It is complete, and queues since `at`."""
    group.requeueing.queued_at = at


def evicted(group: Group, eviction: Eviction) -> None:
    """It must stop."""
    requeueing = group.requeueing
    requeueing.evicted = eviction
    by = eviction.preempted_by
    if by and by not in requeueing.preempted_for:
        requeueing.preempted_for = (*requeueing.preempted_for, by)


def timed_out(group: Group, at: datetime, policy: Policy) -> None:
    """It was not ready in time; each next time it is held back for twice as long."""
    requeueing = group.requeueing
    delay_s = policy.requeuing_backoff_s * 2 ** min(requeueing.timeouts, 30)
    requeueing.timeouts += 1
    requeueing.requeue_at = at + timedelta(seconds=min(delay_s, policy.requeuing_backoff_max_s))


def held_back(group: Group, until: datetime) -> None:
    """It may be admitted again at `until`."""
    group.requeueing.requeue_at = until


def released(group: Group, *, requeue: bool) -> None:
    """Its quota was taken back; it queues again, unless something else has to happen first."""
    requeueing = group.requeueing
    requeueing.requeued = requeue
    requeueing.queued_at = group.composition.complete_at
    eviction = requeueing.evicted
    if eviction is not None and (requeueing.requeue_at is not None or eviction.effect.rechecks):
        requeueing.queued_at = eviction.at  # behind those that did nothing wrong


def requeued(group: Group, *, waited: bool) -> None:
    """It queues again; `waited`: the time for which it was held back is over."""
    group.requeueing.requeued = True
    if waited:
        group.requeueing.requeue_at = None


def admitted(group: Group) -> None:
    """It holds quota again."""
    group.requeueing.evicted = None
    group.requeueing.requeued = True


def forgiven(group: Group) -> None:
    """The eviction is over: Kueue says so, or the group is composed anew."""
    group.requeueing.evicted = None


def deactivated(group: Group) -> None:
    """It timed out too often: once it is activated again, that is counted from the beginning."""
    group.requeueing.timeouts = 0
