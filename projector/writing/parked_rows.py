"""Rows of parked events, and of what a person did about them.

Invariant: a parked event keeps its bytes, as far as the message has them.
"""

from datetime import datetime

import msgspec
from msgspec import Struct

from podgroup.log.events import Batch, OperatorActed, Undecodable
from podgroup.log.journal import ParkedRow
from projector import tables
from projector.schema.layout import Row, row_of
from projector.tables.base import SHARD

_parked_row = row_of(tables.parked)


class Settled(Struct, frozen=True):
    """A person's decision about parked events: `target` is `<seq>/<ord>` or a group id."""

    action: str
    target: str
    by: str
    at: datetime


def settled(batch: Batch, at: datetime) -> list[Settled]:
    """Return the decisions about parked events in a message."""
    return [
        Settled(event.action, event.target, event.by, at)
        for event in batch.events
        if isinstance(event, OperatorActed) and event.action in ("release", "discard")
    ]


def row_of_parked(cluster: str, row: ParkedRow) -> Row:
    """Return the row of a parked event."""
    return _parked_row(
        cluster=cluster,
        shard=SHARD,
        seq=row.seq,
        ord=row.ord,
        at=row.at,
        reason=row.reason,
        message=row.message,
        group_id=row.group,
        object=row.object,
        raw=row.raw or None,
        resolved_at=None,
        resolution="",
        resolved_by="",
    )


def keep_raw(parked: list[ParkedRow], since: int, batch: Batch) -> None:
    """Give rows from index `since` on the bytes of their events, which are in `batch`."""
    for index in range(since, len(parked)):
        parked[index] = _with_raw(parked[index], batch)


def _with_raw(row: ParkedRow, batch: Batch) -> ParkedRow:
    """Return the row with the bytes of its event, unless it has them already."""
    if row.raw or row.ord >= len(batch.events):
        return row
    event = batch.events[row.ord]
    raw = event.raw if isinstance(event, Undecodable) else msgspec.json.encode(event)
    return msgspec.structs.replace(row, raw=raw)
