"""A new read model in PostgreSQL: a schema beside the old, whose tables become partitions.

Theory. Each cluster has a partition of every table that is made from the log (`schema.partitions`).
A new read model has tables of the same names in a schema of its own, made like those in force, with
the indexes that people have added. Putting it in place is one transaction: the cluster's partitions
are detached, the new ones attached. Views, grants, triggers, publications and other clusters' rows
belong to the tables that stay, so nothing has to be made again or granted; no row is read either,
since a check constraint equals the bound.

Detaching waits for transactions that read the tables, and all later transactions wait behind it. So
it waits for `_PATIENCE_MS` only, less than the server takes to look for a deadlock, and gives way:
a deadlock never ends a reader's transaction.

An advisory lock, held by a transaction of another connection, marks a new read model that is being
made; without the lock it is the leftover of a process that died. The catalog shows by its
partitions which read model is in force.

Invariant: until the transaction commits only the new schema is written.
"""

import re
from contextlib import ExitStack, suppress
from typing import Any

import psycopg
import sqlalchemy as sa

from projector import tables
from projector.replay.carry import take_over, take_pruned_away
from projector.schema import partitions
from projector.schema.partitions import PARTS
from projector.storage.database import DatabaseError, Draft, StillRead, locked, shown, writer
from projector.storage.loading import load_checkpoint
from projector.writing.checkpoint import Checkpoint
from projector.writing.postgres_writer import write_checkpoint

TIMEOUT_S = 3600.0
_PATIENCE_MS = 500
_IN_FORCE = """
SELECT 1 FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  JOIN pg_class p ON p.oid = i.inhparent
 WHERE c.relnamespace = n.oid AND p.relnamespace = CAST(%s AS regnamespace)
"""
_SCHEMAS = (
    f"SELECT nspname, EXISTS ({_IN_FORCE}) FROM pg_namespace n WHERE starts_with(nspname, %s)"
)
_TABLES = """
SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
   AND relnamespace = CAST(%s AS regnamespace)
"""
_DETACHED = f"{_TABLES} AND relname = ANY (%s)"


