"""A database that reports its own damage, and what to do then.

Theory. Both databases separate damage from absence by error codes. A retry does not help, and going
on might spread the damage, so the process ends. The log still has the data: an empty database is
filled from it. SQLite has no checksums; only `gatelog replay --verify` finds a flipped bit within a
value.

Invariant: "" for every error that may pass without help.
"""

import sqlite3

MOVE_AWAY = (
    "the file is damaged. Stop gatelog, move the file and those beside it that end in -wal and "
    "-shm (and what the file leads to, if it is a link) to another place, run `gatelog migrate` "
    "(`gatelog up` does so itself) and start again: everything is folded from the log once more"
)
MAKE_ANOTHER = (
    "a table or an index is damaged. Look at the server's disk, then restore a backup, or give "
    "database.url an empty database and run `gatelog migrate`: everything is folded from the log "
    "once more"
)
REBUILD = (
    "the database is damaged, or was edited by hand. `gatelog replay --rebuild` makes a new read "
    "model from the log"
)
_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_STATES = ("XX001", "XX002")
"""PostgreSQL's data_corrupted and index_corrupted."""


def damage(error: BaseException) -> str:
    """Return what to do if a driver's error says that the database is damaged, else ""."""
    said = getattr(error, "orig", None) or error
    if isinstance(said, sqlite3.DatabaseError):
        # The low byte is the primary code.
        return MOVE_AWAY if getattr(said, "sqlite_errorcode", 0) & 0xFF in _CODES else ""
    return MAKE_ANOTHER if getattr(said, "sqlstate", None) in _STATES else ""
