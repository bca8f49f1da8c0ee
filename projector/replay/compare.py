"""Compare two read models, table by table and row by row.

Theory. SQLite itself counts equal rows of two files, in a seventh of the processor time that
reading the rows takes; beside PostgreSQL `digests` show equal rows. A table is read only if some
rows are not equal. Then both sides are read in the order of the table's key and merged, so memory
does not grow with history. Nearly all rows are equal, which the comparison of two tuples shows at
once, with the documents of two SQLite files as their text. Only other rows are compared by their
keys, column by column.

Compared is the public contract: columns that a person can query. Left out are the folded state (its
bytes may differ where dictionaries were filled in another order) and the position as of which a row
was written, which depends on how messages were gathered into transactions.

Rows that the log cannot verify (`vouching`) are counted apart, and not compared. Lines of history
are numbered within their message; compared lines are numbered without the others.

Invariant: every other row without an equal on the other side is counted.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from msgspec import Struct

from projector.replay.digests import Digests, digests
from projector.replay.vouching import of_before
from projector.schema.layout import COMPARED
from projector.tables.base import SHARD
from projector.times import bound
from projector.upkeep.pruning import limits, over

LEFT_OUT = frozenset({"folded", "as_of_seq"})
OF_BEFORE = "of_before"
CACHE_KIB = 8 * 1024
AT_ONCE = 1000
"""Rows read at once."""
MOST = 5
"""Differences described per table; all are counted."""
MOST_NAMED = 20
"""Groups named that cannot be compared; all are counted."""

_BESIDE = "replayed"
"""The replay's file, attached to the live side."""

_Row = tuple[Any, ...]
_Keys = list[tuple[str, int]]
"""Name and place of each column of a key."""


class TableResult(Struct):
    """How a table compares: `rows` of both sides; the live side has `unvouched` more."""

    table: str
    rows: int = 0
    different: int = 0
    examples: list[str] = []
    unvouched: int = 0
    alive: int = 0
    """How many groups of those that are not compared live."""
    named: list[str] = []
    """The first groups that are not compared, NAMESPACE/NAME."""
    read: bool = False
    """Its rows were read: by themselves the databases did not find all of them equal."""


def digested(live: sa.Connection, cluster: str) -> dict[str, Digests]:
    """Return the digests of all tables of a live side in PostgreSQL, for `compare`."""
    # A long history takes longer than a statement may; a lock is waited for no longer than that.
    live.exec_driver_sql("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '60s'")
    gone = limits(live, cluster)
    parts = [_Part(table, cluster, 0, gone.get(table.name), False) for table in COMPARED]
    return {part.table.name: _digests(live, part) for part in parts}


def compare(
    live: sa.Connection,
    again: sa.Connection,
    cluster: str,
    floor: int,
    known: dict[str, Digests] | None = None,
) -> list[TableResult]:
    """Compare every table of the contract; the log verifies rows from after position `floor`.

    Rows that were over before the limit of the live side's pruning are left out on both sides.
    `known` are digests of the live side if it is in PostgreSQL and the log verifies all rows.
    """
    gone = limits(live, cluster)
    for connection in (live, again):
        if connection.dialect.name == "sqlite":
            # Every row is read once, in order; digests are sorted in pieces of the cache's size.
            connection.exec_driver_sql(f"PRAGMA cache_size = -{CACHE_KIB}")
            connection.exec_driver_sql("PRAGMA temp_store = FILE")
    kept = live.dialect.name == again.dialect.name == "sqlite"
    if kept and not floor:
        file = again.exec_driver_sql("PRAGMA database_list").all()[0].file
        live.exec_driver_sql(f"ATTACH ? AS {_BESIDE}", (file,))
    found = []
    for table in COMPARED:
        part = _Part(table, cluster, floor, gone.get(table.name), kept)
        digest = known.get(table.name) if known else None
        if digest is not None and digest == _digests(again, part):
            found.append(TableResult(table.name, sum(count for _, count, _ in digest)))
        else:
            found.append(_table(live, again, part))
    return found


class _Part(NamedTuple):
    """The compared rows of a table; `before`: without rows that were over by then.

    `kept`: documents stay texts, as they are in both databases.
    """

    table: sa.Table
    cluster: str
    floor: int
    before: datetime | None
    kept: bool


def _table(live: sa.Connection, again: sa.Connection, part: _Part) -> TableResult:
    table = part.table
    names = _names(table)
    keys = [(column.name, names.index(column.name)) for column in table.primary_key]
    result = TableResult(table.name)
    if part.kept and not part.floor:
        result.rows, replayed, equal = _counts(live, part, names)
        if result.rows == replayed == equal:
            return result
        result.rows = 0
    result.read = True
    one = _rows(live, part, names)
    two = _rows(again, part, names)
    if part.floor:
        one, two = _vouched(one, names, result), _vouched(two, names)
        if table.name == "history":
            one, two = _renumbered(one, names), _renumbered(two, names)
    left, right = next(one, None), next(two, None)
    while left is not None or right is not None:
        result.rows += 1
        if left == right:
            left, right = next(one, None), next(two, None)
        elif right is None or (left is not None and _key(left, keys) < _key(right, keys)):
            assert left is not None
            _differs(result, f"{_named(left, keys)}: not in the replay")
            left = next(one, None)
        elif left is None or _key(right, keys) < _key(left, keys):
            _differs(result, f"{_named(right, keys)}: only in the replay")
            right = next(two, None)
        else:
            for name, was, now in zip(names, left, right, strict=True):
                if was != now and part.kept and isinstance(table.c[name].type, sa.JSON):
                    was, now = json.loads(was), json.loads(now)  # noqa: PLW2901
                if was != now:
                    text = f"{_named(left, keys)}: {name} is {was!r}, replay {now!r}"
                    _differs(result, text)
                    break
            left, right = next(one, None), next(two, None)
    return result


