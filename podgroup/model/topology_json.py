"""Requests and assignments as the Workload has them: per level, common ends are written once.

Theory. `topologyAssignment.slices[]` of v1beta2 lists domains by column: for each level one value
for all, or the common prefix and suffix and what is between; pod counts likewise. An assignment is
one such slice here, which every reader has to understand; Kueue makes several where that is
shorter. v1beta1 lists domains one by one.

Invariant: `decoded(encoded(a))` is `a`, if `a` has domains; without any there is no slice.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import ValidationError, convert

from podgroup.model.names import POD_INDEX
from podgroup.model.topology import (
    NOTHING_ASKED,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
)

Json = dict[str, Any]

MOST: Final = 100_000
"""Domains of an assignment that are read; an assignment with more counts as unreadable."""


def request(asked: TopologyRequest) -> Json:
    """Return `topologyRequest` of a podset, {} if nothing is asked for."""
    if not asked.explicit:
        return {}
    found: Json = {
        key: value
        for key, value in (
            ("required", asked.required),
            ("preferred", asked.preferred),
            ("unconstrained", asked.unconstrained),
            ("podSetGroupName", asked.group),
        )
        if value not in ("", None)
    }
    if asked.slices:
        found["podSetSliceRequiredTopology"] = asked.slices[0].topology
        found["podSetSliceSize"] = asked.slices[0].size
    if len(asked.slices) > 1:
        found["podsetSliceRequiredTopologyConstraints"] = [
            {"topology": layer.topology, "size": layer.size} for layer in asked.slices
        ]
    return {**found, "podIndexLabel": POD_INDEX}


def read_request(found: Any) -> TopologyRequest:
    """Return the topology request of a podset of a Workload; unreadable parts count as absent."""
    try:
        layers = found.get("podsetSliceRequiredTopologyConstraints")
        if not layers and found.get("podSetSliceRequiredTopology"):
            size = found.get("podSetSliceSize", 1)
            layers = [{"topology": found["podSetSliceRequiredTopology"], "size": size}]
        asked = {
            "required": found.get("required", ""),
            "preferred": found.get("preferred", ""),
            "unconstrained": found.get("unconstrained"),
            "slices": layers or [],
            "group": found.get("podSetGroupName", ""),
        }
        request = convert(asked, TopologyRequest)
    except (AttributeError, ValidationError):
        return NOTHING_ASKED
    return request if all(layer.size > 0 for layer in request.slices) else NOTHING_ASKED


def written(assignment: TopologyAssignment, version: str) -> Json:
    """Return `topologyAssignment` as a version of the API has it."""
    levels = list(assignment.levels)
    if version == "v1beta1":
        domains = [{"values": list(one.values), "count": one.count} for one in assignment.domains]
        return {"levels": levels, "domains": domains}
    return {"levels": levels, "slices": encoded(assignment)}


def read(found: Any) -> TopologyAssignment | None:
    """Return an assignment of any version; None if it cannot be read, or has too many domains."""
    try:
        levels, slices = tuple(map(str, found["levels"])), found.get("slices")
        if slices is None:
            domains = tuple(
                TopologyDomain(values=tuple(map(str, one["values"])), count=int(one["count"]))
                for one in found["domains"][: MOST + 1]
            )
        elif len(slices) <= MOST and _many(slices) <= MOST:
            domains = decoded(levels, slices).domains
        else:
            return None
        whole = all(len(one.values) == len(levels) and one.count > 0 for one in domains)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    if not levels or not whole or len(domains) > MOST:
        return None
    return TopologyAssignment(levels=levels, domains=domains)


def _many(slices: Sequence[Mapping[str, Any]]) -> int:
    """Return how many domains there are; negative counts are 0, lest they hide a large count."""
    return sum(max(0, int(part["domainCount"])) for part in slices)


def encoded(assignment: TopologyAssignment) -> list[Json]:
    """Return `slices` of an assignment."""
    domains = assignment.domains
    if not domains:
        return []
    counts = [domain.count for domain in domains]
    columns = zip(*(domain.values for domain in domains), strict=True)
    return [
        {
            "domainCount": len(domains),
            "valuesPerLevel": [_column(values) for values in columns],
            "podCounts": _same(counts) or {"individual": counts},
        }
    ]


def decoded(levels: Sequence[str], slices: Sequence[Mapping[str, Any]]) -> TopologyAssignment:
    """Read an assignment, of one slice or several.

    Raises:
        KeyError: a slice lacks a part.
        ValueError: columns are not of one length.
    """
    domains: list[TopologyDomain] = []
    for part in slices:
        number = part["domainCount"]
        columns = [_values(column, number) for column in part["valuesPerLevel"]]
        counts = _each(part["podCounts"], number)
        for *values, count in zip(*columns, counts, strict=True):
            domains.append(TopologyDomain(values=tuple(values), count=count))
    return TopologyAssignment(levels=tuple(levels), domains=tuple(domains))


def _same(values: Sequence[Any]) -> Json:
    return {"universal": values[0]} if len(set(values)) == 1 else {}


def _column(values: Sequence[str]) -> Json:
    same = _same(values)
    if same:
        return same
    shortest = min(len(value) for value in values)
    first, last = min(values), max(values)
    prefix = _common(first, last, shortest)
    turned = [value[::-1] for value in values]
    suffix = _common(min(turned), max(turned), shortest - prefix)
    column: Json = {"roots": [value[prefix : len(value) - suffix] for value in values]}
    if prefix:
        column["prefix"] = first[:prefix]
    if suffix:
        column["suffix"] = first[len(first) - suffix :]
    return {"individual": column}


def _common(first: str, last: str, most: int) -> int:
    """Length of the common prefix of the first and last value in order, hence of all values."""
    return next((at for at in range(most) if first[at] != last[at]), most)


def _values(column: Mapping[str, Any], number: int) -> Sequence[str]:
    if "universal" in column:
        return [column["universal"]] * number
    one = column["individual"]
    prefix, suffix = one.get("prefix", ""), one.get("suffix", "")
    return [f"{prefix}{root}{suffix}" for root in one["roots"]]


def _each(counts: Mapping[str, Any], number: int) -> Sequence[int]:
    found: Sequence[int] = (
        [counts["universal"]] * number if "universal" in counts else counts["individual"]
    )
    return found
