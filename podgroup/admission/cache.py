"""The cache: all that deciding remembers between two passes, and every event that changes it.

Theory. Objects, what is pending and what is admitted are entered here as they come and go; a pass
reads the cache and enters what it decided. The quota trees are kept up to date with it, so that no
event and no pass walks over all of them. There are two trees where quota is kept for preemptors:
the one that decisions are made on, as it will be when every eviction that is under way is complete
and every claim that waits for that is in; and the *present* one, with what is really held. An
admission needs room in both.

What is worth trying again is noted by tree: a *release* in a tree (a holder left, an object
changed) makes all that was inadmissible in it be tried again; an admission or a new waiter does
not.

Invariant: usage in the present tree is what the holdings add up to; in the other one it is that of
the holdings that stay, of the claims and of what blocked queues reserve.
"""

import heapq
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from podgroup.admission.holding import AdmittedWorkload, PendingWorkload, usage_of
from podgroup.admission.ledger import Ledger
from podgroup.admission.matching import selects
from podgroup.admission.model import (
    ClusterQueue,
    Cohort,
    Configuration,
    Eviction,
    Flavor,
    LocalQueue,
    PodSetAssignment,
    Reservation,
    Workload,
)
from podgroup.admission.options import SchedulerOptions
from podgroup.admission.queue import Failure, Queue
from podgroup.admission.shape import Shape, Shapes
from podgroup.admission.topology.places import Places, given
from podgroup.admission.tree import Forest, Node, Usage
from podgroup.admission.wording import (
    AT_ONCE,
    BYPASSED,
    NAMESPACE_MISMATCH,
    NO_CANDIDATES,
    NO_FIT,
    PENDING_PREEMPTION,
    gave_way,
    refused_for_now,
)
from podgroup.model.names import (
    PENDING_EXCEEDS_MAX_QUOTA,
    PENDING_MISCONFIGURED,
    PENDING_NO_MATCHING_FLAVOR,
    PENDING_SUSPENDED,
    PENDING_TOPOLOGY_FAILED,
    PENDING_WAITING_FOR_QUOTA,
)
from podgroup.model.objects import NodeView
from podgroup.model.shortage import Shortage

Answer = tuple[str, str]
"""Reason and message of not being admitted."""

BEHIND = (
    PENDING_WAITING_FOR_QUOTA,
    "waits behind an earlier workload in a StrictFIFO ClusterQueue",
)
HOPELESS = frozenset(
    {
        PENDING_EXCEEDS_MAX_QUOTA,
        PENDING_NO_MATCHING_FLAVOR,
        PENDING_MISCONFIGURED,
        PENDING_SUSPENDED,
        PENDING_TOPOLOGY_FAILED,
    }
)
"""Reasons that nothing which becomes free puts an end to."""
ASLEEP = "asleep"
KEPT = "kept"


def own(id: str) -> str:
    """Return by which id it is entered what pods of a workload take that is not admitted."""
    return f"{id}/running"


class Claim:
    """Quota and places kept for a workload that waits until evictions are complete."""

    __slots__ = ("borrowing", "given", "pod_sets", "queue", "usage", "victims", "waiter")

    def __init__(
        self,
        waiter: PendingWorkload,
        queue: str,
        pod_sets: tuple[PodSetAssignment, ...],
        usage: Usage,
        borrowing: int,
        victims: Iterable[str],
    ) -> None:
        self.waiter = waiter
        self.queue = queue
        self.pod_sets = pod_sets
        self.given = given(waiter.shape.pod_sets, pod_sets)
        self.usage = usage
        self.borrowing = borrowing
        self.victims = tuple(victims)


class Lost(NamedTuple):
    """What is left of a claim that was taken over: its victims are not tried before the loser.

    They wait for as long as the winner claims something; then the loser has had its turn.
    """

    victims: tuple[str, ...]
    winner: str


class FailedNodes(NamedTuple):
    """Nodes that failed where a workload has places; it is `movable` if its pods can be others."""

    nodes: tuple[str, ...]
    movable: bool


