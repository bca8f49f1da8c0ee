"""Events of all kinds, in order of arrival, become messages of EVENTS.

Watchers put events in; one pump takes them out in the same order and publishes batches. A lone
event goes out at once. While a message is on its way, and for `interval_s` after it began, events
collect, up to a full message, so that under load the cost of a message (which the server syncs to
disk) is shared by many events.
Putting waits when two full messages are collected already: a slow log slows the watches down
instead of filling memory.

One writer. Each message names its predecessor on its subject, and the server stores the message
only after that predecessor (Nats-Expected-Last-Subject-Sequence). So the second of two ingesters to
publish is refused (`Overtaken`) and begins again from the log; a process that was stopped for an
hour cannot publish; and a message is never in the log without its predecessor. That is why one
message is on its way at a time, and why a session begins with `claim`: from then on earlier writers
are refused.

Positions. Each message has, per kind, the resource version up to which the watch is published *once
this message and all before it are stored*. The version of an event therefore travels with the event
and counts from the message that contains it. A frame takes the kind's position away until its
`RelistCompleted` is in a message, because a crash in between must lead to another relist: the log
would otherwise keep a frame that is never closed.

Message ids come from the events' ids and their incarnation (`codec.message_id`), with the cluster,
because JetStream compares ids within the stream and not within a subject. A refusal inside a frame
gets the frame's name too: its own id repeats, and dropped as a duplicate it would be missing in the
frame. A bookmark may repeat an earlier bookmark (in a quiet cluster, after a restart), and the next
message cannot follow a dropped message: so its id has a unique part.

Invariant: messages are stored in the order of their events, on each subject without anything in
between, and a message's positions never claim an event of a later message.
"""

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from msgspec import Struct

from ingest.bounds import MAX_EVENT_BYTES, bounded
from ingest.metrics import IngestMetrics
from ingest.resume import LogMessage
from podgroup.log import codec, subjects
from podgroup.log.events import (
    Batch,
    DeltaRefused,
    Event,
    PodApplied,
    RelistCompleted,
    RelistStarted,
    WatchProgressed,
    WorkloadApplied,
)
from podgroup.model.names import ADMISSION_GATE
from podgroup.model.objects import Kind
from runtime.jetstream import Overtaken
from runtime.spacing import Spacing

PROGRESS_S = 60.0
"""Seconds without any message after which a bookmark is worth a message of its own."""

PUBLISH_S = 60.0
"""Seconds in which a message must be stored; below the streams' duplicate window (120 s), beyond
which a repetition would be taken for another message."""

_ENVELOPE_BYTES = 4096


class Sink(Protocol):
    """A store of messages, such as `runtime.jetstream.Bus`."""

    async def publish(
        self, subject: str, body: bytes, msg_id: str, timeout_s: float, *, after: int
    ) -> int:
        """Store a message that follows `after` and return its sequence.

        Raises:
            Overtaken: the message does not follow `after`; maybe it is stored already.
        """

    async def last(self, stream: str, subject: str) -> LogMessage | None:
        """Return the newest message on a subject."""


class _Entry(NamedTuple):
    kind: Kind
    event: Event | None
    position: str | None
    body: bytes


_Taken = tuple[Event, bytes]


class _Message(NamedTuple):
    body: bytes
    msg_id: str
    positions: dict[str, str]
    after: int


class PublishOptions(Struct, frozen=True, kw_only=True):
    """The log's cluster and incarnation, and the size and spacing of messages."""

    cluster: str
    batch_bytes: int
    interval_s: float = 0.0
    mirrored: bool = False
    """Workloads only mirror our own writes: they are not urgent."""
    incarnation: str = ""
    cluster_uid: str = ""
    """Uid of the cluster that the versions are of (`Batch`)."""


