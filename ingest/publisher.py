"""Events of all kinds, in order of arrival, become messages of EVENTS.

Watchers put events in; one pump takes them out in the same order and publishes batches. A lone
event goes out at once. While a few publishes are outstanding the pump lets events collect, up to a
full message, so that under load the cost of a message (which the server syncs to disk) is shared by
hundreds of events. Putting waits when two full messages are collected already: a slow log slows
the watches down instead of filling memory.

Positions. Each message says, per kind, up to which resource version the watch is published *once
this message and all before it are stored*. The version of an event therefore travels with the
event and counts from the message that contains it. A frame takes the kind's position away until
its `RelistCompleted` is in a message, because a crash in between must lead to another relist: the
log would otherwise keep a frame that nobody closes.

Message ids come from the events' ids (`codec.message_id`), with cluster and shard, because
JetStream compares ids within the stream and not within a subject. A refusal inside a frame gets
the frame's name too: its own id repeats, and dropped as a duplicate it would be missing in the
frame.

Invariant: messages are sent in the order of their events, and a message's positions never claim an
event of a later message.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from ingest.bounds import MAX_EVENT_BYTES, bounded
from ingest.kinds import CLUSTER_SCOPED
from ingest.metrics import IngestMetrics
from podgroup import codec, subjects
from podgroup.events import (
    Batch,
    DeltaRefused,
    Event,
    ObjectApplied,
    ObjectDeleted,
    PodApplied,
    PodDeleted,
    RelistCompleted,
    RelistStarted,
    WatchProgressed,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.objects import Kind

PROGRESS_S = 60.0
"""Seconds without any message after which a bookmark is worth one of its own."""

EAGER = 4
"""Outstanding messages up to which events do not wait for company."""

WINDOW = 16
"""Outstanding messages at most; with full messages also the bound on memory in flight."""

_ENVELOPE_BYTES = 4096


class Sink(Protocol):
    """Pipelined publishing in order; `podgroup.runtime.jetstream.Publisher` is one."""

    async def send(self, subject: str, body: bytes, msg_id: str) -> "asyncio.Future[int]":
        """Send; the future gives the sequence once it is stored, or fails for good."""

    def close(self) -> None:
        """Give up what is under way."""


class _Entry(NamedTuple):
    kind: Kind
    event: Event | None
    position: str | None
    size: int


class _Sent(NamedTuple):
    stored: "asyncio.Future[int]"
    positions: dict[str, str]
    msg_id: str


class EventPublisher:
    """Publishes what watchers put in. `positions` are those of the log when this begins."""

    def __init__(
        self,
        sink: Sink,
        *,
        cluster: str,
        shards: int,
        batch_bytes: int,
        positions: dict[str, str],
        clock: Callable[[], float] = time.monotonic,
        metrics: IngestMetrics | None = None,
    ) -> None:
        self.acked_positions = dict(positions)
        self.acked_sequence = 0
        self.acked_msg_id = ""
        """Message id at `acked_sequence`."""
        self.published = 0
        """Events taken into messages so far."""
        self._sink = sink
        self._cluster = cluster
        self._shards = shards
        # One event may be as large as this; more per message would not be taken by every server.
        self._batch_bytes = min(batch_bytes, MAX_EVENT_BYTES + _ENVELOPE_BYTES)
        self._positions = dict(positions)
        self._frames: dict[Kind, str] = {}
        self._clock = clock
        self._metrics = metrics
        self._sent_at = -PROGRESS_S
        self._pending: deque[_Entry] = deque()
        self._pending_bytes = 0
        self._outstanding: deque[_Sent] = deque()
        self._broken: BaseException | None = None
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def pending_bytes(self) -> int:
        """Bytes of events that wait to be put into a message."""
        return self._pending_bytes

    async def put(self, kind: Kind, events: Iterable[Event], position: str | None) -> None:
        """Take events of one kind; `position` holds once the last of them is stored.

        Returns when there is room for more. With no events, `position` is a bookmark's.

        Raises:
            Exception: what broke publishing; everything put in since is lost, start over.
        """
        size = 0
        last: _Entry | None = None
        for event in events:
            if last is not None:
                self._pending.append(last)
            fitting, bytes_ = bounded(kind, event)
            last = _Entry(kind, fitting, None, bytes_)
            size += bytes_
        if last is not None:
            self._pending.append(last._replace(position=position))
        elif position is not None:
            self._pending.append(_Entry(kind, None, position, 0))
        else:
            return
        self._pending_bytes += size
        self._work.set()
        if self._pending_bytes > 2 * self._batch_bytes:
            self._room.clear()
            await self._room.wait()
        if self._broken is not None:
            raise self._broken

    async def run(self) -> None:
        """Publish until cancelled.

        Raises:
            Exception: what broke publishing (`BusError`).
        """
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                self._settle()
                while self._ready():
                    await self._send_next()
                if self._pending_bytes <= 2 * self._batch_bytes:
                    self._room.set()
        except Exception as error:
            self._broken = error
            raise
        finally:
            # Whoever waits for room must learn that there will be none.
            self._broken = self._broken or RuntimeError("the publisher has stopped")
            self._room.set()
            for sent in self._outstanding:
                sent.stored.add_done_callback(_retrieve)

    async def drain(self) -> None:
        """Send everything put in and wait until it is stored; only when `run` is not running."""
        while self._pending:
            await self._send_next()
        for sent in list(self._outstanding):
            await sent.stored
        self._settle()

    def close(self) -> None:
        """Give up what is not stored."""
        self._sink.close()

    def _ready(self) -> bool:
        if not self._pending or len(self._outstanding) >= WINDOW:
            return False
        return len(self._outstanding) < EAGER or self._pending_bytes >= self._batch_bytes

    async def _send_next(self) -> None:
        """Make messages of what is pending, up to one full one (per shard), and send them."""
        before = dict(self._positions)
        taken, salt = self._take()
        if not taken:
            return
        by_shard = self._by_shard(taken)
        last = len(by_shard) - 1
        for index, (shard, events) in enumerate(by_shard.items()):
            # Only the last of them may claim what all of them contain.
            positions = dict(self._positions) if index == last else before
            batch = Batch(source="watch", events=tuple(events), positions=positions)
            msg_id = f"{codec.message_id(batch)}.{self._cluster}.{shard}{salt}"
            subject = subjects.events(self._cluster, shard, "watch")
            body = codec.encode_batch(batch)
            stored = await self._sink.send(subject, body, msg_id)
            if self._metrics:
                self._metrics.sent(stored, len(body))
            self._outstanding.append(_Sent(stored, positions, msg_id))
            stored.add_done_callback(lambda _: self._work.set())
        self._sent_at = self._clock()
        self.published += len(taken)

    def _take(self) -> tuple[list[tuple[Kind, Event]], str]:
        taken: list[tuple[Kind, Event]] = []
        size, salt = 0, ""
        while self._pending:
            entry = self._pending[0]
            if taken and size + entry.size > self._batch_bytes:
                break
            self._pending.popleft()
            self._pending_bytes -= entry.size
            size += entry.size
            event = entry.event or self._progress(entry)
            if event is not None:
                taken.append((entry.kind, event))
                salt = self._note_frame(entry.kind, event) or salt
            if entry.position is not None:
                self._positions[entry.kind] = entry.position
        return taken, salt

    def _progress(self, entry: _Entry) -> Event | None:
        """A bookmark is worth an event only when nothing else has carried positions for a while."""
        if entry.position is None or self._clock() - self._sent_at < PROGRESS_S:
            return None
        self._sent_at = self._clock()
        return WatchProgressed(kind=entry.kind, resource_version=entry.position)

    def _note_frame(self, kind: Kind, event: Event) -> str:
        """Follow frames; return what must be added to the message id, if anything."""
        match event:
            case RelistStarted(relist=relist):
                self._frames[kind] = relist
                self._positions.pop(kind, None)
            case RelistCompleted():
                self._frames.pop(kind, None)
            case DeltaRefused() if kind in self._frames:
                return f".{self._frames[kind]}"
            case _:
                pass
        return ""

    def _by_shard(self, taken: list[tuple[Kind, Event]]) -> dict[int, list[Event]]:
        if self._shards == 1:
            return {0: [event for _, event in taken]}
        by_shard: dict[int, list[Event]] = {}
        for kind, event in taken:
            for shard in _shards_of(kind, event, self._shards):
                by_shard.setdefault(shard, []).append(event)
        return by_shard

    def _settle(self) -> None:
        """Count what is stored, from the front only: a message counts with all before it."""
        while self._outstanding and self._outstanding[0].stored.done():
            sent = self._outstanding[0]
            sequence = sent.stored.result()
            if sequence > self.acked_sequence:
                self.acked_sequence, self.acked_msg_id = sequence, sent.msg_id
            self.acked_positions = sent.positions
            self._outstanding.popleft()


def _retrieve(stored: "asyncio.Future[int]") -> None:
    """Take note of a failure that came after the one reported, so that asyncio does not warn."""
    if not stored.cancelled():
        stored.exception()


def _shards_of(kind: Kind, event: Event, shards: int) -> Iterable[int]:
    match event:
        case PodApplied(pod=view) | PodDeleted(pod=view):
            return (subjects.shard_of(view.namespace, shards),)
        case WorkloadApplied(workload=view) | WorkloadDeleted(workload=view):
            return (subjects.shard_of(view.namespace, shards),)
        case ObjectApplied(object=view) if kind not in CLUSTER_SCOPED:
            return (subjects.shard_of(view.namespace, shards),)
        case ObjectDeleted(namespace=namespace) | DeltaRefused(namespace=namespace) if (
            kind not in CLUSTER_SCOPED
        ):
            return (subjects.shard_of(namespace, shards),)
        case _:
            return range(shards)
