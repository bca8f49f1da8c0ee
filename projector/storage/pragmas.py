"""How a connection to SQLite is set up.

Theory. Apart from what writes, so that reading imports no table: a command that asks one question
takes longer to import than to ask.

Invariant: nothing of the projector is imported.
"""

import sqlite3
import time

PAGE_BYTES = 8192
"""Rows are a few hundred bytes to two KB, and a batch puts many side by side: with pages of 8 KiB a
full batch costs a fifth less processor time than with SQLite's own 4, a transaction of one event a
tenth more."""
_CACHE_KIB = 16 * 1024
"""KiB of each connection: the machine's own cache holds the rest, and gives way under pressure."""
_WAL_BYTES = 32 * 1024 * 1024
"""When the log is copied back. At the default of 1,000 pages each full batch would be written twice
and synced."""
_LOCKED_S = 10.0


def _obey(connection: sqlite3.Connection, pragma: str) -> None:
    """SQLite does not wait where two make WAL of a new file at once: busy_timeout is not for that.

    Raises:
        sqlite3.OperationalError: the file is locked for longer than `_LOCKED_S`, or worse.
    """
    end = time.monotonic() + _LOCKED_S
    while True:
        try:
            connection.execute(f"PRAGMA {pragma}").close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)
        else:
            return


_DRAFT = ("journal_mode = OFF", "synchronous = OFF")
"""For a file that is thrown away if its making fails."""


def connect_options(
    connection: sqlite3.Connection, *, read_only: bool, draft: bool = False
) -> None:
    """Set up a new connection."""
    connection.isolation_level = None  # transactions are begun by hand
    pragmas = [
        f"busy_timeout = {_LOCKED_S * 1000:.0f}",
        f"cache_size = -{_CACHE_KIB}",
        "temp_store = MEMORY",
    ]
    if read_only:
        pragmas += ["query_only = ON"]
    else:
        # The page size has an effect on a file that does not exist yet, and on no other.
        pragmas += [f"page_size = {PAGE_BYTES}"]
        modes = _DRAFT if draft else ("journal_mode = WAL", "synchronous = NORMAL")
        pragmas += [f"main.{mode}" for mode in modes]
    for pragma in pragmas:
        _obey(connection, pragma)
    if not read_only:
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        pages = _WAL_BYTES // page_bytes
        connection.execute(f"PRAGMA wal_autocheckpoint = {pages}").close()
