"""Rows of what happened: history, waits, admissions, gates, decisions, outcomes, parked, epochs.

Theory. These come from the journal alone and need no look at the state. An internal decision
(admit, evict, release, finish) takes effect by being written, so its row is applied from the start;
a decision that writes to the API server waits for its outcome, unless the outcome is in the same
batch.

Invariant: rows are laid out by `layout.row_of` and `rows_of`.
"""

from collections.abc import Iterable
from datetime import datetime

from podgroup.log.codec import encode_concluded
from podgroup.log.events import Decision
from podgroup.log.journal import EpochRow, FailureRow, Journal
from podgroup.log.outcomes import FINAL
from podgroup.model.commands import ObjectRef
from podgroup.model.objects import NodeView, TopologyView
from projector import tables
from projector.schema.layout import Row, row_of, rows_of
from projector.tables.base import SHARD
from projector.writing.parked_rows import row_of_parked
from projector.writing.quota_rows import (
    row_of_admission,
    row_of_node,
    row_of_preemption,
    row_of_shortage,
    row_of_start,
    row_of_topology,
    row_of_usage,
    rows_of_places,
)
from projector.writing.values import as_json, key_text

_gates = rows_of(tables.gates, "cluster", pod_uid="pod")
_pod_waits = rows_of(tables.pod_waits, "cluster", pod_uid="pod")
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
_failure = row_of(tables.failures)
_quota = row_of(tables.quotas)
_decision_row = row_of(tables.decisions)
_conclusion = row_of(tables.conclusions)
_outcomes = rows_of(tables.outcomes, "cluster", decision_id="decision")
_epoch = row_of(tables.epochs)

Resolution = tuple[str, datetime, str]
"""(status, at, decision id)."""


def resolutions(journal: Journal) -> dict[str, Resolution]:
    """Return the outcomes of decisions, by their id; applied outlasts others.

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


def admitted(journal: Journal) -> dict[str, datetime]:
    """Return the latest admission of each group in the journal, those already over included."""
    latest: dict[str, tuple[int, datetime]] = {}
    for row in journal.admissions.values():
        latest[row.group] = max(
            latest.get(row.group, (0, row.admitted_at)), (row.number, row.admitted_at)
        )
    return {group: at for group, (_, at) in latest.items()}


def build(journal: Journal, cluster: str, resolved: dict[str, Resolution]) -> dict[str, list[Row]]:
    """Return the rows of a journal by table; outcomes of decisions in the same batch leave
    `resolved`.
    """
    return {
        "gates": _gates(journal.gates.values(), cluster=cluster),
        "pod_waits": _pod_waits(journal.pod_waits.values(), cluster=cluster),
        "history": _notes(journal.notes, cluster=cluster, shard=SHARD),
        "waits": _waits(journal.waits.values(), cluster=cluster),
        "admissions": [row_of_admission(cluster, row) for row in journal.admissions.values()],
        "placements": [
            row for one in journal.placements.values() for row in rows_of_places(cluster, one)
        ],
        "failures": _failures(journal.failures.values(), cluster=cluster),
        "quotas": [
            _quota(
                cluster=cluster,
                shard=SHARD,
                cluster_queue=key_text(q.cluster_queue),
                seq=q.seq,
                at=q.at,
                nominal=as_json(q.nominal),
            )
            for q in journal.quotas.values()
        ],
        "decisions": [_decision(cluster, d, resolved.pop(d.id, None)) for d in journal.decisions],
        "conclusions": [
            _conclusion(
                cluster=cluster,
                shard=SHARD,
                number=one.number,
                as_of_seq=one.as_of,
                body=encode_concluded(one),
            )
            for one in journal.concluded
        ],
        "outcomes": _outcomes(journal.outcomes, cluster=cluster),
        "usage": [row_of_usage(cluster, row) for row in journal.usage.values()],
        "reserved_starts": [row_of_start(cluster, row) for row in journal.starts.values()],
        "shortages": [row_of_shortage(cluster, row) for row in journal.shortages.values()],
        "nodes": [
            row_of_node(cluster, view, end)
            for view, end in journal.places.values()
            if isinstance(view, NodeView)
        ],
        "topologies": [
            row_of_topology(cluster, view, end)
            for view, end in journal.places.values()
            if isinstance(view, TopologyView)
        ],
        "preemptions": [row_of_preemption(cluster, row) for row in journal.preemptions],
        "parked": [row_of_parked(cluster, p) for p in journal.parked],
    }


def _failures(failures: Iterable[FailureRow], *, cluster: str) -> list[Row]:
    return [
        _failure(
            cluster=cluster,
            shard=SHARD,
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


def target_text(target: ObjectRef) -> str:
    """Return the target of a decision, for people: `Pod team-a/train-0 <uid>`."""
    place = f"{target.namespace}/{target.name}" if target.namespace else target.name
    return f"{target.kind} {place} {target.uid}".rstrip()


def _decision(cluster: str, decision: Decision, became: Resolution | None) -> Row:
    command = decision.command
    status, resolved_at = (None, None) if became is None else became[:2]
    if command.about.internal:
        status, resolved_at = "applied", decision.at
    return _decision_row(
        cluster=cluster,
        id=decision.id,
        shard=SHARD,
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


def epochs(cluster: str, rows: Iterable[EpochRow]) -> list[Row]:
    """Return rows of table `epochs`."""
    return [
        _epoch(
            cluster=cluster,
            shard=SHARD,
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
