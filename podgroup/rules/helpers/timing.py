"""Timers of the rules, and whether a group still uses its quota.

A rule that waits for a time asks `fallen_due`, and compares no times itself
(tests/core/test_rule_times.py). A time is over when its timer in the log has fired, and not before,
however often the group is looked at. So rules conclude the same whether they run after each change
of a group or only when they are due, and a projector that restarts, or lags behind, decides like a
projector that ran all the time. A timer alone decides nothing, so an old timer does no harm.

A group that must stop holds its quota until none of its pods may run: each has ended, is gone, or
was never bound and is being deleted. A pod whose kubelet is silent for long enough counts as gone
(`state.termination`). An operator may choose not to wait for the grace period
(`Policy.fast_quota_release`): then a deletion is enough.

Invariant: a group has at most one timer of each purpose.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final, TypeVar

from podgroup.log.records import Timed
from podgroup.rules.helpers.context import Concluding, Conclusions, RuleContext
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.meta import Timer
from podgroup.state.pod import Pod
from podgroup.state.termination import GRACE, lost_at

LOOK_AGAIN: Final = timedelta(seconds=60)
"""First pause until a group whose pods must end is looked at again. Later pauses are as long as the
pods have taken so far: a few looks at each group, however long its grace period is."""
_T = TypeVar("_T")


def wake_at(ctx: RuleContext, group: Group, purpose: str, at: datetime) -> Conclusions:
    """Have the rules look at a group again at `at`, in place of an earlier timer of the purpose."""
    known = timer_of(ctx, group, purpose)
    if known is None or known.due_at != at:
        return (Timed(group.id, purpose, at),)
    return ()


def look_by(ctx: RuleContext, group: Group, purpose: str, at: datetime) -> Conclusions:
    """Have the rules look again at `at`, or sooner, as pods and nodes may change that time.

    The pause doubles: it is how long the pod has been terminating that was asked to stop last.
    """
    members = ctx.members(group)
    states = (ctx.pod(uid).terminating for uid in members.with_flags(Flag.LIVE | Flag.DELETING))
    since = max((one.since for one in states if one is not None), default=ctx.here.at)
    pause = max(LOOK_AGAIN, ctx.here.at - since)
    return wake_at(ctx, group, purpose, min(at, ctx.here.at + pause))


Wake = Callable[[RuleContext, Group, str, datetime], Conclusions]
"""`wake_at` or `look_by`."""


def fallen_due(
    ctx: RuleContext,
    group: Group,
    purpose: str,
    moments: Iterable[tuple[_T, datetime]],
    wake: Wake = wake_at,
) -> Concluding[list[_T]]:
    """Return the items whose time is over, in their order; sets the timer for the next time.

    A time with a timer is over once the timer has fired, and not before.
    """
    known = timer_of(ctx, group, purpose)
    over: list[_T] = []
    coming: list[datetime] = []
    for what, due in moments:
        if due > ctx.here.at or (known is not None and known.due_at <= due):
            coming.append(due)
        else:
            over.append(what)
    yield from wake(ctx, group, purpose, min(coming)) if coming else no_wake(ctx, group, purpose)
    return over


def is_over(ctx: RuleContext, group: Group, purpose: str, due: datetime) -> Concluding[bool]:
    """Tell whether a time is over, as `fallen_due` does for several."""
    return bool((yield from fallen_due(ctx, group, purpose, ((True, due),))))


def no_wake(ctx: RuleContext, group: Group, purpose: str) -> Conclusions:
    """Take a timer back."""
    return (Timed(group.id, purpose),) if timer_of(ctx, group, purpose) is not None else ()


def timer_of(ctx: RuleContext, group: Group, purpose: str) -> Timer | None:
    """Return a group's timer of a purpose, if it has one."""
    timers = ctx.world.meta.timers
    return timers.get(f"{purpose}/{group.id}/") if timers else None


def given_up_at(ctx: RuleContext, pod: Pod) -> datetime | None:
    """Return when a pod that is being deleted counts as lost; None: not while its node answers."""
    return lost_at(ctx.world, pod, ctx.here.at)


def may_run(ctx: RuleContext, pod: Pod) -> bool:
    """Tell whether a pod may run; a pod that counts as lost may not.

    The time is compared at every look, since each event of a pod that is being deleted counts as a
    change of its group.
    """
    if not ctx.members(ctx.world.groups[pod.group]).flags[pod.view.uid] & Flag.LIVE:
        return False
    at = given_up_at(ctx, pod)
    return at is None or at > ctx.here.at


def still_running(ctx: RuleContext, group: Group) -> Concluding[bool]:
    """Tell whether a pod of the group may run; sets the timer for when the last counts as lost."""
    members = ctx.members(group)
    if not members.count(Flag.LIVE):
        yield from no_wake(ctx, group, GRACE)
        return False
    if members.count(Flag.STOPPABLE) or not members.count(Flag.DELETING):
        return True  # a pod was not asked to stop yet
    if ctx.world.policy.fast_quota_release:
        yield from no_wake(ctx, group, GRACE)
        return False
    wish = timer_of(ctx, group, GRACE)
    if wish is not None and wish.due_at > ctx.here.at:
        return True  # looked at lately: constant work per event
    ends: list[datetime] = []
    for uid in members.with_flags(Flag.LIVE):
        end = given_up_at(ctx, ctx.pod(uid))
        if end is None:
            return True
        ends.append(end)
    last = max(ends)
    if last <= ctx.here.at:
        yield from no_wake(ctx, group, GRACE)
        return False
    yield from look_by(ctx, group, GRACE, last)
    return True
