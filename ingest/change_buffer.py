"""Which changes of pods go into the log at once and which later: bytes of a namespace are bounded.

Theory. A user who may write pods can change one a thousand times a second, and all changes would
stay in the log and push the events of others out of it. So the first changes of a pod go at once,
and further changes wait for a turn; a later change of the same pod replaces the waiting change, and
the last state always follows. Changes are of two kinds. *Decisive* changes touch what admission,
accounting or diagnosis depends on (gates, phase, node, requests, conditions, how containers ended,
our finalizer, whether the pod is ours and readable). The life of a pod has about twelve: the first
`DECISIVE_BURST` of a pod go at once, then one in `interval_s`. All other changes (labels,
annotations, owners, ...) are *minor*: `MINOR_BURST` go at once, then one in `interval_s`. Minor
changes, and excess decisive changes, share the turns of their namespace too, one turn for
`UNIT_BYTES`. A pod that ends or is deleted waits for its own turn alone, because quota depends on
it. A held change has its turns reserved (`cellrate`).

The first sight of a pod goes at once, in the order of all pods, as the fold needs it. Where pods
are created faster than `CREATED_PER_S`, their decisive changes do not go at once: a pod that comes
and goes within `interval_s` is two events. A pod that leaves our selector and is back before the
turn of that change counts as never away.

Holding changes the order among pods, never of the changes of one pod; the fold compares versions
pod by pod. A held change that a crash loses must come again: the published position stays before
the oldest held change, so a restarted ingester sees the change again.

Invariant: the last state of every pod is handed on, at the latest at its turn; no position goes
beyond a held change; work per event is constant but for the heap of turns.
"""

import asyncio
import heapq
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, NamedTuple

from ingest.cellrate import CellRate
from ingest.decisive import Known, OfPod, known_of, namespace_of, uid_of
from ingest.metrics import IngestMetrics
from podgroup.log.codec import encode_event
from podgroup.log.events import DeltaRefused, Event, PodApplied, PodDeleted, RelistStarted
from podgroup.model.objects import Kind
from runtime.log import get_logger

MINOR_BURST: Final = 5
"""Minor changes of a pod that go at once after a pause."""
DECISIVE_BURST: Final = 20
"""Decisive changes of a pod that go at once after a pause, its first sight among them."""
NAMESPACE_BURST: Final = 1_000
"""Turns of a namespace that go at once after a pause."""
UNIT_BYTES: Final = 2_048
"""Bytes of an event that take one turn of its namespace; a larger one takes several."""
CREATED_BURST: Final = 20_000
CREATED_PER_S: Final = 100.0
"""Pods of a namespace that come at once, and then in a second, and have every change kept."""
MAX_KNOWN: Final = 100_000
"""Pods whose decisive part is remembered, about 210 bytes each; other pods' changes go at once."""
ROUNDING_S: Final = 1e-6
LOOK_S: Final = 0.2
"""Seconds between looks for due changes, at most, while any change is held."""
TELL_S: Final = 60.0
"""Seconds between two log lines about one namespace."""

Put = Callable[[Kind, Iterable[Event], str | None], Awaitable[None]]

log = get_logger("ingest")


class Held(NamedTuple):
    """A change that waits for its turn at `due_s`; `before` is the position that it follows.

    `reserved` are turns to give back if the change does not need them; `sharing`: a turn of its
    namespace too.
    """

    event: OfPod
    before: str
    due_s: float
    decisive: bool
    sharing: bool
    reserved: tuple[tuple[CellRate, str, int], ...]


