"""Kill test: every process dies by SIGKILL again and again, and nothing is lost, doubled or wrong.

Many pods in groups share a quota that lets only some of them run at a time. Ingest, projector and
actuator run as three processes and are each killed at random moments, on PostgreSQL five times or
as often as GATELOG_TEST_KILLS says, on SQLite with half the pods three times; nats-server is killed
twice. Afterwards the cluster is as an undisturbed
run leaves it, and the read model is held against the log itself: folded again from the stream, it
must give the same lines of history and the same decisions.
"""

import asyncio
import os
import random
from collections import Counter
from pathlib import Path

import pytest
from msgspec import Struct

from gatelog.replay.exporting import export
from gatelog.replay.offline import open_source
from gatelog.replay.offline import verify as verify_file
from projector.replay.selecting import Wanted
from runtime.embedded import EmbeddedNats
from runtime.settings import DatabaseSettings, NatsSettings, Settings
from tests.support.diagnosis import explained
from tests.support.invariants import (
    QuotaWatch,
    all_done,
    gated,
    hold_against_the_log,
    verified,
)
from tests.support.parts import PARTS, Parts, environment, migrate
from tests.support.processes import TOKEN, Api, Simulator, make_queue

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

NAMESPACE, CLUSTER = "kill", "kill"
NATS_KILLS = 2
SEED = 20261121


class Load(Struct, frozen=True):
    """What is there, and how often each process is killed."""

    groups: int
    pods: int
    quota: int
    kills: int


WHOLE = Load(groups=40, pods=300, quota=60, kills=int(os.environ.get("GATELOG_TEST_KILLS", "5")))
SHORT = Load(groups=20, pods=150, quota=40, kills=3)


def sizes(load: Load) -> list[int]:
    """Group sizes that add up to the pods, some of them single pods (size 1)."""
    rnd = random.Random(SEED)
    found = [rnd.randint(1, 12) for _ in range(load.groups)]
    while sum(found) != load.pods:
        i = rnd.randrange(load.groups)
        if sum(found) < load.pods and found[i] < 16:
            found[i] += 1
        elif sum(found) > load.pods and found[i] > 1:
            found[i] -= 1
    return found


async def create_all(api: Api, load: Load, rnd: random.Random) -> None:
    bodies = []
    for i, size in enumerate(sizes(load)):
        group = f"g{i:02d}" if size > 1 else ""
        bodies += [gated(f"g{i:02d}-p{j:02d}", group, size) for j in range(size)]
    rnd.shuffle(bodies)
    for body in bodies:
        await api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body)
        await asyncio.sleep(rnd.uniform(0, 0.03))


async def torment(parts: Parts, nats: EmbeddedNats, kills: int, rnd: random.Random) -> Counter[str]:
    """Kill and restart: each process `kills` times, nats-server NATS_KILLS times."""
    plan = [child.name for child in parts for _ in range(kills)] + ["nats"] * NATS_KILLS
    rnd.shuffle(plan)
    done: Counter[str] = Counter()
    for name in plan:
        await asyncio.sleep(rnd.uniform(0.1, 0.9))
        if name == "nats":
            nats.kill()
            await asyncio.sleep(rnd.uniform(0, 0.5))
            await nats.start()
        else:
            child = parts[name]
            assert child.running, child.tail()
            await asyncio.to_thread(child.kill)
            await asyncio.sleep(rnd.uniform(0, 0.4))
            child.start()
        done[name] += 1
    return done


@pytest.mark.timeout(400)
@pytest.mark.parity("B18")
async def test_nothing_is_lost_doubled_or_wrong(
    database: str, own_nats: EmbeddedNats, tmp_path: Path
) -> None:
    load = SHORT if database.startswith("sqlite") else WHOLE
    rnd = random.Random(SEED)
    simulator = Simulator(tmp_path, "--kubelet", "scripted")
    simulator.start()
    env = environment(own_nats.settings(), CLUSTER, database, simulator.kubeconfig)
    await asyncio.to_thread(migrate, env, tmp_path)
    parts = Parts(lambda _: env, tmp_path)
    try:
        async with Api(simulator.url, TOKEN) as api:
            await make_queue(api, NAMESPACE, cpu=str(load.quota))
            watch = QuotaWatch(api, NAMESPACE)
            watching = asyncio.create_task(watch.run())
            parts.start()
            creating = asyncio.create_task(create_all(api, load, rnd))
            done = await torment(parts, own_nats, load.kills, random.Random(SEED + 1))
            await creating
            async with explained(api, NAMESPACE, database, parts, own_nats.settings()):
                await api.until(
                    "the undisturbed end",
                    lambda: all_done(api, NAMESPACE, load.pods, load.groups),
                    120,
                )
            killed = dict.fromkeys(PARTS, load.kills)
            assert done == killed | {"nats": NATS_KILLS}
            assert watch.most <= load.quota, f"{watch.most} pods of 1 cpu past the gate at once"
            assert watch.most > load.quota // 2, "the quota was never under pressure"
            watching.cancel()
            await asyncio.sleep(1)
    finally:
        parts.stop()
        simulator.stop()
    await hold_against_the_log(database, own_nats.settings(), CLUSTER, load.groups)
    await verified(database, own_nats.settings(), CLUSTER, load.pods)
    await same_in_a_file(database, own_nats.settings(), tmp_path / "log.jsonl.gz", load.pods)


async def same_in_a_file(database: str, nats: NatsSettings, file: Path, pods: int) -> None:
    """Export the log; what the file folds to is the read model as well, row by row."""
    settings = Settings(cluster=CLUSTER, database=DatabaseSettings(url=database), nats=nats)
    await export(settings, file, Wanted(), None, lambda _: None)
    log = open_source(str(file), settings)
    result, tables = await verify_file(log, settings)
    assert [text for table in tables for text in table.examples] == log.unread == []
    assert result.pods == pods and not result.differences
