"""Which workloads may be preempted for which, and in which order candidates are looked at.

Theory. Workloads that hold quota which the preemptor lacks are candidates, as the policies of its
ClusterQueue allow: one policy for its own queue, one for the rest of the tree. A workload whose
least run time is not over is no candidate. Candidates come in one order: evictions that are under
way first, then low before high priority, late before early reservations. Where LocalQueues share
by use, the largest use comes first within a ClusterQueue; between ClusterQueues use does not count,
so lists are ordered for each and merged by the rest.

Invariant: the order is total, it ends in the uid.
"""

import heapq
from collections.abc import Callable, Iterable, Set
from typing import Final, NamedTuple

from podgroup.admission.holding import AdmittedWorkload
from podgroup.admission.model import Configuration, FlavorResource
from podgroup.admission.topology.places import Places
from podgroup.admission.tree import Forest, Node, Usage
from podgroup.model.objects import ClusterQueueView

Order = tuple[bool, bool, int, float, str]
NEVER: Final = ("", "Never")
"""Policies without candidates."""


class Victim(NamedTuple):
    """A workload to be preempted, and the reason given for it."""

    holding: AdmittedWorkload
    reason: str


class Preemptor(NamedTuple):
    """The workload that needs quota. `spared` are workloads that it may not preempt."""

    id: str
    queue: ClusterQueueView
    node: Node
    priority: int
    since: float
    spared: Set[str] = frozenset()


class Field(NamedTuple):
    """What a search for victims reads. The trees are changed and put back."""

    forest: Forest
    by_use: Callable[[str], bool]
    """Whether the LocalQueues of a ClusterQueue share by use."""
    configuration: Configuration
    used_by: Callable[[tuple[str, str]], float | None]
    """Use of a LocalQueue over time; None where LocalQueues do not share by it."""
    places: Places | None = None
    placed: Callable[[], bool] = lambda: True
    """Whether the preemptor's pods have places now."""
    spares: Callable[[AdmittedWorkload, str], bool] | None = None
    """Whether a workload's least run time for a reason is not over; None: no times hold."""


def candidates(
    preemptor: Preemptor, holder: Node, needs: Set[FlavorResource], policy: str
) -> list[AdmittedWorkload]:
    """Return the workloads of a ClusterQueue that may be preempted under `policy`."""
    if policy in NEVER:
        return []
    # Priority first: it spares most workloads, and is the cheapest to look at.
    priority, since = preemptor.priority, preemptor.since
    permitted: Iterable[AdmittedWorkload] = holder.holdings.values()
    if policy == "LowerPriority":
        permitted = [other for other in permitted if other.priority < priority]
    elif policy == "LowerOrNewerEqualPriority":
        permitted = [
            other
            for other in permitted
            if other.priority < priority or (other.priority == priority and since < other.since)
        ]
    return [
        other
        for other in permitted
        if not needs.isdisjoint(other.keys)
        and other.id not in preemptor.spared
        and not other.workload.fixed
    ]


def seasoned(field: Field, found: list[AdmittedWorkload], reason: str) -> list[AdmittedWorkload]:
    """Return the candidates whose least run time for a reason is over."""
    spares = field.spares
    return found if spares is None else [one for one in found if not spares(one, reason)]


def order(preemptor: Preemptor, other: AdmittedWorkload) -> Order:
    """Return the key that orders candidates, without regard to use."""
    own = other.cluster_queue == preemptor.queue.name
    return (other.evicted is None, own, other.priority, -other.at, other.uid)


def in_order(
    field: Field, preemptor: Preemptor, found: Iterable[AdmittedWorkload]
) -> list[AdmittedWorkload]:
    """Return candidates in the order in which they are looked at."""
    per_queue: dict[str, list[AdmittedWorkload]] = {}
    shared = False
    for other in found:
        per_queue.setdefault(other.cluster_queue, []).append(other)
    for name, listed in per_queue.items():
        if field.by_use(name):
            shared = True
            listed.sort(key=lambda other: _by_use(field, preemptor, other))
        else:
            listed.sort(key=lambda other: order(preemptor, other))
    if not shared:
        every = [other for listed in per_queue.values() for other in listed]
        return sorted(every, key=lambda other: order(preemptor, other))
    heap = [(order(preemptor, listed[0]), listed, 0) for listed in per_queue.values()]
    heapq.heapify(heap)
    merged = []
    while heap:
        _, listed, at = heap[0]
        merged.append(listed[at])
        if at + 1 < len(listed):
            heapq.heapreplace(heap, (order(preemptor, listed[at + 1]), listed, at + 1))
        else:
            heapq.heappop(heap)
    return merged


def _by_use(
    field: Field, preemptor: Preemptor, other: AdmittedWorkload
) -> tuple[bool, float, int, float, str]:
    used = field.used_by(other.local_queue)
    free, _, priority, later, uid = order(preemptor, other)
    return free, -(used if used is not None else 0.0), priority, later, uid


def has_room(node: Node, requests: Usage, may_borrow: bool) -> bool:
    """Tell whether requests fit a ClusterQueue; without `may_borrow`, its own quota."""
    return all(
        amount <= node.available(key) and (may_borrow or not node.borrows(key, amount))
        for key, amount in requests.items()
    )


def remove(field: Field, other: AdmittedWorkload) -> None:
    """Take a workload's usage out of its tree."""
    field.forest.queues[other.cluster_queue].give(other.usage)
    if field.places is not None:
        field.places.charge(other.given, -1)


def restore(field: Field, other: AdmittedWorkload) -> None:
    """Put a workload's usage back."""
    field.forest.queues[other.cluster_queue].take(other.usage)
    if field.places is not None:
        field.places.charge(other.given)


def fill_back(
    field: Field,
    preemptor: Preemptor,
    requests: Usage,
    taken: list[Victim],
    may_borrow: bool,
    own_too: bool = True,
) -> list[Victim]:
    """Spare victims that turn out not needed, the last chosen first; the very last is needed.

    `own_too`: victims of the preemptor's own ClusterQueue may be spared, too.
    """
    needed = taken[-1:]
    for victim in reversed(taken[:-1]):
        if not own_too and victim.holding.cluster_queue == preemptor.queue.name:
            needed.append(victim)
            continue
        restore(field, victim.holding)
        if not (has_room(preemptor.node, requests, may_borrow) and field.placed()):
            remove(field, victim.holding)
            needed.append(victim)
    for victim in needed:
        restore(field, victim.holding)
    return needed[::-1]
