"""Reservations: admitted workloads, what they hold, and what their LocalQueues have used.

Theory. A workload holds quota and places from its admission until it is released. The present tree
counts them all the while, the tree of decisions only until the eviction begins. The `Ledger`
remembers use over time, where LocalQueues share by it.

Invariant: while the trees are up to date, each tree counts each reservation once.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple

from msgspec.structs import replace

from podgroup.admission.cache.ledger import Balance, Ledger
from podgroup.admission.cache.objects import Objects
from podgroup.admission.cache.wake_ups import WakeUps
from podgroup.admission.holding import AdmittedWorkload
from podgroup.admission.model import Configuration, Eviction, Reservation, Workload
from podgroup.admission.tree import Node, Usage


class FailedNodes(NamedTuple):
    """Failed nodes on which a workload has places; it is `movable` if its pods can be replaced."""

    nodes: tuple[str, ...]
    movable: bool


class Reservations:
    """Admitted workloads by id, and use by LocalQueue."""

    def __init__(self, objects: Objects, wake_ups: WakeUps, configuration: Configuration) -> None:
        self.admitted: dict[str, AdmittedWorkload] = {}
        self.failed_nodes: dict[str, FailedNodes] = {}
        """Workload -> its failed nodes, until a pass has decided about the workload."""
        sharing = configuration.usage_sharing
        self.ledger = Ledger(sharing) if sharing is not None else None
        self._objects = objects
        self._wake_ups = wake_ups
        self._requeue_by = configuration.requeue_by
        self._as_kueue = configuration.as_kueue
        self._leaving: dict[str, AdmittedWorkload] = {}
        """Workloads that are being evicted and have places."""
        self.leaving_later: set[str] = set()
        """Victims of postponed preemptions: counted as if they were being evicted."""
        self._in_use: dict[tuple[str, str], dict[str, int]] = {}

    def add(self, workload: Workload, reservation: Reservation) -> None:
        """Enter a workload's reservation, new or changed."""
        holding = AdmittedWorkload(workload, reservation, self._requeue_by)
        before = self.remove(workload.id)
        if before is not None:
            holding.began, holding.priority_class = before.began, before.priority_class
        self.enter(holding)

    def enter(self, holding: AdmittedWorkload) -> None:
        """Enter a workload that holds quota."""
        self.admitted[holding.id] = holding
        self._objects.places.charge(holding.given)
        self._use(holding, 1)
        self._count(holding)

    def remove(self, id: str) -> AdmittedWorkload | None:
        """Remove a workload that holds quota, and return it; None if it holds none."""
        holding = self.admitted.get(id)
        if holding is None:
            return None
        self._uncount(holding)
        self._objects.places.charge(holding.given, -1)
        del self.admitted[id]
        self._written_anew(holding)
        self._use(holding, -1)
        return holding

    def resize(self, id: str, usage: Usage) -> None:
        """Enter another amount of quota of a workload."""
        holding = self.admitted[id]
        before = holding.usage
        if before == usage:
            return
        self._uncount(holding)
        self._use(holding, -1)
        holding.usage = usage
        holding.keys.update(usage)
        self._use(holding, 1)
        self._count(holding)
        if any(usage.get(key, 0) < amount for key, amount in before.items()):
            self._wake_ups.on_release(holding.local_queue, holding.cluster_queue)

    def bound(self, id: str, ends_by: float | None) -> None:
        """Enter by when a workload gives its quota back (seconds), None: without a bound."""
        holding = self.admitted.get(id)
        if holding is not None and holding.reservation.ends_by != ends_by:
            holding.reservation = replace(holding.reservation, ends_by=ends_by)
            self._written_anew(holding)

    def evict(self, id: str, eviction: Eviction) -> AdmittedWorkload | None:
        """Enter that an eviction begins; return the workload, None if no eviction begins.

        The workload holds its quota until it is released.
        """
        holding = self.admitted.get(id)
        if holding is None or holding.evicted is not None:
            return None
        self._uncount(holding)
        holding.evicted = eviction
        self._count(holding)
        self._written_anew(holding)
        return holding

    def leave_later(self, ids: Iterable[str], sign: int = 1) -> None:
        """Count workloads as if they were being evicted; with `sign` -1 no longer."""
        for id in ids:
            holding = self.admitted.get(id)
            if holding is not None:
                self._uncount(holding)
            if sign > 0:
                self.leaving_later.add(id)
            else:
                self.leaving_later.discard(id)
            if holding is not None:
                self._count(holding)

    def charge_use(self, id: str, asked: Mapping[str, int]) -> None:
        """Charge a decided admission to the account of its LocalQueue, if use decides there."""
        holding = self.admitted[id]
        self._written_anew(holding)
        if (
            self.ledger is not None
            and self._objects.cluster_queues[holding.cluster_queue].lines.by_use
        ):
            key = holding.local_queue
            self.ledger.admitted(key, asked, self._in_use.get(key, {}), self._wake_ups.now)

    def fail_nodes(self, id: str, nodes: Iterable[str], movable: bool = True) -> None:
        """Enter the failed nodes among a workload's places; (): all are well again.

        The next pass decides about the workload. A single pod is not `movable`: it keeps its place.
        """
        named = tuple(sorted(set(nodes)))
        if named:
            self.failed_nodes[id] = FailedNodes(named, movable)
        else:
            self.failed_nodes.pop(id, None)

    def recount(self) -> None:
        """Count all reservations in trees that were built anew."""
        self._leaving.clear()
        for queue in self._objects.cluster_queues.values():
            queue.generation += 1
            queue.leaving = 0
        for holding in self.admitted.values():
            self._count(holding)

    def leaving_beside(self, name: str) -> int:
        """Return how many evictions are under way in the tree of a ClusterQueue."""
        queues = self._objects.cluster_queues
        return sum(queues[other].leaving for other in self._objects.tree(name))

    def without_leaving(self) -> AbstractContextManager[None]:
        """Look at places as they will be once evictions under way are complete."""
        one_tree = self._objects.present is self._objects.forest
        leaving = () if one_tree else self._leaving.values()
        return self._objects.places.without(holding.given for holding in leaving)

    def account(self, local_queue: tuple[str, str]) -> Balance | None:
        """Return the account of a LocalQueue, None where LocalQueues do not share by use."""
        return None if self.ledger is None else self.ledger.balance(local_queue)

    def put_back(self, local_queue: tuple[str, str], account: Balance | None) -> None:
        """Restore the account of a LocalQueue to a former balance."""
        if self.ledger is not None:
            self.ledger.put_back(local_queue, account)

    def used_by(self, local_queue: tuple[str, str]) -> float | None:
        """Return a LocalQueue's recent use, None if use does not matter."""
        queue = self._objects.local_queues.get(local_queue)
        return None if self.ledger is None or queue is None else self.ledger.used(queue)

    def sample_use(self) -> None:
        """Bring the accounts of LocalQueues up to date."""
        for local_queue in sorted(self._objects.local_queues):
            self._sample(local_queue)

    def _sample(self, local_queue: tuple[str, str]) -> None:
        queue = self._objects.local_queues.get(local_queue)
        if self.ledger is None or queue is None or queue.stop_policy != "None":
            return
        found = self._objects.cluster_queues.get(queue.cluster_queue)
        if (found is not None and found.lines.by_use) or self._as_kueue:  # Q13
            self.ledger.sample(queue, self._in_use.get(local_queue, {}), self._wake_ups.now)

    def _use(self, holding: AdmittedWorkload, sign: int) -> None:
        if self.ledger is None:
            return
        if not self._as_kueue:  # Q13
            self._sample(holding.local_queue)
        in_use = self._in_use.setdefault(holding.local_queue, {})
        for (_, resource), amount in holding.usage.items():
            in_use[resource] = in_use.get(resource, 0) + sign * amount
            if not in_use[resource]:
                del in_use[resource]
        if not in_use:
            del self._in_use[holding.local_queue]

    def _written_anew(self, holding: AdmittedWorkload) -> None:
        queue = self._objects.cluster_queues.get(holding.cluster_queue)
        if queue is not None:
            queue.generation += 1

    def _leaves(self, holding: AdmittedWorkload) -> bool:
        return holding.evicted is not None or holding.id in self.leaving_later

    def _count(self, holding: AdmittedWorkload) -> None:
        """Count a workload's reservation in the trees."""
        objects = self._objects
        queue = objects.cluster_queues.get(holding.cluster_queue)
        if objects.stale or queue is None:
            return
        leaving = self._leaves(holding)
        queue.leaving += holding.evicted is not None
        if leaving and holding.given:
            self._leaving[holding.id] = holding
        if objects.present is not objects.forest:
            enter_usage(objects.present.queues[holding.cluster_queue], holding, 1)
            if leaving:
                return
        node = objects.forest.queues[holding.cluster_queue]
        enter_usage(node, holding, 1)
        node.holdings[holding.id] = holding

    def _uncount(self, holding: AdmittedWorkload) -> None:
        objects = self._objects
        queue = objects.cluster_queues.get(holding.cluster_queue)
        if objects.stale or queue is None:
            return
        leaving = self._leaves(holding)
        queue.leaving -= holding.evicted is not None
        self._leaving.pop(holding.id, None)
        if objects.present is not objects.forest:
            enter_usage(objects.present.queues[holding.cluster_queue], holding, -1)
            if leaving:
                return
        node = objects.forest.queues[holding.cluster_queue]
        enter_usage(node, holding, -1)
        del node.holdings[holding.id]


def enter_usage(node: Node, holding: AdmittedWorkload, sign: int) -> None:
    """Enter a workload's usage in a ClusterQueue; with `sign` -1 take the usage out."""
    if holding.workload.unadmitted:
        node.run(holding.usage, sign)
    elif sign > 0:
        node.take(holding.usage)
    else:
        node.give(holding.usage)
