"""Another place for pods whose node failed, while the others stay where they are.

Theory. The failed node's domain is taken out of the assignment and its pods are placed anew. Where
slices would be broken the domain is demanded in which pods that stay and pods that move make whole
slices again, and the pods that move are counted in the innermost layer that divides them. Else what
is required demands the domain of the pods that stay. What stays and what is new are merged.

Invariant: a domain that stays keeps at least the pods it had.
"""

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from podgroup.admission.model import PodSet
from podgroup.admission.topology.domains import DomainTree, Path
from podgroup.admission.topology.placement import Placed, place_one
from podgroup.admission.topology.request import Refused
from podgroup.model.topology import (
    SliceLayer,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
)


def replace_node(
    tree: DomainTree,
    pod_sets: Sequence[tuple[PodSet, TopologyAssignment]],
    failed: Sequence[str],
    movable: bool = True,
) -> Placed:
    """Place the pods anew that are on the first of the failed nodes.

    A podset without a failed node is left out of the answer. Not `movable` (a single pod): the
    place stays what it was.
    """
    places: dict[str, TopologyAssignment] = {}
    with tree.assuming() as assumed:
        for pod_set, present in pod_sets:
            if not any(domain.values[-1] in failed for domain in present.domains):
                continue
            if not movable:
                places[pod_set.name] = present
                continue
            try:
                new, merged = _replaced(tree, pod_set, present, failed[0])
            except Refused as refusal:
                return Placed(places, (pod_set.name,), str(refusal))
            assumed.take(new, pod_set.requests)
            places[pod_set.name] = merged
    return Placed(places)


def _replaced(
    tree: DomainTree, pod_set: PodSet, present: TopologyAssignment, failed: str
) -> tuple[TopologyAssignment, TopologyAssignment]:
    staying = [domain for domain in present.domains if domain.values[-1] != failed]
    moving = present.count - sum(domain.count for domain in staying)
    stale = next((domain for domain in staying if domain.values not in tree.leaves), None)
    if stale is not None:
        raise Refused(
            "Cannot replace the node, because the existing topologyAssignment is invalid, as it "
            f"contains the stale domain {stale.values[0]}"
        )
    request = pod_set.topology
    within = _demanded(tree, request, staying, moving)
    if within is not None and request.slices and moving % request.slices[0].size:
        request = _resliced(request, moving)
    asked = replace(pod_set, count=moving, topology=request)
    (new,) = place_one(tree, asked, within=within or ())
    if not new.domains:
        raise Refused(f"cannot find replacement assignment for unhealthy node: {failed}")
    return new, _merged(tree, new, staying)


def _demanded(
    tree: DomainTree, request: TopologyRequest, staying: Sequence[TopologyDomain], moving: int
) -> Path | None:
    """Return the domain in which the pods that move have to be; None for any."""
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
    """Return the first domain that the pods that move fill up to whole slices."""
    broken = next(layer for layer in reversed(slices) if moving % layer.size)
    if broken.topology not in tree.levels:
        return None
    depth = tree.levels.index(broken.topology) + 1
    have: Counter[Path] = Counter()
    for domain in staying:
        have[tree.leaves[domain.values].path[:depth]] += domain.count
    whole = (path for path, count in sorted(have.items()) if not (count + moving) % broken.size)
    return next(whole, None)


def _resliced(request: TopologyRequest, moving: int) -> TopologyRequest:
    """Count the pods that move in the innermost layer that divides them, else one by one."""
    inner = next((layer for layer in reversed(request.slices) if not moving % layer.size), None)
    if inner is not None:
        return replace(request, slices=(inner,))
    if request.slices_only and request.unconstrained is None:
        # It asked for slices only, so without them it asks but names no level: Kueue refuses.
        return replace(request, slices=(), unconstrained=False)
    return replace(request, slices=())


def _merged(
    tree: DomainTree, new: TopologyAssignment, staying: Sequence[TopologyDomain]
) -> TopologyAssignment:
    counts: Counter[Path] = Counter()
    for domain in (*staying, *new.domains):
        counts[domain.values] += domain.count
    ordered = sorted(counts.items(), key=lambda one: tree.leaves[one[0]].path)
    domains = tuple(TopologyDomain(values=values, count=count) for values, count in ordered)
    return TopologyAssignment(levels=new.levels, domains=domains)
