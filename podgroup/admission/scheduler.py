"""The scheduler: passes over the cache, and the verdicts of each pass.

Theory. A pass has rounds; in a round each ClusterQueue brings one head, all heads are nominated,
and processed one after the other. One round is a cycle of Kueue. A pass goes on until no workload
is left to try: its cost is that of its admissions and of the shapes that it rejects. With
`as_kueue` a pass is one round.

A scheduler is a state without clock, randomness or I/O: the same events and passes in the same
order give the same verdicts, whatever the order of the maps and lists in the events.

Invariant: no admission exceeds the quota that is available at that moment.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from msgspec.structs import replace

from podgroup.admission import order, second_pass
from podgroup.admission.cache.cached_queue import CachedQueue
from podgroup.admission.cache.claims import Claim
from podgroup.admission.cache.scheduler_cache import NewAdmission, SchedulerCache
from podgroup.admission.head import Head
from podgroup.admission.holding import AdmittedWorkload, PendingWorkload, unadmitted_id
from podgroup.admission.kueue_cycle import KueueCycle, waiting_for
from podgroup.admission.model import Configuration, Eviction, PodSetAssignment, Reservation
from podgroup.admission.nominate import Nominator
from podgroup.admission.plan import Mode
from podgroup.admission.reclaimers import Reclaimers
from podgroup.admission.reserving_cycle import ReservingCycle, claim_of
from podgroup.admission.shortfall import preempted as between
from podgroup.admission.topology.places import Given
from podgroup.admission.verdicts import (
    AdmissionVerdict,
    HeadVerdict,
    PreemptionVerdict,
    Verdicts,
)
from podgroup.admission.wording import (
    ASSUMED,
    PENDING_LEAST_RUN,
    PENDING_PREEMPTION,
    preempted,
)
from podgroup.model.names import EVICTED_PREEMPTED
from podgroup.model.reasons import effect_of

_AS_IT_IS = nullcontext()
_NOTHING = Verdicts()
_MOST_WITHDRAWALS = 3
"""How often a pass withdraws an admission for the same workload at most, so that it ends."""


class Scheduler:
    """Decides about admissions and preemptions. Events go to `cache`, passes are `decide`."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.cache = SchedulerCache(configuration or Configuration())
        self.looking_at = ""
        """The workload that is being decided about, for the report of an error."""
        self._nominator = Nominator(self.cache)
        self._reclaimers = Reclaimers(self.cache, self._nominator)
        self._new: dict[str, NewAdmission] = {}
        """Workloads that this pass has admitted, and whose admission is known here alone."""
        self._started = False
        """A workload with a reserved start was admitted in this pass."""
        self.withdrawn: Counter[tuple[str, str]] = Counter()
        """(withdrawn workload, head) -> how often in this pass."""
        self._as_kueue = self.cache.configuration.as_kueue
        self._occasion = -1
        self._let_in: set[str] = set()
        """Workloads that were admitted on this occasion."""
        self._circling = False
        """A workload was admitted twice on this occasion."""
        self._looked_at: set[str] = set()
        self._placed_anew: list[Given] = []
        """Places that this pass has given to pods of failed nodes."""

    def give_no_reasons(self) -> None:
        """Decide the same from now on, without reasons of workloads that are not admitted."""
        self._nominator.gives_reasons = False

    def decide(self, now: float) -> Verdicts:
        """Run a pass at `now` (seconds); it looks at nothing if no workload is to be tried."""
        cache = self.cache
        cache.settle(now)
        manager = cache.queues
        self._placed_anew = []
        self._begin()
        waiting = manager.waiting or cache.claims.by_id or cache.claims.lost
        if not (waiting or cache.reservations.failed_nodes):
            return _NOTHING  # most releases, where quota is plenty: 2 us of 5 less each
        if cache.starts.by_id or now >= cache.starts.due_at:
            self._nominator.starts.review()
        heads: list[HeadVerdict] = []
        admitted: list[AdmissionVerdict] = []
        evicted: list[PreemptionVerdict] = []
        failures = second_pass.decide(cache)
        if self._as_kueue:
            self._placed_anew = [second_pass.more_places(cache, one) for one in failures]
        if cache.claims.by_id and cache.configuration.fair_sharing:
            # Heads of smaller shares take over claims before claim holders are admitted.
            self._run_rounds(heads, admitted, evicted)
        self._admit_claims(heads, admitted, {one.by_id for one in evicted})
        self._look_again(heads, admitted, evicted)
        manager.try_released()
        self._run_rounds(heads, admitted, evicted)
        taken_up = 0
        while (
            cache.claims.end_lost()
            or self._reclaimers.reconsider()
            or self.withdrawn.total() + len(cache.claims.overtaken) > taken_up
        ):
            taken_up = self.withdrawn.total() + len(cache.claims.overtaken)
            self._look_again(heads, admitted, evicted)
            manager.try_released()
            self._run_rounds(heads, admitted, evicted)
        cache.claims.reconsidered.clear()  # each claim stays while nothing changes
        if self._as_kueue:
            for verdict in failures:
                second_pass.enter(cache, verdict)
        if self._started or (self.withdrawn and now >= cache.starts.due_at):
            # Usage of started workloads counts, and withdrawn workloads have their turn again.
            self._nominator.starts.review()
        return Verdicts(
            heads=tuple(heads),
            admitted=tuple(admitted),
            preempted=tuple(evicted),
            node_failures=tuple(failures),
        )

    def _begin(self) -> None:
        self._reclaimers.begin()
        self._new.clear()
        self._started = False
        self.withdrawn.clear()
        self._nominator.spared.clear()
        self.cache.claims.overtaken.clear()

    def settle(self, now: float, occasion: int) -> Verdicts:
        """Run passes at `now` until there is a verdict to report, or no pass would change anything.

        That is one pass, except `as_kueue`: Kueue's scheduler runs cycle after cycle with one head
        per ClusterQueue, through all workloads to be tried and all flavors. Everything that it
        would decide before the next event is decided at once, and each head gets its last verdict.
        Where workloads preempt each other without end they take one turn per `occasion`, which is
        the number of an event.
        """
        if not self._as_kueue:
            return self.decide(now)
        if self._occasion != occasion:
            self._occasion, self._circling = occasion, False
            self._let_in.clear()
        verdicts, latest = Verdicts(), dict[str, HeadVerdict]()
        seen: set[str] = set()
        while not self._circling:
            verdicts = self.decide(now)
            latest.update({head.id: head for head in verdicts.heads})
            here = repr([(head.id, head.reason, head.pod_sets) for head in verdicts.heads])
            if verdicts.changing or here in seen or verdicts.idle:
                break
            seen.add(here)
        let_in = {one.id for one in verdicts.admitted}
        self._circling = self._circling or not self._let_in.isdisjoint(let_in)
        self._let_in |= let_in
        self._looked_at.update(latest)
        if self._circling or not verdicts.changing:
            self.cache.queues.mark_inadmissible(self._looked_at)
            self._looked_at.clear()
        return replace(verdicts, heads=tuple(latest.values()))

    def _run_rounds(
        self,
        heads: list[HeadVerdict],
        admitted: list[AdmissionVerdict],
        evicted: list[PreemptionVerdict],
    ) -> None:
        while self._round(heads, admitted, evicted):
            pass

    def _round(
        self,
        heads: list[HeadVerdict],
        admitted: list[AdmissionVerdict],
        evicted: list[PreemptionVerdict],
    ) -> bool:
        """Run a round; tell whether another round may change anything."""
        brought = self.cache.queues.heads()
        return bool(brought) and self._decide(brought, heads, admitted, evicted)

    def _decide(
        self,
        brought: list[tuple[CachedQueue, PendingWorkload]],
        heads: list[HeadVerdict],
        admitted: list[AdmissionVerdict],
        evicted: list[PreemptionVerdict],
    ) -> bool:
        """Decide about the workloads that ClusterQueues brought; tell if others may be tried."""
        cache = self.cache
        cache.cycle += 1
        popped = [self._head(queue, waiter) for queue, waiter in brought]
        nominated = [head for head in popped if self._nominates(head)]
        processing = (
            KueueCycle(cache, self._nominator, self._placed_anew)
            if self._as_kueue
            else ReservingCycle(cache, self._nominator, self._reclaimers)  # Q1
        )
        withdrawn = self.withdrawn.total()
        in_order = order.fair if cache.configuration.fair_sharing else order.classical
        places: dict[str, int] = {}
        untried = set(nominated)
        for head in in_order(nominated):
            untried.discard(head)
            with self._apart_from_own(head.waiter):
                processing.process(head)
                while self._withdraw_for(head, heads, admitted):
                    self._nominator.nominate(head, None)
                    processing.process(head)
            root = head.node.root.name
            head.order = places[root] = places.get(root, -1) + 1
            if isinstance(processing, ReservingCycle):
                self._enter(head, admitted, evicted)
                if processing.interrupted:
                    break
        if isinstance(processing, KueueCycle):
            processing.undo()
        progress = bool(untried) or self.withdrawn.total() > withdrawn
        for head in popped:
            if head in untried:
                cache.queues.place(head.waiter)
            if head.waiter.place is not None:  # untried, or a later head took its place
                progress = True
                continue
            before = len(admitted) + len(evicted)
            if isinstance(processing, KueueCycle):
                self._enter(head, admitted, evicted)
            if head.status == ASSUMED and head.waiter.id not in self._new:
                progress = True  # its admission was withdrawn for another head
                continue
            if head.status != ASSUMED and head.waiter.id not in cache.claims.by_id:
                progress = self._put_back(head) or progress
            else:
                progress = True
            progress = progress or len(admitted) + len(evicted) > before
            heads.append(head.verdict())
        return progress and not self._as_kueue  # Q2

    def _head(self, queue: CachedQueue, waiter: PendingWorkload) -> Head:
        node = self.cache.objects.forest.queues[queue.spec.name]
        preemptor, reserved = queue.preemptor == waiter.id, waiter.id in queue.starts
        return Head(waiter, queue.offer, node, preemptor, reserved=reserved)

    def _nominates(self, head: Head) -> bool:
        """Nominate a head, if it may be admitted here; tell whether it may."""
        nominator = self._nominator
        if not nominator.examine(head):
            return False
        with self._apart_from_own(head.waiter):
            nominator.nominate(head, nominator.resumption(head))
        return True

    def _withdraw_for(
        self, head: Head, heads: list[HeadVerdict], admitted: list[AdmissionVerdict]
    ) -> bool:
        """Withdraw the admissions of this pass that a head would preempt; tell if there are any.

        No pod of theirs was ungated, so no work is lost; a later preemption would lose it. A
        withdrawn workload takes nothing from the head in this pass (Q20).
        """
        if self._as_kueue or head.requeue not in (PENDING_PREEMPTION, PENDING_LEAST_RUN):
            return False
        by, spared = head.waiter.id, self._nominator.spared
        ids = {one.holding.id for one in head.targets} & self._new.keys()
        gone = {id for id in ids if self.withdrawn[id, by] < _MOST_WITHDRAWALS}
        for id in sorted(gone):
            self.withdrawn[id, by] += 1
            spared.setdefault(id, set()).add(by)
            self.cache.withdraw(self._new.pop(id), by)
        # With fair sharing two may go in circles: the head takes nothing from withdrawn workloads.
        spared.setdefault(by, set()).update(ids - gone)
        if gone:
            admitted[:] = [one for one in admitted if one.id not in gone]
            heads[:] = [one for one in heads if one.id not in gone or one.status != ASSUMED]
        return bool(ids)

    def _apart_from_own(self, waiter: PendingWorkload) -> AbstractContextManager[None]:
        """Look at quota without the usage of a workload's own pods that run without admission.

        Up to its request: usage beyond the request stays counted.
        """
        self.looking_at = waiter.id
        taken = self.cache.reservations.admitted.get(unadmitted_id(waiter.id))
        if taken is None or taken.cluster_queue not in self.cache.objects.forest.queues:
            return _AS_IT_IS
        return self._without(taken, waiter)

    @contextmanager
    def _without(self, taken: AdmittedWorkload, waiter: PendingWorkload) -> Iterator[None]:
        asked = waiter.shape.total(True)
        usage = {}
        for key, amount in sorted(taken.usage.items()):
            usage[key] = min(amount, asked.get(key[1], 0))
            asked[key[1]] = asked.get(key[1], 0) - usage[key]
        forests = dict.fromkeys((self.cache.objects.forest, self.cache.objects.present))
        nodes = [forest.queues[taken.cluster_queue] for forest in forests]
        for node in nodes:
            node.run(usage, -1)
        try:
            yield
        finally:
            for node in nodes:
                node.run(usage)

    def _enter(
        self, head: Head, admitted: list[AdmissionVerdict], evicted: list[PreemptionVerdict]
    ) -> None:
        """Enter the decision about a head into the cache."""
        cache, objects = self.cache, self.cache.objects
        if head.status == ASSUMED:
            plan = head.planned
            admitted.append(
                self._admit(head.waiter, head.node.name, plan.assignments(), plan.borrowing)
            )
        elif head.requeue in (PENDING_PREEMPTION, PENDING_LEAST_RUN):
            now = head.planned.mode is Mode.PREEMPT and not head.until
            for victim in head.targets if now else ():
                if victim.holding.evicted is not None:
                    continue
                verdict = PreemptionVerdict(
                    id=victim.holding.id,
                    cluster_queue=victim.holding.cluster_queue,
                    by_id=head.waiter.id,
                    by_uid=head.waiter.uid,
                    reason=victim.reason,
                    message=preempted(
                        head.waiter.uid,
                        head.waiter.owner_uid,
                        victim.reason,
                        objects.forest.path_text(head.node.name),
                        objects.forest.path_text(victim.holding.cluster_queue),
                    ),
                    between=between(
                        victim.reason,
                        objects.present.queues[victim.holding.cluster_queue],
                        objects.present.queues[head.node.name],
                    ),
                )
                evicted.append(verdict)
                eviction = Eviction(
                    cache.wake_ups.now, effect_of(EVICTED_PREEMPTED), verdict.message
                )
                cache.evict(victim.holding.id, eviction, head.waiter.id)
            if not self._as_kueue:  # Q1
                head.waiter.reason, head.waiter.message = head.reason, head.message
                cache.claims.begin(claim_of(head))

    def _put_back(self, head: Head) -> bool:
        """Put a head back into its line; tell whether other workloads may be tried then."""
        cache, waiter = self.cache, head.waiter
        queue = cache.objects.cluster_queues[head.node.name]
        waiter.reason, waiter.message = head.reason, head.message
        waiter.short = () if head.plan is None else head.plan.shortages
        hopeless = effect_of(head.reason).hopeless and not self._as_kueue  # Q6
        cache.queues.put_back(waiter, head.requeue, head.reason, hopeless)
        if not queue.lines.is_active(waiter):
            return True
        if queue.strict and not self._as_kueue:
            usage = waiting_for(head, own_only=True) if self._reserves(queue, head) else {}  # Q7
            cache.claims.block(
                queue, waiter.id, {key: max(0, amount) for key, amount in usage.items()}
            )
        return False

    @staticmethod
    def _reserves(queue: CachedQueue, head: Head) -> bool:
        if head.plan is None or head.plan.mode is not Mode.PREEMPT:
            return False
        return queue.spec.reclaim_within_cohort != "Any"

    def _admit(
        self,
        waiter: PendingWorkload,
        queue: str,
        pod_sets: tuple[PodSetAssignment, ...],
        borrowing: int,
    ) -> AdmissionVerdict:
        now, run_s = self.cache.wake_ups.now, waiter.run_s
        reservation = Reservation(
            cluster_queue=queue,
            at=now,
            pod_sets=pod_sets,
            ends_by=None if run_s is None else now + run_s,
        )
        self._new[waiter.id] = self.cache.admit(waiter, reservation)
        if waiter.id in self.cache.starts.by_id:
            self._nominator.starts.started(waiter.id)
            self._started = True
        return AdmissionVerdict(
            id=waiter.id, cluster_queue=queue, pod_sets=pod_sets, borrowing=borrowing
        )

    def _admit_claims(
        self, heads: list[HeadVerdict], admitted: list[AdmissionVerdict], waiting: Container[str]
    ) -> None:
        """Admit claim holders whose evictions have made room; end claims without evictions.

        `waiting` are claim holders whose evictions this pass has ordered: quota that is free
        already is for others.
        """
        cache, objects = self.cache, self.cache.objects
        claims = sorted(
            cache.claims.by_id.values(),
            key=lambda c: (-c.waiter.priority, c.waiter.since, c.waiter.uid),
        )
        for claim in claims:
            if claim.waiter.id in waiting or claim.until:
                continue
            present = objects.present.queues[claim.queue]
            waiter = claim.waiter
            with self._apart_from_own(waiter):
                fits = present.fits(claim.usage) and objects.places.free(
                    claim.given, count_pods=True, charged=True
                )
            if fits:
                heads.append(
                    HeadVerdict(id=waiter.id, cluster_queue=claim.queue, mode="Fit", status=ASSUMED)
                )
                admitted.append(self._admit(waiter, claim.queue, claim.pod_sets, claim.borrowing))
            elif not cache.reservations.leaving_beside(claim.queue):
                cache.claims.end(waiter.id)
                cache.queues.place(waiter)

    def _look_again(
        self,
        heads: list[HeadVerdict],
        admitted: list[AdmissionVerdict],
        evicted: list[PreemptionVerdict],
    ) -> None:
        """Decide anew about postponed preemptions that are due, or where quota became free.

        Claims that are not due are decided one by one, beside all other claims: where nothing else
        changed, each workload gets its former claim.
        """
        cache, manager = self.cache, self.cache.queues
        due, early = cache.claims.ready() if cache.objects.least_run.on else ((), ())
        for claim in due:
            cache.claims.end(claim.waiter.id, anew=True)
        for claim in (*_by_rank(due), *_by_rank(early)):
            waiter = claim.waiter
            if cache.claims.by_id.get(waiter.id) is claim:
                cache.claims.end(waiter.id, anew=True)
            elif waiter.place is not None or waiter.id in cache.claims.by_id:
                continue  # a workload decided before took the claim over
            queue = cache.objects.cluster_queues[claim.queue]
            self._decide([(queue, waiter)], heads, admitted, evicted)
            if waiter.id in manager.waiting and waiter.id not in cache.claims.by_id:
                cache.wake_ups.released.add(claim.queue)


def _by_rank(claims: Iterable[Claim]) -> list[Claim]:
    return sorted(claims, key=lambda one: order.rank(one.borrowing, one.waiter))
