"""Three copies of the log on three servers: one dies under load, and another, and nothing is lost.

The streams are made with the replicas that the settings say. The server that leads EVENTS is killed
and started again, twice, while pods come and go; everything that was decided and done must be in
the log afterwards, and the read model must be what the log says.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podgroup.log.subjects import DECISIONS, EVENTS, PARKED
from tests.support.diagnosis import explained
from tests.support.invariants import QuotaWatch, hold_against_the_log, verified
from tests.support.load import Load
from tests.support.natscluster import NatsCluster
from tests.support.parts import Parts, environment, migrate
from tests.support.processes import TOKEN, Api, Simulator, make_queue

pytestmark = [
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
    pytest.mark.slow("three log servers"),
]

NAMESPACE, CLUSTER, QUOTA = "copies", "copies", 30


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[NatsCluster]:
    found = NatsCluster(tmp_path / "nats")
    try:
        await found.start()
        yield found
    finally:
        found.stop()


@pytest.mark.timeout(300)
async def test_a_server_of_three_dies_under_load(
    postgres_database: str, servers: NatsCluster, tmp_path: Path
) -> None:
    simulator = Simulator(tmp_path, "--kubelet", "scripted")
    simulator.start()
    env = environment(servers.settings, CLUSTER, postgres_database, simulator.kubeconfig)
    env |= {"GATELOG_STREAMS_REPLICAS": "3", "GATELOG_STATE_DIR": str(tmp_path / "state")}
    await asyncio.to_thread(migrate, env, tmp_path)
    parts = Parts(lambda _: env, tmp_path)
    pauses = []
    try:
        async with Api(simulator.url, TOKEN) as api:
            await make_queue(api, NAMESPACE, cpu=str(QUOTA))
            watch, load = QuotaWatch(api, NAMESPACE), Load(api, NAMESPACE, pause_s=(0.05, 0.3))
            watching = asyncio.create_task(watch.run())
            parts.start()
            load.start()
            await api.until("some are done", lambda: succeeded(api, 20), 90)
            for stream in (EVENTS, DECISIONS, PARKED):
                info = await servers.stream(stream)
                assert info is not None
                assert info["config"]["num_replicas"] == 3
                await servers.until_whole(stream)
            async with explained(api, NAMESPACE, postgres_database, parts, servers.settings):
                for _ in range(2):
                    node = await servers.leader(EVENTS)
                    done = await count(api)
                    begin = time.monotonic()
                    await asyncio.to_thread(node.kill)
                    # More than were past the gate: somebody was let through since.
                    least = done + QUOTA + 1
                    await api.until("others go on", lambda n=least: succeeded(api, n), 90)
                    pauses.append(time.monotonic() - begin)
                    node.start()
                    for stream in (EVENTS, DECISIONS):
                        await servers.until_whole(stream)
                await load.stop()
                await api.until("the undisturbed end", load.all_done, 90)
            assert not watching.done()
            assert watch.most <= QUOTA
            watching.cancel()
            await asyncio.sleep(1)
            assert all(child.running and child.starts == 1 for child in parts)
    finally:
        parts.stop()
        simulator.stop()
    print(f"\n{load.pods} pods in {load.groups} groups")
    for pause in pauses:
        print(f"the leader of EVENTS killed, let through again after {pause:.2f} s")
    await hold_against_the_log(postgres_database, servers.settings, CLUSTER, load.groups)
    await verified(postgres_database, servers.settings, CLUSTER, load.pods)


async def count(api: Api) -> int:
    found = (await api.pods(NAMESPACE)).values()
    return sum(pod["status"].get("phase") == "Succeeded" for pod in found)


async def succeeded(api: Api, least: int) -> bool:
    return await count(api) >= least
