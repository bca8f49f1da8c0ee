"""Pods: the bytes of core/v1 Pod become a `PodView`.

This is the hot path: a relist of a large cluster runs through here once per pod. Two things keep it
fast. Parts that pods of a role share (resources, tolerations, affinity, and the role itself) are
translated once per distinct text and remembered in bounded tables. The role is computed, which
reads the pod once more, only for pods without the role-hash annotation.

Annotation pod-group-sets is read here (`podsets`) and not passed on as text. An unreadable value is
reported in the view instead of refusing the pod: its group must say why it is blocked. The same
holds for an annotation over its bound: whatever its owner writes on a pod, its requests, phase and
deletion are known.

Invariant: environment, commands, arguments and volumes are not named here, so no view has them.
"""

from collections.abc import Container
from datetime import datetime

import msgspec
from msgspec import Raw

from ingest.translate.fields import (
    ConditionWire,
    ManagedMetaWire,
    ObjectWire,
    Wire,
    annotations,
    conditions,
    owners,
    writer,
)
from ingest.translate.large import fitting
from ingest.translate.podsets import Declared, parse_sets
from ingest.translate.podspec import (
    NOTHING_GRANTED,
    Granted,
    PodSpecWire,
    claims_of,
    node_terms_of,
    requests_of,
    tolerations_of,
)
from ingest.translate.shapes import computed_role
from podgroup.model import objects
from podgroup.model.limits import cut
from podgroup.model.names import NAMED_BY_ANNOTATION, POD_GROUP_SETS, ROLE_HASH
from podgroup.model.reasons import infeasible
from podgroup.model.roles import Variant

