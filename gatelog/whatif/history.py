"""Arrivals of the log: pods, how long each ran, and which pod replaced which.

Theory. The log is folded as in a replay, and no rule runs. For each pod its first state is kept and
when it was ungated, ran, was deleted and ended; all times are the log's, at which decisions are
made. A pod that ended by itself runs as long as it ran. A pod that gatelog stopped, or that still
runs, was cut short: it runs as long as its replacement if that ended by itself, else as long as a
pod of its group and role, or of its shape (queue and requests), that ran longer than it did. A pod
that was never ungated has no runtime: it gets that of such a pod. Pods that users deleted are
deleted again, a pod that was not ready is not ready, and gatelog's decisions are carried out with
their recorded delay, or not at all: a pod that was evicted before its gate was off is not stopped.
A step without a record takes as long as for a pod that is drawn by the pod's name. Writes to
Workloads are in `workloads`.

A pod that came to a group after another of its role was stopped or failed is its replacement: it
returns the recorded delay after its predecessor fails, else never. A single pod replaces a pod of
its controller, or of its name. Where a pod is stopped in the play alone, the other replacements of
its group decide whether a replacement comes, else all recorded replacements: the same share of
groups, and of single pods, is replaced as in the log.

Invariant: the same log gives the same arrivals.
"""

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta
from statistics import median
from zlib import crc32

from msgspec import Struct, field
from msgspec.structs import replace

from gatelog.whatif.arrivals import AT_ONCE, Arrival, Delays, Later, Life
from gatelog.whatif.objects import Key, key_of
from gatelog.whatif.workloads import RecordedDelays, Workloads
from podgroup.log.events import (
    NodesTaken,
    ObjectApplied,
    ObjectDeleted,
    PodApplied,
    RelistStarted,
)
from podgroup.model.commands import DeletePod, FinalizePod, StopPod, UngatePod
from podgroup.model.ids import PodUID
from podgroup.model.names import ADMISSION_GATE, QUEUE_NAME, TERMINATION_TARGET
from podgroup.model.objects import (
    ClusterQueueView,
    LocalQueueView,
    NodeView,
    PodView,
    QueueObject,
)
from podgroup.state.pod import Pod
from podgroup.state.world import World
from projector.replay.log import Entry

BACK_S = 1.0
"""Seconds after which a victim comes again, where the log has no such victim."""
GUESS_S = 60.0
"""Seconds that a pod runs if no pod of its shape has ended."""

Shape = tuple[str, str, tuple[tuple[str, int], ...]]


class Seen(Struct, gc=False):
    """The record of a pod in the log, at times of the log."""

    born: PodView
    at: datetime
    group: str
    role: str
    gated: bool
    decided_at: datetime | None = None
    """When it was decided to let it in, and so when a play would."""
    asked_at: datetime | None = None
    """When it was decided to stop it."""
    let_in_at: datetime | None = None
    ran_at: datetime | None = None
    deleted_at: datetime | None = None
    ended_at: datetime | None = None
    phase: str = ""
    stopped: bool = False
    """Asked to stop by gatelog."""
    excess: bool = False
    """Deleted by gatelog as excess."""
    freed: bool = False
    """Its finalizer was taken off by gatelog."""
    forced: bool = False
    """Another client took the finalizer off, and so the pod went."""
    ready: bool = False
    turned: tuple[datetime, ...] = ()
    """When it became ready while it ran, ceased to be so, and so on."""


class Spread(Struct, frozen=True):
    """Durations, shortest first, from which unknown durations are drawn.

    The median would do for a pod, but not for a group, which waits for its last pod, or for quota,
    which is held longer on average than in the median.
    """

    spans: "array[float]" = field(default_factory=lambda: array("d"))

    def drawn(self, what: str, beyond_s: float = -1.0) -> float | None:
        """Return a duration longer than `beyond_s`, drawn by the name `what`.

        The same name draws the same; None without a longer duration.
        """
        first = bisect_right(self.spans, beyond_s)
        rest = len(self.spans) - first
        return self.spans[first + (crc32(what.encode()) * rest >> 32)] if rest else None


class Returns(Struct):
    """How many groups, or single pods, were stopped, and of how many all pods came again."""

    stopped: int = 0
    returned: int = 0

    def again(self, what: str) -> bool:
        """Return whether a stopped pod comes again: the same share as in the log, by name."""
        return not self.stopped or crc32(what.encode()) * self.stopped < self.returned << 32


