"""A long log that is made once: a story in two files, and from there in the two streams.

Theory. A million events with their decisions are most of a gigabyte, so they are written as they
are made and never held. The files have the messages that the streams will have; with full messages,
decisions share messages as well, as they do behind the projector's outbox.

Invariant: the streams get the story, in order; memory does not grow with its length.
"""

import struct
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from bench.story import CLUSTER, Story
from podgroup.log.codec import Conclusions, encode_concluded, encode_decision, join_decisions
from podgroup.log.events import Decision, Event
from podgroup.log.subjects import DECISIONS, EVENTS, Source, decisions, events
from projector.delivery.sending import MAX_JOINED, MAX_JOINED_BYTES
from projector.storage.store import SqlStore
from projector.upkeep import migrate
from projector.writing.checkpoint import Checkpoint
from projector.writing.packing import pack_meta
from projector.writing.rows import Rows
from runtime.embedded import EmbeddedNats
from runtime.jetstream import connect
from runtime.settings import StreamSettings

TELL_S = 5.0
SIZE = 6
AT_ONCE = 100
_LENGTH = struct.Struct(">I")
_SOURCES: dict[bytes, Source] = {b"a": "actuator", b"p": "projector", b"w": "watch"}


class Shape(Struct, frozen=True):
    """A log to make: about `events` events, messages of `message_bytes` (0: one event each)."""

    name: str
    events: int
    per_group: int
    """Events in the life of a group of `SIZE` in this shape."""
    message_bytes: int
    note: str


class Log(Struct, frozen=True):
    """A log in a server: its counts, and the state that the fold has at its end."""

    events: int
    messages: int
    decisions: int
    conclusions: int
    decision_messages: int
    folded: bytes
    created_at: datetime
    note: str


def tell(text: str) -> None:
    """Say on stderr how far a long benchmark is."""
    sys.stderr.write(f"bench: {text}\n")
    sys.stderr.flush()


class _Recorded(Story):
    """A story whose messages and decisions go to files instead of being kept."""

    def __init__(self, shape: Shape, facts: BinaryIO, decided: BinaryIO) -> None:
        self._facts, self._decided_file = facts, decided
        self._joined: list[bytes] = []
        self._joined_bytes = 0
        self._tell_at = time.monotonic() + TELL_S
        groups = max(1, shape.events // shape.per_group)
        super().__init__(groups, SIZE, AT_ONCE, message_bytes=shape.message_bytes)
        self._flush()

    def _publish(self, events: tuple[Event, ...]) -> None:
        super()._publish(events)
        for message in self.messages:
            _write(self._facts, message.source[:1].encode() + message.body)
        self.messages.clear()
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + TELL_S
            tell(f"{self.events:,} events made")

    def _see_through(self, one: Conclusions) -> None:
        body = encode_decision(one) if isinstance(one, Decision) else encode_concluded(one)
        size = self._joined_bytes + len(body)
        if not self._message_bytes or len(self._joined) >= MAX_JOINED or size > MAX_JOINED_BYTES:
            self._flush()
        self._joined.append(body)
        self._joined_bytes += len(body)
        super()._see_through(one)

    def _flush(self) -> None:
        if self._joined:
            _write(self._decided_file, join_decisions(self._joined))
        self._joined, self._joined_bytes = [], 0

    @property
    def folded(self) -> bytes:
        """The state's Meta at the end of the log."""
        return pack_meta(self._world.meta)


def stand(url: str, log: Log) -> None:
    """Make a read model that has lost all rows but its checkpoint at the end of `log`."""
    migrate.upgrade(url)
    store = SqlStore(url, CLUSTER)
    checkpoint = Checkpoint(
        cluster=CLUSTER,
        mode="builtin",
        seq=log.messages,
        stream_created_at=log.created_at,
        published=log.conclusions,
        written_at=datetime.now(UTC),
        folded=log.folded,
    )
    store.commit(Rows(), checkpoint, None)
    store.close()


async def record(server: EmbeddedNats, place: Path, shape: Shape) -> Log:
    """Make a log of this shape in an empty server, by way of files in `place`."""
    facts, decided = place / "facts", place / "decisions"
    with facts.open("wb") as one, decided.open("wb") as two:
        story = _Recorded(shape, one, two)
    tell(f"{story.events:,} events and {story.decisions:,} decisions made; publishing them")
    bus = await connect(server.settings(), "bench", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    counts = []
    for file, name in ((facts, EVENTS), (decided, DECISIONS)):
        publisher, count = bus.publisher(), 0
        for data in _read(file):
            count += 1
            subject, body = decisions(CLUSTER), data
            if name == EVENTS:
                subject, body = events(CLUSTER, _SOURCES[data[:1]]), data[1:]
            await publisher.send(subject, body, f"bench/{name}/{count}")
        await publisher.flush()
        publisher.close()
        counts.append(count)
        file.unlink()
    state = await bus.stream_state(EVENTS)
    await bus.close()
    return Log(
        events=story.events,
        messages=counts[0],
        decisions=story.decisions,
        conclusions=story.conclusions,
        decision_messages=counts[1],
        folded=story.folded,
        created_at=state.created,
        note=f"{story.events} events in {counts[0]} messages ({shape.note}), "
        f"{story.decisions} decisions",
    )


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(_LENGTH.pack(len(data)))
    file.write(data)


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while head := file.read(_LENGTH.size):
            yield file.read(_LENGTH.unpack(head)[0])
