"""Rows that a new read model takes over from the one in force, because the log lacks them.

Theory. The log has all events since the present epoch began. From before its position `:floor` only
the read model has groups that were over by then, with their pods and so on, and lines of history:
these rows are taken over as they are. A group that was not over gets the rows that the log still
gives. Pruned rows stay away: the log may reach back further.

Invariant: names come from `tables`, values are parameters; only the new read model is written.
"""

import sqlalchemy as sa

from projector.schema.layout import COLUMNS, KEPT, MERGED, OWNERS
from projector.tables import metadata
from projector.times import bound
from projector.upkeep.pruning import WHERE_OVER, limits, over


def kept(table: str, source: str = "", *, floor: int) -> str:
    """Return the condition that a row `t` is taken over; "": none of the table is.

    `source` is the schema of the read model in force, with its dot.
    """
    if table in KEPT:
        # Lines at position 0 are of the projector, which began the first epoch.
        return KEPT[table].format(t="t") if floor or table == "history" else ""
    if not floor or table not in OWNERS:
        return ""
    column, owner, key = OWNERS[table]
    return (
        f"EXISTS (SELECT 1 FROM {source}{owner} AS o WHERE o.cluster = t.cluster "
        f"AND o.{key} = t.{column} AND {KEPT[owner].format(t='o')})"
    )


def count_kept(table: str) -> str:
    """Count the rows of a table from before `floor` that are taken over."""
    mine = f"t.cluster = :cluster AND {KEPT[table].format(t='t')}"
    return f'SELECT count(*) FROM "{table}" AS t WHERE {mine}'


def take_over(new: sa.Connection, source: str, cluster: str, floor: int) -> None:
    """Copy the rows that the log lacks from the schema `source` (with its dot)."""
    given = {"cluster": cluster, "floor": floor}
    for table in MERGED:
        if not (condition := kept(table, source, floor=floor)):
            continue
        mine = f"t.cluster = :cluster AND {condition}"
        keys = [column.name for column in metadata.tables[table].primary_key]
        same = " AND ".join(f'n."{key}" = t."{key}"' for key in keys)
        names = ", ".join(f'"{name}"' for name in COLUMNS[table])
        told = f'{source}"{table}" AS t WHERE {mine}'
        for text in (
            f'DELETE FROM "{table}" AS n WHERE EXISTS (SELECT 1 FROM {told} AND {same})',
            f'INSERT INTO "{table}" ({names}) SELECT {names} FROM {told}',
        ):
            values = given if ":floor" in text else {"cluster": cluster}
            new.execute(sa.text(text), values)


def take_pruned_away(new: sa.Connection, live: sa.Connection, cluster: str, published: int) -> None:
    """Delete rows that were pruned in the read model in force; `published` as in its checkpoint."""
    known = limits(live, cluster)
    for table in WHERE_OVER:
        if table not in known or table not in MERGED:
            continue
        text = f"DELETE FROM {table} WHERE cluster = :cluster AND {over(table)}"
        values = bound(new.dialect.name, {"cluster": cluster, "before": known[table]})
        if table == "decisions":
            text, values = f"{text} AND number <= :published", {**values, "published": published}
        new.execute(sa.text(text), values)
