"""The places of all flavors: their trees, and what workloads hold in them.

Theory. A flavor that names a Topology has a tree of its nodes. A workload is charged in the tree of
each of its flavors, for its domains; where hostname is the last level of several flavors they share
nodes, so each tree counts workloads of the other flavors, too.

Invariant: a tree's usage is the sum of all charges that were not taken back.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from podgroup.admission.amounts import PODS
from podgroup.admission.model import PodSet, PodSetAssignment, Requests
from podgroup.admission.topology.domains import DomainTree, pods
from podgroup.admission.topology.placement import Placed, place
from podgroup.admission.topology.replacing import replace_nodes
from podgroup.model.objects import FlavorView, NodeView
from podgroup.model.topology import TopologyAssignment

Given = Sequence[tuple[PodSet, PodSetAssignment]]
"""Podsets that have places, with their assignments."""


class Places:
    """Trees by flavor, with placement `better` than Kueue's or as Kueue's."""

    def __init__(self, better: bool) -> None:
        self._better = better
        self.trees: dict[str, DomainTree] = {}
        self._levels: dict[str, tuple[str, ...]] = {}
        self._nodes: dict[str, NodeView] = {}

    def set_topology(self, name: str, levels: Sequence[str]) -> None:
        """Enter a Topology; `build` makes its flavors' trees."""
        self._levels[name] = tuple(levels)

    def remove_topology(self, name: str) -> None:
        """Remove a Topology."""
        self._levels.pop(name, None)

    def known(self, flavor: FlavorView) -> bool:
        """Whether a flavor needs no Topology, or its Topology exists."""
        return not flavor.topology or flavor.topology in self._levels

    def set_node(self, node: NodeView) -> set[str]:
        """Enter a new or changed node; return the flavors in which more may fit now."""
        before = self._nodes.get(node.name)
        self._nodes[node.name] = node
        concerned = {name for name, tree in self.trees.items() if tree.set_node(node)}
        return set() if before is not None and _takes_more(before, node) else concerned

    def remove_node(self, name: str) -> set[str]:
        """Remove a node; return its flavors."""
        self._nodes.pop(name, None)
        return {flavor for flavor, tree in self.trees.items() if tree.remove_node(name)}

    def build(self, flavors: Iterable[FlavorView], holding: Iterable[Given]) -> None:
        """Make all trees anew, with the places `holding`."""
        self.trees = {}
        for flavor in flavors:
            if flavor.topology and self.known(flavor):
                levels = self._levels[flavor.topology]
                tree = DomainTree(flavor.topology, levels, flavor, self._better)
                self.trees[flavor.name] = tree
                tree.set_nodes(self._nodes.values())
        for given in holding:
            self.charge(given)

    def charge(self, given: Given, times: int = 1, own_only: bool = False) -> None:
        """Count a workload's places; `times` -1 takes them out again.

        `own_only`: other flavors of the same nodes do not count them, as in a cycle of Kueue.
        """
        for pod_set, assigned in given:
            if assigned.topology is not None and assigned.flavors:
                for tree in self._sharing(assigned.flavors.values(), own_only):
                    tree.charge(assigned.topology, pod_set.requests, times)

    @contextmanager
    def without(self, held: Iterable[Given]) -> Iterator[None]:
        """Look at places as if those of some workloads were free."""
        gone = list(held)
        for one in gone:
            self.charge(one, -1)
        try:
            yield
        finally:
            for one in gone:
                self.charge(one)

    def _sharing(self, flavors: Iterable[str], own_only: bool) -> Iterator[DomainTree]:
        named = {flavor for flavor in flavors if flavor in self.trees}
        by_host = not own_only and any(self.trees[flavor].by_host for flavor in named)
        for name, tree in self.trees.items():
            if name in named or (by_host and tree.by_host):
                yield tree

    def place(self, wanted: Sequence[tuple[PodSet, str]], empty: bool = False) -> Placed:
        """Place podsets, each on its flavor; flavors go by name."""
        found: dict[str, TopologyAssignment] = {}
        for name in sorted({flavor for _, flavor in wanted}):
            pod_sets = [pod_set for pod_set, flavor in wanted if flavor == name]
            placed = place(self.trees[name], pod_sets, empty)
            found.update(placed.places)
            if not placed.fits:
                return Placed(found, placed.refused, placed.reason)
        return Placed(found)

    def placed_anew(self, given: Given, failed: Sequence[str], movable: bool) -> Placed:
        """Return other places for pods on failed nodes; podsets without such pods are left out."""
        found: dict[str, TopologyAssignment] = {}
        flavor_of = [(one, min(one[1].flavors.values(), default="")) for one in given]
        for name in sorted({flavor for _, flavor in flavor_of if flavor in self.trees}):
            tree = self.trees[name]
            present = [
                (pod_set, assigned.topology)
                for (pod_set, assigned), flavor in flavor_of
                if flavor == name and assigned.topology is not None
            ]
            placed = replace_nodes(tree, present, failed, movable)
            found.update(placed.places)
            if not placed.fits:
                return Placed(found, placed.refused, placed.reason)
        return Placed(found)

    def free(self, given: Given, count_pods: bool, charged: bool = False) -> bool:
        """Whether places still have room; Kueue does not count the resource `pods` here.

        `charged`: the places are counted as held already, beside those of leaving workloads.
        """
        for pod_set, assigned in given:
            for flavor in sorted(set(assigned.flavors.values())):
                tree, place = self.trees.get(flavor), assigned.topology
                if place is not None and (
                    tree is None or not _room(tree, pod_set.requests, place, count_pods, charged)
                ):
                    return False
        return True

    def obstacle(self, flavor: FlavorView, pod_set: PodSet, only: bool) -> str:
        """Say why pods, by their topology request, cannot use a flavor; "" if they can.

        `only`: all flavors of the ClusterQueue have topologies.
        """
        asked = pod_set.topology
        if not asked.explicit:
            if flavor.topology and not only:
                return f'Flavor "{flavor.name}" supports only TopologyAwareScheduling'
            return ""
        if not flavor.topology:
            return f'Flavor "{flavor.name}" does not support TopologyAwareScheduling'
        tree = self.trees.get(flavor.name)
        if tree is None:
            return f'Flavor "{flavor.name}" information missing in TAS cache'
        levels = {asked.required or asked.preferred} - {""}
        levels.update(layer.topology for layer in asked.slices)
        named = levels or asked.unconstrained
        if not named or not levels <= set(tree.levels):
            return f'Flavor "{flavor.name}" does not contain the requested level'
        return ""


def _takes_more(before: NodeView, after: NodeView) -> bool:
    """Tell whether a node changed only in that pods which others placed take more of it."""
    more = all(after.taken.get(name, 0) >= amount for name, amount in before.taken.items())
    return more and msgspec.structs.replace(before, taken=after.taken) == after


def _room(
    tree: DomainTree,
    requests: Requests,
    place: TopologyAssignment,
    count_pods: bool,
    charged: bool,
) -> bool:
    for domain in place.domains:
        leaf = tree.leaves.get(domain.values)
        if leaf is None:
            return False
        for name, amount in pods(requests, domain.count):
            if name == PODS and not count_pods:
                continue
            if (0 if charged else amount) > leaf.free.get(name, 0) - leaf.held.get(name, 0):
                return False
    return True


def given(pod_sets: Sequence[PodSet], assigned: Sequence[PodSetAssignment]) -> Given:
    """Pair podsets with their assignments, by name; podsets without places are left out."""
    placed = [one for one in assigned if one.topology is not None]
    by_name = {one.name: one for one in pod_sets} if placed else {}
    return tuple((by_name[one.name], one) for one in placed if one.name in by_name)
