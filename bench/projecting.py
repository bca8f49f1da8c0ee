"""The projector: a log that is there already, into SQLite and into PostgreSQL.

`gatelog project` runs as a process of its own on a fresh database and a file-backed stream that
was published beforehand. The clock runs between two checkpoints, so starting up is not in it. The
limit is a process that reads and decodes the same messages and does nothing with them.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median

import sqlalchemy as sa

from bench import processes
from bench.figures import Figure
from bench.story import CLUSTER, Story
from podgroup.codec import decode_batch
from podgroup.runtime.embedded import EmbeddedNats
from podgroup.runtime.jetstream import connect
from podgroup.runtime.settings import StreamSettings
from podgroup.subjects import EVENTS, events, events_of

GROUPS, SIZE = 1000, 6
REPEAT = 3
PATIENCE_S = 60.0
_CHECKPOINT = sa.text("SELECT max(seq) FROM checkpoints")


async def run() -> AsyncIterator[Figure]:
    """Publish, read bare, then project into both databases."""
    story = Story(GROUPS, SIZE)
    with processes.folder() as place:
        # Publishing is not measured here, so it need not wait for the disk each time.
        async with processes.nats(place, sync_always=False) as server:
            await publish(server, story)
            bare = [await read_bare(server, len(story.messages)) for _ in range(REPEAT)]
            note = f"{story.counts['deltas']} deltas, {story.counts['outcomes']} outcomes"
            for name in ("sqlite", "postgres"):
                rates = [await _once(name, server, place / str(n), story) for n in range(REPEAT)]
                yield Figure(
                    name=f"project.{name}",
                    value=median(rates),
                    unit="events/s",
                    limit=median(bare),
                    limit_name="reading and decoding alone",
                    samples=REPEAT,
                    note=f"{note}, {GROUPS} groups, one event a message",
                )


async def _once(name: str, server: EmbeddedNats, place: Path, story: Story) -> float:
    place.mkdir(exist_ok=True)
    if name == "sqlite":
        return await project(server, place, f"sqlite:///{place}/bench.db", story)
    with processes.postgres() as url:
        return await project(server, place, url, story)


async def publish(server: EmbeddedNats, story: Story) -> None:
    """Publish the story to EVENTS."""
    bus = await connect(server.settings(), "bench", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    publisher = bus.publisher()
    for message in story.messages:
        subject = events(CLUSTER, 0, "actuator" if message.source == "actuator" else "watch")
        await publisher.send(subject, message.body, f"bench/{message.position}")
    await publisher.flush()
    publisher.close()
    await bus.close()


async def read_bare(server: EmbeddedNats, count: int) -> float:
    """Read and decode everything; return events a second (one event is one message)."""
    bus = await connect(server.settings(), "bench", deadline_s=20)
    begin, seen = time.perf_counter(), 0
    reader = bus.read(EVENTS, events_of(CLUSTER, 0), 1)
    while seen < count:
        for message in await reader.next(5):
            decode_batch(message.body)
            seen += 1
    took = time.perf_counter() - begin
    await reader.close()
    await bus.close()
    return count / took


async def project(server: EmbeddedNats, place: Path, database: str, story: Story) -> float:
    """Run the projector until it is at the end of the story; return events a second."""
    env = processes.environment(server.settings(), database, None)
    with processes.children(place, env, "project") as (child,):
        # Asks as projector.database does, so that every URL gatelog takes works here.
        from projector.database import reader as engine_for

        engine = engine_for(database)
        first: tuple[float, int] | None = None
        end = time.perf_counter() + PATIENCE_S
        with engine.connect() as connection:
            while time.perf_counter() < end:
                at = connection.execute(_CHECKPOINT).scalar() or 0
                connection.rollback()
                now = time.perf_counter()
                if at and first is None:
                    first = (now, at)
                if at >= len(story.messages):
                    break
                await asyncio.sleep(0.01)
            else:
                raise RuntimeError(f"not done after {PATIENCE_S} s\n{child.tail()}")
            _check(connection, story)
        engine.dispose()
        begin, position = first or (now, 0)
        return (at - position) / (now - begin)


def _check(connection: sa.Connection, story: Story) -> None:
    """A figure counts only if the work was done: the same decisions, nothing set aside."""
    made = connection.execute(sa.text("SELECT count(*) FROM decisions")).scalar()
    aside = connection.execute(sa.text("SELECT count(*) FROM parked")).scalar()
    if made != story.decisions or aside:
        raise RuntimeError(f"{made} decisions, not {story.decisions}; {aside} events set aside")
