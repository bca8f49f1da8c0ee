"""Ingest: the bytes of a watch become deltas that the log has acknowledged.

A cluster full of gated pods is watched from nothing, so the API server sends as fast as it can.
The clock is the log's own: from the message that opens the list of pods to the one that closes it.
The limit is one client that reads the same watch and looks at nothing in it.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

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
PATIENCE_S = 60.0
LOOK_S = 0.25
NAMESPACE = "bench"


async def run() -> AsyncIterator[Figure]:
    """Fill a cluster, read its watch bare, then let ingest read it."""
    with processes.folder() as place, processes.simulator(place, "--kubelet", "off") as cluster:
        async with Api(cluster.url, TOKEN) as api:
            await fill(api)
            bare, size = await read_bare(api)
        async with processes.nats(place / "first") as server:
            rate, messages, _ = await ingest(server, place, cluster, LOOK_S)
        async with processes.nats(place / "second") as server:
            *_, cpu_us = await ingest(server, place, cluster, 0)
        yield Figure(
            name="watch.to_log",
            value=rate,
            unit="deltas/s",
            limit=bare,
            limit_name="reading the same watch and nothing else",
            note=f"{cpu_us:.0f} us of ingest's processor time per delta; {PODS} pods of "
            f"{size // PODS} bytes, {messages} messages, every write synced",
        )


async def fill(api: Api, pods: int = PODS) -> None:
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


async def ingest(
    server: EmbeddedNats, place: Path, cluster: Simulator, look_s: float
) -> tuple[float, int, float]:
    """Run `gatelog ingest` until its list of pods is complete, and look at the log every `look_s`.

    Returns deltas a second, messages, and its processor time per delta in microseconds. Looking
    seldom takes next to nothing from what is looked at; looking all the time finds the moments at
    which to read the processor time, which looking does not change.
    """
    env = processes.environment(
        server.settings(), f"sqlite:///{place}/ingest.db", cluster.kubeconfig
    )
    bus = await connect(server.settings(), "bench", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    with processes.children(place, env, "ingest") as (child,):
        assert child.process is not None
        begin = end = None
        deltas = messages = 0
        cpu_s = 0.0
        until = time.monotonic() + PATIENCE_S
        reader = bus.read(EVENTS, events_of("bench", 0), 1)
        while end is None:
            if time.monotonic() > until:
                raise RuntimeError(f"no complete list after {PATIENCE_S} s\n{child.tail()}")
            await asyncio.sleep(look_s)
            for message in await reader.next(1):
                messages += 1
                for event in decode_batch(message.body).events:
                    match event:
                        case RelistStarted(kind="Pod"):
                            begin = message.at
                            cpu_s = processes.cpu_s(child.process.pid)
                        case PodApplied():
                            deltas += 1
                        case RelistCompleted(kind="Pod"):
                            end = message.at
                            cpu_s = processes.cpu_s(child.process.pid) - cpu_s
                        case _:
                            pass
        await reader.close()
    await bus.close()
    if begin is None or deltas != PODS:
        raise RuntimeError(f"{deltas} deltas came, not {PODS}")
    return deltas / (end - begin).total_seconds(), messages, cpu_s / deltas * 1e6
