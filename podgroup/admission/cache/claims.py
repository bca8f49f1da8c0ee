"""Claims: quota kept for pending workloads until others have stopped, or until their turn comes.

Theory. A *claim* is quota and places for a preemptor: they count as used, and the victims are *held
back*: they are tried again only after the preemptor is admitted. With fair sharing another workload
may take a claim over. The victims then wait for the loser as long as the winner has a claim: after
that the loser has had its turn. A StrictFIFO queue is *blocked* by a head that does not fit, which
may reserve quota meanwhile. In any other queue the last preemptor may go before all others.

A claim may begin before its victims are evicted, while their least run time lasts: they count as
gone, and go on running.

All of that outlives a restart: `changed` names the workloads whose record is to be written anew.

Invariant: claims and reserves of heads are counted in the tree of decisions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from podgroup.admission.cache.cached_queue import CachedQueue
from podgroup.admission.cache.objects import Objects
from podgroup.admission.cache.reservations import Reservations
from podgroup.admission.cache.wake_ups import WakeUps
from podgroup.admission.holding import PendingWorkload
from podgroup.admission.model import FlavorResource, PodSetAssignment
from podgroup.admission.topology.places import given
from podgroup.admission.tree import Usage


class Claim:
    """Quota and places of a workload, the claim holder, until its victims have stopped."""

    __slots__ = ("borrowing", "given", "pod_sets", "queue", "until", "usage", "victims", "waiter")

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
        self.until = 0.0
        """When the victims' least run time is over, in seconds; 0: they are evicted already."""


class LostClaim(NamedTuple):
    """The rest of a claim that was taken over: its victims are tried after the loser."""

    victims: tuple[str, ...]
    winner: str


class KeptQuota(NamedTuple):
    """What is kept for a workload, as the log has it.

    A claim (`pod_sets`; its victims run `until` then), a `head` of a ClusterQueue that goes first
    and may reserve `usage`, or only `victims` that wait for the workload, as long as `lost_to` has
    a claim.
    """

    queue: str
    pod_sets: tuple[PodSetAssignment, ...] = ()
    usage: Mapping[FlavorResource, int] = MappingProxyType({})
    borrowing: int = 0
    victims: tuple[str, ...] = ()
    head: bool = False
    lost_to: str = ""
    until: float = 0.0


