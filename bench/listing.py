"""Ingest's memory while it lists a large cluster: 150,000 pods in pages.

The stand-in is filled over HTTP and does not know WatchList, so the list comes page by page, as
from an API server before 1.32. Ingest keeps nothing of what it has published, so its size should
not depend on the number of pods. The limit is the size that was asked of it.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

from bench import ingesting, processes
from bench.figures import Figure
from podgroup.log.codec import decode_batch
from podgroup.log.events import RelistCompleted
from podgroup.log.subjects import EVENTS, events_of
from runtime.embedded import EmbeddedNats
from runtime.jetstream import connect
from runtime.settings import StreamSettings
from tests.support.processes import TOKEN, Api, Simulator

PODS = 150_000
LIMIT_MB = 150.0
PATIENCE_S = 300.0


async def run() -> AsyncIterator[Figure]:
    """Fill a cluster and let ingest list it."""
    args = ("--kubelet", "off", "--watch-list", "forbidden", "--history", "1000")
    with processes.folder() as place, processes.simulator(place, *args) as cluster:
        async with Api(cluster.url, TOKEN) as api:
            await ingesting.fill(api, PODS)
        async with processes.nats(place) as server:
            count, before_mb, most_mb, seconds = await _list(server, place, cluster)
    yield Figure(
        name="ingest.listing_150k",
        value=most_mb,
        unit="MB",
        limit=LIMIT_MB,
        limit_name="what was asked",
        note=f"{count} pods in {seconds:.0f} s; {before_mb:.0f} MB before the list",
    )


async def _list(
    server: EmbeddedNats, place: Path, cluster: Simulator
) -> tuple[int, float, float, float]:
    env = processes.environment(server.settings(), f"sqlite:///{place}/l.db", cluster.kubeconfig)
    bus = await connect(server.settings(), "bench", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    with processes.children(place, env, "ingest") as (child,):
        assert child.process is not None
        reader = bus.read(EVENTS, events_of("bench", 0), 1)
        begin, before, count = time.monotonic(), 0.0, 0
        while not count:
            if time.monotonic() - begin > PATIENCE_S:
                raise RuntimeError(f"no complete list after {PATIENCE_S} s\n{child.tail()}")
            for message in await reader.next(1):
                before = before or _peak_mb(child.process.pid)
                for event in decode_batch(message.body).events:
                    if isinstance(event, RelistCompleted) and event.kind == "Pod":
                        count = event.count
            await asyncio.sleep(0)
        most, took = _peak_mb(child.process.pid), time.monotonic() - begin
        await reader.close()
    await bus.close()
    return count, before, most, took


def _peak_mb(pid: int) -> float:
    return processes.peak_kib(pid) * 1024 / 1e6
