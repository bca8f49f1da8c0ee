"""PendingQueue: workloads that wait in a ClusterQueue, in their order, by shape.

Theory. Waiting workloads of one shape are one question, so they wait together, in a *bucket*:
active workloads, which are to be tried, in one heap, inadmissible workloads in another. Moving a
whole shape swaps the two heaps and looks at no waiter. A heap over the first waiters of all buckets
finds the head. Where LocalQueues share by use each has a *lane* of its own, since use comes before
priority and changes all the time.

Order within a lane: priority, descending; the time since when the workload queues; uid.

Invariant: each waiter is in exactly one heap, once, or in none; to pop, put or drop a waiter costs
the logarithm of the line's length.
"""

import heapq
from collections.abc import Container, Iterator

from podgroup.admission.holding import PendingWorkload
from podgroup.admission.shape import Shape

_Key = tuple[float, str, int, PendingWorkload]


class ShapeHeap:
    """Waiters of one shape in order; waiters that left are skipped when they come up."""

    __slots__ = ("_heap", "live")

    def __init__(self) -> None:
        self._heap: list[_Key] = []
        self.live = 0

    def put(self, waiter: PendingWorkload) -> None:
        """Put a waiter in that is in no line."""
        waiter.serial += 1
        waiter.place = self
        heapq.heappush(self._heap, (waiter.since, waiter.uid, waiter.serial, waiter))
        self.live += 1

    def drop(self, waiter: PendingWorkload) -> None:
        """Take a waiter out of this line."""
        waiter.place = None
        waiter.serial += 1
        self.live -= 1
        if len(self._heap) > 2 * self.live + 16:
            self._heap = [key for key in self._heap if self._holds(key)]
            heapq.heapify(self._heap)

    def first(self) -> PendingWorkload | None:
        """Return the next waiter."""
        while self._heap and not self._holds(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][3] if self._heap else None

    def absorb(self, other: "ShapeHeap") -> None:
        """Take over all waiters of another line."""
        for key in other._heap:
            if other._holds(key):
                self.put(key[3])
        other._heap = []
        other.live = 0

    def __iter__(self) -> Iterator[PendingWorkload]:
        return (key[3] for key in self._heap if self._holds(key))

    def _holds(self, key: _Key) -> bool:
        return key[3].place is self and key[3].serial == key[2]


class Bucket:
    """The waiters of one shape in one lane.

    Waiters whose namespace the queue does not select have a bucket of their own, since quota that
    becomes free is of no use to them.
    """

    __slots__ = ("active", "aside", "lane", "selected", "shape")

    def __init__(self, lane: "Lane", shape: Shape, selected: bool) -> None:
        self.lane = lane
        self.shape = shape
        self.selected = selected
        self.active = ShapeHeap()
        self.aside = ShapeHeap()


class Lane:
    """Waiters in the order of priority and time alone."""

    __slots__ = ("_heads", "buckets", "local_queue")

    def __init__(self, local_queue: tuple[str, str] | None) -> None:
        self.local_queue = local_queue
        self.buckets: dict[tuple[Shape, bool], Bucket] = {}
        self._heads: list[tuple[int, float, str, int, PendingWorkload, Bucket]] = []

    def bucket(self, waiter: PendingWorkload) -> Bucket:
        """Return the bucket of a waiter."""
        key = (waiter.shape, waiter.selected)
        found = self.buckets.get(key)
        if found is None:
            found = self.buckets[key] = Bucket(self, *key)
        return found

    def note(self, bucket: Bucket) -> None:
        """Enter a bucket's first waiter, which may have changed."""
        waiter = bucket.active.first()
        if waiter is not None:
            entry = (-waiter.priority, waiter.since, waiter.uid, waiter.serial, waiter, bucket)
            heapq.heappush(self._heads, entry)
        if len(self._heads) > 4 * len(self.buckets) + 64:
            firsts = [(one.active.first(), one) for one in self.buckets.values()]
            self._heads = [
                (-first.priority, first.since, first.uid, first.serial, first, one)
                for first, one in firsts
                if first is not None
            ]
            heapq.heapify(self._heads)

    def first(self) -> PendingWorkload | None:
        """Return the next waiter."""
        heads = self._heads
        while heads:
            _, _, _, serial, waiter, bucket = heads[0]
            if waiter.place is bucket.active and waiter.serial == serial:
                return waiter
            heapq.heappop(heads)
        return None


