"""Mutation: the fields that a pod gets so that it waits for its queue.

A pod that is to be queued gets the label that says so, a finalizer so that its end is seen, the
scheduling gate that holds it, and the hash that names its role (KEP-976, "Gating Pod Scheduling").
Where its owner's pods make up a group, the pod becomes a member (`owned`). The answer is a JSON
patch (RFC 6902) against the object in the request.

Mutation only adds, but for managedFields, which a setting takes off (`WebhookPolicy.untracked`): a
queue, a priority class, a gate or a role hash of the user stays. Never touched: node selector,
tolerations, resources, owner references, a group name and its counts; validation judges bad group
metadata.

Invariant: idempotent. Applied to its own result, `mutate` yields an empty patch.
"""

from enum import Enum
from typing import Any

import msgspec

from ingest.webhook.facts import Facts
from ingest.webhook.fields import FieldError, forbidden, invalid
from ingest.webhook.owned import member
from ingest.webhook.pod import Pod
from ingest.webhook.policy import WebhookPolicy
from podgroup.model import names
from podgroup.model.roles import ShapeError, role_hash


class Disposition(Enum):
    """The outcome for a pod, for counters and logs."""

    GATED = "gated"
    NAMESPACE_EXCLUDED = "namespace_excluded"
    OWNER_QUEUED = "owner_queued"
    NO_QUEUE = "no_queue"
    MIRROR = "mirror"
    REFUSED = "refused"


class PatchOp(msgspec.Struct, frozen=True):
    """One operation of a JSON patch: ``add``, or ``remove`` with a `value` of None."""

    path: str
    value: Any
    op: str = "add"


class MutateResult(msgspec.Struct, frozen=True):
    """The answer about one pod: a patch, or errors when it is refused."""

    disposition: Disposition
    patch: tuple[PatchOp, ...] = ()
    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether the pod may be created."""
        return not self.errors


def mutate(pod: Pod, policy: WebhookPolicy, facts: Facts) -> MutateResult:
    """Decides what to add to a pod that is being created.

    Gate, label and finalizer come together or not at all: a pod with the gate alone is unseen and
    waits for ever. So a pod that bears the gate itself, or is to wait for a parent, is treated like
    a pod that names a queue, and its group reports what it lacks. The facts are decided on in this
    order: the namespace, the owners, the queue. Refused are only pods that must be queued and
    cannot be gated, since they name a node already, and pods whose shape cannot be hashed.
    """
    if facts.mirror:
        return MutateResult(Disposition.MIRROR)
    if not facts.namespace_selected:
        return MutateResult(Disposition.NAMESPACE_EXCLUDED)
    if facts.managed_ancestor:
        return MutateResult(Disposition.OWNER_QUEUED)
    defaulted = not pod.queue and facts.has_default_queue
    if not (pod.queue or pod.to_wait or defaulted or policy.manage_jobs_without_queue_name):
        return MutateResult(Disposition.NO_QUEUE)
    if pod.spec.node_name and names.ADMISSION_GATE not in pod.gates:
        return _bound(pod, policy.default_queue_name if defaulted else pod.queue)
    labels = {}
    if defaulted:
        labels[names.QUEUE_NAME] = policy.default_queue_name
    if facts.has_default_priority_class and names.PRIORITY_CLASS not in pod.labels:
        labels[names.PRIORITY_CLASS] = policy.default_priority_class
    labels[names.MANAGED_LABEL] = names.MANAGED_VALUE
    return _inject(pod, policy, labels)


def _bound(pod: Pod, queue: str) -> MutateResult:
    """A pod with a node cannot be gated (the API server refuses both); say so in plain words."""
    where = f"in queue {queue!r}" if queue else "for a queue, as every pod of its namespace does"
    if not queue and pod.has_parent:
        where = f"for its parent (annotation {names.SUSPENDING_PARENT})"
    detail = f"names a node, so it cannot wait {where}: use spec.nodeSelector instead"
    if pod.queue:
        detail += f", or remove the label {names.QUEUE_NAME}"
    return MutateResult(Disposition.REFUSED, errors=(forbidden("spec.nodeName", detail),))


def _inject(pod: Pod, policy: WebhookPolicy, labels: dict[str, str]) -> MutateResult:
    try:
        annotations = _role_annotation(pod, policy)
    except ShapeError as error:
        path, _, detail = str(error).partition(": ")
        return MutateResult(Disposition.REFUSED, errors=(invalid(path, "", detail),))
    found = member(pod, policy.owned_kinds)
    if found is not None:
        labels, annotations = labels | found.labels, annotations | found.annotations
    gates = [names.ADMISSION_GATE]
    if policy.topology_gate:
        gates.append(names.TOPOLOGY_GATE)
    index_label = pod.annotations.get(names.POD_INDEX_LABEL)
    if index_label is not None:
        labels = {**labels, names.POD_INDEX: pod.labels.get(index_label, "")}
    meta, spec = pod.metadata, pod.spec
    patch = (
        *add_entries("/metadata/labels", meta.labels, labels),
        *add_entries("/metadata/annotations", meta.annotations, annotations),
        *_append(
            "/metadata/finalizers",
            meta.finalizers,
            _missing(meta.finalizers, [names.POD_FINALIZER]),
        ),
        *_append(
            "/spec/schedulingGates",
            spec.scheduling_gates,
            [{"name": gate} for gate in _missing(list(pod.gates), gates)],
        ),
        *_untracked(pod, policy),
    )
    return MutateResult(Disposition.GATED, patch)


def _untracked(pod: Pod, policy: WebhookPolicy) -> tuple[PatchOp, ...]:
    """Have the server work out field owners no more, unless the pod was applied server-side."""
    entries = pod.raw["metadata"].get("managedFields") if policy.untracked else None
    if not entries or entries[0].get("operation") != "Update":  # applies are listed first
        return ()
    return (PatchOp("/metadata/managedFields", None, "remove"),)


def _role_annotation(pod: Pod, policy: WebhookPolicy) -> dict[str, str]:
    if names.ROLE_HASH in pod.annotations:
        return {}
    return {names.ROLE_HASH: role_hash(pod.raw, policy.role_hash)}


def _missing(present: list[str] | None, wanted: list[str]) -> list[str]:
    return [item for item in wanted if item not in (present or ())]


def add_entries(
    path: str, present: dict[str, str] | None, wanted: dict[str, str]
) -> tuple[PatchOp, ...]:
    """Operations that put entries into a map of texts, which may not be there yet."""
    changed = {k: v for k, v in wanted.items() if (present or {}).get(k) != v}
    if not changed:
        return ()
    if present is None:
        return (PatchOp(path, changed),)
    return tuple(PatchOp(f"{path}/{_escape(key)}", value) for key, value in changed.items())


def _append(path: str, present: list[Any] | None, items: list[Any]) -> tuple[PatchOp, ...]:
    if not items:
        return ()
    if present is None:
        return (PatchOp(path, items),)
    return tuple(PatchOp(f"{path}/-", item) for item in items)


def _escape(key: str) -> str:
    """A JSON pointer token (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
