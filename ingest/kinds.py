"""The table of watched kinds: where each is served, its selector, its translator.

Kueue's kinds are served as v1beta2, and as v1beta1 before Kueue 0.20; both versions show the same
objects with the same resource versions, so a watch may move from one to the other. A kind that is
not installed (no Kueue) is a fact worth an event, not an error.

Only pods have a selector: all other kinds are few, or needed whole.

Invariant: there is one row per kind of `objects.kinds_watched`.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from ingest.translate.claims import (
    DeviceClassWire,
    ResourceClaimTemplateWire,
    ResourceClaimWire,
    claim_template_view,
    device_class_view,
    resource_claim_view,
)
from ingest.translate.fields import ObjectWire
from ingest.translate.items import Identity, Translator
from ingest.translate.nodes import NodeWire, bound_view, node_view
from ingest.translate.pods import BoundPodWire, PodWire, pod_view
from ingest.translate.queues import (
    AdmissionCheckWire,
    ClusterQueueWire,
    CohortWire,
    FlavorWire,
    LocalQueueWire,
    NamespaceWire,
    PriorityWire,
    StatefulSetWire,
    TopologyWire,
    admission_check_view,
    cluster_queue_view,
    cohort_view,
    flavor_view,
    local_queue_view,
    namespace_view,
    priority_class_view,
    stateful_set_view,
    topology_view,
    workload_priority_class_view,
)
from ingest.translate.unread import unread
from ingest.translate.workloads import WorkloadWire, workload_view
from podgroup.log.events import (
    Event,
    ObjectApplied,
    ObjectDeleted,
    PodApplied,
    PodDeleted,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.model.objects import (
    QUEUE_KINDS,
    WATCHED_KINDS,
    ClusterQueueView,
    CohortView,
    Kind,
    LocalQueueView,
    PodView,
    QueueObject,
    WorkloadView,
)

QUEUES = (ClusterQueueView, CohortView, LocalQueueView)
"""Kinds whose condition Active names the fields of the spec that are not read."""
RoleVariant = Literal["kueue", "kep-976"]

CLUSTER_SCOPED = frozenset(name for name, kind in QUEUE_KINDS.items() if not kind.namespaced)
"""Kinds whose objects are in no namespace."""

W = TypeVar("W", bound=ObjectWire)


class Watched(NamedTuple):
    """A kind to watch.

    `paths` are the collections that may serve it, the preferred first; `selector` is a label
    selector, `fields` a field selector, "" for all objects.
    """

    kind: Kind
    paths: tuple[str, ...]
    selector: str
    translator: Translator[Any]
    fields: str = ""


def watched_kinds(
    pod_selector: str,
    variant: RoleVariant = "kueue",
    *,
    annotated_names: bool = True,
    copied: Collection[str] = (),
    kinds: Iterable[Kind] = WATCHED_KINDS,
) -> tuple[Watched, ...]:
    """Return the rows of `kinds`, in that order.

    `annotated_names` and `copied` say which annotations of pods are read (`translate.pods`).
    """
    pods = _pods(variant, annotated_names, copied, filtered=bool(pod_selector))
    rows = {row.kind: row for row in (*_asked_rows(), *_rows(pod_selector, pods))}
    return tuple(rows[kind] for kind in kinds)


def node_kind() -> Watched:
    """Return the watch of nodes."""
    return Watched("Node", ("/api/v1/nodes",), "", _objects("Node", NodeWire, node_view))


def bound_pods() -> Watched:
    """Return the watch of all pods that take amounts of nodes: bound, and not over."""
    bound = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

    def applied(wire: BoundPodWire, _raw: bytes, relist: str) -> Event:
        return PodApplied(pod=bound_view(wire), relist=relist)

    def deleted(wire: BoundPodWire, _raw: bytes) -> Event:
        return PodDeleted(pod=bound_view(wire))

    pods = Translator("Pod", BoundPodWire, applied, deleted, _pod_unread)
    return Watched("Pod", ("/api/v1/pods",), "", pods, bound)


def _pod_unread(identity: Identity, filtered: bool = False) -> Event:
    return PodDeleted(
        pod=PodView(
            uid=identity.uid,
            namespace=identity.namespace,
            name=identity.name,
            resource_version=identity.version,
            created_at=identity.created_at,
        ),
        filtered=filtered,
    )


def _rows(pod_selector: str, pods: Translator[PodWire]) -> tuple[Watched, ...]:
    return (
        Watched("Namespace", ("/api/v1/namespaces",), "", _namespaces()),
        Watched(
            "PriorityClass",
            ("/apis/scheduling.k8s.io/v1/priorityclasses",),
            "",
            _objects("PriorityClass", PriorityWire, priority_class_view),
        ),
        Watched(
            "WorkloadPriorityClass",
            _kueue("workloadpriorityclasses"),
            "",
            _objects("WorkloadPriorityClass", PriorityWire, workload_priority_class_view),
        ),
        Watched(
            "ResourceFlavor",
            _kueue("resourceflavors"),
            "",
            _objects("ResourceFlavor", FlavorWire, flavor_view),
        ),
        Watched(
            "Topology", _kueue("topologies"), "", _objects("Topology", TopologyWire, topology_view)
        ),
        Watched("Cohort", _kueue("cohorts"), "", _objects("Cohort", CohortWire, cohort_view)),
        Watched(
            "AdmissionCheck",
            _kueue("admissionchecks"),
            "",
            _objects("AdmissionCheck", AdmissionCheckWire, admission_check_view),
        ),
        Watched(
            "ClusterQueue",
            _kueue("clusterqueues"),
            "",
            _objects("ClusterQueue", ClusterQueueWire, cluster_queue_view),
        ),
        Watched(
            "LocalQueue",
            _kueue("localqueues"),
            "",
            _objects("LocalQueue", LocalQueueWire, local_queue_view),
        ),
        Watched("Workload", _kueue("workloads"), "", _workloads()),
        Watched("Pod", ("/api/v1/pods",), pod_selector, pods),
    )


def _kueue(plural: str) -> tuple[str, ...]:
    return tuple(f"/apis/kueue.x-k8s.io/{v}/{plural}" for v in ("v1beta2", "v1beta1"))


def _asked_rows() -> tuple[Watched, ...]:
    """Return the watches of kinds that a setting asks for."""

    def row(kind: Kind, path: str, wire: type[W], view: Callable[[W], QueueObject]) -> Watched:
        return Watched(kind, (path,), "", _objects(kind, wire, view))

    dra = "/apis/resource.k8s.io/v1"
    return (
        row("StatefulSet", "/apis/apps/v1/statefulsets", StatefulSetWire, stateful_set_view),
        row("DeviceClass", f"{dra}/deviceclasses", DeviceClassWire, device_class_view),
        row(
            "ResourceClaimTemplate",
            f"{dra}/resourceclaimtemplates",
            ResourceClaimTemplateWire,
            claim_template_view,
        ),
        row("ResourceClaim", f"{dra}/resourceclaims", ResourceClaimWire, resource_claim_view),
    )


def _pods(
    variant: RoleVariant, annotated_names: bool, copied: Collection[str], *, filtered: bool
) -> Translator[PodWire]:
    def view(wire: PodWire, raw: bytes) -> PodView:
        return pod_view(wire, raw, variant, annotated_names, copied)

    def applied(wire: PodWire, raw: bytes, relist: str) -> Event:
        return PodApplied(pod=view(wire, raw), relist=relist)

    def deleted(wire: PodWire, raw: bytes) -> Event:
        return PodDeleted(pod=view(wire, raw), filtered=filtered)

    def unread(identity: Identity) -> Event:
        return _pod_unread(identity, filtered)

    return Translator("Pod", PodWire, applied, deleted, unread)


def _workloads() -> Translator[WorkloadWire]:
    def applied(wire: WorkloadWire, _raw: bytes, relist: str) -> Event:
        return WorkloadApplied(workload=workload_view(wire), relist=relist)

    def deleted(wire: WorkloadWire, _raw: bytes) -> Event:
        return WorkloadDeleted(workload=workload_view(wire))

    def unread(identity: Identity) -> Event:
        return WorkloadDeleted(
            workload=WorkloadView(
                uid=identity.uid,
                namespace=identity.namespace,
                name=identity.name,
                resource_version=identity.version,
                created_at=identity.created_at,
            )
        )

    return Translator("Workload", WorkloadWire, applied, deleted, unread)


def _namespaces() -> Translator[NamespaceWire]:
    return _objects("Namespace", NamespaceWire, namespace_view)


def _objects(kind: Kind, wire: type[W], view: Callable[[W], QueueObject]) -> Translator[W]:
    def applied(found: W, raw: bytes, relist: str) -> Event:
        seen = view(found)
        if isinstance(seen, QUEUES) and (beyond := unread(raw, wire)):
            seen = msgspec.structs.replace(seen, unread=beyond)
        return ObjectApplied(object=seen, relist=relist)

    def deleted(found: W, _raw: bytes) -> Event:
        meta = found.metadata
        return ObjectDeleted(
            kind=kind,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )

    def deleted_unread(identity: Identity) -> Event:
        return ObjectDeleted(
            kind=kind,
            namespace=identity.namespace,
            name=identity.name,
            uid=identity.uid,
            resource_version=identity.version,
        )

    return Translator(kind, wire, applied, deleted, deleted_unread)
