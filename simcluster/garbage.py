"""The garbage collector: objects go when all their owners are gone.

Theory: an index from owner uid to dependents is kept by a store hook; an object is looked at when
an owner disappears or when it appears with an owner that does not exist. Looking means: all owners
absent, delete in the background; some absent, drop those references; else leave alone. Orphan and
foreground deletion are finalizers this controller answers.

The real one has twenty requests a second for the whole cluster (``--kube-api-qps``), so of an
object with a hundred owners that go one after the other it drops many references at once. Here such
an object is looked at a little later, which comes to the same.

Invariant: nothing is deleted while one of its owners exists under the uid, kind and name it names.
"""

import asyncio

from simcluster.access import User
from simcluster.deletion import FOREGROUND, ORPHAN, DeleteOptions, Deletions
from simcluster.errors import Obj
from simcluster.requests import Options, Target
from simcluster.resources import Route
from simcluster.store import Change, Rec, Store, Table
from simcluster.workqueue import WorkQueue
from simcluster.writes import Writes

MANAGER = "kube-controller-manager"
USER = User(name="system:serviceaccount:kube-system:generic-garbage-collector")
GATHER_S = 0.05
"""Seconds until an object that loses one of several owners is looked at."""


class GarbageCollector:
    """Follows all tables; works in one task."""

    def __init__(self, store: Store, writes: Writes, deletions: Deletions) -> None:
        self.store = store
        self.writes = writes
        self.deletions = deletions
        self.dependents: dict[str, dict[str, None]] = {}
        self.queue = WorkQueue(store)
        self.later: dict[str, asyncio.TimerHandle] = {}
        store.hooks.append(self.seen)

    def seen(self, table: Table, change: Change) -> None:
        """A change of any table: keep the index, queue what must be looked at."""
        rec, meta = change.rec, change.rec.obj["metadata"]
        uid = meta["uid"]
        before = change.prev.obj["metadata"].get("ownerReferences") if change.prev else None
        after = meta.get("ownerReferences") if change.type != "DELETED" else None
        if before is not after and before != after:
            for owner in before or ():
                self._unlink(owner["uid"], uid)
            for owner in after or ():
                self.dependents.setdefault(owner["uid"], {})[uid] = None
            if after and any(not self._exists(owner, rec.namespace) for owner in after):
                self.queue.add(uid)
        if change.type == "DELETED":
            for dependent in list(self.dependents.get(uid, ())):
                self._lost_owner(dependent)
            for owner in before or ():
                self.queue.add(owner["uid"])  # its foreground deletion may wait for this object
        elif "deletionTimestamp" in meta and meta.get("finalizers"):
            self.queue.add(uid)

    def _unlink(self, owner: str, dependent: str) -> None:
        found = self.dependents.get(owner)
        if found is not None:
            found.pop(dependent, None)
            if not found:
                del self.dependents[owner]

    def _lost_owner(self, uid: str) -> None:
        entry = self.store.by_uid.get(uid)
        if entry is None or len(entry[1].obj["metadata"].get("ownerReferences") or ()) < 2:
            self.queue.add(uid)
        elif uid not in self.later:
            loop = asyncio.get_running_loop()
            self.later[uid] = loop.call_later(GATHER_S, self._gathered, uid)

    def _gathered(self, uid: str) -> None:
        del self.later[uid]
        self.queue.add(uid)

    def _exists(self, owner: Obj, namespace: str) -> bool:
        entry = self.store.by_uid.get(owner["uid"])
        if entry is None:
            # A real collector cannot tell this for a kind that the server lacks, and keeps the
            # object.
            return all(t.resource.kind != owner.get("kind") for t in self.store.tables.values())
        table, rec = entry
        return (
            rec.name == owner.get("name")
            and table.resource.kind == owner.get("kind")
            and rec.namespace in ("", namespace)
        )

    async def run(self) -> None:
        """Look at queued objects for ever."""
        await self.queue.run(self._process)

    def _target(self, table: Table, rec: Rec) -> Target:
        resource = table.resource
        route = Route(resource, resource.group, resource.versions[0])
        return Target(route, rec.namespace, rec.name)

    async def _process(self, table: Table, rec: Rec) -> None:
        meta = rec.obj["metadata"]
        if "deletionTimestamp" in meta:
            finalizers = meta.get("finalizers") or []
            if ORPHAN in finalizers:
                await self._orphan(table, rec)
            elif FOREGROUND in finalizers:
                await self._foreground(table, rec)
            return
        owners = meta.get("ownerReferences") or []
        absent = [o["uid"] for o in owners if not self._exists(o, rec.namespace)]
        if not absent:
            return
        if len(absent) == len(owners):
            options = DeleteOptions(uid=rec.uid, propagation="Background")
            await self.deletions.delete(
                self._target(table, rec), options, Options(manager=MANAGER, user=USER)
            )
        else:
            await self._drop_owners(table, rec, set(absent))

    async def _drop_owners(self, table: Table, rec: Rec, uids: set[str]) -> None:
        def without(obj: Obj) -> Obj:
            meta = obj["metadata"]
            kept = [o for o in meta.get("ownerReferences") or () if o["uid"] not in uids]
            return {**obj, "metadata": {**meta, "ownerReferences": kept}}

        await self.writes.update(
            self._target(table, rec), without, Options(manager=MANAGER, user=USER)
        )

    def _present_dependents(self, uid: str) -> list[tuple[Table, Rec]]:
        found = (self.store.by_uid.get(d) for d in self.dependents.get(uid, ()))
        return [entry for entry in found if entry is not None]

    async def _orphan(self, table: Table, rec: Rec) -> None:
        for dependent_table, dependent in self._present_dependents(rec.uid):
            await self._drop_owners(dependent_table, dependent, {rec.uid})
        await self._finalize(table, rec, ORPHAN)

    async def _foreground(self, table: Table, rec: Rec) -> None:
        blocking = False
        for dependent_table, dependent in self._present_dependents(rec.uid):
            owners = dependent.obj["metadata"].get("ownerReferences") or []
            mine: Obj = next((o for o in owners if o["uid"] == rec.uid), {})
            if "deletionTimestamp" not in dependent.obj["metadata"]:
                await self.deletions.delete(
                    self._target(dependent_table, dependent),
                    DeleteOptions(uid=dependent.uid),
                    Options(manager=MANAGER, user=USER),
                )
            still = self.store.by_uid.get(dependent.uid) is not None
            blocking = blocking or (still and bool(mine.get("blockOwnerDeletion")))
        if not blocking:
            await self._finalize(table, rec, FOREGROUND)

    async def _finalize(self, table: Table, rec: Rec, finalizer: str) -> None:
        def without(obj: Obj) -> Obj:
            meta = obj["metadata"]
            kept = [f for f in meta.get("finalizers") or () if f != finalizer]
            return {**obj, "metadata": {**meta, "finalizers": kept}}

        await self.writes.update(
            self._target(table, rec), without, Options(manager=MANAGER, user=USER)
        )
