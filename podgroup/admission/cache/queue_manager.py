"""QueueManager: pending workloads, each in the line of its ClusterQueue, or in none.

Theory. A pending workload is *active* (to be tried), inadmissible (until quota becomes free in the
tree of its ClusterQueue), or *apart*: until its back-off is over, or held back until a preemptor is
admitted. Workloads of one shape that fail are inadmissible together, so a pass costs its admissions
and the shapes that it rejects. The name and the parts are those of Kueue's pkg/cache/queue.

Invariant: a pending workload is in exactly one line, or has a claim, or lacks a ClusterQueue.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from podgroup.admission.cache.cached_queue import CachedQueue, Failure
from podgroup.admission.cache.claims import Claims
from podgroup.admission.cache.objects import Objects
from podgroup.admission.cache.reservations import Reservations
from podgroup.admission.cache.reserved_starts import ReservedStarts
from podgroup.admission.cache.wake_ups import WakeUps
from podgroup.admission.holding import PendingWorkload
from podgroup.admission.matching import selects
from podgroup.admission.model import Configuration, Eviction, Workload
from podgroup.admission.shape import Shape, Shapes
from podgroup.admission.wording import (
    AT_ONCE,
    BYPASSED,
    NAMESPACE_MISMATCH,
    NO_CANDIDATES,
    NO_FIT,
    PENDING_PREEMPTION,
    gave_way,
)
from podgroup.model.names import PENDING_WAITING_FOR_QUOTA
from podgroup.model.reasons import Effect
from podgroup.model.shortage import Shortage

Answer = tuple[str, str]
"""Reason and message of a workload that is not admitted."""

BEHIND: Final[Answer] = (
    PENDING_WAITING_FOR_QUOTA,
    "waits behind an earlier workload in a StrictFIFO ClusterQueue",
)
BACKING_OFF: Final = "backing off"
HELD_BACK: Final = "held back"

_Rank = tuple[float, bool, int, bool, float, str]


class Refusal(NamedTuple):
    """Why quota was refused before: reason, Kueue's sentence, what follows from them, shortages."""

    reason: str
    message: str
    effect: Effect
    short: tuple[Shortage, ...] = ()