class Gathered(Struct):
    """The facts about arrivals in a log; `observe` is given each entry of it, in order."""

    pods: dict[str, Seen] = field(default_factory=dict)
    objects: list[Later] = field(default_factory=list)
    begin: datetime | None = None
    end: datetime | None = None
    workloads: Workloads = field(default_factory=Workloads)
    lists: int = 0
    """How often all pods were listed: before later lists events may be missing."""
    _there: dict[Key, QueueObject] = field(default_factory=dict)

    def observe(self, entry: Entry, world: World) -> None:
        """Take in an entry, with the world after it, before its journal is taken."""
        at = entry.at
        if self.begin is None:
            self.begin = at
        self.end = at
        for event in entry.batch.events:
            if isinstance(event, RelistStarted):
                self.lists += event.kind == "Pod"
            elif isinstance(event, PodApplied):
                # In the order of the log, which decides the uid in a group's name.
                pod = world.pods.get(PodUID(event.pod.uid))
                if pod is not None:
                    self._pod(at, pod)
            elif isinstance(event, ObjectApplied | ObjectDeleted):
                self._object(at, event)
            elif isinstance(event, NodesTaken):
                for name, taken in event.taken.items():
                    node = self._there.get(("Node", "", name))
                    if isinstance(node, NodeView):
                        self._changed(at, replace(node, taken=taken))
        for decision in entry.recorded.values():
            command = decision.command
            if not isinstance(command, UngatePod | StopPod | DeletePod | FinalizePod):
                continue
            seen = self.pods.get(command.target.uid)
            if seen is None:
                continue
            if isinstance(command, UngatePod):
                seen.decided_at = seen.decided_at or at
            elif isinstance(command, StopPod):
                seen.asked_at = seen.asked_at or at
                seen.freed = seen.freed or command.finalize
            else:
                seen.freed = True
                seen.excess = seen.excess or isinstance(command, DeletePod)
        self.workloads.observe(entry, world)
        for uid, pod in world.gone_pods.items():
            self._pod(at, pod)
            seen = self.pods[uid]
            seen.ended_at = seen.ended_at or at
            seen.deleted_at = seen.deleted_at or at
            seen.forced = not seen.freed

    def _object(self, at: datetime, event: ObjectApplied | ObjectDeleted) -> None:
        if isinstance(event, ObjectDeleted):
            gone = (event.kind, event.namespace, event.name)
            if self._there.pop(gone, None) is not None:
                self.objects.append(Later(at, gone, None))
            return
        view = event.object
        plain = replace(view, resource_version="")
        if isinstance(view, ClusterQueueView | LocalQueueView):
            plain = replace(plain, active=())
        known = self._there.get(key_of(view))
        if isinstance(plain, NodeView) and isinstance(known, NodeView):
            plain = replace(plain, taken=known.taken)
        self._changed(at, plain)

    def _changed(self, at: datetime, plain: QueueObject) -> None:
        key = key_of(plain)
        if self._there.get(key) != plain:
            self._there[key] = plain
            self.objects.append(Later(at, key, plain))

    def _pod(self, at: datetime, pod: Pod) -> None:
        view = pod.view
        seen = self.pods.get(view.uid)
        if seen is None:
            seen = self.pods[view.uid] = Seen(view, at, pod.group, pod.role, pod.first_gated)
        if seen.let_in_at is None and not pod.gated:
            seen.let_in_at = at
        if seen.ran_at is None and view.phase == "Running":
            seen.ran_at = at
        if seen.ran_at is not None and view.phase == "Running" and seen.deleted_at is None:
            ready = any(c.type == "Ready" and c.status == "True" for c in view.conditions)
            if ready != seen.ready:
                seen.ready, seen.turned = ready, (*seen.turned, at)
        if seen.deleted_at is None and view.deleted_at is not None:
            seen.deleted_at = at
            # A pod that had ended by itself when it was asked to stop gets no replacement.
            seen.stopped = seen.ended_at is None and any(
                each.type == TERMINATION_TARGET and each.status == "True"
                for each in view.conditions
            )
        if seen.ended_at is None and pod.terminated:
            seen.ended_at, seen.phase = at, view.phase


