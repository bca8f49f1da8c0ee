"""Sizes: the bytes of an event and of a pod in the log and in the read model.

The deltas are from the recordings, as ingest translates them, repeated under other names, so that
the stream fills several blocks (the server compresses a block when it is full). The read model is
measured with the story of `projecting`: groups of six pods from creation to deletion. Bytes of a
database are the growth of its files, indexes included.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import sqlalchemy as sa

from bench import processes
from bench.figures import Figure
from bench.recorded import SIZE, Log, Shape, record
from bench.story import CLUSTER
from podgroup.log.codec import encode_batch
from podgroup.log.events import (
    Batch,
    Event,
    PodApplied,
    PodDeleted,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.log.subjects import DECISIONS, EVENTS, events
from runtime.embedded import EmbeddedNats
from runtime.jetstream import connect
from runtime.settings import StreamSettings

DELTAS = 20_000
TOGETHER = 100
GROUPS = 300
LIVES = Shape("", GROUPS * 87, 87, 0, "one event each")
PATIENCE_S = 120.0
RECORDINGS = ("busy_namespace", "preempted_and_resumed", "failed_pod_replaced", "nine_roles")


async def run() -> AsyncIterator[Figure]:
    """Measure the log, then both databases."""
    deltas = recorded()
    for together in (1, TOGETHER):
        with processes.folder() as place:
            async with processes.nats(place, sync_always=False) as server:
                counted, stored = await fill(server, deltas, together)
        name = "alone" if together == 1 else f"by_{together}"
        note = f"{stored / DELTAS:.0f} on disk; recorded deltas, {together} a message"
        yield Figure(name=f"size.delta.{name}", value=counted / DELTAS, unit="bytes", note=note)
    for name in ("sqlite", "postgres"):
        with processes.folder() as place:
            async with processes.nats(place, sync_always=False) as server:
                log = await record(server, place, LIVES)
                async for figure in _project(name, server, place, log):
                    yield figure


def recorded() -> list[Event]:
    """Return the deltas of pods and Workloads of some recordings, in their order."""
    from tests.support.recordings import batches

    found: list[Event] = []
    for name in RECORDINGS:
        for _, _, batch in batches(name):
            found += [e for e in batch.events if isinstance(e, _DELTAS)]
    return found


_DELTAS = (PodApplied, PodDeleted, WorkloadApplied, WorkloadDeleted)


def _again(event: Event, turn: int) -> Event:
    """The same delta of another object, so that nothing compresses because it was there before."""
    match event:
        case PodApplied(pod=view) | PodDeleted(pod=view):
            mark = f"{turn:05x}{view.uid[5:]}"
            other = msgspec.structs.replace(view, uid=mark, name=f"{view.name}-{turn}")
            return type(event)(pod=other)
        case WorkloadApplied(workload=found) | WorkloadDeleted(workload=found):
            mark = f"{turn:05x}{found.uid[5:]}"
            return type(event)(workload=msgspec.structs.replace(found, uid=mark))
        case _:
            return event


async def fill(server: EmbeddedNats, deltas: list[Event], together: int) -> tuple[int, int]:
    """Publish `DELTAS` deltas; return bytes by the stream's count, and of its files."""
    bus = await connect(server.settings(), "bench", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    publisher = bus.publisher()
    positions = {"Pod": "1234567", "Workload": "1234567", "Namespace": "1234567"}
    for first in range(0, DELTAS, together):
        some = tuple(
            _again(deltas[n % len(deltas)], n // len(deltas))
            for n in range(first, first + together)
        )
        body = encode_batch(Batch(source="watch", events=some, positions=positions))
        await publisher.send(events(CLUSTER, "watch"), body, f"{first:032x}.{CLUSTER}.0")
    await publisher.flush()
    publisher.close()
    state = await bus.stream_state(EVENTS)
    await bus.close()
    blocks = (server.store_dir / "jetstream").rglob(f"{EVENTS}/msgs/*.blk")
    return state.bytes, sum(file.stat().st_size for file in blocks)


async def _project(name: str, server: EmbeddedNats, place: Path, log: Log) -> AsyncIterator[Figure]:
    pods = GROUPS * SIZE
    note = f"{GROUPS} groups of {SIZE} pods from creation to deletion"
    if name == "sqlite":
        size = await _grown(server, place, f"sqlite:///{place}/bench.db", log)
    else:
        with processes.postgres() as url:
            size = await _grown(server, place, url, log)
    yield Figure(name=f"size.pod.{name}", value=size / pods, unit="bytes", note=note)
    if name == "sqlite":
        told = f"{note}; tables as written by gatelog export --format parquet, less what is private"
        size = await asyncio.to_thread(_as_parquet, f"sqlite:///{place}/bench.db", place / "tables")
        yield Figure(name="size.pod.parquet", value=size / pods, unit="bytes", note=told)
        bus = await connect(server.settings(), "bench", deadline_s=20)
        facts, out = await bus.stream_state(EVENTS), await bus.stream_state(DECISIONS)
        await bus.close()
        told = f"{log.events / pods:.1f} events per pod, one a message; generated, smaller views"
        yield Figure(name="size.pod.events", value=facts.bytes / pods, unit="bytes", note=told)
        told = f"{log.decisions / pods:.1f} decisions per pod, one a message"
        yield Figure(name="size.pod.decisions", value=out.bytes / pods, unit="bytes", note=told)


def _as_parquet(database: str, place: Path) -> int:
    """Write the tables as the archive does, as of a day later; return the bytes of all files."""
    from projector.archive import parquet
    from projector.archive.archive_store import Directory
    from projector.storage.database import writer

    engine = writer(database)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "UPDATE checkpoints SET at = strftime('%Y-%m-%dT%H:%M:%f000Z', at, '+2 days')"
        )
        written = parquet.write(connection, CLUSTER, Directory(place))
    engine.dispose()
    return written.bytes


async def _grown(server: EmbeddedNats, place: Path, database: str, log: Log) -> int:
    """Run the projector to the end of the log; return by how much the database grew."""
    from projector.storage.database import writer

    env = processes.environment(server.settings(), database, None)
    with processes.children(place, env, "project") as (child,):
        engine = writer(database)
        before = _bytes(engine)
        for _ in range(int(PATIENCE_S / 0.1)):
            with engine.connect() as connection:
                at = connection.execute(sa.text("SELECT max(seq) FROM checkpoints")).scalar() or 0
            if at >= log.messages:
                break
            await asyncio.sleep(0.1)
        else:
            raise RuntimeError(f"not done after {PATIENCE_S} s\n{child.tail()}")
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("CHECKPOINT"))
    after = _bytes(engine)
    engine.dispose()
    return after - before


def _bytes(engine: sa.Engine) -> int:
    if engine.dialect.name == "postgresql":
        query = "SELECT pg_database_size(current_database())"
    else:
        query = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
    with engine.connect() as connection:
        return int(connection.execute(sa.text(query)).scalar() or 0)
