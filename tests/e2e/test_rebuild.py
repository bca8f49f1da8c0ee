"""A read model is rebuilt while pods come and go: nothing is lost, doubled, wrong or in between.

The stand-in, ingest, projector and actuator run as processes. Under load the read model is rebuilt
again and again, the rebuild is killed at random moments, and so is the projector while a rebuild
waits for it or has just switched over. All the while a reader asks for what must never be seen
half. Afterwards the cluster is as an undisturbed run leaves it, and the read model is held against
the log.
"""

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa

from projector.storage.database import reader
from runtime.embedded import EmbeddedNats
from tests.e2e.test_kill import (
    CLUSTER,
    NAMESPACE,
    hold_against_the_log,
    verified,
)
from tests.support.diagnosis import explained
from tests.support.load import Load
from tests.support.parts import Parts, environment, migrate
from tests.support.processes import GATELOG, TOKEN, Api, Child, Simulator, make_queue

pytestmark = [
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
    pytest.mark.slow("rebuilds under load; tests/replay/test_rebuild.py has the short form"),
]

QUOTA = 60
REBUILDS, CUT_SHORT, PROJECTOR_KILLS = 2, 1, 1
SEED = 41


class Looking:
    """Reads as a dashboard would. History and decisions only grow, pods of a group never vanish."""

    def __init__(self, database: str) -> None:
        self._engine = reader(database)
        self.looks = 0
        self._seen = (0, 0, 0)

    def look(self) -> None:
        query = (
            "SELECT (SELECT count(*) FROM history), (SELECT count(*) FROM decisions), "
            "(SELECT count(*) FROM pods), "
            "(SELECT count(*) FROM pods p WHERE NOT EXISTS "
            "(SELECT 1 FROM groups g WHERE g.id = p.group_id))"
        )
        with self._engine.connect() as connection:
            lines, decisions, pods, orphans = connection.execute(sa.text(query)).one()
        now = (lines, decisions, pods)
        assert all(a <= b for a, b in zip(self._seen, now, strict=True)), (self._seen, now)
        assert orphans == 0
        self._seen = now
        self.looks += 1

    async def first(self) -> bool:
        self.look()
        return self._seen[2] > 0

    async def run(self) -> None:
        while True:
            await asyncio.to_thread(self.look)
            await asyncio.sleep(0.02)

    def close(self) -> None:
        self._engine.dispose()


async def rebuilt(child: Child) -> float:
    """Run a rebuild to its end; returns the seconds it took."""
    began = time.monotonic()
    child.start()
    assert child.process is not None
    assert await asyncio.to_thread(child.process.wait, 60) == 0, child.tail()
    return time.monotonic() - began


async def torment(rebuild: Child, projector: Child, rnd: random.Random) -> Counter[str]:
    """Rebuild, and kill now one side of the switch-over and now the other."""
    plan = ["through"] * (REBUILDS - 1) + ["cut short"] * CUT_SHORT
    plan += ["no projector"] * PROJECTOR_KILLS
    rnd.shuffle(plan)
    took_s = await rebuilt(rebuild)
    done: Counter[str] = Counter(through=1)
    for what in plan:
        await asyncio.sleep(rnd.uniform(0.1, 0.5))
        if what == "through":
            await rebuilt(rebuild)
        elif what == "cut short":
            rebuild.start()
            await asyncio.sleep(took_s * rnd.uniform(0.5, 1.0))
            await asyncio.to_thread(rebuild.kill)
        else:
            ending = asyncio.create_task(rebuilt(rebuild))
            await asyncio.sleep(took_s * rnd.uniform(0.6, 1.1))
            await asyncio.to_thread(projector.kill)
            await asyncio.sleep(rnd.uniform(0, 0.3))
            projector.start()
            await ending
        done[what] += 1
    return done


@pytest.mark.timeout(400)
async def test_the_projector_goes_on_in_the_new_read_model(
    database: str, own_nats: EmbeddedNats, tmp_path: Path
) -> None:
    simulator = Simulator(tmp_path, "--kubelet", "scripted")
    simulator.start()
    env = environment(own_nats.settings(), CLUSTER, database, simulator.kubeconfig)
    await asyncio.to_thread(migrate, env, tmp_path)
    parts = Parts(lambda _: env, tmp_path)
    rebuild = Child("rebuild", [GATELOG, "replay", "--rebuild"], env, tmp_path)
    looking = Looking(database)
    try:
        async with Api(simulator.url, TOKEN) as api:
            await make_queue(api, NAMESPACE, cpu=str(QUOTA))
            parts.start()
            load = Load(api, NAMESPACE, seed=SEED, pause_s=(0.1, 0.4))
            load.start()
            await api.until("the first groups", looking.first, 60)
            watching = asyncio.create_task(looking.run())
            done = await torment(rebuild, parts["projector"], random.Random(SEED + 1))
            await load.stop()
            async with explained(api, NAMESPACE, database, parts, own_nats.settings()):
                await api.until("the undisturbed end", load.all_done, 90)
            await rebuilt(rebuild)
            assert not watching.done() or watching.result()
            watching.cancel()
    finally:
        parts.stop()
        rebuild.stop()
        simulator.stop()
        looking.close()
    assert done == {
        "through": REBUILDS,
        "cut short": CUT_SHORT,
        "no projector": PROJECTOR_KILLS,
    }
    assert looking.looks > 20
    logged = parts["projector"].text()
    assert '"event": "read_model_replaced"' in logged, "no rebuild met a projector that was at work"
    assert "another projector" not in logged
    assert rebuild.text().count("switched over at position") >= REBUILDS + 1
    await hold_against_the_log(database, own_nats.settings(), CLUSTER, load.groups)
    await verified(database, own_nats.settings(), CLUSTER, load.pods)
