"""Timers of the rules, and whether a group still uses what it was given.

A rule that waits for a moment asks for a timer of its group; when it fires the rules look at the
group again and compare times. A timer says nothing by itself, so an old one does no harm.

A group that must stop holds its quota until none of its pods may run: each has ended, is gone, or
was never bound and is being deleted. A pod whose kubelet does not answer for long enough is taken
for gone (`state.termination`). An operator may choose not to wait for the grace period at all
(`Policy.fast_quota_release`): being deleted is enough then.

Invariant: a group has at most one timer of each purpose.
"""

from datetime import datetime, timedelta
from typing import Final

from podgroup.log.records import Timed
from podgroup.rules.helpers.context import Concluding, Conclusions, RuleContext
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.meta import Timer
from podgroup.state.pod import Pod
from podgroup.state.termination import GRACE, lost_at

LOOK_AGAIN: Final = timedelta(seconds=60)
"""How long a group is not looked at whose pods must end: the one with the longest may end first."""


def wake_at(ctx: RuleContext, group: Group, purpose: str, at: datetime) -> Conclusions:
    """Have the rules look at a group again at `at`, in place of an earlier wish of that purpose."""
    known = timer_of(ctx, group, purpose)
    if known is None or known.due_at != at:
        return (Timed(group.id, purpose, at),)
    return ()


def look_by(ctx: RuleContext, group: Group, purpose: str, at: datetime) -> Conclusions:
    """Have the rules look again at `at`, or sooner: other pods of the group may change that."""
    return wake_at(ctx, group, purpose, min(at, ctx.here.at + LOOK_AGAIN))


def no_wake(ctx: RuleContext, group: Group, purpose: str) -> Conclusions:
    """Take a wish back."""
    return (Timed(group.id, purpose),) if timer_of(ctx, group, purpose) is not None else ()


def timer_of(ctx: RuleContext, group: Group, purpose: str) -> Timer | None:
    """Return a group's timer of that purpose; None if there is none."""
    timers = ctx.world.meta.timers
    return timers.get(f"{purpose}/{group.id}/") if timers else None


def may_run(ctx: RuleContext, pod: Pod) -> bool:
    """Tell whether a pod may run, as far as a kubelet answers for it."""
    if not ctx.members(ctx.world.groups[pod.group]).flags[pod.view.uid] & Flag.LIVE:
        return False
    at = lost_at(ctx.world, pod, ctx.here.at)
    return at is None or at > ctx.here.at


def still_running(ctx: RuleContext, group: Group) -> Concluding[bool]:
    """Tell whether a pod of the group runs; asks for a look when the last one will be given up."""
    members = ctx.members(group)
    if not members.count(Flag.LIVE):
        yield from no_wake(ctx, group, GRACE)
        return False
    if members.count(Flag.STOPPABLE) or not members.count(Flag.DELETING):
        return True  # a pod has not even been asked to stop
    if ctx.world.policy.fast_quota_release:
        yield from no_wake(ctx, group, GRACE)
        return False
    wish = timer_of(ctx, group, GRACE)
    if wish is not None and wish.due_at > ctx.here.at:
        return True  # looked at lately: constant work per event
    ends: list[datetime] = []
    for uid in members.with_flags(Flag.LIVE):
        end = lost_at(ctx.world, ctx.pod(uid), ctx.here.at)
        if end is None:
            return True
        ends.append(end)
    last = max(ends)
    if last <= ctx.here.at:
        yield from no_wake(ctx, group, GRACE)
        return False
    yield from look_by(ctx, group, GRACE, last)
    return True
