"""Killed between commit and publish, and before commit: nothing is lost, nothing made twice."""

import asyncio
import signal
from pathlib import Path

import pytest

from projector import tables
from runtime.jetstream import Bus
from runtime.settings import NatsSettings
from tests.projector.running import (
    decided,
    doomed,
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


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
@pytest.mark.parametrize("moment", ["before", "within", "after"])
async def test_a_projector_killed_around_a_commit(
    url: str, bus: Bus, cluster: str, nats_settings: NatsSettings, moment: str, tmp_path: Path
) -> None:
    toy = Toy()
    toy.act = False
    toy.pod("foo")
    await publish(bus, cluster, batches(toy)[:-1])
    child = doomed(url, cluster, nats_settings, tmp_path, moment=moment)
    try:
        await asyncio.sleep(0.1)
        last = await publish(bus, cluster, batches(toy)[-1:])
        code = await asyncio.to_thread(child.wait, 30)
    finally:
        child.kill()
    assert code == -signal.SIGKILL, (tmp_path / "doomed.log").read_text()
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
