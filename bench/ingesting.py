"""Ingest: the bytes of a watch become deltas that the log has acknowledged.

A cluster full of gated pods is watched from nothing, so the API server sends as fast as it can. The
clock is the log's own: from the message that opens the list of pods to the message that closes it.
The limit is a client that reads the same watch without decoding. `listing` measures its memory
instead, with many more pods.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

from bench import processes
from bench.cluster import gated, pods_of, together
from bench.figures import Figure
from podgroup.log.codec import decode_batch
from podgroup.log.events import PodApplied, RelistCompleted, RelistStarted
from podgroup.log.subjects import EVENTS, events_of
from runtime.embedded import EmbeddedNats
from runtime.jetstream import connect
from runtime.settings import StreamSettings
from tests.support.processes import TOKEN, Api, Simulator

PODS, GROUP = 10_000, 10
LISTED, LISTED_MB = 150_000, 150.0
"""Pods of `listing`, and the size that was asked of ingest then."""
PATIENCE_S = 300.0
LOOK_S = 0.25
NAMESPACE = "bench"


async def run() -> AsyncIterator[Figure]:
    """Fill a cluster, read its watch bare, then let ingest read it."""
    with processes.folder() as place, processes.simulator(place, "--kubelet", "off") as cluster:
        async with Api(cluster.url, TOKEN) as api:
            await fill(api, PODS)
            bare, size = await read_bare(api)
        async with processes.nats(place / "first") as server:
            seen = await ingest(server, place, cluster, PODS, LOOK_S)
        async with processes.nats(place / "second") as server:
            cpu_us = (await ingest(server, place, cluster, PODS)).cpu_s / PODS * 1e6
        yield Figure(
            name="watch.to_log",
            value=PODS / seen.seconds,
            unit="deltas/s",
            limit=bare,
            limit_name="reading the same watch and nothing else",
            target=20_000,
            note=f"{cpu_us:.0f} us of ingest's processor time per delta; {PODS} pods of "
            f"{size // PODS} bytes, {seen.messages} messages, every write synced",
        )


async def listing() -> AsyncIterator[Figure]:
    """Let ingest list a large cluster in pages, as from an API server before 1.32.

    Ingest keeps no published events, so its size should not depend on the number of pods.
    """
    args = ("--kubelet", "off", "--watch-list", "forbidden", "--history", "1000")
    with processes.folder() as place, processes.simulator(place, *args) as cluster:
        async with Api(cluster.url, TOKEN) as api:
            await fill(api, LISTED)
        async with processes.nats(place) as server:
            seen = await ingest(server, place, cluster, LISTED)
    yield Figure(
        name="ingest.listing_150k",
        value=seen.most_mb,
        unit="MB",
        target=LISTED_MB,
        note=f"{LISTED} pods in {seen.seconds:.0f} s; {seen.before_mb:.0f} MB before the list",
    )


async def fill(api: Api, pods: int) -> None:
    """Create the pods, several requests at once."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await api.call("POST", "/api/v1/namespaces", namespace)

    async def one(number: int) -> None:
        group, index = divmod(number, GROUP)
        body = gated(f"g{group:05d}-{index}", f"g{group:05d}", GROUP)
        await api.call("POST", pods_of(NAMESPACE), body)

    await together(map(one, range(pods)))


async def read_bare(api: Api) -> tuple[float, int]:
    """Read the initial events of a watch; return lines a second and bytes."""
    params = {
        "watch": "1",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "labelSelector": "kueue.x-k8s.io/managed=true",
    }
    begin, lines, size, rest = time.perf_counter(), 0, 0, b""
    async with api.http.get(api.url + "/api/v1/pods", params=params) as answer:
        async for chunk in answer.content.iter_any():
            size += len(chunk)
            lines += chunk.count(b"\n")
            rest = (rest + chunk)[-2000:]
            if b"k8s.io/initial-events-end" in rest:
                break
    return lines / (time.perf_counter() - begin), size


class Ingested(NamedTuple):
    """The cost of having all pods in the log, from the list's first message to its last."""

    seconds: float
    """By the clock of the log."""
    messages: int
    cpu_s: float
    before_mb: float
    most_mb: float


async def ingest(
    server: EmbeddedNats, place: Path, cluster: Simulator, pods: int, look_s: float = 0.0
) -> Ingested:
    """Run `gatelog ingest` until its list of pods is complete, and look at the log every `look_s`.

    Looks at long intervals cost ingest next to nothing; looks without pause find the moments at
    which to read the processor time, which looks do not change.
    """
    env = processes.environment(
        server.settings(), f"sqlite:///{place}/ingest.db", cluster.kubeconfig
    )
    bus = await connect(server.settings(), "bench", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    with processes.children(place, env, "ingest") as (child,):
        assert child.process is not None
        pid, begin, end = child.process.pid, None, None
        deltas = messages = 0
        cpu_s = before = 0.0
        until = time.monotonic() + PATIENCE_S
        reader = bus.read(EVENTS, events_of("bench"), 1)
        while end is None:
            if time.monotonic() > until:
                raise RuntimeError(f"no complete list after {PATIENCE_S} s\n{child.tail()}")
            await asyncio.sleep(look_s)
            for message in await reader.next(1):
                messages += 1
                before = before or processes.peak_kib(pid)
                for event in decode_batch(message.body).events:
                    match event:
                        case RelistStarted(kind="Pod"):
                            begin, cpu_s = message.at, processes.cpu_s(pid)
                        case PodApplied():
                            deltas += 1
                        case RelistCompleted(kind="Pod"):
                            end, cpu_s = message.at, processes.cpu_s(pid) - cpu_s
                        case _:
                            pass
        most = processes.peak_kib(pid)
        await reader.close()
    await bus.close()
    if begin is None or deltas != pods:
        raise RuntimeError(f"{deltas} deltas came, not {pods}")
    seconds = (end - begin).total_seconds()
    return Ingested(seconds, messages, cpu_s, before * 1024 / 1e6, most * 1024 / 1e6)
