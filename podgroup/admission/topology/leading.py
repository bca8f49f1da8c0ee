"""Pods that are placed once beside slices: a leader, or the last slice if it is smaller.

Theory. Of two podsets of a group the smaller is the leader, a single pod; the others are the
workers, whose request decides for both. A leaf that holds a leader has room for fewer workers
beside it. A domain above loses as much as the child that loses least. Pods that make no whole slice
are placed in a domain of the slice level in the same way; the room beside them is for whole slices.

Invariant: a domain that has no room for a leader is never chosen to hold it.
"""

from podgroup.admission.model import Requests
from podgroup.admission.topology.counts import Counts, per_pod
from podgroup.admission.topology.dividing import NO_LEADER, Beside, Leading
from podgroup.admission.topology.domains import Domain, Leaf
from podgroup.admission.topology.request import Plan


def leading(counts: Counts, requests: Requests) -> Leading:
    """Return each domain's room beside a leader of these requests."""
    found: dict[Domain, Beside] = {}
    leader = per_pod(requests)
    for leaf in counts.tree.leaves.values():
        found[leaf] = _leaf(counts, leaf, leader)
    return _above(counts, found, len(counts.tree.levels) - 1)


def last_slice(counts: Counts, plan: Plan) -> Leading:
    """Return each domain's room beside the pods that make no whole slice."""
    found: dict[Domain, Beside] = {}
    for domain in counts.tree.at[plan.slice_level].values():
        left = counts.room(domain)[1] - plan.rest
        found[domain] = Beside(1, left // plan.size, left) if left >= 0 else NO_LEADER
    return _above(counts, found, plan.slice_level)


def _above(counts: Counts, found: dict[Domain, Beside], level: int) -> Leading:
    for upper in range(level - 1, -1, -1):
        for domain in counts.tree.at[upper].values():
            found[domain] = _parent(counts, found, domain, upper)
    return found


def _leaf(counts: Counts, leaf: Leaf, leader: Requests) -> Beside:
    held = dict(counts.held(leaf))
    holds = counts.fitting(leaf, held, leader)[0] > 0
    if holds:
        for name, each in leader:
            held[name] = held.get(name, 0) + each
    pods = counts.fitting(leaf, held, counts.asked.requests)[0]
    return Beside(int(holds), counts.slices(len(leaf.path) - 1, pods, 0), pods)


def _parent(counts: Counts, found: Leading, domain: Domain, level: int) -> Beside:
    unit = counts.unit(level + 1)
    able = [child for child in domain.children.values() if found[child].leader]
    if not able:
        return NO_LEADER
    slices, pods = counts.room(domain)
    pods -= min(
        _whole(counts.room(child)[1], unit) - _whole(found[child].pods, unit) for child in able
    )
    below = slices - min(counts.room(child)[0] - found[child].slices for child in able)
    return Beside(1, counts.slices(level, pods, below), pods)


def _whole(pods: int, unit: int) -> int:
    return pods - pods % unit
