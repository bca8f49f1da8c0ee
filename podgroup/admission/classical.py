"""Classical preemption: within the queue, and of borrowers, without regard to shares.

Theory. A ClusterQueue whose request fits the quota of a cohort above it has a right to that quota:
below that cohort borrowers must give way (*hierarchy*). Beyond, borrowers give way too, but a
preemptor that would borrow itself may take lower priorities only, and only if
``borrowWithinCohort`` allows it (*priority*). Candidates are taken one by one until the request
fits; then as many as possible are spared. (Kueue: pkg/scheduler/preemption/classical.)

Invariant: usage in the trees is the same after a search as before.
"""

from collections.abc import Iterator, Set
from typing import NamedTuple

from podgroup.admission.holding import AdmittedWorkload
from podgroup.admission.model import FlavorResource
from podgroup.admission.tree import Node, Usage
from podgroup.admission.victims import (
    NEVER,
    Field,
    Preemptor,
    Victim,
    candidates,
    fill_back,
    has_room,
    in_order,
    remove,
    restore,
    seasoned,
)
from podgroup.model.names import (
    PREEMPTED_IN_CLUSTER_QUEUE,
    PREEMPTED_IN_COHORT,
    PREEMPTED_WHILE_BORROWING,
)


class _Candidate(NamedTuple):
    holding: AdmittedWorkload
    reason: str
    borrowing_too: bool
    """A preemptor that borrows may take the candidate."""
    common: Node | None
    """The lowest cohort above candidate and preemptor; None within the preemptor's own queue."""


def search(
    field: Field, preemptor: Preemptor, needs: Set[FlavorResource], requests: Usage
) -> list[Victim]:
    """Return the victims whose preemption makes `requests` fit; none if no preemption does."""
    own = [
        _Candidate(other, PREEMPTED_IN_CLUSTER_QUEUE, True, None)
        for other in in_order(
            field,
            preemptor,
            seasoned(
                field,
                candidates(
                    preemptor,
                    preemptor.node,
                    needs,
                    preemptor.queue.within_cluster_queue,
                ),
                PREEMPTED_IN_CLUSTER_QUEUE,
            ),
        )
    ]
    hierarchy, priority = _from_others(field, preemptor, needs, requests)
    lists = (hierarchy, priority, own)
    sequence = [c for each in lists for c in each if c.holding.evicted is not None]
    sequence += [c for each in lists for c in each if c.holding.evicted is None]
    if not sequence:
        return []
    forbidden = preemptor.queue.borrow_within_cohort in NEVER
    node = preemptor.node
    under = all(node.usage.get(key, 0) < node.nominal.get(key, 0) for key in needs)
    if not (hierarchy or priority) or (forbidden and not under):
        attempts: tuple[bool, ...] = (True,)
    elif forbidden and not hierarchy:
        attempts = (False, True)
    else:
        attempts = (True, False)
    for may_borrow in attempts:
        found = _attempt(field, preemptor, needs, requests, sequence, may_borrow)
        if found:
            return found
    return []


def _from_others(
    field: Field, preemptor: Preemptor, needs: Set[FlavorResource], requests: Usage
) -> tuple[list[_Candidate], list[_Candidate]]:
    own = preemptor.queue
    hierarchy: list[_Candidate] = []
    priority: list[_Candidate] = []
    if preemptor.node.parent is None or own.reclaim_within_cohort in NEVER:
        return hierarchy, priority
    beside: list[tuple[Node, list[Node]]] = []
    below: Node | None = None
    for cohort in preemptor.node.path():
        beside.append((cohort, list(_borrowers(cohort, below, preemptor.node, needs))))
        below = cohort
    if not any(queues for _, queues in beside):
        return hierarchy, priority
    entitled, rest = _fits_own(preemptor.node, requests)
    by_right: dict[str, Node] = {}
    by_priority: dict[str, Node] = {}
    found: tuple[list[AdmittedWorkload], list[AdmittedWorkload]] = ([], [])
    for cohort, queues in beside:
        for queue in queues:
            some = candidates(preemptor, queue, needs, own.reclaim_within_cohort)
            found[0 if entitled else 1].extend(some)
            (by_right if entitled else by_priority)[queue.name] = cohort
        fits, rest = _fits_own(cohort, rest)
        entitled = entitled or fits
    for other in in_order(field, preemptor, seasoned(field, found[0], PREEMPTED_IN_COHORT)):
        common = by_right[other.cluster_queue]
        hierarchy.append(_Candidate(other, PREEMPTED_IN_COHORT, True, common))
    threshold = own.max_priority_threshold
    for other in in_order(field, preemptor, found[1]):
        low = (
            own.borrow_within_cohort not in NEVER
            and other.priority < preemptor.priority
            and (threshold is None or other.priority <= threshold)
        )
        reason = PREEMPTED_WHILE_BORROWING if low else PREEMPTED_IN_COHORT
        if field.spares is not None and field.spares(other, reason):
            continue
        priority.append(_Candidate(other, reason, low, by_priority[other.cluster_queue]))
    return hierarchy, priority


def _fits_own(node: Node, requests: Usage) -> tuple[bool, Usage]:
    """Tell whether requests fit the node's own quota; return also what reaches its parent."""
    fits = not any(node.borrows(key, amount) for key, amount in requests.items())
    return fits, {key: max(0, amount - node.spare(key)) for key, amount in requests.items()}


def _borrowers(
    cohort: Node, without: Node | None, own: Node, needs: Set[FlavorResource]
) -> Iterator[Node]:
    for child in cohort.cohorts:
        if child is not without and not child.within(needs):
            yield from _borrowers(child, without, own, needs)
    for queue in cohort.queues:
        if queue is not own and not queue.within(needs):
            yield queue


def _attempt(
    field: Field,
    preemptor: Preemptor,
    needs: Set[FlavorResource],
    requests: Usage,
    sequence: list[_Candidate],
    may_borrow: bool,
) -> list[Victim]:
    taken: list[Victim] = []
    for candidate in sequence:
        if not _valid(field, candidate, needs, may_borrow):
            continue
        remove(field, candidate.holding)
        taken.append(Victim(candidate.holding, candidate.reason))
        if has_room(preemptor.node, requests, may_borrow) and field.placed():
            return fill_back(field, preemptor, requests, taken, may_borrow)
    for victim in taken:
        restore(field, victim.holding)
    return []


def _valid(
    field: Field, candidate: _Candidate, needs: Set[FlavorResource], may_borrow: bool
) -> bool:
    """Tell whether a candidate may still be taken, after others were."""
    if candidate.common is None:
        return True
    if may_borrow and not candidate.borrowing_too:
        return False
    node = field.forest.queues[candidate.holding.cluster_queue]
    if node.within(needs):
        return False
    for cohort in node.path():
        if cohort is candidate.common:
            return True
        if cohort.within(needs):
            return False
    return True
