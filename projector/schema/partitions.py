"""Partitions on PostgreSQL: each table by cluster, and append-only tables by week.

Theory. Rows made from the log are, for each cluster, in tables of its own: partitions of the public
tables. So a new read model (`projector.replay.new_model`) replaces another by detaching the old
partitions and attaching its own: views, grants, indexes, triggers and publications belong to the
tables that stay, and other clusters are not touched.

Old history must go without a delete per row, so it lies in weeks (Monday to Monday, UTC) that are
dropped whole. A week is made when the first row of it is about to be written, whatever year that
is: recordings and replays bring old times with them, and there is no default partition, whose rows
would have to move before they could get a week of their own. A partition is made as a table and
then attached, which stops no reader or writer; CREATE TABLE ... PARTITION OF would wait for every
query that runs, and let all others wait behind it.

Everything is done to the tables that the search path finds, and partitions lie in the schema of
their table, so several read models may share a database.

Invariant: partitions of a table do not overlap, and cover every row that is written.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection

from projector.schema.layout import COLUMNS, TABLES
from projector.tables.base import Part

PARTS: dict[str, Part] = {
    table.name: table.info[Part.KEY] for table in TABLES if Part.KEY in table.info
}
"""Tables with a partition for each cluster, and the form of that partition."""
PARTITIONED = tuple(name for name, part in PARTS.items() if part.by_time)
"""Tables whose partitions are divided into weeks."""
WEEK = timedelta(days=7)
_AT = {table: COLUMNS[table].index("at") for table in PARTITIONED}
_NAME = re.compile(rf"({'|'.join(PARTS)})_[0-9a-f]{{12}}(_\d{{8}})?")
_BOUND = re.compile(r"FROM \('(?P<begin>[^']+)'\) TO \((?:'(?P<end>[^']+)'|MAXVALUE)\)")
_OWN = """
SELECT p.relname, n.nspname, c.relname FROM pg_inherits i
  JOIN pg_class p ON p.oid = i.inhparent JOIN pg_class c ON c.oid = i.inhrelid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE i.inhparent = ANY (CAST(CAST(%s AS text[]) AS regclass[]))
   AND pg_get_expr(c.relpartbound, c.oid) = 'FOR VALUES IN (' || quote_literal(%s) || ')'
"""


class Partition(Struct, frozen=True):
    """A week: its quoted name and the times it holds, `end` excluded (None: no end)."""

    table: str
    name: str
    quoted: str
    begin: datetime
    end: datetime | None
    parent: str
    """Quoted name of the cluster's partition that holds the week."""
    detaching: bool = False
    """Its detachment was begun and did not come to its end."""


def is_name(table: str) -> bool:
    """Return whether a table has the name of a partition of ours."""
    return _NAME.fullmatch(table) is not None


def digest(*words: str) -> str:
    """Return a short name for words of any length and characters."""
    return hashlib.blake2b("/".join(words).encode(), digest_size=6).hexdigest()


def name_of(table: str, cluster: str) -> str:
    """Return the name of a cluster's partition of a table."""
    return f"{table}_{digest(cluster)}"


def week_of(at: datetime) -> datetime:
    """Return the begin of the week of an aware time: Monday, 00:00 UTC."""
    at = at.astimezone(UTC)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=day.weekday())


def weeks_of(tables: Mapping[str, Sequence[Sequence[Any]]]) -> set[datetime]:
    """Return the weeks that rows of tables with weeks fall into."""
    found: set[datetime] = set()
    for table, place in _AT.items():
        rows = tables.get(table)
        if not rows:
            continue
        first = week_of(min(row[place] for row in rows))
        last = week_of(max(row[place] for row in rows))
        if last - first > WEEK:  # rare: the log stood still for weeks, or is replayed
            found.update({week_of(row[place]) for row in rows})
        found |= {first, last}
    return found


def ensure(connection: Connection, cluster: str, weeks: Iterable[datetime] = ()) -> list[str]:
    """Make a cluster's missing partitions, with `weeks`; the caller commits.

    Returns the names of the weeks that were made. Does nothing on SQLite. Safe in several processes
    at once: one makes, the others wait, by a lock of the table, which only its owner can take; any
    role can take an advisory lock.
    """
    wanted = sorted(set(weeks))
    if connection.dialect.name != "postgresql":
        return []
    there = own(connection, cluster)
    for table in PARTS:
        if table not in there:
            there[table] = _make_own(connection, table, cluster)
    made = []
    for table in PARTITIONED if wanted else ():
        parent = there[table]
        if not _missing(connection, table, parent, wanted):
            continue
        _lock(connection, parent)
        quote = connection.dialect.identifier_preparer.quote
        schema, name = parent
        for begin in _missing(connection, table, parent, wanted):
            week = f"{quote(schema)}.{quote(f'{name}_{begin:%Y%m%d}')}"
            connection.exec_driver_sql(
                f"CREATE TABLE {week} (LIKE {quoted(connection, parent)} "
                "INCLUDING DEFAULTS INCLUDING CONSTRAINTS)"
            )
            connection.exec_driver_sql(
                f"ALTER TABLE {quoted(connection, parent)} ATTACH PARTITION {week} "
                f"FOR VALUES FROM ('{begin.isoformat()}') TO ({_end(begin)})"
            )
            made.append(week)
    return made


