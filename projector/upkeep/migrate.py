"""Migrations: bring the database to the schema this version of gatelog knows.

Theory. Alembic keeps the tables' history; the scripts lie in `migrations/` of the repository and,
in an installed wheel, next to this module. On PostgreSQL an advisory lock lets several deployments
start at once: one migrates, the others wait and find nothing to do. SQLite has a single writer
anyway; a migration waits for it longer than a writer does. The present and the needed revision are
known without Alembic, 12 MB that a process on a current schema does without.

Invariant: a database that a newer gatelog has migrated is refused, never written.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, inspect, select
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.schema import CreateTable

from projector import tables
from projector.schema import partitions
from projector.storage.damage import damage
from projector.storage.database import (
    DatabaseError,
    DatabaseUnavailable,
    Draft,
    locked,
    reader,
    shown,
    writer,
)
from projector.upkeep import reading_role

if TYPE_CHECKING:
    from alembic.config import Config

LOCK = 0x6761_7465_6C6F_67  # "gatelog"; pg_advisory_lock takes 64 bits
VERSION = "alembic_version"
UPGRADE_TIMEOUT_S = 3600.0
BRIEF_S = 10.0
_SQLITE_WAIT_MS = 120_000
"""How long the write lock is waited for: another process may be migrating just now."""

MADE_ANEW: Final = (
    "a build before the first release made it, whose read models are not migrated. Name an empty "
    "database (of SQLite: move the file that it leads to, `readlink -f`, with -wal and -shm away) "
    "and run `gatelog migrate`: gatelog fills it from the log"
)


def scripts() -> Path:
    """Return the directory of the migration scripts."""
    here = Path(__file__).resolve().parents[1]
    inside = here / "migrations"
    return inside if inside.is_dir() else here.parent / "migrations"


def config(connection: Connection | None = None) -> "Config":
    """Return Alembic's configuration, made here: there is no alembic.ini."""
    from alembic.config import Config

    made = Config()
    made.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    made.set_main_option("path_separator", "os")
    made.attributes["connection"] = connection
    return made


def revisions() -> list[str]:
    """Return the revisions of our scripts, oldest first: the prefixes of their names."""
    return sorted(path.name.partition("_")[0] for path in (scripts() / "versions").glob("*_*.py"))


def head() -> str:
    """Return the revision this version of gatelog needs.

    Raises:
        DatabaseError: the scripts are not there, as in a wheel that was packed without them.
    """
    if found := revisions():
        return found[-1]
    raise DatabaseError(f"no migrations in {scripts()}: install gatelog anew")


def revision(connection: Connection) -> str | None:
    """Return the revision the database is at, None when it is empty."""
    if not inspect(connection).has_table(VERSION):
        return None
    found: str | None = connection.exec_driver_sql(f"SELECT version_num FROM {VERSION}").scalar()
    return found


def upgrade(url: str, *, reader_role: str = "") -> None:
    """Bring the database at `url` up to `head()`; does nothing when it is there already.

    `reader_role` may read everything afterwards (`reading_role`).

    Raises:
        DatabaseError: the database was migrated by a newer gatelog or made by a build before the
            first release, the URL is unusable, or the role does not exist.
        DatabaseUnavailable: the database does not answer.
    """
    with _connected(url) as connection, ExitStack() as stack:
        if connection.dialect.name == "postgresql":
            stack.enter_context(locked(url, LOCK))
        _upgrade(connection, url)
        if reader_role:
            reading_role.grant(connection, reader_role)
            connection.commit()


def make_tables(url: str, draft: Draft | None = None) -> None:
    """Make the tables alone: rows that are written once need no index meanwhile."""
    engine = writer(url, draft=draft)
    with engine.begin() as connection:
        for table in tables.metadata.sorted_tables:
            connection.execute(CreateTable(table))
    engine.dispose()


def complete(url: str, draft: Draft | None = None) -> None:
    """Make a read model of the tables of `make_tables`, full or empty: indexes, views, revision."""
    from alembic import command

    engine = writer(url, draft=draft)
    with engine.connect() as connection:
        for table in tables.metadata.sorted_tables:
            for index in sorted(table.indexes, key=lambda one: str(one.name)):
                index.create(connection, checkfirst=True)
        connection.commit()
        command.stamp(config(connection), "head")
        connection.commit()
    engine.dispose()


