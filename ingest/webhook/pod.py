"""The pod as the webhook sees it: the few fields it decides on, checked once.

Requests come over the network, so nothing is taken for granted: a pod whose labels are no map
of texts is refused here, once, and everything behind works on typed values.

Invariant: ``labels``, ``annotations``, ``finalizers`` and ``gates`` are never None; whether the
field was there at all is kept, because a JSON patch needs to know (`Metadata.raw_*`).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from podgroup.model import names


class PodError(ValueError):
    """The object in a review is no pod; the message names the field."""


class OwnerRef(msgspec.Struct, frozen=True, rename="camel"):
    """An entry of metadata.ownerReferences."""

    kind: str
    name: str
    uid: str
    api_version: str
    controller: bool | None = None

    @property
    def group(self) -> str:
        """API group without the version; ``""`` for core."""
        return self.api_version.rpartition("/")[0]


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod's metadata that the webhook reads."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerRef] | None = None
    deletion_timestamp: str | None = None


class Gate(msgspec.Struct, frozen=True):
    """An entry of spec.schedulingGates."""

    name: str


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a pod's spec that the webhook reads itself."""

    node_name: str = ""
    scheduling_gates: list[Gate] | None = None


class Status(msgspec.Struct, frozen=True):
    """The part of a pod's status that the webhook reads."""

    phase: str = ""


class Pod(msgspec.Struct, frozen=True):
    """A pod, typed; ``raw`` is the object it was read from (for the role hash)."""

    metadata: Metadata
    spec: Spec
    status: Status
    raw: Mapping[str, Any]

    @property
    def labels(self) -> dict[str, str]:
        """Labels, empty when there are none."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations, empty when there are none."""
        return self.metadata.annotations or {}

    @property
    def gates(self) -> tuple[str, ...]:
        """Names of the scheduling gates, in order."""
        return tuple(gate.name for gate in self.spec.scheduling_gates or ())

    @property
    def queue(self) -> str:
        """The queue the pod names, ``""`` for none."""
        return self.labels.get(names.QUEUE_NAME, "")

    @property
    def group(self) -> str:
        """The group the pod belongs to, ``""`` for a single pod."""
        return names.group_name(self.labels, self.annotations)

    @property
    def controller(self) -> OwnerRef | None:
        """The owner that manages the pod, if any."""
        return next((o for o in self.metadata.owner_references or () if o.controller), None)

    @property
    def finalizers(self) -> tuple[str, ...]:
        """Finalizers, in order."""
        return tuple(self.metadata.finalizers or ())

    @property
    def ended(self) -> bool:
        """All its containers have ended for good."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def suspended(self) -> bool:
        """Not running by queueing's measure: our gate is on, or the pod has ended."""
        return names.ADMISSION_GATE in self.gates or self.ended

    @property
    def has_parent(self) -> bool:
        """Gated on behalf of a parent; any value of the annotation counts, even an empty one."""
        return names.SUSPENDING_PARENT in self.annotations

    @property
    def to_wait(self) -> bool:
        """It asks for our gate itself, whatever its labels: it bears the gate, or has a parent."""
        return self.has_parent or names.ADMISSION_GATE in self.gates

    def title(self) -> str:
        """Namespace, name and group for messages, e.g. ``pod ns/p0, group g``."""
        meta = self.metadata
        name = meta.name or f"{meta.generate_name}*"
        group = f", group {self.group}" if self.group else ""
        return f"pod {meta.namespace}/{name}{group}"


def read_pod(raw: Any, *, namespace: str = "", annotated_names: bool = True) -> Pod:
    """Reads a Pod object; ``namespace`` fills in for an object that does not carry its own.

    Without `annotated_names` annotations that name a group or a prebuilt Workload are not seen.

    Raises:
        PodError: the object is no pod, or a field read here has the wrong type.
    """
    if not isinstance(raw, dict):
        raise PodError("the object under review must be a Pod, written as a JSON object")
    try:
        metadata = msgspec.convert(raw.get("metadata"), Metadata | None) or Metadata()
        spec = msgspec.convert(raw.get("spec"), Spec | None) or Spec()
        status = msgspec.convert(raw.get("status"), Status | None) or Status()
    except msgspec.ValidationError as error:
        raise PodError(f"the object under review is not a valid Pod: {error}") from None
    if not metadata.namespace and namespace:
        metadata = msgspec.structs.replace(metadata, namespace=namespace)
    if not annotated_names and metadata.annotations:
        seen = {k: v for k, v in metadata.annotations.items() if k not in names.NAMED_BY_ANNOTATION}
        metadata = msgspec.structs.replace(metadata, annotations=seen)
    return Pod(metadata, spec, status, raw)
