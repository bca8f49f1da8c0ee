"""How rows are laid out and written: all of it read off the tables themselves.

Theory. A table's definition has the way its rows are written (`tables.base.Written`) and the order
of its columns. Statements, COPY and comparison follow it, and rows are made by naming columns
(`row_of`). So a new table needs its definition, a maker of its rows, its migration and its docs;
this module and the writers do not name it.

Invariant: a row is a tuple in the order of its table's columns, and has every one of them.
"""

from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa

from projector.tables import metadata
from projector.tables.base import Document, Mode, UtcTime, Written

Row = tuple[Any, ...]


def written(table: sa.Table) -> Written | None:
    """Return how the projection writes a table; None: the projection does not write it."""
    found: Written | None = table.info.get(Written.KEY)
    return found


def row_of(table: sa.Table) -> Callable[..., Row]:
    """Return a function that makes a row of keyword arguments, one for each column.

    A TypeError of the call names the column that is missing or too many.
    """
    names = [column.name for column in table.columns]
    source = f"lambda *, {', '.join(names)}: ({', '.join(names)},)"
    # As namedtuple does it: a call costs a third of what going through a dict would.
    made: Callable[..., Row] = eval(source)  # noqa: RUF100 -- names of our own tables
    return made


def rows_of(table: sa.Table, *same: str, **fields: str) -> Callable[..., list[Row]]:
    """Return a function that makes rows of many records.

    A column is the record's attribute of that name, or the attribute that `fields` names. Columns
    in `same` are its arguments, alike in every row; a TypeError of a call names one that is
    missing.
    """
    names = [column.name for column in table.columns]
    if unknown := {*same, *fields} - {*names}:
        raise TypeError(f"table {table.name} has no columns {sorted(unknown)}")
    cells = [name if name in same else f"one.{fields.get(name, name)}" for name in names]
    source = f"lambda found, *, {', '.join(same)}: [({', '.join(cells)},) for one in found]"
    made: Callable[..., list[Row]] = eval(source)  # noqa: RUF100 -- names of our own
    return made


_WRITTEN: Final = {
    table.name: (table, how)
    for table in metadata.tables.values()
    if (how := written(table)) is not None
}
TABLES: Final = tuple(table for table, _ in _WRITTEN.values())
"""Tables that the projection writes, in the order of the definitions: the same in every
transaction, so none can deadlock.
"""
COLUMNS: Final = {table.name: tuple(c.name for c in table.columns) for table in TABLES}
"""Columns written, per table, in the order of the tuples."""


def _places(kind: type[Any]) -> dict[str, tuple[int, ...]]:
    return {
        table.name: tuple(i for i, c in enumerate(table.columns) if isinstance(c.type, kind))
        for table in TABLES
    }


TIMES: Final = _places(UtcTime)
"""Places of the columns that hold a time, per table."""
DOCUMENTS: Final = _places(type(Document))
"""Places of the columns that hold a JSON document."""
MODES: Final[dict[str, Mode]] = {name: how.mode for name, (_, how) in _WRITTEN.items()}
COMPARED: Final = tuple(table for table, how in _WRITTEN.values() if how.compared)
"""Tables that a replay compares with the live read model."""
OWNERS: Final = {name: how.owner for name, (_, how) in _WRITTEN.items() if how.owner is not None}
"""Tables without a shard: (column, table and key of the row they belong to)."""


def _steady(table: sa.Table) -> tuple[str, ...]:
    found: set[str] = set()
    for index in table.indexes:
        where = index.dialect_options["sqlite"]["where"]
        if where is not None:
            if str(where) != f"{table.name}.{GONE_AT} IS NULL":
                continue
            found.add(GONE_AT)
        found.update(index.columns.keys())
    if GONE_AT not in found:
        return ()
    return tuple(c.name for c in table.columns if c.name in found and not c.primary_key)


GONE_AT: Final = "gone_at"
"""Null in the row of a live object."""
STEADY: Final = {table.name: found for table in TABLES if (found := _steady(table))}
"""Columns by which a row is found while its subject is alive; they hardly ever change then."""
KEPT: Final = {name: how.kept for name, (_, how) in _WRITTEN.items() if how.kept}
"""Condition on `{t}` for rows from before position `:floor`, by table."""
MERGED: Final = tuple(name for name, (_, how) in _WRITTEN.items() if how.merged)
"""Tables that a rebuild makes anew."""
