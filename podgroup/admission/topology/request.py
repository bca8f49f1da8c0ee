"""Reading a request: which level is searched first, in which units pods are counted, and how.

Theory. A podset wants `count / size` slices, each in one domain of the slice level; without slices
a slice is one pod and its level the last. `required` and `preferred` name the level whose domain is
to hold all slices. A request of slices alone is searched from the highest level, an unconstrained
request or none from the last; these three take the domains with the *least* room first.

Invariant: a plan names levels of its topology only, each layer of slices below the one before.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from podgroup.model.topology import SliceLayer, TopologyRequest


class Refused(Exception):
    """A podset has no place; the message is the reason, in Kueue's words."""


class Plan(Struct, frozen=True, kw_only=True):
    """A request in terms of a topology.

    `level` and `slice_level` are numbers of levels. `inner` has the unit in which pods are divided,
    for levels below the slice level that have a unit. `least`: least room first. `widens`: levels
    above are searched, too. `better`: domains are chosen otherwise than by Kueue.
    """

    level: int
    slice_level: int
    size: int
    count: int
    required: bool
    least: bool
    widens: bool
    better: bool
    inner: Mapping[int, int]
    layers: tuple[SliceLayer, ...]

    @property
    def slices(self) -> int:
        """How many whole slices are wanted."""
        return self.count // self.size

    @property
    def rest(self) -> int:
        """Pods that make no whole slice, and get places in one domain; Kueue gives them none."""
        return self.count % self.size if self.better else 0


def read(request: TopologyRequest, count: int, levels: Sequence[str], better: bool = True) -> Plan:
    """Read the request of `count` pods.

    Raises:
        Refused: this topology cannot fulfil the request.
    """
    layers = request.slices
    size = layers[0].size if layers else 1
    if size <= 0:
        raise Refused("slice topology requested, but slice size not provided")
    if better and size > count:
        raise Refused(f"a slice has {size} pods, and only {count} are asked for")
    level = _first(request, levels)
    slice_key = layers[0].topology if layers else levels[-1]
    if slice_key not in levels:
        raise Refused(f"no requested topology level for slices: {slice_key}")
    slice_level = levels.index(slice_key)
    if level > slice_level:
        raise Refused(
            f"podset slice topology {slice_key} is above the podset topology {levels[level]}"
        )
    return Plan(
        level=level,
        slice_level=slice_level,
        size=size,
        count=count,
        required=bool(request.required),
        least=not (better or request.required or request.preferred),
        widens=bool(request.preferred),
        better=better,
        inner=_inner(layers, levels, slice_level),
        layers=layers,
    )


def _first(request: TopologyRequest, levels: Sequence[str]) -> int:
    key = request.required or request.preferred
    if not key:
        if request.slices_only:
            return 0
        if request.unconstrained is False:
            raise Refused("topology level not specified")
        return len(levels) - 1
    if key not in levels:
        raise Refused(f"no requested topology level: {key}")
    return levels.index(key)


def _inner(
    layers: Sequence[SliceLayer], levels: Sequence[str], slice_level: int
) -> Mapping[int, int]:
    inner: dict[int, int] = {}
    above = slice_level
    for outer, layer in pairwise(layers):
        if layer.topology not in levels:
            missing = layer.topology
            raise Refused(f"no requested topology level for additional slice layer: {missing}")
        level = levels.index(layer.topology)
        if level <= above:
            raise Refused(
                f"additional slice layer topology {layer.topology} must be at a lower level than "
                f"{levels[above]}"
            )
        if layer.size <= 0 or outer.size % layer.size:
            raise Refused(
                f"additional slice layer size {layer.size} must evenly divide parent layer size "
                f"{outer.size}"
            )
        inner.update(dict.fromkeys(range(above + 1, level + 1), layer.size))
        above = level
    return inner
