"""Backups of the store, and the effects of a restore: etcd put back, API servers restarted.

Theory: objects are immutable values, so a backup is the set of objects at its time. After a restore
the version counter goes on from the backup's, so versions come again with other contents, unless
the counter is bumped (`etcdutl snapshot restore --bump-revision --mark-compacted`). All watches
break, and the history from before the restart is lost. Controllers see the difference as if each
changed object had been deleted and made again, since real controllers restart and list.

Invariant: after a restore the store holds the objects of the backup at their versions.
"""

from simcluster.store import Change, Rec, Store, Table

Spaces = dict[str, dict[str, Rec]]


class Backup:
    """The objects of a store at one version."""

    def __init__(self, store: Store) -> None:
        self.version = store.version
        self.tables = {
            key: (table.version, _copied(table.spaces)) for key, table in store.tables.items()
        }


def restore(store: Store, backup: Backup, *, bump: int = 0) -> None:
    """Put a store back; `bump` is by how much its version is raised beyond the backup's."""
    store.version = backup.version + bump
    changes: list[tuple[Table, Change]] = []
    for key, table in store.tables.items():
        version, spaces = backup.tables.get(key, (backup.version, {}))
        before = {rec.uid: rec for rec in table.iterate()}
        table.spaces = _copied(spaces)
        table.compact()
        table.version, table.compacted = version, store.version
        after = {rec.uid: rec for rec in table.iterate()}
        for uid, rec in before.items():
            if after.get(uid) is not rec:
                changes.append((table, Change("DELETED", rec, rec)))
        for uid, rec in after.items():
            if before.get(uid) is not rec:
                changes.append((table, Change("ADDED", rec, None)))
    store.by_uid.clear()
    store.per_namespace.clear()
    for table in store.tables.values():
        for rec in table.iterate():
            store.by_uid[rec.uid] = (table, rec)
            if rec.namespace:
                store.per_namespace[rec.namespace] = store.per_namespace.get(rec.namespace, 0) + 1
    for table in store.tables.values():
        for watcher in list(table.watchers):
            watcher.end(abrupt=True)
    for table, change in changes:
        for hook in list(store.hooks):
            hook(table, change)


def _copied(spaces: Spaces) -> Spaces:
    return {namespace: dict(space) for namespace, space in spaces.items()}
