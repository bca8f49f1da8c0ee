"""Reading the start state of a projector from the read model.

Theory. A checkpoint and the records of all live objects are the whole state, whatever the length of
the log. Besides them, decisions in their order and parked events are read, for the outbox. Records
are unpacked as they come, some at a time, and pods share equal values at once, so that reading a
large state takes little more memory than having it. For the same reason records are sorted here and
not by the database: SQLite would sort whole records in this process's memory.

Invariant: one call reads from one snapshot of the database; the caller brings the transaction.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, RowMapping, Table, select

from podgroup.folding import Stored, read_back
from podgroup.log.codec import Conclusions, decode_concluded
from podgroup.log.events import Decision
from podgroup.log.journal import ParkedRow
from podgroup.log.records import Concluded
from podgroup.model.commands import INTERNAL, AnyCommand
from podgroup.model.standing import StandingReport
from podgroup.state.quota import QueueKey
from projector import tables
from projector.tables.base import SHARD
from projector.writing.checkpoint import Checkpoint
from projector.writing.packing import (
    unpack_group,
    unpack_meta,
    unpack_object,
    unpack_pod,
    unpack_standing,
    unpack_workload,
)

READ_AT_ONCE = 1_000
"""Records read from the database at a time."""
INTERNAL_NAMES = tuple(sorted(kind.__name__ for kind in INTERNAL))


class Loaded(Stored, kw_only=True):
    """The state from which a projector starts."""

    checkpoint: Checkpoint


def load_state(connection: Connection, cluster: str) -> Loaded | None:
    """Return the checkpoint and the state it covers; None before the first commit.

    Groups and pods come by the position they were first seen at, ties by id; objects by kind,
    namespace and name.
    """
    checkpoint = load_checkpoint(connection, cluster)
    if checkpoint is None:
        return None

    def folded(table: Table, where: Any, *order: Any) -> Iterator[bytes]:
        mine = (table.c.cluster == cluster, table.c.shard == SHARD, where)
        query = select(table.c.folded).where(*mine).order_by(*order)
        yield from connection.scalars(query.execution_options(yield_per=READ_AT_ONCE))

    views = tables.objects
    unlinked = views.c.kind == "Workload"
    groups = [
        unpack_group(data) for data in folded(tables.groups, tables.groups.c.gone_at.is_(None))
    ]
    groups.sort(key=lambda group: (group.created_seq, group.id))
    pods = [
        read_back(unpack_pod(data)) for data in folded(tables.pods, tables.pods.c.gone_at.is_(None))
    ]
    pods.sort(key=lambda pod: (pod.seen_seq, pod.view.uid))
    return Loaded(
        checkpoint=checkpoint,
        meta=unpack_meta(checkpoint.folded),
        groups=groups,
        pods=pods,
        objects=[unpack_object(data) for data in folded(views, ~unlinked, *views.primary_key)],
        standings=_standings(connection, cluster),
        workloads=[unpack_workload(data) for data in folded(views, unlinked, *views.primary_key)],
    )


def _standings(connection: Connection, cluster: str) -> list[tuple[QueueKey, StandingReport]]:
    """Return the last reported standings of present queues and cohorts."""
    s = tables.standings.c
    query = (
        select(s.kind, s.namespace, s.name, s.folded)
        .where(s.cluster == cluster, s.shard == SHARD, s.gone_at.is_(None))
        .order_by(s.kind, s.namespace, s.name)
    )
    return [
        ((row.kind, row.namespace, row.name), unpack_standing(bytes(row.folded)))
        for row in connection.execute(query)
    ]


def load_checkpoint(connection: Connection, cluster: str) -> Checkpoint | None:
    """Return the checkpoint of a cluster, None if it has none."""
    table = tables.checkpoints
    query = select(table).where(table.c.cluster == cluster, table.c.shard == SHARD)
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    fields = {name: row[name] for name in Checkpoint.__struct_fields__}
    return Checkpoint(**{**fields, "folded": bytes(row["folded"])})


def load_decisions(
    connection: Connection, cluster: str, after: int, *, unresolved: bool
) -> list[Decision]:
    """Return decisions with a number above `after`, by number; `unresolved`: without outcome."""
    table = tables.decisions
    query = (
        select(table)
        .where(table.c.cluster == cluster, table.c.shard == SHARD, table.c.number > after)
        .order_by(table.c.number)
    )
    if unresolved:
        query = query.where(table.c.status.is_(None))
    return [decision_of(row) for row in connection.execute(query).mappings()]


def load_conclusions(connection: Connection, cluster: str, after: int) -> list[Conclusions]:
    """Return decisions and records with a number above `after`, by number."""
    found: list[Conclusions] = [
        *load_decisions(connection, cluster, after, unresolved=False),
        *_concluded(connection, cluster, after, None, None),
    ]
    return sorted(found, key=lambda one: one.number)


def _concluded(
    connection: Connection,
    cluster: str,
    after: int,
    until: int | None,
    limit: int | None,
) -> list[Concluded]:
    table = tables.conclusions.c
    mine = (table.cluster == cluster, table.shard == SHARD, table.number > after)
    query = select(table.body).where(*mine).order_by(table.number).limit(limit)
    if until is not None:
        query = query.where(table.number <= until)
    return [decode_concluded(bytes(body)) for body in connection.scalars(query)]


def load_owed(
    connection: Connection,
    cluster: str,
    after: int,
    until: int,
    limit: int,
    *,
    records: bool,
) -> list[Conclusions]:
    """Return decisions numbered above `after` up to `until` without outcome, the first `limit`.

    `records`: also decisions that only record, without an outcome to wait for, and records beside
    decisions. By number.
    """
    table = tables.decisions.c
    mine = (table.cluster == cluster, table.shard == SHARD)
    open_ones: ColumnElement[bool] = table.status.is_(None)
    if records:
        open_ones = open_ones | table.action.in_(INTERNAL_NAMES)
    query = (
        select(tables.decisions)
        .where(*mine, table.number > after, table.number <= until, open_ones)
        .order_by(table.number)
        .limit(limit)
    )
    found: list[Conclusions] = [decision_of(row) for row in connection.execute(query).mappings()]
    if records:
        found += _concluded(connection, cluster, after, until, limit)
        found.sort(key=lambda one: one.number)
    return found[:limit]


def load_parked(connection: Connection, cluster: str, after: int) -> list[ParkedRow]:
    """Return parked events at positions above `after`, by position and ordinal."""
    table = tables.parked
    query = (
        select(table)
        .where(table.c.cluster == cluster, table.c.shard == SHARD, table.c.seq > after)
        .order_by(table.c.seq, table.c.ord)
    )
    return [
        ParkedRow(
            seq=row["seq"],
            ord=row["ord"],
            at=row["at"],
            reason=row["reason"],
            message=row["message"],
            group=row["group_id"],
            object=row["object"],
            raw=bytes(row["raw"] or b""),
        )
        for row in connection.execute(query).mappings()
    ]


def decision_of(row: RowMapping) -> Decision:
    """Return the decision in a row of table `decisions`, as it was made."""
    return Decision(
        id=row["id"],
        number=row["number"],
        as_of=row["as_of_seq"],
        at=row["issued_at"],
        group=row["group_id"],
        namespace=row["namespace"],
        name=row["name"],
        rule=row["rule"],
        reason=row["reason"],
        message=row["message"],
        command=msgspec.convert(row["command"], AnyCommand),
    )
