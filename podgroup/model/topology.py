"""Topology: how nodes lie together, what pods request of it, and which domains they are given.

Theory. A Topology names its levels by node labels, outermost first (block, rack, host). The values
of a node's labels from the first level down to another are a *domain*; a *leaf* is a domain of the
last level. A *slice* is a number of pods that must be in one domain of a level. Values are as in
Kueue's objects: Topology, `topologyRequest` and `topologyAssignment` of a podset.

Invariant: a value, which is never changed.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from podgroup.model.meaning import View
from podgroup.model.names import (
    PODSET_GROUP_NAME,
    SLICE_CONSTRAINTS,
    SLICE_REQUIRED,
    SLICE_SIZE,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_UNCONSTRAINED,
    integer,
)

HOSTNAME: Final = "kubernetes.io/hostname"
"""The level of single nodes, which can only be the last level."""


def level_name(key: str) -> str:
    """Return a level's name for people: the end of its label key, and node for the hostname."""
    return "node" if key == HOSTNAME else key.rpartition("/")[2].removeprefix("topology-")


class SliceLayer(View, frozen=True, kw_only=True):
    """Each `size` pods must be in one domain of level `topology`."""

    topology: str
    size: int


class TopologyRequest(View, frozen=True, kw_only=True):
    """What the pods of one podset ask of the topology.

    `required` and `preferred` are the label key of a level, "" if not requested. `unconstrained`
    None: not requested. `slices` go from the outermost layer in. Podsets with the same `group` are
    placed together.
    """

    required: str = ""
    preferred: str = ""
    unconstrained: bool | None = None
    slices: tuple[SliceLayer, ...] = ()
    group: str = ""

    @property
    def explicit(self) -> bool:
        """Whether the pods request a topology."""
        level = self.required or self.preferred
        return bool(level or self.slices) or self.unconstrained is not None

    @property
    def slices_only(self) -> bool:
        """Whether slices are requested, and no level for all pods."""
        return bool(self.slices) and not (self.required or self.preferred)


NOTHING_ASKED: Final = TopologyRequest()
"""What pods without annotations ask for."""


LEVEL_ASKED: Final = (TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED, TOPOLOGY_UNCONSTRAINED)
"""Annotations of pods that say at which level they want to be together; one at most."""
PLACED_BY: Final = (*LEVEL_ASKED, SLICE_CONSTRAINTS, SLICE_REQUIRED)
"""Annotations of pods that are placed by topology."""
ASKING: Final = (*PLACED_BY, SLICE_SIZE, PODSET_GROUP_NAME)
"""Annotations of pods that make up a request."""
TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
"""How an annotation says false: texts that Go reads so."""


def requested(annotations: Mapping[str, str]) -> TopologyRequest:
    """Return the topology request of a pod's annotations; the stronger of several kinds.

    A malformed annotation counts as absent: the webhook refuses it.
    """
    said = {key: str(annotations[key]) for key in ASKING if annotations.get(key)}
    if not said:
        return NOTHING_ASKED
    required, preferred = said.get(TOPOLOGY_REQUIRED, ""), said.get(TOPOLOGY_PREFERRED, "")
    level, free = required or preferred, said.get(TOPOLOGY_UNCONSTRAINED, "")
    return TopologyRequest(
        required=required,
        preferred="" if required else preferred,
        unconstrained=free in TRUE if free in TRUE | FALSE and not level else None,
        slices=_layers(said),
        group=said.get(PODSET_GROUP_NAME, "") if level else "",
    )


def _layers(said: Mapping[str, str]) -> tuple[SliceLayer, ...]:
    """Return the layers of slices, from the annotation with a list or else from two annotations."""
    if SLICE_CONSTRAINTS in said:
        try:
            found = msgspec.json.decode(said[SLICE_CONSTRAINTS], type=tuple[SliceLayer, ...])
        except (msgspec.DecodeError, RecursionError):
            return ()
        return found if all(layer.size > 0 for layer in found) else ()
    size = integer(said.get(SLICE_SIZE, ""))
    if not size or size < 1 or SLICE_REQUIRED not in said:
        return ()
    return (SliceLayer(topology=said[SLICE_REQUIRED], size=size),)


class TopologyDomain(View, frozen=True, array_like=True, kw_only=True):
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


def fewer(place: TopologyAssignment, count: int) -> TopologyAssignment:
    """Return the first `count` places of an assignment."""
    kept, left = [], count
    for domain in place.domains:
        if left > 0:
            kept.append(TopologyDomain(values=domain.values, count=min(left, domain.count)))
            left -= domain.count
    return TopologyAssignment(levels=place.levels, domains=tuple(kept))


def both(
    one: TopologyAssignment | None, more: TopologyAssignment | None
) -> TopologyAssignment | None:
    """Return one assignment with the places of two, of the same topology."""
    if one is None or more is None:
        return one
    counts = {domain.values: domain.count for domain in one.domains}
    for domain in more.domains:
        counts[domain.values] = counts.get(domain.values, 0) + domain.count
    domains = tuple(TopologyDomain(values=v, count=n) for v, n in counts.items())
    return TopologyAssignment(levels=one.levels, domains=domains)


_NAMED: Final = 3
"""Domains of an assignment that are named; the others are counted."""


def placed_at(places: Iterable[TopologyAssignment | None]) -> str:
    """Say where pods go, beginning with a comma: `, on n1, n2 and 3 more`; "" if anywhere."""
    there = [place for place in places if place is not None and place.domains]
    if not there:
        return ""
    named = dict.fromkeys(
        one.values[-1] if place.levels[-1] == HOSTNAME else "/".join(one.values)
        for place in there
        for one in place.domains[:_NAMED]
    )
    more = sum(max(0, len(place.domains) - _NAMED) for place in there)
    on = "on" if there[0].levels[-1] == HOSTNAME else "in"
    return f", {on} {', '.join(named)}" + (f" and {more} more" if more else "")
