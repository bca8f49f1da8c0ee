"""Reserved starts of workloads that have waited too long, and which workloads may still pass.

Theory. Running workloads end, at the latest at their bound, so the quota that a waiting workload
needs becomes free at some time: that is its *reserved start*. Workloads that run without a bound
end at an unknown time, after all that have one. From then on another workload is admitted only
if it

- takes nothing of the same flavors and resources;
- ends before the start, by its bound;
- leaves the quota that the start needs, when all that is to end by then has ended; or
- could preempt the starting workload at once: by its priority in the same ClusterQueue, or as a
  neighbour within its nominal quota, from which that workload would borrow.

So quota stays in use, and the workload starts by then. As workloads end before their bound, the
time comes nearer for those that would pass; the promised time stays. Where others were admitted by
such a right, or a workload runs beyond its bound, the start is worked out anew. A start that was
reserved earlier goes first: a later start is worked out, and keeps others off, as if the earlier
start had been made already.

Invariant: the cache and the trees are the same after a look ahead as before.
"""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import takewhile
from math import inf

from podgroup.admission.cache.cached_queue import CachedQueue
from podgroup.admission.cache.objects import Objects
from podgroup.admission.cache.reservations import enter_usage
from podgroup.admission.cache.reserved_starts import NEVER, ReservedStart
from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.head import Head
from podgroup.admission.holding import AdmittedWorkload, PendingWorkload, grown_id, unadmitted_id
from podgroup.admission.plan import Mode, Plan
from podgroup.admission.topology.places import given
from podgroup.admission.victims import NEVER as NO_VICTIMS
from podgroup.admission.wording import KEPT_FOR_LONGER_WAIT
from podgroup.model.names import PENDING_WAITING_FOR_QUOTA

Nominate = Callable[[Head, Sequence[Mapping[str, str]] | None], None]
"""(head, flavors by podset or None for any): nominates the head, and writes its plan."""


