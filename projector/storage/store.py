"""The store: loads the start state of a projector, and commits a batch as a transaction.

Theory. Rows, history, decisions and checkpoint are written together or not at all. The checkpoint
is compared and set: a projector that loses that comparison is no longer the cluster's and must
stop. When a connection breaks during a commit, its outcome is unknown; `writer` and `writes` in the
checkpoint show it, so the same call is simply made again.

Invariant: after `commit` returned, the next `load` (here or elsewhere) gives that checkpoint and
the state it covers.
"""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Engine, delete, insert, select, text
from sqlalchemy.exc import DBAPIError

from podgroup.log.codec import Conclusions
from podgroup.log.events import Decision
from podgroup.log.journal import ParkedRow
from projector import tables
from projector.schema import partitions
from projector.storage.damage import REBUILD, damage
from projector.storage.database import DatabaseMoved, Draft, shown, writer
from projector.storage.loading import (
    Loaded,
    load_checkpoint,
    load_decisions,
    load_owed,
    load_parked,
    load_state,
)
from projector.writing import sqlite_writer
from projector.writing.checkpoint import Checkpoint
from projector.writing.rows import Rows, without_nul

REBUILT = "rebuilt/"
"""Begin of `writer` in a checkpoint that a rebuild has put in place."""


class Writer(Protocol):
    """The statements for one kind of database: modules `sqlite_writer` and `postgres_writer`."""

    LOST: tuple[type[Exception], ...]
    """Errors after which the same call may be made again."""
    MAYBE_DAMAGED: tuple[type[Exception], ...]
    NO_PARTITION: tuple[type[Exception], ...]
    BAD_TEXT: tuple[type[Exception], ...]

    def write(
        self, connection: Any, rows: Rows, new: Checkpoint, old: Checkpoint | None, /
    ) -> bool:
        """Write inside the open transaction; False: the checkpoint was not `old`."""


def _writer_of(engine: Engine) -> Writer:
    if engine.dialect.name == "postgresql":
        from projector.writing import postgres_writer

        return postgres_writer
    return sqlite_writer


