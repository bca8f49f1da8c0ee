"""Rows: the changes of a batch, as tuples ready to be written.

Theory. The fold's journal names the changed objects; this module looks them up in the state and
lays them out in columns. However often a row changed within a batch it is written once
(conflation), so the cost of a transaction follows the number of changed rows, not of events. Values
are plain Python; `sqlite_writer` and `postgres_writer` convert them.

Invariant: a function of World and journal alone; rows are laid out by `layout.row_of`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from podgroup.folding import PendingWrites
from podgroup.model.ids import GroupID, PodUID
from podgroup.model.objects import ClusterQueueView, LocalQueueView, PodView
from podgroup.model.standing import Standing, StandingReport
from podgroup.state.asked import most_run_s
from podgroup.state.facts import (
    cluster_queue_name,
    cluster_queue_of,
    find_object,
    shares_by_use,
    used_lately,
)
from podgroup.state.group import Group, Role
from podgroup.state.members import Flag, Members
from podgroup.state.pod import Pod
from podgroup.state.quota import QueueKey
from podgroup.state.termination import due_at
from podgroup.state.world import World
from projector import tables
from projector.schema.layout import Row, row_of
from projector.tables.base import SHARD
from projector.writing import record_rows
from projector.writing.packing import pack, pack_group
from projector.writing.parked_rows import Settled
from projector.writing.values import Json, as_json, int32, int64, key_text

_group_row = row_of(tables.groups)
_role_row = row_of(tables.roles)
_pod_row = row_of(tables.pods)
_object_row = row_of(tables.objects)
_standing_row = row_of(tables.standings)
_NONE = as_json({})
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


class Rows(Struct):
    """The writes of one transaction, but for the checkpoint."""

    tables: dict[str, list[Row]] = field(default_factory=dict)
    """Table -> rows to insert or to put in place of those with the same key."""
    resolved: list[record_rows.Resolution] = field(default_factory=list)
    """Outcomes of decisions that were written before."""
    forgotten: list[tuple[str, str, str]] = field(default_factory=list)
    """(kind, namespace, name) of objects that are gone."""
    settled: list[Settled] = field(default_factory=list)
    """Parked events that a person released or discarded."""

    def count(self) -> int:
        """Return how many rows are written."""
        return (
            sum(map(len, self.tables.values()))
            + len(self.resolved)
            + len(self.forgotten)
            + len(self.settled)
        )


def build(world: World, taken: PendingWrites) -> Rows:
    """Return the rows of all changes since the last take."""
    journal, cluster = taken.journal, world.cluster
    rows = Rows()
    admitted = record_rows.admitted(journal)
    resolved = record_rows.resolutions(journal)
    groups = list(_groups(world, journal.groups, taken.gone_groups))
    found: dict[str, list[Row]] = {
        "groups": [_group(world, group, admitted) for group in groups],
        "roles": [row for group in groups for row in _roles(world, group)],
        "pods": [
            *(_pod(world, pod) for u, pod in taken.gone_pods.items() if u not in world.pods),
            *(_pod(world, world.pods[PodUID(u)]) for u in journal.pods if u in world.pods),
        ],
        **record_rows.build(journal, cluster, resolved),
    }
    found["standings"] = [
        _standing(cluster, key, report) for key, report in journal.standings.items()
    ]
    found["objects"] = []
    for key in journal.objects:
        view = find_object(world, key)
        if view is None:
            rows.forgotten.append(key)
        else:
            kind, namespace, name = key
            found["objects"].append(
                _object_row(
                    cluster=cluster,
                    shard=SHARD,
                    kind=kind,
                    namespace=namespace,
                    name=name,
                    uid=view.uid,
                    cohort=getattr(view, "cohort", getattr(view, "parent", "")),
                    used=_used(world, view),
                    folded=pack(view),
                )
            )
    rows.tables = {name: some for name, some in found.items() if some}
    rows.resolved = list(resolved.values())
    return rows


def _standing(cluster: str, key: QueueKey, report: StandingReport) -> Row:
    kind, namespace, name = key
    standing = report.standing or Standing()
    return _standing_row(
        cluster=cluster,
        shard=SHARD,
        kind=kind,
        namespace=namespace,
        name=name,
        cohort=standing.cohort,
        root=standing.root,
        pending=standing.pending,
        reserving=standing.reserving,
        admitted=standing.admitted,
        share=standing.share,
        at=report.at,
        gone_at=report.at if report.standing is None else None,
        as_of_seq=report.seq,
        folded=pack(report),
    )


def _groups(world: World, changed: Iterable[str], gone: dict[GroupID, Group]) -> Iterator[Group]:
    for identity, group in gone.items():
        if identity not in world.groups:
            yield group
    for name in changed:
        live = world.groups.get(GroupID(name))
        if live is not None:
            yield live


def _group(world: World, group: Group, admitted: dict[str, Any]) -> Row:
    seen = ungated = succeeded = failed = excess = replaced = 0
    for role in group.roles.values():
        seen += role.seen
        ungated += role.ungated
        succeeded += role.succeeded
        failed += role.failed
        excess += role.excess
        replaced += role.replaced
    holding, wait = group.quota.holding, group.explained.wait
    members = world.members.get(group.id) if group.ending.gone_at is None else None
    return _group_row(
        cluster=world.cluster,
        id=group.id,
        shard=SHARD,
        namespace=group.namespace,
        name=key_text(group.name),
        kind=group.kind,
        queue=group.spec.queue,
        cluster_queue=cluster_queue_name(world, group),
        priority=int64(group.composition.priority),
        priority_class=group.spec.priority_class,
        total_count=int64(group.composition.total if group.composition.done else group.spec.total),
        state=group.explained.state,
        reason=group.explained.reason,
        message=group.explained.message,
        workload_name=_workload_name(group),
        pods_seen=seen,
        pods_gated=_now(members, Flag.GATED),
        pods_ungated=ungated,
        pods_running=_now(members, Flag.RUNNING),
        pods_succeeded=succeeded,
        pods_failed=failed,
        pods_excess=excess,
        pods_replaced=replaced,
        wait_reason=wait.reason if wait is not None else "",
        wait_message=wait.message if wait is not None else "",
        wait_since=wait.from_at if wait is not None else None,
        parked=group.parked,
        created_at=group.created_at,
        created_seq=group.created_seq,
        complete_at=group.composition.complete_at,
        queued_at=group.requeueing.queued_at,
        precedence=_precedence(world, group),
        most_run_s=most_run_s(world, group),
        # Null keeps what the row has: the time of an admission outlives the admission.
        admitted_at=holding.at if holding is not None else admitted.get(group.id),
        finished_at=group.ending.finished_at,
        gone_at=group.ending.gone_at,
        as_of_seq=world.meta.position,
        folded=pack_group(group) if group.ending.gone_at is None else None,
    )


def _precedence(world: World, group: Group) -> int:
    kept = group.quota.kept
    if group.quota.start is not None and (kept is None or kept.head or kept.lost_to):
        queue = cluster_queue_of(world, group)
        if queue is not None and (
            queue.within_cluster_queue in ("", "Never") or shares_by_use(world, queue)
        ):
            return 3
        return 4
    if kept is None or kept.lost_to or group.quota.holding is not None:
        return 0
    return 2 if not kept.head else 0 if kept.assignments else 1


def _used(world: World, view: Any) -> float | None:
    """Return a queue's recent usage, where it decides the order of LocalQueues."""
    match view:
        case ClusterQueueView() if shares_by_use(world, view):
            return 0.0
        case LocalQueueView() if world.policy.usage_half_life_s >= 0:
            return used_lately(world, view)
        case _:
            return None


