"""`gatelog replay --rebuild` of a long log: seconds, processor seconds, memory.

Theory. The log is made once, with the decisions that belong to it, and published to EVENTS and
DECISIONS. A read model is measured that has lost every row but its checkpoint, so that all of it
has to be written, and then, good again, one that has lost nothing. The limit is what reading both
streams and decoding every message takes alone, in one process.

Invariant: a figure counts only if the read model has every decision and nothing set aside.
"""

import asyncio
import os
import re
import select
import subprocess
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from bench import processes
from bench.figures import Figure
from bench.projecting import publish
from bench.story import CLUSTER, Story
from podgroup.codec import decode_batch, decode_decision, encode_decision
from podgroup.events import Decision
from podgroup.runtime.embedded import EmbeddedNats
from podgroup.runtime.jetstream import connect
from podgroup.subjects import DECISIONS, EVENTS, decisions, events_of
from projector import migrate
from projector.checkpoint import Checkpoint
from projector.database import reader
from projector.packing import pack_meta
from projector.rows import Rows
from projector.store import SqlStore
from tests.support.processes import GATELOG

EVENTS_WANTED = int(os.environ.get("GATELOG_TEST_REBUILD_EVENTS", "1000000"))
SIZE = 6
EVENTS_PER_GROUP = 87
"""What the life of a group of `SIZE` comes to in the log; the note of the figure says how many."""
_WAITED = re.compile(r"the projector waited ([0-9.]+) s")


class Recorded(Story):
    """A story that keeps its decisions as the stream has them."""

    def __init__(self, groups: int, size: int) -> None:
        self.made: list[tuple[str, bytes]] = []
        super().__init__(groups, size)

    def _carry_out(self, decision: Decision) -> None:
        self.made.append((decision.id, encode_decision(decision)))
        super()._carry_out(decision)

    @property
    def folded(self) -> bytes:
        """The state's Meta at the end of the log."""
        return pack_meta(self._world.meta)


async def run() -> AsyncIterator[Figure]:
    """Publish, read bare, then rebuild in both databases."""
    story = Recorded(max(1, EVENTS_WANTED // EVENTS_PER_GROUP), SIZE)
    with processes.folder() as place:
        async with processes.nats(place, sync_always=False) as server:
            await publish(server, story)
            await _publish_decisions(server, story)
            last, published = len(story.messages), len(story.made)
            note = f"{story.events} events, {published} decisions, one event a message"
            folded, created = story.folded, await _created(server)
            del story
            bare = await _read_bare(server, last, published)
            for name in ("sqlite", "postgres"):
                checkpoint = Checkpoint(
                    cluster=CLUSTER,
                    shard=0,
                    mode="builtin",
                    seq=last,
                    stream_created_at=created,
                    published=published,
                    written_at=datetime.now(UTC),
                    folded=folded,
                )
                async for figure in _measured(name, server, place, checkpoint, bare, note):
                    yield figure


async def _measured(
    name: str,
    server: EmbeddedNats,
    place: Path,
    checkpoint: Checkpoint,
    bare: float,
    note: str,
) -> AsyncIterator[Figure]:
    if name == "sqlite":
        async for figure in _both(
            name, f"sqlite:///{place}/bench.db", server, checkpoint, bare, note
        ):
            yield figure
        return
    with processes.postgres() as url:
        async for figure in _both(name, url, server, checkpoint, bare, note):
            yield figure


async def _both(
    name: str, url: str, server: EmbeddedNats, checkpoint: Checkpoint, bare: float, note: str
) -> AsyncIterator[Figure]:
    migrate.upgrade(url)
    store = SqlStore(url, CLUSTER, 0)
    store.commit(Rows(), checkpoint, None)
    store.close()
    for what in ("lost", "good"):
        took_s, cpu_s, rss_mb, waited = await asyncio.to_thread(_rebuild, url, server)
        _check(url, checkpoint.published)
        yield Figure(
            name=f"rebuild.{name}.{what}",
            value=took_s,
            unit="s",
            limit=bare,
            limit_name="reading and decoding alone",
            note=f"{note}; {cpu_s:.1f} s of processor, {rss_mb:.0f} MB resident at most, "
            f"projector held up {waited} s",
        )


def _rebuild(url: str, server: EmbeddedNats) -> tuple[float, float, float, str]:
    """Run the command; returns seconds, its processor seconds, its largest size, the pause."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("GATELOG_")}
    env = {**inherited, **processes.environment(server.settings(), url, None)}
    began = time.perf_counter()
    child = subprocess.Popen(
        [GATELOG, "replay", "--rebuild"], env=env, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    # Not ru_maxrss: that begins with the size of the process that made the child.
    rss_mb = 0.0
    while not select.select([child.stdout], [], [], 0.2)[0]:
        rss_mb = max(rss_mb, processes.peak_kib(child.pid) / 1024)
    rss_mb = max(rss_mb, processes.peak_kib(child.pid) / 1024)
    said = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    took_s = time.perf_counter() - began
    waited = _WAITED.search(said)
    if child.returncode != 0 or waited is None:
        raise RuntimeError(f"the rebuild ended with {child.returncode}: {said}")
    return took_s, used.ru_utime + used.ru_stime, rss_mb, waited.group(1)


def _check(url: str, made: int) -> None:
    engine = reader(url)
    with engine.connect() as connection:
        there = connection.execute(sa.text("SELECT count(*) FROM decisions")).scalar()
        aside = connection.execute(sa.text("SELECT count(*) FROM parked")).scalar()
    engine.dispose()
    if there != made or aside:
        raise RuntimeError(f"{there} decisions, not {made}; {aside} events set aside")


async def _publish_decisions(server: EmbeddedNats, story: Recorded) -> None:
    bus = await connect(server.settings(), "bench", deadline_s=20)
    publisher = bus.publisher()
    for identity, body in story.made:
        await publisher.send(decisions(CLUSTER, 0), body, identity)
    await publisher.flush()
    publisher.close()
    await bus.close()


async def _created(server: EmbeddedNats) -> datetime:
    bus = await connect(server.settings(), "bench", deadline_s=20)
    state = await bus.stream_state(EVENTS)
    await bus.close()
    return state.created


async def _read_bare(server: EmbeddedNats, messages: int, made: int) -> float:
    """Read and decode both streams to their ends; returns seconds."""
    bus = await connect(server.settings(), "bench", deadline_s=20)
    began = time.perf_counter()
    for stream, subject, count in (
        (EVENTS, events_of(CLUSTER, 0), messages),
        (DECISIONS, decisions(CLUSTER, 0), made),
    ):
        decode = decode_batch if stream == EVENTS else decode_decision
        reading, seen = bus.read(stream, subject, 1), 0
        while seen < count:
            for message in await reading.next(5):
                decode(message.body)
                seen += 1
        await reading.close()
    took = time.perf_counter() - began
    await bus.close()
    return took
