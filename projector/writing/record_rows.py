"""Rows of what happened: history, waits, admissions, gates, decisions, outcomes, parked, epochs.

Theory. These come from the journal alone and need no look at the state. A decision that records
(admit, evict, release, finish) takes effect by being written, so its row is born applied; one that
writes to the API server waits for its outcome, unless that is in the same batch already.

Invariant: rows are laid out by `layout.row_of` and `rows_of`.
"""

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from podgroup.log.codec import encode_concluded
from podgroup.log.events import Batch, Decision, OperatorActed, Undecodable
from podgroup.log.journal import (
    AdmissionRow,
    At,
    EpochRow,
    FailureRow,
    Journal,
    ParkedRow,
    PlacementRow,
    PreemptionRow,
    ShortageRow,
    UsageRow,
)
from podgroup.log.outcomes import FINAL
from podgroup.model.commands import INTERNAL, ObjectRef
from podgroup.model.objects import Assignment, NodeView, TopologyView
from podgroup.model.shortage import Side
from projector import tables
from projector.schema.layout import Row, row_of, rows_of

_MAX_INT64 = 2**63 - 1
_KEY_CHARS = 256


class Json(bytes):
    """A JSON document as text in UTF-8, so that it is encoded once whatever the database."""

    __slots__ = ()


_encoder = msgspec.json.Encoder()


def as_json(value: Any) -> Json:
    """Return a document."""
    return Json(_encoder.encode(value))


def int64(value: int) -> int:
    """Return the nearest number a BIGINT can hold: users may declare any total count."""
    return max(-_MAX_INT64, min(_MAX_INT64, value))


_gates = rows_of(tables.gates, "cluster", pod_uid="pod")
_notes = rows_of(
    tables.history,
    "cluster",
    "shard",
    group_id="group",
    pod_uid="pod",
    cause_seq="cause",
    decision_id="decision",
)
_waits = rows_of(tables.waits, "cluster", group_id="group")
_admission_row = row_of(tables.admissions)
_placement = row_of(tables.placements)
_failure = row_of(tables.failures)
_quota = row_of(tables.quotas)
_decision_row = row_of(tables.decisions)
_conclusion = row_of(tables.conclusions)
_outcomes = rows_of(tables.outcomes, "cluster", decision_id="decision")
_parked_row = row_of(tables.parked)
_usage_row = row_of(tables.usage)
_shortage_row = row_of(tables.shortages)
_preemption_row = row_of(tables.preemptions)
_node_row = row_of(tables.nodes)
_topology_row = row_of(tables.topologies)
_epoch = row_of(tables.epochs)


def key_text(text: str) -> str:
    """Return text that fits an index entry: users choose group names and role annotations.

    A B-tree entry of PostgreSQL ends at about 2,700 bytes, and several columns share it.
    """
    if len(text) <= _KEY_CHARS:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text[: _KEY_CHARS - 17]}~{digest}"


Resolution = tuple[str, datetime, str]
"""(status, at, decision id)."""


def resolutions(journal: Journal) -> dict[str, Resolution]:
    """Return what became of decisions, by their id; applied outlasts others.

    A decision sent twice may be applied first and found obsolete the second time.
    """
    found: dict[str, Resolution] = {}
    for outcome in journal.outcomes:
        if outcome.status not in FINAL:
            continue
        known = found.get(outcome.decision)
        if known is None or known[0] != "applied":
            found[outcome.decision] = (outcome.status, outcome.at, outcome.decision)
    return found


class Settled(Struct, frozen=True):
    """What a person did about parked events: `target` is `<seq>/<ord>` or a group id."""

    action: str
    target: str
    by: str
    at: datetime


def settled(batch: Batch, at: datetime) -> list[Settled]:
    """Return what a message says was done about parked events."""
    return [
        Settled(event.action, event.target, event.by, at)
        for event in batch.events
        if isinstance(event, OperatorActed) and event.action in ("release", "discard")
    ]