class NewInPostgres:
    """See `new_model.NewModel`."""

    def __init__(self, url: str, cluster: str) -> None:
        """Begin the schema.

        Raises:
            DatabaseError: another new read model is being made, or schemas may not be made here.
        """
        self.url = url
        self._cluster = cluster
        self._engine = writer(url, TIMEOUT_S)
        self._held = ExitStack()
        self._taken: sa.Connection | None = None
        try:
            self._begin()
        except BaseException:
            self._release()
            raise

    def _begin(self) -> None:
        with self._engine.begin() as connection:
            home = str(connection.exec_driver_sql("SELECT current_schema()").scalar())
        mark = partitions.digest(home, self._cluster)
        lock = int.from_bytes(bytes.fromhex(mark), "big")
        if not self._held.enter_context(locked(self.url, lock, wait=False)):
            raise DatabaseError(
                f"{shown(self.url)}: another rebuild of cluster {self._cluster!r} is at work: wait "
                "for it, or end it first"
            )
        quote = self._engine.dialect.identifier_preparer.quote
        self._home, prefix = quote(home), f"gatelog_{mark}_"
        with self._engine.begin() as connection:
            found = connection.exec_driver_sql(_SCHEMAS, (self._home, prefix)).all()
        left = [self._drop(name) for name, in_force in found if not in_force]
        with self._engine.begin() as connection:
            mine = partitions.own(connection, self._cluster)
            names = [partitions.name_of(table, self._cluster) for table in PARTS]
            there = connection.exec_driver_sql(_DETACHED, (self._home, names)).scalars().all()
            for name in there if mine else ():
                connection.exec_driver_sql(f"DROP TABLE {self._home}.{quote(name)}")
        self.left_over = ", ".join(filter(None, left))
        numbers = [int(number[1]) for name, _ in found if (number := re.search(r"_(\d+)$", name))]
        self._schema = f"{prefix}{max([0, *numbers]) + 1}"
        self.draft = Draft(self._schema)
        self._useless = [self._schema]
        self._make()

    def _make(self) -> None:
        with self._engine.begin() as connection:
            try:
                connection.exec_driver_sql(f"CREATE SCHEMA {self._schema}")
            except sa.exc.ProgrammingError as error:
                if not isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
                    raise
                raise DatabaseError(
                    f"{shown(self.url)}: a new read model needs a schema of its own: GRANT CREATE "
                    "ON DATABASE ... TO the user of database.url"
                ) from None
            for name in tables.metadata.tables:
                divided = " PARTITION BY LIST (cluster)" if name in PARTS else ""
                connection.exec_driver_sql(
                    f"CREATE TABLE {self._schema}.{name} "
                    f"(LIKE {self._home}.{name} INCLUDING ALL){divided}"
                )

    def _drop(self, schema: str) -> str:
        """Drop a schema and its tables, unless a foreign object depends on it.

        Returns the name of the dropped schema, "" if it stays.
        """
        quote = self._engine.dialect.identifier_preparer.quote
        with suppress(sa.exc.DBAPIError), self._engine.begin() as connection:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {_PATIENCE_MS}")
            for name in connection.exec_driver_sql(_TABLES, (quote(schema),)).scalars().all():
                connection.exec_driver_sql(f"DROP TABLE {quote(schema)}.{quote(name)}")
            connection.exec_driver_sql(f"DROP SCHEMA {quote(schema)}")
            return f"schema {schema}"
        return ""

    def complete(self, floor: int) -> None:
        """Add the rows that the log lacks, and ANALYZE the tables."""
        live = self._engine.connect()
        engine = writer(self.url, TIMEOUT_S, draft=self.draft)
        with live, engine.begin() as new:
            old = load_checkpoint(live, self._cluster)
            mine = partitions.own(live, self._cluster)
            weeks = {
                part.begin
                for name in partitions.PARTITIONED
                for part in partitions.found(live, name)
                if name in mine and part.parent == partitions.quoted(live, mine[name])
            }
            partitions.ensure(new, self._cluster, weeks)
            take_over(new, f"{self._home}.", self._cluster, floor)
            take_pruned_away(new, live, self._cluster, old.published if old is not None else 0)
            for place in partitions.own(new, self._cluster).values():
                new.exec_driver_sql(f"ANALYZE {partitions.quoted(new, place)}")
        engine.dispose()

    def take(self) -> Checkpoint | None:
        """Take the checkpoint's row; every projector of the cluster waits for it."""
        self._taken = self._engine.connect()
        self._taken.begin()
        self._taken.exec_driver_sql(
            "SELECT 1 FROM checkpoints WHERE cluster = %s AND shard = 0 FOR UPDATE",
            (self._cluster,),
        )
        return load_checkpoint(self._taken, self._cluster)

    def give_back(self) -> None:
        """Give the checkpoint's row back."""
        if self._taken is not None:
            self._taken.rollback()
            self._taken.close()
            self._taken = None

    def put_in_place(self, old: Checkpoint | None, new: Checkpoint) -> None:
        """Attach the new tables in place of the old tables, and commit."""
        assert self._taken is not None
        try:
            before = self._swap(self._taken)
        except sa.exc.OperationalError as error:
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable):
                raise
            raise StillRead(f"{shown(self.url)}: {error.orig}") from None
        self._write(self._taken, new, old)
        self._taken.commit()
        self._taken.close()
        self._taken = None
        self._clear(before)

    def _swap(self, connection: sa.Connection) -> dict[str, tuple[str, str]]:
        """Attach the new partitions; returns the detached partitions, by table."""
        execute = connection.exec_driver_sql
        execute(f"SET LOCAL lock_timeout = {_PATIENCE_MS}")
        before = partitions.own(connection, self._cluster)
        # All of them before anything is changed.
        every = ", ".join(f"ONLY {self._home}.{table}" for table in PARTS)
        execute(f"LOCK TABLE {every} IN ACCESS EXCLUSIVE MODE")
        for table in PARTS:
            home, beside = f"{self._home}.{table}", f"{self._schema}.{table}"
            part = f"{self._schema}.{partitions.name_of(table, self._cluster)}"
            if table in before:
                there = partitions.quoted(connection, before[table])
                execute(f"ALTER TABLE {home} DETACH PARTITION {there}")
            execute(f"ALTER TABLE {beside} DETACH PARTITION {part}")
            partitions.attach(connection, home, part, self._cluster)
        return before

    def _write(self, connection: sa.Connection, new: Checkpoint, old: Checkpoint | None) -> None:
        if old is None:
            # The first read model of the cluster: the records that a projector sends are here.
            connection.exec_driver_sql(
                f"INSERT INTO {self._home}.conclusions SELECT * FROM {self._schema}.conclusions"
            )
        raw: Any = connection.connection.driver_connection
        with raw.cursor() as cursor:
            write_checkpoint(cursor, new, old)
            if cursor.rowcount != 1:  # a checkpoint that is there is locked
                raise DatabaseError(
                    f"{shown(self.url)}: a projector began the read model of cluster "
                    f"{self._cluster!r} meanwhile: nothing was put in place; run it again"
                )

    def _clear(self, before: dict[str, tuple[str, str]]) -> None:
        """Drop the read model that was in force before, and tables that the new schema does not
        need.
        """
        self._useless = sorted({schema for schema, _ in before.values()})
        with suppress(sa.exc.DBAPIError), self._engine.begin() as connection:
            for table in tables.metadata.tables:
                connection.exec_driver_sql(f"DROP TABLE {self._schema}.{table}")
            for place in before.values():
                connection.exec_driver_sql(f"DROP TABLE {partitions.quoted(connection, place)}")

    def close(self) -> None:
        """Drop the schema that is not in force."""
        self.give_back()
        quote = self._engine.dialect.identifier_preparer.quote
        for schema in self._useless:
            if quote(schema) != self._home:
                self._drop(schema)
        self._release()

    def _release(self) -> None:
        self._held.close()
        self._engine.dispose()
