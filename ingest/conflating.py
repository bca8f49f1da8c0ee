"""Changes of pods that decide nothing: the last one matters, and a namespace gets so many.

Theory. A user who may label a pod may do so a thousand times a second, and each change would stay
in the log and push what others did out of it. So changes are of two kinds. *Decisive* ones go at
once: the first sight of a pod, its end, and whatever admission, accounting or diagnosis turns on
(gates, phase, node, requests, conditions, how containers ended, whether it is ours). All else
(labels, annotations, owners, ...) is *minor*: of one pod some go at once, then one in a while; of
one namespace many go at once, then so many a second. Our finalizer is between the two: a group is
not over before it is off all its pods, so it waits for its own pod's turn only, never for a
neighbour's (a namespace of thousands of pods that end must not stand still); but a user who may
write pods can put it on and off for ever. A minor change that may not go yet is held,
a later one of the same pod takes its place, and it goes when it is due, or with the next decisive
change, which shows it too. What is allowed when is the generic cell rate algorithm (ITU-T I.371):
one time per pod and one per namespace, and what is held has its turn reserved.

Holding changes the order among pods, never that of one pod; the fold compares versions pod by pod.
What was held and is lost in a crash must come again: while something is held, the position that is
published stays before the oldest of it, so a restarted ingester sees it again.

Invariant: the last state of every pod is handed on, late by no more than its turn; no position is
handed on that lies behind a held change; work per event is constant but for the heap of turns.
"""

import asyncio
import heapq
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, NamedTuple

from ingest.metrics import IngestMetrics
from podgroup.events import DeltaRefused, Event, PodApplied, PodDeleted, RelistStarted
from podgroup.names import ADMITTED_CONDITION, MANAGED_LABEL, POD_FINALIZER, QUEUE_NAME
from podgroup.objects import Kind, PodView
from podgroup.runtime.log import get_logger

POD_BURST: Final = 5
"""Minor changes of a pod that go at once after a pause."""
NAMESPACE_BURST: Final = 1_000
"""Minor changes of a namespace that go at once after a pause."""
MAX_KNOWN: Final = 100_000
"""Pods whose decisive part is remembered, about 210 bytes each; the change of another goes at once.
"""
ROUNDING_S: Final = 1e-6
LOOK_S: Final = 0.2
"""Seconds between looks for what is due, at most, while something is held."""
TELL_S: Final = 60.0
"""Seconds between two log lines about one namespace."""

Put = Callable[[Kind, Iterable[Event], str | None], Awaitable[None]]

log = get_logger("ingest")


class Held(NamedTuple):
    """A change that waits for its turn at `due_s`; `before` is the position that it follows.

    `shared`: it has a turn of its namespace too.
    """

    event: PodApplied
    before: str
    due_s: float
    shared: bool


class Rate:
    """When things of one key may happen: `burst` at once, then one in `interval_s` seconds."""

    def __init__(self, interval_s: float, burst: int) -> None:
        self._interval_s = interval_s
        self._ahead_s = (burst - 1) * interval_s
        self._used: OrderedDict[str, float] = OrderedDict()

    def reserve(self, key: str, now: float) -> float:
        """Return when the next one of `key` may happen, `now` or later, and count it as done."""
        # Keys whose time has come are as good as unknown; the oldest used stand in front.
        for _ in range(2):
            if self._used and next(iter(self._used.values())) <= now:
                self._used.popitem(last=False)
        used_s = max(now, self._used.pop(key, 0.0))
        self._used[key] = used_s + self._interval_s
        return max(now, used_s - self._ahead_s)

    def give_back(self, key: str) -> None:
        """Take back a reservation that is not needed any more."""
        if key in self._used:
            self._used[key] -= self._interval_s


