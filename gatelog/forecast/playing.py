"""One play of what is to come: a draw of how long each group holds quota, and of who else comes.

Theory. Discrete events at the level of quota: a group gives it back, another comes, and then the
scheduler that decides live makes a pass. Its state is made anew from the world for each play, as
the projector makes it at a start. What happens within a hundredth of the time that has gone by is
taken together, since no estimate is that exact: the number of passes goes with the logarithm of the
time that is played, not with how many wait.

A group that is preempted comes again a moment after its quota is free if something would make it
again: pods with a controller, or a group. It runs from its beginning.

Invariant: the world is not changed.
"""

import heapq
import math
import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import count
from random import Random

from msgspec import Struct, field
from msgspec.structs import replace

from gatelog.forecast.spans import GUESS_S, Key, Runtimes
from podgroup.admission import Scheduler
from podgroup.admission.model import Workload
from podgroup.rules.helpers.scheduler_mirror import SchedulerMirror
from podgroup.state.world import World

GRAIN = 0.01
"""Part of the time gone by within which everything is taken together."""
STOP_S = 30.0
"""From being asked to stop to having stopped: the grace that pods have unless they ask for
other."""
HORIZON_S = 30 * 86_400.0
"""Seconds after which a play ends."""
MOST_COMING = 20_000
"""Others that come in one play, after which it ends."""


class Coming(Struct, frozen=True):
    """Something that came `at` seconds after the begin of what is let come again."""

    at: float
    workload: Workload
    key: Key


class Present(Struct):
    """What plays begin with. `now` is in seconds since 1970; `span_s` is how long `coming` took."""

    world: World
    now: float
    runtimes: Runtimes
    keys: dict[str, Key]
    """Of every group of the world."""
    coming: list[Coming] = field(default_factory=list)
    """By time."""
    span_s: float = 0.0
    returns: set[str] = field(default_factory=set)
    """Groups that are made again when they are stopped."""


class Out(Struct, frozen=True):
    """What came of a play: in how many seconds each group starts that waits and starts in it.

    `cut`: processor time was up before the end, and of the others nothing is known.
    """

    starts: dict[str, float]
    cut: bool = False


def play(present: Present, random: Random, until_s: float = math.inf) -> Out:
    """Play until all have started, or until processor time (`time.process_time`) is `until_s`."""
    return _Play(present, random).run(until_s)


def stuck(present: Present) -> dict[str, str]:
    """Return who does not start whatever ends, and what the scheduler says of each.

    All that hold quota give it back, none comes, and what gets in is gone at once.
    """
    scheduler = SchedulerMirror(present.world).scheduler
    cache = scheduler.cache
    for identity in list(cache.holdings):
        cache.released(identity, requeue=False)
    cache.reconsider()
    for _ in range(len(cache.waiters) + 1):
        verdicts = scheduler.decide(present.now)
        for victim in verdicts.preempted:
            cache.released(victim.id)
        gone = [one.id for one in verdicts.admitted if one.id in cache.holdings]
        for identity in gone:
            cache.released(identity, requeue=False)
        if not gone:
            break
    found = {}
    for identity, waiter in cache.waiters.items():
        answer = cache.answer(identity) or (waiter.reason, waiter.message)
        found[identity] = answer[1] or waiter.message
    return found


class _Play:
    def __init__(self, present: Present, random: Random) -> None:
        self._present = present
        self._random = random
        self._scheduler: Scheduler = SchedulerMirror(present.world).scheduler
        self._due: list[tuple[float, int, str, bool]] = []
        self._current: dict[str, int] = {}
        """Which of its ends counts, of each that holds quota."""
        self._keys: dict[str, Key] = {}
        self._serial = count()

    def run(self, until_s: float) -> Out:
        present, cache, due = self._present, self._scheduler.cache, self._due
        begin = now = present.now
        waiting = set(cache.waiters)
        starts: dict[str, float] = {}
        for identity, holding in cache.holdings.items():
            if holding.evicted is not None:
                self._ends(identity, begin + self._random.random() * STOP_S, stopped=True)
            else:
                held = max(0.0, begin - holding.at)
                self._ends(identity, begin - held + self._draw(identity, held))
        coming = self._coming()
        following = next(coming, None)
        while True:
            for admission in self._decide(now):
                if admission in waiting:
                    waiting.remove(admission)
                    starts[admission] = now - begin
            if not waiting or not (due or following):
                return Out(starts)
            if time.process_time() > until_s:
                return Out(starts, cut=True)
            moments = [one[0] for one in (due[0] if due else None, following) if one]
            now = min(moments)
            if now - begin > HORIZON_S:
                return Out(starts)
            until = now + GRAIN * (now - begin)
            while True:
                if due and due[0][0] <= until and (following is None or due[0][0] <= following[0]):
                    now, serial, identity, stopped = heapq.heappop(due)
                    if self._current.get(identity) == serial:
                        del self._current[identity]
                        again = stopped and self._returns(identity)
                        cache.released(identity, requeue=again)
                elif following is not None and following[0] <= until:
                    now, workload, key = following
                    self._keys[workload.id] = key
                    cache.submit(workload)
                    following = next(coming, None)
                else:
                    break

    def _decide(self, now: float) -> Iterator[str]:
        verdicts = self._scheduler.decide(now)
        for victim in verdicts.preempted:
            self._ends(victim.id, now + STOP_S, stopped=True)
        for admission in verdicts.admitted:
            if admission.id in self._scheduler.cache.holdings:
                evicted = self._scheduler.cache.holdings[admission.id].evicted
                if evicted is None:
                    self._ends(admission.id, now + self._draw(admission.id, 0.0))
                yield admission.id

    def _ends(self, identity: str, at: float, *, stopped: bool = False) -> None:
        serial = self._current[identity] = next(self._serial)
        heapq.heappush(self._due, (at, serial, identity, stopped))

    def _draw(self, identity: str, beyond_s: float) -> float:
        name = identity.removesuffix("/running")
        key = self._keys.get(name) or self._present.keys.get(name)
        if key is None:
            return max(GUESS_S, beyond_s)
        return self._present.runtimes.of(key).draw(self._random, beyond_s)

    def _returns(self, identity: str) -> bool:
        return identity in self._keys or identity in self._present.returns

    def _coming(self) -> Iterator[tuple[float, Workload, Key]]:
        """Let what came come again, from a moment of it that is drawn, round and round."""
        found, span = self._present.coming, self._present.span_s
        if not found or span <= 0:
            return
        offset = self._random.random() * span
        place = bisect_left(found, offset, key=lambda one: one.at)
        begin = self._present.now - offset
        for number in range(MOST_COMING):
            if place == len(found):
                place, begin = 0, begin + span
            one = found[place]
            place += 1
            at, name = begin + one.at, f"+{number}"
            yield at, replace(one.workload, id=name, uid=name, created=at), one.key