class PendingQueue:
    """All lanes of a ClusterQueue. `by_use`: one lane per LocalQueue."""

    def __init__(self, by_use: bool) -> None:
        self.by_use = by_use
        self.lanes: dict[tuple[str, str] | None, Lane] = {}
        self.active = 0
        self.waiting_aside: set[Bucket] = set()
        """Buckets that a release lets be tried again."""
        self.apart: dict[str, dict[str, PendingWorkload]] = {}
        """Reason -> waiters that wait for something other than quota."""

    def put(self, waiter: PendingWorkload, aside: bool) -> None:
        """Put a waiter in, active, or inadmissible with `aside`."""
        bucket = self._bucket(waiter)
        if aside:
            bucket.aside.put(waiter)
            self._note_aside(bucket)
            return
        bucket.active.put(waiter)
        self.active += 1
        if bucket.active.first() is waiter:
            bucket.lane.note(bucket)

    def put_apart(self, waiter: PendingWorkload, reason: str) -> None:
        """Put a waiter in that is not tried again before `reason` is over."""
        waiter.place = self
        waiter.apart = reason
        self.apart.setdefault(reason, {})[waiter.id] = waiter

    def drop(self, waiter: PendingWorkload) -> None:
        """Take a waiter out, wherever it is."""
        place = waiter.place
        if place is self:
            alike = self.apart[waiter.apart]
            del alike[waiter.id]
            if not alike:
                del self.apart[waiter.apart]
            waiter.place = None
            return
        if not isinstance(place, ShapeHeap):
            return
        bucket = self._bucket(waiter)
        was_active = place is bucket.active
        place.drop(waiter)
        if was_active:
            self.active -= 1
            bucket.lane.note(bucket)
        self._tidy(bucket)

    def is_active(self, waiter: PendingWorkload) -> bool:
        """Tell whether a waiter is active: to be tried."""
        lane = self.lanes.get(waiter.local_queue if self.by_use else None)
        key = (waiter.shape, waiter.selected)
        bucket = lane.buckets.get(key) if lane is not None else None
        return bucket is not None and waiter.place is bucket.active

    def set_aside(self, shape: Shape, since: float | None = None) -> None:
        """Make all waiters of a shape inadmissible, without looking at each.

        With `since`, lanes whose first waiter queues for longer are left as they are.
        """
        alike = [
            bucket
            for lane in self.lanes.values()
            for selected in (True, False)
            if (bucket := lane.buckets.get((shape, selected))) is not None
        ]
        for bucket in alike:
            first = bucket.active.first()
            if first is None or (since is not None and first.since < since):
                continue
            self.active -= bucket.active.live
            bucket.active, bucket.aside = _joined(bucket.aside, bucket.active)
            self._note_aside(bucket)

    def drop_aside(self) -> list[PendingWorkload]:
        """Take all inadmissible waiters out at once, and return them."""
        dropped: list[PendingWorkload] = []
        for lane in self.lanes.values():
            for bucket in lane.buckets.values():
                dropped += bucket.aside
                bucket.aside = ShapeHeap()
        for waiter in dropped:
            waiter.place = None
        self.waiting_aside.clear()
        return dropped

    def try_again(self) -> None:
        """Let all inadmissible waiters be tried again."""
        for bucket in self.waiting_aside:
            self.active += bucket.aside.live
            bucket.aside, bucket.active = _joined(bucket.active, bucket.aside)
            bucket.lane.note(bucket)
        self.waiting_aside.clear()

    def firsts(self) -> Iterator[PendingWorkload]:
        """Yield the next waiter of each shape in each lane, active or inadmissible."""
        return self.oldest(())

    def oldest(self, but: Container[str]) -> Iterator[PendingWorkload]:
        """Yield the oldest waiter of each shape in each lane, apart from the ids in `but`."""
        for lane in self.lanes.values():
            for bucket in lane.buckets.values():
                found = [one for one in (bucket.active.first(), bucket.aside.first()) if one]
                if any(one.id in but for one in found):
                    found = [one for one in (*bucket.active, *bucket.aside) if one.id not in but]
                if found:
                    yield min(found, key=lambda one: (one.since, one.uid))

    def __iter__(self) -> Iterator[PendingWorkload]:
        for lane in self.lanes.values():
            for bucket in lane.buckets.values():
                yield from bucket.active
                yield from bucket.aside
        for alike in self.apart.values():
            yield from alike.values()

    def _bucket(self, waiter: PendingWorkload) -> Bucket:
        key = waiter.local_queue if self.by_use else None
        lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = Lane(key)
        return lane.bucket(waiter)

    def _note_aside(self, bucket: Bucket) -> None:
        if bucket.selected:
            self.waiting_aside.add(bucket)

    def _tidy(self, bucket: Bucket) -> None:
        if not bucket.active.live and not bucket.aside.live:
            self.waiting_aside.discard(bucket)
            del bucket.lane.buckets[bucket.shape, bucket.selected]
            if not bucket.lane.buckets:
                self.lanes.pop(bucket.lane.local_queue, None)
        elif not bucket.aside.live:
            self.waiting_aside.discard(bucket)


def _joined(source: ShapeHeap, target: ShapeHeap) -> tuple[ShapeHeap, ShapeHeap]:
    """Return an empty line and a line with all waiters of both; the smaller line is moved."""
    if source.live > target.live:
        source, target = target, source
    target.absorb(source)
    return source, target