@contextmanager
def _connected(url: str, *, brief: bool = False) -> Iterator[Connection]:
    engine = reader(url, BRIEF_S, 1) if brief else writer(url, UPGRADE_TIMEOUT_S)
    try:
        with engine.connect() as connection:
            raw = connection.connection.driver_connection
            if (
                isinstance(raw, sqlite3.Connection) and not brief
            ):  # by hand: SQLAlchemy would begin first
                raw.execute(f"PRAGMA busy_timeout = {_SQLITE_WAIT_MS}").close()
            yield connection
    except OperationalError as error:
        reason = str(error.orig).strip().splitlines()[0]
        raise DatabaseUnavailable(f"{shown(url)}: {reason}") from error
    except DBAPIError as error:
        if not (remedy := damage(error)):
            raise
        raise DatabaseError(f"{shown(url)}: {error.orig}: {remedy}") from error
    finally:
        engine.dispose()


def _upgrade(connection: Connection, url: str) -> None:
    _check_encoding(connection, url)
    check_not_newer(connection, url)
    _check_complete(connection, url)
    connection.rollback()
    from alembic import command

    command.upgrade(config(connection), "head")
    for cluster in connection.scalars(select(tables.checkpoints.c.cluster)).all():
        partitions.ensure(connection, cluster, partitions.around(datetime.now(UTC)))
    connection.commit()


def _check_encoding(connection: Connection, url: str) -> None:
    """Refuse a PostgreSQL database whose encoding is not UTF8."""
    if connection.dialect.name != "postgresql":
        return
    encoding = str(connection.exec_driver_sql("SHOW server_encoding").scalar())
    if encoding != "UTF8":
        raise DatabaseError(
            f"{shown(url)} is in {encoding}, and names and messages are in UTF8: make it again "
            "with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0"
        )


def check_not_newer(connection: Connection, url: str) -> None:
    """Refuse a database that this version does not know.

    Raises:
        DatabaseError: its revision is not among our scripts, or it has tables of ours and no
            revision.
    """
    at = revision(connection)
    if at is None:
        _check_empty(connection, url)
    elif at not in revisions():
        raise DatabaseError(
            f"{shown(url)} is at schema {at}, which is newer than this gatelog knows "
            f"(its newest is {head()}): run the gatelog that migrated it, or a later one"
        )


def _check_empty(connection: Connection, url: str) -> None:
    """Refuse tables whose version is lost: the missing changes are unknown.

    Raises:
        DatabaseError: the database has tables of ours.
    """
    there = set(inspect(connection).get_table_names()) & set(tables.metadata.tables)
    if there:
        raise DatabaseError(
            f"{shown(url)} has tables of gatelog ({len(there)}) but not their version: table "
            "alembic_version is empty or gone, as after a restore without it. Restore the backup "
            "with it, or name an empty database: gatelog fills it from the log"
        )


def lacking(connection: Connection) -> list[str]:
    """Return tables and columns (`table.column`) of ours that a database at `head()` has not."""
    # One question for all tables: a projector asks it at each start.
    there = inspect(connection).get_multi_columns()
    known = {name: {column["name"] for column in found} for (_, name), found in there.items()}
    lacks: list[str] = []
    for table in tables.metadata.sorted_tables:
        if table.name not in known:
            lacks.append(table.name)
            continue
        names = known[table.name]
        lacks += [f"{table.name}.{one.name}" for one in table.columns if one.name not in names]
    return [*lacks, *(f"partitions of {name}" for name in partitions.undivided(connection))]


def _check_complete(connection: Connection, url: str) -> None:
    """Refuse a database of a build before the first release: revision 0001 had less then.

    Raises:
        DatabaseError: a table or a column is not there.
    """
    if revision(connection) == head() and (lacks := lacking(connection)):
        raise DatabaseError(f"{shown(url)} lacks {first_of(lacks)}: {MADE_ANEW}")


def first_of(lacks: list[str]) -> str:
    """Return the missing names in a line: a few, and how many more."""
    more = f" and {len(lacks) - 4} more" if len(lacks) > 4 else ""
    return f"{', '.join(lacks[:4])}{more}"


def check(url: str, *, brief: bool = False) -> None:
    """Refuse a database that is not at exactly the schema this version needs.

    `brief`: by reading alone, and without waiting for a writer.

    Raises:
        DatabaseError: the database is older (run `gatelog migrate`), newer, or of a build before
            the first release.
        DatabaseUnavailable: it does not answer, or has no schema yet.
    """
    with _connected(url, brief=brief) as connection:
        check_not_newer(connection, url)
        _check_complete(connection, url)
        at = revision(connection)
    if at != head():
        # The first installation migrates while the parts start.
        kind = DatabaseError if at else DatabaseUnavailable
        raise kind(
            f"{shown(url)} is at schema {at or 'none'}, this gatelog needs {head()}: "
            "run `gatelog migrate`"
        )
