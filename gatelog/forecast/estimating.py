"""Estimates from many plays.

Theory. The median of the plays is the estimate; in nine of ten plays the group starts within
`latest_s`, and in one of ten before `earliest_s`. A quantile is the value below which the next draw
of the same kind falls with that chance: the k-th smallest of n is the quantile k / (n + 1). A play
in which a group does not start counts as later than any other; where that leaves no `latest_s`,
groups like it that have started give the value (`record`).

There is no estimate without data: before `ENDS` ends were seen. The first `FEWEST` plays share the
processor time, and a play stops in its middle when its part is used up, or a third of all while
little has started in it. A group that has not started by then counts as later: for a group that
starts in too few plays the estimate says up to when most plays do not start it, and how much was
played.

Invariant: a play ends at most one pass after its processor time is used up.
"""

import math
import time
from collections.abc import Sequence
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from gatelog.forecast.playing import Limit, Out, Present, play, stuck
from gatelog.readmodel.starts import ENDS, rough
from podgroup.model.ids import GroupID
from podgroup.model.lifecycle import QUEUED, stage_of
from podgroup.model.reasons import effect_of, reason_of
from podgroup.state.facts import grows
from podgroup.state.group import Group
from podgroup.state.world import World

LIKELY = 0.9
"""The chance to have started within the upper limit."""
FEWEST = 10
"""Plays that share the time: fewer do not show what happens nine times in ten."""
_LEAST = 3
"""Plays for which there is time in any case: a middle has two sides."""
MOST = 60


class Estimate(Struct, frozen=True, kw_only=True):
    """When a waiting group starts: seconds from now.

    None: later than could be played. `never` names the condition under which it does not start at
    all, "" if a running group can make room. `unknown` says why there is no estimate. `position`
    counts from 1, 0 for a group that is in no line.
    """

    group: str
    position: int = 0
    expected_s: float | None = None
    earliest_s: float | None = None
    latest_s: float | None = None
    never: str = ""
    unknown: str = ""


class Forecast(Struct, frozen=True):
    """Estimates of all that waits, by ClusterQueue and place in line, and of how many plays."""

    estimates: list[Estimate]
    plays: int
    took_s: float


def forecast(
    present: Present, *, seed: int = 1, budget_s: float = 20.0, ends: int = ENDS
) -> Forecast:
    """Play the present forward for `budget_s` of processor time; not at all before `ends` ends."""
    began = time.process_time()
    world, seen = present.world, present.runtimes.count
    never = stuck(present)
    positions = places(world)
    waiting = [identity for identity in positions if identity not in never]
    outs: list[Out] = []
    unknown = f"not known yet: {seen} of {ends} ends seen" if seen < ends else ""
    if waiting and not unknown:
        outs = _outs(present, Random(seed), began + budget_s)
    late = f"stopped after {budget_s:.2g} s of processor time with {_played(outs):,} of "
    late += f"{len(waiting):,} played"
    found = []
    for identity, place in positions.items():
        starts = [out.starts[identity] for out in outs if identity in out.starts]
        if identity in never and not starts:
            wait = world.groups[GroupID(identity)].explained.wait
            said, why = wait.message if wait is not None else "", never[identity]
            why = said if why in said else why  # the wait has plain words before the scheduler's
            one = Estimate(group=identity, position=place, never=why or "it is not looked at")
        else:
            one = _estimate(identity, place, starts, outs, unknown, late)
            one = limited(present, one, starts)
        found.append(one)
    found += [
        Estimate(group=group.id, never=why)
        for group in world.groups.values()
        if group.id not in positions and (why := _not_in_line(group))
    ]
    return Forecast(found, len(outs), time.process_time() - began)


def estimate(
    present: Present, identity: str, position: int, *, seed: int = 1, budget_s: float
) -> Estimate:
    """Return when one group starts: plays end with its start, so they take less than for all."""
    seen = present.runtimes.count
    if seen < ENDS:
        unknown = f"not known yet: {seen} of {ENDS} ends seen"
        return Estimate(group=identity, position=position, unknown=unknown)
    outs = _outs(present, Random(seed), time.process_time() + budget_s, identity)
    starts = [out.starts[identity] for out in outs if identity in out.starts]
    late = f"stopped after {budget_s:.2g} s of processor time"
    return limited(present, _estimate(identity, position, starts, outs, "", late), starts)


