"""Every field that gatelog reads of objects that people write, and the extremes of each.

The list is made from what code reads: the wire shapes of `ingest.translate`, and the keys of
`podgroup.model.names`. So a field that is new there is in it; one whose type or inner shape is not
known here is an error that says what to add (`unknown`).

Paths are as people write them: `spec.resourceGroups[].flavors[].resources[].nominalQuota`,
`metadata.annotations{kueue.x-k8s.io/pod-group-sets}`.

Invariant: each value is JSON, and `put` changes one field of a copy.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

from msgspec import inspect

from ingest.translate.claims import DeviceClassWire, ResourceClaimTemplateWire, ResourceClaimWire
from ingest.translate.nodes import NodeWire
from ingest.translate.pods import PodWire
from ingest.translate.queues import (
    AdmissionCheckWire,
    ClusterQueueWire,
    CohortWire,
    FlavorWire,
    LocalQueueWire,
    NamespaceWire,
    PriorityWire,
    TopologyWire,
)
from ingest.translate.workloads import WorkloadWire
from podgroup.model import names

RAW = dict[str, Any]
WIRES: Final[Mapping[str, type]] = {
    "Namespace": NamespaceWire,
    "PriorityClass": PriorityWire,
    "WorkloadPriorityClass": PriorityWire,
    "ResourceFlavor": FlavorWire,
    "Topology": TopologyWire,
    "Node": NodeWire,
    "Cohort": CohortWire,
    "AdmissionCheck": AdmissionCheckWire,
    "ClusterQueue": ClusterQueueWire,
    "LocalQueue": LocalQueueWire,
    "DeviceClass": DeviceClassWire,
    "ResourceClaimTemplate": ResourceClaimTemplateWire,
    "ResourceClaim": ResourceClaimWire,
    "Workload": WorkloadWire,
    "Pod": PodWire,
}
"""The shape that each kind is read by."""

LONG: Final = "x" * 5000
NUMBERS: Final = (-(2**63), -(2**31), -1, 0, 1, 2**31 - 1, 2**31, 2**53, 2**63 - 1)
QUANTITIES: Final = (
    *("-1", "-100", "-0.5m", "-1E", "-8Ei", "0", "1n", "0.5m", "1e3", "1E", "8Ei", "9e99"),
    *("9223372036854775807", "9223372036854775808", "", "lots", -1, 2**63 - 1),
)
TIMES: Final = (
    *("0001-01-01T00:00:00Z", "1734-08-18T00:12:43Z", "1969-12-31T23:59:59Z"),
    *("2318-04-05T00:12:43Z", "9999-12-31T23:59:59Z", None),
)
TEXTS: Final = ("", "-1", "0", "true", "9" * 19, "9" * 40, "A_b", "a b", "ü\n", "a/b", LONG)
FLAGS: Final = (True, False, None)

_AMOUNTS: Final = ("cpu", "memory", "pods", "example.com/gpu")
_RESOURCES: Final[tuple[Any, ...]] = tuple(
    {kind: {resource: text}}
    for kind in ("requests", "limits")
    for resource in _AMOUNTS
    for text in QUANTITIES
)
_TOLERATIONS: Final[tuple[Any, ...]] = (
    [],
    [{"operator": "Exists"}],
    *([{"key": "k", "effect": "NoExecute", "tolerationSeconds": n}] for n in NUMBERS),
    [{"key": LONG, "value": LONG}],
)
_VALUES: Final[tuple[RAW, ...]] = (
    *({}, {"values": []}),
    *({"values": ["9" * 40]}, {"values": ["a"] * 300}),
)
_TERMS: Final[tuple[Any, ...]] = tuple(
    {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": op, **more}]}]
            }
        }
    }
    for op in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "")
    for more in _VALUES
)
_REQUEST: Final[tuple[Any, ...]] = (
    {"required": LONG},
    {"unconstrained": False},
    *({"podSetSliceRequiredTopology": "rack", "podSetSliceSize": n} for n in NUMBERS),
    *(
        {"podsetSliceRequiredTopologyConstraints": [{"topology": "rack", "size": n}]}
        for n in NUMBERS
    ),
)
_PLACE: Final[tuple[Any, ...]] = (
    {"levels": [], "domains": []},
    *({"levels": ["rack"], "domains": [{"values": ["a"], "count": n}]} for n in NUMBERS),
    *(
        {
            "levels": ["rack"],
            "slices": [
                {
                    "domainCount": n,
                    "valuesPerLevel": [{"universal": "a"}],
                    "podCounts": {"universal": 1},
                },
                {
                    "domainCount": -n,
                    "valuesPerLevel": [{"universal": "a"}],
                    "podCounts": {"universal": n},
                },
            ],
        }
        for n in NUMBERS
    ),
)
INNER: Final[Mapping[str, tuple[Any, ...]]] = {
    "spec.containers[].resources": _RESOURCES,
    "spec.initContainers[].resources": _RESOURCES,
    "spec.resources": _RESOURCES,
    "spec.overhead": tuple({"cpu": text} for text in QUANTITIES),
    "spec.resourceClaims": ([], [{"name": "c", "resourceClaimName": LONG}]),
    "spec.tolerations": _TOLERATIONS,
    "spec.affinity": _TERMS,
    "spec.podSets[].template.spec.containers[].resources": _RESOURCES,
    "spec.podSets[].template.spec.initContainers[].resources": _RESOURCES,
    "spec.podSets[].template.spec.resources": _RESOURCES,
    "spec.podSets[].template.spec.overhead": tuple({"cpu": text} for text in QUANTITIES),
    "spec.podSets[].topologyRequest": _REQUEST,
    "status.admission.podSetAssignments[].topologyAssignment": _PLACE,
    "status.allocatedResources": tuple({"cpu": text} for text in QUANTITIES),
    "status.resources.requests": tuple({"cpu": text} for text in QUANTITIES),
    "status.containerStatuses[].allocatedResources": tuple({"cpu": t} for t in QUANTITIES),
    "status.containerStatuses[].resources": _RESOURCES,
    "status.initContainerStatuses[].allocatedResources": tuple({"cpu": t} for t in QUANTITIES),
    "status.initContainerStatuses[].resources": _RESOURCES,
    "metadata.managedFields[].fieldsV1.f:spec.f:containers": ({}, {"k": LONG}),
}
"""Extremes of what the wire shapes take as it comes, to be read later: a new one needs its line."""

SETS: Final = tuple(
    f'[{{"name": "a", "count": {count}, "template": {{"spec": {{"containers": [{{"name": "c", '
    f'"{kind}": {{"cpu": "{text}"}}}}]}}}}}}]'
    for count, kind, text in (
        *((1, "requests", text) for text in QUANTITIES),
        *((1, "limits", text) for text in QUANTITIES),
        *((count, "requests", "1") for count in NUMBERS),
    )
)
HIDDEN: Final = (
    "- name: a\n  template:\n    spec:\n      containers:\n      - name: c\n        requests:\n"
    "          ? cpu\n          : -100\n"
)
"""An amount below zero that no pattern finds."""

_LAYERS: Final = tuple(f'[{{"topology": "rack", "size": {n}}}]' for n in NUMBERS)
KEYS: Final[Mapping[str, tuple[Any, ...]]] = {
    names.POD_GROUP_SETS: (*SETS, HIDDEN, *TEXTS),
    names.SLICE_CONSTRAINTS: (*_LAYERS, *TEXTS),
    names.ADMISSION_GATED_BY: ("example.com/a,example.com/b", ",", *TEXTS),
}
"""Extremes of keys whose values have a form of their own; others are given `TEXTS` and numbers."""

_SERVERS: Final = frozenset(
    f"metadata.{name}"
    for name in ("uid", "namespace", "name", "resourceVersion", "generation", "creationTimestamp")
)
"""What the API server writes itself, whatever a request says."""


class Field(NamedTuple):
    """A field of a kind, as `path`, and its extremes; `by`: user, status or server."""

    kind: str
    path: str
    values: tuple[Any, ...]

    @property
    def by(self) -> str:
        """Who writes it: a user, who has the status subresource, or the API server."""
        if self.path in _SERVERS or self.path.startswith(("metadata.deletion", "metadata.managed")):
            return "server"
        return "status" if self.path.startswith("status") else "user"

    @property
    def leaf(self) -> str:
        """The name that a refusal has to say."""
        return re.split(r"[.{]", self.path)[-1].rstrip("}").removesuffix("[]")

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"


def fields(kind: str) -> list[Field]:
    """Return every field of a kind that gatelog reads, by path."""
    found = {path: values for path, values in _leaves(kind) if values}
    for path, holds in (("metadata.labels{}", "labels"), ("metadata.annotations{}", "annotations")):
        if kind in ("Pod", "Workload") and path in found:
            del found[path]
            for key in keys():
                values = KEYS.get(key, TEXTS) if holds == "annotations" else TEXTS
                found[f"metadata.{holds}{{{key}}}"] = values
    return [Field(kind, path, values) for path, values in sorted(found.items())]


def unknown() -> list[str]:
    """Return each field that is read and has no extremes here."""
    return [f"{kind} {path}" for kind in WIRES for path, values in _leaves(kind) if not values]


def keys() -> list[str]:
    """Return the keys of labels and annotations that have a name in the code."""
    found = (value for name, value in vars(names).items() if name.isupper())
    texts = {one for one in found if isinstance(one, str)}
    return sorted(one for one in texts if re.match(r"(\w+\.)?(kueue\.x-k8s|gatelog)\.io/\w", one))


def _leaves(kind: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    yield from _open(inspect.type_info(WIRES[kind]), "")


def _open(shape: inspect.Type, path: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    match shape:
        case inspect.Metadata(type=inner):
            yield from _open(inner, path)
        case inspect.StructType(fields=inside):
            for one in inside:
                yield from _open(one.type, f"{path}.{one.encode_name}".lstrip("."))
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            yield from _open(item, f"{path}[]")
        case inspect.DictType(value_type=item):
            yield from _open(item, f"{path}{{}}")
        case inspect.UnionType(types=types):
            some = [one for one in types if not isinstance(one, inspect.NoneType)]
            if len(some) == 1:
                yield from _open(some[0], path)
            else:  # a quantity: text or number
                yield path, QUANTITIES
        case inspect.RawType():
            yield path, INNER.get(path, ())
        case _:
            yield path, _PLAIN.get(type(shape), ())


_PLAIN: Final[Mapping[type, tuple[Any, ...]]] = {
    inspect.IntType: NUMBERS,
    inspect.StrType: TEXTS,
    inspect.BoolType: FLAGS,
    inspect.DateTimeType: TIMES,
    inspect.AnyType: (),
}

_STEP: Final = re.compile(r"([^.\[\]{}]+)|(\[\])|\{([^}]*)\}")


def put(raw: RAW, path: str, value: Any) -> RAW:
    """Return an object with a field at a value; of a list the first item, of a map the key `k`."""
    found = copy.deepcopy(raw)
    steps: list[str | int] = []
    for name, item, key in _STEP.findall(path):
        steps.append(0 if item else name or key or "k")
    at: Any = found
    for step, below in pairwise(steps):
        empty: Any = [] if below == 0 and isinstance(below, int) else {}
        if isinstance(step, int):
            if not at:
                at.append(copy.deepcopy(empty))
            at = at[0]
        else:
            if at.get(step) is None:
                at[step] = empty
            at = at[step]
    last = steps[-1]
    if isinstance(last, int):
        at[:1] = [value]
    else:
        at[last] = value
    return found
