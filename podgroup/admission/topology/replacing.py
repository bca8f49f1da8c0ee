"""Other places for pods whose nodes failed, while the others stay where they are.

Theory. The domains of failed nodes are taken out of the assignment and their pods are placed anew.
Kueue does so for one node: where slices would be broken, moving pods have to go to the domain in
which they and the staying pods make whole slices again, and are counted in the innermost layer that
divides their number. The better way fills up each broken slice where it is, and then places the
rest as slices of their own. With a required level, moving pods have to go to the staying pods'
domain. Staying and new places are merged.

Invariant: a domain that stays keeps at least the pods it had.
"""

from collections import Counter
from collections.abc import Collection, Sequence

from msgspec.structs import replace

from podgroup.admission.model import PodSet
from podgroup.admission.topology.domains import Assumption, DomainTree, Path
from podgroup.admission.topology.placement import Placed, place_one
from podgroup.admission.topology.request import Refused
from podgroup.model.topology import (
    SliceLayer,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
)


def replace_nodes(
    tree: DomainTree,
    pod_sets: Sequence[tuple[PodSet, TopologyAssignment]],
    failed: Sequence[str],
    movable: bool = True,
) -> Placed:
    """Place the pods of failed nodes anew; by Kueue's way, those of the first failed node.

    A podset without a failed node is left out of the answer. Not `movable` (a single pod): the
    places stay.
    """
    nodes = failed if tree.better else failed[:1]
    places: dict[str, TopologyAssignment] = {}
    with tree.assuming() as assumed:
        for pod_set, present in pod_sets:
            if not any(domain.values[-1] in nodes for domain in present.domains):
                continue
            if not movable:
                places[pod_set.name] = present
                continue
            try:
                places[pod_set.name] = _replaced(tree, assumed, pod_set, present, nodes)
            except Refused as refusal:
                return Placed(places, (pod_set.name,), str(refusal))
    return Placed(places)


def _replaced(
    tree: DomainTree,
    assumed: Assumption,
    pod_set: PodSet,
    present: TopologyAssignment,
    failed: Collection[str],
) -> TopologyAssignment:
    staying = [domain for domain in present.domains if domain.values[-1] not in failed]
    moving = present.count - sum(domain.count for domain in staying)
    known = [domain for domain in staying if domain.values in tree.leaves]
    if len(known) < len(staying) and not _tolerates_unknown_nodes(tree, pod_set.topology, known):
        stale = next(domain for domain in staying if domain.values not in tree.leaves)
        raise Refused(
            "Cannot replace the node, because the existing topologyAssignment is invalid, as it "
            f"contains the stale domain {stale.values[0]}"
        )
    found = list(staying)
    for within, count, request in _parts(tree, pod_set, known, moving):
        asked = replace(pod_set, count=count, topology=request)
        (new,) = place_one(tree, asked, within=within)
        if not new.domains:
            named = ",".join(failed)
            raise Refused(f"cannot find replacement assignment for unhealthy node: {named}")
        assumed.take(new, pod_set.requests)
        found += new.domains
    return _merged(tree, present.levels, found)


def _tolerates_unknown_nodes(
    tree: DomainTree, request: TopologyRequest, known: Sequence[TopologyDomain]
) -> bool:
    """Whether staying pods may be on nodes that the tree lacks.

    Such nodes are cordoned or not ready, which is no reason to evict a group that runs there.
    """
    return tree.better and not request.slices and (bool(known) or not request.required)


Part = tuple[Path, int, TopologyRequest]
"""The domain to which moving pods have to go, () for any; their number; their request."""


def _parts(
    tree: DomainTree, pod_set: PodSet, staying: Sequence[TopologyDomain], moving: int
) -> list[Part]:
    """Return the parts in which moving pods are placed, one after the other."""
    request = pod_set.topology
    if tree.better and request.slices and staying:
        parts = _filled_up(tree, pod_set, staying, moving)
        rest = moving - sum(count for _, count, _ in parts)
        if rest:
            within = _demanded(tree, replace(request, slices=()), staying, rest)
            parts.append((within or (), rest, request))
        return parts
    within = _demanded(tree, request, staying, moving)
    if within is not None and request.slices and moving % request.slices[0].size:
        request = _resliced(request, moving, tree.better)
    return [(within or (), moving, request)]


def _filled_up(
    tree: DomainTree, pod_set: PodSet, staying: Sequence[TopologyDomain], moving: int
) -> list[Part]:
    """Return the part of each broken slice, among which may be the last, smaller slice."""
    request = pod_set.topology
    size = request.slices[0].size
    broken = {path: n % size for path, n in _have(tree, request.slices[0], staying) if n % size}
    needs = {path: size - there for path, there in broken.items()}
    last = pod_set.count % size
    if sum(needs.values()) > moving:
        able = [path for path, there in broken.items() if there <= last]
        if able:
            smaller = max(able, key=broken.__getitem__)
            needs[smaller] = last - broken[smaller]
    if sum(needs.values()) > moving:
        raise Refused("pods of failed nodes do not fill up the slices that lost them")
    return [
        (path, count, _resliced(request, count, better=True))
        for path, count in needs.items()
        if count
    ]


def _demanded(
    tree: DomainTree, request: TopologyRequest, staying: Sequence[TopologyDomain], moving: int
) -> Path | None:
    """Return the domain to which the moving pods have to go; None for any."""
    asked = request.required or request.preferred
    if not staying or (asked and asked not in tree.levels):
        return None
    if request.slices and moving % request.slices[0].size:
        return _mending(tree, request.slices, staying, moving)
    if request.required:
        depth = tree.levels.index(request.required) + 1
        return tree.leaves[staying[0].values].path[:depth]
    return None


def _mending(
    tree: DomainTree, slices: Sequence[SliceLayer], staying: Sequence[TopologyDomain], moving: int
) -> Path | None:
    """Return the first domain that the moving pods fill up to whole slices."""
    broken = next(layer for layer in reversed(slices) if moving % layer.size)
    if broken.topology not in tree.levels:
        return None
    have = _have(tree, broken, staying)
    return next((path for path, count in have if not (count + moving) % broken.size), None)


def _have(
    tree: DomainTree, layer: SliceLayer, staying: Sequence[TopologyDomain]
) -> list[tuple[Path, int]]:
    """Return how many pods stay in each domain of a layer, by path."""
    depth = tree.levels.index(layer.topology) + 1
    have: Counter[Path] = Counter()
    for domain in staying:
        have[tree.leaves[domain.values].path[:depth]] += domain.count
    return sorted(have.items())


def _resliced(request: TopologyRequest, moving: int, better: bool) -> TopologyRequest:
    """Count moving pods in the innermost layer that divides their number, else one by one."""
    inner = next((layer for layer in reversed(request.slices) if not moving % layer.size), None)
    if inner is not None:
        return replace(request, slices=(inner,))
    if request.slices_only and request.unconstrained is None:
        # The request has slices only; without them it names no level, and Kueue refuses it.
        return replace(request, slices=(), unconstrained=better)
    return replace(request, slices=())


def _merged(
    tree: DomainTree, levels: tuple[str, ...], found: Sequence[TopologyDomain]
) -> TopologyAssignment:
    counts: Counter[Path] = Counter()
    for domain in found:
        counts[domain.values] += domain.count
    leaves = tree.leaves  # a node that the tree lacks has no path: by its name
    ordered = sorted(counts.items(), key=lambda o: leaves[o[0]].path if o[0] in leaves else o[0])
    domains = tuple(TopologyDomain(values=values, count=count) for values, count in ordered)
    return TopologyAssignment(levels=levels, domains=domains)
