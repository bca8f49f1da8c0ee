"""Rows about quota: admissions and places, shortages, preemptions, use; nodes and topologies.

Invariant: a row is made of what its journal says alone.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from podgroup.log.journal import (
    AdmissionRow,
    At,
    PlacementRow,
    PreemptionRow,
    ShortageRow,
    StartRow,
    UsageRow,
)
from podgroup.model.objects import Assignment, NodeView, TopologyView
from podgroup.model.quantities import capped
from podgroup.model.shortage import Side
from projector import tables
from projector.schema.layout import Row, row_of
from projector.tables.base import SHARD
from projector.writing.values import Json, as_json, int64, key_text

_admission_row = row_of(tables.admissions)
_placement = row_of(tables.placements)
_usage_row = row_of(tables.usage)
_start_row = row_of(tables.reserved_starts)
_shortage_row = row_of(tables.shortages)
_preemption_row = row_of(tables.preemptions)
_node_row = row_of(tables.nodes)
_topology_row = row_of(tables.topologies)


def row_of_admission(cluster: str, row: AdmissionRow) -> Row:
    """Return the row of an admission."""
    return _admission_row(
        cluster=cluster,
        group_id=row.group,
        number=row.number,
        cluster_queue=row.cluster_queue,
        flavors=as_json({a.name: a.flavors for a in row.assignments}),
        resources=_held(row.assignments),
        queued_at=row.queued_at,
        admitted_at=row.admitted_at,
        admitted_seq=row.admitted_seq,
        released_at=row.released_at,
        release_reason=row.release_reason,
        decided_by=row.decided_by,
    )


def rows_of_places(cluster: str, row: PlacementRow) -> Iterator[Row]:
    """Yield a row for each domain in which an admission has a place."""
    place, requests = row.given.place, as_json(row.requests)
    if place is None:
        return
    for domain in place.domains:
        yield _placement(
            cluster=cluster,
            group_id=row.group,
            from_seq=row.from_seq,
            pod_set=row.given.name,
            domain=key_text(",".join(domain.values)),
            level=place.levels[-1],
            flavor=min(row.given.flavors.values(), default=""),
            pods=domain.count,
            requests=requests,
            from_at=row.from_at,
            to_at=row.to_at,
            to_seq=row.to_seq,
        )


def _held(assignments: Iterable[Assignment]) -> Json:
    """Return flavor -> resource -> amount of assignments."""
    held: dict[str, dict[str, int]] = {}
    for assignment in assignments:
        for resource, amount in assignment.usage.items():
            flavor = held.setdefault(assignment.flavors.get(resource, ""), {})
            flavor[resource] = capped(flavor.get(resource, 0) + amount)
    return as_json(held)


def _interval(view: NodeView | TopologyView, end: At | None) -> dict[str, Any]:
    """Return the columns that name a node or Topology, and the interval of its state."""
    return {
        "shard": SHARD,
        "name": view.name,
        "from_seq": view.since.seq,
        "from_at": view.since.at,
        "to_at": end.at if end is not None else None,
        "to_seq": end.position if end is not None else None,
    }


def row_of_node(cluster: str, view: NodeView, end: At | None) -> Row:
    """Return the row of a node as it was until `end`; None: as it is."""
    return _node_row(
        cluster=cluster,
        ready=view.ready,
        unschedulable=view.unschedulable,
        labels=as_json(view.labels),
        taints=as_json(view.taints),
        allocatable=as_json(view.allocatable),
        taken=as_json(view.taken),
        **_interval(view, end),
    )


def row_of_topology(cluster: str, view: TopologyView, end: At | None) -> Row:
    """Return the row of a topology as it was until `end`; None: as it is."""
    return _topology_row(cluster=cluster, levels=as_json(view.levels), **_interval(view, end))


def _borrowed(side: Side) -> Json:
    """Return flavor -> resource -> amount that a ClusterQueue borrowed."""
    found: dict[str, dict[str, int]] = {}
    for flavor, resource, amount in side.borrowed:
        found.setdefault(flavor, {})[resource] = amount
    return as_json(found)


def row_of_shortage(cluster: str, row: ShortageRow) -> Row:
    """Return the row of a group's shortage."""
    short = row.shortage
    return _shortage_row(
        cluster=cluster,
        group_id=row.group,
        from_seq=row.from_seq,
        flavor=short.flavor,
        resource=short.resource,
        cluster_queue=row.cluster_queue,
        kind="Cohort" if short.cohort else "ClusterQueue",
        name=short.node,
        requested=short.requested,
        available=short.available,
        limited_by=short.limit,
        without_limit=short.without,
        lender=short.lender,
        ever=short.ever,
        from_at=row.from_at,
        to_at=row.to_at,
        to_seq=row.to_seq,
    )


def row_of_start(cluster: str, row: StartRow) -> Row:
    """Return the row of a start that is or was reserved."""
    start = row.start
    return _start_row(
        cluster=cluster,
        group_id=row.group,
        from_seq=row.from_seq,
        cluster_queue=start.cluster_queue,
        resources=_held(start.assignments or ()),
        queued_at=row.queued_at,
        from_at=row.from_at,
        start_by=start.by,
        to_at=row.to_at,
        to_seq=row.to_seq,
        ended=row.ended,
    )


def row_of_preemption(cluster: str, row: PreemptionRow) -> Row:
    """Return the row of a preemption."""
    between = row.between
    namespace, name, priority = row.victim_was
    by_namespace, by_name, by_priority = row.preemptor_was
    return _preemption_row(
        cluster=cluster,
        victim_id=row.victim,
        seq=row.seq,
        shard=SHARD,
        at=row.at,
        policy=between.policy,
        cohort=between.cohort,
        victim_namespace=namespace,
        victim_name=name,
        victim_priority=int64(priority),
        victim_queue=between.victim.cluster_queue,
        victim_share=between.victim.share,
        victim_borrowed=_borrowed(between.victim),
        resources=_held(row.assignments),
        preemptor_id=row.preemptor,
        preemptor_namespace=by_namespace,
        preemptor_name=by_name,
        preemptor_priority=int64(by_priority),
        preemptor_queue=between.preemptor.cluster_queue,
        preemptor_share=between.preemptor.share,
        preemptor_borrowed=_borrowed(between.preemptor),
        decision_id=row.decision,
    )


def row_of_usage(cluster: str, row: UsageRow) -> Row:
    """Return the row of a queue's usage."""
    amount, standing = row.amount, row.standing
    return _usage_row(
        cluster=cluster,
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        flavor=amount.flavor,
        resource=amount.resource,
        from_seq=row.from_seq,
        shard=SHARD,
        cohort=standing.cohort,
        root=standing.root,
        nominal=amount.nominal,
        quota=amount.quota,
        reserved=amount.reserved,
        used=amount.used,
        borrowed=amount.borrowed,
        spare=amount.spare,
        unadmitted=amount.unadmitted,
        share=standing.share,
        from_at=row.from_at,
        to_at=row.to_at,
        to_seq=row.to_seq,
    )
