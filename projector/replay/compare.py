"""Compare two read models, table by table and row by row.

Theory. Both sides are read in the order of the table's key and merged, so memory does not grow
with history. Compared is the public contract: what a person can query. Left out are the folded
state (its bytes may differ where dictionaries were filled in another order) and the position as of
which a row was written, which depends on how messages were gathered into transactions.

Rows that the log cannot vouch for (`vouching`) are counted apart, and not compared. Lines of
history are numbered within their message; those that are compared are numbered without the others.

Invariant: every other row of one side that has no equal on the other is counted.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from msgspec import Struct

from projector.replay.vouching import of_before
from projector.schema.layout import COMPARED
from projector.tables.base import bound
from projector.upkeep.pruning import WHERE_OVER, limits

LEFT_OUT = frozenset({"folded", "as_of_seq"})
OF_BEFORE = "of_before"
CACHE_KIB = 8 * 1024
MOST = 5
"""Differences described per table; all are counted."""
MOST_NAMED = 20
"""Groups named that cannot be compared; all are counted."""


class TableResult(Struct):
    """How one table compares: `rows` of both sides; `unvouched` more are of the live one."""

    table: str
    rows: int = 0
    different: int = 0
    examples: list[str] = []
    unvouched: int = 0
    alive: int = 0
    """Of those groups that are not compared: how many live."""
    named: list[str] = []
    """The first of these, NAMESPACE/NAME."""


def compare(
    live: sa.Connection, again: sa.Connection, cluster: str, shard: int, floor: int
) -> list[TableResult]:
    """Compare every table of the contract; the log vouches for who came after position `floor`.

    What was over before the limit of the live side's pruning is left out on both sides.
    """
    gone = limits(live, cluster)
    for connection in (live, again):
        if connection.dialect.name == "sqlite":
            # Every row is read once, in order.
            connection.exec_driver_sql(f"PRAGMA cache_size = -{CACHE_KIB}")
    return [
        _table(live, again, _Part(table, cluster, shard, floor, gone.get(table.name)))
        for table in COMPARED
    ]


class _Part(NamedTuple):
    """The rows of a table that are compared; `before`: not those that were over by then."""

    table: sa.Table
    cluster: str
    shard: int
    floor: int
    before: datetime | None


def _table(live: sa.Connection, again: sa.Connection, part: _Part) -> TableResult:
    table = part.table
    keys = [column.name for column in table.primary_key]
    left_out = LEFT_OUT - {"as_of_seq"} if table.name == "decisions" else LEFT_OUT
    names = [column.name for column in table.columns if column.name not in left_out]
    result = TableResult(table.name)
    one = _rows(live, part, names, keys)
    two = _rows(again, part, names, keys)
    if part.floor:
        one, two = _vouched(one, result), _vouched(two)
        if table.name == "history":
            one, two = _renumbered(one), _renumbered(two)
    left, right = next(one, None), next(two, None)
    while left is not None or right is not None:
        result.rows += 1
        if right is None or (left is not None and _key(left, keys) < _key(right, keys)):
            assert left is not None
            _differs(result, f"{_named(left, keys)}: not in the replay")
            left = next(one, None)
        elif left is None or _key(right, keys) < _key(left, keys):
            _differs(result, f"{_named(right, keys)}: only in the replay")
            right = next(two, None)
        else:
            for name in names:
                if _plain(left[name]) != _plain(right[name]):
                    text = f"{_named(left, keys)}: {name} is {left[name]!r}, replay {right[name]!r}"
                    _differs(result, text)
                    break
            left, right = next(one, None), next(two, None)
    return result


def _rows(
    connection: sa.Connection, part: _Part, names: list[str], keys: list[str]
) -> Iterator[Any]:
    table, cluster, shard, floor, before = part
    columns: list[Any] = [table.c[name] for name in names]
    if floor:
        columns.append(sa.case((sa.text(of_before(table.name)), 1), else_=0).label(OF_BEFORE))
    query = sa.select(*columns).where(table.c.cluster == cluster)
    if floor:
        query = query.params(floor=floor)
    if "shard" in table.c:
        query = query.where(table.c.shard == shard)
    if table.name == "history":
        query = query.where(table.c.seq > floor)
    if before is not None:
        query = query.where(sa.text(f"({WHERE_OVER[table.name]}) IS NOT TRUE"))
        query = query.params(bound(connection.dialect, {"before": before}))
    # Text compares by bytes here, whatever the collation of the database says.
    ordered = [
        table.c[key].collate("C")
        if connection.dialect.name == "postgresql" and isinstance(table.c[key].type, sa.Text)
        else table.c[key]
        for key in keys
    ]
    result = connection.execution_options(stream_results=True).execute(query.order_by(*ordered))
    yield from result.mappings()


def _vouched(rows: Iterator[Any], count: TableResult | None = None) -> Iterator[Any]:
    """Leave out what the log cannot vouch for, and count it."""
    for row in rows:
        if not row[OF_BEFORE]:
            yield row
        elif count is not None:
            count.unvouched += 1
            if count.table == "groups" and row["gone_at"] is None:
                count.alive += 1
                if len(count.named) < MOST_NAMED:
                    count.named.append(f"{row['namespace']}/{row['name']}")


def _renumbered(rows: Iterator[Any]) -> Iterator[Any]:
    """Number the lines of each position from 0."""
    position, line = None, 0
    for row in rows:
        line = line + 1 if row["seq"] == position else 0
        position = row["seq"]
        yield {**row, "ord": line}


def _key(row: Any, keys: list[str]) -> tuple[Any, ...]:
    return tuple(
        value.encode() if isinstance(value, str) else _plain(value)
        for value in (row[key] for key in keys)
    )


def _named(row: Any, keys: list[str]) -> str:
    return ", ".join(f"{key}={row[key]}" for key in keys if key != "cluster")


def _plain(value: Any) -> Any:
    return value.timestamp() if isinstance(value, datetime) else value


def _differs(result: TableResult, text: str) -> None:
    result.different += 1
    if len(result.examples) < MOST:
        result.examples.append(text)
