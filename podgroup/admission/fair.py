"""Fair preemption: take from the larger share, until shares are as even as they can be.

Theory. The search counts the request as admitted. It goes down the tree again and again, each time
to the child with the largest share, and looks at the first candidate of the queue where it arrives.
Whether the candidate is taken is decided just below the lowest cohort above preemptor and victim:
rule *LessThanOrEqualToFinalShare* asks that the preemptor's side has at most the share that is left
to the victim's side, rule *LessThanInitialShare* that it has less than the victim's side has now. A
preemptor within its own quota takes from borrowers without such a rule.
(Kueue: pkg/scheduler/preemption/fairsharing; rules S2-a and S2-b of its KEP 1714.)

Children with equal shares are ordered by their candidates, cohorts by name.

Invariant: usage in the trees is the same after a search as before.
"""

from collections.abc import Iterable, Iterator, Set
from typing import Final

from podgroup.admission.holding import AdmittedWorkload
from podgroup.admission.model import FlavorResource, Strategy
from podgroup.admission.share import INFINITE, Share, share_of
from podgroup.admission.tree import Node, Usage, sides
from podgroup.admission.victims import (
    Field,
    Preemptor,
    Victim,
    candidates,
    fill_back,
    has_room,
    in_order,
    order,
    remove,
    restore,
)
from podgroup.model.names import (
    PREEMPTED_FAIR_SHARING,
    PREEMPTED_IN_CLUSTER_QUEUE,
    PREEMPTED_IN_COHORT,
)

BOTH: Final[tuple[Strategy, ...]] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


def search(
    field: Field, preemptor: Preemptor, needs: Set[FlavorResource], requests: Usage
) -> list[Victim]:
    """Return the victims whose preemption makes `requests` fit; none if no preemption does."""
    found = _everyone(preemptor, needs)
    if not found:
        return []
    listed = in_order(field, preemptor, found)
    preemptor.node.take(requests)
    try:
        run = _Search(field, preemptor, needs, requests)
        listed = [one for one in listed if not run.spares(one)]
        done = run.first(listed) or run.second() or run.again(listed)
    finally:
        preemptor.node.give(requests)
    if not done:
        for victim in run.taken:
            restore(field, victim.holding)
        return []
    return fill_back(field, preemptor, requests, run.taken, True, own_too=not run.by_giving_up)


def _everyone(preemptor: Preemptor, needs: Set[FlavorResource]) -> list[AdmittedWorkload]:
    own = preemptor.queue
    found = candidates(preemptor, preemptor.node, needs, own.within_cluster_queue)
    if preemptor.node.parent is not None and own.reclaim_within_cohort != "Never":
        for queue in _queues(preemptor.node.root):
            if queue is not preemptor.node and not queue.within(needs):
                found += candidates(preemptor, queue, needs, own.reclaim_within_cohort)
    return found


def _queues(cohort: Node) -> Iterator[Node]:
    yield from cohort.queues
    for child in cohort.cohorts:
        yield from _queues(child)


class _Turns:
    """The order in which ClusterQueues are looked at."""

    def __init__(self, preemptor: Preemptor, found: Iterable[AdmittedWorkload]) -> None:
        self.preemptor = preemptor
        self.left: dict[str, list[AdmittedWorkload]] = {}
        for other in found:
            self.left.setdefault(other.cluster_queue, []).append(other)
        for listed in self.left.values():
            listed.reverse()  # the first candidate last, where `pop` takes it
        self.above = set(preemptor.node.path())
        self.done: set[Node] = set()

    def __iter__(self) -> Iterator[Node]:
        own = self.preemptor.node
        if own.parent is None:
            while self.left.get(own.name):
                yield own
            return
        while own.root not in self.done:
            queue = self._under(own.root)
            if queue is not None:
                yield queue

    def pop(self, queue: Node) -> AdmittedWorkload:
        """Take the first candidate of a ClusterQueue, and return it."""
        return self.left[queue.name].pop()

    def _under(self, cohort: Node) -> Node | None:
        queue, queue_share = self._largest_queue(cohort)
        inner, inner_share = self._largest_cohort(cohort)
        if inner is not None and (queue is None or inner_share.rank >= queue_share.rank):
            return self._under(inner)
        if queue is None:
            self.done.add(cohort)
        return queue

    def _largest_queue(self, cohort: Node) -> tuple[Node | None, Share]:
        best: Node | None = None
        best_share = share_of(cohort)
        for queue in cohort.queues:
            if queue in self.done:
                continue
            share = share_of(queue)
            idle = not share.borrows and queue is not self.preemptor.node
            if idle or not self.left.get(queue.name):
                self.done.add(queue)
            elif (
                best is None
                or share.rank > best_share.rank
                or (share.rank == best_share.rank and self._first(queue) < self._first(best))
            ):
                best, best_share = queue, share
        return best, best_share

    def _largest_cohort(self, cohort: Node) -> tuple[Node | None, Share]:
        best: Node | None = None
        best_share = share_of(cohort)
        for child in cohort.cohorts:
            if child in self.done:
                continue
            share = share_of(child)
            if not share.borrows and child not in self.above:
                self.done.add(child)
            elif best is None or share.rank >= best_share.rank:
                best, best_share = child, share
        return best, best_share

    def _first(self, queue: Node) -> tuple[bool, bool, int, float, str]:
        return order(self.preemptor, self.left[queue.name][-1])


