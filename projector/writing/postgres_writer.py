"""Writing to PostgreSQL: one round trip for a few rows, COPY for many.

Theory. A live event touches a handful of rows in many tables: those go out in one pipeline, so its
latency is one round trip and one commit. A full batch is thousands of rows in few tables: those are
copied (binary) into a temporary table of the connection and written from there by one statement;
history, which nothing conflicts with, is copied straight in. (Measured on one machine, rows of 26
columns: unnest 18,000/s, json_to_recordset 29,000/s, COPY 70,000/s.)

Durability: `synchronous_commit` is the server's; on, unless its owner turned it off.

Invariant: everything happens in the one transaction that the caller ends.
"""

from typing import Any

import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from sqlalchemy import BigInteger, Boolean, Double, Integer, LargeBinary

from projector.schema.layout import COLUMNS, MODES, Row
from projector.tables import UtcTime, metadata
from projector.tables.base import Document
from projector.writing import statements
from projector.writing.checkpoint import Checkpoint
from projector.writing.rows import Rows
from projector.writing.values import Json

FEW = 24
"""Up to this many rows of a table go through the pipeline."""

Errors = tuple[type[Exception], ...]
LOST: Errors = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.InternalError_,  # of the server, such as a file that cannot grow
)
MAYBE_DAMAGED: Errors = (psycopg.InternalError,)
NO_PARTITION: Errors = (psycopg.errors.CheckViolation,)
BAD_TEXT: Errors = (psycopg.DataError,)
"""Classes of errors, as `projector.storage.store` handles them."""


class _JsonText(Dumper):
    """Json to jsonb, text format."""

    oid = psycopg.adapters.types["jsonb"].oid

    def dump(self, obj: Json) -> bytes:
        return bytes(obj)


class _JsonBinary(Dumper):
    """Json to jsonb, binary format: version 1 and the text."""

    format = Format.BINARY
    oid = psycopg.adapters.types["jsonb"].oid

    def dump(self, obj: Json) -> bytes:
        return b"\x01" + obj


def limit_of(statement_timeout_s: float) -> int:
    """Return a limit as PostgreSQL takes it, in milliseconds; 0 for none."""
    return int(statement_timeout_s * 1000)


def connect_options(
    connection: "psycopg.Connection[Any]", limit_ms: int, *, read_only: bool = False
) -> None:
    """Set up a new connection; behind a pooler nothing is set that another client would inherit."""
    connection.adapters.register_dumper(Json, _JsonText)
    connection.adapters.register_dumper(Json, _JsonBinary)
    backend = connection.execute("SELECT pg_backend_pid()").fetchone()
    if backend != (connection.info.backend_pid,):
        # A pooler answered: it gave a number of its own.
        connection.prepare_threshold = None
    else:
        connection.execute(
            f"SET TIME ZONE 'UTC'; SET statement_timeout = {limit_ms}; "
            f"SET default_transaction_read_only = {'on' if read_only else 'off'}".encode()
        )
    connection.commit()


def pooled(connection: "psycopg.Connection[Any]") -> bool:
    """Return whether a pooler may give each transaction of a connection another session."""
    return connection.prepare_threshold is None


def _type_name(kind: Any) -> str:
    if isinstance(kind, UtcTime):
        return "timestamptz"
    if isinstance(kind, type(Document)):
        return "jsonb"
    for known, name in (
        (BigInteger, "int8"),
        (Boolean, "bool"),
        (Double, "float8"),
        (Integer, "int4"),
        (LargeBinary, "bytea"),
    ):
        if isinstance(kind, known):
            return name
    return "text"


TYPES = {
    table: [_type_name(metadata.tables[table].c[name].type) for name in columns]
    for table, columns in COLUMNS.items()
}
"""Types of the written columns, for COPY."""