class Conflater:
    """Decides what of a watch of pods goes now, and what later; times are those of `clock`.

    `interval_s` and `per_s` 0 are no bound. `position` is where the watch begins.
    """

    def __init__(
        self,
        interval_s: float,
        per_s: float,
        position: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pods = Rate(interval_s, POD_BURST)
        self._namespaces = Rate(1 / per_s if per_s else 0.0, NAMESPACE_BURST)
        self._clock = clock
        self._seen = position
        self._known: OrderedDict[int, tuple[int, bool]] = OrderedDict()
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._turns: list[tuple[float, str]] = []
        self.conflated = 0
        """Changes so far that a later one took the place of."""
        self.deferred = 0
        """Changes so far that had to wait."""
        self.late: dict[str, float] = {}
        """Namespaces that are held back for being many: until when, by `clock`."""

    @property
    def held(self) -> int:
        """Changes that wait for their turn."""
        return len(self._held)

    @property
    def due_s(self) -> float | None:
        """When the next one may go, None if none waits."""
        while self._turns:
            due_s, uid = self._turns[0]
            found = self._held.get(uid)
            if found is not None and found.due_s == due_s:
                return due_s
            heapq.heappop(self._turns)
        return None

    def conflate(
        self, events: Iterable[Event], position: str | None
    ) -> tuple[list[Event], str | None]:
        """Return what goes now of events that came with `position`, and the position to go with it.

        `position` as in `EventPublisher.put`: None within a relist.
        """
        going = list(self._going(events))
        self._seen = position
        return going, self._position()

    def release(self) -> tuple[list[Event], str | None]:
        """Return what was held and may go now, and the position to go with it."""
        now, going = self._clock() + ROUNDING_S, list[Event]()
        while (due_s := self.due_s) is not None and due_s <= now:
            event = self._held.pop(heapq.heappop(self._turns)[1]).event
            self._note_minor(event.pod)
            going.append(event)
        return going, self._position()

    def _position(self) -> str | None:
        # What took another's place went to the end, so the first has the oldest position.
        first = next(iter(self._held.values()), None)
        return self._seen if first is None else first.before

    def _going(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            match event:
                case PodApplied(pod=pod, relist=relist):
                    if not relist and self._seen is not None and self._minor(pod):
                        if self._wait(event, self._seen):
                            continue
                    else:
                        self._note(pod)
                    self._supersede(pod.uid)
                case PodDeleted(pod=pod):
                    self._known.pop(hash(pod.uid), None)
                    self._supersede(pod.uid)
                case DeltaRefused(uid=uid):
                    self._supersede(uid)
                case RelistStarted():
                    # The list shows all of it again, or that it is gone.
                    self.conflated += len(self._held)
                    self._held.clear()
                    self._turns.clear()
                case _:
                    pass
            yield event

    def _minor(self, pod: PodView) -> bool:
        known = self._known.get(hash(pod.uid))
        return known is not None and known[0] == _decisive(pod)

    def _note(self, pod: PodView) -> None:
        """Remember a pod that goes as it is."""
        self._remember(pod, _decisive(pod))

    def _note_minor(self, pod: PodView) -> None:
        """The same where what decides is as it was: it need not be worked out again."""
        known = self._known.get(hash(pod.uid))
        self._remember(pod, known[0] if known is not None else _decisive(pod))

    def _remember(self, pod: PodView, decisive: int) -> None:
        key = hash(pod.uid)
        self._known[key] = (decisive, POD_FINALIZER in pod.finalizers)
        self._known.move_to_end(key)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def _supersede(self, uid: str) -> None:
        waiting = self._held.pop(uid, None)
        if waiting is not None:
            self.conflated += 1
            self._pods.give_back(uid)
            if waiting.shared:
                self._namespaces.give_back(waiting.event.pod.namespace)

    def _wait(self, event: PodApplied, before: str) -> bool:
        """Hold a minor change if it has to wait; tell whether it has."""
        uid, namespace = event.pod.uid, event.pod.namespace
        shared = self._known[hash(uid)][1] == (POD_FINALIZER in event.pod.finalizers)
        waiting = self._held.get(uid)
        if waiting is not None and (shared or not waiting.shared):
            self.conflated += 1
            del self._held[uid]
            self._held[uid] = waiting._replace(event=event, before=before)
            return True
        self._supersede(uid)
        now = self._clock()
        due_s = self._pods.reserve(uid, now)
        if shared:
            shared_s = self._namespaces.reserve(namespace, now)
            if shared_s > now + ROUNDING_S:
                self.late[namespace] = shared_s
            due_s = max(due_s, shared_s)
        if due_s <= now + ROUNDING_S:
            self._note_minor(event.pod)
            return False
        self.deferred += 1
        self._held[uid] = Held(event, before, due_s, shared)
        heapq.heappush(self._turns, (due_s, uid))
        return True


class Conflating:
    """A conflater between a watcher of pods and the publisher. `run` is its task."""

    def __init__(
        self,
        put: Put,
        interval_s: float,
        per_s: float,
        position: str | None,
        metrics: IngestMetrics | None = None,
    ) -> None:
        self._put = put
        self._conflater = Conflater(interval_s, per_s, position)
        self._waiting = asyncio.Event()
        self._warned: dict[str, float] = {}
        self._metrics = metrics
        self._counted = (0, 0)

    @property
    def held(self) -> int:
        """Changes that wait for their turn."""
        return self._conflater.held

    async def put(self, kind: Kind, events: tuple[Event, ...], position: str | None) -> None:
        """Hand on what may go; as `EventPublisher.put`."""
        going, position = self._conflater.conflate(events, position)
        if self._conflater.held:
            self._waiting.set()
        counted = (self._conflater.deferred, self._conflater.conflated)
        if counted != self._counted and self._metrics:
            self._metrics.held_back(counted[0] - self._counted[0], counted[1] - self._counted[1])
            self._counted = counted
        await self._put(kind, going, position)

    async def run(self) -> None:
        """Hand on what was held when it is due, until cancelled."""
        while True:
            await self._waiting.wait()
            due_s = self._conflater.due_s
            if due_s is None:
                self._waiting.clear()
                continue
            self._tell()
            # What comes meanwhile may be due sooner.
            await asyncio.sleep(min(LOOK_S, max(0.0, due_s - time.monotonic())))
            going, position = self._conflater.release()
            if going:
                await self._put("Pod", going, position)

    def _tell(self) -> None:
        now, late = time.monotonic(), self._conflater.late
        for namespace, until_s in list(late.items()):
            del late[namespace]
            if self._warned.get(namespace, 0.0) <= now:
                self._warned = {name: at for name, at in self._warned.items() if at > now}
                self._warned[namespace] = now + TELL_S
                log.warning(
                    "namespace_held_back",
                    namespace=namespace,
                    behind_s=round(max(0.0, until_s - now), 1),
                    note="its pods change more often than the log keeps "
                    "(ingest.namespace_changes_per_s); their last state follows, and what "
                    "decisions need is not held back",
                )


def _decisive(pod: PodView) -> int:
    """Return a digest of what of a pod must be known at once.

    Of labels, whether the pod is ours at all: the fold forgets one that is not, and takes news of
    a pod that it does not know in the order of all pods only.
    """
    labels = pod.labels
    return hash(
        (
            pod.deleted_at,
            pod.grace_s,
            pod.gates,
            pod.phase,
            pod.node,
            pod.reason,
            pod.started_at,
            pod.ends,
            tuple(sorted(pod.requests.items())),
            tuple(
                (c.type, c.status, c.reason) for c in pod.conditions if c.type != ADMITTED_CONDITION
            ),
            labels.get(MANAGED_LABEL),
            bool(labels.get(QUEUE_NAME)),
        )
    )
