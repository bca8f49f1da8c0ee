"""The scheduler: passes over the book, and what each of them decides.

Theory. A pass has rounds; in a round each ClusterQueue brings one head, all heads are nominated,
and processed one after the other. One round is a cycle of Kueue. By the better ways the pass goes
on until none is left to try: its cost is that of what it admits and of the shapes it rejects.

A scheduler is a state without clock, randomness or I/O: the same events and passes in the same
order make the same verdicts, whatever the order of the maps and lists that they were given in.

Invariant: nothing is admitted beyond what is available at that moment.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from msgspec.structs import replace

from podgroup.admission import order
from podgroup.admission.book import HOPELESS, Book, own
from podgroup.admission.head import Head
from podgroup.admission.holding import Holding, Waiter
from podgroup.admission.keeping import Keeping, claim_of
from podgroup.admission.model import Configuration, Eviction, PodSetAssignment, Reservation
from podgroup.admission.nominate import Nominator
from podgroup.admission.plan import Mode
from podgroup.admission.queue import Queue
from podgroup.admission.shortfall import preempted as between
from podgroup.admission.simulating import Simulation, waiting_for
from podgroup.admission.verdicts import (
    Admission,
    HeadVerdict,
    PreemptionVerdict,
    Verdicts,
)
from podgroup.admission.ways import BETTER, Ways
from podgroup.admission.wording import (
    ASSUMED,
    PENDING_PREEMPTION,
    preempted,
)
from podgroup.names import EVICTED_PREEMPTED

_AS_IT_IS = nullcontext()


class Scheduler:
    """Decides who is admitted and who gives way. Events go to `book`, passes are `decide`."""

    def __init__(self, configuration: Configuration | None = None, ways: Ways = BETTER) -> None:
        self.book = Book(configuration or Configuration(), ways)
        self.looking_at = ""
        """What it is deciding about, for the error report if that fails."""
        self._nominator = Nominator(self.book)
        self._ways = ways
        self._occasion = -1
        self._let_in: set[str] = set()
        """Who was admitted on this occasion."""
        self._circling = False
        """A workload was admitted on it twice."""
        self._looked_at: set[str] = set()

    def decide(self, now: float) -> Verdicts:
        """Run a pass at `now` (seconds); nothing is looked at if none is to be tried."""
        book = self.book
        book.settle(now)
        heads: list[HeadVerdict] = []
        admitted: list[Admission] = []
        evicted: list[PreemptionVerdict] = []
        self._admit_claims(heads, admitted)
        book.try_again()
        while self._round(heads, admitted, evicted):
            pass
        return Verdicts(heads=tuple(heads), admitted=tuple(admitted), preempted=tuple(evicted))

    def settle(self, now: float, occasion: int) -> Verdicts:
        """Run passes at `now` until there is a verdict to report, or nothing new would come of it.

        By the better ways that is one pass. Kueue's scheduler turns round and round with one head
        per ClusterQueue, through all that is to be tried and all flavors: what it would come to
        before anything else happens is decided at once, and each head gets the last verdict.
        Where workloads preempt one another without end they take one turn per `occasion`, which is
        the number of what has happened.
        """
        if self._ways.drain:
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
            if verdicts.admitted or verdicts.preempted or here in seen or verdicts.idle:
                break
            seen.add(here)
        let_in = {one.id for one in verdicts.admitted}
        self._circling = self._circling or not self._let_in.isdisjoint(let_in)
        self._let_in |= let_in
        self._looked_at.update(latest)
        if self._circling or not (verdicts.admitted or verdicts.preempted):
            self.book.rest(self._looked_at)
            self._looked_at.clear()
        return replace(verdicts, heads=tuple(latest.values()))

    def _round(
        self,
        heads: list[HeadVerdict],
        admitted: list[Admission],
        evicted: list[PreemptionVerdict],
    ) -> bool:
        """Run a round; tell whether another one may decide something."""
        book = self.book
        queues = book.ready()
        if not queues:
            return False
        book.cycle += 1
        popped = []
        for queue in queues:
            waiter = book.pop(queue)
            node = book.forest.queues[queue.spec.name]
            preemptor = queue.preemptor == waiter.id
            popped.append(Head(waiter, queue.offer, node, preemptor))
        nominated = []
        for head in popped:
            if self._nominator.examine(head):
                with self._apart_from_own(head.waiter):
                    self._nominator.nominate(head, self._nominator.resumption(head))
                nominated.append(head)
        keep = self._ways.keep_for_preemptor
        processing = (Keeping if keep else Simulation)(book, self._nominator)
        shares_decide = book.configuration.fair_strategies is not None
        line = order.fair(nominated) if shares_decide else order.classical(nominated)
        places: dict[str, int] = {}
        for head in line:
            with self._apart_from_own(head.waiter):
                processing.process(head)
            root = head.node.root.name
            head.order = places[root] = places.get(root, -1) + 1
            if keep:
                self._enter(head, admitted, evicted)
        processing.undo()
        progress = False
        for head in popped:
            before = len(admitted) + len(evicted)
            if not keep:
                self._enter(head, admitted, evicted)
            if head.status != ASSUMED and head.waiter.id not in book.claims:
                progress = self._put_back(head) or progress
            else:
                progress = True
            progress = progress or len(admitted) + len(evicted) > before
            heads.append(head.verdict())
        return progress and self._ways.drain

    def _apart_from_own(self, waiter: Waiter) -> AbstractContextManager[None]:
        """Look at quota without what pods of a workload take already that is not admitted.

        As far as it asks for that much: what they take beyond they go on taking.
        """
        self.looking_at = waiter.id
        taken = self.book.holdings.get(own(waiter.id))
        if taken is None or taken.cluster_queue not in self.book.forest.queues:
            return _AS_IT_IS
        return self._without(taken, waiter)

    @contextmanager
    def _without(self, taken: Holding, waiter: Waiter) -> Iterator[None]:
        asked: dict[str, int] = {}
        for one in waiter.shape.requests(True):
            for resource, amount in one.items():
                asked[resource] = asked.get(resource, 0) + amount
        usage = {}
        for key, amount in sorted(taken.usage.items()):
            usage[key] = min(amount, asked.get(key[1], 0))
            asked[key[1]] = asked.get(key[1], 0) - usage[key]
        forests = dict.fromkeys((self.book.forest, self.book.present))
        nodes = [forest.queues[taken.cluster_queue] for forest in forests]
        for node in nodes:
            node.run(usage, -1)
        yield
        for node in nodes:
            node.run(usage)

    def _enter(
        self, head: Head, admitted: list[Admission], evicted: list[PreemptionVerdict]
    ) -> None:
        """Enter what was decided about a head into the book."""
        book = self.book
        if head.status == ASSUMED:
            plan = head.planned
            admitted.append(
                self._admit(head.waiter, head.node.name, plan.assignments(), plan.borrowing)
            )
        elif head.requeue == PENDING_PREEMPTION:
            for victim in head.targets if head.planned.mode is Mode.PREEMPT else ():
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
                        book.forest.path_text(head.node.name),
                        book.forest.path_text(victim.holding.cluster_queue),
                    ),
                    between=between(
                        victim.reason,
                        book.present.queues[victim.holding.cluster_queue],
                        book.present.queues[head.node.name],
                    ),
                )
                evicted.append(verdict)
                eviction = Eviction(book.now, EVICTED_PREEMPTED, verdict.message)
                book.evict(victim.holding.id, eviction, head.waiter.id)
            if self._ways.keep_for_preemptor:
                head.waiter.reason, head.waiter.message = head.reason, head.message
                book.claim(claim_of(head))

    def _put_back(self, head: Head) -> bool:
        """Put a head back into its line; tell whether that lets others be tried."""
        book, waiter = self.book, head.waiter
        queue = book.queues[head.node.name]
        waiter.reason, waiter.message = head.reason, head.message
        waiter.short = () if head.plan is None else head.plan.shortages
        hopeless = self._ways.pass_hopeless and head.reason in HOPELESS
        book.put_back(waiter, head.requeue, head.reason, hopeless)
        if not queue.lines.is_active(waiter):
            return True
        if queue.strict and self._may_block(head):
            own_only = self._ways.lend_while_waiting
            usage = waiting_for(head, own_only) if self._reserves(queue, head) else {}
            book.block(queue, waiter.id, {key: max(0, amount) for key, amount in usage.items()})
        return False

    def _may_block(self, head: Head) -> bool:
        unfinished = head.waiter.last is not None and head.waiter.last.unfinished
        return self._ways.keep_for_preemptor and not unfinished

    @staticmethod
    def _reserves(queue: Queue, head: Head) -> bool:
        if head.plan is None or head.plan.mode is not Mode.PREEMPT:
            return False
        return queue.spec.preemption.reclaim_within_cohort != "Any"

    def _admit(
        self, waiter: Waiter, queue: str, pod_sets: tuple[PodSetAssignment, ...], borrowing: int
    ) -> Admission:
        self.book.admitted(
            waiter, Reservation(cluster_queue=queue, at=self.book.now, pod_sets=pod_sets)
        )
        self.book.remove(own(waiter.id))
        return Admission(id=waiter.id, cluster_queue=queue, pod_sets=pod_sets, borrowing=borrowing)

    def _admit_claims(self, heads: list[HeadVerdict], admitted: list[Admission]) -> None:
        """Admit those whose evictions have made room; drop claims that wait for nothing."""
        book = self.book
        claims = sorted(
            book.claims.values(), key=lambda c: (-c.waiter.priority, c.waiter.since, c.waiter.uid)
        )
        for claim in claims:
            present = book.present.queues[claim.queue]
            waiter = claim.waiter
            with self._apart_from_own(waiter):
                fits = present.fits(claim.usage)
            if fits:
                heads.append(
                    HeadVerdict(id=waiter.id, cluster_queue=claim.queue, mode="Fit", status=ASSUMED)
                )
                admitted.append(self._admit(waiter, claim.queue, claim.pod_sets, claim.borrowing))
            elif not book.leaving_beside(claim.queue):
                book.end_claim(waiter.id)
                book.place(waiter)