class QueueManager:
    """Pending workloads by id, and their claims."""

    def __init__(
        self,
        objects: Objects,
        wake_ups: WakeUps,
        reservations: Reservations,
        configuration: Configuration,
    ) -> None:
        self.waiting: dict[str, PendingWorkload] = {}
        self.claims = Claims(objects, wake_ups, reservations, self._requeue)
        self.shapes = Shapes()
        self.judged: set[str] = set()
        """Workloads for which an equal workload was tried since this was read last."""
        self._unjudged: dict[Shape, set[str]] = {}
        """Shape -> workloads without a verdict, where one answers for all as in Kueue (Q10)."""
        self._unplaced: dict[str, PendingWorkload] = {}
        """Workloads whose LocalQueue or ClusterQueue does not exist."""
        self.starts = ReservedStarts(objects, wake_ups, configuration.longest_wait_s)
        self._objects = objects
        self._wake_ups = wake_ups
        self._used_by = reservations.used_by
        self._requeue_by = configuration.requeue_by
        self._as_kueue = configuration.as_kueue

    # Pending workloads

    def submit(self, workload: Workload, refused: Refusal | None = None) -> None:
        """Enter a workload that requests quota, new or changed.

        A workload that was `refused` before is tried after the next release; in a StrictFIFO queue
        it takes its place in line. By Kueue's way, a workload that was to be tried again at once is
        tried at once.
        """
        waiter = self._pending(workload)
        shape = waiter.shape
        old = self.waiting.get(workload.id)
        if old is not None:
            if old.alike(waiter):
                self.shapes.give_back(shape)
                return
            if old.shape is shape:
                waiter.last = old.last
            self.take_out(old)
            self.shapes.give_back(old.shape)
        self.waiting[workload.id] = waiter
        if refused is None and self._as_kueue:
            self._unjudged.setdefault(shape, set()).add(workload.id)
        self.place(waiter)
        queue = self.queue_of(waiter)
        if refused is not None and queue is not None and queue.lines.is_active(waiter):
            self._refuse_again(queue, waiter, refused)

    def _refuse_again(self, queue: CachedQueue, waiter: PendingWorkload, refused: Refusal) -> None:
        hopeless = refused.effect.hopeless and not self._as_kueue  # Q6
        at_once = queue.strict or (self._as_kueue and refused.effect.passing)
        if hopeless or not at_once:
            queue.lines.drop(waiter)
            queue.lines.put(waiter, aside=True)
            if self._as_kueue:  # Q10
                waiter.reason, waiter.message = refused.reason, refused.message
                waiter.short = refused.short
                self._note_failure(queue, waiter, waiter.reason)

    def requeue(self, workload: Workload, evicted: Eviction | None) -> None:
        """Enter that a released workload waits again."""
        waiter = self._pending(workload)
        waiter.evicted = evicted
        self.waiting[workload.id] = waiter
        self.place(waiter)

    def take_back(self, waiter: PendingWorkload) -> None:
        """Let a workload wait again as it did before its admission, which is withdrawn."""
        waiter.shape = self._interned(waiter.shape)
        self.waiting[waiter.id] = waiter
        self.place(waiter)

    def remove(self, id: str) -> None:
        """Remove a workload that no longer waits."""
        waiter = self.waiting.pop(id, None)
        if waiter is None:
            return
        queue = self.queue_of(waiter)
        self.take_out(waiter)
        if (alike := self._unjudged.get(waiter.shape)) is not None:
            alike.discard(id)
            if not alike:
                del self._unjudged[waiter.shape]
        self.shapes.give_back(waiter.shape)
        if queue is not None:
            self.claims.on_leave(queue, id)

    def _pending(self, workload: Workload) -> PendingWorkload:
        shape = self.shapes.intern(workload.priority, workload.pod_sets, workload.run_s)
        return PendingWorkload(workload, shape, self._requeue_by)

    def _interned(self, shape: Shape) -> Shape:
        return self.shapes.intern(shape.priority, shape.pod_sets, shape.run_s)

    def forget_inadmissible(self) -> None:
        """Forget all inadmissible workloads: a copy without releases tries none of them."""
        for queue in self._objects.cluster_queues.values():
            for waiter in queue.lines.drop_aside():
                del self.waiting[waiter.id]

    # Where they wait

    def queue_of(self, waiter: PendingWorkload) -> CachedQueue | None:
        """Return the ClusterQueue that a workload waits for; None without one."""
        return self._objects.queue_of(waiter.local_queue)

    def place(self, waiter: PendingWorkload) -> None:
        """Put a workload in its line."""
        queue = self.queue_of(waiter)
        if queue is None:
            self._unplaced[waiter.id] = waiter
            return
        self._unplaced.pop(waiter.id, None)
        labels = self._objects.namespaces.get(waiter.namespace)
        waiter.selected = labels is not None and selects(queue.spec.namespaces, labels)
        if waiter.id in self.claims.held_back:
            queue.lines.put_apart(waiter, HELD_BACK)
        elif waiter.waiting_until is None or waiter.waiting_until > self._wake_ups.now:
            queue.lines.put_apart(waiter, BACKING_OFF)
            self._wake_ups.back_off(waiter)
        else:
            # Q10: an equal workload failed since the last release.
            failed = self._as_kueue and waiter.shape in queue.failed
            queue.lines.put(waiter, aside=failed)
            self._wake_ups.due.add(queue.spec.name)
            self.starts.await_from(waiter.since)
            if queue.blocked and self.first(queue) is waiter:
                self.claims.unblock(queue)  # it goes before the blocking head

    def take_out(self, waiter: PendingWorkload) -> None:
        """Take a workload out of its line, and end its claim."""
        self.claims.drop(waiter.id)
        self._unplaced.pop(waiter.id, None)
        queue = self.queue_of(waiter)
        if queue is not None:
            queue.lines.drop(waiter)
        waiter.place = None

    def through(self, local_queue: tuple[str, str]) -> list[PendingWorkload]:
        """Return the workloads that wait in a LocalQueue."""
        known = local_queue in self._objects.local_queues
        waiting = self.waiting if known else self._unplaced
        return [one for one in waiting.values() if one.local_queue == local_queue]

    def set_namespace(self, name: str) -> None:
        """Put the workloads of a namespace in line anew, as its labels have changed."""
        for waiter in [one for one in self.waiting.values() if one.namespace == name]:
            self._requeue(waiter.id)

    def set_queue(self, old: CachedQueue | None, new: CachedQueue | None) -> None:
        """Put the workloads of a ClusterQueue in line anew, which has changed, come or gone."""
        if old is None:
            waiting = [one for one in self._unplaced.values() if self.queue_of(one) is new]
        else:
            self._forget_failed(old)
            waiting = list(old.lines)
        for waiter in waiting:
            waiter.place = None
            self.place(waiter)

    def _requeue(self, id: str) -> None:
        waiter = self.waiting.get(id)
        if waiter is not None and id not in self.claims.by_id:
            self.take_out(waiter)
            self.place(waiter)

    # Whose turn it is

    def heads(self) -> list[tuple[CachedQueue, PendingWorkload]]:
        """Take the head out of each line that has a workload to try; by ClusterQueue's name."""
        found = []
        due = self._wake_ups.due
        for name in sorted(due):
            queue = self._objects.cluster_queues.get(name)
            if (
                queue is None
                or not queue.active
                or not queue.lines.active
                or queue.blocked
                or (queue.strict and self._waits_for_claim(queue))
            ):
                due.discard(name)  # until one of these conditions changes
            else:
                found.append(queue)
        return [(queue, self._pop(queue)) for queue in found]

    def _waits_for_claim(self, queue: CachedQueue) -> bool:
        """Tell whether a claim holder of a queue goes before the first workload in line.

        A claim holder whose victims are being evicted goes before all.
        """
        claims = [self.claims.by_id[id] for id in queue.claims]
        if not claims or not all(claim.until for claim in claims):
            return bool(claims)
        first = self.first(queue)
        return first is None or any(self.before(queue, one.waiter, first) for one in claims)

    def before(self, queue: CachedQueue, one: PendingWorkload, other: PendingWorkload) -> bool:
        """Tell whether a workload of a queue is tried before another."""
        return self._rank(queue, one) < self._rank(queue, other)

    def _pop(self, queue: CachedQueue) -> PendingWorkload:
        head = self.first(queue)
        assert head is not None, f"no workload waits in {queue.spec.name}"
        queue.lines.drop(head)
        return head

    def first(self, queue: CachedQueue) -> PendingWorkload | None:
        """Return the workload that is to be tried next in a ClusterQueue."""
        first = self._first(queue)
        if not queue.starts:
            return first
        reserved = [self.waiting[id] for id in queue.starts if id in self.waiting]
        reserved = [one for one in reserved if queue.lines.is_active(one)]
        best = min(reserved, key=lambda one: self._rank(queue, one), default=None)
        if best is None or first is None or queue.first_of_all:
            return best or first
        return best if best.priority >= first.priority else first

    def _first(self, queue: CachedQueue) -> PendingWorkload | None:
        sticky = self.waiting.get(queue.preemptor) if queue.sticky else None
        if sticky is not None and not queue.lines.is_active(sticky):
            sticky = None
        if not queue.lines.by_use:
            lane = queue.lines.lanes.get(None)
            return sticky or (lane.first() if lane is not None else None)
        best: tuple[_Rank, PendingWorkload] | None = None
        for key, lane in queue.lines.lanes.items():
            first = sticky if sticky is not None and sticky.local_queue == key else lane.first()
            if first is None or key is None:
                continue
            rank = self._rank(queue, first)
            if best is None or rank < best[0]:
                best = (rank, first)
        return best[1] if best is not None else None

    def line(self, name: str) -> list[PendingWorkload]:
        """Return the workloads that wait in a ClusterQueue, in the order in which they are tried.

        First claim holders, then workloads with a reserved start, where it goes before all others;
        elsewhere a reserved start goes before its own priority. View `v_queue_position` has the
        same order.
        """
        queue = self._objects.cluster_queues[name]
        claimed = (self.claims.by_id[id].waiter for id in queue.claims)
        before = queue.starts if queue.first_of_all else ()
        reserved = [one for one in queue.lines if one.id in before]
        others = (one for one in queue.lines if one.id not in before)
        parts = (claimed, reserved, others)
        return [w for part in parts for w in sorted(part, key=lambda one: self._rank(queue, one))]

    def _rank(self, queue: CachedQueue, waiter: PendingWorkload) -> _Rank:
        used = self._used_by(waiter.local_queue) if queue.lines.by_use else None
        later = not queue.sticky or waiter.id != queue.preemptor
        behind = waiter.id not in queue.starts
        return (used or 0.0, later, -waiter.priority, behind, waiter.since, waiter.uid)

    def put_back(
        self, waiter: PendingWorkload, requeue: str, reason: str, hopeless: bool = False
    ) -> None:
        """Put a head that was not admitted back into its line, by a requeue reason.

        `hopeless`: quota that becomes free would not make it fit.
        """
        queue = self.queue_of(waiter)
        if queue is None:
            self._unplaced[waiter.id] = waiter
            return
        if requeue == PENDING_PREEMPTION:
            sticky = self._as_kueue and not queue.strict  # Q1
            self.claims.let_first(queue, waiter.id, sticky)
        at_once = requeue in AT_ONCE
        if queue.strict:
            at_once = requeue != NAMESPACE_MISMATCH and not hopeless
        unfinished = waiter.last is not None and waiter.last.unfinished
        if at_once or (unfinished and not hopeless and requeue != NAMESPACE_MISMATCH):
            queue.lines.put(waiter, aside=False)
            self._wake_ups.due.add(queue.spec.name)
            return
        queue.lines.put(waiter, aside=True)
        if requeue in (NO_FIT, NO_CANDIDATES) and (not queue.strict or hopeless):
            self._note_failure(queue, waiter, reason)

    def wake(self) -> None:
        """Let workloads be tried whose back-off is over, or for which quota became free."""
        for waiter in self._wake_ups.woken():
            if self.waiting.get(waiter.id) is waiter and waiter.apart == BACKING_OFF:
                queue = self.queue_of(waiter)
                if queue is not None and waiter.place is queue.lines:
                    self.take_out(waiter)
                    self.place(waiter)
        self.try_released()

    def try_released(self) -> None:
        """Let workloads be tried again in trees where quota became free."""
        released, objects = self._wake_ups.released, self._objects
        if not released:
            return
        trees = {
            objects.forest.queues[name].root: name
            for name in released
            if name in objects.cluster_queues
        }
        for one in trees.values():
            for name in objects.tree(one):
                queue = objects.cluster_queues[name]
                self._forget_failed(queue)
                self.claims.unblock(queue)
                self.claims.reconsider(queue)
                queue.lines.try_again()
                self._wake_ups.due.add(name)
        released.clear()

    # Why they wait

    def mark_inadmissible(self, ids: Iterable[str]) -> None:
        """Forget where searches stopped, as the number of cycles between two events is unknown.

        Where a workload is to be tried again whatever happens, so are all behind it: a start does
        not know either which of these were tried before it came to the head.
        """
        for id in ids:
            waiter = self.waiting.get(id)
            queue = self.queue_of(waiter) if waiter is not None else None
            if waiter is not None:
                waiter.last = None
            if queue is not None and queue.lines.active:
                self._forget_failed(queue)
                queue.lines.try_again()
        for id in [one for one in self.judged if self.answer(one) is None]:
            self.judged.discard(id)
            if (waiter := self.waiting.get(id)) is not None:
                self._unjudged.setdefault(waiter.shape, set()).add(id)

    def answer(self, id: str) -> Answer | None:
        """Return why a workload waits that was not tried itself, None if the reason is unknown."""
        waiter = self.waiting.get(id)
        queue = self.queue_of(waiter) if waiter is not None else None
        if waiter is None or queue is None or not queue.active:
            return None
        if waiter.id in self.claims.by_id:
            return (waiter.reason, waiter.message) if waiter.reason else None
        if waiter.apart == HELD_BACK and waiter.place is queue.lines:
            first = self.waiting.get(self.claims.held_back[id])
            return (PENDING_WAITING_FOR_QUOTA, gave_way(first.uid)) if first is not None else None
        failed = queue.failed.get(waiter.shape)
        if failed is not None and not queue.lines.is_active(waiter):
            return failed.reason, BYPASSED if self._as_kueue else failed.message
        if not queue.strict or (self.first(queue) is waiter and not queue.claims):
            return None
        return BEHIND if queue.blocked or queue.claims else None

    def short_of(self, id: str) -> tuple[Shortage, ...]:
        """Return the shortages of the equal workload that was tried in place of a workload."""
        waiter = self.waiting.get(id)
        queue = self.queue_of(waiter) if waiter is not None else None
        if waiter is None or queue is None or queue.lines.is_active(waiter):
            return ()
        failed = queue.failed.get(waiter.shape)
        return failed.short if failed is not None else ()

    def _note_failure(self, queue: CachedQueue, waiter: PendingWorkload, reason: str) -> None:
        if waiter.shape not in queue.failed:
            self._interned(waiter.shape)
        queue.failed[waiter.shape] = Failure(reason, waiter.message, waiter.since, waiter.short)
        self.judged |= self._unjudged.pop(waiter.shape, set())
        older = None if self._as_kueue else waiter.since  # Q10
        queue.lines.set_aside(waiter.shape, older)

    def _forget_failed(self, queue: CachedQueue) -> None:
        for shape in queue.failed:
            self.shapes.give_back(shape)
        queue.failed.clear()
