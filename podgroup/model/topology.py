"""Topology: how machines lie together, what pods ask of that, and which domains they are given.

Theory. A Topology names its levels by node labels, outermost first (block, rack, host). The values
of a node's labels from the first level down to one are a *domain*; a *leaf* is a domain of the last
level. A *slice* is a number of pods that must be in one domain of a level. Values are those of
Kueue's objects: Topology, `topologyRequest` and `topologyAssignment` of a podset.

Amounts are the integers of `model.quantities`. Invariant: a view is a value and is never changed.
"""

from collections.abc import Mapping
from typing import Final

from podgroup.model.objects import Toleration, View

HOSTNAME: Final = "kubernetes.io/hostname"
"""The level of single nodes; it can be the last one only."""


class TopologyView(View, tag_field="kind", tag="Topology", frozen=True, kw_only=True):
    """A Topology: the label keys of its levels, outermost first."""

    uid: str
    name: str
    resource_version: str
    levels: tuple[str, ...] = ()
    namespace: str = ""


class NodeView(View, tag_field="kind", tag="Node", frozen=True, kw_only=True):
    """A node, as far as places depend on it.

    `ready`: its condition Ready is True. `taken` is what pods take of it that are placed by others:
    the sum of their requests, and one of `pods` for each.
    """

    name: str
    labels: Mapping[str, str] = {}
    taints: tuple[Toleration, ...] = ()
    allocatable: Mapping[str, int] = {}
    taken: Mapping[str, int] = {}
    ready: bool = True
    unschedulable: bool = False
    uid: str = ""
    resource_version: str = ""


class SliceLayer(View, frozen=True, kw_only=True):
    """Each `size` pods must be in one domain of level `topology`."""

    topology: str
    size: int


class TopologyRequest(View, frozen=True, kw_only=True):
    """What the pods of one podset ask of the topology.

    `required` and `preferred` are the label key of a level, "" if not asked for. `unconstrained`
    None: not asked for. `slices` go from the outermost layer in. Podsets with the same `group` are
    placed together.
    """

    required: str = ""
    preferred: str = ""
    unconstrained: bool | None = None
    slices: tuple[SliceLayer, ...] = ()
    group: str = ""

    @property
    def explicit(self) -> bool:
        """Whether the pods ask for a topology at all."""
        level = self.required or self.preferred
        return bool(level or self.slices) or self.unconstrained is not None

    @property
    def slices_only(self) -> bool:
        """Whether only slices are asked for, and no level for all pods."""
        return bool(self.slices) and not (self.required or self.preferred)


NOTHING_ASKED: Final = TopologyRequest()
"""What pods without annotations ask for."""


class TopologyDomain(View, frozen=True, kw_only=True):
    """So many pods in one domain; `values` are of the assignment's levels."""

    values: tuple[str, ...]
    count: int


class TopologyAssignment(View, frozen=True, kw_only=True):
    """Where the pods of one podset go: domains in the order in which ranks are given out.

    `levels` is the hostname alone where that is the last level, else all levels.
    """

    levels: tuple[str, ...]
    domains: tuple[TopologyDomain, ...] = ()

    @property
    def count(self) -> int:
        """How many pods have a place."""
        return sum(domain.count for domain in self.domains)