_END_OTHERS = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid()
AND usename = current_user AND datname = current_database()
"""


class StoreUnavailable(Exception):
    """The database cannot be reached or is full; the same call may be made again later."""


class StoreDamaged(Exception):
    """The database is not as it was written; the message says what to do."""


class StaleProjector(Exception):
    """Another projector writes this cluster, so this projector must stop."""


class ReadModelReplaced(StaleProjector):
    """The rows of this cluster were rebuilt meanwhile; load them and go on."""


class _GuardFailed(Exception):
    """The checkpoint was not the expected one; undoes the transaction on its way up."""


class Store(Protocol):
    """The part of a database that the projection needs. Calls block and belong to one thread."""

    def load(self) -> Loaded | None:
        """Return the checkpoint and the state it covers; None before the first commit."""

    def commit(self, rows: Rows, new: Checkpoint, old: Checkpoint | None) -> Checkpoint:
        """Write a batch; `old` is the checkpoint it builds on. Returns the stored checkpoint."""

    def decisions(self, *, after: int = 0, unresolved: bool = False) -> list[Decision]:
        """Return decisions by number, above `after`, all or only those without an outcome."""

    def owed(self, after: int, until: int, limit: int, *, records: bool) -> list[Conclusions]:
        """Return the first `limit` decisions without outcome whose number is in (after, until]."""

    def parked_after(self, seq: int) -> list[ParkedRow]:
        """Return events that were parked at positions above `seq`."""

    def write_replicas(self, rows: Sequence[Struct]) -> None:
        """Replace the rows of `replicas`."""

    def close(self) -> None:
        """Release the database."""


class SqlStore:
    """The store in PostgreSQL or SQLite, for one cluster.

    `alone`: the caller knows that it is the cluster's only writer, so the first `load` ends
    sessions that others have left open at PostgreSQL. A process that was stopped in the middle of a
    transaction, or a host that vanished, would hold the checkpoint's lock for minutes.

    `draft`: how a read model in the making is reached.
    """

    def __init__(
        self,
        url: str,
        cluster: str,
        *,
        statement_timeout_s: float = 60.0,
        alone: bool = False,
        draft: Draft | None = None,
    ) -> None:
        # With the number of a shard of once: sessions of an earlier version are ended by name too.
        owner = f"0/{cluster}" if draft is None else f"draft/{cluster}"
        self._engine: Engine = writer(url, statement_timeout_s, owner, draft=draft)
        self._database = _writer_of(self._engine)
        self._lost: tuple[type[Exception], ...] = (DBAPIError, *self._database.LOST)
        self._alone = alone
        self._name = shown(url)
        self._cluster = cluster
        self._connection: Connection | None = None
        self._in_doubt = False
        self._weeks: set[datetime] = set()
        self._divided = False
        self.writer = uuid.uuid4().hex

    def load(self) -> Loaded | None:
        """Return the checkpoint and the live rows it covers, None on a fresh database.

        Raises:
            StoreUnavailable: no connection.
            StoreDamaged: the rows are not as they were written.
        """
        with self._transaction() as connection:
            if self._alone and self._engine.dialect.name == "postgresql":
                connection.execute(text(_END_OTHERS))
                self._alone = False
            others = tables.checkpoints.c
            query = select(others.shard).where(others.cluster == self._cluster, others.shard != 0)
            if (shard := connection.scalar(query.limit(1))) is not None:
                raise StoreDamaged(
                    f"{self._name} has rows of shard {shard} of cluster {self._cluster!r}, and a "
                    "cluster has one projector now: begin under another `cluster` name "
                    "(docs/upgrade.md)"
                )
            try:
                return load_state(connection, self._cluster)
            except msgspec.MsgspecError as error:
                raise StoreDamaged(
                    f"{self._name}: a column `folded` cannot be read ({error}): {REBUILD}"
                ) from error

    def decisions(self, *, after: int = 0, unresolved: bool = False) -> list[Decision]:
        """Return decisions with a number above `after`, by number.

        Raises:
            StoreUnavailable: no connection.
        """
        with self._transaction() as connection:
            return load_decisions(connection, self._cluster, after, unresolved=unresolved)

    def owed(self, after: int, until: int, limit: int, *, records: bool) -> list[Conclusions]:
        """Return the first `limit` decisions without outcome whose number is in (after, until].

        By number; with `records` also decisions that only record, without an outcome to wait for.

        Raises:
            StoreUnavailable: no connection.
        """
        with self._transaction() as connection:
            return load_owed(connection, self._cluster, after, until, limit, records=records)

    def parked_after(self, seq: int) -> list[ParkedRow]:
        """Return events that were parked at positions above `seq`, by position and ordinal.

        Raises:
            StoreUnavailable: no connection.
        """
        with self._transaction() as connection:
            return load_parked(connection, self._cluster, seq)

    def write_replicas(self, rows: Sequence[Struct]) -> None:
        """Replace the rows of `replicas` by the replicas of all parts.

        Raises:
            StoreUnavailable: no connection.
        """
        table = tables.replicas
        with self._transaction() as connection:
            connection.execute(delete(table).where(table.c.cluster == self._cluster))
            if rows:
                values = [{"cluster": self._cluster, **msgspec.structs.asdict(r)} for r in rows]
                connection.execute(insert(table), values)

    def commit(
        self, rows: Rows, new: Checkpoint, old: Checkpoint | None, *, again: bool = False
    ) -> Checkpoint:
        """Write one batch in one transaction. `again`: the partitions were made a second time.

        Raises:
            StaleProjector: the checkpoint in the database is not `old` (and not `new` either).
            ReadModelReplaced: because a rebuild has put another read model in its place.
            StoreUnavailable: the batch is not known to be written; call again with the same
                arguments.
            StoreDamaged: calling again does not help.
        """
        writes = 1 if old is None else old.writes + 1
        new = msgspec.structs.replace(new, writes=writes, writer=self.writer)
        self._make_room(rows)
        try:
            with self._transaction() as connection:
                if self._in_doubt and self._is_there(connection, new):
                    self._in_doubt = False
                    return new
                self._in_doubt = True
                if not self._write(connection, rows, new, old):
                    raise _GuardFailed
            self._in_doubt = False
        except _GuardFailed:
            raise self._stale(old) from None
        except self._database.NO_PARTITION:
            # No partition for a row: a week that we knew was pruned meanwhile.
            if again:
                raise
            self._weeks.clear()
            self._divided = False
            return self.commit(rows, new, old, again=True)
        except self._database.BAD_TEXT:
            cleaned = without_nul(rows)
            if cleaned == rows:
                raise
            return self.commit(cleaned, new, old)
        return new

    def _make_room(self, rows: Rows) -> None:
        """Make the partitions that rows need, in a transaction of their own."""
        if self._engine.dialect.name != "postgresql":
            return
        unknown = partitions.weeks_of(rows.tables) - self._weeks
        if unknown or not self._divided:
            with self._transaction() as connection:
                partitions.ensure(connection, self._cluster, unknown)
            self._weeks |= unknown
            self._divided = True

    def _is_there(self, connection: Connection, new: Checkpoint) -> bool:
        there = load_checkpoint(connection, self._cluster)
        return there is not None and (there.writer, there.writes) == (new.writer, new.writes)

    def _write(
        self, connection: Connection, rows: Rows, new: Checkpoint, old: Checkpoint | None
    ) -> bool:
        raw = connection.connection.driver_connection
        return self._database.write(raw, rows, new, old)

    def _stale(self, old: Checkpoint | None) -> StaleProjector:
        with self._transaction() as connection:
            there = load_checkpoint(connection, self._cluster)
        if there is not None and there.writer.startswith(REBUILT):
            return ReadModelReplaced(f"the read model in {self._name} was rebuilt")
        at = "nothing" if there is None else f"position {there.seq}, write {there.writes}"
        mine = "nothing" if old is None else f"position {old.seq}, write {old.writes}"
        return StaleProjector(
            f"another projector writes cluster {self._cluster!r} in "
            f"{self._name}: this one continued from {mine}, the database has {at}. "
            "Run one projector per cluster; this one stops."
        )

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
            with self._connection.begin():
                yield self._connection
        except DatabaseMoved as error:
            self._failed(error)
            raise ReadModelReplaced(str(error)) from error
        except self._lost as error:
            raise self._failed(error) from error
        except self._database.MAYBE_DAMAGED as error:
            if not damage(error):
                raise
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> StoreUnavailable | StoreDamaged:
        """Drop the connection in any state, and return the error to raise."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.invalidate()
                connection.close()
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()
        said = f"{self._name}: {reason[0] if reason else type(error).__name__}"
        remedy = damage(error)
        return StoreDamaged(f"{said}: {remedy}") if remedy else StoreUnavailable(said)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._engine.dispose()
