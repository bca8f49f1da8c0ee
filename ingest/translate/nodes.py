"""Nodes, and the pods that are bound to them, become as much of a view as places depend on.

Bounds: labels of a node take at most 16 KiB together, the shortest first; the view says which are
left out.

Invariant: what a kubelet writes all the time (heartbeats, images, addresses) is not in the view.
"""

from ingest.translate.fields import (
    MAX_UNREAD,
    ConditionWire,
    ObjectWire,
    RefusedError,
    TolerationWire,
    Wire,
    tolerations,
)
from ingest.translate.pods import BoundPodWire, granted
from ingest.translate.podspec import requests_of
from podgroup.model import names
from podgroup.model.limits import OBJECT_NAME
from podgroup.model.objects import ENDED, NodeView, PodView
from podgroup.model.quantities import QuantityError, amount
from podgroup.model.topology import PLACED_BY

MAX_LABEL_BYTES = 16 * 1024


class _NodeSpec(Wire, frozen=True):
    taints: tuple[TolerationWire, ...] | None = None
    unschedulable: bool | None = None


class _NodeStatus(Wire, frozen=True):
    allocatable: dict[str, str | int | float] | None = None
    conditions: tuple[ConditionWire, ...] | None = None


class NodeWire(ObjectWire, frozen=True):
    """core/v1 Node."""

    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


def node_view(wire: NodeWire) -> NodeView:
    """Return the view of a node.

    Raises:
        RefusedError: an allocatable amount is no quantity; the path names the resource.
    """
    meta, spec, status = wire.metadata, wire.spec, wire.status
    ready = next((c.status for c in status.conditions or () if c.type == "Ready"), "")
    labels, unread = _labels(meta.labels or {})
    return NodeView(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.resource_version,
        labels=labels,
        taints=tolerations(spec.taints),
        allocatable=_allocatable(status.allocatable or {}),
        ready=ready == "True",
        reporting=ready == "False",
        unschedulable=bool(spec.unschedulable),
        unread=unread,
    )


def _labels(found: dict[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    size = sum(len(key) + len(value) for key, value in found.items())
    if size <= MAX_LABEL_BYTES:
        return found, ()
    kept, left_out = dict(found), []
    for key in sorted(found, key=lambda key: (-len(key) - len(found[key]), key)):
        size -= len(key) + len(kept.pop(key))
        left_out.append(key)
        if size <= MAX_LABEL_BYTES:
            break
    said = f"is left out: labels take more than {MAX_LABEL_BYTES} bytes"
    return kept, tuple(
        f"metadata.labels[{key[:OBJECT_NAME]}] {said}" for key in left_out[:MAX_UNREAD]
    )


def _allocatable(found: dict[str, str | int | float]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for name, text in sorted(found.items()):
        try:
            amounts[name] = amount(name, str(text))
        except QuantityError as error:
            raise RefusedError(f"status.allocatable[{name}]", str(error)) from None
    return amounts


def bound_view(wire: BoundPodWire) -> PodView:
    """Return the node of a pod, and the amounts that it takes there; no node without amounts.

    A managed pod that is placed by topology is charged to the group it belongs to.
    """
    meta, status = wire.metadata, wire.status
    managed = (meta.labels or {}).get(names.MANAGED_LABEL) == names.MANAGED_VALUE
    placed = managed and not (meta.annotations or {}).keys().isdisjoint(PLACED_BY)
    over = status.phase in ENDED
    taking = bool(wire.spec.node_name) and not over and not placed
    return PodView(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        created_at=meta.created_at,
        node=wire.spec.node_name if taking else "",
        requests=requests_of(wire.spec, granted=granted(status)) if taking else {},
    )
