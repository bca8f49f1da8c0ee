"""Arrivals of the log: who came, how long each ran, and who came in whose place.

Theory. The log is folded as a replay folds it, and no rule is asked. Of each pod is kept how it
came and when it was let in, ran, was deleted and ended; all times are those of the log, at which
decisions are made. A pod that ended by itself runs as long as it ran. One that gatelog stopped, or
that runs still, was cut short: it runs as long as what came in its place if that was over by
itself, else as long as the longest of its shape (queue and requests) that was, and at least as long
as it did. One that was not let in has no length: it runs as long as the middle one of its shape. A
pod that came to a group after another of its role was stopped or failed came in its place: it comes
again so long after that one's end, and not at all if that one does not end so. Pods of no group do
so for others of their controller, or of their name.

Invariant: the same log gives the same arrivals.
"""

import heapq
from array import array
from collections.abc import Iterator
from datetime import datetime, timedelta
from statistics import median

from msgspec import Struct, field
from msgspec.structs import replace

from gatelog.whatif.arrivals import Arrival, Life
from gatelog.whatif.objects import Key, key_of
from podgroup.commands import DeletePod, StopPod, UngatePod
from podgroup.events import ObjectApplied, ObjectDeleted, PodApplied, RelistStarted
from podgroup.ids import PodUID
from podgroup.names import ADMISSION_GATE, QUEUE_NAME, TERMINATION_TARGET
from podgroup.objects import ClusterQueueView, LocalQueueView, PodView, QueueObject
from podgroup.state import Pod, World
from projector.replay.log import Entry

BACK_S = 1.0
"""Seconds after which a victim comes again, where the log shows none that did."""
GUESS_S = 60.0
"""Seconds that a pod runs of whose shape none has ended."""

Shape = tuple[str, str, tuple[tuple[str, int], ...]]


class _Seen(Struct, gc=False):
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
    surplus: bool = False
    """Deleted by gatelog as one too many."""


class Spread(Struct, frozen=True):
    """How long pods of a shape ran that ended by themselves."""

    middle_s: float
    longest_s: float


class Change(Struct, frozen=True):
    """A queue object that was created, changed or, with `view` None, deleted."""

    at: datetime
    key: Key
    view: QueueObject | None


class Gathered(Struct):
    """What a log says of arrivals; `look` is given each entry of it, in order."""

    pods: dict[str, _Seen] = field(default_factory=dict)
    objects: list[Change] = field(default_factory=list)
    begin: datetime | None = None
    end: datetime | None = None
    lists: int = 0
    """How often all pods were listed: after the first time what was between may be missing."""
    _there: dict[Key, QueueObject] = field(default_factory=dict)

    def look(self, entry: Entry, world: World) -> None:
        """Take in one entry, with the world after it, before its journal is taken."""
        at = entry.at
        if self.begin is None:
            self.begin = at
        self.end = at
        for event in entry.batch.events:
            if isinstance(event, RelistStarted):
                self.lists += event.kind == "Pod"
            elif isinstance(event, PodApplied):
                # In the order of the log, which decides whose uid names a group.
                pod = world.pods.get(PodUID(event.pod.uid))
                if pod is not None:
                    self._pod(at, pod)
            elif isinstance(event, ObjectApplied | ObjectDeleted):
                self._object(at, event)
        for decision in entry.recorded.values():
            command = decision.command
            if not isinstance(command, UngatePod | StopPod | DeletePod):
                continue
            seen = self.pods.get(command.target.uid)
            if seen is None:
                continue
            if isinstance(command, UngatePod):
                seen.decided_at = seen.decided_at or at
            elif isinstance(command, StopPod):
                seen.asked_at = seen.asked_at or at
            else:
                seen.surplus = True
        for uid, pod in world.gone_pods.items():
            self._pod(at, pod)
            seen = self.pods[uid]
            seen.ended_at = seen.ended_at or at
            seen.deleted_at = seen.deleted_at or at

    def _object(self, at: datetime, event: ObjectApplied | ObjectDeleted) -> None:
        if isinstance(event, ObjectDeleted):
            gone = (event.kind, event.namespace, event.name)
            if self._there.pop(gone, None) is not None:
                self.objects.append(Change(at, gone, None))
            return
        view = event.object
        plain = replace(view, resource_version="")
        if isinstance(view, ClusterQueueView | LocalQueueView):
            plain = replace(plain, active=())
        key = key_of(view)
        if self._there.get(key) != plain:
            self._there[key] = plain
            self.objects.append(Change(at, key, plain))

    def _pod(self, at: datetime, pod: Pod) -> None:
        view = pod.view
        seen = self.pods.get(view.uid)
        if seen is None:
            seen = self.pods[view.uid] = _Seen(view, at, pod.group, pod.role, pod.first_gated)
        if seen.let_in_at is None and not pod.gated:
            seen.let_in_at = at
        if seen.ran_at is None and view.phase == "Running":
            seen.ran_at = at
        if seen.deleted_at is None and view.deleted_at is not None:
            seen.deleted_at = at
            seen.stopped = any(
                each.type == TERMINATION_TARGET and each.status == "True"
                for each in view.conditions
            )
        if seen.ended_at is None and pod.terminated:
            seen.ended_at, seen.phase = at, view.phase


