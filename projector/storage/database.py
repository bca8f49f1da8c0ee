"""Connections to the read model: which database a URL names, and how connections are made.

Theory. A URL names PostgreSQL or SQLite; nothing else is supported, and nothing else in gatelog
knows drivers. Writers and readers connect differently: there is one writer per cluster, with its
transactions begun by hand, and any number of readers, which cannot write even by mistake.

PostgreSQL's driver is 14 MB that a process on SQLite does without, so it is imported with the first
engine that needs it.

An SQLite read model that replaces another (`projector.replay.new_model`) is another file, to which
the path leads by a symbolic link. A connection to the old file is made anew before its next use,
and a writer's transaction in that file ends with `DatabaseMoved`; the replacing process holds the
file's write lock, so only the file in force is written.

A pooler between us and PostgreSQL (PgBouncer) may give each transaction another session. So behind
a pooler only transactions are relied on: no prepared statements, no locks or temporary tables of a
session, and settings hold for a transaction (`postgres_writer.pooled`).

Invariant: a URL with its password never appears in an error or a log line, which use `shown`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.engine import URL, Connection
from sqlalchemy.exc import ArgumentError, DisconnectionError

from projector.storage.pragmas import connect_options
from projector.storage.urls import DatabaseError, DatabaseUnavailable, database_url

__all__ = [
    "SNAPSHOT",
    "DatabaseError",
    "DatabaseMoved",
    "DatabaseUnavailable",
    "Draft",
    "StillRead",
    "database_url",
    "file_of",
    "hold",
    "locked",
    "parse",
    "reader",
    "reading",
    "shown",
    "writer",
]


class Draft(Struct, frozen=True):
    """A database in the making, which is made again if the process dies: nothing waits for disks.

    On PostgreSQL it is a schema of its own.
    """

    schema: str = ""


_FILE = "file"
"""Key in a connection's record: the file that its path led to."""
SNAPSHOT = {"postgresql": {"isolation_level": "REPEATABLE READ"}, "sqlite": {}}
"""Options of a connection on which one transaction sees one state."""


class DatabaseMoved(DatabaseError):
    """Another file has replaced the open file; a new connection has it."""


class StillRead(DatabaseError):
    """A transaction reads the tables for so long that others would wait behind us."""


def parse(url: str) -> URL:
    """Return the URL with its driver.

    Raises:
        DatabaseError: the text is no URL, or not of a supported database.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise DatabaseError(
            "database.url is not a URL: use postgresql://user@host/name or sqlite:///path"
        ) from None
    match parsed.get_backend_name():
        case "postgresql" | "postgres":
            return parsed.set(drivername="postgresql+psycopg")
        case "sqlite":
            if not parsed.database or parsed.database == ":memory:":
                raise DatabaseError("database.url names no file: use sqlite:///path")
            return parsed.set(drivername="sqlite+pysqlite")
        case other:
            raise DatabaseError(
                f"database.url: {other} is not supported, use postgresql:// or sqlite:///"
            )


def shown(url: str) -> str:
    """Return the URL without its password."""
    return parse(url).render_as_string(hide_password=True)


def writer(
    url: str, statement_timeout_s: float = 60.0, owner: str = "", *, draft: Draft | None = None
) -> Engine:
    """Return an engine for the one writer of a cluster (`owner` names it), and for migrations.

    SQLite: the file and its directory are made; a transaction takes the write lock when it begins,
    so it never fails half way because another process wrote first.
    """
    parsed = parse(url)
    if parsed.get_backend_name() == "postgresql":
        # What pg_stat_activity shows; PostgreSQL cuts it at 63 bytes.
        name = f"gatelog-projector/{owner}"[:63] if owner else "gatelog-projector"
        return _postgres(parsed, statement_timeout_s, {"application_name": name}, draft=draft)
    file_of(url).parent.mkdir(parents=True, exist_ok=True)
    # The writer of a draft may have attached the file in force, which another process has locked.
    begin = "BEGIN IMMEDIATE" if draft is None else "BEGIN"
    return _sqlite(parsed, file_of(url), begin, read_only=False, draft=draft)


def file_of(url: str) -> Path:
    """Return the path of an SQLite read model, which may be a link to the file in force."""
    return Path(parse(url).database or "").absolute()


def reader(url: str, statement_timeout_s: float = 60.0, pool_size: int = 4) -> Engine:
    """Return an engine that can only read.

    Raises:
        DatabaseError: there is no such SQLite file (it is not made by reading).
    """
    parsed = parse(url)
    if parsed.get_backend_name() == "postgresql":
        options = {"application_name": "gatelog-reader"}
        return _postgres(parsed, statement_timeout_s, options, pool_size, read_only=True)
    file = file_of(url)
    if not file.exists():
        raise DatabaseError(f"{parsed.database}: no such database; has a projector run here yet?")
    only = parsed.set(database=f"file:{quote(str(file))}", query={"mode": "ro", "uri": "true"})
    return _sqlite(only, file, "BEGIN", read_only=True)


@contextmanager
def reading(url: str, statement_timeout_s: float = 60.0) -> Iterator[Connection]:
    """Give a connection that can only read, and whose transaction sees one state.

    Raises:
        DatabaseError: as `reader`.
    """
    engine = reader(url, statement_timeout_s, pool_size=1)
    try:
        with engine.execution_options(**SNAPSHOT[engine.dialect.name]).connect() as connection:
            yield connection
    finally:
        engine.dispose()


def hold(connection: Connection) -> None:
    """Keep the read model in force until the transaction ends; this is its first statement.

    PostgreSQL takes the snapshot with the next statement, so no other read model comes in between.
    A file in SQLite is read to the end in any case.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("LOCK TABLE groups IN ACCESS SHARE MODE")