class History:
    """The arrivals of a log as a source, with every runtime times `factor`.

    `guessed` counts pods without an end of their shape; `never_ran` others that were never ungated;
    `places` counts replacements.
    """

    def __init__(self, gathered: Gathered, factor: float = 1.0) -> None:
        self.guessed = self.places = self.victims = self.never_ran = 0
        self._pods = gathered.pods
        self._factor = factor
        self._opened = any(seen.decided_at is not None for seen in self._pods.values())
        """Whether a gate that went without a decision was opened by another, and is so again."""
        self.delays: Delays = Delays()
        if gathered.end is not None:
            self.delays = RecordedDelays(gathered.workloads, gathered.end)
        self._ran: dict[Shape | tuple[str, str], Spread] = {}
        """By shape, and by group and role."""
        self._end = gathered.end
        self._gates = self._starts = self._asked = self._stops = self._backs = Spread()
        self._next: dict[str, str] = {}
        """Uid -> uid of its replacement."""
        self._follows: dict[str, str] = {}
        """Uid -> uid of the pod that it replaced."""
        self._returns: dict[str, Returns] = {}
        """By group, and for all groups and for single pods."""
        self.members: dict[str, list[str]] = {}
        """Group -> uids of its pods."""
        self._origin: dict[str, str] = {}
        self._times: dict[str, int] = {}
        """Uid -> how often it has come again in this play."""
        self._copies = 0
        self._measure()
        self._pair()

    def arrivals(self) -> Iterator[Arrival]:
        """Yield pods that are no replacements, in the order of the log."""
        self._copies = 0
        self._origin.clear()
        self._times.clear()
        for uid in self._pods:
            if uid not in self._follows:
                yield self.arrival(uid)

    def arrival(self, uid: str) -> Arrival:
        """Return a pod as it came then."""
        seen = self._pods[uid]
        return Arrival(seen.at, self._born(seen), self._life(seen))

    def seen(self, uid: str) -> Seen | None:
        """Return what the log says of a pod, None: nothing."""
        return self._pods.get(uid)

    def successor(self, uid: str) -> str | None:
        """Return which pod came in the place of another."""
        return self._next.get(uid)

    def predecessor(self, uid: str) -> str | None:
        """Return the pod that a pod replaced."""
        return self._follows.get(uid)

    def stopped(self, pod: PodView, life: Life, at: datetime) -> Arrival | None:
        """Return its replacement, or the pod again if it was not stopped in the log."""
        origin = self._origin.get(pod.uid, pod.uid)
        seen = self._pods[origin]
        if seen.stopped and origin == pod.uid:
            return self._in_place_of(seen, at)
        known = self._returns.get(seen.group) or self._returns.get(_kind(seen.group), Returns())
        times = self._times.get(origin, 0)
        if not known.again(f"{seen.group} {times}"):
            return None
        self._times[origin] = times + 1
        self._copies += 1
        back_s = self._backs.drawn(f"back {origin} {times}")
        again = at + timedelta(seconds=BACK_S if back_s is None else back_s)
        name = f"{pod.name.partition('--')[0]}--{self._copies}"
        uid = f"{origin}--{self._copies}"
        self._origin[uid] = origin
        return Arrival(again, replace(pod, uid=uid, name=name, created_at=again), life)

    def ended(self, pod: PodView, at: datetime) -> Arrival | None:
        """Return its replacement after a failure."""
        seen = self._pods[self._origin.get(pod.uid, pod.uid)]
        return None if seen.stopped else self._in_place_of(seen, at)

    def _in_place_of(self, seen: Seen, at: datetime) -> Arrival | None:
        following = self._pods.get(self._next.get(seen.born.uid, ""))
        if following is None:
            return None
        assert seen.ended_at is not None
        again = at + max(timedelta(0), following.at - seen.ended_at)
        born = replace(self._born(following), created_at=again)
        return Arrival(again, born, self._life(following))

    def _measure(self) -> None:
        gates: list[float] = []
        starts: list[float] = []
        asked: list[float] = []
        stops: list[float] = []
        ran: dict[Shape | tuple[str, str], array[float]] = {}
        for uid, seen in self._pods.items():
            self.members.setdefault(seen.group, []).append(uid)
            if seen.let_in_at is not None and seen.decided_at is not None:
                gates.append(_between_s(seen.decided_at, seen.let_in_at))
            if seen.ran_at is not None and seen.let_in_at is not None:
                starts.append(_between_s(seen.let_in_at, seen.ran_at))
            if seen.stopped:
                self.victims += 1
                if seen.asked_at is not None:
                    asked.append(_between_s(seen.asked_at, seen.deleted_at))
                if seen.ended_at is not None and seen.deleted_at is not None:
                    stops.append(_between_s(seen.deleted_at, seen.ended_at))
            elif _by_itself(seen):
                for of in (_shape(seen), (seen.group, seen.role)):
                    ran.setdefault(of, array("d")).append(_ran_s(seen))
        self._ran = {of: Spread(array("d", sorted(spans))) for of, spans in ran.items()}
        self._gates, self._starts, self._asked, self._stops = (
            Spread(array("d", sorted(each))) for each in (gates, starts, asked, stops)
        )

    def _pair(self) -> None:
        """Match replacements: the pod that ended first is replaced first."""
        open_places: dict[tuple[str, str], list[tuple[datetime, str]]] = {}
        ended = sorted(
            (
                (seen.ended_at, uid)
                for uid, seen in self._pods.items()
                if seen.ended_at is not None and (seen.stopped or seen.phase == "Failed")
            ),
        )
        later = 0
        lags: list[float] = []
        for uid, seen in self._pods.items():
            while later < len(ended) and ended[later][0] <= seen.at:
                when, other = ended[later]
                heapq.heappush(open_places.setdefault(_place(self._pods[other]), []), (when, other))
                later += 1
            if waiting := open_places.get(_place(seen)):
                when, other = heapq.heappop(waiting)
                self._next[other] = uid
                self._follows[uid] = other
                self.places += 1
                if self._pods[other].stopped:
                    lags.append((seen.at - when).total_seconds())
        self._backs = Spread(array("d", sorted(lags)))
        self.back_s = median(lags) if lags else BACK_S
        back: dict[str, bool] = {}
        for uid, seen in self._pods.items():
            if seen.stopped and _between_s(seen.ended_at, self._end) > self.back_s:
                back[seen.group] = back.get(seen.group, True) and uid in self._next
        for group, whole in back.items():
            for name in (group, _kind(group)):
                each = self._returns.setdefault(name, Returns())
                each.stopped += 1
                each.returned += whole

    def _born(self, seen: Seen) -> PodView:
        return replace(
            seen.born,
            gates=(ADMISSION_GATE,) if seen.gated else (),
            phase="Pending",
            node="",
            conditions=(),
            deleted_at=None,
            grace_s=None,
            started_at=None,
        )

    def _life(self, seen: Seen) -> Life:
        started = seen.let_in_at is not None
        deleted = seen.deleted_at is not None and not seen.stopped
        gives_up_s = deleted_s = removed_s = None
        if deleted and not started and not seen.excess:
            gives_up_s = _between_s(seen.at, seen.deleted_at)
        elif deleted and _by_itself(seen):
            removed_s = _between_s(seen.ended_at, seen.deleted_at)
        elif deleted and not seen.excess:
            ran_s = _between_s(seen.ran_at or seen.deleted_at, seen.deleted_at)
            before_s = _between_s(seen.let_in_at, seen.ran_at or seen.deleted_at)
            deleted_s = before_s + ran_s * self._factor
        failed = seen.phase == "Failed" and not seen.stopped
        return Life(
            run_s=self._run_s(seen, started=started) * self._factor,
            gate_s=self._lag_s(
                seen.decided_at,
                seen.let_in_at,
                seen.deleted_at,
                0.0 if started else _drawn(self._gates, "gate", seen),
            ),
            opened_s=_between_s(seen.at, seen.let_in_at)
            if started and seen.gated and seen.decided_at is None and self._opened
            else None,
            start_s=self._start_s(seen),
            phase="Failed" if failed else "Succeeded",
            ready_s=self._ready_s(seen),
            asked_s=self._lag_s(
                seen.asked_at, seen.deleted_at, None, _drawn(self._asked, "asked", seen)
            ),
            stop_s=self._stop_s(seen),
            gives_up_s=gives_up_s,
            deleted_s=deleted_s,
            removed_s=removed_s,
            stays=True,
            forced=seen.forced,
        )

    def _lag_s(
        self,
        decided: datetime | None,
        done: datetime | None,
        over: datetime | None,
        otherwise: float,
    ) -> float:
        """Return the delay of a step; a step that was possible and not done comes later."""
        if decided is None:
            return otherwise
        return _between_s(decided, done) if done else _between_s(decided, over or self._end) + 1.0

    def _ready_s(self, seen: Seen) -> tuple[float, ...]:
        if seen.ran_at is None:
            return AT_ONCE
        if not seen.turned and not (_by_itself(seen) and not seen.stopped):
            # Cut short before it was ready: in a longer life it is, later than was seen.
            until = seen.deleted_at or seen.ended_at or self._end
            return (_between_s(seen.ran_at, until) + 1.0,)
        turned = tuple(_between_s(seen.ran_at, at) for at in seen.turned)
        return AT_ONCE if turned == AT_ONCE else turned

    def _run_s(self, seen: Seen, *, started: bool) -> float:
        if _by_itself(seen) and not seen.stopped:
            return _ran_s(seen)
        ran_s = _between_s(seen.ran_at, seen.ended_at or seen.deleted_at or self._end)
        open_s = 1.0 if started and seen.ended_at is None else 0.0
        return max(ran_s + open_s, self._would_run_s(seen, ran_s))

    def _start_s(self, seen: Seen) -> float:
        """Seconds from its gate to running; of a pod that never ran, at least as long as seen."""
        start_s = _drawn(self._starts, "start", seen)
        if seen.let_in_at is None:
            return start_s
        if seen.ran_at is not None:
            return _between_s(seen.let_in_at, seen.ran_at)
        if seen.phase and not seen.stopped:
            return 0.0  # too short to have been seen running
        until = seen.deleted_at or seen.ended_at
        if until is None:
            return max(start_s, _between_s(seen.let_in_at, self._end) + 1.0)
        return max(start_s, _between_s(seen.let_in_at, until) + 1.0)

    def _stop_s(self, seen: Seen) -> float:
        if seen.deleted_at is None or (_by_itself(seen) and not seen.stopped):
            return _drawn(self._stops, "stop", seen)
        if seen.ended_at is None:
            return max(
                _drawn(self._stops, "stop", seen), _between_s(seen.deleted_at, self._end) + 1.0
            )
        return _between_s(seen.deleted_at, seen.ended_at)

    def _would_run_s(self, seen: Seen, ran_s: float) -> float:
        """How long a pod would have run that was cut short, or not let in."""
        following = seen
        while (uid := self._next.get(following.born.uid)) is not None and following.stopped:
            following = self._pods[uid]
        if following is not seen and _by_itself(following) and following.phase == "Succeeded":
            return _ran_s(following)
        of_group = self._ran.get((seen.group, seen.role), Spread())
        if (run_s := of_group.drawn(seen.born.uid, ran_s)) is not None:
            return run_s
        of_shape = self._ran.get(_shape(seen))
        if of_shape is None:
            self.guessed += 1
            return GUESS_S
        self.never_ran += seen.let_in_at is None
        run_s = of_shape.drawn(seen.group, ran_s)  # pods of a group run alike
        return ran_s if run_s is None else run_s


