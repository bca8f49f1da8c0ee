"""Time partitions of what is only appended: one table per week on PostgreSQL.

Theory. Old history must go without a delete per row, so it lies in weeks (Monday to Monday, UTC)
that are dropped whole. A week is made when the first row of it is about to be written, whatever
year that is: recordings and replays bring old times with them, and there is no default partition
that would have to be emptied before its rows could get a week of their own. A new week is filled
in as a table and then attached, which stops neither readers nor writers; making one directly in
its place would wait for every query that runs, and let all others wait behind it.

Everything is done to the tables that the search path finds, and partitions lie in the schema of
their table, so several read models may share a database.

Invariant: partitions of a table do not overlap, and cover every time that is written.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection

from projector.schema.layout import COLUMNS, TABLES
from projector.tables.base import BY_TIME

PARTITIONED = tuple(
    table.name for table in TABLES if table.dialect_options["postgresql"]["partition_by"] == BY_TIME
)
WEEK = timedelta(days=7)
_AT = {table: COLUMNS[table].index("at") for table in PARTITIONED}
_NAME = re.compile(rf"({'|'.join(PARTITIONED)})_\d{{8}}")
_BOUND = re.compile(r"FROM \('(?P<begin>[^']+)'\) TO \((?:'(?P<end>[^']+)'|MAXVALUE)\)")


class Partition(Struct, frozen=True):
    """One partition: its quoted name and the times it holds, `end` excluded (None: no end)."""

    table: str
    name: str
    quoted: str
    begin: datetime
    end: datetime | None
    parent: str
    """Quoted name of the table."""
    detaching: bool = False
    """Its detachment was begun and did not come to its end."""


def is_name(table: str) -> bool:
    """Tell whether a table is named as a partition of ours."""
    return _NAME.fullmatch(table) is not None


def week_of(at: datetime) -> datetime:
    """Return the begin of the week of an aware time: Monday, 00:00 UTC."""
    at = at.astimezone(UTC)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=day.weekday())


def weeks_of(tables: Mapping[str, Sequence[Sequence[Any]]]) -> set[datetime]:
    """Return the weeks that rows of partitioned tables fall into."""
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


def ensure(connection: Connection, weeks: Iterable[datetime]) -> list[str]:
    """Make the partitions of `weeks` that are not there; the caller commits. Returns their names.

    Does nothing on SQLite. Safe in several processes at once: one makes, the others wait, by a lock
    of the table, which only its owner can take; an advisory one is anybody's.
    """
    wanted = sorted(set(weeks))
    if connection.dialect.name != "postgresql" or not wanted:
        return []
    made = []
    for table in PARTITIONED:
        if not _missing(connection, table, wanted):
            continue
        schema, parent, quote = _place(connection, table)
        # ONLY: a lock of all partitions would wait for a VACUUM of any of them.
        connection.exec_driver_sql(f"LOCK TABLE ONLY {parent} IN SHARE UPDATE EXCLUSIVE MODE")
        for begin in _missing(connection, table, wanted):
            name = f"{schema}.{quote(f'{table}_{begin:%Y%m%d}')}"
            connection.exec_driver_sql(
                f"CREATE TABLE {name} (LIKE {parent} INCLUDING DEFAULTS INCLUDING COMMENTS)"
            )
            connection.exec_driver_sql(
                f"ALTER TABLE {parent} ATTACH PARTITION {name} "
                f"FOR VALUES FROM ('{begin.isoformat()}') TO ({_end(begin)})"
            )
            made.append(name)
    return made


def _missing(connection: Connection, table: str, wanted: list[datetime]) -> list[datetime]:
    there = {part.begin for part in found(connection, table)}
    return [begin for begin in wanted if begin not in there]


def around(now: datetime) -> tuple[datetime, datetime]:
    """Return the week of `now` and the one after it."""
    return week_of(now), week_of(now) + WEEK


def _end(begin: datetime) -> str:
    try:
        return f"'{(begin + WEEK).isoformat()}'"
    except OverflowError:
        return "MAXVALUE"


def _place(connection: Connection, table: str) -> tuple[str, str, Any]:
    """Return schema and full name of the table that the search path finds, quoted."""
    quote = connection.dialect.identifier_preparer.quote
    schema, name = connection.exec_driver_sql(
        "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.oid = CAST(%s AS regclass)",
        (table,),
    ).one()
    return quote(schema), f"{quote(schema)}.{quote(name)}", quote


def found(connection: Connection, table: str) -> list[Partition]:
    """Return the partitions of a table, oldest first; none on SQLite."""
    if connection.dialect.name != "postgresql":
        return []
    _, parent, quote = _place(connection, table)
    rows = connection.exec_driver_sql(
        "SELECT n.nspname, c.relname, pg_get_expr(c.relpartbound, c.oid), i.inhdetachpending "
        "FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE i.inhparent = CAST(%s AS regclass)",
        (table,),
    )
    parts = []
    for schema, name, bound, detaching in rows:
        match = _BOUND.search(bound or "")
        if match is None:
            continue  # a partition of a user's own making
        end = match["end"]
        parts.append(
            Partition(
                table=table,
                name=name,
                quoted=f"{quote(schema)}.{quote(name)}",
                begin=_time(match["begin"]),
                end=_time(end) if end else None,
                parent=parent,
                detaching=bool(detaching),
            )
        )
    return sorted(parts, key=lambda part: (part.begin, part.name))


def _time(text: str) -> datetime:
    """Read a bound as PostgreSQL prints it in a session in UTC: `2026-01-05 00:00:00+00`."""
    return datetime.fromisoformat(text).astimezone(UTC)