@contextmanager
def locked(url: str, key: int, *, wait: bool = True) -> Iterator[bool]:
    """Hold an advisory lock of PostgreSQL for a while; False if another has it (not `wait`).

    An open transaction of a connection of its own holds the lock: behind a pooler there is no
    session that could hold it. The transaction keeps no snapshot, for which a DETACH ... FINALIZE
    of its own holder would wait for ever.
    """
    function = "pg_advisory_xact_lock" if wait else "pg_try_advisory_xact_lock"
    engine = writer(url, 0)
    try:
        with engine.begin() as connection:
            got = connection.exec_driver_sql(f"SELECT {function}(%s)", (key,)).scalar()
            # In this order: the last statement's portal, and the snapshot of a SELECT in it, stays
            # until the next statement (PostgreSQL, protocol-flow, extended query).
            connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            yield wait or bool(got)
    finally:
        engine.dispose()


def _postgres(
    url: URL,
    statement_timeout_s: float,
    options: dict[str, str],
    pool_size: int = 1,
    *,
    read_only: bool = False,
    draft: Draft | None = None,
) -> Engine:
    from projector.writing import postgres_writer

    engine = create_engine(
        url,
        # A database in SQL_ASCII would else answer with bytes, which its driver cannot take either.
        connect_args={"connect_timeout": 10, "client_encoding": "utf8", **options},
        pool_size=pool_size,
        max_overflow=0,
        pool_pre_ping=True,
    )

    limit = postgres_writer.limit_of(statement_timeout_s)

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connection.read_only = read_only or None  # set by each BEGIN
        postgres_writer.connect_options(connection, limit, read_only=read_only)

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        raw: Any = connection.connection.driver_connection
        if raw.autocommit:
            return
        if postgres_writer.pooled(raw):
            connection.exec_driver_sql(f"SET LOCAL statement_timeout = {limit}")
        if draft is not None:
            # Of the transaction: behind a pooler a session is another client's next.
            schema = connection.dialect.identifier_preparer.quote(draft.schema)
            connection.exec_driver_sql(f"SET LOCAL search_path = {schema}")
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")

    return engine


def _sqlite(
    url: URL, file: Path, begin: str, *, read_only: bool, draft: Draft | None = None
) -> Engine:
    engine = create_engine(
        url, connect_args={"timeout": 10, "cached_statements": 256, "check_same_thread": False}
    )

    @event.listens_for(engine, "do_connect")
    def connecting(_: Any, record: Any, *__: Any) -> None:
        record.info[_FILE] = os.path.realpath(file)  # before: a file that comes later is noticed

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: Any) -> None:
        connect_options(connection, read_only=read_only, draft=draft is not None)

    @event.listens_for(engine, "checkout")
    def taken(_: Any, record: Any, __: Any) -> None:
        if record.info[_FILE] != os.path.realpath(file):
            raise DisconnectionError(f"{file} is another file now")  # the pool connects again

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql(begin)
        if not read_only and connection.info[_FILE] != os.path.realpath(file):
            connection.exec_driver_sql("ROLLBACK")
            raise DatabaseMoved(f"{file}: a new read model has taken its place")

    return engine