def undivided(connection: Connection) -> list[str]:
    """Return tables that should have partitions and cannot: an earlier build made them."""
    if connection.dialect.name != "postgresql":
        return []
    rows = connection.exec_driver_sql(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname = ANY (%s) "
        "AND relnamespace = to_regnamespace(current_schema()) ORDER BY relname",
        (list(PARTS),),
    )
    return [name for (name,) in rows]


def own(connection: Connection, cluster: str) -> dict[str, tuple[str, str]]:
    """Return the cluster's partitions that are there: table -> (schema, name)."""
    rows = connection.exec_driver_sql(_OWN, (list(PARTS), cluster))
    return {table: (schema, name) for table, schema, name in rows}


def _make_own(connection: Connection, table: str, cluster: str) -> tuple[str, str]:
    schema, full, quote = _place(connection, table)
    _lock(connection, (schema, table))
    if (found := own(connection, cluster).get(table)) is not None:
        return found
    name = name_of(table, cluster)
    part, place = PARTS[table], f"{quote(schema)}.{quote(name)}"
    mine = _literal(connection, cluster)
    storage = ", ".join(f"{key} = {value}" for key, value in part.storage.items())
    # The check equals the bound, so that no row is read when a full table is attached.
    connection.exec_driver_sql(
        f"CREATE TABLE {place} (LIKE {full} INCLUDING DEFAULTS, CHECK (cluster = {mine}))"
        f"{' PARTITION BY RANGE (at)' if part.by_time else ''}"
        f"{f' WITH ({storage})' if storage else ''}",
        execution_options={"no_parameters": True},
    )
    attach(connection, full, place, cluster)
    return schema, name


def attach(connection: Connection, parent: str, part: str, cluster: str) -> None:
    """Attach a cluster's partition to its table; quoted names."""
    connection.exec_driver_sql(
        f"ALTER TABLE {parent} ATTACH PARTITION {part} "
        f"FOR VALUES IN ({_literal(connection, cluster)})",
        execution_options={"no_parameters": True},
    )


def _literal(connection: Connection, text: str) -> str:
    from psycopg import sql  # here: a process with SQLite does without the driver

    raw: Any = connection.connection.driver_connection
    return sql.quote(text, raw).strip()


def _lock(connection: Connection, table: tuple[str, str]) -> None:
    # ONLY: a lock of all partitions would wait for a VACUUM of any of them.
    name = quoted(connection, table)
    connection.exec_driver_sql(f"LOCK TABLE ONLY {name} IN SHARE UPDATE EXCLUSIVE MODE")


def _missing(
    connection: Connection, table: str, parent: tuple[str, str], wanted: list[datetime]
) -> list[datetime]:
    name = quoted(connection, parent)
    there = {part.begin for part in found(connection, table) if part.parent == name}
    return [begin for begin in wanted if begin not in there]


def around(now: datetime) -> tuple[datetime, datetime]:
    """Return the week of `now` and the next week."""
    return week_of(now), week_of(now) + WEEK


def _end(begin: datetime) -> str:
    try:
        return f"'{(begin + WEEK).isoformat()}'"
    except OverflowError:
        return "MAXVALUE"


def quoted(connection: Connection, table: tuple[str, str]) -> str:
    """Return schema and name as they are written in a statement."""
    quote = connection.dialect.identifier_preparer.quote
    return ".".join(map(quote, table))


def _place(connection: Connection, table: str) -> tuple[str, str, Any]:
    """Return schema and full, quoted name of the table that the search path finds, and a quoter."""
    quote = connection.dialect.identifier_preparer.quote
    schema, name = connection.exec_driver_sql(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.oid = CAST(%s AS regclass)",
        (table,),
    ).one()
    return schema, f"{quote(schema)}.{quote(name)}", quote


def found(connection: Connection, table: str) -> list[Partition]:
    """Return the weeks of a table, of all clusters, oldest first; none on SQLite."""
    if connection.dialect.name != "postgresql":
        return []
    rows = connection.exec_driver_sql(
        "SELECT m.nspname, p.relname, n.nspname, c.relname, "
        "pg_get_expr(c.relpartbound, c.oid), i.inhdetachpending "
        "FROM pg_inherits o JOIN pg_inherits i ON i.inhparent = o.inhrelid "
        "JOIN pg_class p ON p.oid = i.inhparent JOIN pg_namespace m ON m.oid = p.relnamespace "
        "JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE o.inhparent = CAST(%s AS regclass)",
        (table,),
    )
    parts = []
    for of_schema, of, schema, name, bound, detaching in rows:
        match = _BOUND.search(bound or "")
        if match is None:
            continue  # a partition of a user's own making
        end = match["end"]
        parts.append(
            Partition(
                table=table,
                name=name,
                quoted=quoted(connection, (schema, name)),
                begin=_time(match["begin"]),
                end=_time(end) if end else None,
                parent=quoted(connection, (of_schema, of)),
                detaching=bool(detaching),
            )
        )
    return sorted(parts, key=lambda part: (part.begin, part.name))


def _time(text: str) -> datetime:
    """Read a bound as PostgreSQL prints it in a session in UTC: `2026-01-05 00:00:00+00`."""
    return datetime.fromisoformat(text).astimezone(UTC)
