"""Stored objects, one global version counter, and the history that watches read.

Theory: an object is an immutable value; a write puts a new value in its place, takes the next
version and appends one ``Change`` to its table's bounded history. Lists at an older version are
the present undone change by change, so paging needs no copy of the store.

Invariant: versions strictly grow; a table's history holds every change with a version above its
``compacted``; a ``Change`` is encoded at most once per API version, however many streams watch it.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from simcluster.errors import Obj, not_stored
from simcluster.resources import Resource

_encode = msgspec.json.Encoder().encode


class Rec:
    """One version of one object, with its encoding once it was needed."""

    __slots__ = ("_raw", "name", "namespace", "obj", "version")

    def __init__(self, obj: Obj, namespace: str, name: str, version: int) -> None:
        self.obj = obj
        self.namespace = namespace
        self.name = name
        self.version = version
        self._raw: bytes | None = None

    @property
    def uid(self) -> str:
        """The object's uid."""
        uid: str = self.obj["metadata"]["uid"]
        return uid

    def raw(self) -> bytes:
        """The object as JSON; ``kind`` and ``apiVersion`` come first."""
        if self._raw is None:
            self._raw = _encode(self.obj)
        return self._raw


class Change:
    """One write: ADDED, MODIFIED or DELETED, with the state before (``None`` for ADDED)."""

    __slots__ = ("lines", "prev", "rec", "type")

    def __init__(self, kind: str, rec: Rec, prev: Rec | None) -> None:
        self.type = kind
        self.rec = rec
        self.prev = prev
        self.lines: dict[tuple[str, str], bytes] = {}

    @property
    def version(self) -> int:
        """The version of the write."""
        return self.rec.version


class Watcher(Protocol):
    """Something that wants every change of a table."""

    namespace: str

    def push(self, change: Change) -> None:
        """Take one change; must not block."""

    def end(self, abrupt: bool = False) -> None:
        """No more will come."""


class Table:
    """All objects of one resource."""

    def __init__(self, resource: Resource, history: int) -> None:
        self.resource = resource
        self.spaces: dict[str, dict[str, Rec]] = {}
        self.history: deque[Change] = deque()
        self.limit = history
        self.compacted = 0
        self.watchers: set[Watcher] = set()
        self.version = 0
        self.defined = 0
        """The version at which the kind got its present schema."""
        self._snapshots: OrderedDict[tuple[int, str], list[Rec]] = OrderedDict()

    def get(self, namespace: str, name: str) -> Rec | None:
        """The present version of an object."""
        space = self.spaces.get(namespace)
        return space.get(name) if space else None

    def iterate(self, namespace: str = "") -> Iterator[Rec]:
        """Objects of a namespace, or of all, in no particular order."""
        if namespace:
            yield from self.spaces.get(namespace, {}).values()
            return
        for space in self.spaces.values():
            yield from space.values()

    def count(self) -> int:
        """Number of objects."""
        return sum(len(space) for space in self.spaces.values())

    def sorted(self, namespace: str, version: int, keep: int) -> list[Rec] | None:
        """Objects in key order as of ``version``; ``None`` if history does not reach back.

        The ``keep`` latest answers are remembered, since each page of a list asks for it.
        """
        key = (version, namespace)
        found = self._snapshots.get(key)
        if found is None and version >= self.version:
            # Writes to other tables moved the counter, this table is unchanged.
            found = self._snapshots.get((self.version, namespace))
        if found is None and version < self.compacted:
            return None
        if found is None:
            found = sorted(self._at(namespace, version), key=lambda r: (r.namespace, r.name))
            if version >= self.version:
                self._snapshots[self.version, namespace] = found
        self._snapshots[key] = found
        self._snapshots.move_to_end(key)
        while len(self._snapshots) > keep:
            self._snapshots.popitem(last=False)
        return found

    def _at(self, namespace: str, version: int) -> list[Rec]:
        if version >= self.version:
            return list(self.iterate(namespace))
        state = {(r.namespace, r.name): r for r in self.iterate(namespace)}
        for change in reversed(self.history):
            if change.version <= version:
                break
            rec = change.rec
            if namespace and rec.namespace != namespace:
                continue
            if change.prev is None:
                state.pop((rec.namespace, rec.name), None)
            else:
                state[rec.namespace, rec.name] = change.prev
        return list(state.values())

    def compact(self) -> None:
        """Forget history and snapshots: older versions are gone from now on."""
        self.history.clear()
        self.compacted = self.version
        self._snapshots.clear()

    def since(self, version: int) -> list[Change]:
        """Changes above a version, oldest first."""
        found: list[Change] = []
        for change in reversed(self.history):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found


Hook = Callable[[Table, Change], None]


class Store:
    """All tables and the version counter."""

    def __init__(self, history: int, max_bytes: int) -> None:
        self.version = 1
        self.max_bytes = max_bytes
        self.history = history
        self.tables: dict[tuple[str, str], Table] = {}
        self.by_uid: dict[str, tuple[Table, Rec]] = {}
        self.per_namespace: dict[str, int] = {}
        self.hooks: list[Hook] = []

    def table(self, resource: Resource) -> Table:
        """The table of a resource, made when first asked for."""
        table = self.tables.get(resource.key)
        if table is None:
            table = self.tables[resource.key] = Table(resource, self.history)
            table.compacted = self.version
            table.version = self.version
        return table

    def put(self, table: Table, obj: Obj, prev: Rec | None) -> Rec:
        """Store a new value of an object (``prev``: the value that it replaces)."""
        self.version += 1
        meta = {**obj["metadata"], "resourceVersion": str(self.version)}
        namespace, name = meta.get("namespace", ""), meta["name"]
        rec = Rec({**obj, "metadata": meta}, namespace, name, self.version)
        if len(rec.raw()) > self.max_bytes:
            self.version -= 1
            raise not_stored(len(rec.raw()))
        table.spaces.setdefault(namespace, {})[name] = rec
        self.by_uid[meta["uid"]] = (table, rec)
        if prev is None and namespace:
            self.per_namespace[namespace] = self.per_namespace.get(namespace, 0) + 1
        self._record(table, Change("MODIFIED" if prev else "ADDED", rec, prev))
        return rec

    def remove(self, table: Table, prev: Rec) -> Rec:
        """Delete an object; the last event carries its last state at the new version."""
        self.version += 1
        meta = {**prev.obj["metadata"], "resourceVersion": str(self.version)}
        rec = Rec({**prev.obj, "metadata": meta}, prev.namespace, prev.name, self.version)
        space = table.spaces[prev.namespace]
        del space[prev.name]
        if not space:
            del table.spaces[prev.namespace]
        self.by_uid.pop(meta["uid"], None)
        if prev.namespace:
            self.per_namespace[prev.namespace] -= 1
        self._record(table, Change("DELETED", rec, prev))
        return rec

    def _record(self, table: Table, change: Change) -> None:
        table.version = change.version
        table.history.append(change)
        if len(table.history) > table.limit:
            table.compacted = table.history.popleft().version
        for watcher in table.watchers:
            if not watcher.namespace or watcher.namespace == change.rec.namespace:
                watcher.push(change)
        for hook in self.hooks:
            hook(table, change)

    def compact(self) -> None:
        """Compact every table."""
        for table in self.tables.values():
            table.compact()
            table.compacted = table.version = max(table.version, self.version)
