"""Shortages: where in the tree, and by whose limit; and both sides of a preemption.

Invariant: nothing is changed; the trees are read as they are at that moment.
"""

from math import ceil

from podgroup.admission.model import FlavorResource
from podgroup.admission.share import INFINITE, share_of
from podgroup.admission.tree import Node
from podgroup.model.quantities import MAX_INT64
from podgroup.model.shortage import BORROWING, COHORT, LENDING, NOMINAL, Preempted, Shortage, Side


def shortage(
    node: Node, key: FlavorResource, requested: int, available: int, *, ever: bool = False
) -> Shortage:
    """Return the shortage of a ClusterQueue; with `ever` compared with its potential."""
    ends = node.ceiling(key) if ever else node.bottleneck(key)
    limit, without, lender = COHORT, available, ""
    if ends.parent is not None:
        limit, without = BORROWING, max(available, node.unlimited(key, empty=ever))
    elif ends.queue:
        limit = NOMINAL
    else:
        kept = _kept_by_others(node, ends, key, empty=ever)
        if requested <= available + sum(amount for amount, _ in kept):
            limit, without = LENDING, available + sum(amount for amount, _ in kept)
            lender = min((-amount, name) for amount, name in kept)[1]
    return Shortage(
        flavor=key[0],
        resource=key[1],
        node=ends.name,
        cohort=not ends.queue,
        requested=min(requested, MAX_INT64),
        available=min(available, MAX_INT64),
        limit=limit,
        without=min(without, MAX_INT64),
        lender=lender,
        ever=ever,
    )


def _kept_by_others(
    node: Node, root: Node, key: FlavorResource, *, empty: bool
) -> list[tuple[int, str]]:
    """Return the free amounts that others keep from lending, with their names; few trees do."""
    keepers = root.keepers.get(key)
    if not keepers:
        return []
    own = {node, *node.path()}
    amounts = [
        (one.local[key] if empty else one.spare(key), one.name) for one in keepers if one not in own
    ]
    return [(amount, name) for amount, name in amounts if amount]


def preempted(policy: str, victim: Node, preemptor: Node) -> Preempted:
    """Return a preemption: its policy, and the shares of victim and preemptor."""
    above = set(preemptor.path())
    common = next((one.name for one in victim.path() if one in above), "")
    return Preempted(
        policy=policy,
        victim=_side(victim),
        preemptor=_side(preemptor),
        cohort=common if victim is not preemptor else "",
    )


def share_shown(node: Node) -> int:
    """Return the weighted share of a node in thousandths, rounded up; 2^63-1 without limit."""
    value = share_of(node).value
    return MAX_INT64 if value == INFINITE else min(ceil(value), MAX_INT64)


def borrowed(node: Node, key: FlavorResource) -> int:
    """Return the amount that a node has borrowed from its parent."""
    if node.parent is None:
        return 0
    return min(max(0, node.usage.get(key, 0) - node.subtree.get(key, 0)), MAX_INT64)


def _side(node: Node) -> Side:
    taken = [(*key, borrowed(node, key)) for key in sorted(node.usage)]
    return Side(
        cluster_queue=node.name,
        share=share_shown(node),
        borrowed=tuple(one for one in taken if one[2]),
    )
