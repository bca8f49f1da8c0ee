"""Two replicas of each deployment: any may die or stand still, and nothing shows but a pause.

Groups of pods come and go all the time while, one after the other, the leader of ingest, that of
the projector and an actuator are killed, and others are stopped, taken over from, and woken up
again. Passwords and keys of log and database change as docs/upgrade.md says, under the same
processes. The log server ends and comes back, one of two nodes is lost with all that ran there, and
then every process is restarted in turn, as when nodes are drained. Taking over is measured from
outside: from the signal to the start of a pod that was created after it.

The log server is the shipped one, each part has its own user and the rights of the manifests, and
the projector comes to PostgreSQL with a password from a connection service file.
"""

import asyncio
import json
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa
from msgspec import structs

from projector.storage.database import reader
from runtime.jetstream import LoginRefused, connect
from tests.support.diagnosis import explained
from tests.support.faults.postgres import Role
from tests.support.faults.processes import frozen
from tests.support.invariants import QuotaWatch, hold_against_the_log, verified
from tests.support.load import Load
from tests.support.parts import PARTS, Parts, migrate, shipped_environment
from tests.support.processes import TOKEN, Api, Child, Simulator, make_queue
from tests.support.shippednats import ShippedNats

pytestmark = [
    pytest.mark.retried("it waits for processes that share two cores with other tests"),
    pytest.mark.slow("two replicas of each part, each killed in turn: two minutes"),
]

NAMESPACE, PROBES, CLUSTER, QUOTA = "ha", "ha-probes", "ha", 40
TAKEOVER_S = 20.0
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


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


async def leader(parts: Parts, api: Api, part: str) -> Child:
    """The one that holds the Lease; of actuators any, as they share the work."""
    if part == "actuator":
        return parts.of(part)[0]
    name = f"gatelog-{part}-{CLUSTER}" + ("-0" if part == "projector" else "")

    async def found() -> Child | None:
        holder = (await api.call("GET", f"{LEASES}/{name}"))["spec"]["holderIdentity"]
        for child in parts.of(part):
            if child.running and f'"identity": "{holder}"' in child.text():
                return child
        return None

    child: Child = await api.until(f"a leader of {part}", found)
    return child


@pytest.fixture
def role(postgres_database: str) -> Iterator[Role]:
    found = Role(postgres_database)
    yield found
    found.close()


@pytest.fixture
def log(role: Role, tmp_path: Path) -> Iterator[ShippedNats]:
    found = ShippedNats(tmp_path, (CLUSTER,), parse_qs(urlsplit(role.url).query)["host"][0])
    role.give((found.secrets / "postgres").read_text())
    yield found
    found.stop()


@asynccontextmanager
async def replicas(
    role: Role, log: ShippedNats, kubeconfig: Path, folder: Path
) -> AsyncIterator[Parts]:
    def env(user: str) -> dict[str, str]:
        database = f"postgresql:///{role.database}"
        return shipped_environment(log, user, CLUSTER, database, kubeconfig) | {
            "PGSERVICEFILE": str(log.secrets / "pg_service.conf"),
            "PGSERVICE": "gatelog",
        }

    await asyncio.to_thread(migrate, env("streams"), folder)
    found = Parts(env, folder, replicas=2)
    found.start()
    try:
        yield found
    finally:
        await asyncio.to_thread(found.stop)


def logged(child: Child, event: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in child.text().splitlines() if line.startswith("{"))
    return [line for line in lines if line.get("event") == event]


async def until_logged(api: Api, children: Iterable[Child], event: str, times: int = 1) -> None:
    """Wait until each of them has logged it so many times."""
    for child in children:

        async def so_often(child: Child = child) -> bool:
            return len(logged(child, event)) >= times

        await api.until(f"{child.name} logs {event} {times} times", so_often)


async def started(api: Api, child: Child) -> None:
    """Start it and wait until it says that it runs."""
    before = len(logged(child, "started"))
    child.start()
    await until_logged(api, [child], "started", before + 1)


async def secrets_of_the_log_change(api: Api, parts: Parts, log: ShippedNats) -> None:
    """Passwords and the key of decisions, as docs/upgrade.md has it."""
    old = {part: (log.secrets / part).read_text() for part in PARTS}
    for part in PARTS:
        (log.secrets / part).unlink()
    log.make_secrets()
    keys, new = log.secrets / "decision-keys.pem", log.secrets / "new.pem"
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(new)]
    subprocess.run(command, check=True, capture_output=True)
    command = ["openssl", "pkey", "-in", str(new), "-pubout"]
    with keys.open("ab") as file:
        file.write(subprocess.run(command, check=True, capture_output=True).stdout)
    seen = {child.name: len(logged(child, "nats_reconnected")) for child in parts}
    log.reload()
    for child in parts:
        await until_logged(api, [child], "nats_reconnected", seen[child.name] + 1)
    new.replace(log.secrets / "decision-key.pem")  # read by the projector's next start
    for part, password in old.items():
        assert (log.secrets / part).read_text() != password
        stolen = log.secrets / f"old-{part}"
        stolen.write_text(password)
        settings = structs.replace(log.settings(part), password_file=str(stolen))
        with pytest.raises(LoginRefused):
            await connect(settings, "thief", deadline_s=10)


