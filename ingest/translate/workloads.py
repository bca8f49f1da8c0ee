"""Workloads: kueue.x-k8s.io Workload, in both served versions, becomes a `WorkloadView`.

v1beta2 and v1beta1 differ in three places that matter here (Kueue's conversion webhook): the
priority class is a reference in v1beta2 and a name with a source in v1beta1, past execution time is
spelt differently, and topology assignments are laid out differently (`topology_json`). One wire
shape names the fields of both; an object never has both.

A Workload is an object that its author may write by hand, with a pod template that the API server
does not look into: the view names an impossible amount or count, which counts as nothing.

Invariant: the same Workload read through either version gives the same view; no amount or count in
it is below zero.
"""

from datetime import datetime

from msgspec import Raw, field, json

from ingest.translate.fields import (
    ConditionWire,
    ObjectWire,
    RefusedError,
    TolerationWire,
    Wire,
    annotations,
    because,
    conditions,
    owners,
    tolerations,
)
from ingest.translate.podspec import PodSpecWire, requests_of, wrong_amount
from podgroup.model import objects
from podgroup.model.limits import cut
from podgroup.model.names import MAX_INT32
from podgroup.model.quantities import QuantityError, amount
from podgroup.model.topology import NOTHING_ASKED, TopologyRequest
from podgroup.model.topology_json import read, read_request

_ABSENT = Raw()
_NOTHING = (b"", b"null")
_PRIORITY_KINDS = {
    "kueue.x-k8s.io/workloadpriorityclass": "WorkloadPriorityClass",
    "scheduling.k8s.io/priorityclass": "PriorityClass",
}
_MAX_UPDATE_BYTES = 64 * 1024
"""Bound on the labels and annotations that an admission check wants on the pods of a podset."""


class _Template(Wire, frozen=True):
    spec: PodSpecWire = PodSpecWire()


class _PodSet(Wire, frozen=True):
    name: str = "main"
    count: int = 1
    template: _Template = _Template()
    topology_request: Raw = _ABSENT


class _PriorityRef(Wire, frozen=True):
    kind: str = ""
    name: str = ""


class _Spec(Wire, frozen=True):
    active: bool | None = None
    queue_name: str = ""
    priority: int | None = None
    priority_class_ref: _PriorityRef | None = None
    priority_class_name: str = ""
    priority_class_source: str = ""
    maximum_execution_time_seconds: int | None = None
    pod_sets: tuple[_PodSet, ...] | None = None


class _Assignment(Wire, frozen=True):
    name: str
    flavors: dict[str, str] | None = None
    resource_usage: dict[str, str | int] | None = None
    count: int | None = None
    topology_assignment: Raw = _ABSENT
    delayed_topology_request: str | None = None


class _Admission(Wire, frozen=True):
    cluster_queue: str = ""
    pod_set_assignments: tuple[_Assignment, ...] | None = None