def admitted(journal: Journal) -> dict[str, datetime]:
    """Return the latest admission of each group in the journal, those already over included."""
    latest: dict[str, tuple[int, datetime]] = {}
    for row in journal.admissions.values():
        latest[row.group] = max(
            latest.get(row.group, (0, row.admitted_at)), (row.number, row.admitted_at)
        )
    return {group: at for group, (_, at) in latest.items()}


def build(
    journal: Journal, cluster: str, shard: int, resolved: dict[str, Resolution]
) -> dict[str, list[Row]]:
    """Return the rows of a journal by table; what became of its own decisions leaves `resolved`."""
    return {
        "gates": _gates(journal.gates.values(), cluster=cluster),
        "history": _notes(journal.notes, cluster=cluster, shard=shard),
        "waits": _waits(journal.waits.values(), cluster=cluster),
        "admissions": [_admission(cluster, row) for row in journal.admissions.values()],
        "placements": [row for one in journal.placements.values() for row in _placed(cluster, one)],
        "failures": _failures(journal.failures.values(), cluster=cluster, shard=shard),
        "quotas": [
            _quota(
                cluster=cluster,
                shard=shard,
                cluster_queue=key_text(q.cluster_queue),
                seq=q.seq,
                at=q.at,
                nominal=as_json(q.nominal),
            )
            for q in journal.quotas.values()
        ],
        "decisions": [
            _decision(cluster, shard, d, resolved.pop(d.id, None)) for d in journal.decisions
        ],
        "conclusions": [
            _conclusion(
                cluster=cluster,
                shard=shard,
                number=one.number,
                as_of_seq=one.as_of,
                body=encode_concluded(one),
            )
            for one in journal.concluded
        ],
        "outcomes": _outcomes(journal.outcomes, cluster=cluster),
        "usage": [_usage(cluster, shard, row) for row in journal.usage.values()],
        "shortages": [_shortage(cluster, row) for row in journal.shortages.values()],
        "nodes": [
            _node(cluster, shard, view, end)
            for view, end in journal.places.values()
            if isinstance(view, NodeView)
        ],
        "topologies": [
            _topology_row(
                cluster=cluster,
                levels=as_json(view.levels),
                **_interval(shard, view, end),
            )
            for view, end in journal.places.values()
            if isinstance(view, TopologyView)
        ],
        "preemptions": [_preemption(cluster, shard, row) for row in journal.preemptions],
        "parked": [_parked(cluster, shard, p) for p in journal.parked],
    }


def _failures(failures: Iterable[FailureRow], *, cluster: str, shard: int) -> list[Row]:
    return [
        _failure(
            cluster=cluster,
            shard=shard,
            pod_uid=f.pod,
            container=f.container,
            seq=f.seq,
            at=f.at,
            group_id=f.group,
            reason=f.reason,
            message=f.message,
            exit_code=f.exit_code,
            restarts=f.restarts,
            finished_at=f.finished_at,
            node=f.node,
            requests=as_json(f.requests),
        )
        for f in failures
    ]


def _admission(cluster: str, row: AdmissionRow) -> Row:
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


def _placed(cluster: str, row: PlacementRow) -> Iterator[Row]:
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
    """Return flavor -> resource -> amount of what assignments take."""
    held: dict[str, dict[str, int]] = {}
    for assignment in assignments:
        for resource, amount in assignment.usage.items():
            flavor = held.setdefault(assignment.flavors.get(resource, ""), {})
            flavor[resource] = flavor.get(resource, 0) + amount
    return as_json(held)


def _interval(shard: int, view: NodeView | TopologyView, end: At | None) -> dict[str, Any]:
    """Return the columns that say which node or Topology was as it was, and when."""
    return {
        "shard": shard,
        "name": view.name,
        "from_seq": view.since.seq,
        "from_at": view.since.at,
        "to_at": end.at if end is not None else None,
        "to_seq": end.position if end is not None else None,
    }


