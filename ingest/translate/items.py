"""Watch lines and list pages become deltas; unreadable input becomes a value that says so.

A watch line is `{"type": ..., "object": ...}`. The fast way decodes it in one pass into the kind's
wire shape. A line that does not fit goes the slow way, which finds out the kind of line: an ERROR
item (its object is a metav1.Status), a bookmark, an object with a field that cannot be taken
(refused, with identity and the field's path), or no JSON at all (the connection was cut in the
middle of a line, which is the caller's business).

A deletion is never refused: an object that was taken while it was readable must be able to leave.
Its last state is then its identity alone.

Invariant: the functions here do not raise for content, and every readable identity gives exactly
one event.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from ingest.translate.fields import MetaWire, ObjectWire, RefusedError, Wire
from ingest.translate.times import bounded
from podgroup.log.events import DeltaRefused, Event
from podgroup.model.names import group_name
from podgroup.model.objects import Kind

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial events of a WatchList (KEP-3157)."""

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


class Delta(Struct, frozen=True, gc=False):
    """One object changed: the event that says so, and the version up to which it brings us."""

    event: Event
    version: str


class Bookmark(Struct, frozen=True, gc=False):
    """Nothing else happened up to `version`; `initial_end` closes the initial events."""

    version: str
    initial_end: bool = False


class ErrorItem(Struct, frozen=True, gc=False):
    """An ERROR item of a watch: a metav1.Status."""

    code: int
    reason: str
    message: str


class Garbled(Struct, frozen=True, gc=False):
    """A line that is no watch item: most likely a cut line."""

    message: str


Item = Delta | Bookmark | ErrorItem | Garbled


class Page(Struct, frozen=True):
    """One page of a LIST: its position, how to go on ("" at the end), its objects as bytes."""

    version: str
    token: str
    items: tuple[Raw, ...]


W = TypeVar("W", bound=ObjectWire)


class _Line(Struct, Generic[W], gc=False):
    type: str
    object: W


class _LooseLine(Struct, gc=False):
    type: str = ""
    object: Raw = Raw(b"{}")


class _StatusObject(Wire, frozen=True):
    code: int = 0
    reason: str = ""
    message: str = ""


class _LooseMeta(Wire, frozen=True):
    uid: Any = ""
    namespace: Any = ""
    name: Any = ""
    resource_version: Any = ""
    creation_timestamp: Any = None
    labels: Any = None
    annotations: Any = None


class _LooseObject(Wire, frozen=True):
    metadata: _LooseMeta = _LooseMeta()


