"""A stage in SQLite: a file beside the live one, attached to one connection.

Theory. What is put together can be put together again, so its file is written without journal on
disk and without sync; the transaction that puts it in place is one of the live file, as durable as
any other. The stage's file stays locked as long as its maker lives: a file that nobody has locked
is what is left of one that died.

Invariant: outside of `merge` only the stage's own file is written.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from projector import sqlite_writer, statements
from projector.checkpoint import Checkpoint
from projector.database import DatabaseError, parse, writer
from projector.loading import load_checkpoint
from projector.record_rows import Row
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
from projector.rows import COLUMNS, Rows
from projector.tables.base import utc_text

_NAME = "rebuilt"
_BUSY_S = 60.0


class SqliteStage:
    """See `stage.Stage`."""

    def __init__(self, url: str, cluster: str, shard: int) -> None:
        """Make the stage.

        Raises:
            DatabaseError: another rebuild is at work.
        """
        self._cluster, self._shard = cluster, shard
        live = Path(parse(url).database or "").resolve()
        self._file = live.with_name(f"{live.name}.rebuild")
        self.left_over = _remove_left_over(self._file)
        self._engine = writer(url)
        self._pooled = self._engine.connect()
        raw: Any = self._pooled.connection.driver_connection
        self._raw: sqlite3.Connection = raw
        self._raw.execute(f"PRAGMA busy_timeout = {int(_BUSY_S * 1000)}").close()
        # Sorting a key's index must not keep all keys of a long log in memory.
        self._raw.execute("PRAGMA temp_store = FILE").close()
        self._raw.execute(f"ATTACH ? AS {_NAME}", (str(self._file),))
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = MEMORY", "synchronous = OFF"):
            self._raw.execute(f"PRAGMA {_NAME}.{pragma}").close()
        self._switching = False
        self._raw.execute("BEGIN")
        for table in merging.TABLES:
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
        for table, found in appended(rows):
            marks = ", ".join("?" * len(COLUMNS[table]))
            text = f'INSERT INTO {_NAME}."{table}" VALUES ({marks})'
            self._raw.executemany(text, converted(table, found))
        for done in rows.settled:
            key = statements.parked_key(done.target)
            values = (utc_text(done.at), done.action, done.by, self._cluster, self._shard, *key)
            self._raw.execute(statements.settle("?", f"{_NAME}.parked"), values)

    def checkpoint(self) -> Checkpoint | None:
        """Take the write lock; every projector waits for it until `merge` or `undo`."""
        self._pooled.begin()
        self._switching = True
        return load_checkpoint(self._pooled, self._cluster, self._shard)

    def merge(self, old: Checkpoint, new: Checkpoint, floor: int, *, loose: bool) -> int:
        """Put the new rows in place and commit; returns how many rows that changed."""
        changed = 0
        others = "SELECT count(*) FROM checkpoints WHERE cluster = ? AND shard <> ?"
        (count,) = self._raw.execute(others, (self._cluster, self._shard)).fetchone()
        values = {"cluster": self._cluster, "shard": self._shard, "floor": floor}
        for table in merging.TABLES:
            name = _name(table)
            key = ", ".join(f'"{name}"' for name in merging.keys(table))
            self._raw.execute(f'CREATE INDEX {_NAME}."key_{table}" ON "{table}" ({key})')
            once = statements.MODES[table] == "append"
            if not once and self._raw.execute(repeated(name, table)).fetchone():
                self._raw.execute(delete_repeated(name, table, "rowid"))
        leave_out_pruned(self._pooled, self._cluster, _name)
        if loose:
            names = {table: _name(table) for table in ("decisions", "outcomes")}
            self._raw.execute(RESOLVED.format(**names))
        for table in merging.TABLES:
            name = _name(table)
            text = merging.delete_unequal(table, name, "IS", alone=count == 0, floor=floor)
            changed += self._raw.execute(text, values).rowcount
            changed += self._raw.execute(merging.insert_missing(table, name)).rowcount
        changed -= take_pruned_away(self._pooled, self._cluster, new.published)
        given = tuple(
            utc_text(value) if hasattr(value, "tzinfo") else value
            for value in checkpoint_values(old, new)
        )
        moved = self._raw.execute(statements.next_checkpoint("?"), given)
        assert moved.rowcount == 1, "nobody else can write"
        self._pooled.commit()
        self._switching = False
        return changed

    def undo(self) -> None:
        """Give the write lock back."""
        self._pooled.rollback()
        self._switching = False

    def close(self) -> None:
        """Remove the file and let go of the live one."""
        self._pooled.rollback()
        self._pooled.invalidate()
        self._pooled.close()
        self._engine.dispose()
        self._file.unlink(missing_ok=True)


def _name(table: str) -> str:
    return f'{_NAME}."{table}"'


def converted(table: str, rows: list[Row]) -> list[list[Any]]:
    """Return rows with their values as SQLite keeps them."""
    flat = sqlite_writer.parameters(table, rows, sqlite_writer.Texts())
    width = len(rows[0]) if rows else 1
    return [flat[start : start + width] for start in range(0, len(flat), width)]


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
