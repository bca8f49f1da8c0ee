"""Brief questions to the read model: statements in text, rows as tuples, each in a transaction.

Theory. A file of SQLite is asked by the standard library, since half of what a command takes is the
import of SQLAlchemy; PostgreSQL is asked through it. Either takes the same named parameters.

Invariant: nothing can be written; a question ends after `timeout_s`, or waits for a connection.
"""

import math
import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from queue import LifoQueue
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

from projector.storage.pragmas import connect_options
from projector.storage.urls import sqlite_file

if TYPE_CHECKING:
    from sqlalchemy import Engine

_CACHE_KIB = 8192
"""KiB of a connection's cache: there are several connections, and the system has a cache too."""
_MAPPED_BYTES = 1 << 30
"""Bytes of a file that are memory-mapped, without a copy for each connection."""
_STEPS = 10_000
"""Instructions of SQLite's machine between two looks at the clock: well under a millisecond."""
Answer = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""Names of columns, and rows."""


class QuestionFailed(Exception):
    """The database says why."""


class Questions(Protocol):
    """Asks one read model; from any thread."""

    @property
    def database(self) -> str:
        """Either `sqlite` or `postgresql`."""

    def ask(self, query: str, values: Mapping[str, Any]) -> Answer:
        """Run a statement.

        Raises:
            QuestionFailed: the database says no.
        """

    def close(self) -> None:
        """Close connections."""


def questions(url: str, timeout_s: float, connections: int) -> Questions:
    """Return queries on the database of a URL, over so many connections at most.

    Raises:
        DatabaseError: there is no such SQLite file, or no such kind of database.
    """
    file = sqlite_file(url)
    if file is not None:
        return _OfFile(file, timeout_s, connections)
    from projector.storage.database import reader

    return _OfEngine(reader(url, timeout_s, connections))


class _OfFile:
    database = "sqlite"

    def __init__(self, file: Path, timeout_s: float, connections: int) -> None:
        self._file = file
        self._uri = f"file:{quote(str(file))}?mode=ro"
        self._timeout_s = timeout_s
        self._free: LifoQueue[_Opened | None] = LifoQueue()
        for _ in range(connections):
            self._free.put(None)

    def ask(self, query: str, values: Mapping[str, Any]) -> Answer:
        opened = self._free.get()
        try:
            # Before it is opened: a file that takes its place later is noticed.
            leads_to = os.path.realpath(self._file)
            if opened is not None and opened.file != leads_to:
                opened.connection.close()
                opened = None
            if opened is None:
                opened = _Opened(self._uri, leads_to)
            return opened.ask(query, values, self._timeout_s)
        except sqlite3.Error as error:
            raise QuestionFailed(str(error)) from error
        finally:
            self._free.put(opened)

    def close(self) -> None:
        for _ in range(self._free.qsize()):
            opened = self._free.get()
            if opened is not None:
                with suppress(sqlite3.Error):
                    opened.connection.close()
            self._free.put(None)


class _Opened:
    """A connection to the file that a path led to."""

    def __init__(self, uri: str, file: str) -> None:
        self.file = file
        self._ends = math.inf
        self.connection = sqlite3.connect(
            uri, timeout=10, cached_statements=256, check_same_thread=False, uri=True
        )
        connect_options(self.connection, read_only=True)
        self.connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}").close()
        self.connection.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}").close()
        self.connection.set_progress_handler(lambda: time.monotonic() > self._ends, _STEPS)

    def ask(self, query: str, values: Mapping[str, Any], timeout_s: float) -> Answer:
        self._ends = time.monotonic() + timeout_s
        found = self.connection.execute(query, values)
        if found.description is None:
            raise QuestionFailed("the statement asks for no rows")
        return tuple(name for name, *_ in found.description), found.fetchall()


class _OfEngine:
    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    @property
    def database(self) -> str:
        return self._engine.dialect.name

    def ask(self, query: str, values: Mapping[str, Any]) -> Answer:
        from sqlalchemy import text
        from sqlalchemy.exc import SQLAlchemyError

        try:
            with self._engine.connect() as connection:
                found = connection.execute(text(query), dict(values))
                return tuple(found.keys()), [tuple(row) for row in found.all()]
        except SQLAlchemyError as error:
            raise QuestionFailed(str(getattr(error, "orig", None) or error)) from error

    def close(self) -> None:
        self._engine.dispose()