class _ListMeta(Wire, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(Wire, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[Raw, ...] | None = None


class Identity(Struct, frozen=True, gc=False):
    """The identity of an object, as far as it can be read."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    version: str = ""
    group: str = ""
    created_at: datetime = _NEVER


_loose_lines = msgspec.json.Decoder(_LooseLine)
_loose_objects = msgspec.json.Decoder(_LooseObject)
_statuses = msgspec.json.Decoder(_StatusObject)
_lists = msgspec.json.Decoder(_List)


def read_page(body: bytes) -> Page:
    """Return the page in `body`.

    Raises:
        msgspec.MsgspecError: the body is no Kubernetes list; ask again.
    """
    found = _lists.decode(body)
    return Page(found.metadata.resource_version, found.metadata.continue_, found.items or ())


def read_status(body: bytes) -> ErrorItem:
    """Return the metav1.Status in an error answer; other bodies (proxies) become its message."""
    try:
        status = _statuses.decode(body)
    except msgspec.MsgspecError:
        return ErrorItem(0, "", body[:200].decode(errors="replace").strip())
    return ErrorItem(status.code, status.reason, status.message)


class Translator(Generic[W]):
    """How one kind is read. The four functions are pure and may raise for content."""

    def __init__(
        self,
        kind: Kind,
        wire: type[W],
        applied: Callable[[W, bytes, str], Event],
        deleted: Callable[[W, bytes], Event],
        deleted_unread: Callable[[Identity], Event],
    ) -> None:
        self.kind = kind
        self._applied = applied
        self._deleted = deleted
        self._deleted_unread = deleted_unread
        self._lines: msgspec.json.Decoder[_Line[W]] = msgspec.json.Decoder(_Line[wire])  # type: ignore[valid-type]  # the shape is a value here
        self._objects: msgspec.json.Decoder[W] = msgspec.json.Decoder(wire)

    def item(self, line: bytes, relist: str = "") -> Item:
        """Return what a line of a watch says; `relist` names the frame it belongs to, if any."""
        try:
            return self._item(line, relist)
        except Exception as error:
            # An error in one object must not stop the others.
            return self._slowly(line, error, relist)

    def _item(self, line: bytes, relist: str) -> Item:
        found = self._lines.decode(line)
        match found.type:
            case "ADDED" | "MODIFIED":
                return self._delta(found.object, line, relist)
            case "DELETED":
                version = _identified(found.object.metadata)
                return Delta(self._deleted(found.object, line), version)
            case "BOOKMARK":
                marks = found.object.metadata.annotations or {}
                return Bookmark(found.object.metadata.resource_version, INITIAL_EVENTS_END in marks)
            case _:
                raise RefusedError("", f"type {found.type!r} is unknown")

    def listed(self, raw: bytes, relist: str) -> Event:
        """Return the event for one object of a list page."""
        try:
            return self._delta(self._objects.decode(raw), raw, relist).event
        except Exception as error:
            # As above: the page goes on without this object.
            if (mended := bounded(raw)) is not None:
                return self.listed(mended, relist)
            return self._refused(_identity(raw), error)

    def _delta(self, found: W, raw: bytes, relist: str) -> Delta:
        version = _identified(found.metadata)
        return Delta(self._applied(found, raw, relist), version)

    def _slowly(self, line: bytes, error: Exception, relist: str) -> Item:
        if (mended := bounded(line)) is not None:
            return self.item(mended, relist)
        try:
            loose = _loose_lines.decode(line)
        except msgspec.MsgspecError as garbled:
            return Garbled(f"{garbled} in {line[:80]!r}...")
        if loose.type == "ERROR":
            return read_status(bytes(loose.object))
        identity = _identity(bytes(loose.object))
        if not (identity.uid and identity.version):
            return Garbled(f"{loose.type or 'item'} without uid or resourceVersion: {error}")
        if loose.type == "DELETED":
            return Delta(self._deleted_unread(identity), identity.version)
        return Delta(self._refused(identity, error), identity.version)

    def _refused(self, identity: Identity, error: Exception) -> DeltaRefused:
        path, message = _where(error)
        return DeltaRefused(
            kind=self.kind,
            namespace=identity.namespace,
            name=identity.name,
            uid=identity.uid,
            resource_version=identity.version,
            field=path,
            message=message,
            group=identity.group,
        )


def _identified(meta: MetaWire) -> str:
    if not meta.uid:
        raise RefusedError("metadata.uid", "is missing")
    if not meta.resource_version:
        raise RefusedError("metadata.resourceVersion", "is missing")
    return meta.resource_version


def _where(error: Exception) -> tuple[str, str]:
    """The field's path and the message. msgspec ends its messages with "- at `$.path`"."""
    if isinstance(error, RefusedError):
        return error.path, str(error)
    message, _, path = str(error).partition(" - at `$")
    if isinstance(error, msgspec.ValidationError):
        return path.rstrip("`").lstrip(".").removeprefix("object."), message
    return "", f"{type(error).__name__}: {error}"[:500]


def _identity(raw: bytes) -> Identity:
    try:
        meta = _loose_objects.decode(raw).metadata
    except msgspec.MsgspecError:
        return Identity()
    return Identity(
        uid=_text(meta.uid),
        namespace=_text(meta.namespace),
        name=_text(meta.name),
        version=_text(meta.resource_version),
        group=group_name(_texts(meta.labels), _texts(meta.annotations)),
        created_at=_time(meta.creation_timestamp),
    )


def _text(found: Any) -> str:
    return found[:253] if isinstance(found, str) else ""


def _texts(found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        return {}
    return {key: _text(text) for key, text in found.items() if isinstance(text, str)}


def _time(found: Any) -> datetime:
    try:
        return msgspec.convert(found, datetime)
    except msgspec.ValidationError:
        return _NEVER
