"""The store: loads what a projector starts from, and commits one batch as one transaction.

Theory. Rows, history, decisions and checkpoint are written together or not at all. The checkpoint
is compared and set: whoever loses that comparison is not the projector of this shard any more and
must stop, whatever it believes. When a connection breaks during a commit nobody knows how it ended;
`writer` and `writes` in the checkpoint tell, so the same call is simply made again.

Invariant: after `commit` returned, the next `load` (here or elsewhere) gives that checkpoint and
the state it covers.
"""

import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, cast

import msgspec
import psycopg
from msgspec import Struct
from sqlalchemy import Connection, Engine, RowMapping, Table, select
from sqlalchemy.exc import DBAPIError

from podgroup.commands import RECORDS, AnyCommand
from podgroup.events import Decision
from podgroup.journal import ParkedRow
from podgroup.objects import QueueObject, WorkloadView
from podgroup.state import Group, Meta, Pod
from projector import postgres_writer, sqlite_writer, tables
from projector.checkpoint import Checkpoint
from projector.database import shown, writer
from projector.packing import (
    unpack_group,
    unpack_meta,
    unpack_object,
    unpack_pod,
    unpack_workload,
)
from projector.rows import Rows


class StoreUnavailable(Exception):
    """The database cannot be reached or is full; the same call may be made again later."""


class StaleProjector(Exception):
    """Another projector writes this shard; this one must stop."""


class _GuardFailed(Exception):
    """The checkpoint was not the expected one; undoes the transaction on its way up."""


class Loaded(Struct):
    """What a projector starts from."""

    checkpoint: Checkpoint
    meta: Meta
    groups: list[Group]
    pods: list[Pod]
    objects: list[QueueObject]
    workloads: list[WorkloadView]


class Store(Protocol):
    """What the projection needs of a database. Calls block and belong to one thread."""

    def load(self) -> Loaded | None:
        """Return the checkpoint and the state it covers; None before the first commit."""

    def commit(self, rows: Rows, new: Checkpoint, old: Checkpoint | None) -> Checkpoint:
        """Write one batch; `old` is the checkpoint it builds on. Returns the one now stored."""

    def decisions(self, *, after: int = 0, unresolved: bool = False) -> list[Decision]:
        """Return decisions by number, above `after`, all or only those without an outcome."""

    def parked_after(self, seq: int) -> list[ParkedRow]:
        """Return what was parked at positions above `seq`."""

    def close(self) -> None:
        """Let go of the database."""


