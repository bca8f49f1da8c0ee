"""Running a projector in a test: real log, real database, the toy cluster as the world outside."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from podgroup.log import subjects
from podgroup.log.codec import decode_decision, encode_batch, message_id, split_decisions
from podgroup.log.events import Batch, Decision
from projector.live.projection import Projection
from projector.storage.store import SqlStore
from runtime.jetstream import Bus
from runtime.settings import (
    DatabaseSettings,
    NatsSettings,
    ProjectorSettings,
    QueueingSettings,
    Settings,
)
from tests.support.forking import PYTHON, Forked


def settings_for(
    url: str, cluster: str, *, status_interval_s: int = 0, **projector: Any
) -> Settings:
    """Queues' counts are left alone: tests here count decisions.

    By the policy's defaults, so that a projector has no settings to say anew in a log of a `Toy`.
    """
    return Settings(
        cluster=cluster,
        database=DatabaseSettings(url=url),
        projector=ProjectorSettings(**projector),
        queueing=QueueingSettings(
            status_interval_s=status_interval_s,
            namespace_memory_mib=0,
            deleted_group_timeout_s=0,
            longest_wait_s=0,
        ),
    )


def decided(url: str, cluster: str, *, unresolved: bool = False) -> list[Decision]:
    """The decisions that are in the table, by number, over a connection of its own."""
    store = SqlStore(url, cluster)
    try:
        return store.decisions(unresolved=unresolved)
    finally:
        store.close()


def doomed(
    url: str,
    cluster: str,
    nats: NatsSettings,
    folder: Path,
    *,
    window: int = 0,
    moment: str = "never",
) -> Forked:
    """A projector as a child process that is killed, see `tests.projector.doomed`."""
    given = msgspec.json.encode(nats).decode()
    argv = [PYTHON, "-m", "tests.projector.doomed", url, cluster, given, str(window), moment]
    return Forked(argv, os.environ, folder / "doomed.log")


@asynccontextmanager
async def running(
    settings: Settings, bus: Bus, store: SqlStore | None = None
) -> AsyncIterator[Projection]:
    """A projection that runs while the context is open; its failure is the test's."""
    stop = asyncio.Event()
    store = store or SqlStore(settings.database.url, settings.cluster)
    projection = Projection(settings, bus, store, stop)
    task = asyncio.create_task(projection.run())
    try:
        yield projection
    finally:
        stop.set()
        async with asyncio.timeout(20):
            await task


async def publish(bus: Bus, cluster: str, batches: Iterable[Batch]) -> int:
    """Publish in order, each as from its source; returns the last stream sequence."""
    publisher = bus.publisher()
    futures = [
        await publisher.send(
            subjects.events(cluster, cast(Any, batch.source)),
            encode_batch(batch),
            f"{cluster}/{message_id(batch)}",  # the toy repeats itself, clusters do not
        )
        for batch in batches
    ]
    await publisher.flush()
    return futures[-1].result() if futures else 0


async def eventually(check: Callable[[], Any], what: str, timeout_s: float = 60.0) -> Any:
    """Wait until `check()` gives something true, and return it."""
    async with asyncio.timeout(timeout_s):
        while True:
            found = check()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.02)
    raise AssertionError(what)


async def sent_decisions(bus: Bus, cluster: str, count: int) -> list[tuple[str, Decision]]:
    """The first `count` decisions sent to a cluster, with the ids of their messages."""
    reader = bus.read(subjects.DECISIONS, subjects.decisions(cluster), 1)
    found: list[tuple[str, Decision]] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            for message in await reader.next(1.0):
                parts = split_decisions(message.body)
                found += [(message.msg_id, decode_decision(part)) for part in parts]
    await reader.close()
    return found
