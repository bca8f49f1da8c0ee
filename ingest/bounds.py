"""How large an event may be.

A NATS server accepts messages of 1 MiB by default, and the API server stores objects of up to 1.5
MiB; a Workload owned by some ten thousand pods is all owner references. An object that does not fit
is refused like any other unreadable object. Of a pod, fields that its owner can make large are left
out first, so that its phase, requests and deletion are known whatever is written on it. A deletion
is never refused: it is reduced to the identity of the object.

Invariant: the result of `bounded` fits into a message.
"""

import msgspec

from podgroup.log.codec import encode_event
from podgroup.log.events import (
    DeltaRefused,
    Event,
    ObjectApplied,
    PodApplied,
    PodDeleted,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.model.keys import is_ours
from podgroup.model.objects import Kind, PodView, QueueObject, WorkloadView

MAX_CONDITIONS = 16
"""Conditions, and ends of containers, that are kept of a pod that is too large."""
MAX_EVENT_BYTES = 900_000
"""Largest event taken, in bytes of JSON."""


def bounded(kind: Kind, event: Event) -> tuple[Event, bytes]:
    """Return `event`, or what replaces it when it is too large, and its bytes."""
    body = encode_event(event)
    size = len(body)
    if size <= MAX_EVENT_BYTES:
        return event, body
    match event:
        case PodDeleted(pod=pod, filtered=filtered):
            fitting: Event = PodDeleted(pod=_bare_pod(pod), filtered=filtered)
        case WorkloadDeleted(workload=workload):
            fitting = WorkloadDeleted(workload=_bare_workload(workload))
        case PodApplied(pod=view, relist=relist):
            fitting = PodApplied(pod=_small_pod(view, size), relist=relist)
            body = encode_event(fitting)
            if len(body) <= MAX_EVENT_BYTES:
                return fitting, body
            fitting = _refused(kind, view, size)
        case WorkloadApplied(workload=view):
            fitting = _refused(kind, view, size)
        case ObjectApplied(object=view):
            fitting = _refused(kind, view, size)
        case _:
            # Nothing else carries an object; its texts are bounded where they are made.
            fitting = event
    return fitting, encode_event(fitting)


def _refused(kind: Kind, view: PodView | WorkloadView | QueueObject, size: int) -> DeltaRefused:
    return DeltaRefused(
        kind=kind,
        namespace=view.namespace,
        name=view.name,
        uid=view.uid,
        resource_version=view.resource_version,
        field="",
        message=f"the object is too large: {size} bytes of it matter to gatelog, which takes at "
        f"most {MAX_EVENT_BYTES}; remove labels or owner references",
    )


def _small_pod(pod: PodView, size: int) -> PodView:
    """The pod without fields that take no part in decisions and that only the API server bounds."""
    ours = {key: text for key, text in pod.labels.items() if is_ours(key)}
    said = (
        f"the pod is too large: {size} bytes of it matter to gatelog, which takes at most "
        f"{MAX_EVENT_BYTES}; its other labels, owners, conditions, tolerations and affinity are "
        "left out: remove some"
    )
    return msgspec.structs.replace(
        pod,
        labels=ours,
        owners=pod.owners[:1],
        conditions=pod.conditions[:MAX_CONDITIONS],
        tolerations=(),
        node_terms=(),
        ends=pod.ends[:MAX_CONDITIONS],
        unread=(*pod.unread, said),
    )


def _bare_pod(pod: PodView) -> PodView:
    return PodView(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        resource_version=pod.resource_version,
        created_at=pod.created_at,
        deleted_at=pod.deleted_at,
    )


def _bare_workload(workload: WorkloadView) -> WorkloadView:
    return WorkloadView(
        uid=workload.uid,
        namespace=workload.namespace,
        name=workload.name,
        resource_version=workload.resource_version,
        created_at=workload.created_at,
        deleted_at=workload.deleted_at,
    )
