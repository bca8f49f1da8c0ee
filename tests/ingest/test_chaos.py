"""Many failures in random order (seeded), then: does the log show what the cluster holds?

One run takes some seconds; for a longer look raise STEPS by hand."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from podgroup.log.events import RelistCompleted, RelistStarted
from podgroup.model.objects import WATCHED_KINDS
from runtime.embedded import EmbeddedNats
from simcluster.client import ApiFailure, Client
from simcluster.settings import Settings as SimSettings
from simcluster.settings import WatchListMode
from tests.ingest.test_endtoend import published
from tests.ingest.world import Ingester, client, pod, settings_for
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

STEPS = 40


class Chaos:
    def __init__(self, seed: int, sim: SimCluster, nats: EmbeddedNats, ingester: Ingester) -> None:
        self.random = random.Random(seed)
        self.sim, self.nats, self.ingester = sim, nats, ingester
        self.names = iter(f"p{i}" for i in range(10_000))
        self.alive: list[str] = []

    async def step(self, kube: Client) -> None:
        acts: list[Callable[[Client], Coroutine[Any, Any, None]]] = []
        acts += [self.create] * 6 + [self.delete] * 4 + [self.ungate] * 3
        acts += [self.drop, self.reset, self.compact, self.refuse, self.trouble]
        acts += [self.crash, self.restart, self.lose_nats]
        await self.random.choice(acts)(kube)
        await asyncio.sleep(self.random.random() * 0.1)

    async def create(self, kube: Client) -> None:
        for _ in range(self.random.randint(1, 20)):
            name = next(self.names)
            await kube.create("pods", pod(name), "default")
            self.alive.append(name)

    async def delete(self, kube: Client) -> None:
        for _ in range(min(len(self.alive), self.random.randint(1, 8))):
            name = self.alive.pop(self.random.randrange(len(self.alive)))
            await kube.delete("pods", name, "default")

    async def ungate(self, kube: Client) -> None:
        for name in self.random.sample(self.alive, min(len(self.alive), 5)):
            patch: dict[str, Any] = {"spec": {"schedulingGates": []}}
            await kube.patch("pods", name, patch, "default")

    async def drop(self, _: Client) -> None:
        self.sim.faults.drop_watches()

    async def reset(self, _: Client) -> None:
        self.sim.faults.drop_watches(abrupt=True)

    async def compact(self, _: Client) -> None:
        self.sim.compact()
        self.sim.faults.drop_watches()

    async def refuse(self, _: Client) -> None:
        self.sim.faults.refuse(0.1)
        await asyncio.sleep(0.15)

    async def trouble(self, _: Client) -> None:
        self.sim.faults.answer(self.random.choice([429, 500, 503]), path="watch=1", count=3)

    async def crash(self, _: Client) -> None:
        await self.ingester.crash()
        await self.ingester.start()

    async def restart(self, _: Client) -> None:
        await self.ingester.stop()
        await self.ingester.start()

    async def lose_nats(self, _: Client) -> None:
        self.nats.kill()
        await asyncio.sleep(self.random.random() * 0.3)
        await self.nats.start()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whatever_fails_the_log_shows_the_cluster_in_the_end(
    seed: int, own_nats: EmbeddedNats, cluster: str, tmp_path: Path
):
    mode = list(WatchListMode)[seed % 2]
    async with SimCluster(SimSettings(watch_list=mode, history=300)) as sim:
        settings = settings_for(sim, own_nats.settings(), cluster, tmp_path, page_size=7)
        ingester = Ingester(settings)
        await ingester.start()
        chaos = Chaos(seed, sim, own_nats, ingester)
        try:
            async with client(sim) as kube:
                done = 0
                while done < STEPS:
                    try:
                        await chaos.step(kube)
                        done += 1
                    except (ApiFailure, OSError):
                        await asyncio.sleep(0.1)  # the test's own request met a fault
            sim.faults.clear()
            log = await published(own_nats, cluster, sim)
            await ingester.until_ready()
            log = await published(own_nats, cluster, sim)
        finally:
            await ingester.crash()
    assert len(log.pods()) > 10
    frames = [e for e in log.events if isinstance(e, RelistStarted | RelistCompleted)]
    for kind in WATCHED_KINDS:
        last = [e for e in frames if e.kind == kind][-1]
        assert isinstance(last, RelistCompleted), f"{kind}: a frame is left open"