async def password_of_the_database_changes(
    api: Api, parts: Parts, log: ShippedNats, role: Role
) -> None:
    """Files first, then the role; between the two a lost session is not to be had again."""
    leading = await leader(parts, api, "projector")
    (log.secrets / "postgres").unlink()
    (log.secrets / "pg_service.conf").unlink()
    log.make_secrets()
    seen = len(logged(leading, "database_unavailable"))
    assert await asyncio.to_thread(role.end_sessions) >= 1
    await until_logged(api, [leading], "database_unavailable", seen + 1)
    said = logged(leading, "database_unavailable")[-1]["error"]
    await asyncio.to_thread(role.give, (log.secrets / "postgres").read_text())
    assert (log.secrets / "postgres").read_text() not in leading.text(), said


@pytest.mark.timeout(300)
async def test_a_replica_may_die_stand_still_or_be_replaced(
    role: Role, log: ShippedNats, tmp_path: Path
) -> None:
    simulator = Simulator(tmp_path, "--kubelet", "scripted")
    simulator.start()
    took: dict[str, float] = {}
    try:
        async with (
            Api(simulator.url, TOKEN) as api,
            replicas(role, log, simulator.kubeconfig, tmp_path) as parts,
        ):
            await make_queue(api, NAMESPACE, cpu=str(QUOTA))
            # With a quota of its own a probe does not wait behind those who waited longer.
            await make_queue(api, PROBES, cpu=str(QUOTA))
            watch, load, probes = (
                QuotaWatch(api, NAMESPACE),
                Users(api, NAMESPACE, pause_s=(0.2, 0.8)),
                Users(api, PROBES),
            )
            watching = asyncio.create_task(watch.run())
            await probes.probe()
            load.start()

            for part in PARTS:
                leading = await leader(parts, api, part)
                await asyncio.to_thread(leading.kill)
                took[f"{part} killed"] = await probes.probe()
                leading.start()
            for part in PARTS:
                leading = await leader(parts, api, part)
                with frozen(leading.pid):
                    took[f"{part} stopped"] = await probes.probe()
                if part != "actuator":
                    await asyncio.to_thread(leading.wait_for, '"event": "lease_lost"')
                took[f"{part} woken up"] = await probes.probe()
                assert leading.running, leading.tail()

            await secrets_of_the_log_change(api, parts, log)
            took["passwords of the log changed"] = await probes.probe()
            await password_of_the_database_changes(api, parts, log, role)
            took["password of the database changed"] = await probes.probe()
            log.stop()
            log.start()
            took["log server drained"] = await probes.probe()
            # One node had a replica of each part.
            for part in PARTS:
                await asyncio.to_thread(parts[f"{part}-1"].kill)
            took["node lost"] = await probes.probe()
            for part in PARTS:
                await started(api, parts[f"{part}-1"])

            slowest = 0.0
            for child in parts:
                child.send(signal.SIGTERM)
                probing = asyncio.create_task(probes.probe())
                assert child.process is not None
                code = await asyncio.to_thread(child.process.wait, 30)
                assert code == 0, child.tail()
                await started(api, child)  # a rolling update waits for it, too
                slowest = max(slowest, await probing)
            took["rolling restart, slowest"] = slowest
            await load.stop()
            async with explained(api, NAMESPACE, role.url, parts, log.settings("logreader")):
                for each in (load, probes):
                    await api.until("the undisturbed end", each.all_done, 60)
            assert watch.most <= QUOTA, f"{watch.most} pods of 1 cpu past the gate at once"
            watching.cancel()
            # Its last writes are seen by the projector too, however busy the machine is.
            await api.until("every group is over", lambda: _over(role.url), 30)
            await asyncio.sleep(1)
            print(f"\n{load.pods} pods in {load.groups} groups; at most {watch.most} at once")
            for what, seconds in took.items():
                print(f"{what:28} {seconds:6.2f} s")
            assert max(took.values()) <= TAKEOVER_S, took
            # Who was woken up did nothing more than notice.
            assert not [line for child in parts for line in logged(child, "failed")]
            await api.until("no decision was refused", lambda: _none_parked(role.url), 1)
    finally:
        simulator.stop()
    groups, pods = load.groups + probes.groups, load.pods + probes.pods
    await hold_against_the_log(role.url, log.settings("logreader"), CLUSTER, groups)
    await verified(role.url, log.settings("logreader"), CLUSTER, pods)


async def _over(database: str) -> bool:
    engine = reader(database)
    try:
        with engine.connect() as connection:
            left = "SELECT count(*) FROM groups WHERE state <> 'Finished'"
            return not connection.execute(sa.text(left)).scalar()
    finally:
        engine.dispose()


async def _none_parked(database: str) -> bool:
    engine = reader(database)
    try:
        with engine.connect() as connection:
            return not connection.execute(sa.text("SELECT count(*) FROM parked")).scalar()
    finally:
        engine.dispose()
