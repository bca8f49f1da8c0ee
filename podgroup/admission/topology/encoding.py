"""An assignment as the Workload has it: values per level with common ends said once.

Theory. `topologyAssignment.slices[]` of v1beta2 lists domains by column: for each level one value
for all, or the common prefix and suffix and what is between; pod counts likewise. An assignment is
one such slice here, which every reader has to understand; Kueue makes several where that is
shorter.

Invariant: `decoded(encoded(a))` is `a`, if `a` has domains; without any there is no slice.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from podgroup.model.topology import TopologyAssignment, TopologyDomain

Json = dict[str, Any]


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
    """How many characters the first and the last in order begin with alike, so all between do."""
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
