"""An API server that tells another history than the log: noticed, said, and followed from there.

The stand-in is put back beneath a running ingester, and beneath one that is down. What the log
shows afterwards must be what the cluster holds, pods included that came while versions were still
lower than those that were seen."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ingest import lookout
from podgroup.log import codec, subjects
from podgroup.model.objects import WATCHED_KINDS
from runtime.election import Elector
from runtime.jetstream import Bus
from runtime.kube import connect as kube_connect
from runtime.metrics import Metrics
from runtime.settings import LeaseSettings, NatsSettings, Settings
from simcluster.settings import Settings as SimSettings
from tests.ingest.world import Log, caught_up, client, ingesting, pod, settings_for, until
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

SOON_S = 15.0
"""A restored API server is found out at the first connection, which is tried each second."""


@pytest.fixture
async def sim() -> AsyncIterator[SimCluster]:
    async with SimCluster(SimSettings(future_version_wait_s=0.2)) as running:
        yield running


async def create(sim: SimCluster, *names: str) -> None:
    async with client(sim) as kube:
        for name in names:
            await kube.create("pods", pod(name), "default")


async def restored(log: Log, times: int = 1) -> None:
    async def said() -> bool:
        await log.read()
        return len(log.restores) == times

    await until(said, f"the log says that the cluster was restored, {times} times", SOON_S)


async def test_a_restore_while_it_runs(sim: SimCluster, settings: Settings, log: Log) -> None:
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "kept")
        backup = sim.backup()
        await create(sim, *(f"lost-{n}" for n in range(30)))
        await caught_up(log, sim)
        known, relists = sim.store.version, len(log.relists)
        sim.restore(backup)
        await create(sim, "new")
        await restored(log)
        await caught_up(log, sim, SOON_S)
        assert sim.store.version < known
        (event,) = log.restores
        assert int(event.resource_version) < int(event.was_version) <= known
        assert event.cluster_uid == event.was_uid != ""
        assert len(log.relists) == relists + len(WATCHED_KINDS)
        assert all(r.reason.startswith("the cluster was restored") for r in log.relists[relists:])
        await create(sim, "newer")
        await caught_up(log, sim, SOON_S)
        await ingester.until_ready()


async def test_a_restore_while_it_is_down(sim: SimCluster, settings: Settings, log: Log) -> None:
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "kept")
        backup = sim.backup()
        await create(sim, *(f"lost-{n}" for n in range(30)))
        await caught_up(log, sim)
        await ingester.stop()
        sim.restore(backup)
        await create(sim, "new")
        await ingester.start()
        await restored(log)
        await caught_up(log, sim, SOON_S)


@pytest.mark.parametrize("down", [False, True])
async def test_a_history_that_has_outgrown_what_was_seen(
    down: bool, sim: SimCluster, settings: Settings, log: Log
) -> None:
    """The version says nothing any more: an object that was seen never was."""
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        backup = sim.backup()
        await create(sim, "lost-1", "lost-2")
        await caught_up(log, sim)
        known = sim.store.version
        if down:
            await ingester.stop()
        sim.faults.refuse(1.0)
        sim.restore(backup)
        for n in range(60):
            await sim.create("", "pods", pod(f"new-{n}"), "default")
        assert sim.store.version > known
        if down:
            await ingester.start()
        await restored(log)
        assert "it is not in the history of this cluster" in log.restores[0].reason
        await caught_up(log, sim, SOON_S)


async def test_a_bumped_revision(sim: SimCluster, settings: Settings, log: Log) -> None:
    """`etcdutl snapshot restore --bump-revision 1000000000 --mark-compacted`."""
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "kept")
        backup = sim.backup()
        await create(sim, "lost")
        await caught_up(log, sim)
        sim.restore(backup, bump=1_000_000_000)
        await create(sim, "new")
        await restored(log)
        assert "bumped revision" in log.restores[0].reason
        await caught_up(log, sim, SOON_S)


async def test_another_cluster_at_the_address(
    nats_settings: NatsSettings, cluster: str, tmp_path: Path, log: Log
) -> None:
    first = SimCluster(SimSettings(seed=1))
    await first.start()
    settings = settings_for(first, nats_settings, cluster, tmp_path)
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(first, "a", "b")
        await caught_up(log, first)
        port = first.server.listener.port
        await first.stop()
        async with SimCluster(SimSettings(seed=2, port=port)) as second:
            for n in range(99):
                await second.create("", "configmaps", {"metadata": {"name": f"c{n}"}}, "default")
            await create(second, "a", "b")
            await restored(log)
            (event,) = log.restores
            assert event.was_uid != event.cluster_uid
            await caught_up(log, second, SOON_S)
            await ingester.crash()


async def test_twice(sim: SimCluster, settings: Settings, log: Log) -> None:
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        backup = sim.backup()
        for times in (1, 2):
            await create(sim, *(f"lost-{times}-{n}" for n in range(9)))
            await caught_up(log, sim)
            sim.restore(backup)
            await restored(log, times)
            await caught_up(log, sim, SOON_S)
        assert len({e.incarnation for e in log.restores}) == 2


async def test_versions_that_come_again_are_no_duplicates(
    sim: SimCluster, settings: Settings, log: Log
) -> None:
    """The same uid at the same version within the window in which JetStream compares ids."""
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a")
        backup = sim.backup()
        async with client(sim) as kube:
            said = {"metadata": {"labels": {"told": "first"}}}
            first = await kube.patch("pods", "a", said, "default")
            await create(sim, "b", "c")
            await caught_up(log, sim)
            sim.restore(backup)
            await restored(log)
            await ingester.until_ready()
            await caught_up(log, sim, SOON_S)
            said = {"metadata": {"labels": {"told": "second"}}}
            second = await kube.patch("pods", "a", said, "default")
            assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
        await caught_up(log, sim, SOON_S)


async def test_what_cannot_be_asked_is_waited_for_and_nothing_is_concluded(
    sim: SimCluster, settings: Settings, log: Log
) -> None:
    """A lagging API server gives no list that the quorum answers; one in trouble gives none."""
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a")
        await caught_up(log, sim)
        await ingester.stop()
        sim.faults.answer(504, method="GET", path="limit=1$|kube-system")
        await ingester.start()
        await asyncio.sleep(2.5)
        assert "504" in await ingester.problem()
        sim.faults.clear()
        await create(sim, "b")
        await caught_up(log, sim, SOON_S)
        assert not log.restores and len(log.relists) == len(WATCHED_KINDS)


async def test_without_the_right_to_read_the_namespace_versions_still_tell(
    sim: SimCluster, settings: Settings, log: Log
) -> None:
    sim.faults.answer(403, method="GET", path="namespaces/kube-system$")
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        backup = sim.backup()
        await create(sim, "lost-1", "lost-2")
        await caught_up(log, sim)
        sim.restore(backup)
        await restored(log)
        await caught_up(log, sim, SOON_S)


async def test_a_restore_without_a_broken_connection_is_found_within_a_minute(
    sim: SimCluster, settings: Settings, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a proxy that keeps the watches open."""
    assert lookout.LOOK_S < 60
    monkeypatch.setattr(lookout, "LOOK_S", 0.5)
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        backup = sim.backup()
        await create(sim, "lost-1", "lost-2")
        await caught_up(log, sim)
        open_watches = [set(table.watchers) for table in sim.store.tables.values()]
        for table in sim.store.tables.values():
            table.watchers.clear()
        sim.restore(backup)
        assert any(open_watches)
        await restored(log)
        await caught_up(log, sim, SOON_S)


