"""Epochs: whether the log is still the log that was folded, and if not, what it lacks.

Theory. The API server is the truth; a log that lost its tail costs history, never correctness,
provided it is noticed. On every start and reconnect the stream is compared with the checkpoint:

    made anew      other creation time            all of it is new to us
    rolled back    ends before our message, or    go on after the last message that is older than
                   has another one in its place   ours
    expired        begins after our next message  go on with its first message
    damaged        the reader missed some         go on with the first after them

Each opens a new epoch: positions go on growing through a new base, what may be missing is recorded,
and nothing is decided until every kind was listed completely again.

Order of checks as above, the first that holds. Invariant: positions never repeat within a cluster.
"""

from datetime import UTC, datetime, timedelta
from typing import Protocol

from msgspec import Struct

from podgroup.fold.common import note
from podgroup.log.events import Batch, OperatorActed
from podgroup.log.journal import At, EpochRow
from podgroup.log.subjects import EVENTS
from podgroup.state.world import World
from projector.writing.checkpoint import Checkpoint
from runtime.jetstream import Message, MessagesLost, StreamState

SAME_TIME = timedelta(milliseconds=1)
"""Timestamps of a message may differ by rounding of nanoseconds, not by more."""


class Lookup(Protocol):
    """The part of the log that this needs, such as `runtime.jetstream.Bus`."""

    async def get(self, stream: str, sequence: int) -> Message | None:
        """Return one message, None when it is not there."""


class Change(Struct, frozen=True):
    """A new epoch: why, which stream sequence is read next, and which positions may be missing."""

    reason: str
    first: int
    at: datetime | None = None
    """Timestamp of message `first - 1`, when it is there."""
    lost_from: int | None = None
    lost_to: int | None = None
    same_base: bool = False


async def examine(
    bus: Lookup,
    stream: StreamState,
    checkpoint: Checkpoint | None,
    missed: MessagesLost | None = None,
) -> Change | None:
    """Compare the stream with the checkpoint; None: the stream goes on where we stopped.

    `missed` are messages after the checkpoint that a reader found missing.

    Raises:
        BusError: the log gives no answer.
    """
    first = stream.first_sequence
    if checkpoint is None:
        if first > 1:
            return Change(
                "first start, on a log whose beginning is gone", first, None, 1, first - 1
            )
        return Change("first start", 1)
    stood, base = checkpoint.stream_seq, checkpoint.base
    if stream.created != checkpoint.stream_created_at:
        was = checkpoint.stream_created_at
        reason = (
            f"the stream was made anew at {stream.created.isoformat()}; "
            f"the one before was of {was.isoformat() if was else 'an unknown time'}"
        )
        lost = (base + 1, checkpoint.seq) if checkpoint.seq > base else (None, None)
        return Change(reason, first, None, *lost)
    ours = await bus.get(EVENTS, stood) if first <= stood <= stream.last_sequence else None
    replaced = (
        ours is not None and checkpoint.at is not None and abs(ours.at - checkpoint.at) > SAME_TIME
    )
    if stream.last_sequence < stood or replaced:
        kept = await _newest_not_after(bus, stream, stood, checkpoint.at)
        reason = (
            f"the stream was rolled back: message {stood} that was folded is not in it any more; "
            f"going on after message {kept.sequence if kept else first - 1}"
        )
        next_first = kept.sequence + 1 if kept else first
        at = kept.at if kept else None
        return Change(reason, next_first, at, base + next_first, checkpoint.seq)
    if first > stood + 1:
        reason = f"messages {stood + 1} to {first - 1} expired before they were read"
        lost_to = first - 1 + base
        return Change(reason, first, None, checkpoint.seq + 1, lost_to, same_base=True)
    if missed is not None:
        # Later messages of other subjects may be folded already.
        ahead = missed.last > stood
        first = missed.last + 1 if ahead else stood + 1
        lost = missed.first + base, missed.last + base
        return Change(str(missed), first, None, *lost, same_base=ahead)
    return None


async def _newest_not_after(
    bus: Lookup, stream: StreamState, stood: int, at: datetime | None
) -> Message | None:
    """Return the newest message that is not later than `at`, by bisection on time.

    Later messages came after the loss, whatever their sequence.
    """
    low, high = stream.first_sequence, min(stood, stream.last_sequence)
    found: Message | None = None
    while low <= high:
        middle = (low + high) // 2
        message = await bus.get(EVENTS, middle)
        if message is not None and (at is None or message.at <= at + SAME_TIME):
            found = message
            low = middle + 1
        else:
            high = middle - 1
    return found


def open_epoch(
    world: World, before: Checkpoint | None, change: Change, stream: StreamState, now: datetime
) -> tuple[EpochRow, int]:
    """Begin the epoch in the state; returns its row and the new base.

    The epoch takes a position of its own, at which history says `EpochStarted`.
    """
    meta = world.meta
    if before is None:
        base, position = 0, change.first - 1
    elif change.same_base:
        base, position = before.base, change.first - 1 + before.base
        meta.epoch += 1
    else:
        position = before.seq + 1
        base = position - (change.first - 1)
        meta.epoch += 1
    meta.position = position
    meta.synced.clear()
    meta.frames.clear()
    # A replay begins with the epoch, so the settings must be in the epoch again.
    meta.settings, meta.unsettled = None, False
    world.note_ord = 0
    here = At(position, max(now, world.at) if world.at is not None else now)
    lost = ""
    if change.lost_from is not None:
        lost = f"; positions {change.lost_from} to {change.lost_to} may be missing from the log"
    note(
        world,
        here,
        "EpochStarted",
        reason=f"epoch {meta.epoch}",
        message=change.reason + lost,
    )
    row = EpochRow(
        number=meta.epoch,
        base=base,
        at=now,
        reason=change.reason,
        stream_created_at=stream.created,
        lost_from=change.lost_from,
        lost_to=change.lost_to,
    )
    return row, base


class RelistRequests:
    """When to ask the ingester for a relist: it notices most losses itself, but not all.

    It cannot know that messages expired unread, or that this database is new while the log is old.
    So when a kind is not synced and no relist is under way for a while, we ask, at growing
    intervals. Times are monotonic seconds.
    """

    def __init__(self, patience_s: float = 15.0, ceiling_s: float = 600.0) -> None:
        self._patience_s = patience_s
        self._ceiling_s = ceiling_s
        self._wait_s = patience_s
        self._since: float | None = None

    def due(self, *, waiting: bool, monotonic_s: float) -> bool:
        """Return whether to ask now. `waiting`: not every kind is synced and no frame is open."""
        if not waiting:
            self._since, self._wait_s = None, self._patience_s
            return False
        if self._since is None:
            self._since = monotonic_s
            return False
        if monotonic_s - self._since < self._wait_s:
            return False
        self._since = monotonic_s
        self._wait_s = min(self._wait_s * 2, self._ceiling_s)
        return True


def relist_request(epoch: int, now: datetime) -> Batch:
    """Return the message that asks for a relist."""
    event = OperatorActed(
        action="relist",
        target=f"0/{epoch}/{int(now.astimezone(UTC).timestamp())}",
        by="projector",
        message=f"epoch {epoch} has seen no complete list of every kind",
    )
    return Batch(source="projector", events=(event,))
