"""A new read model in SQLite: another file, to which the path becomes a symbolic link.

Theory. An open file must not be replaced by another under its own name: SQLite finds the
write-ahead log by the name of its file, so a log of the old file would be read as a log of the new.
But SQLite follows symbolic links first. So a new read model has a name of its own (the path and a
number), and with it a log of its own; replacing the link is the single step that puts it in place.
A process with the old file open reads it to the end of its transaction, and our own connections
look at where the path leads before each transaction (`storage.database`).

The step is taken with the write lock of the old file, so no writer is within a transaction, and the
next transaction finds that the path leads elsewhere. The new file is written without journal and
sync, and synced before the step. An unlocked file beside the path is the leftover of a process that
died.

Other clusters' rows in the file, tables that are not made from the log, and objects that people
made in the file (tables, indexes, views, triggers) are copied in that step.

Invariant: the path leads to a whole read model at every moment.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import sqlalchemy as sa

from projector import tables
from projector.replay.carry import take_over, take_pruned_away
from projector.schema.layout import MERGED
from projector.storage.database import DatabaseError, Draft, file_of, parse, reading, writer
from projector.storage.loading import load_checkpoint
from projector.upkeep import migrate
from projector.writing.checkpoint import Checkpoint
from projector.writing.sqlite_writer import write_checkpoint

_SIDES = ("", "-wal", "-shm")
_BUSY_S = 60.0
_OLD = "old"
_NAME = "rebuilt."


class NewInSqlite:
    """See `new_model.NewModel`."""

    draft = Draft()

    def __init__(self, url: str, cluster: str) -> None:
        """Begin the file.

        Raises:
            DatabaseError: another new read model is being made.
        """
        self._live_url = url
        self._path = file_of(url)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._cluster = cluster
        self._before = Path(os.path.realpath(self._path))
        self._link = self._path.with_name(f"{self._path.name}.{_NAME}link")
        self._file, self._held, self.left_over = _begun(self._path, self._before)
        self._link.unlink(missing_ok=True)
        if self._path.is_symlink():
            # Of a file that had this name: the log of a later one of this name would be found here.
            _remove(self._path, itself=False)
        named = parse(url).set(database=str(self._file), drivername="sqlite")
        self.url = named.render_as_string(hide_password=False)
        self._taken: sa.Connection | None = None
        self._engine: sa.Engine | None = None
        self._useless = self._file
        migrate.make_tables(self.url, self.draft)

    def complete(self, floor: int) -> None:
        """Add the rows that the log lacks, and make indexes and views."""
        migrate.complete(self.url, self.draft)
        with _both(self.url, self._before) as new, reading(self._live_url) as live:
            old = load_checkpoint(live, self._cluster)
            take_over(new, f"{_OLD}.", self._cluster, floor)
            take_pruned_away(new, live, self._cluster, old.published if old is not None else 0)
            new.commit()

    def take(self) -> Checkpoint | None:
        """Take the write lock; every writer waits for it."""
        if not self._path.exists():
            return None
        self._engine = writer(self._live_url)
        self._taken = self._engine.connect()
        raw: Any = self._taken.connection.driver_connection
        raw.execute(f"PRAGMA busy_timeout = {int(_BUSY_S * 1000)}").close()
        self._taken.begin()
        return load_checkpoint(self._taken, self._cluster)

    def give_back(self) -> None:
        """Give the write lock back."""
        if self._taken is not None:
            self._taken.rollback()
            self._taken.close()
            self._taken = None
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def put_in_place(self, old: Checkpoint | None, new: Checkpoint) -> None:
        """Let the path lead to the new file."""
        if old is None:  # of a cluster that has no read model yet: `complete` was not called
            migrate.complete(self.url, self.draft)
        if self._taken is None:
            self._sync()
            self._file.rename(self._path)
        else:
            with _both(self.url, self._before) as connection:
                self._copy_the_rest(connection)
                self._write(connection, new)
                connection.commit()
            self._sync()
            self._link.symlink_to(self._file.name)
            self._link.replace(self._path)
            self._useless = self._before
        folder = os.open(self._path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        self.give_back()

    def _copy_the_rest(self, connection: sa.Connection) -> None:
        """Copy rows that are not made from the cluster's log."""
        for name, table in tables.metadata.tables.items():
            ours = name in MERGED or name == tables.checkpoints.name
            where = "WHERE cluster <> :cluster" if ours else ""
            given = {"cluster": self._cluster} if ours else {}
            connection.execute(sa.text(f'DELETE FROM "{name}" {where}'), given)
            names = ", ".join(f'"{column.name}"' for column in table.columns)
            text = f'INSERT INTO "{name}" ({names}) SELECT {names} FROM {_OLD}."{name}" {where}'
            connection.execute(sa.text(text), given)
        made = (
            f"SELECT type, name, sql FROM {_OLD}.sqlite_master AS o WHERE sql IS NOT NULL AND NOT "
            "EXISTS (SELECT 1 FROM main.sqlite_master AS n WHERE n.name = o.name) "
            "AND name NOT LIKE 'sqlite_%' "
            "ORDER BY instr('table,index,view,trigger', type)"
        )
        for kind, name, text in connection.exec_driver_sql(made).all():
            connection.exec_driver_sql(text)
            if kind == "table":
                quoted = name.replace('"', '""')
                connection.exec_driver_sql(
                    f'INSERT INTO main."{quoted}" SELECT * FROM {_OLD}."{quoted}"'
                )

    def _write(self, connection: sa.Connection, new: Checkpoint) -> None:
        delete = "DELETE FROM checkpoints WHERE cluster = ?"
        connection.exec_driver_sql(delete, (self._cluster,))
        raw: Any = connection.connection.driver_connection
        write_checkpoint(raw, new, None)

    def _sync(self) -> None:
        """Make it a file like any other, on the disk."""
        connection = sqlite3.connect(self._file, isolation_level=None)
        connection.execute("PRAGMA synchronous = FULL").close()
        connection.execute("PRAGMA journal_mode = WAL").close()
        connection.close()
        os.fsync(self._held.fileno())

    def close(self) -> None:
        """Remove the file that is not in force."""
        self.give_back()
        self._held.close()
        # A file that had the path's own name lost it to the link.
        _remove(self._useless, itself=self._useless != self._path)


