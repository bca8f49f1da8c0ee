"""Reclaimers: waiting workloads that would reclaim at once the quota that a borrower would get.

Theory. A borrower runs on quota that others lend, and gives way to a lender that needs it. Where a
lender's workload waits already, an admission by borrowing ends as it begins, and its victims lose
their work for nothing. So a borrower is compared with waiting workloads before it preempts: as if
the borrower were admitted, each shape that waits in another ClusterQueue of its tree is nominated.
A workload that would preempt in the borrower's ClusterQueue goes first.

A reclaimer goes first once in a pass: if it is not admitted it is skipped afterwards.

Invariant: the cache and the trees are the same afterwards as before.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from podgroup.admission.cache.cached_queue import CachedQueue
from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.head import Head
from podgroup.admission.holding import AdmittedWorkload, PendingWorkload
from podgroup.admission.model import PodSetAssignment, Reservation
from podgroup.admission.nominate import Nominator
from podgroup.admission.plan import Mode
from podgroup.admission.victims import NEVER, Victim


class GivenWay(NamedTuple):
    """A borrower's ClusterQueue, and the id of the waiting workload that goes first."""

    queue: str
    to: str


class Reclaimers:
    """Looks for reclaimers, and remembers which borrowers gave way to them in this pass."""

    def __init__(self, cache: SchedulerCache, nominator: Nominator) -> None:
        self._cache = cache
        self._nominator = nominator
        self._given_way: list[GivenWay] = []
        self._had_turn: set[str] = set()
        """Reclaimers that went first and have been tried since."""

    def begin(self) -> None:
        """Begin a pass."""
        self._given_way.clear()
        self._had_turn.clear()

    def of_head(self, head: Head) -> PendingWorkload | None:
        """Return the workload that would reclaim what a head is about to get; None: none would."""
        plan, node = head.planned, head.node
        borrows = node.parent is not None and any(
            node.borrows(key, amount) for key, amount in plan.usage.items() if amount
        )
        if not borrows:
            return None
        with self._entered(head.waiter, node.name, plan.assignments(), head.targets):
            return self._search(head.waiter.priority, node.name)

    def give_way(self, queue: str, to: PendingWorkload) -> None:
        """Let a reclaimer go before a head of `queue`; workloads of the tree are tried again."""
        self._given_way.append(GivenWay(queue, to.id))
        self._cache.wake_ups.released.add(queue)

    def reconsider(self) -> bool:
        """Let borrowers that gave way be tried again; tell whether there are any."""
        if not self._given_way:
            return False
        for one in self._given_way:
            self._cache.wake_ups.released.add(one.queue)
            self._had_turn.add(one.to)
        self._given_way.clear()
        return True

    @contextmanager
    def _entered(
        self,
        waiter: PendingWorkload,
        queue: str,
        pod_sets: tuple[PodSetAssignment, ...],
        victims: Iterable[Victim],
    ) -> Iterator[None]:
        """Enter a workload as if it were admitted, and take its victims out."""
        objects = self._cache.objects
        forest, places = objects.forest, objects.places
        workload = waiter.workload()
        reservation = Reservation(
            cluster_queue=queue, at=self._cache.wake_ups.now, pod_sets=pod_sets
        )
        holding = AdmittedWorkload(workload, reservation, self._cache.configuration.requeue_by)
        gone = [one.holding for one in victims if one.holding.evicted is None]
        for other in gone:
            forest.queues[other.cluster_queue].give(other.usage)
            del forest.queues[other.cluster_queue].holdings[other.id]
            places.charge(other.given, -1)
        node = forest.queues[queue]
        node.take(holding.usage)
        node.holdings[holding.id] = holding
        places.charge(holding.given)
        try:
            yield
        finally:
            places.charge(holding.given, -1)
            del node.holdings[holding.id]
            node.give(holding.usage)
            for other in gone:
                forest.queues[other.cluster_queue].take(other.usage)
                forest.queues[other.cluster_queue].holdings[other.id] = other
                places.charge(other.given)

    def _search(self, priority: int, borrower: str) -> PendingWorkload | None:
        objects = self._cache.objects
        for name in objects.tree(borrower):
            queue = objects.cluster_queues[name]
            policy = queue.spec.reclaim_within_cohort
            if name == borrower or policy in NEVER or not queue.active:
                continue
            for waiter in self._to_try(queue):
                spared = policy == "LowerPriority" and waiter.priority <= priority
                if not spared and self._would_reclaim(queue, waiter, borrower):
                    return waiter
        return None

    def _to_try(self, queue: CachedQueue) -> Iterator[PendingWorkload]:
        """Yield the workloads of a ClusterQueue that may be tried next, one of each shape."""
        if queue.strict:
            first = self._cache.queues.waiting.get(queue.head) if queue.blocked else None
            first = first or self._cache.queues.first(queue)
            found = [first] if first is not None else []
        else:
            found = list(queue.lines.firsts())
        yield from (one for one in found if one.id not in self._had_turn and one.selected)

    def _would_reclaim(self, queue: CachedQueue, waiter: PendingWorkload, borrower: str) -> bool:
        node = self._cache.objects.forest.queues[queue.spec.name]
        head = Head(waiter, queue.offer, node, False)
        reason, message, short = waiter.reason, waiter.message, waiter.short
        try:
            if not self._nominator.examine(head):
                return False
            self._nominator.nominate(head, None)
        finally:
            waiter.reason, waiter.message, waiter.short = reason, message, short
        now = self._cache.wake_ups.now
        return head.planned.mode is Mode.PREEMPT and any(
            one.holding.cluster_queue == borrower or one.holding.at >= now for one in head.targets
        )