class SqlStore:
    """The store in PostgreSQL or SQLite, for one shard of one cluster."""

    def __init__(
        self, url: str, cluster: str, shard: int = 0, *, statement_timeout_s: float = 60.0
    ) -> None:
        self._engine: Engine = writer(url, statement_timeout_s)
        self._name = shown(url)
        self._cluster = cluster
        self._shard = shard
        self._connection: Connection | None = None
        self._in_doubt = False
        self.writer = uuid.uuid4().hex

    def load(self) -> Loaded | None:
        """Return the checkpoint and the live rows it covers, None on a fresh database.

        Groups come by the position they were first seen at, ties by id.

        Raises:
            StoreUnavailable: no connection.
        """
        try:
            with self._transaction() as connection:
                return self._load(connection)
        except (DBAPIError, psycopg.Error, sqlite3.Error) as error:
            raise self._failed(error) from error

    def _load(self, connection: Connection) -> Loaded | None:
        checkpoint = self._checkpoint(connection)
        if checkpoint is None:
            return None
        group, pod, thing = tables.groups.c, tables.pods.c, tables.objects.c
        groups = self._folded(connection, tables.groups, group.gone_at.is_(None), group.created_seq)
        pods = self._folded(connection, tables.pods, pod.gone_at.is_(None), pod.seen_seq)
        unlinked = thing.kind == "Workload"
        objects = self._folded(connection, tables.objects, ~unlinked, thing.kind, thing.name)
        workloads = self._folded(connection, tables.objects, unlinked, thing.name)
        return Loaded(
            checkpoint=checkpoint,
            meta=unpack_meta(checkpoint.folded),
            groups=[unpack_group(data) for data in groups],
            pods=[unpack_pod(data) for data in pods],
            objects=[unpack_object(data) for data in objects],
            workloads=[unpack_workload(data) for data in workloads],
        )

    def _folded(
        self, connection: Connection, table: Table, where: Any, *order: Any
    ) -> Sequence[bytes]:
        columns = table.c
        query = (
            select(columns.folded)
            .where(columns.cluster == self._cluster, columns.shard == self._shard, where)
            .order_by(*order, *table.primary_key)
        )
        return connection.scalars(query).all()

    def _checkpoint(self, connection: Connection) -> Checkpoint | None:
        table = tables.checkpoints
        row = connection.execute(
            select(table).where(table.c.cluster == self._cluster, table.c.shard == self._shard)
        ).one_or_none()
        if row is None:
            return None
        values = dict(row._mapping)
        values["folded"] = bytes(values["folded"])
        return Checkpoint(**values)

    def commit(self, rows: Rows, new: Checkpoint, old: Checkpoint | None) -> Checkpoint:
        """Write one batch in one transaction.

        Raises:
            StaleProjector: the checkpoint in the database is not `old` (and not `new` either).
            StoreUnavailable: it is not known to be written; call again with the same arguments.
        """
        writes = 1 if old is None else old.writes + 1
        new = msgspec.structs.replace(new, writes=writes, writer=self.writer)
        try:
            with self._transaction() as connection:
                if self._in_doubt:
                    there = self._checkpoint(connection)
                    if there is not None and (there.writer, there.writes) == (self.writer, writes):
                        self._in_doubt = False
                        return new
                self._in_doubt = True
                if not self._write(connection, rows, new, old):
                    raise _GuardFailed
            self._in_doubt = False
        except _GuardFailed:
            raise StaleProjector(self._stale(old)) from None
        except (psycopg.OperationalError, sqlite3.OperationalError, DBAPIError) as error:
            raise self._failed(error) from error
        except psycopg.DataError:
            cleaned = postgres_writer.without_nul(rows)
            if cleaned == rows:
                raise
            return self.commit(cleaned, new, old)
        return new

    def _write(
        self, connection: Connection, rows: Rows, new: Checkpoint, old: Checkpoint | None
    ) -> bool:
        raw = connection.connection.driver_connection
        if self._engine.dialect.name == "postgresql":
            return postgres_writer.write(cast("psycopg.Connection[Any]", raw), rows, new, old)
        return sqlite_writer.write(cast("sqlite3.Connection", raw), rows, new, old)

    def _stale(self, old: Checkpoint | None) -> str:
        try:
            with self._transaction() as connection:
                there = self._checkpoint(connection)
        except (DBAPIError, psycopg.Error, sqlite3.Error) as error:
            raise self._failed(error) from error
        at = "nothing" if there is None else f"position {there.seq}, write {there.writes}"
        mine = "nothing" if old is None else f"position {old.seq}, write {old.writes}"
        return (
            f"another projector writes shard {self._shard} of cluster {self._cluster!r} in "
            f"{self._name}: this one continued from {mine}, the database has {at}. "
            "Run one projector per shard; this one stops."
        )

    def decisions(self, *, after: int = 0, unresolved: bool = False) -> list[Decision]:
        """Return decisions with a number above `after`, by number.

        `unresolved` leaves out records: they write nothing, so they have no outcome.

        Raises:
            StoreUnavailable: no connection.
        """
        table = tables.decisions
        query = (
            select(table)
            .where(
                table.c.cluster == self._cluster,
                table.c.shard == self._shard,
                table.c.number > after,
            )
            .order_by(table.c.number)
        )
        if unresolved:
            records = [record.__name__ for record in RECORDS]
            query = query.where(table.c.status.is_(None), table.c.action.not_in(records))
        try:
            with self._transaction() as connection:
                return [decision_of(row) for row in connection.execute(query).mappings()]
        except (DBAPIError, psycopg.Error, sqlite3.Error) as error:
            raise self._failed(error) from error

    def parked_after(self, seq: int) -> list[ParkedRow]:
        """Return what was parked at positions above `seq`, by position and ordinal.

        Raises:
            StoreUnavailable: no connection.
        """
        table = tables.parked
        query = (
            select(table)
            .where(
                table.c.cluster == self._cluster, table.c.shard == self._shard, table.c.seq > seq
            )
            .order_by(table.c.seq, table.c.ord)
        )
        try:
            with self._transaction() as connection:
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
        except (DBAPIError, psycopg.Error, sqlite3.Error) as error:
            raise self._failed(error) from error

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        if self._connection is None:
            self._connection = self._engine.connect()
        with self._connection.begin():
            yield self._connection

    def _failed(self, error: Exception) -> StoreUnavailable:
        """Drop the connection, whatever state it is in, and say what happened."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.invalidate()
                connection.close()
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()
        return StoreUnavailable(f"{self._name}: {reason[0] if reason else type(error).__name__}")

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._engine.dispose()


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
