"""Why a group had to stop, and when it queues again (`state.Requeueing`)."""

from datetime import datetime, timedelta

from podgroup.model.policy import Policy
from podgroup.state.group import Eviction, Group


def queued(group: Group, at: datetime) -> None:
    """The group is complete, and queues since `at`."""
    group.requeueing.queued_at = at


def evicted(group: Group, eviction: Eviction) -> None:
    """The group must stop."""
    requeueing = group.requeueing
    requeueing.evicted = eviction
    by = eviction.preempted_by
    if by and by not in requeueing.preempted_for:
        requeueing.preempted_for = (*requeueing.preempted_for, by)


def timed_out(group: Group, at: datetime, policy: Policy) -> None:
    """The group was not ready in time; each time its back-off is twice as long."""
    requeueing = group.requeueing
    delay_s = policy.requeuing_backoff_s * 2 ** min(requeueing.timeouts, 30)
    requeueing.timeouts += 1
    requeueing.requeue_at = at + timedelta(seconds=min(delay_s, policy.requeuing_backoff_max_s))


def held_back(group: Group, until: datetime) -> None:
    """The group may be admitted again at `until`."""
    group.requeueing.requeue_at = until


def released(group: Group, *, requeue: bool) -> None:
    """The group's quota was taken back; with `requeue` it queues again at once."""
    requeueing = group.requeueing
    requeueing.requeued = requeue
    requeueing.queued_at = group.composition.complete_at
    eviction = requeueing.evicted
    if eviction is not None and (requeueing.requeue_at is not None or eviction.effect.rechecks):
        requeueing.queued_at = eviction.at  # behind groups that did nothing wrong


def requeued(group: Group, *, waited: bool) -> None:
    """The group queues again; `waited`: its back-off is over."""
    group.requeueing.requeued = True
    if waited:
        group.requeueing.requeue_at = None


def admitted(group: Group) -> None:
    """The group holds quota again."""
    group.requeueing.evicted = None
    group.requeueing.requeued = True


def forgiven(group: Group) -> None:
    """The eviction is over: Kueue says so, or the group is composed anew."""
    group.requeueing.evicted = None


def deactivated(group: Group) -> None:
    """The group timed out too often: after its next activation timeouts count from 0."""
    group.requeueing.timeouts = 0
