"""The namespace controller: a deleted namespace takes its contents along, then goes.

Theory: deleting a namespace only marks it; this controller deletes every object in it (with their
grace periods and finalizers) and removes the namespace when the count of its objects reaches zero.

Invariant: a namespace disappears only when nothing is left in it.
"""

import asyncio

from simcluster.access import User
from simcluster.deletion import DeleteOptions, Deletions
from simcluster.requests import Options, Target
from simcluster.resources import Route
from simcluster.store import Change, Store, Table

USER = User(name="system:serviceaccount:kube-system:namespace-controller")


class NamespaceController:
    """Follows namespaces being deleted."""

    def __init__(self, store: Store, deletions: Deletions) -> None:
        self.store = store
        self.deletions = deletions
        self.ending: set[str] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        store.hooks.append(self.seen)

    def seen(self, table: Table, change: Change) -> None:
        """A change of any table."""
        rec = change.rec
        if table.resource.key == ("", "namespaces"):
            if change.type == "DELETED":
                self.ending.discard(rec.name)
            elif "deletionTimestamp" in rec.obj["metadata"] and rec.name not in self.ending:
                self.ending.add(rec.name)
                task = asyncio.get_running_loop().create_task(self._empty(rec.name))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
        elif change.type == "DELETED" and rec.namespace in self.ending:
            asyncio.get_running_loop().call_soon(self._remove, rec.namespace)

    async def _empty(self, namespace: str) -> None:
        for table in list(self.store.tables.values()):
            resource = table.resource
            if not resource.namespaced:
                continue
            route = Route(resource, resource.group, resource.versions[0])
            for rec in list(table.iterate(namespace)):
                await self.deletions.insist(
                    Target(route, namespace, rec.name),
                    DeleteOptions(uid=rec.uid),
                    Options(manager="kube-controller-manager", user=USER),
                )
        self._remove(namespace)

    def _remove(self, namespace: str) -> None:
        if self.store.per_namespace.get(namespace, 0) > 0:
            return
        rec = self.store.tables["", "namespaces"].get("", namespace)
        if rec is not None and namespace in self.ending:
            self.deletions.remove_empty_namespace(rec)
