"""Killed between commit and publish, and before commit: nothing is lost, nothing made twice."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from projector import tables
from runtime.jetstream import Bus
from runtime.settings import NatsSettings
from tests.projector.running import (
    decided,
    eventually,
    publish,
    running,
    sent_decisions,
    settings_for,
)
from tests.projector.support import comparable
from tests.projector.test_projection import batches, reloaded
from tests.projector.test_store import rows_of
from tests.support.toy import Toy

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

CHILD = """
import asyncio, os, signal, sys
import msgspec
from runtime.jetstream import connect
from runtime.settings import NatsSettings
from projector.live.projection import Projection
from projector.storage.store import SqlStore
from tests.projector.running import settings_for

url, cluster, moment, nats = sys.argv[1:]

class Doomed(SqlStore):
    def commit(self, rows, new, old):
        if moment == "after":
            super().commit(rows, new, old)
        if "decisions" in rows.tables:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().commit(rows, new, old) if moment != "after" else self.load().checkpoint

    def _write(self, connection, rows, new, old):
        done = super()._write(connection, rows, new, old)
        if moment == "within" and "decisions" in rows.tables:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

async def main():
    bus = await connect(msgspec.json.decode(nats, type=NatsSettings), "child", deadline_s=20)
    store = Doomed(url, cluster)
    await Projection(settings_for(url, cluster), bus, store, asyncio.Event()).run()

asyncio.run(main())
"""


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
@pytest.mark.parametrize("moment", ["before", "within", "after"])
async def test_a_projector_killed_around_a_commit(
    url: str, bus: Bus, cluster: str, nats_settings: NatsSettings, moment: str
) -> None:
    toy = Toy()
    toy.act = False
    toy.pod("foo")
    await publish(bus, cluster, batches(toy)[:-1])
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CHILD, url, cluster, moment),
        msgspec.json.encode(nats_settings).decode(),
        cwd=Path(__file__).parents[2],
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        await asyncio.sleep(0.1)
        last = await publish(bus, cluster, batches(toy)[-1:])
        async with asyncio.timeout(30):
            code = await child.wait()
    finally:
        if child.returncode is None:
            os.kill(child.pid, signal.SIGKILL)
            await child.wait()
    assert code == -signal.SIGKILL
    before = [d["id"] for d in rows_of(url, tables.decisions)]
    assert bool(before) == (moment == "after")
    async with running(settings_for(url, cluster), bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
        assert projection.world.meta.position == last
        decisions = decided(url, cluster)
        found = await sent_decisions(bus, cluster, len(decisions))
        world = projection.world
    assert [d for _, d in found] == decisions
    assert len(decisions) == 4
    if before:
        assert [d.id for d in decisions] == before
    assert comparable(reloaded(url, cluster)) == comparable(world)