_EMPTY = Raw(b"null")
_NO_CLAIMS = (b"null", b"[]")
_NOTHING = Declared((), "")
_PASSING = ("", "ContainerCreating", "PodInitializing")
"""What containers of any pod wait for while it is started."""
_OF_IMAGES = (
    objects.BACK_OFF_PULLING,
    objects.PULL_FAILED,
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
"""Reasons of a kubelet that are about the image."""


class _Gate(Wire, frozen=True):
    name: str


class _SchedulingGroup(Wire, frozen=True):
    pod_group_name: str = ""


class _PodSpec(PodSpecWire, frozen=True):
    scheduling_gates: tuple[_Gate, ...] | None = None
    priority: int | None = None
    priority_class_name: str = ""
    node_selector: dict[str, str] | None = None
    resource_claims: Raw = _EMPTY
    tolerations: Raw = _EMPTY
    affinity: Raw = _EMPTY
    scheduler_name: str = ""
    scheduling_group: _SchedulingGroup | None = None
    node_name: str = ""
    termination_grace_period_seconds: int | None = None


class _Terminated(Wire, frozen=True):
    exit_code: int = 0
    reason: str = ""
    finished_at: datetime | None = None


class _Waiting(Wire, frozen=True):
    reason: str = ""
    message: str = ""


class _ContainerState(Wire, frozen=True):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(Wire, frozen=True):
    name: str = ""
    image: str = ""
    state: _ContainerState | None = None
    last_state: _ContainerState | None = None
    restart_count: int = 0
    allocated_resources: Raw = _EMPTY
    resources: Raw = _EMPTY


class _Present(Wire, frozen=True):
    requests: Raw = _EMPTY


class _ClaimStatus(Wire, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class _PodStatus(Wire, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    qos_class: str = ""
    start_time: datetime | None = None
    conditions: tuple[ConditionWire, ...] | None = None
    allocated_resources: Raw = _EMPTY
    resources: _Present | None = None
    init_container_statuses: tuple[_ContainerStatus, ...] | None = None
    container_statuses: tuple[_ContainerStatus, ...] | None = None
    resource_claim_statuses: tuple[_ClaimStatus, ...] | None = None


class PodWire(ObjectWire, frozen=True):
    """core/v1 Pod, as far as a view needs it."""

    metadata: ManagedMetaWire = ManagedMetaWire()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _BoundSpec(PodSpecWire, frozen=True):
    node_name: str = ""


class BoundPodWire(ObjectWire, frozen=True):
    """core/v1 Pod, with the fields that show what it takes of its node."""

    spec: _BoundSpec = _BoundSpec()
    status: _PodStatus = _PodStatus()


def pod_view(
    wire: PodWire,
    raw: bytes,
    variant: Variant,
    annotated_names: bool = True,
    copied: Container[str] = (),
) -> objects.PodView:
    """Return the view of a pod, decoded as `wire` from `raw`: the pod, or a watch line around it.

    `raw` is read again only to compute a role by `variant`. `copied`: annotations that go along.

    Raises:
        RefusedError: a field cannot be taken.
    """
    meta, spec, status = wire.metadata, wire.spec, wire.status
    ours, unread = _annotations(meta, copied, annotated_names)
    declared = _declared(ours.pop(POD_GROUP_SETS, None), variant)
    annotated, (manager, written_at) = ours.get(ROLE_HASH), writer(meta)
    view = objects.PodView(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        created_at=meta.created_at,
        deleted_at=meta.deletion_timestamp,
        grace_s=meta.deletion_grace_period_seconds,
        termination_grace_s=_grace(spec.termination_grace_period_seconds),
        labels=meta.labels or {},
        annotations=ours,
        finalizers=meta.finalizers or (),
        owners=owners(meta.owner_references),
        gates=tuple([gate.name for gate in spec.scheduling_gates or ()]),
        writer=manager,
        written_at=written_at,
        role=computed_role(raw, variant) if annotated is None else annotated,
        role_annotated=annotated is not None,
        requests=requests_of(spec, granted=granted(status)),
        qos=status.qos_class,
        priority=spec.priority,
        priority_class=spec.priority_class_name,
        node_selector=spec.node_selector or {},
        tolerations=tolerations_of(bytes(spec.tolerations)),
        node_terms=node_terms_of(bytes(spec.affinity)),
        scheduler=spec.scheduler_name,
        node=spec.node_name,
        phase=status.phase,
        reason=status.reason,
        message=cut(status.message),
        started_at=status.start_time,
        conditions=conditions(status.conditions),
        ends=_ends(status),
        waiting=_waiting(status),
        sets=declared.sets,
        sets_key=declared.key,
        sets_problem=declared.problem,
        unread=unread,
        devices=bytes(spec.resource_claims) not in _NO_CLAIMS,
        scheduling_group=spec.scheduling_group.pod_group_name if spec.scheduling_group else "",
    )
    return fitting(_claiming(view, spec, status) if view.devices else view)


def _claiming(view: objects.PodView, spec: _PodSpec, status: _PodStatus) -> objects.PodView:
    """Return the view of a pod with the ResourceClaims that it names, and those made for it."""
    claims = claims_of(bytes(spec.resource_claims))
    names = {one.name for one in claims if one.template}
    made = [(one.name, one.resource_claim_name) for one in status.resource_claim_statuses or ()]
    generated = tuple([(name, claim) for name, claim in made if claim and name in names])
    return msgspec.structs.replace(view, resource_claims=claims, generated_claims=generated)


def _declared(text: str | None, variant: Variant) -> Declared:
    return _NOTHING if text is None else parse_sets(text, variant)


def _annotations(
    meta: ManagedMetaWire, copied: Container[str], annotated_names: bool
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the annotations that are kept, and which could not be read.

    Without `annotated_names` none can name a group or a prebuilt Workload: those stay out, so that
    no later code has to know.
    """
    ours, unread = annotations(meta.annotations, copied)
    if not annotated_names:
        for key in NAMED_BY_ANNOTATION:
            ours.pop(key, None)
    return ours, unread


def granted(status: _PodStatus) -> Granted:
    """The amounts that the kubelet granted: during a resize they differ from the requests."""
    found = [
        (one.name, bytes(one.allocated_resources), bytes(one.resources))
        for statuses in (status.init_container_statuses, status.container_statuses)
        for one in statuses or ()
        if one.allocated_resources != _EMPTY or one.resources != _EMPTY
    ]
    present = status.resources.requests if status.resources is not None else _EMPTY
    whole = tuple([bytes(raw) for raw in (status.allocated_resources, present) if raw != _EMPTY])
    if not found and not whole:
        return NOTHING_GRANTED
    never = any(
        one.type == "PodResizePending" and one.status == "True" and infeasible(one.reason)
        for one in status.conditions or ()
    )
    return Granted(tuple(found), whole, never)


def _grace(seconds: int | None) -> int:
    # As the API server has it: 30 by default, and less than nothing is a second.
    return 30 if seconds is None else min(seconds, 2**31) if seconds >= 0 else 1


def _ends(status: _PodStatus) -> tuple[objects.ContainerEnd, ...]:
    """How containers ended: the present state if terminated, else the state before a restart."""
    ends = []
    for statuses in (status.init_container_statuses, status.container_statuses):
        for container in statuses or ():
            end = (container.state and container.state.terminated) or (
                container.last_state and container.last_state.terminated
            )
            if end:
                ends.append(
                    objects.ContainerEnd(
                        name=container.name,
                        exit_code=end.exit_code,
                        reason=end.reason,
                        finished_at=end.finished_at,
                        restarts=container.restart_count,
                    )
                )
    return tuple(ends)


def _waiting(status: _PodStatus) -> tuple[objects.ContainerWait, ...]:
    """What containers wait for, where it is more than their start; init containers first."""
    found = []
    for init, statuses in (
        (True, status.init_container_statuses),
        (False, status.container_statuses),
    ):
        for container in statuses or ():
            waits = container.state and container.state.waiting
            if waits and waits.reason not in _PASSING:
                found.append(
                    objects.ContainerWait(
                        name=container.name,
                        reason=waits.reason,
                        message=cut(waits.message),
                        image=cut(container.image) if waits.reason in _OF_IMAGES else "",
                        init=init,
                    )
                )
    return tuple(found)
