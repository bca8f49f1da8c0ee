"""The ingester against a stand-in cluster over HTTP and a real nats-server: what the log shows must
be what the cluster holds, whatever fails in between, and relists happen only when they must.

Not covered: the webhook (test_registration), what the fold makes of it (tests of podgroup)."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from podgroup.log import subjects
from podgroup.log.codec import encode_batch
from podgroup.log.events import Batch, OperatorActed, PodApplied, PodDeleted
from podgroup.model.objects import WATCHED_KINDS
from runtime.embedded import EmbeddedNats
from runtime.jetstream import Bus, connect
from runtime.settings import StreamSettings
from simcluster.settings import Settings as SimSettings
from simcluster.settings import WatchListMode
from tests.ingest.world import (
    Ingester,
    Log,
    caught_up,
    client,
    ingesting,
    pod,
    settings_for,
    truth,
    until,
)
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


@pytest.fixture
async def sim() -> AsyncIterator[SimCluster]:
    async with SimCluster(SimSettings()) as running:
        yield running


async def create(sim: SimCluster, *names: str) -> None:
    async with client(sim) as kube:
        for name in names:
            await kube.create("pods", pod(name), "default")


async def ungate(sim: SimCluster, name: str) -> None:
    async with client(sim) as kube:
        patch = {"metadata": {"labels": {"x": "y"}}, "spec": {"schedulingGates": []}}
        await kube.patch("pods", name, patch, "default", fieldManager="kueue")


async def delete(sim: SimCluster, *names: str) -> None:
    async with client(sim) as kube:
        for name in names:
            await kube.delete("pods", name, "default")


async def test_first_lists_then_deltas_and_every_message_says_where_to_resume(sim, settings, log):
    await create(sim, "before")
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a", "b")
        await ungate(sim, "a")
        await delete(sim, "b")
        await caught_up(log, sim)
    assert [r.kind for r in log.relists] == list(WATCHED_KINDS)
    assert {r.reason for r in log.relists} == {"nothing is in the log yet"}
    assert all(done.installed for done in log.completed.values())
    assert len(log.pods()) == 2
    writers = [e.pod.writer for e in log.events if isinstance(e, PodApplied) and not e.pod.gates]
    assert writers[0] == "kueue"
    assert any(isinstance(e, PodDeleted) for e in log.events)
    assert set(log.batches[-1].positions) == set(WATCHED_KINDS)
    newest = max(int(v) for v in truth(sim).values())
    assert int(log.batches[-1].positions["Pod"]) >= newest


@pytest.mark.parametrize("mode", list(WatchListMode)[:2])
@pytest.mark.parametrize("page_size", [1, 500])
async def test_every_way_of_listing_shows_the_same(
    mode, page_size, nats_settings, cluster, tmp_path, log
):
    async with SimCluster(SimSettings(watch_list=mode)) as sim:
        names = [f"p{i}" for i in range(7)]
        await create(sim, *names)
        settings = settings_for(sim, nats_settings, cluster, tmp_path, page_size=page_size)
        async with ingesting(settings) as ingester:
            await ingester.until_ready()
            await caught_up(log, sim)
        assert log.completed["Pod"].count == 7


async def test_a_restart_resumes_without_a_relist_and_without_loss(sim, settings, log):
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a", "b", "c")
        await caught_up(log, sim)
        await ingester.stop()
    relists = len(log.relists)
    await delete(sim, "b")
    await ungate(sim, "c")
    await create(sim, "d")
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await caught_up(log, sim)
    assert len(log.relists) == relists
    assert [e.pod.name for e in log.events if isinstance(e, PodDeleted)] == ["b"]


async def test_crashes_in_the_middle_of_many_changes_lose_nothing(sim, settings, log):
    names = [f"p{i}" for i in range(120)]

    async def change() -> None:
        for name in names:
            await create(sim, name)
            if name.endswith("3"):
                await delete(sim, name)
            await asyncio.sleep(0)

    changing = asyncio.create_task(change())
    ingester = Ingester(settings)
    for _ in range(6):
        await ingester.start()
        await asyncio.sleep(0.15)
        await ingester.crash()
    await changing
    async with ingesting(settings) as last:
        await last.until_ready()
        await caught_up(log, sim)
    assert len(log.pods()) == 108


async def test_a_crash_inside_a_frame_lists_again(sim, settings, log, bus, cluster):
    await create(sim, *[f"p{i}" for i in range(30)])
    slow = settings_for(
        sim,
        settings.nats,
        cluster,
        Path(settings.state_dir).parent,
        page_size=1,
        use_watch_list=False,
    )
    sim.faults.delay(20, path="/api/v1/pods")
    async with ingesting(slow) as ingester:
        await until(lambda: _listed(log), "some pods are listed", 20)
        await ingester.crash()
    assert "Pod" not in log.batches[-1].positions
    assert "Pod" not in log.completed
    sim.faults.clear()
    sim.faults.rules.clear()
    await delete(sim, "p3")
    async with ingesting(settings) as again:
        await again.until_ready()
        await caught_up(log, sim)
    assert [r.kind for r in log.relists].count("Pod") == 2
    assert [r.kind for r in log.relists].count("Namespace") == 1


async def _listed(log: Log) -> bool:
    await log.read(0.01)
    return len(log.pods()) >= 3


async def test_compaction_while_away_leads_to_a_relist_that_shows_what_is_gone(sim, settings, log):
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a", "b")
        await caught_up(log, sim)
        await ingester.stop()
    await delete(sim, "a")
    await create(sim, "c")
    sim.compact()
    seen = len(log.relists)
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await caught_up(log, sim)
    again = {r.kind: r.reason for r in log.relists[seen:]}
    assert "410" in again["Pod"]
    # Nobody saw the deletion; the frame tells.
    assert not [e for e in log.events if isinstance(e, PodDeleted) and e.pod.name == "a"]


@pytest.mark.parametrize("abrupt", [False, True])
async def test_dropped_watches_resume_without_a_relist(abrupt, sim, settings, log):
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await until(lambda: _every_kind(log), "every kind is listed")
        relists = len(log.relists)
        for number in range(5):
            await create(sim, f"p{number}")
            sim.faults.drop_watches(abrupt=abrupt)
            await create(sim, f"q{number}")
        await caught_up(log, sim)
    assert len(log.relists) == relists
    assert len(log.pods()) == 10


async def test_stalled_watches_are_found_dead(sim, nats_settings, cluster, tmp_path, log):
    settings = settings_for(
        sim, nats_settings, cluster, tmp_path, watch_timeout_s=1, idle_grace_s=0.3
    )
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        sim.faults.stall_watches()
        await create(sim, "a")
        await asyncio.sleep(2)
        await log.read()
        assert log.pods() == {}
        relists = len(log.relists)
        sim.faults.clear()
        await caught_up(log, sim)
    assert len(log.relists) == relists


async def test_an_api_server_that_is_away_or_in_trouble_is_waited_for(sim, settings, log):
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        sim.faults.refuse(0.5)
        await asyncio.sleep(0.7)
        sim.faults.answer(503, path="watch=1", count=3)
        sim.faults.answer(429, path="/api/v1/pods", count=2, retry_after_s=1)
        sim.faults.drop_watches()
        await create(sim, "a", "b")
        await caught_up(log, sim)
        await until(lambda: _every_kind(log), "every kind is listed")
    assert len(log.relists) == len(WATCHED_KINDS)


async def test_a_missing_permission_makes_us_unready_and_names_it(
    sim, nats_settings, cluster, tmp_path, log
):
    sim.faults.answer(403, path="/localqueues")
    settings = settings_for(sim, nats_settings, cluster, tmp_path)
    async with ingesting(settings) as ingester:
        await create(sim, "a")
        await caught_up(log, sim)
        assert "localqueues.kueue.x-k8s.io" in (await ingester.checks.readiness())["ingest"]


async def test_kinds_that_are_not_installed_are_reported_and_found_later(
    nats_settings, cluster, tmp_path, log
):
    async with SimCluster(SimSettings(kueue_kinds=False)) as sim:
        await create(sim, "a")
        settings = settings_for(sim, nats_settings, cluster, tmp_path)
        async with ingesting(settings) as ingester:
            await ingester.until_ready()
            await until(lambda: _every_kind(log), "every kind is listed")
        absent = {kind for kind, done in log.completed.items() if not done.installed}
        assert absent == set(WATCHED_KINDS) - {"Namespace", "PriorityClass", "Pod"}


async def test_an_older_kueue_is_watched_in_its_version(nats_settings, cluster, tmp_path, log):
    async with SimCluster(SimSettings(kueue_versions=("v1beta1",))) as sim:
        async with client(sim) as kube:
            queue = {"metadata": {"name": "cq"}, "spec": {"cohort": "co"}}
            await kube.create("clusterqueues.kueue.x-k8s.io/v1beta1", queue)
        settings = settings_for(sim, nats_settings, cluster, tmp_path)
        async with ingesting(settings) as ingester:
            await ingester.until_ready()
            await until(lambda: _every_kind(log), "every kind is listed")
        done = log.completed["ClusterQueue"]
        assert (done.installed, done.count) == (True, 1)


# -- the log fails -----------------------------------------------------------------------------


async def _every_kind(log: Log) -> bool:
    await log.read()
    return log.completed.keys() == set(WATCHED_KINDS)


@asynccontextmanager
async def own_bus(server: EmbeddedNats) -> AsyncIterator[Bus]:
    one = await connect(server.settings(), "test", deadline_s=20)
    await one.ensure_streams(StreamSettings())
    yield one
    await one.close()


async def published(server: EmbeddedNats, cluster: str, sim: SimCluster) -> Log:
    """Read the log from its beginning until it shows the cluster."""
    async with own_bus(server) as bus:
        log = Log(bus, cluster)
        await caught_up(log, sim, 30)
        await log.close()
        return log


async def test_a_nats_server_that_restarts_costs_nothing(sim, own_nats, cluster, tmp_path):
    settings = settings_for(sim, own_nats.settings(), cluster, tmp_path)
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a")
        before = await published(own_nats, cluster, sim)
        own_nats.kill()
        await create(sim, "b", "c")
        await delete(sim, "a")
        await asyncio.sleep(0.3)
        await own_nats.start()
        await create(sim, "d")
        after = await published(own_nats, cluster, sim)
    assert len(after.relists) == len(before.relists) == len(WATCHED_KINDS)
    assert len(after.pods()) == 3


async def test_a_recreated_stream_gets_a_complete_relist(sim, own_nats, cluster, tmp_path):
    settings = settings_for(sim, own_nats.settings(), cluster, tmp_path)
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a", "b")
        await published(own_nats, cluster, sim)
        own_nats.kill()
        shutil.rmtree(own_nats.store_dir / "jetstream")
        await own_nats.start()
        await create(sim, "c")
        after = await published(own_nats, cluster, sim)
        await ingester.until_ready()
        after = await published(own_nats, cluster, sim)
    assert [r.kind for r in after.relists] == list(WATCHED_KINDS)
    assert all("recreated" in r.reason for r in after.relists)


async def test_a_stream_that_is_rolled_back_gets_a_complete_relist(
    sim, own_nats, cluster, tmp_path
):
    settings = settings_for(sim, own_nats.settings(), cluster, tmp_path)
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a")
        before = await published(own_nats, cluster, sim)
        await own_nats.stop()
        shutil.copytree(own_nats.store_dir / "jetstream", tmp_path / "backup")
        await own_nats.start()
        for number in range(10):
            await create(sim, f"p{number}")
            await published(own_nats, cluster, sim)
        await own_nats.stop()
        shutil.rmtree(own_nats.store_dir / "jetstream")
        shutil.copytree(tmp_path / "backup", own_nats.store_dir / "jetstream")
        await own_nats.start()
        await delete(sim, "p3")
        after = await published(own_nats, cluster, sim)
    again = after.relists[len(before.relists) :]
    assert [r.kind for r in again] == list(WATCHED_KINDS)
    assert all("rolled back" in r.reason for r in again)


async def test_nothing_of_another_cluster_is_resumed_from(sim, settings, log, bus):
    await bus.publish(subjects.events("another", "watch"), b"{}", "x")
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await until(lambda: _every_kind(log), "every kind is listed")
    assert len(log.relists) == len(WATCHED_KINDS)


async def test_a_request_in_the_log_leads_to_a_complete_relist(sim, settings, log, bus, cluster):
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a")
        await caught_up(log, sim)
        relists = len(log.relists)
        asked = OperatorActed(
            action="relist", target="0/2/1", by="projector", message="new database"
        )
        await bus.publish(
            subjects.events(cluster, "projector"),
            encode_batch(Batch(source="projector", events=(asked,))),
            f"{cluster}.relist",
        )

        async def listed() -> bool:
            await log.read()
            return len(log.relists) >= relists + len(WATCHED_KINDS)

        await until(listed, "a relist of every kind")
        await create(sim, "b")
        await caught_up(log, sim)
    assert len(log.relists) == relists + len(WATCHED_KINDS), "asked once, listed once"
    assert all("new database" in r.reason for r in log.relists[relists:])


async def relabel(sim: SimCluster, name: str, times: int) -> None:
    async with client(sim) as kube:
        for n in range(times):
            await kube.patch("pods", name, {"metadata": {"labels": {"n": str(n)}}}, "default")


def versions(log: Log) -> list[str]:
    return [e.pod.resource_version for e in log.events if isinstance(e, PodApplied)]


async def test_a_flood_of_labels_leaves_a_few_lines_and_the_last_one(
    sim, nats_settings, cluster, tmp_path, log
):
    settings = settings_for(sim, nats_settings, cluster, tmp_path, pod_change_interval_s=1.0)
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a", "b")
        await caught_up(log, sim)
        before = len(versions(log))
        await relabel(sim, "a", 300)
        await create(sim, "c")
        await relabel(sim, "b", 1)
        # Who is not held back does not wait, and the last state of who is comes by itself.
        await caught_up(log, sim)
        assert len(versions(log)) - before < 40
        assert ingester.checks.metrics is not None
        page = ingester.checks.metrics().decode()
        (line,) = re.findall(r"^gatelog_ingest_changes_conflated_total (\d+)", page, re.M)
        assert int(line) > 250


async def test_what_was_held_when_the_ingester_died_is_seen_again(
    sim, nats_settings, cluster, tmp_path, log
):
    settings = settings_for(sim, nats_settings, cluster, tmp_path, pod_change_interval_s=60.0)
    async with ingesting(settings) as ingester:
        await ingester.until_ready()
        await create(sim, "a", "b")
        await caught_up(log, sim)
        await relabel(sim, "a", 50)
        await create(sim, "c")
        last = next(o for o in sim.objects("", "pods") if o["metadata"]["name"] == "c")

        async def others_are_there() -> bool:
            await log.read()
            return last["metadata"]["uid"] in log.pods()

        await until(others_are_there, "what came after it")
        assert log.pods() != truth(sim)
        await ingester.crash()
        lists = len(log.relists)
        await ingester.start()
        await caught_up(log, sim)
        assert len(log.relists) == lists