def limited(present: Present, one: Estimate, starts: Sequence[float]) -> Estimate:
    """Return an estimate with an upper limit by the track record where the plays have none.

    Where the record says less than the middle of the plays, it does not fit what is now: the last
    of the `starts` in plays counts.
    """
    if one.expected_s is None or one.latest_s is not None:
        return one
    limit = present.by_record(one.group, LIKELY)
    if limit is None:
        return one
    return replace(one, latest_s=limit if limit > one.expected_s else max(starts))


def _outs(present: Present, random: Random, end_s: float, only: str = "") -> list[Out]:
    """Play as often as time allows: the first plays get equal parts of the time left."""
    outs: list[Out] = []
    while len(outs) < MOST:
        now = time.process_time()
        left = end_s - now
        if left <= 0:
            break
        part, most = (left / max(1, plays - len(outs)) for plays in (FEWEST, _LEAST))
        outs.append(play(present, random, Limit(now + part, now + most), only))
    return outs


def _played(outs: Sequence[Out]) -> int:
    """Return how many have started in most plays."""
    return round(middle([float(len(out.starts)) for out in outs], len(outs)) or 0)


def places(world: World) -> dict[str, int]:
    """Return the position of each that asks for quota, in the order of queues; 0 if not in line.

    A group that runs and waits for more pods has no start to come, and no position.
    """
    cache = world.quotas.scheduler.cache
    found: dict[str, int] = {}
    for name in sorted(cache.objects.cluster_queues):
        position = 0
        for waiter in cache.queues.line(name):
            if GroupID(waiter.id) not in world.groups:
                continue
            explained = world.groups[GroupID(waiter.id)].explained
            reason = explained.wait.reason if explained.wait is not None else ""
            queued = stage_of(explained.state, reason) == QUEUED
            position += queued
            found[waiter.id] = position if queued else 0
    others = (one for one in sorted(world.quotas.waiting) if one not in found)
    return found | {one: 0 for one in others if not grows(world.groups[GroupID(one)])}


def quantile(starts: list[float], plays: int, part: float) -> float | None:
    """Return the quantile of starts in so many plays, None if it has no start."""
    place = math.ceil(part * (plays + 1)) - 1
    ordered = sorted(starts)
    return ordered[place] if 0 <= place < len(ordered) else None


def middle(starts: list[float], plays: int) -> float | None:
    """Return the median of starts in so many plays: of an even number the middle of two.

    None if the later of these is without a start. Of ten plays the sixth alone would be too late.
    """
    ordered, after = sorted(starts), plays // 2
    if after >= len(ordered):
        return None
    return (ordered[(plays - 1) // 2] + ordered[after]) / 2


def _estimate(
    identity: str,
    position: int,
    starts: list[float],
    outs: Sequence[Out],
    unknown: str,
    late: str,
) -> Estimate:
    plays = len(outs)
    expected = middle(starts, plays)
    if expected is None and not unknown:
        reached = middle([out.starts.get(identity, out.reached_s) for out in outs], plays)
        if reached is None or reached < math.inf:
            hardly = f", hardly within {rough(reached)}" if reached else ""
            before = [f"{position - 1:,} before it"] if position else []
            unknown = "; ".join([f"not known yet{hardly}", *before, late])
    if unknown:
        return Estimate(group=identity, position=position, unknown=unknown)
    return Estimate(
        group=identity,
        position=position,
        expected_s=expected,
        earliest_s=quantile(starts, plays, 0.1),
        latest_s=quantile(starts, plays, LIKELY),
    )


def _not_in_line(group: Group) -> str:
    """Say while what a group does not start that waits for something else than quota."""
    if (
        group.quota.holding is not None
        or group.ending.finish is not None
        or group.explained.wait is None
    ):
        return ""
    wait = group.explained.wait
    if effect_of(wait.reason).short:
        return reason_of(wait.reason).says  # the message is about what made it so
    return wait.message or wait.reason
