"""The projector: an existing log, into SQLite and into PostgreSQL.

`gatelog project` runs as a process of its own on a fresh database and a file-backed stream that was
published beforehand. The clock runs between two checkpoints, so the start is not in it. The limit
is a process that only reads and decodes the same messages. Beside the rate by the clock there is
the projector's own processor time, which other work on the machine changes less.

Two shapes of the log (`bench.story`): under load, cut as by an ingester that cannot keep up with
its watches, and a trickle, one event a message.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from statistics import median
from typing import NamedTuple

import sqlalchemy as sa

from bench import processes
from bench.figures import Figure
from bench.story import CLUSTER, Message, Story
from podgroup.log.codec import decode_batch
from podgroup.log.subjects import EVENTS, events, events_of
from runtime.embedded import EmbeddedNats
from runtime.jetstream import connect
from runtime.settings import IngestSettings, StreamSettings

REPEAT = 3
PATIENCE_S = 180.0
_DECIDED = "SELECT count(*) FROM decisions WHERE action <> 'ReportQueue'"
"""Reports of queues come by the clock."""
_CHECKPOINT = sa.text("SELECT max(seq) FROM checkpoints")


class Shape(NamedTuple):
    """A log: `at_once` groups of `size` are alive at a time."""

    name: str
    groups: int
    size: int
    at_once: int
    message_bytes: int
    note: str
    target: int
    """Events a second that are wanted."""


SHAPES = (
    # 34 deltas a group in this shape: 200,000 in all.
    Shape("", 5900, 4, 100, IngestSettings().batch_bytes, "messages of hundreds of events", 35_000),
    Shape(".trickle", 1500, 4, 100, 0, "one event a message", 18_000),
)


class Run(NamedTuple):
    """A run of the projector: events a second by the clock, its processor time per event."""

    rate: float
    cpu_us: float


async def run() -> AsyncIterator[Figure]:
    """Publish, read bare, then project into both databases; each shape."""
    for shape in SHAPES:
        story = Story(shape.groups, shape.size, shape.at_once, message_bytes=shape.message_bytes)
        async for figure in _measure(shape, story):
            yield figure


async def _measure(shape: Shape, story: Story) -> AsyncIterator[Figure]:
    with processes.folder() as place:
        # Publishing is not measured here, so it need not wait for the disk each time.
        async with processes.nats(place, sync_always=False) as server:
            await publish(server, story.messages)
            bare = [await read_bare(server, story) for _ in range(REPEAT)]
            note = (
                f"{story.counts['deltas']} deltas, {story.counts['outcomes']} outcomes, "
                f"{shape.groups} groups, {len(story.messages)} messages: {shape.note}"
            )
            for name in ("sqlite", "postgres"):
                runs = [await _once(name, server, place / str(n), story) for n in range(REPEAT)]
                cpu_us = median(one.cpu_us for one in runs)
                yield Figure(
                    name=f"project.{name}{shape.name}",
                    value=median(one.rate for one in runs),
                    unit="events/s",
                    limit=median(bare),
                    limit_name="reading and decoding alone",
                    target=shape.target,
                    samples=REPEAT,
                    note=f"{cpu_us:.0f} us of the projector's processor time per event; {note}",
                )


async def _once(name: str, server: EmbeddedNats, place: Path, story: Story) -> Run:
    place.mkdir(exist_ok=True)
    if name == "sqlite":
        return await project(server, place, f"sqlite:///{place}/bench.db", story)
    with processes.postgres() as url:
        return await project(server, place, url, story)


async def publish(server: EmbeddedNats, messages: Iterable[Message]) -> None:
    """Publish a story's messages to EVENTS."""
    bus = await connect(server.settings(), "bench", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    publisher = bus.publisher()
    for message in messages:
        await publisher.send(
            events(CLUSTER, message.source), message.body, f"bench/{message.position}"
        )
    await publisher.flush()
    publisher.close()
    await bus.close()


async def read_bare(server: EmbeddedNats, story: Story) -> float:
    """Read and decode everything; return events a second."""
    bus = await connect(server.settings(), "bench", deadline_s=20)
    begin, seen = time.perf_counter(), 0
    reader = bus.read(EVENTS, events_of(CLUSTER), 1)
    while seen < story.events:
        for message in await reader.next(5):
            seen += len(decode_batch(message.body).events)
    took = time.perf_counter() - begin
    await reader.close()
    await bus.close()
    return seen / took


async def project(server: EmbeddedNats, place: Path, database: str, story: Story) -> Run:
    """Run the projector until it is at the end of the story."""
    done = [0]
    for message in story.messages:
        done.append(done[-1] + message.events)
    env = processes.environment(server.settings(), database, None)
    with processes.children(place, env, "project") as (child,):
        # Asks as projector.storage.database does, so that every URL gatelog takes works here.
        from projector.storage.database import reader as engine_for

        assert child.process is not None
        engine = engine_for(database)
        first: tuple[float, float, int] | None = None
        end = time.perf_counter() + PATIENCE_S
        with engine.connect() as connection:
            while time.perf_counter() < end:
                at = connection.execute(_CHECKPOINT).scalar() or 0
                connection.rollback()
                now, cpu_s = time.perf_counter(), processes.cpu_s(child.process.pid)
                if at and first is None:
                    first = (now, cpu_s, at)
                if at >= len(story.messages):
                    break
                await asyncio.sleep(0.01)
            else:
                raise RuntimeError(f"not done after {PATIENCE_S} s\n{child.tail()}")
        engine.dispose()
        check(database, _DECIDED, story.decisions)
        begin, cpu_before_s, position = first or (now, cpu_s, 0)
        count = done[min(at, len(story.messages))] - done[min(position, len(story.messages))]
        return Run(count / (now - begin), (cpu_s - cpu_before_s) / count * 1e6)


def check(url: str, query: str, wanted: int) -> None:
    """A figure counts only if the work was done: as many rows as are wanted, nothing set aside."""
    from projector.storage.database import reader

    engine = reader(url)
    with engine.connect() as connection:
        found = connection.execute(sa.text(query)).scalar()
        aside = connection.execute(sa.text("SELECT count(*) FROM parked")).scalar()
    engine.dispose()
    if found != wanted or aside:
        raise RuntimeError(f"{query}: {found}, not {wanted}; {aside} events set aside")