def _node(cluster: str, shard: int, view: NodeView, end: At | None) -> Row:
    return _node_row(
        cluster=cluster,
        ready=view.ready,
        unschedulable=view.unschedulable,
        labels=as_json(view.labels),
        taints=as_json(view.taints),
        allocatable=as_json(view.allocatable),
        taken=as_json(view.taken),
        **_interval(shard, view, end),
    )


def _borrowed(side: Side) -> Json:
    """Return flavor -> resource -> amount of what a ClusterQueue borrowed."""
    found: dict[str, dict[str, int]] = {}
    for flavor, resource, amount in side.borrowed:
        found.setdefault(flavor, {})[resource] = amount
    return as_json(found)


def _shortage(cluster: str, row: ShortageRow) -> Row:
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


def _preemption(cluster: str, shard: int, row: PreemptionRow) -> Row:
    between = row.between
    namespace, name, priority = row.victim_was
    by_namespace, by_name, by_priority = row.preemptor_was
    return _preemption_row(
        cluster=cluster,
        victim_id=row.victim,
        seq=row.seq,
        shard=shard,
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


def _usage(cluster: str, shard: int, row: UsageRow) -> Row:
    amount, standing = row.amount, row.standing
    return _usage_row(
        cluster=cluster,
        kind=row.kind,
        namespace=row.namespace,
        name=row.name,
        flavor=amount.flavor,
        resource=amount.resource,
        from_seq=row.from_seq,
        shard=shard,
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


def target_text(target: ObjectRef) -> str:
    """Return what a decision is about, for people: `Pod team-a/train-0 <uid>`."""
    place = f"{target.namespace}/{target.name}" if target.namespace else target.name
    return f"{target.kind} {place} {target.uid}".rstrip()


def _decision(cluster: str, shard: int, decision: Decision, became: Resolution | None) -> Row:
    command = decision.command
    status, resolved_at = (None, None) if became is None else became[:2]
    if isinstance(command, INTERNAL):
        status, resolved_at = "applied", decision.at
    return _decision_row(
        cluster=cluster,
        id=decision.id,
        shard=shard,
        number=decision.number,
        as_of_seq=decision.as_of,
        group_id=decision.group,
        namespace=decision.namespace,
        name=decision.name,
        rule=decision.rule,
        action=command.action,
        target=target_text(command.target),
        reason=decision.reason,
        message=decision.message,
        issued_at=decision.at,
        command=as_json(command),
        status=status,
        resolved_at=resolved_at,
    )


def _parked(cluster: str, shard: int, row: ParkedRow) -> Row:
    return _parked_row(
        cluster=cluster,
        shard=shard,
        seq=row.seq,
        ord=row.ord,
        at=row.at,
        reason=row.reason,
        message=row.message,
        group_id=row.group,
        object=row.object,
        raw=row.raw or None,
        resolved_at=None,
        resolution="",
        resolved_by="",
    )


def epochs(cluster: str, shard: int, rows: Iterable[EpochRow]) -> list[Row]:
    """Return rows of table `epochs`."""
    return [
        _epoch(
            cluster=cluster,
            shard=shard,
            number=e.number,
            base=e.base,
            at=e.at,
            reason=e.reason,
            stream_created_at=e.stream_created_at,
            lost_from=e.lost_from,
            lost_to=e.lost_to,
        )
        for e in rows
    ]


def keep_raw(parked: list[ParkedRow], since: int, batch: Batch) -> None:
    """Give rows from index `since` on, which `batch` led to, the events that they are about."""
    for index in range(since, len(parked)):
        parked[index] = _with_raw(parked[index], batch)


def _with_raw(row: ParkedRow, batch: Batch) -> ParkedRow:
    """Return the row with the event it is about, as it was, unless it has it already."""
    if row.raw or row.ord >= len(batch.events):
        return row
    event = batch.events[row.ord]
    raw = event.raw if isinstance(event, Undecodable) else msgspec.json.encode(event)
    return msgspec.structs.replace(row, raw=raw)