@contextmanager
def _both(url: str, old: Path) -> Iterator[sa.Connection]:
    """Give a connection to the new file, with the file in force attached."""
    engine = writer(url, draft=Draft())
    connection = engine.connect()
    try:
        raw: Any = connection.connection.driver_connection
        raw.execute(f"ATTACH ? AS {_OLD}", (str(old),)).close()
        yield connection
    finally:
        connection.invalidate()
        connection.close()
        engine.dispose()


def _numbered(path: Path) -> dict[int, Path]:
    """Return the new read models beside a path, by number."""
    found = {}
    for file in path.parent.iterdir():
        number = file.name.removeprefix(f"{path.name}.{_NAME}")
        if number != file.name and number.isdecimal():
            found[int(number)] = file
    return found


def _begun(path: Path, in_force: Path) -> tuple[Path, BinaryIO, str]:
    """Return a new file beside `path`, held by its lock, and the names of removed files."""
    left: list[str] = []
    while True:
        others = _numbered(path)
        left += _clear(others, in_force)
        file = path.with_name(f"{path.name}.{_NAME}{max([0, *others]) + 1}")
        with suppress(FileExistsError):  # another process makes that of this number
            held = file.open("xb")
            fcntl.flock(held, fcntl.LOCK_EX)
            # Before it was locked, another process may have taken it for a leftover.
            if file.exists() and os.path.samestat(file.stat(), os.fstat(held.fileno())):
                return file, held, ", ".join(left)
            held.close()


def _clear(files: dict[int, Path], in_force: Path) -> Iterator[str]:
    """Remove files without a lock that are not in force; yield their names."""
    for file in files.values():
        if file == in_force:
            continue
        with suppress(FileNotFoundError), file.open("rb") as held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DatabaseError(
                    f"{file} is in use: another rebuild is at work; wait for it, or end it first"
                ) from None
            _remove(file)
            yield f"file {file}"


def _remove(file: Path, *, itself: bool = True) -> None:
    for side in _SIDES if itself else _SIDES[1:]:
        Path(f"{file}{side}").unlink(missing_ok=True)
