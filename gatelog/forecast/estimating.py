"""Many plays, and what they have in common.

Theory. The median of the plays is the estimate; nine in ten of them start within `latest_s`, and
one in ten before `earliest_s`. Quantiles are those by which the next draw of the same kind falls
below with that chance: the k-th smallest of n is the quantile k / (n + 1). A play in which a group
does not start counts as later than any other.

Invariant: the plays are as many as their processor time allows, and at least `FEWEST`.
"""

import math
import time
from random import Random

from msgspec import Struct

from gatelog.forecast.playing import Present, play, stuck
from podgroup.ids import GroupID
from podgroup.lifecycle import QUEUED, stage_of
from podgroup.state import Group, World

FEWEST = 10
"""Plays that are played whatever they cost: fewer do not show what happens nine times in ten."""
MOST = 60


class Estimate(Struct, frozen=True, kw_only=True):
    """When a group starts that waits: seconds from now.

    None is later than could be played. `never` says while what it does not start at all, "" if
    something that runs can make room. `position` counts from 1, 0 for what is in no line.
    """

    group: str
    position: int = 0
    expected_s: float | None = None
    earliest_s: float | None = None
    latest_s: float | None = None
    never: str = ""


class Forecast(Struct, frozen=True):
    """Estimates of all that waits, by ClusterQueue and place in line, and of how many plays."""

    estimates: list[Estimate]
    plays: int
    took_s: float


def forecast(present: Present, *, seed: int = 1, budget_s: float = 20.0) -> Forecast:
    """Play the present forward; `budget_s` is processor time after which no play is begun."""
    began = time.process_time()
    world = present.world
    never = stuck(present)
    positions = places(world)
    starts: dict[str, list[float]] = {identity: [] for identity in positions}
    plays = 0
    random = Random(seed)
    while plays < MOST and any(identity not in never for identity in starts):
        if plays >= FEWEST and time.process_time() - began > budget_s:
            break
        for identity, seconds in play(present, random).items():
            if identity in starts:
                starts[identity].append(seconds)
        plays += 1
    found = []
    for identity, place in positions.items():
        wait = world.groups[GroupID(identity)].explained.wait
        why = never.get(identity)
        if why == "" and wait is not None:
            why = wait.message
        found.append(_estimate(identity, place, starts[identity], plays, why))
    found += [
        Estimate(group=group.id, never=why)
        for group in world.groups.values()
        if group.id not in positions and (why := _not_in_line(group))
    ]
    return Forecast(found, plays, time.process_time() - began)


def places(world: World) -> dict[str, int]:
    """Return the position of each that asks for quota, in the order of queues; 0 if not in line."""
    book = world.lineup.scheduler.book
    found: dict[str, int] = {}
    for name in sorted(book.queues):
        position = 0
        for waiter in book.line(name):
            explained = world.groups[GroupID(waiter.id)].explained
            reason = explained.wait.reason if explained.wait is not None else ""
            queued = stage_of(explained.state, reason) == QUEUED
            position += queued
            found[waiter.id] = position if queued else 0
    return found | {one: 0 for one in sorted(world.quotas.waiting) if one not in found}


def quantile(starts: list[float], plays: int, part: float) -> float | None:
    """Return the quantile of starts in so many plays, None if it is in one without a start."""
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
    identity: str, position: int, starts: list[float], plays: int, why: str | None
) -> Estimate:
    if why is not None and not starts:
        return Estimate(group=identity, position=position, never=why or "it is not looked at")
    return Estimate(
        group=identity,
        position=position,
        expected_s=middle(starts, plays),
        earliest_s=quantile(starts, plays, 0.1),
        latest_s=quantile(starts, plays, 0.9),
    )


def _not_in_line(group: Group) -> str:
    """Say while what a group does not start that waits for something else than quota."""
    if (
        group.quota.holding is not None
        or group.ending.finish is not None
        or group.explained.wait is None
    ):
        return ""
    return group.explained.wait.message or group.explained.wait.reason
