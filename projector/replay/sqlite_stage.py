"""A stage in SQLite: a file beside the live one, attached to one connection.

Theory. What is put together can be put together again, so its file is written without journal on
disk and without sync; the transaction that puts it in place is one of the live file, as durable as
any other. The stage's file stays locked as long as its maker lives: a file that no process has
locked is what is left of one that died.

Invariant: outside of `merge` only the stage's own file is written.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

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
from projector.schema.layout import COLUMNS, MERGED, MODES
from projector.storage.database import DatabaseError, parse, writer
from projector.storage.loading import load_checkpoint
from projector.storage.pragmas import PAGE_BYTES
from projector.times import utc_text
from projector.writing import sqlite_writer, statements
from projector.writing.checkpoint import Checkpoint
from projector.writing.rows import Rows

_NAME = "rebuilt"
_BUSY_S = 60.0
_CACHE_KIB = 16 * 1024
_ROWS = 500
"""Rows of one statement; 36 columns at most, so parameters stay below SQLite's 32,766."""


class SqliteStage:
    """See `stage.Stage`."""

    def __init__(self, url: str, cluster: str) -> None:
        """Make the stage.

        Raises:
            DatabaseError: another rebuild is at work.
        """
        self._cluster = cluster
        live = Path(parse(url).database or "").resolve()
        self._file = live.with_name(f"{live.name}.rebuild")
        self.left_over = _remove_left_over(self._file)
        self._engine = writer(url)
        self._pooled = self._engine.connect()
        raw: Any = self._pooled.connection.driver_connection
        self._raw: sqlite3.Connection = raw
        self._raw.execute(f"PRAGMA busy_timeout = {int(_BUSY_S * 1000)}").close()
        # Sorting a key's index must not keep all keys of a long log in memory: SQLite sorts in
        # pieces of the size of its cache, and these in a file.
        self._raw.execute("PRAGMA temp_store = FILE").close()
        self._raw.execute("PRAGMA threads = 2").close()  # of sorting
        self._raw.execute(f"PRAGMA cache_size = -{_CACHE_KIB}").close()
        self._raw.execute(f"ATTACH ? AS {_NAME}", (str(self._file),))
        # A stage that fails is removed and not rolled back, so it keeps no journal.
        size = f"page_size = {PAGE_BYTES}"
        for pragma in (size, "locking_mode = EXCLUSIVE", "journal_mode = OFF", "synchronous = OFF"):
            self._raw.execute(f"PRAGMA {_NAME}.{pragma}").close()
        self._switching = False
        self._raw.execute("BEGIN")
        for table in MERGED:
            names = ", ".join(f'"{name}"' for name in COLUMNS[table])
            self._raw.execute(
                f'CREATE TABLE {_NAME}."{table}" AS SELECT {names} FROM main."{table}" WHERE 0'
            )
        self._raw.execute("COMMIT")

    def append(self, rows: Rows) -> None:
        """Add rows in one transaction, or in that of the switch-over."""
        if self._switching:
            self._put(rows)
            return
        self._raw.execute("BEGIN")
        self._put(rows)
        self._raw.execute("COMMIT")

    def _put(self, rows: Rows) -> None:
        texts = sqlite_writer.Texts()
        for table, found in appended(rows):
            width = len(COLUMNS[table])
            one = "(" + ", ".join("?" * width) + ")"
            flat = sqlite_writer.parameters(table, found, texts)
            # Many rows a statement: the interpreter's lock is given up once for all of them, and
            # another thread, which folds, keeps it for milliseconds.
            size = min(_ROWS, len(found))
            whole = len(found) // size * size * width
            text = f"INSERT INTO {_name(table)} VALUES "
            many = text + ", ".join([one] * size)
            for start in range(0, whole, size * width):
                self._raw.execute(many, flat[start : start + size * width])
            if whole < len(flat):
                ones = (flat[n : n + width] for n in range(whole, len(flat), width))
                self._raw.executemany(text + one, ones)
        for done in rows.settled:
            key = statements.parked_key(done.target)
            values = (utc_text(done.at), done.action, done.by, self._cluster, *key)
            self._raw.execute(statements.close_parked("?", f"{_NAME}.parked"), values)

    def checkpoint(self) -> Checkpoint | None:
        """Take the write lock; every projector waits for it until `merge` or `undo`."""
        self._pooled.begin()
        self._switching = True
        return load_checkpoint(self._pooled, self._cluster)

    def prepare(self) -> None:
        """Index the keys of what is to be compared with live rows."""
        for table in MERGED:
            if not self._is_empty(table):
                self._index(table)

    def merge(self, old: Checkpoint, new: Checkpoint, floor: int, *, loose: bool) -> int:
        """Put the new rows in place and commit; returns how many rows that changed."""
        changed = 0
        values = {"cluster": self._cluster, "floor": floor}
        leave_out_pruned(self._pooled, self._cluster, _name)
        if loose:
            self._one_row_a_key("decisions")
            names = {table: _name(table) for table in ("decisions", "outcomes")}
            self._raw.execute(RESOLVED.format(**names))
        for table in MERGED:
            name = _name(table)
            if not self._is_empty(table):
                self._one_row_a_key(table)
                text = merging.delete_unequal(table, name, "IS", floor=floor)
                changed += self._raw.execute(text, values).rowcount
            if self._is_empty(table):
                changed += self._fill(table)
            else:
                text = merging.insert_missing(table, name, floor=floor)
                changed += self._raw.execute(text, values).rowcount
        changed -= take_pruned_away(self._pooled, self._cluster, new.published)
        given = tuple(
            utc_text(value) if hasattr(value, "tzinfo") else value
            for value in checkpoint_values(old, new)
        )
        moved = self._raw.execute(statements.next_checkpoint("?"), given)
        assert moved.rowcount == 1, "no other process can write"
        self._pooled.commit()
        self._switching = False
        return changed

    def _is_empty(self, table: str) -> bool:
        return self._raw.execute(f'SELECT 1 FROM main."{table}" LIMIT 1').fetchone() is None

    def _index(self, table: str) -> None:
        key = ", ".join(f'"{name}"' for name in merging.keys(table))
        text = f'CREATE INDEX IF NOT EXISTS {_NAME}."key_{table}" ON "{table}" ({key})'
        self._raw.execute(text)

    def _one_row_a_key(self, table: str) -> None:
        self._index(table)
        name = _name(table)
        once = MODES[table] == "append"
        if not once and self._raw.execute(repeated(name, table)).fetchone():
            self._raw.execute(delete_repeated(name, table, "rowid"))

    def _fill(self, table: str) -> int:
        """Put everything into a table without rows, and make its indexes afterwards.

        An index that is made of sorted keys costs a third of one that grows row by row. No reader
        sees that it was away: readers have the database as it was before this transaction.
        """
        found = self._raw.execute(
            "SELECT name, sql FROM main.sqlite_master "
            "WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL ORDER BY name",
            (table,),
        ).fetchall()
        for name, _ in found:
            self._raw.execute(f'DROP INDEX main."{name}"')
        # What is written twice: which row stays is said by the table's mode, as in the live writer.
        text = statements.insert_from(table, _name(table), "WHERE true ORDER BY rowid")
        count = self._raw.execute(text).rowcount
        for _, text in found:
            self._raw.execute(text)
        return count

    def undo(self) -> None:
        """Give the write lock back."""
        self._pooled.rollback()
        self._switching = False

    def close(self) -> None:
        """Remove the file and release the live one."""
        self._pooled.rollback()
        self._pooled.invalidate()
        self._pooled.close()
        self._engine.dispose()
        self._file.unlink(missing_ok=True)


def _name(table: str) -> str:
    return f'{_NAME}."{table}"'


def _remove_left_over(file: Path) -> str:
    if not file.exists():
        return ""
    try:
        with closing(sqlite3.connect(file, timeout=0)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise DatabaseError(
                f"{file} is in use: another rebuild is at work; wait for it, or end it first"
            ) from None
    except sqlite3.DatabaseError:
        pass  # cut off in the middle of being written
    file.unlink()
    return f"file {file}"
