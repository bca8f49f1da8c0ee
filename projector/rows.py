"""Rows: what a batch changed, as tuples ready to be written.

Theory. The fold's journal names what is different; this module looks it up in the state and lays it
out in columns. However often a row changed within a batch it is written once (conflation), so the
cost of a transaction follows what changed, not how much happened. Values are plain Python; how a
database wants them is the business of `writing`.

Invariant: a function of World and journal alone; the order of each tuple is `COLUMNS[table]`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from podgroup.folding import Taken
from podgroup.ids import GroupID, PodUID
from podgroup.members import Flag, Members
from podgroup.state import Group, Pod, Role, World
from projector import record_rows
from projector.packing import pack
from projector.record_rows import Row, as_json, int64, key_text

COLUMNS: dict[str, tuple[str, ...]] = {
    "groups": (
        *("cluster", "id", "shard", "namespace", "name", "kind", "queue", "cluster_queue"),
        *("priority", "priority_class", "total_count", "state", "reason", "message"),
        *("workload_name", "pods_seen", "pods_gated", "pods_ungated", "pods_running"),
        *("pods_succeeded", "pods_failed", "pods_excess", "pods_replaced", "wait_reason"),
        *("wait_message", "wait_since", "parked", "created_at", "created_seq", "complete_at"),
        *("queued_at", "admitted_at", "finished_at", "gone_at", "as_of_seq", "folded"),
    ),
    "roles": (
        *("cluster", "group_id", "name", "count", "requests", "pods_seen", "pods_gated"),
        *("pods_ungated", "pods_running", "pods_succeeded", "pods_failed", "pods_excess"),
        *("pods_replaced",),
    ),
    "pods": (
        *("cluster", "uid", "shard", "group_id", "namespace", "name", "role", "phase", "gated"),
        *("finalizer", "node", "labels", "requests", "fate", "exit_reason", "created_at"),
        *("ungated_at", "scheduled_at", "started_at", "ended_at", "failed_at", "deleted_at"),
        *("gone_at", "qos", "seen_seq", "as_of_seq", "folded"),
    ),
    "objects": ("cluster", "shard", "kind", "namespace", "name", "uid", "folded"),
    **record_rows.COLUMNS,
}
"""Columns written, per table, in the order of the tuples."""


class Rows(Struct):
    """The writes of one transaction, but for the checkpoint."""

    tables: dict[str, list[Row]] = field(default_factory=dict)
    """Table -> rows to insert or to put in place of those with the same key."""
    resolved: list[record_rows.Resolution] = field(default_factory=list)
    """What became of decisions that were written before."""
    forgotten: list[tuple[str, str, str]] = field(default_factory=list)
    """(kind, namespace, name) of objects that are gone."""
    settled: list[record_rows.Settled] = field(default_factory=list)
    """Parked events that a person released or discarded."""

    def count(self) -> int:
        """Return how many rows are written."""
        return (
            sum(map(len, self.tables.values()))
            + len(self.resolved)
            + len(self.forgotten)
            + len(self.settled)
        )


def build(world: World, taken: Taken, shard: int) -> Rows:
    """Return the rows of everything that changed since the last take."""
    journal, cluster = taken.journal, world.cluster
    rows = Rows()
    admitted = record_rows.admitted(journal)
    resolved = record_rows.resolutions(journal)
    groups = list(_groups(world, journal.groups, taken.gone_groups))
    tables: dict[str, list[Row]] = {
        "groups": [_group(world, group, shard, admitted) for group in groups],
        "roles": [row for group in groups for row in _roles(world, group)],
        "pods": [
            *(_pod(world, pod, shard) for u, pod in taken.gone_pods.items() if u not in world.pods),
            *(_pod(world, world.pods[PodUID(u)], shard) for u in journal.pods if u in world.pods),
        ],
        **record_rows.build(journal, cluster, shard, resolved),
    }
    tables["objects"] = []
    for key in journal.objects:
        view = find_object(world, key)
        if view is None:
            rows.forgotten.append(key)
        else:
            tables["objects"].append((cluster, shard, *key, view.uid, pack(view)))
    rows.tables = {name: found for name, found in tables.items() if found}
    rows.resolved = list(resolved.values())
    return rows


def find_object(world: World, key: tuple[str, str, str]) -> Any:
    """Return the view of a queue object, namespace or unlinked Workload, or None."""
    kind, namespace, name = key
    match kind:
        case "LocalQueue":
            return world.local_queues.get((namespace, name))
        case "Workload":
            return world.workloads.get((namespace, name))
        case "ClusterQueue":
            return world.cluster_queues.get(name)
        case "ResourceFlavor":
            return world.flavors.get(name)
        case "WorkloadPriorityClass":
            return world.workload_classes.get(name)
        case "PriorityClass":
            return world.classes.get(name)
        case "Namespace":
            return world.namespaces.get(name)
        case _:
            raise ValueError(
                f"journal names an object of unknown kind {kind!r}: {namespace}/{name}"
            )


def _groups(world: World, changed: Iterable[str], gone: dict[GroupID, Group]) -> Iterator[Group]:
    for identity, group in gone.items():
        if identity not in world.groups:
            yield group
    for name in changed:
        live = world.groups.get(GroupID(name))
        if live is not None:
            yield live


def _group(world: World, group: Group, shard: int, admitted: dict[str, Any]) -> Row:
    roles = group.roles.values()
    holding, wait = group.holding, group.wait
    local = world.local_queues.get((group.namespace, group.queue))
    if holding is not None:
        cluster_queue = holding.admission.cluster_queue
    else:
        cluster_queue = local.cluster_queue if local is not None else ""
    members = world.members.get(group.id) if group.gone_at is None else None
    return (
        world.cluster,
        group.id,
        shard,
        group.namespace,
        key_text(group.name),
        group.kind,
        group.queue,
        cluster_queue,
        int64(group.priority),
        group.priority_class,
        int64(group.composed_total if group.composed else group.total),
        group.state,
        group.reason,
        group.message,
        group.workload_name,
        sum(role.seen for role in roles),
        _now(members, Flag.GATED),
        sum(role.ungated for role in roles),
        _now(members, Flag.RUNNING),
        sum(role.succeeded for role in roles),
        sum(role.failed for role in roles),
        sum(role.excess for role in roles),
        sum(role.replaced for role in roles),
        wait.reason if wait is not None else "",
        wait.message if wait is not None else "",
        wait.from_at if wait is not None else None,
        group.parked,
        group.created_at,
        group.created_seq,
        group.complete_at,
        group.queued_at,
        # Null keeps what the row has: the time of an admission outlives the admission.
        holding.at if holding is not None else admitted.get(group.id),
        group.finished_at,
        group.gone_at,
        world.meta.position,
        pack(group) if group.gone_at is None else None,
    )


def _now(members: Members | None, flag: int, role: str = "") -> int:
    return members.count(flag, role) if members is not None else 0


def _roles(world: World, group: Group) -> Iterator[Row]:
    members = world.members.get(group.id) if group.gone_at is None else None
    for role in group.roles.values():
        yield _role(world.cluster, group.id, role, members)


def _role(cluster: str, group: str, role: Role, members: Members | None) -> Row:
    return (
        cluster,
        group,
        key_text(role.name),
        role.count,
        as_json(role.requests),
        role.seen,
        _now(members, Flag.GATED, role.name),
        role.ungated,
        _now(members, Flag.RUNNING, role.name),
        role.succeeded,
        role.failed,
        role.excess,
        role.replaced,
    )


def _pod(world: World, pod: Pod, shard: int) -> Row:
    view = pod.view
    return (
        world.cluster,
        view.uid,
        shard,
        pod.group,
        view.namespace,
        view.name,
        key_text(pod.role),
        view.phase,
        pod.gated,
        pod.held,
        view.node,
        as_json(view.labels),
        as_json(view.requests),
        pod.fate,
        pod.exit_reason,
        view.created_at,
        pod.ungated_at,
        pod.scheduled_at,
        pod.started_at,
        pod.ended_at,
        pod.failed_at,
        view.deleted_at,
        pod.gone_at,
        view.qos,
        pod.seen_seq,
        world.meta.position,
        pack(pod) if pod.gone_at is None else None,
    )
