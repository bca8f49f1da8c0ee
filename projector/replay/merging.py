"""Merging: make the rows of one cluster those of another set of tables, by two statements a table.

Theory. A new read model replaces the live one within one ordinary transaction that touches nothing
but rows: what has no equal among the new rows is deleted, then what is missing is inserted. So
readers see the one or the other; partitions, indexes, grants, comments and whatever else people
have made around the tables stay; other clusters of the same database are not touched;
and what is equal, which is nearly everything, is not written. Left out of the comparison is the
position as of which a row was written, as in `compare`.

Rows from before position `floor` that the log cannot give again are kept.

Invariant: names come from `tables` and values are parameters (`:cluster`, `:floor`).
"""

from projector.schema.layout import COLUMNS, KEPT, OWNERS
from projector.tables import metadata

_OURS = "t.cluster = :cluster"


def keys(table: str) -> list[str]:
    """Return the names of the key's columns."""
    return [column.name for column in metadata.tables[table].primary_key]


def delete_unequal(table: str, source: str, equal: str, *, floor: int) -> str:
    """Delete the cluster's rows that have no equal in `source`.

    `equal` is the operator that compares nulls as well.
    """
    same = " AND ".join(
        [f'n."{name}" = t."{name}"' for name in keys(table)]
        + [f'n."{name}" {equal} t."{name}"' for name in _compared(table)]
    )
    return (
        f'DELETE FROM "{table}" AS t WHERE {_OURS}{_but_kept(table, floor)} '
        f"AND NOT EXISTS (SELECT 1 FROM {source} AS n WHERE {same})"
    )


def insert_missing(table: str, source: str, *, floor: int) -> str:
    """Insert the rows of `source` whose key is not there, after `delete_unequal`.

    What is left has an equal there, so as many are the same. Both databases count first, once, and
    look for none if no row is missing: counting costs a tenth of looking.
    """
    names = ", ".join(f'"{name}"' for name in COLUMNS[table])
    same = " AND ".join(f'n."{name}" = t."{name}"' for name in keys(table))
    left = f'SELECT count(*) FROM "{table}" AS t WHERE {_OURS}'
    return (
        f'INSERT INTO "{table}" ({names}) SELECT {names} FROM {source} AS n '
        f"WHERE ({left}{_but_kept(table, floor)}) <> (SELECT count(*) FROM {source}) "
        f'AND NOT EXISTS (SELECT 1 FROM "{table}" AS t WHERE {same})'
    )


def count_kept(table: str) -> str:
    """Count the rows of a table from before `floor`."""
    kept = KEPT[table].format(t="t")
    return f'SELECT count(*) FROM "{table}" AS t WHERE {_OURS} AND {kept}'


def _compared(table: str) -> list[str]:
    mine = keys(table)
    left_out = {"as_of_seq"} if table != "decisions" else set()
    return [name for name in COLUMNS[table] if name not in mine and name not in left_out]


def _but_kept(table: str, floor: int) -> str:
    if table == "history" or (floor and table in KEPT):
        return f" AND NOT ({KEPT[table].format(t='t')})"
    if not floor or table not in OWNERS:
        return ""
    column, owner, key = OWNERS[table]
    return (
        f" AND NOT EXISTS (SELECT 1 FROM {owner} AS o WHERE o.cluster = t.cluster "
        f"AND o.{key} = t.{column} AND {KEPT[owner].format(t='o')})"
    )