class History:
    """The arrivals of a log as a source, with every runtime times `factor`.

    `guessed` counts pods of whose shape none ended; `never_ran` others that were not let in;
    `places` those that came in another's place.
    """

    def __init__(self, gathered: Gathered, factor: float = 1.0) -> None:
        self.guessed = self.places = self.victims = self.never_ran = 0
        self._pods = gathered.pods
        self._factor = factor
        self._ran: dict[Shape, Spread] = {}
        self._starts_s = self._stops_s = 0.0
        self._next: dict[str, str] = {}
        """Uid -> uid of the pod that came in its place."""
        self._follows: set[str] = set()
        self._origin: dict[str, str] = {}
        self._copies = 0
        self._measure()
        self._pair()

    def arrivals(self) -> Iterator[Arrival]:
        """Yield what came by itself, in the order of the log."""
        self._copies = 0
        self._origin.clear()
        for uid, seen in self._pods.items():
            if uid not in self._follows:
                yield Arrival(seen.at, self._born(seen), self._life(seen))

    def stopped(self, pod: PodView, life: Life, at: datetime) -> Arrival | None:
        """Return what came in its place, or it again if it was not stopped then."""
        origin = self._origin.get(pod.uid, pod.uid)
        seen = self._pods[origin]
        if seen.stopped and origin == pod.uid:
            return self._in_place_of(seen, at)
        self._copies += 1
        again = at + timedelta(seconds=self.back_s)
        name = f"{pod.name.partition('--')[0]}--{self._copies}"
        uid = f"{origin}--{self._copies}"
        self._origin[uid] = origin
        return Arrival(again, replace(pod, uid=uid, name=name, created_at=again), life)

    def ended(self, pod: PodView, at: datetime) -> Arrival | None:
        """Return what came in its place when it had failed."""
        seen = self._pods[self._origin.get(pod.uid, pod.uid)]
        return None if seen.stopped else self._in_place_of(seen, at)

    def _in_place_of(self, seen: _Seen, at: datetime) -> Arrival | None:
        following = self._pods.get(self._next.get(seen.born.uid, ""))
        if following is None:
            return None
        assert seen.ended_at is not None
        again = at + max(timedelta(0), following.at - seen.ended_at)
        born = replace(self._born(following), created_at=again)
        return Arrival(again, born, self._life(following))

    def _measure(self) -> None:
        starts: list[float] = []
        stops: list[float] = []
        ran: dict[Shape, array[float]] = {}
        for seen in self._pods.values():
            if seen.ran_at is not None and seen.let_in_at is not None:
                starts.append(_start_s(seen, seen.ran_at))
            if seen.stopped:
                self.victims += 1
                if seen.ended_at is not None and seen.deleted_at is not None:
                    stops.append(_stop_s(seen))
            elif _by_itself(seen):
                ran.setdefault(_shape(seen), array("d")).append(_ran_s(seen))
        self._ran = {shape: Spread(median(spans), max(spans)) for shape, spans in ran.items()}
        self._starts_s = median(starts) if starts else 0.0
        self._stops_s = median(stops) if stops else 0.0

    def _pair(self) -> None:
        """Find who came in whose place: the one that ended first has its place taken first."""
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
                self._follows.add(uid)
                self.places += 1
                if self._pods[other].stopped:
                    lags.append((seen.at - when).total_seconds())
        self.back_s = median(lags) if lags else BACK_S

    def _born(self, seen: _Seen) -> PodView:
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

    def _life(self, seen: _Seen) -> Life:
        ran_s = _ran_s(seen)
        started = seen.let_in_at is not None
        by_itself = bool(seen.phase) and not seen.stopped
        gives_up_s = removed_s = None
        stop_s = self._stops_s
        if seen.deleted_at is not None and not seen.stopped:
            if not started and not seen.surplus:
                gives_up_s = (seen.deleted_at - seen.at).total_seconds()
            elif seen.phase and seen.ended_at is not None:
                removed_s = max(0.0, (seen.deleted_at - seen.ended_at).total_seconds())
                by_itself = True
        elif seen.stopped and seen.ended_at is not None and seen.deleted_at is not None:
            stop_s = _stop_s(seen)
        if not by_itself and not (started and seen.deleted_at is not None and not seen.stopped):
            ran_s = max(ran_s, self._would_run_s(seen, started=started))
        start_s = self._starts_s
        if seen.ran_at is not None and seen.let_in_at is not None:
            start_s = _start_s(seen, seen.ran_at)
        elif seen.phase and seen.let_in_at is not None:
            start_s = _start_s(seen, seen.let_in_at)  # too short to have been seen running
        failed = seen.phase == "Failed" and not seen.stopped
        return Life(
            run_s=ran_s * self._factor,
            start_s=start_s,
            phase="Failed" if failed else "Succeeded",
            stop_s=stop_s,
            gives_up_s=gives_up_s,
            removed_s=removed_s,
        )

    def _would_run_s(self, seen: _Seen, *, started: bool) -> float:
        """How long a pod would have run that was cut short, or not let in."""
        following = seen
        while (uid := self._next.get(following.born.uid)) is not None and following.stopped:
            following = self._pods[uid]
        if following is not seen and _by_itself(following) and following.phase == "Succeeded":
            return _ran_s(following)
        of_shape = self._ran.get(_shape(seen))
        if of_shape is None:
            self.guessed += 1
            return GUESS_S
        self.never_ran += not started
        return of_shape.longest_s if started else of_shape.middle_s


