"""Writing to SQLite: few statements of many rows.

Theory. Python's sqlite3 gives up the interpreter lock once per statement step, and a busy thread
makes the writer wait for it up to a switch interval each time. With one statement per row that
wait, not the disk, sets the pace, so rows go in by the hundred.

Durability: journal WAL, `synchronous=NORMAL`. A crash of the process loses nothing. A power failure
may lose the newest transactions, whole ones only, and with them their checkpoint: the projector
then folds the log again from the older checkpoint and, since deciding is pure, makes the same
decisions with the same ids. `epochs` handles losses of the log itself.

Invariant: all writes pass through one connection in one thread.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Any

from projector.schema.layout import COLUMNS, DOCUMENTS, GONE_AT, STEADY, TIMES, Row
from projector.times import utc_text
from projector.writing import statements
from projector.writing.checkpoint import Checkpoint
from projector.writing.rows import Rows

Errors = tuple[type[Exception], ...]
LOST: Errors = (sqlite3.OperationalError,)
MAYBE_DAMAGED: Errors = (sqlite3.DatabaseError,)
NO_PARTITION: Errors = ()
BAD_TEXT: Errors = ()
"""Classes of errors, as `projector.storage.store` handles them."""
_CHUNKS = (128, 32, 16, 8, 4, 2, 1)
"""Rows of a statement. Each is kept, with the values it last wrote: 5 MB; statements of 512 rows as
well took 10 MB more and 1 % more instructions."""
_MAX_PARAMETERS = 32_000  # SQLITE_MAX_VARIABLE_NUMBER is 32,766 since 3.32


class Texts(dict[datetime | None, str | None]):
    """Times as SQLite keeps them; most rows of a batch share the few times of its messages."""

    def __init__(self) -> None:
        self[None] = None

    def __missing__(self, time: datetime) -> str:
        made = self[time] = utc_text(time)
        return made


def write(
    connection: sqlite3.Connection, rows: Rows, new: Checkpoint, old: Checkpoint | None
) -> bool:
    """Write everything inside the transaction that is open; False: the checkpoint was not `old`."""
    if not write_checkpoint(connection, new, old):
        return False
    texts = Texts()
    for table in statements.ORDER:
        found = rows.tables.get(table)
        if found:
            _put(connection, table, found, texts)
    cluster = new.cluster
    if rows.tables.get("conclusions"):
        before = new.published - statements.KEPT_CONCLUSIONS
        connection.execute(statements.FORGET_CONCLUSIONS.format("?"), (cluster, before))
    for part in _chunks(rows.resolved, 3):
        source = "(VALUES " + ", ".join(["(?, ?, ?)"] * len(part)) + ")"
        named = f"(SELECT column1 AS status, column2 AS at, column3 AS id FROM {source}) AS v"
        sql = statements.RESOLVE.format(source=named, mark="?")
        flat: list[Any] = []
        for status, at, decision in part:
            flat += (status, utc_text(at), decision)
        connection.execute(sql, [*flat, cluster])
    for key in rows.forgotten:
        connection.execute(statements.forget("?"), (cluster, *key))
    for done in rows.settled:
        key_of = statements.parked_key(done.target)
        values = (utc_text(done.at), done.action, done.by, cluster, *key_of)
        connection.execute(statements.close_parked("?"), values)
    return True


def write_checkpoint(
    connection: sqlite3.Connection, new: Checkpoint, old: Checkpoint | None
) -> bool:
    """Write the checkpoint in place of `old`, or as the first; False: another is there."""
    values = [
        utc_text(value) if isinstance(value, datetime) else value
        for value in (getattr(new, name) for name in statements.CHECKPOINT_COLUMNS)
    ]
    if old is None:
        cursor = connection.execute(statements.first_checkpoint("?"), values)
    else:
        guard = (new.cluster, old.seq, old.writes)
        cursor = connection.execute(statements.next_checkpoint("?"), (*values[1:], *guard))
    return cursor.rowcount == 1


def _put(connection: sqlite3.Connection, table: str, rows: list[Row], texts: Texts) -> None:
    if steady := STEADY.get(table, ()):
        gone_at = COLUMNS[table].index(GONE_AT)
        # What SQLite is to assign it writes to the indexes again, changed or not.
        rows = [
            *_put_steady(connection, table, [r for r in rows if r[gone_at] is None], texts, steady),
            *(row for row in rows if row[gone_at] is not None),
        ]
    for part in _chunks(rows, len(COLUMNS[table])):
        sql = statements.insert_values(table, "?", len(part))
        connection.execute(sql, parameters(table, part, texts))


def _put_steady(
    connection: sqlite3.Connection,
    table: str,
    rows: list[Row],
    texts: Texts,
    steady: tuple[str, ...],
) -> Iterator[Row]:
    """Write rows whose `steady` columns are unchanged; give back pieces where some changed."""
    for part in _chunks(rows, len(COLUMNS[table])):
        sql = statements.insert_values(table, "?", len(part), steady)
        if connection.execute(sql, parameters(table, part, texts)).rowcount < len(part):
            yield from part


def parameters(table: str, rows: Iterable[Row], texts: Texts) -> list[Any]:
    """Return the values of rows of `table` in one list, as SQLite keeps them."""
    flat = list(chain.from_iterable(rows))
    width = len(COLUMNS[table])
    # Column by column and not cell by cell: the loops run in C.
    for index in TIMES[table]:
        flat[index::width] = [texts[time] for time in flat[index::width]]
    for index in DOCUMENTS[table]:
        flat[index::width] = [document.decode() for document in flat[index::width]]
    return flat


def _chunks(rows: list[Any], columns: int) -> Iterator[list[Any]]:
    """Cut rows into pieces of a few fixed sizes, so that few statements have to be prepared."""
    start = 0
    for size in _CHUNKS:
        if size * columns > _MAX_PARAMETERS:
            continue
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size