class SchedulerCache:
    """Everything that is remembered. Times in seconds, those of `model`."""

    def __init__(self, configuration: Configuration, options: SchedulerOptions) -> None:
        self.configuration = configuration
        self.options = options
        self.now = 0.0
        self.cycle = 0
        self.flavors: dict[str, Flavor] = {}
        self.cohorts: dict[str, Cohort] = {}
        self.queues: dict[str, Queue] = {}
        self.local_queues: dict[tuple[str, str], LocalQueue] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.waiters: dict[str, PendingWorkload] = {}
        self.holdings: dict[str, AdmittedWorkload] = {}
        self.failed: dict[str, FailedNodes] = {}
        """By workload, until a pass has decided what becomes of it."""
        self.claims: dict[str, Claim] = {}
        self.lost: dict[str, Lost] = {}
        """By loser; one that claims anew gets its victims back."""
        self.marked: set[str] = set()
        """For whom quota is kept or not kept any more since this was read last."""
        self.kept: dict[str, str] = {}
        """By victim, whom it lets in before it is tried itself."""
        self.beaten_by: dict[str, set[str]] = {}
        self.beat: dict[str, set[str]] = {}
        self.shapes = Shapes()
        self.unjudged: dict[Shape, set[str]] = {}
        """By shape, who has no verdict yet; by Kueue's options, which let one answer for all."""
        self.judged: set[str] = set()
        """Whom an equal one has answered for since this was read last."""
        sharing = configuration.usage_sharing
        self.ledger = Ledger(sharing) if sharing is not None else None
        self.places = Places(options.better_places)
        self._leaving: dict[str, AdmittedWorkload] = {}
        """Who is being evicted and has places."""
        self.forest = Forest((), ())
        self.present = self.forest
        self._stale = True
        self._trees: dict[Node, list[str]] = {}
        self._to_try: set[str] = set()
        """ClusterQueues in which a waiter may be due for a try."""
        self._released: set[str] = set()
        self._sleepers: list[tuple[float, str, PendingWorkload]] = []
        self._in_use: dict[tuple[str, str], dict[str, int]] = {}
        self._unplaced: dict[str, PendingWorkload] = {}

    # Objects

    def set_flavor(self, flavor: Flavor) -> None:
        """Enter a ResourceFlavor, new or changed."""
        self.flavors[flavor.name] = flavor
        self._stale = True

    def remove_flavor(self, name: str) -> None:
        """Strike out a ResourceFlavor."""
        if self.flavors.pop(name, None) is not None:
            self._stale = True

    def set_topology(self, name: str, levels: Sequence[str]) -> None:
        """Enter a Topology, new or with other levels."""
        self.places.set_topology(name, levels)
        self._stale = True

    def remove_topology(self, name: str) -> None:
        """Strike out a Topology."""
        self.places.remove_topology(name)
        self._stale = True

    def set_node(self, node: NodeView) -> None:
        """Enter a node, new or changed; who waits for its flavors is tried again."""
        self._more_fits(self.places.set_node(node))

    def remove_node(self, name: str) -> None:
        """Strike out a node; who waits for its flavors is tried again."""
        self._more_fits(self.places.remove_node(name))

    def _more_fits(self, flavors: set[str]) -> None:
        for name, queue in self.queues.items() if flavors else ():
            if not flavors.isdisjoint(queue.offer.flavors):
                self._released.add(name)

    def set_cohort(self, cohort: Cohort) -> None:
        """Enter a Cohort, new or changed."""
        self.cohorts[cohort.name] = cohort
        self._stale = True

    def remove_cohort(self, name: str) -> None:
        """Strike out a Cohort; if it is still referred to it goes on without quota."""
        if self.cohorts.pop(name, None) is not None:
            self._stale = True

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Enter a namespace, new or with other labels."""
        self.namespaces[name] = labels
        self._place_again(self._of_namespace(name))

    def remove_namespace(self, name: str) -> None:
        """Strike out a namespace."""
        if self.namespaces.pop(name, None) is not None:
            self._place_again(self._of_namespace(name))

    def set_cluster_queue(self, queue: ClusterQueue) -> None:
        """Enter a ClusterQueue, new or changed."""
        waiting: list[PendingWorkload] = []
        if (old := self.queues.get(queue.name)) is not None:
            waiting = list(old.lines)
        else:
            waiting = [w for w in self._unplaced.values() if self._target(w) == queue.name]
        fresh = Queue(queue, self.ledger is not None and queue.usage_based)
        if old is not None:
            self._forget_failed(old)
            fresh.generation = old.generation
            fresh.leaving = old.leaving
            fresh.claims = old.claims
            fresh.preemptor, fresh.sticky = old.preemptor, old.sticky
        self.queues[queue.name] = fresh
        for waiter in waiting:
            waiter.place = None
            self.place(waiter)
        self._stale = True

    def remove_cluster_queue(self, name: str) -> None:
        """Strike out a ClusterQueue; who waits in it stays unqueued."""
        queue = self.queues.pop(name, None)
        if queue is None:
            return
        self._forget_failed(queue)
        self._goes_first(queue, "", False)
        for waiter in list(queue.lines):
            waiter.place = None
            self._unplaced[waiter.id] = waiter
        self._stale = True

    def set_local_queue(self, queue: LocalQueue) -> None:
        """Enter a LocalQueue, new or changed; who waits in it moves along."""
        key = (queue.namespace, queue.name)
        old = self.local_queues.get(key)
        if old == queue:
            return
        listed = [w for w in self.waiters.values() if w.local_queue == key] if old else []
        if old is None:
            listed = [w for w in self._unplaced.values() if w.local_queue == key]
        for waiter in listed:
            self._take_out(waiter)
        self.local_queues[key] = queue
        for waiter in listed:
            self.place(waiter)

    def remove_local_queue(self, namespace: str, name: str) -> None:
        """Strike out a LocalQueue; who waits in it stays unqueued."""
        key = (namespace, name)
        listed = [w for w in self.waiters.values() if w.local_queue == key]
        for waiter in listed:
            self._take_out(waiter)
        self.local_queues.pop(key, None)
        for waiter in listed:
            self.place(waiter)
        if self.ledger is not None:
            self.ledger.forget(key)

    # Workloads

    def submit(
        self,
        workload: Workload,
        refused: Answer | None = None,
        short: tuple[Shortage, ...] = (),
    ) -> None:
        """Enter a workload that asks for quota, new or changed.

        One that was `refused` before, for falling `short` of something, is not tried before
        something is released; in a StrictFIFO queue it takes its place in line. By Kueue's options
        a waiter that was to be tried again at once is.
        """
        if workload.id in self.holdings:
            return
        shape = self.shapes.intern(workload.priority, workload.pod_sets)
        waiter = PendingWorkload(workload, shape, self.configuration.requeue_by)
        old = self.waiters.get(workload.id)
        if old is not None:
            same = (
                old.shape is shape
                and old.local_queue == waiter.local_queue
                and (old.evicted, old.waiting_until, old.invalid, old.created)
                == (waiter.evicted, waiter.waiting_until, waiter.invalid, waiter.created)
            )
            if same:
                self.shapes.give_back(shape)
                return
            if old.shape is shape:
                waiter.last = old.last
            self._take_out(old)
            self.shapes.give_back(old.shape)
        self.waiters[workload.id] = waiter
        if refused is None and not self.options.ask_for_older:
            self.unjudged.setdefault(shape, set()).add(workload.id)
        self.place(waiter)
        queue = self.queue_of(waiter)
        if refused is not None and queue is not None and queue.lines.is_active(waiter):
            hopeless = self.options.pass_hopeless and refused[0] in HOPELESS
            keep = self.options.keep_for_preemptor
            at_once = queue.strict or (not keep and refused_for_now(*refused))
            if hopeless or not at_once:
                queue.lines.drop(waiter)
                queue.lines.put(waiter, aside=True)
                if not keep:
                    waiter.reason, waiter.message, waiter.short = *refused, short
                    self._note_failure(queue, waiter, waiter.reason)

    def hold(self, workload: Workload, reservation: Reservation) -> None:
        """Enter that a workload holds quota."""
        self._leave_line(workload.id)
        holding = AdmittedWorkload(workload, reservation, self.configuration.requeue_by)
        old = self.holdings.get(workload.id)
        if old is not None:
            self._give_back(old)
        self.holdings[workload.id] = holding
        self.places.charge(holding.given)
        self._use(holding, 1)
        self._count(holding)

    def resize(self, id: str, usage: Usage) -> None:
        """Enter that a workload which holds quota takes another amount of it."""
        holding = self.holdings[id]
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
            self._on_release(holding.local_queue, holding.cluster_queue)

    def evict(self, id: str, eviction: Eviction, by: str = "") -> None:
        """Enter that a workload is being evicted; it holds its quota until it is released.

        `by` is for whom it was preempted, "" if it was not.
        """
        holding = self.holdings.get(id)
        if holding is None or holding.evicted is not None:
            return
        self._uncount(holding)
        holding.evicted = eviction
        self._count(holding)
        queue = self.queues.get(holding.cluster_queue)
        if queue is not None:
            queue.generation += 1
        if by:
            self.beaten(id, by)
        elif self.present is not self.forest:
            self._released.add(holding.cluster_queue)  # what it holds is as good as free

    def nodes_failed(self, id: str, nodes: Iterable[str], movable: bool = True) -> None:
        """Enter which nodes failed where a workload has places; none of them: all are well again.

        The next pass decides about it. A single pod is not `movable`: it keeps its place.
        """
        named = tuple(sorted(set(nodes)))
        if named:
            self.failed[id] = FailedNodes(named, movable)
        else:
            self.failed.pop(id, None)

    def released(self, id: str, requeue: bool = True) -> None:
        """Enter that a workload gave its quota back; it waits again unless `requeue` is false."""
        holding = self.holdings.get(id)
        if holding is None:
            return
        self._give_back(holding)
        self._on_release(holding.local_queue, holding.cluster_queue)
        if not requeue:
            self._forget(id)
            return
        workload = holding.workload
        shape = self.shapes.intern(workload.priority, workload.pod_sets)
        waiter = PendingWorkload(workload, shape, self.configuration.requeue_by)
        waiter.evicted = holding.evicted
        self.waiters[id] = waiter
        self.place(waiter)

    def remove(self, id: str) -> None:
        """Enter that a workload is gone, whether it waited or held quota."""
        holding = self.holdings.get(id)
        if holding is not None:
            self.released(id, requeue=False)
            return
        waiter = self.waiters.get(id)
        if waiter is None:
            return
        target = self._target(waiter)
        self._leave_line(id)
        self._forget(id)
        if target is not None:
            self._on_release(waiter.local_queue, target)

    # Passes

    def begin(self, now: float) -> None:
        """Let what is entered next have happened at `now`."""
        self.now = max(self.now, now)

    def settle(self, now: float, *, look: bool = True) -> None:
        """Bring everything up to date for a pass at `now`; `look`: use is sampled as well."""
        self.begin(now)
        if self._stale:
            self._build()
        self._wake()
        self.try_again()
        if look:
            self._look_at_use()

    def try_again(self) -> None:
        """Let those be tried again for whom something became free."""
        if not self._released:
            return
        roots = {self.forest.queues[name].root for name in self._released if name in self.queues}
        for root in roots:
            for name in self._trees[root]:
                queue = self.queues[name]
                self._forget_failed(queue)
                self._unblock(queue)
                queue.lines.try_again()
                self._to_try.add(name)
        self._released.clear()

    def reconsider(self) -> None:
        """Let every waiter be tried again, as if something had become free everywhere."""
        self._released.update(self.queues)

    def once_left(self) -> AbstractContextManager[None]:
        """Have places as they will be once evictions under way are complete, as quota is kept."""
        leaving = () if self.present is self.forest else self._leaving.values()
        return self.places.without(holding.given for holding in leaving)

    def queue_of(self, waiter: PendingWorkload) -> Queue | None:
        """Return the position of a waiter in its queue; None without one."""
        target = self._target(waiter)
        return self.queues.get(target) if target is not None else None

    def by_use(self, queue: str) -> bool:
        """Tell whether the LocalQueues of a ClusterQueue share by use."""
        found = self.queues.get(queue)
        return found is not None and found.lines.by_use

    def used_by(self, key: tuple[str, str]) -> float | None:
        """Return what a LocalQueue has used lately, None if that does not matter."""
        queue = self.local_queues.get(key)
        return None if self.ledger is None or queue is None else self.ledger.used(queue)

    def ready(self) -> list[Queue]:
        """Return the ClusterQueues that have a waiter to try, by name."""
        found = []
        for name in sorted(self._to_try):
            queue = self.queues.get(name)
            if (
                queue is None
                or not queue.active
                or not queue.lines.active
                or queue.blocked
                or (queue.claims and queue.strict)
            ):
                self._to_try.discard(name)  # until one of these changes
            else:
                found.append(queue)
        return found

    def in_line(self, name: str) -> list[PendingWorkload]:
        """Return who is to be tried in a ClusterQueue, in the order in which they are."""
        lines = self.queues[name].lines
        return [waiter for waiter in self.line(name) if lines.is_active(waiter)]

    def line(self, name: str) -> list[PendingWorkload]:
        """Return who waits in a ClusterQueue, in the order in which they are tried.

        First those for whom quota is kept. View `v_queue_position` has the same order.
        """
        queue = self.queues[name]
        lines = queue.lines
        sticky = queue.preemptor if queue.sticky else ""

        def rank(waiter: PendingWorkload) -> tuple[float, bool, int, float, str]:
            used = self.used_by(waiter.local_queue) if lines.by_use else None
            first = waiter.id != sticky
            return (used or 0.0, first, -waiter.priority, waiter.since, waiter.uid)

        claimed = (self.claims[id].waiter for id in queue.claims)
        return [*sorted(claimed, key=rank), *sorted(lines, key=rank)]

    def pop(self, queue: Queue) -> PendingWorkload:
        """Take the head out of its line."""
        head = self._first(queue)
        assert head is not None, f"no workload waits in {queue.spec.name}"
        queue.lines.drop(head)
        return head

    def put_back(
        self, waiter: PendingWorkload, requeue: str, reason: str, hopeless: bool = False
    ) -> None:
        """Put a head back that was not admitted, for a requeue reason.

        `hopeless` says that nothing that becomes free would make it fit.
        """
        queue = self.queue_of(waiter)
        if queue is None:
            self._unplaced[waiter.id] = waiter
            return
        if requeue == PENDING_PREEMPTION:
            self._goes_first(
                queue, waiter.id, not (queue.strict or self.options.keep_for_preemptor)
            )
        at_once = requeue in AT_ONCE
        if queue.strict:
            at_once = requeue != NAMESPACE_MISMATCH and not hopeless
        unfinished = waiter.last is not None and waiter.last.unfinished
        if at_once or (unfinished and not hopeless and requeue != NAMESPACE_MISMATCH):
            queue.lines.put(waiter, aside=False)
            self._to_try.add(queue.spec.name)
            return
        queue.lines.put(waiter, aside=True)
        if requeue in (NO_FIT, NO_CANDIDATES) and (not queue.strict or hopeless):
            self._note_failure(queue, waiter, reason)

    def claim(self, claim: Claim) -> None:
        """Keep quota for a waiter until evictions are complete."""
        lost = self.lost.pop(claim.waiter.id, None)
        if lost is not None:
            claim.victims = (*lost.victims, *claim.victims)
        self.claims[claim.waiter.id] = claim
        self.marked.add(claim.waiter.id)
        self.queues[claim.queue].claims.add(claim.waiter.id)
        self.forest.queues[claim.queue].take(claim.usage)
        self.places.charge(claim.given)
        self._let_wait(claim.victims, claim.waiter.id)

    def end_claim(self, id: str) -> Claim | None:
        """Keep nothing for a waiter any more, and let its victims be tried again."""
        claim = self.claims.pop(id, None)
        if claim is None:
            return None
        self.marked.add(id)
        if (queue := self.queues.get(claim.queue)) is not None:
            queue.claims.discard(id)
            self._to_try.add(claim.queue)
        if claim.queue in self.forest.queues:
            self.forest.queues[claim.queue].give(claim.usage)
        self.places.charge(claim.given, -1)
        if claim.queue in self.queues:
            self._released.add(claim.queue)
        self._let_go(claim.victims, id)
        return claim

    def lose(self, claim: Claim, winner: str) -> None:
        """End a claim that `winner` takes over; who was evicted for it goes on waiting."""
        loser, victims = claim.waiter.id, claim.victims
        claim.victims = ()
        self.end_claim(loser)
        for other, lost in list(self.lost.items()):
            if lost.winner == loser:
                self.keep_waiting(other, lost.victims, winner)
        if victims:
            self.keep_waiting(loser, victims, winner)
        self.place(claim.waiter)

    def keep_waiting(self, loser: str, victims: tuple[str, ...], winner: str) -> None:
        """Enter, or enter again, that victims wait for one that lost its claim."""
        self.lost[loser] = Lost(victims, winner)
        self.marked.add(loser)
        self._let_wait(victims, loser)

    def end_lost(self) -> bool:
        """Let victims go whose loser's winner claims nothing any more; tell whether there are."""
        over = [id for id, lost in self.lost.items() if lost.winner not in self.claims]
        for loser in over:
            self._forget_lost(loser)
        return bool(over)

    def asked_by(self, id: str) -> dict[str, int]:
        """Return how much of each resource a workload holds or waits for; {} if it is gone."""
        found: dict[str, int] = {}
        if (holding := self.holdings.get(id)) is not None:
            for (_, resource), amount in holding.usage.items():
                found[resource] = found.get(resource, 0) + amount
        elif (waiter := self.waiters.get(id)) is not None:
            for requests in waiter.shape.requests(True):
                for resource, amount in requests.items():
                    found[resource] = found.get(resource, 0) + amount
        return found

    def claims_beside(self, name: str) -> list[Claim]:
        """Return the claims in the tree of a ClusterQueue, without its own, by queue and id."""
        root = self.forest.queues[name].root
        others = (self.queues[other] for other in self._trees[root] if other != name)
        return [self.claims[id] for queue in others for id in sorted(queue.claims)]

    def block(self, queue: Queue, head: str, reserved: Usage) -> None:
        """Let no waiter pass the head of a queue, and keep `reserved` from others."""
        queue.blocked = True
        queue.head, queue.reserved = head, {k: amount for k, amount in reserved.items() if amount}
        if queue.reserved:
            self.marked.add(head)
        self.forest.queues[queue.spec.name].take(queue.reserved)

    def reserved_for(self, id: str) -> tuple[str, Usage]:
        """Return in which queue something is kept for its head, and what; nothing if it is not."""
        waiter = self.waiters.get(id)
        queue = self.queue_of(waiter) if waiter is not None else None
        if queue is None or not queue.blocked or queue.head != id:
            return "", {}
        return queue.spec.name, queue.reserved

    def leaving_beside(self, name: str) -> int:
        """Return how many evictions are under way in the tree of a ClusterQueue."""
        root = self.forest.queues[name].root
        return sum(self.queues[other].leaving for other in self._trees[root])

    def admitted(self, waiter: PendingWorkload, reservation: Reservation) -> None:
        """Enter an admission that was decided."""
        workload = Workload(
            id=waiter.id,
            uid=waiter.uid,
            namespace=waiter.namespace,
            queue=waiter.queue,
            created=waiter.created,
            priority=waiter.priority,
            pod_sets=waiter.shape.pod_sets,
            owner_uid=waiter.owner_uid,
        )
        asked = waiter.shape.requests(False)
        self.hold(workload, reservation)
        queue = self.queues[reservation.cluster_queue]
        queue.generation += 1
        if self.ledger is not None and queue.lines.by_use:
            total: dict[str, int] = {}
            for one in asked:
                for resource, amount in one.items():
                    total[resource] = total.get(resource, 0) + amount
            key = waiter.local_queue
            self.ledger.admitted(key, total, self._in_use.get(key, {}), self.now)

    def spared_by(self, id: str) -> set[str]:
        """Return whom a workload must not preempt, lest preemption goes in a circle."""
        if not self.options.no_circles:
            return set()
        spared = set(self.beat.get(id, ()))
        waiting = [id]
        while waiting:
            for winner in self.beaten_by.get(waiting.pop(), ()):
                if winner not in spared:
                    spared.add(winner)
                    waiting.append(winner)
        return spared

    def restore_inadmissible(self, refused: Container[str], reserved: Mapping[str, Usage]) -> None:
        """Enter again that StrictFIFO queues wait for their first ones, if those were refused.

        `reserved` is what was kept for them, by id. By Kueue's options a head blocks no other: it
        is tried again and again.
        """
        if not self.options.keep_for_preemptor:
            return
        for queue in self.queues.values():
            if queue.strict and queue.active and not queue.blocked:
                first = self._first(queue)
                if first is not None and first.id in refused:
                    self.block(queue, first.id, reserved.get(first.id, {}))

    def beaten(self, id: str, by: str) -> None:
        """Enter that a workload was preempted for another one, some time ago."""
        self.beaten_by.setdefault(id, set()).add(by)
        self.beat.setdefault(by, set()).add(id)

    def keep(
        self,
        id: str,
        queue: str,
        pod_sets: tuple[PodSetAssignment, ...],
        borrowing: int,
        victims: Iterable[str],
    ) -> None:
        """Enter again that quota is kept for a workload that waits."""
        waiter = self.waiters.get(id)
        if waiter is None or queue not in self.forest.queues or queue not in self.queues:
            return
        self._take_out(waiter)
        self.claim(Claim(waiter, queue, pod_sets, usage_of(pod_sets), borrowing, victims))

    def keep_place(self, id: str, name: str) -> None:
        """Enter again that a preemptor goes before all others of a ClusterQueue."""
        if name in self.queues:
            self._goes_first(self.queues[name], id, True)

    def has_place(self, id: str) -> str:
        """Return in which ClusterQueue a preemptor goes before all others, "" if in none."""
        waiter = self.waiters.get(id)
        queue = self.queue_of(waiter) if waiter is not None else None
        mine = queue is not None and queue.sticky and queue.preemptor == id
        return queue.spec.name if queue is not None and mine else ""

    def mark_inadmissible(self, ids: Iterable[str]) -> None:
        """Forget where searches stopped, as it is unknown how often they go round between events.

        Where a waiter is to be tried again whatever happens, so are all behind it: which of them
        was tried before it came to the head is not known either after a start.
        """
        for id in ids:
            waiter = self.waiters.get(id)
            queue = self.queue_of(waiter) if waiter is not None else None
            if waiter is not None:
                waiter.last = None
            if queue is not None and queue.lines.active:
                self._forget_failed(queue)
                queue.lines.try_again()
        for id in [one for one in self.judged if self.answer(one) is None]:
            self.judged.discard(id)
            if (waiter := self.waiters.get(id)) is not None:
                self.unjudged.setdefault(waiter.shape, set()).add(id)

    def remembers(self, id: str) -> bool:
        """Tell whether it is known of a workload whom it preempted, or by whom it was."""
        return id in self.beat or id in self.beaten_by or id in self.kept

    def answer(self, id: str) -> Answer | None:
        """Return why a workload waits that was not looked at itself, None if that is not known."""
        waiter = self.waiters.get(id)
        queue = self.queue_of(waiter) if waiter is not None else None
        if waiter is None or queue is None or not queue.active:
            return None
        if waiter.id in self.claims:
            return (waiter.reason, waiter.message) if waiter.reason else None
        if waiter.apart == KEPT and waiter.place is queue.lines:
            first = self.waiters.get(self.kept[id])
            return (PENDING_WAITING_FOR_QUOTA, gave_way(first.uid)) if first is not None else None
        failed = queue.failed.get(waiter.shape)
        if failed is not None and not queue.lines.is_active(waiter):
            return failed.reason, failed.message if self.options.ask_for_older else BYPASSED
        if not queue.strict or (self._first(queue) is waiter and not queue.claims):
            return None
        return BEHIND if queue.blocked or queue.claims else None

    def short_of(self, id: str) -> tuple[Shortage, ...]:
        """Return what an equal one fell short of that was looked at in place of a workload."""
        waiter = self.waiters.get(id)
        queue = self.queue_of(waiter) if waiter is not None else None
        if waiter is None or queue is None or queue.lines.is_active(waiter):
            return ()
        failed = queue.failed.get(waiter.shape)
        return failed.short if failed is not None else ()

    # Inside

    def _goes_first(self, queue: Queue, id: str, sticky: bool) -> None:
        if (queue.preemptor, queue.sticky) != (id, sticky):
            self.marked.update(one for one in (queue.preemptor, id) if one)
            queue.preemptor, queue.sticky = id, sticky

    def _target(self, waiter: PendingWorkload) -> str | None:
        queue = self.local_queues.get(waiter.local_queue)
        if queue is None or queue.stop_policy != "None" or queue.cluster_queue not in self.queues:
            return None
        return queue.cluster_queue

    def place(self, waiter: PendingWorkload) -> None:
        """Let a waiter stand in line where it belongs."""
        queue = self.queue_of(waiter)
        if queue is None:
            self._unplaced[waiter.id] = waiter
            return
        self._unplaced.pop(waiter.id, None)
        labels = self.namespaces.get(waiter.namespace)
        waiter.selected = labels is not None and selects(queue.spec.namespaces, labels)
        if waiter.id in self.kept:
            queue.lines.put_apart(waiter, KEPT)
        elif waiter.waiting_until is None or waiter.waiting_until > self.now:
            queue.lines.put_apart(waiter, ASLEEP)
            if waiter.waiting_until is not None:
                heapq.heappush(self._sleepers, (waiter.waiting_until, waiter.id, waiter))
        else:
            queue.lines.put(waiter, aside=self._answered(queue, waiter))
            self._to_try.add(queue.spec.name)
            if queue.blocked and self._first(queue) is waiter:
                self._unblock(queue)  # it goes before who blocks

    def _answered(self, queue: Queue, waiter: PendingWorkload) -> bool:
        """Tell whether an equal one failed since the last release."""
        failed = queue.failed.get(waiter.shape)
        return failed is not None and not self.options.ask_for_older

    def _note_failure(self, queue: Queue, waiter: PendingWorkload, reason: str) -> None:
        if waiter.shape not in queue.failed:
            self.shapes.intern(waiter.shape.priority, waiter.shape.pod_sets)
        queue.failed[waiter.shape] = Failure(reason, waiter.message, waiter.since, waiter.short)
        self.judged |= self.unjudged.pop(waiter.shape, set())
        older = waiter.since if self.options.ask_for_older else None
        queue.lines.set_aside(waiter.shape, older)

    def _forget_failed(self, queue: Queue) -> None:
        for shape in queue.failed:
            self.shapes.give_back(shape)
        queue.failed.clear()

    def _first(self, queue: Queue) -> PendingWorkload | None:
        sticky = self.waiters.get(queue.preemptor) if queue.sticky else None
        if sticky is not None and not queue.lines.is_active(sticky):
            sticky = None
        if not queue.lines.by_use:
            lane = queue.lines.lanes.get(None)
            return sticky or (lane.first() if lane is not None else None)
        best: tuple[tuple[float, bool, int, float, str], PendingWorkload] | None = None
        for key, lane in queue.lines.lanes.items():
            own = sticky if sticky is not None and sticky.local_queue == key else lane.first()
            if own is None or key is None:
                continue
            used = self.used_by(key)
            rank = (
                used if used is not None else 0.0,
                own is not sticky,
                -own.priority,
                own.since,
                own.uid,
            )
            if best is None or rank < best[0]:
                best = (rank, own)
        return best[1] if best is not None else None

    def _of_namespace(self, name: str) -> list[PendingWorkload]:
        return [w for w in self.waiters.values() if w.namespace == name]

    def _place_again(self, waiters: Iterable[PendingWorkload]) -> None:
        for waiter in waiters:
            if waiter.id not in self.claims:
                self._take_out(waiter)
                self.place(waiter)

    def _let_wait(self, victims: Iterable[str], preemptor: str) -> None:
        """Let victims not be tried before their preemptor is in."""
        for victim in victims:
            self.kept[victim] = preemptor
            waiter = self.waiters.get(victim)
            if waiter is not None and waiter.apart != KEPT:
                self._place_again([waiter])

    def _let_go(self, victims: Iterable[str], preemptor: str) -> None:
        """Let victims be tried again, as far as it is this preemptor that they wait for."""
        for victim in victims:
            if self.kept.get(victim) == preemptor:
                del self.kept[victim]
                waiter = self.waiters.get(victim)
                if waiter is not None:
                    self._place_again([waiter])

    def _forget_lost(self, loser: str) -> None:
        if (lost := self.lost.pop(loser, None)) is not None:
            self.marked.add(loser)
            self._let_go(lost.victims, loser)

    def _take_out(self, waiter: PendingWorkload) -> None:
        """Let a waiter out of its line; nothing is kept for it any more."""
        self.end_claim(waiter.id)
        self._forget_lost(waiter.id)
        self._unplaced.pop(waiter.id, None)
        queue = self.queue_of(waiter)
        if queue is not None:
            queue.lines.drop(waiter)
        waiter.place = None

    def _leave_line(self, id: str) -> None:
        waiter = self.waiters.pop(id, None)
        if waiter is None:
            return
        queue = self.queue_of(waiter)
        self._take_out(waiter)
        if (alike := self.unjudged.get(waiter.shape)) is not None:
            alike.discard(id)
            if not alike:
                del self.unjudged[waiter.shape]
        self.shapes.give_back(waiter.shape)
        if queue is not None:
            if queue.preemptor == id:
                queue.preemptor, queue.sticky = "", False
            if queue.blocked:
                self._unblock(queue)

    def _forget(self, id: str) -> None:
        """Forget who preempted whom, as far as a workload took part."""
        self.kept.pop(id, None)
        for winner in self.beaten_by.pop(id, ()):
            self.beat[winner].discard(id)
            if not self.beat[winner]:
                del self.beat[winner]
        for loser in self.beat.pop(id, ()):
            self.beaten_by[loser].discard(id)
            if not self.beaten_by[loser]:
                del self.beaten_by[loser]

    def _count(self, holding: AdmittedWorkload) -> None:
        """Count what a holding uses in the trees."""
        if self._stale:
            return
        queue = self.queues.get(holding.cluster_queue)
        if queue is None:
            return
        leaving = holding.evicted is not None
        queue.leaving += leaving
        if leaving and holding.given:
            self._leaving[holding.id] = holding
        if self.present is not self.forest:
            _take(self.present.queues[holding.cluster_queue], holding, 1)
            if leaving:
                return
        node = self.forest.queues[holding.cluster_queue]
        _take(node, holding, 1)
        node.holdings[holding.id] = holding

    def _uncount(self, holding: AdmittedWorkload) -> None:
        if self._stale:
            return
        queue = self.queues.get(holding.cluster_queue)
        if queue is None:
            return
        leaving = holding.evicted is not None
        queue.leaving -= leaving
        self._leaving.pop(holding.id, None)
        if self.present is not self.forest:
            _take(self.present.queues[holding.cluster_queue], holding, -1)
            if leaving:
                return
        node = self.forest.queues[holding.cluster_queue]
        _take(node, holding, -1)
        del node.holdings[holding.id]

    def _give_back(self, holding: AdmittedWorkload) -> None:
        self._uncount(holding)
        self.places.charge(holding.given, -1)
        del self.holdings[holding.id]
        queue = self.queues.get(holding.cluster_queue)
        if queue is not None:
            queue.generation += 1
        self._use(holding, -1)

    def _use(self, holding: AdmittedWorkload, sign: int) -> None:
        if self.options.remember_all_use:
            self._look(holding.local_queue)
        in_use = self._in_use.setdefault(holding.local_queue, {})
        for (_, resource), amount in holding.usage.items():
            in_use[resource] = in_use.get(resource, 0) + sign * amount
            if not in_use[resource]:
                del in_use[resource]
        if not in_use:
            del self._in_use[holding.local_queue]

    def _on_release(self, local_queue: tuple[str, str], queue: str) -> None:
        """Note a release, so that others of the tree are tried again."""
        if not self.options.hear_every_release:
            known = self.local_queues.get(local_queue)
            if known is None or known.stop_policy != "None":
                return
            if known.cluster_queue not in self.queues:
                return
        if queue in self.queues:
            self._released.add(queue)

    def _build(self) -> None:
        """Build the trees anew, and let every waiter be tried again."""
        self._stale = False
        for id in list(self.claims):
            waiter = self.claims[id].waiter
            self.end_claim(id)
            self.place(waiter)
        self.end_lost()
        specs = [queue.spec for queue in self.queues.values()]
        inactive = []
        for name, queue in self.queues.items():
            queue.active = (
                queue.spec.stop_policy == "None"
                and queue.spec.usable
                and queue.offer.flavors <= self.flavors.keys()
                and all(self.places.known(self.flavors[name]) for name in queue.offer.flavors)
            )
            queue.generation += 1
            queue.leaving = 0
            self._leaving.clear()
            if queue.reserved:
                self.marked.add(queue.head)
            queue.blocked, queue.head, queue.reserved = False, "", {}
            if not queue.active:
                inactive.append(name)
        self.forest = Forest(specs, self.cohorts.values(), inactive)
        self.present = self.forest
        if self.options.keep_for_preemptor:
            self.present = Forest(specs, self.cohorts.values(), inactive)
        self._trees = {}
        for name, node in self.forest.queues.items():
            self._trees.setdefault(node.root, []).append(name)
        self.places.build(self.flavors.values(), (one.given for one in self.holdings.values()))
        for holding in self.holdings.values():
            self._count(holding)
        self._released.update(self.queues)

    def _wake(self) -> None:
        """Let those be tried whose back-off is over."""
        while self._sleepers and self._sleepers[0][0] <= self.now:
            _, _, waiter = heapq.heappop(self._sleepers)
            if self.waiters.get(waiter.id) is waiter and waiter.apart == ASLEEP:
                queue = self.queue_of(waiter)
                if queue is not None and waiter.place is queue.lines:
                    self._take_out(waiter)
                    self.place(waiter)

    def _unblock(self, queue: Queue) -> None:
        if queue.blocked:
            self.forest.queues[queue.spec.name].give(queue.reserved)
            if queue.reserved:
                self._released.add(queue.spec.name)
                self.marked.add(queue.head)
            queue.blocked, queue.head, queue.reserved = False, "", {}
            self._to_try.add(queue.spec.name)

    def _look(self, key: tuple[str, str]) -> None:
        """Bring what a LocalQueue used up to date, if that matters."""
        queue = self.local_queues.get(key)
        if self.ledger is None or queue is None or queue.stop_policy != "None":
            return
        if self.by_use(queue.cluster_queue) or not self.options.remember_all_use:
            self.ledger.look(queue, self._in_use.get(key, {}), self.now)

    def _look_at_use(self) -> None:
        if self.ledger is None:
            return
        for key in sorted(self.local_queues):
            self._look(key)
        for one in self.queues.values():
            if one.blocked and one.lines.by_use:
                self._unblock(one)  # use may have changed who is first


def _take(node: Node, holding: AdmittedWorkload, sign: int) -> None:
    """Enter what a holding takes of a ClusterQueue, or with `sign` -1 that it takes it no more."""
    if holding.workload.unadmitted:
        node.run(holding.usage, sign)
    elif sign > 0:
        node.take(holding.usage)
    else:
        node.give(holding.usage)