class _Search:
    def __init__(
        self, field: Field, preemptor: Preemptor, needs: Set[FlavorResource], requests: Usage
    ) -> None:
        self.field = field
        self.preemptor = preemptor
        self.requests = requests
        self.strategies = field.configuration.fair_strategies or BOTH
        self.by_right = preemptor.node.within(needs)
        self.taken: list[Victim] = []
        self.later: list[AdmittedWorkload] = []
        self.by_giving_up = False
        """Others may be taken because the preemptor's own ClusterQueue gives quota up."""

    def spares(self, other: AdmittedWorkload) -> bool:
        """Tell whether a candidate's least run time is not over."""
        if self.field.spares is None:
            return False
        reason = PREEMPTED_IN_CLUSTER_QUEUE
        if other.cluster_queue != self.preemptor.node.name:
            reason = PREEMPTED_IN_COHORT if self.by_right else PREEMPTED_FAIR_SHARING
        return self.field.spares(other, reason)

    def first(self, found: list[AdmittedWorkload]) -> bool:
        """Take candidates by the first strategy; tell whether the request fits."""
        turns = _Turns(self.preemptor, found)
        for queue in turns:
            if queue is self.preemptor.node or self.by_right:
                own = queue is self.preemptor.node
                reason = PREEMPTED_IN_CLUSTER_QUEUE if own else PREEMPTED_IN_COHORT
                if self._taken(turns.pop(queue), reason):
                    return True
                continue
            ours, theirs = sides(self.preemptor.node, queue)
            new, old = share_of(ours), share_of(theirs)
            if new.value == INFINITE and old.value != INFINITE:
                while turns.left[queue.name]:
                    self.later.append(turns.pop(queue))
                continue
            while turns.left[queue.name]:
                other = turns.pop(queue)
                if self._allowed(self.strategies[0], other, new, old, theirs):
                    if self._taken(other, PREEMPTED_FAIR_SHARING):
                        return True
                    break
                self.later.append(other)
        return False

    def again(self, found: list[AdmittedWorkload]) -> bool:
        """Go on with the rest while a candidate is taken, since each changes the shares (Q15)."""
        self.by_giving_up = True
        before = 0
        while not self.field.configuration.as_kueue and before < len(self.taken):
            before = len(self.taken)
            gone = {victim.holding.id for victim in self.taken}
            self.later = []
            if self.first([other for other in found if other.id not in gone]) or self.second():
                return True
        return False

    def second(self) -> bool:
        """Take candidates by the second strategy, at most one of each queue."""
        if len(self.strategies) < 2:
            return False
        turns = _Turns(self.preemptor, self.later)
        for queue in turns:
            other = turns.pop(queue)
            ours, theirs = sides(self.preemptor.node, queue)
            new, old = share_of(ours), share_of(theirs)
            if self._allowed(self.strategies[1], other, new, old, theirs) and self._taken(
                other, PREEMPTED_FAIR_SHARING
            ):
                return True
            turns.done.add(queue)
        return False

    def _taken(self, other: AdmittedWorkload, reason: str) -> bool:
        """Take a candidate; tell whether the request fits now."""
        remove(self.field, other)
        self.taken.append(Victim(other, reason))
        self.preemptor.node.give(self.requests)
        fits = has_room(self.preemptor.node, self.requests, True) and self.field.placed()
        self.preemptor.node.take(self.requests)
        return fits

    def _allowed(
        self, strategy: Strategy, other: AdmittedWorkload, new: Share, old: Share, theirs: Node
    ) -> bool:
        if strategy == "LessThanInitialShare":
            return new.rank < old.rank
        remove(self.field, other)
        after = share_of(theirs)
        restore(self.field, other)
        return new.rank <= after.rank