def _by_itself(seen: _Seen) -> bool:
    """Tell whether it ended before its deletion was asked for."""
    if not seen.phase or seen.ended_at is None:
        return False
    return seen.deleted_at is None or seen.ended_at <= seen.deleted_at


def _ran_s(seen: _Seen) -> float:
    begin = seen.ran_at or seen.let_in_at
    if begin is None or seen.ended_at is None:
        return 0.0
    return max(0.0, (seen.ended_at - begin).total_seconds())


def _start_s(seen: _Seen, at: datetime) -> float:
    """Return how long it took from the decision to let it in until then."""
    begin = seen.decided_at or seen.let_in_at or at
    return max(0.0, (at - begin).total_seconds())


def _stop_s(seen: _Seen) -> float:
    """Return how long it took from the decision to stop it until its end."""
    begin = seen.asked_at or seen.deleted_at
    if begin is None or seen.ended_at is None:
        return 0.0
    return max(0.0, (seen.ended_at - begin).total_seconds())


def _shape(seen: _Seen) -> Shape:
    view = seen.born
    queue = view.labels.get(QUEUE_NAME, "")
    return view.namespace, queue, tuple(sorted(view.requests.items()))


def _place(seen: _Seen) -> tuple[str, str]:
    if seen.group.startswith("single-"):
        for owner in seen.born.owners:
            if owner.controller:
                return owner.uid, ""
        return f"{seen.born.namespace}/{seen.born.name}", ""
    return seen.group, seen.role