async def test_every_message_says_of_what_its_versions_are(
    sim: SimCluster, settings: Settings, log: Log, bus: Bus, cluster: str
) -> None:
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a")
        await caught_up(log, sim)
        metas = [o["metadata"] for o in sim.objects("", "namespaces")]
        (uid,) = [meta["uid"] for meta in metas if meta["name"] == "kube-system"]
        assert {b.incarnation for b in log.batches} == {""}
        assert log.batches[-1].cluster_uid == uid
        backup = sim.backup()
        await create(sim, "b")
        await caught_up(log, sim)
        sim.restore(backup)
        await restored(log)
        last = await bus.last(subjects.EVENTS, subjects.events(cluster, "watch"))
        assert last is not None
        assert codec.decode_batch(last.body).incarnation == log.restores[0].incarnation


async def test_a_lease_of_a_restored_cluster_is_kept(sim: SimCluster, settings: Settings) -> None:
    """Its version is lower than the one that was written last: one conflict, then it is ours."""
    kube = await kube_connect(settings.kubernetes)
    lease = LeaseSettings(
        enabled=True, namespace="default", duration_s=3, renew_deadline_s=2, retry_period_s=0.1
    )
    elector, stop, terms = (
        Elector(kube, lease, "gatelog-ingest-x", metrics=Metrics(settings)),
        asyncio.Event(),
        [],
    )

    async def work() -> None:
        terms.append(1)
        await stop.wait()

    running = asyncio.create_task(elector.run(work, stop))
    try:
        await until(lambda: elector.leading, "it leads")
        backup = sim.backup()
        await asyncio.sleep(0.5)
        sim.restore(backup)
        await asyncio.sleep(4)
        assert elector.leading and not elector.problem and terms == [1]
    finally:
        stop.set()
        await running
        await kube.close()
