"""Extremes: every number and time that a pod, a Workload or a deletion can bear, at its limits.

`FIELDS` is the table: where a field is, and the values at its ends, among them none at all. `put`
writes one into an object as the API server has it. `raw_of` gives that object for a view, and
`views_of` what becomes of it in the log: by translation and codec, as in ingest.

    for field in FIELDS["Pod"]:
        for value in field.values:
            raw = put(raw_of(view), field.path, value)

Invariant: `put` changes one field and its parents, and no other object.
"""

import copy
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from ingest.kinds import watched_kinds
from ingest.translate.items import Delta
from podgroup.log.codec import decode_batch, encode_batch
from podgroup.log.events import Batch, Event
from podgroup.model.objects import PodView

RAW = dict[str, Any]
Path = tuple[str | int, ...]


class _Absent:
    """The field is not there."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()
TIMES: Final = (
    "0000-01-01T00:00:00Z",
    "0001-01-01T00:00:01Z",
    "1734-08-18T00:12:43Z",
    "1969-12-31T23:59:59Z",
    "2026-01-01T00:00:00Z",
    "2318-04-05T00:12:43Z",
    "9999-12-31T23:59:59Z",
    "10000-01-01T23:58:59Z",
    None,
    ABSENT,
)
"""What the API server returns of a metav1.Time: Go's years, a sum that wraps, one in UTC."""
INT64: Final = (-(2**63), -1, 0, 1, 2**31, 9_223_372_037, 2**63 - 1, ABSENT)
INT32: Final = (-(2**31), -1, 0, 1, 2**31 - 1, ABSENT)
GRACES: Final = (0, 1, 30, 600, 601, 86_400, 86_401, 2**31, 9_223_372_037, 2**63 - 1, -1, -(2**63))
"""Grace periods that DeleteOptions and evictions ask for, in seconds."""


class Field(NamedTuple):
    """A field: its path in the object, its extremes, and which writes reach it."""

    path: Path
    values: tuple[Any, ...]
    by: str


_END: Final[Path] = ("status", "containerStatuses", 0, "state", "terminated")
FIELDS: Final[dict[str, tuple[Field, ...]]] = {
    "Pod": (
        Field(("metadata", "creationTimestamp"), TIMES[:-2], "server"),
        Field(("metadata", "deletionTimestamp"), TIMES, "delete"),
        Field(("metadata", "deletionGracePeriodSeconds"), INT64, "delete"),
        Field(("metadata", "generation"), INT64, "server"),
        Field(("metadata", "managedFields", 0, "time"), TIMES, "user"),
        Field(("spec", "terminationGracePeriodSeconds"), INT64, "user"),
        Field(("spec", "activeDeadlineSeconds"), INT64, "user"),
        Field(("spec", "priority"), INT32, "user"),
        Field(("spec", "tolerations", 0, "tolerationSeconds"), INT64, "user"),
        Field(("status", "startTime"), TIMES, "kubelet"),
        Field(("status", "conditions", 0, "lastTransitionTime"), TIMES, "kubelet"),
        Field(("status", "conditions", 0, "lastProbeTime"), TIMES, "kubelet"),
        Field((*_END, "startedAt"), TIMES, "kubelet"),
        Field((*_END, "finishedAt"), TIMES, "kubelet"),
        Field((*_END, "exitCode"), INT32, "kubelet"),
        Field(("status", "containerStatuses", 0, "restartCount"), INT32, "kubelet"),
    ),
}
"""Kind -> its fields that are numbers or times; amounts of resources have tables of their own."""


def put(raw: RAW, path: Path, value: Any) -> RAW:
    """Return an object with a field at a value; parents that lack are made."""
    found = copy.deepcopy(raw)
    at: Any = found
    for key, below in pairwise(path):
        empty: Any = [] if isinstance(below, int) else {}
        if isinstance(key, int):
            at.extend({} for _ in range(key + 1 - len(at)))
            at = at[key]
        else:
            at = at.setdefault(key, empty)
    last = path[-1]
    if value is ABSENT:
        at.pop(last, None)
    else:
        at[last] = value
    return found


def raw_of(view: PodView) -> RAW:
    """Return the pod of a view as the API server has it, as far as views show."""
    requests = {
        name: f"{amount}m" if name == "cpu" else str(amount)
        for name, amount in view.requests.items()
    }
    annotations = dict(view.annotations)
    if view.role:
        annotations["kueue.x-k8s.io/role-hash"] = view.role
    meta: RAW = {
        "uid": view.uid,
        "namespace": view.namespace,
        "name": view.name,
        "resourceVersion": view.resource_version,
        "creationTimestamp": _text(view.created_at),
        "labels": dict(view.labels),
        "annotations": annotations,
        "finalizers": list(view.finalizers),
        "managedFields": [{"manager": view.writer or "kubectl", "fieldsV1": {"f:metadata": {}}}],
    }
    if view.deleted_at is not None:
        meta["deletionTimestamp"] = _text(view.deleted_at)
    if view.grace_s is not None:
        meta["deletionGracePeriodSeconds"] = view.grace_s
    spec: RAW = {
        "schedulingGates": [{"name": gate} for gate in view.gates],
        "containers": [{"name": "c", "resources": {"requests": requests}}],
        "terminationGracePeriodSeconds": view.termination_grace_s,
        "nodeSelector": dict(view.node_selector),
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}],
        "nodeName": view.node,
    }
    conditions = [
        {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message}
        for c in view.conditions
    ]
    status: RAW = {
        "phase": view.phase,
        "reason": view.reason,
        "message": view.message,
        "conditions": conditions or [{"type": "Initialized", "status": "True"}],
        "containerStatuses": [{"name": "c"}],
    }
    return {"metadata": meta, "spec": spec, "status": status}


def _text(at: Any) -> str:
    return f"{at.year:04d}{at:-%m-%dT%H:%M:%SZ}"


_PODS: Final = next(row.translator for row in watched_kinds("") if row.kind == "Pod")


def event_of(raw: RAW, kind: str = "MODIFIED") -> Event:
    """Return what a watch item about a pod is in the log: translated, written and read back."""
    found = _PODS.item(msgspec.json.encode({"type": kind, "object": raw}))
    assert isinstance(found, Delta), found
    batch = encode_batch(Batch(source="watch", events=(found.event,)))
    (event,) = decode_batch(batch).events
    return event  # type: ignore[return-value]  # nothing of ours is undecodable: a test holds that