class Claims:
    """All claims and blocked heads. `requeue` puts a workload in its line again, by its id."""

    def __init__(
        self,
        objects: Objects,
        wake_ups: WakeUps,
        reservations: Reservations,
        requeue: Callable[[str], None],
    ) -> None:
        self.by_id: dict[str, Claim] = {}
        self.lost: dict[str, LostClaim] = {}
        """Loser -> its lost claim; a loser that begins a new claim gets its victims back."""
        self.held_back: dict[str, str] = {}
        """Victim -> the workload that has to be admitted before the victim is tried."""
        self.reconsidered: set[str] = set()
        """Workloads whose postponed preemption is decided anew, since quota became free."""
        self.overtaken: set[frozenset[str]] = set()
        """Pairs of workloads of which one ended the other's postponed claim in this pass."""
        self.changed: set[str] = set()
        """Workloads for which what is kept has changed since this was read last."""
        self._objects = objects
        self._wake_ups = wake_ups
        self._reservations = reservations
        self._requeue = requeue

    def begin(self, claim: Claim) -> None:
        """Begin a claim: keep quota for a workload until its victims have stopped."""
        id = claim.waiter.id
        lost = self.lost.pop(id, None) if not claim.until else None
        if lost is not None:
            claim.victims = (*lost.victims, *claim.victims)
        self.by_id[id] = claim
        self.changed.add(id)
        self._objects.cluster_queues[claim.queue].claims.add(id)
        self._count(claim, 1)
        if not claim.until:
            self._hold_back(claim.victims, id)

    def end(self, id: str, *, anew: bool = False) -> None:
        """End a workload's claim, and let its victims be tried again.

        `anew`: the workload is decided about at once, and quota that it leaves is released then.
        """
        claim = self.by_id.pop(id, None)
        if claim is None:
            return
        self.changed.add(id)
        queue = self._objects.cluster_queues.get(claim.queue)
        if queue is not None:
            queue.claims.discard(id)
            self._wake_ups.due.add(claim.queue)
        self._count(claim, -1)
        if queue is not None and not anew:
            self._wake_ups.released.add(claim.queue)
        self._let_go(claim.victims, id)

    def postponed_beside(self, name: str) -> list[Claim]:
        """Return the postponed claims in the tree of a ClusterQueue: their victims still run."""
        queues = self._objects.cluster_queues
        ids = (id for one in self._objects.tree(name) for id in sorted(queues[one].claims))
        return [self.by_id[id] for id in ids if self.by_id[id].until]

    def reconsider(self, queue: CachedQueue) -> None:
        """Let postponed preemptions of a ClusterQueue be decided anew."""
        self.reconsidered.update(id for id in queue.claims if self.by_id[id].until)

    def ready(self) -> tuple[list[Claim], list[Claim]]:
        """Return the postponed claims of trees in which a claim is due, and those to reconsider."""
        now, queues = self._wake_ups.now, self._objects.forest.queues
        postponed = [claim for claim in self.by_id.values() if claim.until]
        roots = {queues[one.queue].root for one in postponed if one.until <= now}
        due = [one for one in postponed if queues[one.queue].root in roots]
        early = [one for one in postponed if queues[one.queue].root not in roots]
        early = [one for one in early if one.waiter.id in self.reconsidered]
        self.reconsidered.clear()
        return due, early

    @contextmanager
    def without(self, claims: Iterable[Claim]) -> Iterator[None]:
        """Look at quota and places without some claims."""
        lifted = list(claims)
        for claim in lifted:
            self._count(claim, -1)
        try:
            yield
        finally:
            for claim in lifted:
                self._count(claim, 1)

    def _count(self, claim: Claim, sign: int) -> None:
        """Count a claim as used, and its victims as gone; with `sign` -1 no longer."""
        node = self._objects.forest.queues.get(claim.queue)
        if node is not None and sign > 0:
            node.take(claim.usage)
        elif node is not None:
            node.give(claim.usage)
        self._objects.places.charge(claim.given, sign)
        if claim.until:
            self._reservations.leave_later(claim.victims, sign)

    def pass_on(self, claim: Claim, winner: str) -> None:
        """End a claim that `winner` takes over; its evicted victims go on waiting.

        The caller places the loser in its line again.
        """
        loser, victims = claim.waiter.id, claim.victims
        claim.victims = ()
        self.end(loser)
        for other, lost in list(self.lost.items()):
            if lost.winner == loser:
                self.let_wait_for_loser(other, lost.victims, winner)
        if victims:
            self.let_wait_for_loser(loser, victims, winner)

    def let_wait_for_loser(self, loser: str, victims: tuple[str, ...], winner: str) -> None:
        """Let victims wait for a loser: a workload that lost its claim, or lost it again."""
        self.lost[loser] = LostClaim(victims, winner)
        self.changed.add(loser)
        self._hold_back(victims, loser)

    def end_lost(self) -> bool:
        """End lost claims whose winner has no claim any more; tell whether there are any."""
        over = [id for id, lost in self.lost.items() if lost.winner not in self.by_id]
        for loser in over:
            self._forget_lost(loser)
        return bool(over)

    def drop(self, id: str) -> None:
        """End the claim of a workload that leaves its line, and let its victims go."""
        self.end(id)
        self._forget_lost(id)

    def beside(self, name: str) -> list[Claim]:
        """Return the claims of other ClusterQueues in a ClusterQueue's tree, by queue and id."""
        others = [other for other in self._objects.tree(name) if other != name]
        queues = self._objects.cluster_queues
        return [self.by_id[id] for other in others for id in sorted(queues[other].claims)]

    def let_first(self, queue: CachedQueue, id: str, sticky: bool) -> None:
        """Note the last preemptor; `sticky`: it goes before all others of its ClusterQueue."""
        if (queue.preemptor, queue.sticky) != (id, sticky):
            self.changed.update(one for one in (queue.preemptor, id) if one)
            queue.preemptor, queue.sticky = id, sticky

    def block(self, queue: CachedQueue, head: str, reserved: Mapping[FlavorResource, int]) -> None:
        """Block a queue behind its head, for which quota is `reserved`."""
        queue.blocked = True
        queue.head, queue.reserved = head, {k: amount for k, amount in reserved.items() if amount}
        if queue.reserved:
            self.changed.add(head)
        self._objects.forest.queues[queue.spec.name].take(queue.reserved)

    def unblock(self, queue: CachedQueue) -> None:
        """Let all workloads of a blocked queue be tried again."""
        if queue.blocked:
            name = queue.spec.name
            self._objects.forest.queues[name].give(queue.reserved)
            if queue.reserved:
                self._wake_ups.released.add(name)
            self._wake_ups.due.add(name)
            self._forget_head(queue)

    def on_leave(self, queue: CachedQueue, id: str) -> None:
        """Note that a workload left a ClusterQueue."""
        if queue.preemptor == id:
            queue.preemptor, queue.sticky = "", False
        self.unblock(queue)

    def forget_heads(self) -> None:
        """Forget all blocked heads and their reserves, as the trees are built anew."""
        for queue in self._objects.cluster_queues.values():
            self._forget_head(queue)

    def _forget_head(self, queue: CachedQueue) -> None:
        if queue.reserved:
            self.changed.add(queue.head)
        queue.blocked, queue.head, queue.reserved = False, "", {}

    def _hold_back(self, victims: Iterable[str], preemptor: str) -> None:
        """Hold victims back until their preemptor is admitted."""
        for victim in victims:
            known = victim in self.held_back
            self.held_back[victim] = preemptor
            if not known:
                self._requeue(victim)

    def _let_go(self, victims: Iterable[str], preemptor: str) -> None:
        """Let the victims that wait for this preemptor be tried again."""
        for victim in victims:
            if self.held_back.get(victim) == preemptor:
                del self.held_back[victim]
                self._requeue(victim)

    def _forget_lost(self, loser: str) -> None:
        if (lost := self.lost.pop(loser, None)) is not None:
            self.changed.add(loser)
            self._let_go(lost.victims, loser)
