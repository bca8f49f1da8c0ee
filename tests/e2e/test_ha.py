"""Two replicas of each deployment: any may die or stand still, and nothing shows but a pause.

Groups of pods come and go all the time while, one after the other, the leader of ingest, that of
the projector and an actuator are killed, and others are stopped, taken over from, and woken up
again. Then every process is restarted in turn. Taking over is measured from outside: from the
signal to the start of a pod that was created after it.
"""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from podgroup.runtime.embedded import EmbeddedNats
from projector.database import reader
from tests.support.diagnosis import explained
from tests.support.invariants import QuotaWatch, hold_against_the_log, verified
from tests.support.load import Load
from tests.support.processes import GATELOG, TOKEN, Api, Child, Simulator, make_queue

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

NAMESPACE, PROBES, CLUSTER, QUOTA = "ha", "ha-probes", "ha", 40
TAKEOVER_S = 20.0
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
COMMANDS = {"ingest": "ingest", "projector": "project", "actuator": "actuate"}


class Users(Load):
    """Users of one namespace who also look how long a pod takes."""

    async def probe(self) -> float:
        """Create a pod; return the seconds until it is past its gate."""
        begin = time.monotonic()
        name = await self.group(1)

        async def past() -> bool:
            path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
            return not (await self.api.call("GET", path))["spec"].get("schedulingGates")

        await self.api.until(f"{name} starts", past, 60)
        return time.monotonic() - begin


class Replicas:
    """Two processes of each deployment."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        self.all = {
            part: [Child(f"{part}-{n}", [GATELOG, command], env, folder) for n in (1, 2)]
            for part, command in COMMANDS.items()
        }

    def __iter__(self):
        return (child for children in self.all.values() for child in children)

    async def leader(self, api: Api, part: str) -> Child:
        """The one that holds the Lease; of actuators any, as they share the work."""
        if part == "actuator":
            return self.all[part][0]
        name = f"gatelog-{part}-{CLUSTER}" + ("-0" if part == "projector" else "")

        async def found() -> Child | None:
            holder = (await api.call("GET", f"{LEASES}/{name}"))["spec"]["holderIdentity"]
            for child in self.all[part]:
                if child.running and f'"identity": "{holder}"' in child.text():
                    return child
            return None

        leader: Child = await api.until(f"a leader of {part}", found)
        return leader


@asynccontextmanager
async def replicas(
    database: str, nats: EmbeddedNats, kubeconfig: Path, folder: Path
) -> AsyncIterator[Replicas]:
    log = nats.settings()
    env = {
        "GATELOG_CLUSTER": CLUSTER,
        "GATELOG_DATABASE_URL": database,
        "GATELOG_NATS_URL": log.url,
        "GATELOG_NATS_USER": log.user,
        "GATELOG_NATS_PASSWORD_FILE": log.password_file,
        "KUBECONFIG": str(kubeconfig),
        "GATELOG_LOG_FORMAT": "json",
        "GATELOG_STATE_DIR": str(folder / "state"),
        "GATELOG_LEASE_ENABLED": "true",
    }
    migrate = Child("migrate", [GATELOG, "migrate"], env, folder)
    migrate.start()
    assert migrate.process is not None
    assert await asyncio.to_thread(migrate.process.wait, 60) == 0, migrate.tail()
    found = Replicas(env, folder)
    for child in found:
        child.start()
    try:
        yield found
    finally:
        for child in found:
            if child.running:
                child.send(signal.SIGCONT)
        await asyncio.gather(*(asyncio.to_thread(child.stop) for child in found))


def told(child: Child, event: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in child.text().splitlines() if line.startswith("{"))
    return [line for line in lines if line.get("event") == event]


@pytest.mark.timeout(300)
async def test_a_replica_may_die_stand_still_or_be_replaced(
    postgres_database: str, own_nats: EmbeddedNats, tmp_path: Path
) -> None:
    simulator = Simulator(tmp_path, "--kubelet", "scripted")
    simulator.start()
    took: dict[str, float] = {}
    try:
        async with (
            Api(simulator.url, TOKEN) as api,
            replicas(postgres_database, own_nats, simulator.kubeconfig, tmp_path) as parts,
        ):
            await make_queue(api, NAMESPACE, cpu=str(QUOTA))
            # With a quota of its own a probe does not wait behind those who waited longer.
            await make_queue(api, PROBES, cpu=str(QUOTA))
            watch, load, probes = (
                QuotaWatch(api, NAMESPACE),
                Users(api, NAMESPACE),
                Users(api, PROBES),
            )
            watching = asyncio.create_task(watch.run())
            await probes.probe()
            load.start()

            for part in COMMANDS:
                leader = await parts.leader(api, part)
                await asyncio.to_thread(leader.kill)
                took[f"{part} killed"] = await probes.probe()
                leader.start()
            for part in COMMANDS:
                leader = await parts.leader(api, part)
                leader.send(signal.SIGSTOP)
                took[f"{part} stopped"] = await probes.probe()
                leader.send(signal.SIGCONT)
                if part != "actuator":
                    await asyncio.to_thread(leader.wait_for, '"event": "lease_lost"')
                took[f"{part} woken up"] = await probes.probe()
                assert leader.running, leader.tail()

            slowest = 0.0
            for child in parts:
                child.send(signal.SIGTERM)
                probing = asyncio.create_task(probes.probe())
                assert child.process is not None
                code = await asyncio.to_thread(child.process.wait, 30)
                assert code == 0, child.tail()
                child.start()
                slowest = max(slowest, await probing)
            took["rolling restart, slowest"] = slowest
            await load.stop()
            async with explained(api, NAMESPACE, postgres_database, parts, own_nats.settings()):
                for each in (load, probes):
                    await api.until("the undisturbed end", each.all_done, 60)
            assert watch.most <= QUOTA, f"{watch.most} pods of 1 cpu past the gate at once"
            watching.cancel()
            # Its last writes are seen by the projector too, however busy the machine is.
            await api.until("every group is over", lambda: _over(postgres_database), 30)
            await asyncio.sleep(1)
            print(f"\n{load.pods} pods in {load.groups} groups; at most {watch.most} at once")
            for what, seconds in took.items():
                print(f"{what:28} {seconds:6.2f} s")
            assert max(took.values()) <= TAKEOVER_S, took
            # Who was woken up did nothing more than notice.
            assert not [line for child in parts for line in told(child, "failed")]
    finally:
        simulator.stop()
    groups, pods = load.groups + probes.groups, load.pods + probes.pods
    await hold_against_the_log(postgres_database, own_nats.settings(), CLUSTER, groups)
    await verified(postgres_database, own_nats.settings(), CLUSTER, pods)


async def _over(database: str) -> bool:
    engine = reader(database)
    try:
        with engine.connect() as connection:
            left = "SELECT count(*) FROM groups WHERE state <> 'Finished'"
            return not connection.execute(sa.text(left)).scalar()
    finally:
        engine.dispose()