class Starts:
    """Works out reserved starts, and holds heads against them."""

    def __init__(self, cache: SchedulerCache, nominate: Nominate) -> None:
        self._cache = cache
        self._starts = cache.starts
        self._nominate = nominate

    # Workloads that have waited too long

    def review(self) -> None:
        """Work out anew the starts that no longer hold, and reserve starts that are due."""
        cache, starts = self._cache, self._starts
        for start in list(starts.by_id.values()):
            waiter = cache.queues.waiting.get(start.id)
            queue = cache.queues.queue_of(waiter) if waiter is not None else None
            if waiter is None or queue is None or not self._keeps(queue, waiter, start):
                starts.end(start.id)
            elif start.id not in cache.claims.by_id:
                anew = self._anew(queue, waiter, start)
                if anew is None or self._taken(queue, anew):
                    starts.end(start.id)
                elif anew is not start:
                    starts.reserve(anew)
        if cache.wake_ups.now >= starts.due_at:
            starts.due_at = NEVER
            for _, queue in sorted(cache.objects.cluster_queues.items()):
                self._look(queue)

    def started(self, id: str) -> None:
        """End the reserved start of a workload that starts, and reserve its ClusterQueue's next.

        This is done amid a pass; all other starts are worked out anew after it. Heads are being
        tried, and the first of a StrictFIFO queue may be among them, so its next start waits.
        """
        starts = self._starts
        queue = self._cache.objects.cluster_queues[starts.by_id[id].queue]
        due_at = starts.due_at
        starts.end(id)
        if queue.strict and not queue.first_of_all:
            return
        starts.due_at = due_at
        self._look(queue)

    def _look(self, queue: CachedQueue) -> None:
        """Reserve starts for the oldest workloads of a ClusterQueue, at most one in a flavor."""
        if not queue.active:
            return
        starts, taken = self._starts, self._flavors_taken
        now, longest_s = self._cache.wake_ups.now, starts.longest_wait_s
        passed_over = set(queue.starts)
        # Behind the first start of a StrictFIFO queue there is no other, in whatever flavor.
        while not (queue.offer.flavors <= taken(queue) or (queue.strict and queue.starts)):
            waiter = min(queue.lines.oldest(passed_over), key=_age, default=None)
            if waiter is None:
                break
            if now < waiter.since + longest_s:
                starts.await_from(waiter.since)
                break
            eligible = _eligible(waiter) and not self._behind(queue, waiter)
            start = self._worked_out(queue, waiter) if eligible else None
            if start is not None and not self._taken(queue, start):
                starts.reserve(start)
                self._cache.claims.unblock(queue)
                passed_over.add(waiter.id)
            else:  # it may fit another time, and so may its equals
                starts.due_at = min(starts.due_at, now + longest_s)
                passed_over.update(one.id for one in queue.lines if one.shape is waiter.shape)

    def _keeps(self, queue: CachedQueue, waiter: PendingWorkload, start: ReservedStart) -> bool:
        """Tell whether a workload may be tried in the ClusterQueue of its reserved start."""
        here = queue.active and queue.spec.name == start.queue
        in_line = here and waiter.place is not queue.lines
        return in_line and not self._behind(queue, waiter)

    def _behind(self, queue: CachedQueue, waiter: PendingWorkload) -> bool:
        """Tell whether a workload of a StrictFIFO queue waits behind one of higher priority."""
        queues = self._cache.queues
        if not queue.strict or queue.first_of_all:
            return False
        first = queues.waiting.get(queue.head) if queue.blocked else queues.first(queue)
        return first is not None and first.priority > waiter.priority

    def _flavors_taken(self, queue: CachedQueue, but: str = "") -> set[str]:
        by_id = self._starts.by_id
        return {flavor for id in queue.starts if id != but for flavor in by_id[id].flavors}

    def _taken(self, queue: CachedQueue, start: ReservedStart) -> bool:
        return not start.flavors.isdisjoint(self._flavors_taken(queue, start.id))

    def _anew(
        self, queue: CachedQueue, waiter: PendingWorkload, start: ReservedStart
    ) -> ReservedStart | None:
        """Return the start that holds now, the same start if it still holds; None: none does."""
        late = start.by is not None and start.by < self._cache.wake_ups.now
        if not late and self._seen(start) == start.seen:
            return start
        sooner = None if late else self._worked_out(queue, waiter, start)
        if sooner is None:
            return self._worked_out(queue, waiter)
        if start.by is None and sooner.by is not None:
            return sooner  # all that ran before without a bound has ended
        start.soonest = sooner.soonest
        self._look_anew(start)
        return start

    def _worked_out(
        self, queue: CachedQueue, waiter: PendingWorkload, known: ReservedStart | None = None
    ) -> ReservedStart | None:
        """Return the first start of a workload as running workloads end; None if it never fits.

        With a `known` start: by the promised time, in the same flavors.
        """
        cache, now = self._cache, self._cache.wake_ups.now
        name, earlier = queue.spec.name, [*self._earlier(queue.spec.name, waiter.id)]
        at = now if known is None else known.at
        only = None if known is None else known.flavors_by_set
        held = self._held(name)
        if known is not None:
            held = [one for one in held if self._ends(one, known, known.by)]
        held.sort(key=lambda one: (self._end_of(one, waiter.id), one.at, one.id))

        def after(count: int) -> Head | None:
            """Return the head if it fits once `count` workloads have ended, else None."""
            ended.first(count)
            head = Head(waiter, queue.offer, cache.objects.forest.queues[name], False)
            self._nominate(head, only)
            return head if head.planned.mode is Mode.FIT else None

        with self._ahead(held, earlier, name, waiter.id) as ended:
            least, most, found = 0, len(held), after(len(held))
            while found is not None and least < most:
                middle = (least + most) // 2
                sooner = after(middle)
                if sooner is None:
                    least = middle + 1
                else:
                    most, found = middle, sooner
        if found is None:
            return None
        # A workload that fits already starts as soon as it has its turn: it waits for no end.
        by = inf if most == 0 else self._end_of(held[most - 1], waiter.id)
        pod_sets = found.planned.assignments()
        start = ReservedStart(waiter.id, name, pod_sets, at, None if by == inf else by)
        if most == 0:
            start.soonest = now
        return start

    def _end_of(self, holding: AdmittedWorkload, id: str) -> float:
        """Return by when a holder gives its quota back; without a bound, or beyond it, never.

        Pods of workload `id` itself that run without admission are no obstacle: they end now.
        """
        now, by = self._cache.wake_ups.now, holding.reservation.ends_by
        if holding.id == unadmitted_id(id):
            return now
        return inf if by is None or by < now else by

    # Workloads that may pass

    def concern(self, head: Head) -> bool:
        """Tell whether there is a reserved start that a head may put off."""
        return bool(self._starts.by_id) and any(self._before(head))

    def put_off(self, head: Head) -> bool:
        """Tell whether a head would put off a reserved start by its plan."""
        plan = head.planned
        if plan.mode is Mode.NO_FIT or not (plan.mode is Mode.FIT or head.deferred or head.targets):
            return False
        return not all(self._passes(head, start) for start in self._before(head))

    def keep_off(self, head: Head) -> None:
        """Nominate a head without the quota of reserved starts; if it does not fit, note why."""
        with self._made(list(self._before(head))):
            self._nominate(head, None)
        if head.planned.mode is not Mode.FIT or self.put_off(head):
            head.plan = Plan([], {}, PENDING_WAITING_FOR_QUOTA)
            head.targets, head.deferred = [], False
            head.message = KEPT_FOR_LONGER_WAIT

    def _before(self, head: Head) -> Iterator[ReservedStart]:
        """Yield the reserved starts that a head may not put off.

        For a head that takes only flavors of its own start they are the earlier starts.
        """
        own = self._starts.by_id.get(head.waiter.id)
        taken = {flavor for flavor, _ in head.planned.usage}
        if own is not None and taken <= own.flavors:
            return self._earlier(head.node.name, own.id)
        return self._in_tree(head.node.name, self._starts.by_id.keys() - {head.waiter.id})

    def _earlier(self, name: str, id: str) -> Iterator[ReservedStart]:
        """Yield the starts that were reserved before a workload's, all if it has none."""
        return self._in_tree(name, {*takewhile(lambda one: one != id, self._starts.by_id)})

    def _in_tree(self, name: str, ids: Container[str]) -> Iterator[ReservedStart]:
        """Yield the starts of workloads `ids` that wait in a ClusterQueue's tree, in order."""
        cache, queues = self._cache, self._cache.objects.forest.queues
        root = queues[name].root
        for start in list(self._starts.by_id.values()):
            waits = start.id in cache.queues.waiting and start.id not in cache.claims.by_id
            here = start.queue in queues and queues[start.queue].root is root
            if start.id in ids and waits and here:
                yield start

    def _passes(self, head: Head, start: ReservedStart) -> bool:
        plan, run_s = head.planned, head.waiter.run_s
        taken = {key: amount for key, amount in plan.usage.items() if amount}
        if taken.keys().isdisjoint(start.usage) and not plan.places:
            return True
        if plan.mode is Mode.FIT and run_s is not None and start.soonest is not None:
            if self._cache.wake_ups.now + run_s <= start.soonest:
                return True
        if self._by_right(head, start):
            return True
        if plan.places and self._cache.objects.places.trees:
            return plan.mode is Mode.FIT and self._fits_beside(head, start)
        spare = self._spare(start, head.node.name)
        return all(amount <= spare.get(key, amount) for key, amount in taken.items())

    def _by_right(self, head: Head, start: ReservedStart) -> bool:
        """Tell whether a head could preempt the workload of a start at once."""
        waiter = self._cache.queues.waiting[start.id]
        if head.node.name == start.queue:
            policy = head.offer.queue.within_cluster_queue
            newer = policy == "LowerOrNewerEqualPriority" and head.waiter.since < waiter.since
            least = waiter.priority + (not newer)
            return policy not in NO_VICTIMS and head.waiter.priority >= least
        if head.planned.borrowing:
            return False
        with self._at(start):
            node = self._cache.objects.forest.queues[start.queue]
            return any(node.borrows(key, amount) for key, amount in start.usage.items())

    # Looking ahead

    def _seen(self, start: ReservedStart) -> object:
        """Return a value that changes whenever the look ahead may change."""
        objects = self._cache.objects
        tree, nodes = objects.tree(start.queue), objects.forest.queues
        earlier = [one.id for one in self._earlier(start.queue, start.id)]
        generation = sum(objects.cluster_queues[name].generation for name in tree)
        return generation, [dict(nodes[name].usage) for name in tree], earlier

    def _look_anew(self, start: ReservedStart) -> None:
        start.seen = self._seen(start)
        start.spare.clear()

    def _spare(self, start: ReservedStart, name: str) -> Mapping[tuple[str, str], int]:
        """Return what a ClusterQueue can have beside a start, of the resources that it needs."""
        if start.seen != self._seen(start):
            self._look_anew(start)
        found = start.spare.get(name)
        if found is None:
            node = self._cache.objects.forest.queues[name]
            with self._at(start), self._made([start]):
                found = {key: node.available(key) for key in start.usage}
            start.spare[name] = found
        return found

    def _fits_beside(self, head: Head, start: ReservedStart) -> bool:
        """Tell whether the workload of a start fits beside a head's plan."""
        objects, waiter = self._cache.objects, self._cache.queues.waiting[start.id]
        placed = given(head.waiter.shape.pod_sets, head.planned.assignments())
        queue, node = objects.cluster_queues[start.queue], objects.forest.queues[start.queue]
        starting = Head(waiter, queue.offer, node, False)
        with self._at(start):
            head.node.take(head.planned.usage)
            objects.places.charge(placed)
            try:
                self._nominate(starting, start.flavors_by_set)
            finally:
                objects.places.charge(placed, -1)
                head.node.give(head.planned.usage)
        return starting.planned.mode is Mode.FIT

    def _ends(self, holding: AdmittedWorkload, start: ReservedStart, by: float | None) -> bool:
        """Tell whether a holder ends before a start; `by` None: if it ran when that was made."""
        if by is None:
            return holding.at <= start.at
        return self._end_of(holding, start.id) <= by

    def _at(self, start: ReservedStart) -> AbstractContextManager[object]:
        """Look at quota as it will be at a start, just before the start."""
        held = self._held(start.queue)
        ending = [one for one in held if self._ends(one, start, start.soonest)]
        earlier = [*self._earlier(start.queue, start.id)]
        return self._ahead(ending, earlier, start.queue, start.id)

    @contextmanager
    def _made(self, starts: Sequence[ReservedStart]) -> Iterator[None]:
        """Look at quota as if some reserved starts were made."""
        nodes = self._cache.objects.forest.queues
        for start in starts:
            nodes[start.queue].take(start.usage)
        try:
            yield
        finally:
            for start in starts:
                nodes[start.queue].give(start.usage)

    @contextmanager
    def _ahead(
        self,
        ending: Sequence[AdmittedWorkload],
        earlier: Sequence[ReservedStart],
        name: str,
        id: str,
    ) -> Iterator["_Ended"]:
        """Look at quota with `ending` ended, evictions complete, and earlier starts made."""
        cache, objects = self._cache, self._cache.objects
        queues, nodes = objects.cluster_queues, objects.forest.queues
        lines = [*((one.queue, one.id) for one in earlier), (name, id)]
        # Quota reserved for the head of a StrictFIFO queue is part of what its start takes.
        kept = [(nodes[at], queues[at].reserved) for at, head in lines if queues[at].head == head]
        with cache.reservations.without_leaving():
            present, objects.present = objects.present, objects.forest
            ended = _Ended(objects, ending)
            ended.first(len(ending))
            for node, usage in kept:
                node.give(usage)
            try:
                with self._made(earlier):
                    yield ended
            finally:
                for node, usage in kept:
                    node.take(usage)
                ended.first(0)
                objects.present = present

    def _held(self, name: str) -> list[AdmittedWorkload]:
        """Return the holders of quota in a ClusterQueue's tree that are not being evicted."""
        objects = self._cache.objects
        tree = objects.tree(name)
        return [one for each in tree for one in objects.forest.queues[each].holdings.values()]


class _Ended:
    """Holders that end one after the other, of which some count as ended."""

    def __init__(self, objects: Objects, ending: Sequence[AdmittedWorkload]) -> None:
        self._objects = objects
        self._ending = ending
        self._count = 0

    def first(self, count: int) -> None:
        """Count the first `count` holders as ended, entering only what changes."""
        for one in self._ending[self._count : count]:
            self._enter(one, -1)
        for one in self._ending[count : self._count]:
            self._enter(one, 1)
        self._count = count

    def _enter(self, one: AdmittedWorkload, sign: int) -> None:
        enter_usage(self._objects.forest.queues[one.cluster_queue], one, sign)
        self._objects.places.charge(one.given, sign)


def _age(waiter: PendingWorkload) -> tuple[float, str]:
    return waiter.since, waiter.uid


def _eligible(waiter: PendingWorkload) -> bool:
    grows = grown_id(waiter.id) != waiter.id  # it runs, and waits for more quota
    return waiter.selected and not waiter.invalid and not grows
