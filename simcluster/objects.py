"""Objects as values: metadata the server owns, and the view one API version has of a stored object.

Theory: a write is built from the stored object's view in the version of the request; fields the
server owns (uid, timestamps, generation, managedFields) always come from the stored object.

Invariant: ``kind``, ``apiVersion`` and ``metadata`` are the first keys of every stored object, so
that encodings can be re-headed for lists and other versions without encoding again.
"""

import os
import time
from typing import Any

import msgspec

from simcluster import events
from simcluster.errors import Obj
from simcluster.resources import Route
from simcluster.store import Rec

OWNED = (
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
)
_KNOWN = frozenset(
    {
        *OWNED,
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
    }
)
_EMPTY: tuple[object, ...] = (None, "", {}, [])
_encode = msgspec.json.Encoder().encode


class Clock:
    """Wall time in the API's form; the text of a second is made once."""

    def __init__(self) -> None:
        self._second = 0
        self._text = ""

    def now(self, plus_s: int = 0) -> str:
        """RFC 3339 in whole seconds, UTC."""
        second = int(time.time()) + plus_s
        if plus_s:
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
        return self._text


def new_uid() -> str:
    """A random uid (RFC 9562, version 4)."""
    hexes = os.urandom(16).hex()
    variant = "89ab"[int(hexes[16], 16) & 3]
    return f"{hexes[:8]}-{hexes[8:12]}-4{hexes[13:16]}-{variant}{hexes[17:20]}-{hexes[20:]}"


def cleaned(meta: Obj, clean: Obj | None = None) -> Obj:
    """Metadata without unknown and empty fields, as the typed API keeps it.

    ``clean``: metadata from an earlier call; a part that is the same object there stays.
    """
    found = {k: v for k, v in meta.items() if k in _KNOWN and (v or v not in _EMPTY)}
    finalizers = found.get("finalizers")
    if finalizers and len(set(finalizers)) != len(finalizers):
        found["finalizers"] = list(dict.fromkeys(finalizers))
    owners = found.get("ownerReferences")
    if not owners or (clean is not None and owners is clean.get("ownerReferences")):
        return found
    if len({o.get("uid") for o in owners if isinstance(o, dict)}) != len(owners):
        found["ownerReferences"] = list({_encode(o): o for o in owners}.values())
    return found


def headed(obj: Obj, kind: str, api_version: str) -> Obj:
    """The object with ``kind``, ``apiVersion``, ``metadata`` first, and as given."""
    found: Obj = {"kind": kind, "apiVersion": api_version, "metadata": obj.get("metadata") or {}}
    for key, value in obj.items():
        if key not in found:
            found[key] = value
    return found


def view(route: Route, obj: Obj) -> Obj:
    """A stored object as this route shows it."""
    if not route.foreign:
        return obj
    if route.resource.plural == "events" and route.group:
        return events.to_new(obj)
    return {**obj, "apiVersion": route.api_version}


def stored(route: Route, obj: Obj) -> Obj:
    """An object of this route as it is stored."""
    if route.resource.plural == "events":
        return events.to_core(obj) if route.group else events.full(obj)
    if not route.foreign:
        return obj
    return {**obj, "apiVersion": route.resource.api_version()}


def _head(kind: str, api_version: str) -> bytes:
    return f'{{"kind":"{kind}","apiVersion":"{api_version}",'.encode()


def encoded(route: Route, rec: Rec) -> bytes:
    """A stored object as JSON on this route."""
    if not route.foreign:
        return rec.raw()
    if route.resource.plural == "events":
        return _encode(events.to_new(rec.obj))
    raw, resource = rec.raw(), route.resource
    old = _head(resource.kind, resource.api_version())
    return _head(resource.kind, route.api_version) + raw[len(old) :]


def item(route: Route, rec: Rec) -> bytes:
    """A stored object as an item of a list: built-in kinds leave out kind and apiVersion."""
    raw = encoded(route, rec)
    resource = route.resource
    if resource.custom:
        return raw
    head = _head(resource.kind, route.api_version)
    return b"{" + raw[len(head) :] if raw.startswith(head) else raw


def partial(rec: Rec) -> Obj:
    """Only the metadata (``PartialObjectMetadata``)."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": rec.obj["metadata"],
    }


def decode(body: bytes) -> Any:
    """JSON to Python. Raises ``msgspec.DecodeError``."""
    return msgspec.json.decode(body)
