"""One play of the future: a draw of how long each group holds quota, and of arrivals.

Theory. Discrete events at the level of quota: a group gives quota back, another group comes, and
then the live scheduler's code makes a pass (`QuotaPlay`). For a forecast the scheduler's state is
made from the world, as the projector makes it at a start, and copied for each play; it gives no
reasons, and events within a hundredth of the elapsed time are taken together, since no estimate is
that exact: the number of passes grows with the logarithm of the played time, not with the number of
waiting groups.

A preempted group comes again a moment after its quota is free if its pods would be made again: pods
with a controller, or of a group. It runs from its beginning.

Invariant: the world is not changed.
"""

import math
import pickle
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from random import Random

from msgspec import Struct, field
from msgspec.structs import replace

from gatelog.agenda import Agenda
from gatelog.forecast.record import Asked, Waits
from gatelog.forecast.spans import GUESS_S, Key, Runtimes
from podgroup.admission import Scheduler
from podgroup.admission.cache.pending_queue import ShapeHeap
from podgroup.admission.model import Workload
from podgroup.admission.verdicts import Verdicts
from podgroup.fold.account import known
from podgroup.model.ids import GroupID
from podgroup.state.world import World

GRAIN = 0.01
"""Part of the time gone by within which everything is taken together."""
STOP_S = 30.0
"""From being asked to stop to having stopped: the grace that pods have unless they ask for
other."""
HORIZON_S = 30 * 86_400.0
"""Seconds after which a play ends."""
QUIET_PART = 0.7
"""Part of the plays of a short log in which quiet follows its arrivals: the middle is among these
plays, the late end among the others.
"""
FEW = 10
"""Starts that a play must see before it is cut."""
MOST_COMING = 20_000
"""Arrivals in a play at most, after which it ends."""


class Coming(Struct, frozen=True):
    """An arrival `at` seconds after the begin of the repeated stretch."""

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
    quiet_s: float = 0.0
    """Time without others that most plays (`QUIET_PART`) put before it."""
    returns: set[str] = field(default_factory=set)
    """Groups that are made again when they are stopped."""
    begin: bytes = b""
    """The scheduler that plays begin with."""
    waits: Waits = field(default_factory=Waits)
    """How long groups waited until now."""

    def by_record(self, identity: str, part: float) -> float | None:
        """Return within how many seconds `part` of those started that were like a group that waits.

        None: that is not known.
        """
        group = self.world.groups[GroupID(identity)]
        since, key = group.requeueing.queued_at, self.keys.get(identity)
        if since is None or key is None:
            return None
        asked = Asked.of(key, group.composition.priority)
        return self.waits.within(asked, part, max(0.0, self.now - since.timestamp()))

    def scheduler(self) -> Scheduler:
        """Return a new scheduler with the state of the world.

        With 1,011 waiting groups a copy takes 5 to 9 ms, a scheduler made from the world 23 to 43.
        """
        if not self.begin:
            self.begin = pickle.dumps(known(self.world).scheduler)
        copy: Scheduler = pickle.loads(self.begin)
        return copy


class Out(Struct, frozen=True):
    """The result of a play: the seconds until each waiting group starts that starts in it.

    `reached_s`: the played time when processor time was up; all other groups start later. Infinite
    if the play came to its end.
    """

    starts: dict[str, float]
    reached_s: float = math.inf


class Limit(Struct, frozen=True):
    """When a play ends early, by processor time (`time.process_time`).

    At `until_s` if it has seen `FEW` starts by then, else at `last_s`: less says nothing.
    """

    until_s: float = math.inf
    last_s: float = math.inf

    def over(self, starts: int) -> bool:
        """Return whether a play that has seen so many starts ends now."""
        return time.process_time() > (self.until_s if starts >= FEW else self.last_s)


ENDLESS = Limit()


def play(present: Present, random: Random, limit: Limit = ENDLESS, only: str = "") -> Out:
    """Play until all groups have started, or only group `only`, or until a limit."""
    return _Drawn(present, random).play(limit, only)


def stuck(present: Present) -> dict[str, str]:
    """Return groups that never start, whatever ends, with the scheduler's message for each.

    All holders give their quota back, no group arrives, and an admitted group ends at once. Of
    equal groups in line only one is tried first: mostly all start, which for 1,011 groups is known
    in 0.015 s where a try of all took 0.2.
    """
    return _stuck(present, one_of_each=True) and _stuck(present, one_of_each=False)


def _stuck(present: Present, *, one_of_each: bool) -> dict[str, str]:
    scheduler = present.scheduler()
    cache = scheduler.cache
    seen = set()
    for waiter in list(cache.queues.waiting.values()) if one_of_each else ():
        if not isinstance(waiter.place, ShapeHeap):
            continue
        kind = waiter.local_queue, waiter.shape, waiter.invalid
        if kind in seen:
            cache.queues.remove(waiter.id)
        seen.add(kind)
    for identity in list(cache.reservations.admitted):
        cache.release(identity, requeue=False)
    cache.wake_ups.release_all()
    for _ in range(len(cache.queues.waiting) + 1):
        verdicts = scheduler.decide(present.now)
        for victim in verdicts.preempted:
            cache.release(victim.id)
        gone = [one.id for one in verdicts.admitted if one.id in cache.reservations.admitted]
        for identity in gone:
            cache.release(identity, requeue=False)
        if not gone:
            break
    found = {}
    for identity, waiter in cache.queues.waiting.items():
        answer = cache.queues.answer(identity) or (waiter.reason, waiter.message)
        found[identity] = answer[1] or waiter.message
    return found