def _drawn(spread: Spread, what: str, seen: Seen) -> float:
    """Return how long something of a pod takes that did not happen then."""
    return spread.drawn(f"{what} {seen.born.uid}") or 0.0


def _by_itself(seen: Seen) -> bool:
    """Return whether a pod ended before its deletion was requested."""
    if not seen.phase or seen.ended_at is None:
        return False
    return seen.deleted_at is None or seen.ended_at <= seen.deleted_at


def _ran_s(seen: Seen) -> float:
    return _between_s(seen.ran_at or seen.let_in_at, seen.ended_at)


def _between_s(begin: datetime | None, end: datetime | None) -> float:
    """Return the seconds between two times; 0 if a time is unknown, or the end came first."""
    return 0.0 if begin is None or end is None else max(0.0, (end - begin).total_seconds())


def _shape(seen: Seen) -> Shape:
    view = seen.born
    queue = view.labels.get(QUEUE_NAME, "")
    return view.namespace, queue, tuple(sorted(view.requests.items()))


def _kind(group: str) -> str:
    """Return what a group is: a pod group, or a single pod."""
    return group.partition("-")[0]


def _place(seen: Seen) -> tuple[str, str]:
    if seen.group.startswith("single-"):
        for owner in seen.born.owners:
            if owner.controller:
                return owner.uid, ""
        return f"{seen.born.namespace}/{seen.born.name}", ""
    return seen.group, seen.role
