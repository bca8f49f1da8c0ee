"""The position of the read model: where the log may be archived up to, and must be kept from.

Theory. A replay of the present begins with the present epoch. The note with which the projector
began it is one position before its first message; where history was pruned, the table of epochs
shows the same by the loss that it records.

Invariant: read from one snapshot; nothing is written.
"""

import sqlalchemy as sa
from msgspec import Struct

from podgroup.log.codec import Conclusions
from podgroup.log.events import SettingsRecorded
from projector import tables
from projector.storage.loading import load_checkpoint, load_conclusions
from projector.tables.base import SHARD
from projector.writing.packing import unpack_meta


class Standing(Struct, frozen=True, kw_only=True):
    """`first` is the first position of the epoch, `last` the position of the read model.

    `settings` are those in force at `last`, published at position `settled` (0: not since history
    was pruned). `unsent` are conclusions that are committed and may not have reached their stream,
    by number.
    """

    mode: str
    epoch: int
    base: int
    first: int
    last: int
    settings: SettingsRecorded | None = None
    settled: int = 0
    unsent: tuple[Conclusions, ...] = ()


def standing(connection: sa.Connection, cluster: str) -> Standing | None:
    """Return the position of a cluster, None before the first commit."""
    checkpoint = load_checkpoint(connection, cluster)
    if checkpoint is None:
        return None
    first = begin(connection, cluster, checkpoint.epoch, checkpoint.base)
    return Standing(
        mode=checkpoint.mode,
        epoch=checkpoint.epoch,
        base=checkpoint.base,
        first=first + checkpoint.base,
        last=checkpoint.seq,
        settings=unpack_meta(checkpoint.folded).settings if checkpoint.folded else None,
        settled=_newest(connection, cluster, "SettingsRecorded", 0) or 0,
        unsent=tuple(load_conclusions(connection, cluster, checkpoint.published)),
    )


def begin(connection: sa.Connection, cluster: str, epoch: int, base: int) -> int:
    """Return the stream sequence with which an epoch begins."""
    begun = _newest(connection, cluster, "EpochStarted", base)
    if begun is not None:
        return begun - base + 1
    table = tables.epochs
    mine = (table.c.cluster == cluster, table.c.shard == SHARD, table.c.number <= epoch)
    rows = list(connection.execute(sa.select(table).where(*mine).order_by(table.c.number)))
    if not rows or rows[-1].number != epoch or rows[-1].lost_from is None:
        return 1
    row, before = rows[-1], rows[-2] if len(rows) > 1 else None
    if before is None or before.base == base:
        return int(row.lost_to) - base + 1  # the stream begins behind what expired unread
    if before.stream_created_at == row.stream_created_at:
        # Rolled back: positions from `lost_from` on were of messages that are not there any more.
        return int(row.lost_from) - int(before.base)
    return 1


def _newest(connection: sa.Connection, cluster: str, kind: str, since: int) -> int | None:
    """Return the position of the newest line of history of a kind that no group has."""
    h = tables.history.c
    found: int | None = connection.scalar(
        sa.select(sa.func.max(h.seq)).where(
            h.cluster == cluster,
            h.shard == SHARD,
            h.group_id == "",
            h.kind == kind,
            h.seq >= since,
        )
    )
    return found


def earliest(connection: sa.Connection, cluster: str, position: int) -> int | None:
    """Return the lowest number that a conclusion at `position` or later can have, None for none.

    Decisions and records are counted together. Records leave the database once they are sent, so a
    number between the last known before `position` and the first known since may be of either side:
    it counts as a later conclusion, because the archive must be complete.
    """
    before, since = 0, False
    for table in (tables.decisions, tables.conclusions):
        mine = (table.c.cluster == cluster, table.c.shard == SHARD)
        there = sa.select(table.c.number).where(*mine, table.c.as_of_seq >= position).limit(1)
        since = since or connection.scalar(there) is not None
        last = sa.select(sa.func.max(table.c.number)).where(*mine, table.c.as_of_seq < position)
        before = max(before, connection.scalar(last) or 0)
    return before + 1 if since else None