def _names(table: sa.Table) -> list[str]:
    """Return the columns that are compared."""
    left_out = LEFT_OUT - {"as_of_seq"} if table.name == "decisions" else LEFT_OUT
    return [column.name for column in table.columns if column.name not in left_out]


def _digests(connection: sa.Connection, part: _Part) -> Digests:
    table = part.table
    names = [name for name in _names(table) if name not in {"cluster", "shard"}]  # alike in all
    return digests(connection, [table.c[name] for name in names], _mine(connection, table, part))


def _counts(live: sa.Connection, part: _Part, names: list[str]) -> tuple[int, int, int]:
    """Count the rows of the live side, of the replay attached to it, and those equal on both."""
    one, two = (
        sa.select(*(table.c[name] for name in names)).where(*_mine(live, table, part)).subquery()
        for table in (part.table, part.table.to_metadata(sa.MetaData(), schema=_BESIDE))
    )
    both = one.join(two, sa.and_(*(one.c[n].is_not_distinct_from(two.c[n]) for n in names)))
    counts = (sa.select(sa.func.count()).select_from(some) for some in (one, two, both))
    ours, replayed, equal = live.execute(sa.select(*(c.scalar_subquery() for c in counts))).one()
    return ours, replayed, equal


def _mine(connection: sa.Connection, table: sa.Table, part: _Part) -> list[Any]:
    """Return the conditions of compared rows."""
    mine: list[Any] = [table.c.cluster == part.cluster]
    if "shard" in table.c:
        mine.append(table.c.shard == SHARD)
    if table.name == "history":
        mine.append(table.c.seq > part.floor)
    if part.before is not None:
        gone = over(table.name, f"{table.schema}." if table.schema else "")
        values = bound(connection.dialect.name, {"before": part.before})
        mine.append(sa.text(f"({gone}) IS NOT TRUE").bindparams(**values))
    return mine


def _rows(connection: sa.Connection, part: _Part, names: list[str]) -> Iterator[_Row]:
    table, floor, kept = part.table, part.floor, part.kept
    columns: list[Any] = [
        sa.type_coerce(table.c[name], sa.Text)
        if kept and isinstance(table.c[name].type, sa.JSON)
        else table.c[name]
        for name in names
    ]
    if floor:
        columns.append(sa.case((sa.text(of_before(table.name)), 1), else_=0).label(OF_BEFORE))
    query = sa.select(*columns).where(*_mine(connection, table, part))
    if floor:
        query = query.params(floor=floor)
    # Text compares by bytes here, in any collation of the database.
    ordered = [
        key.collate("C")
        if connection.dialect.name == "postgresql" and isinstance(key.type, sa.Text)
        else key
        for key in table.primary_key
    ]
    # Of the statement: a connection would keep the option, and take first rows from `digests`.
    query = query.order_by(*ordered).execution_options(stream_results=True)
    for some in connection.execute(query).partitions(AT_ONCE):
        yield from map(tuple, some)


def _vouched(
    rows: Iterator[_Row], names: list[str], count: TableResult | None = None
) -> Iterator[_Row]:
    """Leave out and count rows that the log cannot verify."""
    for *known, before in rows:
        if not before:
            yield tuple(known)
        elif count is not None:
            count.unvouched += 1
            row = dict(zip(names, known, strict=True))
            if count.table == "groups" and row["gone_at"] is None:
                count.alive += 1
                if len(count.named) < MOST_NAMED:
                    count.named.append(f"{row['namespace']}/{row['name']}")


def _renumbered(rows: Iterator[_Row], names: list[str]) -> Iterator[_Row]:
    """Number the lines of each position from 0."""
    at, number = names.index("seq"), names.index("ord")
    position, line = None, 0
    for row in rows:
        line = line + 1 if row[at] == position else 0
        position = row[at]
        yield (*row[:number], line, *row[number + 1 :])


def _key(row: _Row, keys: _Keys) -> _Row:
    found = (row[place] for _, place in keys)
    return tuple(value.encode() if isinstance(value, str) else value for value in found)


def _named(row: _Row, keys: _Keys) -> str:
    return ", ".join(f"{name}={row[place]}" for name, place in keys if name != "cluster")


def _differs(result: TableResult, text: str) -> None:
    result.different += 1
    if len(result.examples) < MOST:
        result.examples.append(text)
