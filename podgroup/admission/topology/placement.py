"""Placing podsets: from tree, usage and request to an assignment or a reason.

Theory. Podsets are placed one after the other; the places of a podset are taken from the room of
the next. Two podsets that name the same group are placed together, the smaller as the leader. The
first podset without a place ends the search: nothing is tried again in another way.

Invariant: the tree is after a placement as it was before. The same tree, usage and request give the
same answer.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from podgroup.admission.model import PodSet
from podgroup.admission.topology.choosing import choose
from podgroup.admission.topology.counts import counts, question
from podgroup.admission.topology.dividing import Leading, Share, down
from podgroup.admission.topology.domains import DomainTree, Path
from podgroup.admission.topology.leading import last_slice, leading
from podgroup.admission.topology.request import Refused, read
from podgroup.model.topology import TopologyAssignment, TopologyDomain


class Placed(Struct, frozen=True):
    """Places by podset; `refused` names a podset without places and its partner, `reason` why."""

    places: Mapping[str, TopologyAssignment]
    refused: tuple[str, ...] = ()
    reason: str = ""

    @property
    def fits(self) -> bool:
        """Whether every podset has its place."""
        return not self.refused


def place(tree: DomainTree, pod_sets: Sequence[PodSet], empty: bool = False) -> Placed:
    """Place podsets; `empty`: as if no workload held anything."""
    places: dict[str, TopologyAssignment] = {}
    with tree.assuming() as assumed:
        groups = together(pod_sets)
        for workers, leader in groups:
            both = [workers] if leader is None else [workers, leader]
            try:
                found = place_one(tree, workers, leader, empty)
            except Refused as refusal:
                return Placed(places, tuple(one.name for one in both), str(refusal))
            for one, assignment in zip(both, found, strict=True):
                places[one.name] = assignment
                if len(groups) > 1:
                    assumed.take(assignment, one.requests)
    return Placed(places)


def together(pod_sets: Sequence[PodSet]) -> list[tuple[PodSet, PodSet | None]]:
    """Return (workers, leader) of each group, else (podset, None); podsets without pods lack."""
    groups: dict[object, list[PodSet]] = {}
    for number, one in enumerate(pod_sets):
        if one.count:
            groups.setdefault(one.topology.group or number, []).append(one)
    found: list[tuple[PodSet, PodSet | None]] = []
    for members in groups.values():
        if len(members) == 1:
            found.append((members[0], None))
        else:
            first, second = members[:2]
            found.append((second, first) if second.count > first.count else (first, second))
    return found


def place_one(
    tree: DomainTree,
    workers: PodSet,
    leader: PodSet | None = None,
    empty: bool = False,
    within: Path = (),
) -> tuple[TopologyAssignment, ...]:
    """Return the places of a podset, and of its leader; all below the domain `within`.

    Raises:
        Refused: there are no places.
    """
    plan = read(workers.topology, workers.count, tree.levels, tree.better)
    if leader is not None and tree.better and (plan.rest or leader.count > 1):
        raise Refused("the smaller of two podsets that are placed together can have one pod only")
    counted = counts(tree, question(workers, plan, empty, within))
    led: Leading = {}
    if plan.rest:
        led = last_slice(counted, plan)
    elif leader is not None:
        led = leading(counted, leader.requests)
    level, shares = choose(counted, plan, led)
    shares = down(counted, plan, led, level, shares)
    given = [_assignment(tree, [(one, one.units) for one in shares])]
    if leader is not None:
        given.append(_assignment(tree, [(one, one.leader) for one in shares]))
    return tuple(given)


def _assignment(tree: DomainTree, given: Sequence[tuple[Share, int]]) -> TopologyAssignment:
    keep = -1 if tree.by_host else 0
    levels = tree.levels[keep:]
    found = sorted((share.domain.path, count) for share, count in given if count > 0)
    domains = tuple(TopologyDomain(values=path[keep:], count=count) for path, count in found)
    return TopologyAssignment(levels=levels, domains=domains)
