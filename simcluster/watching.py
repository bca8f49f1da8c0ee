"""Watches: one stream per request, fed by the store, written in batches.

Theory: the store pushes a change into each stream's queue; in the next turn of the loop the stream
filters, encodes (once per change and version, shared) and writes everything queued in one go. With
a selector an object that stops matching is DELETED with its last matching state, an object that
starts to match is ADDED.

A watch from a version that the store has not reached is silent until then: changes and bookmarks
below the version are not sent, and no error is.

Invariant: items leave a stream in version order, and a bookmark never carries a version above a
change the stream has not sent.
"""

from collections import deque
from collections.abc import Callable, Mapping

import msgspec

from simcluster import objects, selectors
from simcluster.errors import Cause, Obj, invalid, status_failure
from simcluster.lists import too_large, wanted_version
from simcluster.requests import Target, flag
from simcluster.settings import Settings, WatchListMode
from simcluster.store import Change, Rec, Store

_encode = msgspec.json.Encoder().encode
_BATCH = 512


def ignored() -> None:
    """A stream that has no writer yet, or none any more."""


class Stream:
    """One watch: its queue of changes, written by a ``Pump``, which ``wake`` notifies of events."""

    def __init__(
        self,
        target: Target,
        holds: selectors.Predicate | None,
        *,
        bookmarks: bool,
        limit: int,
        after: int = 0,
    ) -> None:
        self.target = target
        self.after = after
        """Nothing up to this version is sent."""
        self.namespace = target.namespace
        self.holds = holds
        self.bookmarks = bookmarks
        self.limit = limit
        self.queue: deque[Change | bytes] = deque()
        self.wake: Callable[[], None] = ignored
        self.ended = False
        self.abrupt = False

    def push(self, change: Change) -> None:
        """Take a change; a reader too slow for the buffer loses its watch, as with the server."""
        if change.version <= self.after:
            return
        if len(self.queue) >= self.limit:
            self.end()
            return
        self.queue.append(change)
        self.wake()

    def end(self, abrupt: bool = False) -> None:
        """Finish after the queued items (``abrupt``: at once, resetting the connection)."""
        self.ended = True
        self.abrupt = abrupt
        self.wake()

    def drain(self) -> list[bytes]:
        """Up to a batch of encoded items; empty when nothing is queued."""
        lines: list[bytes] = []
        queue = self.queue
        while queue and len(lines) < _BATCH:
            item = queue.popleft()
            line = item if isinstance(item, bytes) else self._line(item)
            if line:
                lines.append(line)
        return lines

    def _line(self, change: Change) -> bytes:
        if self.holds is None:
            return self._shared(change)
        now = self.holds(change.rec.obj) and change.type != "DELETED"
        before = change.prev is not None and self.holds(change.prev.obj)
        if now:
            kind = "MODIFIED" if before else "ADDED"
            return self._shared(change) if kind == change.type else self.item(kind, change.rec)
        if before and change.prev is not None:
            return self.item("DELETED", _at_version(change.prev, change.rec))
        return b""

    def _shared(self, change: Change) -> bytes:
        """The change as it is, encoded for the first watch of this version that sends it."""
        key = (self.target.route.group, self.target.route.version)
        line = change.lines.get(key)
        if line is None:
            line = change.lines[key] = self.item(change.type, change.rec)
        return line

    def item(self, kind: str, rec: Rec) -> bytes:
        """One encoded watch item."""
        body = objects.encoded(self.target.route, rec)
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)

    def bookmark(self, version: int, *, initial_end: bool = False) -> bytes:
        """A bookmark as the kind's empty object with a version."""
        route = self.target.route
        resource = route.resource
        meta: Obj = {"resourceVersion": str(version)}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj: Obj = {"kind": resource.kind, "apiVersion": route.api_version, "metadata": meta}
        if resource.plural == "pods":
            obj |= {"spec": {"containers": None}, "status": {}}
        return _encode({"type": "BOOKMARK", "object": obj}) + b"\n"


def _at_version(prev: Rec, now: Rec) -> Rec:
    meta = {**prev.obj["metadata"], "resourceVersion": str(now.version)}
    return Rec({**prev.obj, "metadata": meta}, prev.namespace, prev.name, now.version)


def error_line(code: int, reason: str, message: str) -> bytes:
    """An ERROR item: the last thing a failing watch sends."""
    return _encode({"type": "ERROR", "object": status_failure(code, reason, message)}) + b"\n"


def too_large_line(version: int, current: int) -> bytes:
    """The ERROR item of a list that streams and has waited in vain for a version of the future."""
    return _encode({"type": "ERROR", "object": too_large(version, current).body}) + b"\n"


def open_stream(
    store: Store, target: Target, query: Mapping[str, str], settings: Settings
) -> Stream:
    """Register a watch and queue its initial events. Raises 400, 422, 500 for bad parameters.

    Runs without suspension, so nothing falls between the initial state and the live changes.
    """
    version = wanted_version(query)
    initial = _initial_events(query, settings.watch_list)
    holds = selectors.combined(
        query.get("labelSelector", ""), query.get("fieldSelector", ""), target.plural
    )
    bookmarks = flag(query, "allowWatchBookmarks")
    silent = 0 if initial else version
    stream = Stream(target, holds, bookmarks=bookmarks, limit=settings.watch_buffer, after=silent)
    table = store.table(target.route.resource)
    if initial and version > store.version:
        stream.queue.append(too_large_line(version, store.version))
        stream.ended = True
        return stream
    if initial or (version == 0 and initial is None):
        found = table.sorted(target.namespace, store.version, settings.snapshots) or []
        stream.queue.extend(
            stream.item("ADDED", rec) for rec in found if holds is None or holds(rec.obj)
        )
        said_nothing = initial is None and settings.watch_list is WatchListMode.ON
        if bookmarks and (initial or said_nothing):
            stream.queue.append(stream.bookmark(store.version, initial_end=True))
    elif version and version < table.compacted:
        text = f"too old resource version: {version} ({table.compacted})"
        stream.queue.append(error_line(410, "Expired", text))
        stream.ended = True
        return stream
    elif version:
        stream.queue.extend(
            c
            for c in table.since(version)
            if not target.namespace or c.rec.namespace == target.namespace
        )
    table.watchers.add(stream)
    return stream


def _initial_events(query: Mapping[str, str], mode: WatchListMode) -> bool | None:
    """Whether the client asked for a WatchList; ``None`` without the parameter, or if it is
    ignored.
    """
    if "sendInitialEvents" not in query or mode is WatchListMode.IGNORED:
        return None
    at, text = "sendInitialEvents", ""
    if mode is WatchListMode.FORBIDDEN:
        text = (
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        )
    elif query.get("resourceVersionMatch") != "NotOlderThan":
        at = "resourceVersionMatch"
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    if text:
        raise invalid("ListOptions", "meta.k8s.io", "", [Cause.forbidden(at, text)])
    return flag(query, "sendInitialEvents")
