"""SchedulerCache: events, entered into all parts of the cache that they concern.

Theory. Events of one part alone are entered there. Events of several parts are entered here:
objects that pending workloads wait for, a workload's way from pending to admitted and back, the
beginning of a pass, and claims and starts that the log has, which are entered after a restart.

Invariant: a workload is pending or admitted, never both.
"""

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

from podgroup.admission.cache.cached_queue import CachedQueue
from podgroup.admission.cache.claims import Claim, KeptQuota
from podgroup.admission.cache.ledger import Balance
from podgroup.admission.cache.objects import Objects
from podgroup.admission.cache.preemptions import Preemptions
from podgroup.admission.cache.queue_manager import QueueManager, Refusal
from podgroup.admission.cache.reservations import Reservations
from podgroup.admission.cache.reserved_starts import ReservedStart
from podgroup.admission.cache.wake_ups import WakeUps
from podgroup.admission.holding import (
    AdmittedWorkload,
    PendingWorkload,
    unadmitted_id,
    usage_of,
)
from podgroup.admission.model import (
    Configuration,
    Eviction,
    Reservation,
    Workload,
)
from podgroup.model.least_run import Times
from podgroup.model.objects import (
    ClusterQueueView,
    LocalQueueView,
    NamespaceView,
    NodeView,
    QueueObject,
    WorkloadPriorityClassView,
)


class NewAdmission(NamedTuple):
    """An admission as it was entered: the pending workload, and the state before.

    `ran` is the entry of its pods that ran without admission, `account` the LocalQueue's account,
    `victims` are the victims that its claim held back.
    """

    waiter: PendingWorkload
    ran: AdmittedWorkload | None
    account: Balance | None
    victims: tuple[str, ...]


