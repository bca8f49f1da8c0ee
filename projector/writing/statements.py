"""SQL text of the writes, for both databases.

Theory. One statement per table: insert, and for an existing key follow the table's mode. The two
databases agree on `ON CONFLICT`, on `excluded` and on `UPDATE ... FROM`; they differ in the mark of
a parameter, which the caller passes.

Invariant: values are always parameters; only names from `tables` become text.
"""

from collections.abc import Sequence
from functools import cache

from projector.schema.layout import COLUMNS, MODES
from projector.tables import metadata
from projector.writing.checkpoint import Checkpoint

ORDER = tuple(MODES)
"""Tables in the order they are written, the same in every transaction, so none can deadlock."""

KEPT_CONCLUSIONS = 50_000
"""Records that stay after they were sent: a rebuild that switches over takes the newest from here,
where they are before they are in their stream."""
FORGET_CONCLUSIONS = "DELETE FROM conclusions WHERE cluster = {0} AND shard = 0 AND number < {0}"

REMEMBERED = {"groups": ("admitted_at",)}
"""Columns in which null keeps the stored value."""

CHECKPOINT_COLUMNS = Checkpoint.__struct_fields__


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def on_conflict(table: str, steady: Sequence[str] = ()) -> str:
    """Return the ON CONFLICT clause of a table.

    With `steady` a row that is there is left alone unless it has the same in those columns, and
    they are not written again.
    """
    mode = MODES[table]
    if mode == "append":
        return ""
    if mode == "keep":
        return " ON CONFLICT DO NOTHING"
    keys = [column.name for column in metadata.tables[table].primary_key]
    kept = REMEMBERED.get(table, ())
    sets = ", ".join(
        f'"{name}" = coalesce(excluded."{name}", "{table}"."{name}")'
        if name in kept
        else f'"{name}" = excluded."{name}"'
        for name in COLUMNS[table]
        if name not in keys and name not in steady
    )
    same = " AND ".join(f'"{table}"."{name}" IS excluded."{name}"' for name in steady)
    where = f" WHERE {same}" if steady else ""
    return f" ON CONFLICT ({_quoted(keys)}) DO UPDATE SET {sets}{where}"


@cache
def insert_values(table: str, mark: str, rows: int = 1, steady: Sequence[str] = ()) -> str:
    """Return the statement that writes `rows` rows given as parameters; see `on_conflict`."""
    columns = COLUMNS[table]
    place = "(" + ", ".join([mark] * len(columns)) + ")"
    values = ", ".join([place] * rows)
    return f'INSERT INTO "{table}" ({_quoted(columns)}) VALUES {values}{on_conflict(table, steady)}'


def insert_from(table: str, source: str) -> str:
    """Return the statement that writes everything in `source`, a quoted name."""
    columns = _quoted(COLUMNS[table])
    rows = f"SELECT {columns} FROM {source}"
    return f'INSERT INTO "{table}" ({columns}) {rows}{on_conflict(table)}'


def first_checkpoint(mark: str) -> str:
    """Return the statement for a cluster's first checkpoint; 0 rows: a checkpoint exists."""
    places = ", ".join([mark] * len(CHECKPOINT_COLUMNS))
    return (
        f"INSERT INTO checkpoints ({_quoted(CHECKPOINT_COLUMNS)}, shard) VALUES ({places}, 0) "
        "ON CONFLICT DO NOTHING"
    )


def next_checkpoint(mark: str) -> str:
    """Return the compare-and-set; 0 rows: another projector wrote.

    Parameters: the columns but for the cluster, then the cluster, and the `seq` and `writes` that
    must still be there.
    """
    sets = ", ".join(f'"{name}" = {mark}' for name in CHECKPOINT_COLUMNS[1:])
    return (
        f"UPDATE checkpoints SET {sets} "
        f"WHERE cluster = {mark} AND shard = 0 AND seq = {mark} AND writes = {mark}"
    )


RESOLVE = (
    "UPDATE decisions SET status = v.status, resolved_at = v.at FROM {source} "
    "WHERE decisions.cluster = {mark} AND decisions.id = v.id "
    "AND (decisions.status IS NULL OR decisions.status <> 'applied')"
)
"""Write outcomes into decisions; an applied one stays applied. Source `v(status, at, id)`."""


def forget(mark: str) -> str:
    """Return the statement that deletes an object: (cluster, kind, namespace, name)."""
    return (
        f"DELETE FROM objects WHERE cluster = {mark} AND shard = 0 "
        f"AND kind = {mark} AND namespace = {mark} AND name = {mark}"
    )


def close_parked(mark: str) -> str:
    """Return the statement that closes parked rows.

    Parameters: (at, action, by, cluster, group or "", seq or -1, ord or -1).
    """
    return (
        f"UPDATE parked SET resolved_at = {mark}, resolution = {mark}, resolved_by = {mark} "
        f"WHERE cluster = {mark} AND shard = 0 AND resolution = '' "
        f"AND ((group_id <> '' AND group_id = {mark}) OR (seq = {mark} AND ord = {mark}))"
    )


def parked_key(target: str) -> tuple[str, int, int]:
    """Return (group, seq, ord) of what an operator named: `<seq>/<ord>` or a group id."""
    seq, slash, ordinal = target.partition("/")
    if slash and seq.isdecimal() and ordinal.isdecimal() and len(target) < 30:
        return "", int(seq), int(ordinal)
    return target, -1, -1
