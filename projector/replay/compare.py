"""Compare two read models, table by table and row by row.

Theory. Both sides are read in the order of the table's key and merged, so memory does not grow
with history. Compared is the public contract: what a person can query. Left out are the folded
state (its bytes may differ where dictionaries were filled in another order) and the position as of
which a row was written, which depends on how messages were gathered into transactions.

Invariant: every row of one side that has no equal on the other is counted.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from msgspec import Struct

from projector import tables
from projector.pruning import WHERE_OVER, limits
from projector.tables.base import utc_text

LEFT_OUT = frozenset({"folded", "as_of_seq"})
TABLES: tuple[sa.Table, ...] = (
    tables.groups,
    tables.roles,
    tables.pods,
    tables.gates,
    tables.history,
    tables.waits,
    tables.admissions,
    tables.decisions,
    tables.outcomes,
)
CACHE_KIB = 8 * 1024
MOST = 5
"""Differences described per table; all are counted."""


class TableResult(Struct):
    """How one table compares."""

    table: str
    rows: int = 0
    different: int = 0
    examples: list[str] = []


def compare(
    live: sa.Connection, again: sa.Connection, cluster: str, shard: int, above: int
) -> list[TableResult]:
    """Compare every table of the contract; only rows from position `above` on have a position.

    What was over before the limit of the live side's pruning is left out on both sides.
    """
    gone = limits(live, cluster)
    for connection in (live, again):
        if connection.dialect.name == "sqlite":
            # Every row is read once, in order.
            connection.exec_driver_sql(f"PRAGMA cache_size = -{CACHE_KIB}")
    return [
        _table(table, live, again, cluster, shard, above, gone.get(table.name)) for table in TABLES
    ]


def _table(
    table: sa.Table,
    live: sa.Connection,
    again: sa.Connection,
    cluster: str,
    shard: int,
    above: int,
    before: datetime | None,
) -> TableResult:
    keys = [column.name for column in table.primary_key]
    left_out = LEFT_OUT - {"as_of_seq"} if table.name == "decisions" else LEFT_OUT
    names = [column.name for column in table.columns if column.name not in left_out]
    one = _rows(live, table, names, keys, cluster, shard, above, before)
    two = _rows(again, table, names, keys, cluster, shard, above, before)
    result = TableResult(table.name)
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
    connection: sa.Connection,
    table: sa.Table,
    names: list[str],
    keys: list[str],
    cluster: str,
    shard: int,
    above: int,
    before: datetime | None,
) -> Iterator[Any]:
    query = sa.select(*(table.c[name] for name in names)).where(table.c.cluster == cluster)
    if "shard" in table.c:
        query = query.where(table.c.shard == shard)
    if table.name == "history":
        query = query.where(table.c.seq > above)
    if before is not None:
        query = query.where(sa.text(f"({WHERE_OVER[table.name]}) IS NOT TRUE"))
        given = utc_text(before) if connection.dialect.name == "sqlite" else before
        query = query.params(before=given)
    # Text compares by bytes here, whatever the collation of the database says.
    ordered = [
        table.c[key].collate("C")
        if connection.dialect.name == "postgresql" and isinstance(table.c[key].type, sa.Text)
        else table.c[key]
        for key in keys
    ]
    result = connection.execution_options(stream_results=True).execute(query.order_by(*ordered))
    yield from result.mappings()


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