class SchedulerCache:
    """All parts of the cache. Times in seconds, as in `model`."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.cycle = 0
        """Number of rounds; the scheduler counts them."""
        self.objects = Objects(configuration)
        self.wake_ups = WakeUps(self.objects, configuration)
        self.reservations = Reservations(self.objects, self.wake_ups, configuration)
        self.queues = QueueManager(self.objects, self.wake_ups, self.reservations, configuration)
        self.claims = self.queues.claims
        self.starts = self.queues.starts
        self.preemptions = Preemptions()

    # Objects

    def apply(self, value: QueueObject, *, usable: bool = True) -> None:
        """Enter an object, new or changed; a ClusterQueue is `usable` if it can admit at all."""
        match value:
            case NodeView():
                self._more_fits(self.objects.places.set_node(value))
            case ClusterQueueView():
                self._apply_cluster_queue(value, usable)
            case LocalQueueView():
                known = self.objects.local_queues.get((value.namespace, value.name))
                if known is None or _leads(known) != _leads(value):
                    self._change_local_queue((value.namespace, value.name), value)
            case NamespaceView():
                self.objects.store(value)
                self.queues.set_namespace(value.name)
            case WorkloadPriorityClassView():
                self._set_least_run(value.name, value.least_run)
            case _:
                self.objects.store(value)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Remove an object."""
        if kind == "Node":
            self._more_fits(self.objects.places.remove_node(name))
        elif kind == "WorkloadPriorityClass":
            self._set_least_run(name, ())
        elif kind == "LocalQueue":
            self._change_local_queue((namespace, name), None)
        elif kind == "ClusterQueue":
            queue = self.objects.cluster_queues.get(name)
            if self.objects.discard(kind, name) and queue is not None:
                self.claims.let_first(queue, "", False)
                self.queues.set_queue(queue, None)
        elif self.objects.discard(kind, name) and kind == "Namespace":
            self.queues.set_namespace(name)

    def _set_least_run(self, name: str, times: Times) -> None:
        if self.objects.least_run.set_class(name, times):
            self.wake_ups.release_all()

    def _more_fits(self, flavors: set[str]) -> None:
        for name, queue in self.objects.cluster_queues.items() if flavors else ():
            if not flavors.isdisjoint(queue.offer.flavors):
                self.wake_ups.released.add(name)

    def _apply_cluster_queue(self, spec: ClusterQueueView, usable: bool) -> None:
        old = self.objects.cluster_queues.get(spec.name)
        by_use = self.reservations.ledger is not None and spec.usage_based
        fresh = CachedQueue(spec, by_use, usable)
        if old is not None:
            fresh.carry_over(old)
        self.objects.store(fresh)
        self.queues.set_queue(old, fresh)

    def _change_local_queue(self, key: tuple[str, str], queue: LocalQueueView | None) -> None:
        manager = self.queues
        waiting = manager.through(key)
        for waiter in waiting:
            manager.take_out(waiter)
        if queue is not None:
            self.objects.store(queue)
        else:
            self.objects.discard("LocalQueue", key[1], key[0])
        for waiter in waiting:
            manager.place(waiter)
        if queue is None and self.reservations.ledger is not None:
            self.reservations.ledger.forget(key)

    # Workloads

    def submit(self, workload: Workload, refused: Refusal | None = None) -> None:
        """Enter a workload that requests quota; see `QueueManager.submit`."""
        if workload.id not in self.reservations.admitted:
            self.queues.submit(workload, refused)

    def reserve(self, workload: Workload, reservation: Reservation) -> None:
        """Enter that a workload holds quota."""
        self.queues.remove(workload.id)
        self.reservations.add(workload, reservation)

    def admit(self, waiter: PendingWorkload, reservation: Reservation) -> NewAdmission:
        """Enter a decided admission; return the argument of `withdraw`."""
        ran = self.reservations.admitted.get(unadmitted_id(waiter.id))
        account = self.reservations.account(waiter.local_queue)
        claim = self.claims.by_id.get(waiter.id)
        victims = claim.victims if claim is not None else ()
        workload = waiter.workload()
        self.reserve(workload, reservation)
        self.reservations.charge_use(waiter.id, waiter.shape.total(False))
        self.remove(unadmitted_id(waiter.id))
        return NewAdmission(waiter, ran, account, victims)

    def withdraw(self, new: NewAdmission, by: str) -> None:
        """Withdraw an admission that is known here alone, in favour of `by`.

        The workload waits as it did before. Its victims wait for it as if its claim had been taken
        over.
        """
        waiter = new.waiter
        holding = self.reservations.remove(waiter.id)
        if holding is not None:
            self.wake_ups.released.add(holding.cluster_queue)
        if new.ran is not None:
            self.reservations.enter(new.ran)
        self.reservations.put_back(waiter.local_queue, new.account)
        self.queues.take_back(waiter)
        if new.victims:
            self.claims.let_wait_for_loser(waiter.id, new.victims, by)

    def evict(self, id: str, eviction: Eviction, by: str = "") -> None:
        """Enter that a workload is being evicted; `by` is its preemptor, "" if it has none."""
        holding = self.reservations.evict(id, eviction)
        if holding is None:
            return
        if by:
            self.preemptions.add(id, by)
        elif self.objects.present is not self.objects.forest:
            self.wake_ups.released.add(holding.cluster_queue)  # the quota is as good as free

    def release(self, id: str, requeue: bool = True) -> None:
        """Enter that a workload gave its quota back; it waits again unless `requeue` is False."""
        holding = self.reservations.remove(id)
        self.reservations.leaving_later.discard(id)
        if holding is None:
            return
        self.wake_ups.on_release(holding.local_queue, holding.cluster_queue)
        if requeue:
            self.queues.requeue(holding.workload, holding.evicted)
        else:
            self._forget(id)

    def remove(self, id: str) -> None:
        """Enter that a workload is gone, whether it waited or held quota."""
        self.release(id, requeue=False)
        waiter = self.queues.waiting.get(id)
        if waiter is None:
            return
        queue = self.queues.queue_of(waiter)
        self.queues.remove(id)
        self._forget(id)
        if queue is not None:
            self.wake_ups.on_release(waiter.local_queue, queue.spec.name)

    def _forget(self, id: str) -> None:
        self.claims.held_back.pop(id, None)
        self.preemptions.forget(id)

    # Passes

    def settle(self, now: float, *, sample: bool = True) -> None:
        """Bring everything up to date for a pass at `now`; `sample`: use over time as well."""
        self.wake_ups.begin(now)
        if self.objects.stale:
            self._build()
        self.queues.wake()
        if sample and self.reservations.ledger is not None:
            self.reservations.sample_use()
            for queue in self.objects.cluster_queues.values():
                if queue.lines.by_use:
                    self.claims.unblock(queue)  # use may have changed the head

    def _build(self) -> None:
        """Build the trees anew, and let every pending workload be tried again."""
        for id, claim in list(self.claims.by_id.items()):
            self.claims.end(id)
            self.queues.place(claim.waiter)
        self.claims.end_lost()
        self.claims.forget_heads()
        self.objects.build(one.given for one in self.reservations.admitted.values())
        self.reservations.recount()
        self.wake_ups.release_all()

    # Across a restart

    def kept_for(self, id: str) -> KeptQuota | None:
        """Return what is kept for a workload, for its record; None for nothing."""
        claim = self.claims.by_id.get(id)
        if claim is not None:
            return KeptQuota(
                claim.queue,
                claim.pod_sets,
                borrowing=claim.borrowing,
                victims=claim.victims,
                until=claim.until,
            )
        waiter = self.queues.waiting.get(id)
        queue = self.queues.queue_of(waiter) if waiter is not None else None
        if queue is not None and queue.sticky and queue.preemptor == id:
            return KeptQuota(queue.spec.name, head=True)
        blocking = queue if queue is not None and queue.blocked and queue.head == id else None
        name = blocking.spec.name if blocking is not None else ""
        usage = blocking.reserved if blocking is not None else {}
        lost = self.claims.lost.get(id)
        if not usage and lost is None:
            return None
        victims, winner = lost or ((), "")
        return KeptQuota(name, usage=usage, victims=victims, head=bool(usage), lost_to=winner)

    def restore(
        self,
        refused: Container[str],
        kept: Mapping[str, KeptQuota],
        starts: Iterable[ReservedStart] = (),
    ) -> None:
        """Enter kept quota, by id, and reserved starts again, after a restart.

        A StrictFIFO queue is blocked by a head that was `refused`.
        By Kueue's way a head blocks no workload: it is tried again and again (Q1).
        """
        queues = self.objects.cluster_queues
        for start in sorted(starts, key=lambda one: one.rank):
            if start.queue in queues:
                self.starts.by_id[start.id] = start
                queues[start.queue].starts.add(start.id)
        for queue in () if self.configuration.as_kueue else queues.values():
            if queue.strict and queue.active and not queue.blocked:
                first = self.queues.first(queue)
                if first is not None and first.id in refused:
                    here = kept.get(first.id)
                    self.claims.block(queue, first.id, here.usage if here is not None else {})
        for id, one in kept.items():
            waiter = self.queues.waiting.get(id)
            if one.lost_to:
                self.claims.let_wait_for_loser(id, one.victims, one.lost_to)
            elif one.head and not one.usage and one.queue in queues:
                self.claims.let_first(queues[one.queue], id, True)
            elif not one.head and waiter is not None and one.queue in queues:
                self.queues.take_out(waiter)
                usage = usage_of(one.pod_sets)
                claim = Claim(waiter, one.queue, one.pod_sets, usage, one.borrowing, one.victims)
                claim.until = one.until
                self.claims.begin(claim)


def _leads(queue: LocalQueueView) -> tuple[str, str, int]:
    """Return the fields of a LocalQueue that decide: ClusterQueue, stop policy, weight."""
    return queue.cluster_queue, queue.stop_policy, queue.weight_nano