class Course(Struct, frozen=True):
    """The inputs that differ from play to play; times in seconds.

    `runs` returns how long a workload holds quota, from how long it has held it; `returns` whether
    it comes again after a stop, which takes `stop_s`; `coming` are arrivals, by time. Events from a
    moment up to `until` of it are taken together.
    """

    runs: Callable[[str, float], float]
    returns: Callable[[str], bool]
    coming: Iterator[tuple[float, Workload]]
    stop_s: float
    until: Callable[[float], float]


class _End(Struct, frozen=True, eq=False):
    identity: str
    stopped: bool


_ENDS, _COMES, _LOOKS = range(3)


class QuotaPlay:
    """Workloads that come, hold quota and give it back, on a scheduler that decides in between."""

    def __init__(self, scheduler: Scheduler, course: Course) -> None:
        self._scheduler = scheduler
        self._course = course
        self._agenda: Agenda[float, _End | Workload | None] = Agenda()
        self._current: dict[str, _End] = {}
        """Which of its ends counts, of each that holds quota."""

    @property
    def over(self) -> bool:
        """Nothing ends or comes any more."""
        return self._agenda.next_at is None

    def ends(self, identity: str, at: float, *, stopped: bool = False) -> None:
        """Let a workload give its quota back at a time, instead of any time set before."""
        self._current[identity] = _End(identity, stopped)
        self._agenda.add(at, self._current[identity], _ENDS)

    def passes(self, now: float) -> Iterator[tuple[float, Verdicts]]:
        """Yield each pass of the scheduler and its time, the first at once, until it is over."""
        self._follow()
        while True:
            yield now, self._decide(now)
            if (next_at := self._agenda.next_at) is None:
                return
            for at, what in self._agenda.take(self._course.until(next_at)):
                now = at
                self._happen(what)

    def _decide(self, now: float) -> Verdicts:
        verdicts = self._scheduler.decide(now)
        for victim in verdicts.preempted:
            self.ends(victim.id, now + self._course.stop_s, stopped=True)
        for admission in verdicts.admitted:
            holding = self._scheduler.cache.reservations.admitted.get(admission.id)
            if holding is not None and holding.evicted is None:
                holding.began = now
                self.ends(admission.id, now + self._course.runs(admission.id, 0.0))
        for claim in self._scheduler.cache.claims.by_id.values():
            if claim.until > now:
                self._agenda.add(claim.until, None, _LOOKS)
        return verdicts

    def _happen(self, what: _End | Workload | None) -> None:
        """Let something happen; None: others have run for long enough to give way."""
        cache = self._scheduler.cache
        if what is None:
            return
        if isinstance(what, Workload):
            cache.submit(what)
            self._follow()
        elif self._current.get(what.identity) is what:
            del self._current[what.identity]
            again = what.stopped and self._course.returns(what.identity)
            cache.release(what.identity, requeue=again)

    def _follow(self) -> None:
        """Enter the next arrival."""
        if (following := next(self._course.coming, None)) is not None:
            self._agenda.add(*following, _COMES)


class _Drawn:
    """The draws for one play: how long each group holds quota, and arrivals."""

    def __init__(self, present: Present, random: Random) -> None:
        self._present = present
        self._random = random
        self._keys: dict[str, Key] = {}

    def play(self, limit: Limit, only: str) -> Out:
        present = self._present
        scheduler = present.scheduler()
        scheduler.give_no_reasons()
        begin = present.now
        waiting = {only} if only else set(scheduler.cache.queues.waiting)

        def together(at: float) -> float:
            return at + GRAIN * (at - begin)

        course = Course(self._runs, self._returns, self._coming(), STOP_S, together)
        play = QuotaPlay(scheduler, course)
        for identity, holding in scheduler.cache.reservations.admitted.items():
            if holding.evicted is not None:
                play.ends(identity, begin + self._random.random() * STOP_S, stopped=True)
            else:
                held = max(0.0, begin - holding.at)
                play.ends(identity, begin - held + self._runs(identity, held))
        starts: dict[str, float] = {}
        for now, verdicts in play.passes(begin):
            if now - begin > HORIZON_S:
                break
            for admission in verdicts.admitted:
                if (
                    admission.id in waiting
                    and admission.id in scheduler.cache.reservations.admitted
                ):
                    waiting.remove(admission.id)
                    starts[admission.id] = now - begin
            if not waiting:
                break
            if not play.over and limit.over(len(starts)):
                return Out(starts, now - begin)
        return Out(starts)

    def _runs(self, identity: str, held_s: float) -> float:
        name = identity.removesuffix("/running")
        key = self._keys.get(name) or self._present.keys.get(name)
        if key is None:
            return max(GUESS_S, held_s)
        return self._present.runtimes.of(key).draw(self._random, held_s)

    def _returns(self, identity: str) -> bool:
        return identity in self._keys or identity in self._present.returns

    def _coming(self) -> Iterator[tuple[float, Workload]]:
        """Repeat past arrivals, from a random moment, round and round."""
        found, span = self._present.coming, self._present.span_s
        quiet = self._present.quiet_s * (self._random.random() < QUIET_PART)
        if not found or span + quiet <= 0:
            return
        span += quiet
        offset = self._random.random() * span - quiet
        place = bisect_left(found, offset, key=lambda one: one.at)
        begin = self._present.now - offset
        for number in range(MOST_COMING):
            if place == len(found):
                place, begin = 0, begin + span
            one = found[place]
            place += 1
            at, name = begin + one.at, f"+{number}"
            self._keys[name] = one.key
            yield at, replace(one.workload, id=name, uid=name, created=at)