class EventPublisher:
    """Publishes the events that watchers put in.

    `positions` and `last` are the log's when this begins: versions per kind, and the sequence of
    the newest message (0: none).
    """

    def __init__(
        self,
        sink: Sink,
        options: PublishOptions,
        *,
        positions: Mapping[str, str],
        last: int,
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
        self._cluster = options.cluster
        # One event may be as large as this; more per message would not be taken by every server.
        self._batch_bytes = min(options.batch_bytes, MAX_EVENT_BYTES + _ENVELOPE_BYTES)
        self._positions = dict(positions)
        self._incarnation, self._cluster_uid = options.incarnation, options.cluster_uid
        self._frames: dict[Kind, str] = {}
        self._clock = clock
        self._metrics = metrics
        self._spacing = Spacing(options.interval_s)
        self._mirrored = options.mirrored
        self._sent_at = -PROGRESS_S
        self._pending: deque[_Entry] = deque()
        self._pending_bytes = 0
        self._last = last
        self._flight: _Message | None = None
        self._broken: BaseException | None = None
        self._work = asyncio.Event()
        self._urgent = asyncio.Event()
        """Set while an urgent event waits."""
        self._room = asyncio.Event()
        self._room.set()

    @property
    def pending_bytes(self) -> int:
        """Bytes of events that wait to be put into a message."""
        return self._pending_bytes

    def identify(self, cluster_uid: str) -> None:
        """Name this cluster in messages from now on."""
        self._cluster_uid = cluster_uid

    async def put(self, kind: Kind, events: Iterable[Event], position: str | None) -> None:
        """Take events of one kind; `position` holds once the last of them is stored.

        Returns when there is room for more. With no events, `position` is a bookmark's.

        Raises:
            Exception: the failure that broke publishing; everything put in since is lost, start
                over.
        """
        size = 0
        last: _Entry | None = None
        for event in events:
            if last is not None:
                self._pending.append(last)
            fitting, body = bounded(kind, event)
            last = _Entry(kind, fitting, None, body)
            size += len(body)
            if not self._urgent.is_set() and self._is_urgent(fitting):
                self._urgent.set()
        if last is not None:
            self._pending.append(last._replace(position=position))
        elif position is not None:
            self._pending.append(_Entry(kind, None, position, b""))
        else:
            return
        self._pending_bytes += size
        self._work.set()
        if self._pending_bytes >= self._batch_bytes:
            self._urgent.set()
        if self._pending_bytes > 2 * self._batch_bytes:
            self._room.clear()
            await self._room.wait()
        if self._broken is not None:
            raise self._broken

    def _is_urgent(self, event: Event) -> bool:
        """Return whether an event may lead to a decision: a pod that starts up does not."""
        if isinstance(event, PodApplied):
            pod = event.pod
            return pod.ended or pod.deleted_at is not None or ADMISSION_GATE in pod.gates
        return not (self._mirrored and isinstance(event, WorkloadApplied))

    async def claim(self, said: tuple[Event, ...] = ()) -> None:
        """Store a message: earlier writers are refused from now on.

        It is empty but for the events in `said`, which come before the lists.

        Raises:
            Overtaken: another writer published since we looked; look again.
            BusUnavailable: not stored.
        """
        token, bodies = secrets.token_hex(8), [codec.encode_event(event) for event in said]
        self._flight = self._message(bodies, f"claim.{token}.{self._cluster}.0")
        await self._deliver()

    async def run(self) -> None:
        """Publish until cancelled.

        Raises:
            BusError: what broke publishing.
        """
        try:
            while True:
                await self._work.wait()
                self._work.clear()
                while self._pending:
                    if self._pending_bytes < self._batch_bytes:
                        await self._spacing.turn(self._urgent)
                    self._spacing.begin()
                    self._compose()
                    if not self._pending:
                        self._urgent.clear()
                    if self._pending_bytes <= 2 * self._batch_bytes:
                        self._room.set()
                    await self._deliver()
        except Exception as error:
            self._broken = error
            raise
        finally:
            # A caller that waits for room must learn that there will be none.
            self._broken = self._broken or RuntimeError("the publisher has stopped")
            self._room.set()

    async def drain(self) -> None:
        """Store everything put in; only when `run` is not running.

        Raises:
            BusError: what broke publishing.
        """
        await self._deliver()
        while self._pending:
            self._compose()
            await self._deliver()

    def _compose(self) -> None:
        """Make a message of pending events, up to a full message."""
        taken, salt = self._take_batch()
        if not taken:
            return
        named = Batch(
            source="watch",
            events=tuple([event for event, _ in taken]),
            incarnation=self._incarnation,
        )
        # The 0 was the number of a shard: so a repetition of an earlier version's message is known.
        msg_id = f"{codec.message_id(named)}.{self._cluster}.0{salt}"
        self._flight = self._message([body for _, body in taken], msg_id)
        self._sent_at = self._clock()
        self.published += len(taken)

    def _message(self, events: list[bytes], msg_id: str) -> _Message:
        positions = dict(self._positions)
        whose = self._incarnation, self._cluster_uid
        body = codec.join_events("watch", events, positions, *whose)
        return _Message(body, msg_id, positions, self._last)

    async def _deliver(self) -> None:
        """Store the composed message.

        A message under way when this is cancelled is sent again by the next call, with the same id.
        """
        message = self._flight
        if message is None:
            return
        self._last = await self._store(message)
        self._flight = None
        self.acked_sequence, self.acked_msg_id = self._last, message.msg_id
        self.acked_positions = message.positions

    async def _store(self, message: _Message) -> int:
        subject = subjects.events(self._cluster, "watch")
        began_s = time.monotonic()
        try:
            sequence = await self._sink.publish(
                subject, message.body, message.msg_id, PUBLISH_S, after=message.after
            )
        except Overtaken:
            newest = await self._sink.last(subjects.EVENTS, subject)
            if newest is None or newest.msg_id != message.msg_id:
                raise
            sequence = newest.sequence  # by ourselves: its acknowledgement was lost
        if self._metrics:
            self._metrics.stored(len(message.body), time.monotonic() - began_s)
        return sequence

    def _take_batch(self) -> tuple[list[_Taken], str]:
        taken: list[_Taken] = []
        size, salt = 0, ""
        while self._pending:
            entry = self._pending[0]
            if taken and size + len(entry.body) > self._batch_bytes:
                break
            self._pending.popleft()
            self._pending_bytes -= len(entry.body)
            size += len(entry.body)
            event = entry.event or self._progress(entry)
            if event is not None:
                taken.append((event, entry.body or codec.encode_event(event)))
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
            case WatchProgressed():
                return f".{secrets.token_hex(4)}"
            case DeltaRefused() if kind in self._frames:
                return f".{self._frames[kind]}"
            case _:
                pass
        return ""