def write(
    connection: "psycopg.Connection[Any]", rows: Rows, new: Checkpoint, old: Checkpoint | None
) -> bool:
    """Write everything inside the open transaction; False: the checkpoint was not `old`."""
    many = [t for t in statements.ORDER if len(rows.tables.get(t, ())) > FEW]
    with connection.cursor() as guard:
        try:
            with connection.pipeline():
                write_checkpoint(guard, new, old)
                for table in statements.ORDER:
                    few = rows.tables.get(table, [])
                    if 0 < len(few) <= FEW:
                        text = statements.insert_values(table, "%s")
                        with connection.cursor() as cursor:
                            cursor.executemany(text, few)
                if not many:
                    _small_writes(connection, rows, new)
        except psycopg.IntegrityError:
            # Sent before the answer to the guard was known: the other projector's rows are there.
            if guard.rowcount != 0:
                raise
        if guard.rowcount != 1:
            return False
    for table in many:
        _copy(connection, table, rows.tables[table])
    if many:
        # After the copies: an outcome may come in the same batch as its decision.
        _small_writes(connection, rows, new)
    return True


def write_checkpoint(
    cursor: "psycopg.Cursor[Any]", new: Checkpoint, old: Checkpoint | None
) -> None:
    """Write the checkpoint in place of `old`, or as the first; no row of the cursor: another is."""
    values = [getattr(new, name) for name in statements.CHECKPOINT_COLUMNS]
    if old is None:
        cursor.execute(statements.first_checkpoint("%s"), values)
    else:
        guard = (new.cluster, old.seq, old.writes)
        cursor.execute(statements.next_checkpoint("%s"), (*values[1:], *guard))


def _small_writes(connection: "psycopg.Connection[Any]", rows: Rows, new: Checkpoint) -> None:
    cluster = new.cluster
    with connection.cursor() as cursor:
        if rows.tables.get("conclusions"):
            before = new.published - statements.KEPT_CONCLUSIONS
            cursor.execute(statements.FORGET_CONCLUSIONS.format("%s"), (cluster, before))
        if rows.resolved:
            statuses, times, ids = (list(column) for column in zip(*rows.resolved, strict=True))
            source = "unnest(%s::text[], %s::timestamptz[], %s::text[]) AS v(status, at, id)"
            text = statements.RESOLVE.format(source=source, mark="%s")
            cursor.execute(text, (statuses, times, ids, cluster))
        if rows.forgotten:
            keys = [(cluster, *key) for key in rows.forgotten]
            cursor.executemany(statements.forget("%s"), keys)
        for done in rows.settled:
            key_of = statements.parked_key(done.target)
            values = (done.at, done.action, done.by, cluster, *key_of)
            cursor.execute(statements.close_parked("%s"), values)


def _copy(connection: "psycopg.Connection[Any]", table: str, rows: list[Row]) -> None:
    match MODES[table]:
        case "append":
            copy_rows(connection, table, f'"{table}"', rows)
        case "keep":
            # Keys hardly ever come twice, and writing past a stage costs half as much.
            try:
                with connection.transaction():
                    copy_rows(connection, table, f'"{table}"', rows)
            except psycopg.errors.UniqueViolation:
                _stage(connection, table, rows)
        case "replace":
            _stage(connection, table, rows)


def _stage(connection: "psycopg.Connection[Any]", table: str, rows: list[Row]) -> None:
    target = f"stage_{table}"
    # With defaults: a later release may have added a column while this one runs.
    like = f'(LIKE "{table}" INCLUDING DEFAULTS)'
    # The next user of a session behind a pooler is another client: no table of ours stays.
    after = "DROP" if pooled(connection) else "DELETE ROWS"
    connection.execute(f'CREATE TEMP TABLE IF NOT EXISTS "{target}" {like} ON COMMIT {after}')
    copy_rows(connection, table, f'"{target}"', rows)
    connection.execute(statements.insert_from(table, f'"{target}"'))


def copy_rows(
    connection: "psycopg.Connection[Any]", table: str, target: str, rows: list[Row]
) -> None:
    """Copy rows of `table` into `target`, a quoted name of a table with the same columns."""
    names = ", ".join(f'"{name}"' for name in COLUMNS[table])
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {target} ({names}) FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.set_types(TYPES[table])
        for row in rows:
            copy.write_row(row)
