"""Where the read model stands: up to where the log may be archived, and from where it is needed.

Theory. A replay of the present begins with the present epoch. The note with which the projector
began it stands one position before its first message; where history was pruned, the table of
epochs tells the same from what was lost.

Invariant: read from one snapshot; nothing is written.
"""

import sqlalchemy as sa
from msgspec import Struct

from podgroup.codec import Conclusions
from projector import tables
from projector.loading import load_checkpoint, load_conclusions


class Standing(Struct, frozen=True, kw_only=True):
    """`first` is the first position of the epoch, `last` where the read model stands.

    `unsent` are decisions that are committed and may not have reached their stream, by number.
    """

    mode: str
    epoch: int
    base: int
    first: int
    last: int
    unsent: tuple[Conclusions, ...] = ()


def standing(connection: sa.Connection, cluster: str, shard: int) -> Standing | None:
    """Return where a shard stands, None before the first commit."""
    checkpoint = load_checkpoint(connection, cluster, shard)
    if checkpoint is None:
        return None
    first = begin(connection, cluster, shard, checkpoint.epoch, checkpoint.base)
    return Standing(
        mode=checkpoint.mode,
        epoch=checkpoint.epoch,
        base=checkpoint.base,
        first=first + checkpoint.base,
        last=checkpoint.seq,
        unsent=tuple(load_conclusions(connection, cluster, shard, checkpoint.published)),
    )


def begin(connection: sa.Connection, cluster: str, shard: int, epoch: int, base: int) -> int:
    """Return the stream sequence with which an epoch begins."""
    h = tables.history.c
    begun = connection.scalar(
        sa.select(sa.func.max(h.seq)).where(
            h.cluster == cluster, h.shard == shard, h.kind == "EpochStarted", h.seq >= base
        )
    )
    if begun is not None:
        return int(begun) - base + 1
    table = tables.epochs
    mine = (table.c.cluster == cluster, table.c.shard == shard, table.c.number <= epoch)
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


def earliest(connection: sa.Connection, cluster: str, shard: int, position: int) -> int | None:
    """Return the number of the first decision made at `position` or later, None for none."""
    table = tables.decisions
    query = sa.select(sa.func.min(table.c.number)).where(
        table.c.cluster == cluster, table.c.shard == shard, table.c.as_of_seq >= position
    )
    found: int | None = connection.scalar(query)
    return found