class ChangePolicy:
    """Decides which changes of pods go now, and which later; times are by `clock`.

    `interval_s` and `per_s` 0: no bound. `position` is where the watch begins.
    """

    def __init__(
        self,
        interval_s: float,
        per_s: float,
        position: str | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._minor = CellRate(interval_s, MINOR_BURST)
        self._decisive = CellRate(interval_s, DECISIVE_BURST)
        self._namespaces = CellRate(1 / per_s if per_s else 0.0, NAMESPACE_BURST)
        self._created = CellRate(1 / CREATED_PER_S, CREATED_BURST)
        self._clock = clock
        self._seen = position
        self._known: OrderedDict[int, Known] = OrderedDict()
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
        """Return the events that go now, of those that came with `position`, and their position.

        `position` as in `EventPublisher.put`: None within a relist.
        """
        going = list(self._going(events))
        self._seen = position
        return going, self._position()

    def release(self) -> tuple[list[Event], str | None]:
        """Return the held changes that may go now, and the position to go with them."""
        now, going = self._clock() + ROUNDING_S, list[Event]()
        while (due_s := self.due_s) is not None and due_s <= now:
            event = self._held.pop(heapq.heappop(self._turns)[1]).event
            self._note(event)
            going.append(event)
        return going, self._position()

    def _position(self) -> str | None:
        # A change that replaced another went to the end, so the first has the oldest position.
        first = next(iter(self._held.values()), None)
        return self._seen if first is None else first.before

    def _going(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            match event:
                case PodApplied(relist="") | PodDeleted() | DeltaRefused(kind="Pod"):
                    if self._seen is not None and self._wait(event, self._seen):
                        continue
                    self._supersede(uid_of(event))
                    self._note(event)
                case PodApplied():
                    self._supersede(event.pod.uid)
                    self._note(event)
                case RelistStarted():
                    # The list shows every held pod again, or that it is gone.
                    self.conflated += len(self._held)
                    self._held.clear()
                    self._turns.clear()
                case _:
                    pass
            yield event

    def _note(self, event: OfPod) -> None:
        """Remember the event that goes: the log shows its state from now on."""
        key, known = hash(uid_of(event)), known_of(event)
        if isinstance(event, PodDeleted) and not known.away:
            self._known.pop(key, None)
            return
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    def _supersede(self, uid: str) -> None:
        waiting = self._held.pop(uid, None)
        if waiting is not None:
            self.conflated += 1
            for rate, key, cost in waiting.reserved:
                rate.give_back(key, cost)

    def _wait(self, event: OfPod, before: str) -> bool:
        """Hold a change if it must wait; return whether it is held."""
        uid = uid_of(event)
        known = self._known.get(hash(uid))
        if known is None or known.away:
            self._first_sight(event, back=known is not None)
            return False
        after = known_of(event)
        decisive = isinstance(event, PodDeleted) or after.decisive != known.decisive
        sharing = after.stage <= known.stage
        waiting = self._held.get(uid)
        if waiting is not None and (waiting.decisive, waiting.sharing) == (decisive, sharing):
            self.conflated += 1
            del self._held[uid]
            self._held[uid] = self._grown(waiting, event)._replace(event=event, before=before)
            return True
        self._supersede(uid)
        held = self._reserve(event, before, decisive=decisive, sharing=sharing)
        if held.due_s <= self._clock() + ROUNDING_S:
            return False
        self.deferred += 1
        self._held[uid] = held
        heapq.heappush(self._turns, (held.due_s, uid))
        return True

    def _grown(self, waiting: Held, event: OfPod) -> Held:
        """Take more turns of the namespace where a larger event takes the place of a smaller."""
        *own, (rate, key, cost) = waiting.reserved
        more = units(event) - cost
        if rate is not self._namespaces or more <= 0:
            return waiting
        rate.reserve(key, self._clock(), more)
        return waiting._replace(reserved=(*own, (rate, key, cost + more)))

    def _first_sight(self, event: OfPod, *, back: bool) -> None:
        now, uid = self._clock(), uid_of(event)
        if back:  # it goes at once, and takes turns from later changes
            self._namespaces.reserve(namespace_of(event), now, units(event))
        if isinstance(event, PodApplied) and (
            self._created.reserve(event.pod.namespace, now) > now + ROUNDING_S
        ):
            self._decisive.exhaust(uid, now)
        else:
            self._decisive.reserve(uid, now)

    def _reserve(self, event: OfPod, before: str, *, decisive: bool, sharing: bool) -> Held:
        now, uid = self._clock(), uid_of(event)
        own = self._decisive if decisive else self._minor
        due_s = own.reserve(uid, now)
        reserved = [(own, uid, 1)]
        if sharing and (not decisive or due_s > now + ROUNDING_S):
            namespace = namespace_of(event)
            cost = units(event)
            shared_s = self._namespaces.reserve(namespace, now, cost)
            reserved.append((self._namespaces, namespace, cost))
            if shared_s > now + ROUNDING_S:
                self.late[namespace] = shared_s
            due_s = max(due_s, shared_s)
        return Held(event, before, due_s, decisive, sharing, tuple(reserved))


def units(event: OfPod) -> int:
    """Return how many turns of its namespace an event takes."""
    return len(encode_event(event)) // UNIT_BYTES + 1


class ChangeBuffer:
    """Changes of pods on their way from the watcher to the publisher. `run` is its task."""

    def __init__(
        self,
        put: Put,
        interval_s: float,
        per_s: float,
        position: str | None,
        metrics: IngestMetrics | None = None,
    ) -> None:
        self._put = put
        self._policy = ChangePolicy(interval_s, per_s, position)
        self._waiting = asyncio.Event()
        self._warned: dict[str, float] = {}
        self._metrics = metrics
        self._counted = (0, 0)

    @property
    def held(self) -> int:
        """Changes that wait for their turn."""
        return self._policy.held

    async def put(self, kind: Kind, events: tuple[Event, ...], position: str | None) -> None:
        """Hand on events that may go; as `EventPublisher.put`."""
        going, position = self._policy.conflate(events, position)
        if self._policy.held:
            self._waiting.set()
        counted = (self._policy.deferred, self._policy.conflated)
        if counted != self._counted and self._metrics:
            self._metrics.held_back(counted[0] - self._counted[0], counted[1] - self._counted[1])
            self._counted = counted
        await self._put(kind, going, position)

    async def run(self) -> None:
        """Hand on held changes when they are due, until cancelled."""
        while True:
            await self._waiting.wait()
            due_s = self._policy.due_s
            if due_s is None:
                self._waiting.clear()
                continue
            self._warn_of_late()
            # Changes that come meanwhile may be due sooner.
            await asyncio.sleep(min(LOOK_S, max(0.0, due_s - time.monotonic())))
            going, position = self._policy.release()
            if going:
                await self._put("Pod", going, position)

    def _warn_of_late(self) -> None:
        now, late = time.monotonic(), self._policy.late
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