class _Update(Wire, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[TolerationWire, ...] | None = None


class _Check(Wire, frozen=True):
    name: str
    state: str = "Pending"
    message: str = ""
    pod_set_updates: tuple[_Update, ...] | None = None
    requeue_after_seconds: int | None = None


class _Reclaimable(Wire, frozen=True):
    name: str
    count: int = 0


class _RequeueState(Wire, frozen=True):
    count: int | None = None
    requeue_at: datetime | None = None


class _Unhealthy(Wire, frozen=True):
    name: str = ""


class _Status(Wire, frozen=True):
    conditions: tuple[ConditionWire, ...] | None = None
    requeue_state: _RequeueState | None = None
    admission: _Admission | None = None
    admission_checks: tuple[_Check, ...] | None = None
    reclaimable_pods: tuple[_Reclaimable, ...] | None = None
    unhealthy_nodes: tuple[_Unhealthy, ...] | None = None
    accumulated_past_execution_time_seconds: int | None = None
    executed_before_v1beta2: int | None = field(
        name="accumulatedPastExexcutionTimeSeconds", default=None
    )


class WorkloadWire(ObjectWire, frozen=True):
    """kueue.x-k8s.io Workload, v1beta1 and v1beta2."""

    spec: _Spec = _Spec()
    status: _Status = _Status()


def workload_view(wire: WorkloadWire) -> objects.WorkloadView:
    """Return the view of a Workload.

    Raises:
        RefusedError: a field cannot be taken.
    """
    meta, spec, status = wire.metadata, wire.spec, wire.status
    admission = status.admission or _Admission()
    class_name, class_kind = _priority_class(spec)
    spelt_out, owner_pods = objects.split_owners(owners(meta.owner_references))
    return objects.WorkloadView(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        created_at=meta.created_at,
        deleted_at=meta.deletion_timestamp,
        generation=meta.generation,
        labels=meta.labels or {},
        annotations=annotations(meta.annotations)[0],
        finalizers=meta.finalizers or (),
        owners=spelt_out,
        owner_pods=owner_pods,
        active=spec.active is not False,
        because=because(meta.annotations),
        queue=spec.queue_name,
        priority=spec.priority,
        priority_class=class_name,
        priority_class_kind=class_kind,
        max_execution_s=_within(spec.maximum_execution_time_seconds) or None,
        pod_sets=tuple(
            objects.PodSetView(
                name=podset.name,
                count=_within(podset.count),
                requests=requests_of(podset.template.spec, f"spec.podSets[{i}].template.spec"),
                topology=_request(podset.topology_request),
            )
            for i, podset in enumerate(spec.pod_sets or ())
        ),
        conditions=conditions(status.conditions),
        cluster_queue=admission.cluster_queue,
        assignments=tuple(_assignment(a) for a in admission.pod_set_assignments or ()),
        checks=tuple(_check(c) for c in status.admission_checks or ()),
        reclaimable={r.name: _within(r.count) for r in status.reclaimable_pods or ()},
        executed_s=_within(
            status.accumulated_past_execution_time_seconds or status.executed_before_v1beta2
        ),
        requeue=_requeue(status.requeue_state),
        unhealthy_nodes=tuple(node.name for node in status.unhealthy_nodes or ()),
        problem=_problem(spec),
    )


def _within(number: int | None) -> int:
    """Return a count, or seconds: the nearest that the Workload API has."""
    return max(0, min(number or 0, MAX_INT32))


def _problem(spec: _Spec) -> str:
    """Return path and fault of the first amount or count that a Workload cannot have."""
    for index, podset in enumerate(spec.pod_sets or ()):
        path = f"spec.podSets[{index}]"
        if podset.count != _within(podset.count):
            return f"{path}.count is {podset.count}, it must be an integer from 0 to {MAX_INT32}"
        if wrong := wrong_amount(podset.template.spec, f"{path}.template.spec"):
            return wrong
    most_s = spec.maximum_execution_time_seconds
    if most_s is not None and (most_s < 1 or most_s > MAX_INT32):
        path = "spec.maximumExecutionTimeSeconds"
        return f"{path} is {most_s}, it must be an integer from 1 to {MAX_INT32}"
    return ""


def _requeue(found: _RequeueState | None) -> objects.RequeueState:
    if found is None:
        return objects.NOT_REQUEUED
    return objects.RequeueState(count=_within(found.count), at=found.requeue_at)


def _priority_class(spec: _Spec) -> tuple[str, str]:
    if spec.priority_class_ref:
        return spec.priority_class_ref.name, spec.priority_class_ref.kind
    source = spec.priority_class_source
    return spec.priority_class_name, _PRIORITY_KINDS.get(source, "")


def _request(found: Raw) -> TopologyRequest:
    return NOTHING_ASKED if bytes(found) in _NOTHING else read_request(json.decode(found))


def _assignment(found: _Assignment) -> objects.Assignment:
    # A delayed request means that topology will be assigned in a second pass: the gate stays.
    topology = bytes(found.topology_assignment) not in _NOTHING
    return objects.Assignment(
        name=found.name,
        flavors=found.flavors or {},
        usage=_usage(found),
        count=_within(found.count),
        topology=topology or bool(found.delayed_topology_request),
        place=read(json.decode(found.topology_assignment)) if topology else None,
    )


def _usage(found: _Assignment) -> dict[str, int]:
    usage = {}
    for resource, text in (found.resource_usage or {}).items():
        try:
            usage[resource] = amount(resource, str(text))
        except QuantityError:
            usage[resource] = 0  # never credit, whatever client wrote it
    return usage


def _check(found: _Check) -> objects.CheckView:
    return objects.CheckView(
        name=found.name,
        state=found.state,
        message=cut(found.message),
        updates=tuple(_update(found.name, u) for u in found.pod_set_updates or ()),
        requeue_after_s=_within(found.requeue_after_seconds),
    )


def _update(check: str, found: _Update) -> objects.PodSetUpdate:
    texts = (found.labels or {}) | (found.annotations or {})
    size = sum(len(key.encode()) + len(text.encode()) for key, text in texts.items())
    if size > _MAX_UPDATE_BYTES:
        path = f"status.admissionChecks[{check}].podSetUpdates[{found.name}]"
        raise RefusedError(path, f"is {size} bytes long, gatelog takes at most {_MAX_UPDATE_BYTES}")
    return objects.PodSetUpdate(
        name=found.name,
        labels=found.labels or {},
        annotations=found.annotations or {},
        node_selector=found.node_selector or {},
        tolerations=tolerations(found.tolerations),
    )
