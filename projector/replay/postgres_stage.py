"""A stage in PostgreSQL: a schema of unlogged tables, filled by COPY.

Theory. What is put together can be put together again, so it is written without a log of its own
and without waiting for the disk; the transaction that puts it in place is as durable as any. An
advisory lock, of a transaction of another connection, tells a rebuild that is running from the
leftovers of one that died: the lock ends with that connection.

Invariant: outside of `merge` only the stage's own schema is written; weeks of history that the new
rows need are made in the live one, empty.
"""

import hashlib
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import psycopg

from projector.replay import merging
from projector.replay.stage import (
    RESOLVED,
    appended,
    checkpoint_values,
    delete_repeated,
    leave_out_pruned,
    repeated,
    take_pruned_away,
)
from projector.schema import partitions
from projector.schema.layout import MERGED, MODES
from projector.storage.database import DatabaseError, locked, shown, writer
from projector.storage.loading import load_checkpoint
from projector.writing import postgres_writer, statements
from projector.writing.checkpoint import Checkpoint
from projector.writing.rows import Rows, without_nul

_EQUAL = "IS NOT DISTINCT FROM"
_TIMEOUT_S = 3600.0


class PostgresStage:
    """See `stage.Stage`."""

    def __init__(self, url: str, cluster: str) -> None:
        """Make the stage.

        Raises:
            DatabaseError: another rebuild is at work, or schemas may not be made here.
        """
        # With the number of a shard of once: what an earlier version left is found by name.
        digest = hashlib.blake2b(f"0/{cluster}".encode(), digest_size=8).digest()
        self._schema = f"gatelog_rebuild_{digest.hex()}"
        self._cluster = cluster
        self._engine = writer(url, _TIMEOUT_S)
        self._pooled = self._engine.connect()
        raw: Any = self._pooled.connection.driver_connection
        self._connection: psycopg.Connection[Any] = raw
        self._held = ExitStack()
        self._switching = False
        self._weeks: set[datetime] = set()
        self.left_over = ""
        try:
            self._make(int.from_bytes(digest, "big", signed=True), url)
        except BaseException:
            self._release()
            raise

    def _make(self, lock: int, url: str) -> None:
        execute = self._connection.execute
        if not self._held.enter_context(locked(url, lock, wait=False)):
            raise DatabaseError(
                f"{shown(url)}: another rebuild of cluster "
                f"{self._cluster!r} is at work: wait for it, or end it first"
            )
        there = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
        if execute(there, (self._schema,)).fetchone():
            self.left_over = f"schema {self._schema}"
        try:
            self._sql(f'DROP SCHEMA IF EXISTS "{self._schema}" CASCADE')
            self._sql(f'CREATE SCHEMA "{self._schema}"')
        except psycopg.errors.InsufficientPrivilege:
            raise DatabaseError(
                f"{shown(url)}: a rebuild needs a schema of its own: GRANT CREATE ON DATABASE ... "
                "TO the user of database.url"
            ) from None
        for table in MERGED:
            self._sql(f'CREATE UNLOGGED TABLE {self._name(table)} (LIKE "{table}")')
        self._connection.commit()

    def _sql(self, text: str, values: Any = None) -> "psycopg.Cursor[Any]":
        return self._connection.execute(text.encode(), values)

    def _name(self, table: str) -> str:
        return f'"{self._schema}"."{table}"'

    def append(self, rows: Rows) -> None:
        """Add rows in one transaction, or in that of the switch-over."""
        unknown = partitions.weeks_of(rows.tables) - self._weeks
        if unknown:
            with self._connection.transaction():
                partitions.ensure(self._pooled, self._cluster, unknown)
            self._weeks |= unknown
        try:
            with self._connection.transaction():
                self._copy(rows)
        except psycopg.DataError:
            cleaned = without_nul(rows)
            if cleaned == rows:
                raise
            with self._connection.transaction():
                self._copy(cleaned)

    def _copy(self, rows: Rows) -> None:
        if not self._switching:
            self._sql("SET LOCAL synchronous_commit = off")
        with self._connection.cursor() as cursor:
            for table, found in appended(rows):
                postgres_writer.copy_rows(self._connection, table, self._name(table), found)
            for done in rows.settled:
                key = statements.parked_key(done.target)
                values = (done.at, done.action, done.by, self._cluster, *key)
                cursor.execute(statements.close_parked("%s", self._name("parked")).encode(), values)

    def prepare(self) -> None:
        """Let the server know what is in the stage, so that it joins as it should.

        It joins by keys alone; to sample documents and what is folded costs several times more.
        """
        for table in MERGED:
            names = ", ".join(f'"{name}"' for name in merging.keys(table))
            self._sql(f"ANALYZE {self._name(table)} ({names})")
        self._connection.commit()

    def checkpoint(self) -> Checkpoint | None:
        """Take the checkpoint's row; every projector waits for it until `merge` or `undo`."""
        self._connection.rollback()
        self._switching = True
        self._sql(
            "SELECT 1 FROM checkpoints WHERE cluster = %s AND shard = 0 FOR UPDATE",
            (self._cluster,),
        )
        return load_checkpoint(self._pooled, self._cluster)

    def merge(self, old: Checkpoint, new: Checkpoint, floor: int, *, loose: bool) -> int:
        """Put the new rows in place and commit; returns how many rows that changed."""
        changed = 0
        for setting in ("enable_nestloop = off", "work_mem = '64MB'"):
            self._sql(f"SET LOCAL {setting}")
        values = {"cluster": self._cluster, "floor": floor}
        for table in MERGED:
            name = self._name(table)
            once = MODES[table] == "append"
            if not once and self._sql(repeated(name, table)).fetchone():
                self._sql(delete_repeated(name, table, "ctid"))
        leave_out_pruned(self._pooled, self._cluster, self._name)
        if loose:
            names = {table: self._name(table) for table in ("decisions", "outcomes")}
            self._sql(RESOLVED.format(**names))
        for table in MERGED:
            name = self._name(table)
            for text in (
                merging.delete_unequal(table, name, _EQUAL, floor=floor),
                merging.insert_missing(table, name, floor=floor),
            ):
                changed += self._sql(_marked(text), values).rowcount
        changed -= take_pruned_away(self._pooled, self._cluster, new.published)
        moved = self._sql(statements.next_checkpoint("%s"), checkpoint_values(old, new))
        assert moved.rowcount == 1, "the checkpoint's row is locked"
        self._connection.commit()
        self._switching = False
        return changed

    def undo(self) -> None:
        """Give the checkpoint's row back."""
        self._connection.rollback()
        self._switching = False

    def close(self) -> None:
        """Drop the schema and release the connection."""
        try:
            self._connection.rollback()
            self._sql(f'DROP SCHEMA IF EXISTS "{self._schema}" CASCADE')
            self._connection.commit()
        except psycopg.Error:
            pass  # the connection is gone: the next rebuild removes it
        finally:
            self._release()

    def _release(self) -> None:
        self._held.close()
        self._pooled.invalidate()
        self._pooled.close()
        self._engine.dispose()


def _marked(text: str) -> str:
    """Return the text with psycopg's marks for its named parameters."""
    for name in ("cluster", "floor"):
        text = text.replace(f":{name}", f"%({name})s")
    return text
