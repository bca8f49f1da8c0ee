"""The stage: where a new read model is put together beside the live one, and from where it goes in.

    PostgreSQL   a schema of its own with unlogged tables without indexes, filled by COPY
    SQLite       a file of its own beside the live one, attached, written without journal or sync

Theory. Rows are only appended, whole batches at a time (`finals`). At the end one
transaction on the live tables takes the checkpoint's row first, as every projector's
transaction does, so none is under way and none can begin; the last rows are appended; then rows are
merged (`merging`) and the checkpoint is replaced. It keeps what says how far decisions were sent,
and its `writer` begins with `REBUILT`, by which a projector whose next commit fails knows that it
has to load and go on, and not to stop.

A process that dies before the commit leaves a stage and an untouched read model. `Stage` removes
what is left of an earlier one, and refuses while another is at work.

Invariant: readers see all of the old rows or all of the new ones.
"""

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec
import sqlalchemy as sa

from projector.replay import merging
from projector.schema.layout import MERGED, MODES, Row
from projector.storage.store import REBUILT
from projector.times import bound
from projector.upkeep.pruning import WHERE_OVER, limits, over
from projector.writing import statements
from projector.writing.checkpoint import Checkpoint
from projector.writing.rows import Rows

RESOLVED = (
    "UPDATE {decisions} AS d SET status = v.status, resolved_at = v.at FROM ("
    "SELECT cluster, decision_id, status, at, row_number() OVER ("
    "PARTITION BY cluster, decision_id ORDER BY CASE WHEN status = 'applied' THEN 0 ELSE 1 END, "
    "CASE WHEN status = 'applied' THEN seq ELSE -seq END) AS place FROM {outcomes} "
    "WHERE status <> 'retrying') AS v WHERE v.place = 1 AND d.cluster = v.cluster "
    "AND d.id = v.decision_id "
    "AND (d.status IS NULL OR (d.status <> v.status AND d.status <> 'applied'))"
)
"""Status of decisions by their outcomes: the first that applied it, else the last one."""


class Stage(Protocol):
    """A read model in the making. Calls block and belong to one thread at a time."""

    left_over: str
    """What an earlier one had left and was removed, "" for nothing."""

    def append(self, rows: Rows) -> None:
        """Add rows; they are in the order in which they were made."""

    def prepare(self) -> None:
        """Do what can be done before the projector has to wait: nearly all rows are there."""

    def checkpoint(self) -> Checkpoint | None:
        """Take the live checkpoint in a transaction that `merge` goes on with, or `undo` ends."""

    def merge(self, old: Checkpoint, new: Checkpoint, floor: int, *, loose: bool) -> int:
        """Put the new rows in place and commit; returns how many rows that changed."""

    def undo(self) -> None:
        """End the transaction that `checkpoint` began; the live rows are as they were."""

    def close(self) -> None:
        """Remove the stage."""


def replaced(old: Checkpoint, folded: bytes) -> Checkpoint:
    """Return the checkpoint of the new read model in place of `old`."""
    return msgspec.structs.replace(
        old,
        writes=old.writes + 1,
        writer=f"{REBUILT}{uuid.uuid4().hex}",
        written_at=datetime.now(UTC),
        folded=folded,
    )


def checkpoint_values(old: Checkpoint, new: Checkpoint) -> tuple[Any, ...]:
    """Return the parameters of `statements.next_checkpoint`."""
    values = [getattr(new, name) for name in statements.CHECKPOINT_COLUMNS]
    return (*values[1:], new.cluster, old.seq, old.writes)


def repeated(name: str, table: str) -> str:
    """Find out whether a key comes twice in `name`."""
    key = ", ".join(f'"{name}"' for name in merging.keys(table))
    return f"SELECT 1 FROM {name} GROUP BY {key} HAVING count(*) > 1 LIMIT 1"


def delete_repeated(name: str, table: str, rowid: str) -> str:
    """Delete rows whose key comes again: the last one stays, of what is written once the first."""
    keep_first = MODES[table] != "replace"
    same = " AND ".join(f'a."{key}" = b."{key}"' for key in merging.keys(table))
    order = ">" if keep_first else "<"
    return (
        f"DELETE FROM {name} AS a WHERE EXISTS "
        f"(SELECT 1 FROM {name} AS b WHERE {same} AND a.{rowid} {order} b.{rowid})"
    )


def appended(rows: Rows) -> list[tuple[str, list[Row]]]:
    """Return what there is to append, table by table."""
    return [(table, rows.tables[table]) for table in MERGED if rows.tables.get(table)]


_APPENDED = ("history", "outcomes")
"""Tables of which is pruned by time alone."""


def leave_out_pruned(connection: sa.Connection, cluster: str, name: Callable[[str], str]) -> None:
    """Delete from the stage what was pruned: the log may remember longer than the read model."""
    for table, before in limits(connection, cluster).items():
        if table in _APPENDED:
            text = f"DELETE FROM {name(table)} WHERE {over(table)}"
            connection.execute(sa.text(text), bound(connection.dialect.name, {"before": before}))


def take_pruned_away(connection: sa.Connection, cluster: str, published: int) -> int:
    """Delete from the merged tables what was pruned before; returns how many rows."""
    known = limits(connection, cluster)
    count = 0
    for table in WHERE_OVER:
        if table not in known or table in _APPENDED:
            continue
        text = f"DELETE FROM {table} WHERE cluster = :cluster AND {over(table)}"
        values = bound(connection.dialect.name, {"cluster": cluster, "before": known[table]})
        if table == "decisions":
            text, values = f"{text} AND number <= :published", {**values, "published": published}
        count += connection.execute(sa.text(text), values).rowcount
    return count
