"""The log's server as it is shipped, on a full disk: what its probes ask, and what mends it."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from podgroup.log import subjects
from runtime.jetstream import Bus, BusError, connect
from runtime.settings import StreamSettings
from tests.deploy.compose import free_port
from tests.deploy.manifests import DEPLOY, objects
from tests.support.faults.processes import ROOM, limit_files
from tests.support.shippednats import ShippedNats

pytestmark = pytest.mark.retried("it waits for a server that shares two cores with other tests")

PATIENCE_S = 20.0


def probe(name: str) -> dict[str, Any]:
    (pod,) = (
        one["spec"]["template"]["spec"]
        for one in objects(DEPLOY / "components" / "nats")
        if one["kind"] == "StatefulSet"
    )
    found: dict[str, Any] = pod["containers"][0][name]
    return found


async def passes(name: str, monitor: int) -> bool:
    url = f"http://127.0.0.1:{monitor}{probe(name)['httpGet']['path']}"
    try:
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False


async def until(name: str, monitor: int, wanted: bool) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await passes(name, monitor) is not wanted:
            await asyncio.sleep(0.1)


async def stored(bus: Bus, name: str) -> bool:
    try:
        await bus.publish(subjects.events("c", "watch"), b"x" * 9000, name, timeout_s=2)
    except BusError:
        return False
    return True


async def test_a_restart_into_the_full_disk_is_watched_by_the_liveness_probe(
    tmp_path: Path,
) -> None:
    """The startup probe asked for all of its health, and had 5 minutes: only then came a restart.

    It took 4 min 34 s from room on the disk to a stored message.
    """
    monitor = free_port()
    nats = ShippedNats(tmp_path, ("c",), monitor=monitor)
    try:
        async with asyncio.timeout(PATIENCE_S):
            maker = await connect(nats.settings("streams"), "maker", deadline_s=PATIENCE_S)
            await maker.ensure_streams(StreamSettings())
            await maker.close()
        bus = await connect(nats.settings("ingest"), "ingest", deadline_s=PATIENCE_S)
        assert await stored(bus, "before")
        limit_files(nats.process.pid)
        while await stored(bus, "full"):
            pass
        await until("livenessProbe", monitor, False)
        nats.stop()
        nats.start(ROOM)
        assert not await stored(bus, "full again"), "the parts write sooner than a probe asks"
        await until("livenessProbe", monitor, False)
        await until("startupProbe", monitor, True)
        limit_files(nats.process.pid, None)
        assert not await stored(bus, "room alone mends nothing")
        nats.stop()  # what `kubectl delete pod nats-0` does, and the liveness probe
        nats.start()
        async with asyncio.timeout(PATIENCE_S):
            while not await stored(bus, "mended"):
                pass
        await until("livenessProbe", monitor, True)
        await bus.close()
    finally:
        nats.stop()