def _workload_name(group: Group) -> str:
    """Return the name of a group's Workload, also of a Workload still to be made."""
    mirror = group.mirror
    has_none = mirror.workload is None and group.composition.ranked_by is not None
    return "" if has_none else mirror.name


def _now(members: Members | None, flag: int, role: str = "") -> int:
    return members.count(flag, role) if members is not None else 0


def _roles(world: World, group: Group) -> Iterator[Row]:
    members = world.members.get(group.id) if group.ending.gone_at is None else None
    for role in group.roles.values():
        yield _role(world.cluster, group.id, role, members)


def _role(cluster: str, group: str, role: Role, members: Members | None) -> Row:
    return _role_row(
        cluster=cluster,
        group_id=group,
        name=key_text(role.name),
        count=role.count,
        requests=as_json(role.requests),
        pods_seen=role.seen,
        pods_gated=_now(members, Flag.GATED, role.name),
        pods_ungated=role.ungated,
        pods_running=_now(members, Flag.RUNNING, role.name),
        pods_succeeded=role.succeeded,
        pods_failed=role.failed,
        pods_excess=role.excess,
        pods_replaced=role.replaced,
    )


def _controller(view: PodView) -> str:
    return next((f"{one.kind}/{one.name}" for one in view.owners if one.controller), "")


def _pod(world: World, pod: Pod) -> Row:
    view, used = pod.view, pod.measured
    return _pod_row(
        cluster=world.cluster,
        uid=view.uid,
        shard=SHARD,
        group_id=pod.group,
        namespace=view.namespace,
        name=view.name,
        role=key_text(pod.role),
        phase=view.phase,
        gated=pod.gated,
        finalizer=pod.held,
        node=view.node,
        labels=as_json(view.labels),
        requests=as_json(view.requests),
        fate=pod.fate,
        told_reason=pod.reported[0] if pod.reported is not None else "",
        told_message=pod.reported[1] if pod.reported is not None else "",
        exit_reason=pod.exit_reason,
        created_at=view.created_at,
        ungated_at=pod.ungated_at,
        scheduled_at=pod.scheduled_at,
        started_at=pod.started_at,
        ended_at=pod.ended_at,
        failed_at=pod.failed_at,
        deleted_at=due_at(pod),
        gone_at=pod.gone_at,
        qos=view.qos,
        owner=_controller(view) if view.owners else "",
        restarts=int32(sum([end.restarts for end in view.ends])) if view.ends else 0,
        used_mean=as_json(used.mean()) if used is not None else _NONE,
        used_peak=as_json(used.peak) if used is not None else _NONE,
        used_samples=used.samples if used is not None else 0,
        used_from=used.from_at if used is not None else None,
        used_to=used.to_at if used is not None else None,
        seen_seq=pod.seen_seq,
        as_of_seq=world.meta.position,
        folded=pack(pod) if pod.gone_at is None else None,
    )


def without_nul(rows: Rows) -> Rows:
    """Return the same rows with NUL characters replaced: PostgreSQL's text has none."""
    return Rows(
        tables={t: [tuple(map(_clean, row)) for row in found] for t, found in rows.tables.items()},
        resolved=rows.resolved,
        forgotten=rows.forgotten,
        settled=[
            Settled(_clean(s.action), _clean(s.target), _clean(s.by), s.at) for s in rows.settled
        ],
    )


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, Json):
        return Json(_NUL.sub(rb"\1\\ufffd", value))
    return value
