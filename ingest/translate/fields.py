"""Parts of API objects that several kinds share, as they are on the wire and as views.

The wire Structs name only what a view needs; msgspec skips the rest without building it. A list or
map that is absent, null or empty means the same in the Kubernetes API, hence the `| None`.

Bounds: an annotation of ours takes as many bytes as `podgroup.model.keys` says. A longer annotation
is left out: a cut value would mean something else to the rule that reads it, and the owner must not
be able to make the whole object unreadable. Texts for people are cut at 2,048 characters.

Invariant: only fields named here or in the kind's module get into a view.
"""

from collections.abc import Container, Iterable
from datetime import datetime

from msgspec import Raw, Struct, field

from podgroup.model import objects
from podgroup.model.keys import bound_of, enters_log
from podgroup.model.limits import (
    OBJECT_NAME,
    PERSONS_REASON_CHARS,
    cut,
)
from podgroup.model.names import (
    REASON_ANNOTATION,
    REASON_BY_ANNOTATION,
)

MAX_UNREAD = 8
"""Fields of a pod that are listed as left out."""


class RefusedError(ValueError):
    """A field of an object that cannot be taken; `path` names it as in the API's documentation."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class Wire(Struct, frozen=True, gc=False, rename="camel"):
    """Base of wire shapes: field names as the API spells them."""


class OwnedSpec(Struct, frozen=True, gc=False):
    """As much of `f:spec` in a managedFields entry as tells a pod's creator from later writers."""

    containers: Raw = field(name="f:containers", default=Raw())


class OwnedFields(Struct, frozen=True, gc=False):
    """As much of `fieldsV1` as `writer` looks at."""

    spec: OwnedSpec | None = field(name="f:spec", default=None)


class ManagedEntry(Wire, frozen=True):
    """An entry of metadata.managedFields."""

    manager: str = ""
    time: datetime | None = None
    subresource: str = ""
    owned: OwnedFields | None = field(name="fieldsV1", default=None)

    @property
    def creator(self) -> bool:
        """The manager owns the containers of a pod, which only a creation can set."""
        return bool(self.owned and self.owned.spec and bytes(self.owned.spec.containers))


class OwnerWire(Wire, frozen=True):
    """An entry of metadata.ownerReferences."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None


class MetaWire(Wire, frozen=True):
    """metadata. Everything has a default, so that a bookmark, which has next to none, decodes."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[OwnerWire, ...] | None = None

    @property
    def created_at(self) -> datetime:
        """Return creationTimestamp.

        Raises:
            RefusedError: the field is missing; every stored object has it.
        """
        if self.creation_timestamp is None:
            raise RefusedError("metadata.creationTimestamp", "is missing")
        return self.creation_timestamp


class ObjectWire(Wire, frozen=True):
    """The common base of the wire shapes of all kinds."""

    metadata: MetaWire = MetaWire()


class ManagedMetaWire(MetaWire, frozen=True):
    """metadata with managedFields, for kinds whose last writer matters."""

    managed_fields: tuple[ManagedEntry, ...] | None = None


class TolerationWire(Wire, frozen=True):
    """core/v1 Toleration; a taint has the same fields less two."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class ConditionWire(Wire, frozen=True):
    """A status condition, of a pod or metav1.Condition."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class RequirementWire(Wire, frozen=True):
    """An expression of a label selector or node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


def annotations(
    found: dict[str, str] | None, more: Container[str] = ()
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the annotations that gatelog reads, and notes on those left out.

    Annotations are read that enter the log (`podgroup.model.keys`), and keys in `more`.
    """
    if not found:
        return {}, ()
    ours = {key: text for key, text in found.items() if enters_log(key) or key in more}
    left_out = []
    for key, text in [*ours.items()]:
        bound = bound_of(key)
        # A character takes up to 4 bytes: count bytes only where that could matter.
        if len(text) * 4 > bound and (size := len(text.encode())) > bound:
            del ours[key]
            said = f"is {size} bytes long, gatelog takes at most {bound}: shorten it"
            left_out.append(f"metadata.annotations[{key[:OBJECT_NAME]}] {said}")
    return ours, tuple(left_out[:MAX_UNREAD])


def because(found: dict[str, str] | None) -> str:
    """Return why a person stopped or resumed an object, and the person; "" without such
    annotations.
    """
    marks = found or {}
    reason, by = marks.get(REASON_ANNOTATION, ""), marks.get(REASON_BY_ANNOTATION, "")
    text = f"{reason} ({by})" if reason and by else reason
    return text[:PERSONS_REASON_CHARS]


def owners(found: Iterable[OwnerWire] | None) -> tuple[objects.OwnerRef, ...]:
    """Return ownerReferences as views."""
    return tuple(
        objects.OwnerRef(
            kind=o.kind,
            name=o.name,
            uid=o.uid,
            api_version=o.api_version,
            controller=bool(o.controller),
        )
        for o in found or ()
    )


def tolerations(found: Iterable[TolerationWire] | None) -> tuple[objects.Toleration, ...]:
    """Return tolerations (or taints) as views."""
    return tuple(
        objects.Toleration(
            key=t.key,
            operator=t.operator,
            value=t.value,
            effect=t.effect,
            seconds=t.toleration_seconds,
        )
        for t in found or ()
    )


def conditions(found: Iterable[ConditionWire] | None) -> tuple[objects.Condition, ...]:
    """Return conditions as views, in the API's order."""
    return tuple(
        objects.Condition(
            type=c.type,
            status=c.status,
            reason=c.reason,
            message=cut(c.message),
            at=c.last_transition_time,
        )
        for c in found or ()
    )


def requirements(found: Iterable[RequirementWire] | None) -> tuple[objects.Requirement, ...]:
    """Return selector expressions as views."""
    return tuple(
        objects.Requirement(key=r.key, operator=r.operator, values=r.values or ())
        for r in found or ()
    )


def writer(meta: ManagedMetaWire) -> tuple[str, datetime | None]:
    """Return manager and time of the newest write to the object itself, "" when no entry tells.

    Entries of subresources (status writes of kubelet and kube-scheduler, mostly) do not count; a
    binding leaves no entry at all. The newest time wins. Times have whole seconds, so a pod created
    and ungated within one second has a tie: then the manager that did not create the pod wrote
    later, and after that the later entry in the list.

    Assumption to know about: the API server notes a manager when it *takes* fields. A writer that
    only removes (a gate, a finalizer) leaves no trace and updates no time stamp, so the answer is
    then the previous writer, with the old time: a consumer compares both with the previous view.
    One case can be recognised without history: the spec has changed since creation (generation
    above 1), and there is no write after the creator's second.
    """
    newest: ManagedEntry | None = None
    for entry in meta.managed_fields or ():
        if entry.subresource or entry.time is None:
            continue
        if newest is None or newest.time is None or _later(entry, entry.time, newest, newest.time):
            newest = entry
    if newest is None:
        return "", None
    if newest.creator and meta.generation > 1 and newest.time == meta.creation_timestamp:
        return "", None
    return newest.manager, newest.time


def _later(entry: ManagedEntry, at: datetime, than: ManagedEntry, than_at: datetime) -> bool:
    return at > than_at or (at == than_at and (than.creator or not entry.creator))
