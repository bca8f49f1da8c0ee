"""What pods really use, from a metrics server behind the stand-in's front proxy into the log."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.measuring import Measuring
from podgroup.log.events import PodDeleted, PodMeasured
from runtime.jetstream import Bus
from runtime.kube import KubeClient, connect
from runtime.settings import IngestSettings, KubernetesSettings, NatsSettings
from simcluster import Settings as SimSettings
from simcluster.access import User
from simcluster.client import Client
from tests.ingest.world import Log, ingesting, pod, settings_for, until
from tests.support.metricsserver import API_SERVICE, MetricsServer
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

LATER = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
async def sim() -> AsyncIterator[SimCluster]:
    users = {"weak": User(name="weak")}
    settings = SimSettings(kubelet="scripted", users=users)
    async with SimCluster(settings, front_proxy=True) as running:
        yield running


@pytest.fixture
async def kube(sim: SimCluster, tmp_path: Path) -> AsyncIterator[KubeClient]:
    one = await connect(KubernetesSettings(kubeconfig=str(sim.kubeconfig(tmp_path / "k"))))
    yield one
    await one.close()


def client(sim: SimCluster) -> Client:
    return Client(sim.url, sim.token, authority=sim.authority)


async def running(sim: SimCluster, name: str, usage: str) -> str:
    """Create a pod that runs, and return its uid."""
    wanted = pod(name)
    wanted["metadata"]["annotations"] = {"simcluster/usage": usage}
    del wanted["spec"]["schedulingGates"]
    async with client(sim) as api:
        uid = str((await api.create("pods", wanted, "default"))["metadata"]["uid"])

    async def runs() -> bool:
        found = sim.objects("", "pods", "default")
        return any(p["metadata"]["uid"] == uid and p["status"]["phase"] == "Running" for p in found)

    await until(runs, f"{name} runs")
    return uid


def measuring(kube: KubeClient, put: Any = None) -> Measuring:
    async def nowhere(*_: object) -> None:
        pass

    return Measuring(
        kube,
        put or nowhere,
        IngestSettings(
            selector="kueue.x-k8s.io/managed=true", measure_interval_s=0.1, measure_report_s=1
        ),
        resumed=True,
    )


async def test_reports_reach_the_log_before_the_end_of_their_pod(
    sim: SimCluster, nats_settings: NatsSettings, cluster: str, bus: Bus, tmp_path: Path
) -> None:
    settings = settings_for(
        sim, nats_settings, cluster, tmp_path, measure_interval_s=0.05, measure_report_s=3600
    )
    log = Log(bus, cluster)

    def reports(uid: str) -> list[PodMeasured]:
        return [e for e in log.events if isinstance(e, PodMeasured) and e.uid == uid]

    def ends(uid: str) -> list[PodDeleted]:
        return [e for e in log.events if isinstance(e, PodDeleted) and e.pod.uid == uid]

    async with MetricsServer(sim) as server:
        long, short = (
            await running(sim, "long", "cpu=0,memory=0"),
            await running(sim, "short", "cpu=250m,memory=1Gi"),
        )

        async def asked(times: int) -> None:
            more = len(server.asked) + times

            async def so_often() -> bool:
                return len(server.asked) >= more

            await until(so_often, f"the metrics API was asked {times} times")

        async with ingesting(settings) as ingester:
            await ingester.until_ready()
            for hours in (1, 2):
                server.sample(LATER + timedelta(hours=hours))
                await asked(2)
            async with client(sim) as api:
                await api.delete("pods", "short", "default")

            async def over() -> bool:
                await log.read()
                return bool(ends(short))

            await until(over, "the end is in the log")
            (report,) = reports(short)
            kinds = [type(e) for e in log.events if e in (report, ends(short)[0])]
            assert kinds == [PodMeasured, PodDeleted]
            assert report.samples == 2 and report.peak == {"cpu": 250, "memory": 2**30}
            assert report.total == {"cpu": 500, "memory": 2**31}
            assert not reports(long)
            await ingester.stop()
        await log.read()
        assert [one.samples for one in reports(long)] == [2], "the end of a session reports"
        # It goes on where the log ends, where nothing says what runs already.
        async with ingesting(settings) as ingester:
            await ingester.until_ready()
            server.sample(LATER + timedelta(hours=3))
            await asked(2)
            await ingester.stop()
        await log.read()
        assert [one.samples for one in reports(long)] == [2, 1]
        path, query = server.asked[-1]
        assert path.endswith("/namespaces/default/pods")
        assert query["labelSelector"] == settings.ingest.selector
    await log.close()


async def test_what_is_in_the_way_is_told_and_stops_nothing(
    sim: SimCluster, kube: KubeClient, tmp_path: Path
) -> None:
    await running(sim, "a", "cpu=100m,memory=1Mi")
    one = measuring(kube)
    await one.round()
    assert "no metrics API" in one.problem and "install metrics-server" in one.problem
    await sim.create("apiregistration.k8s.io", "apiservices", API_SERVICE)
    await one.round()
    assert "status 503" in one.problem
    weak = await connect(
        KubernetesSettings(kubeconfig=str(sim.kubeconfig(tmp_path / "weak", "weak")))
    )
    other = measuring(weak)
    other.samples.learn("default", "a", "u", datetime(2026, 1, 1, tzinfo=UTC))
    other._unlisted = False
    await other.round()
    assert "deploy/components/measure" in other.problem
    await weak.close()
    async with MetricsServer(sim) as server:
        server.sample(LATER)
        await one.round()
        assert one.problem == ""
        assert [r.total for r in one.samples.reports()] == [{"cpu": 100, "memory": 2**20}]


async def test_an_answer_without_end_is_not_read(sim: SimCluster, kube: KubeClient) -> None:
    async with MetricsServer(sim):
        await running(sim, "a", "cpu=1m,memory=1Mi")
        answer = await kube.request("GET", "/api/v1/pods", most_bytes=1 << 20)
        with pytest.raises(Exception, match="longer than 100 bytes"):
            await kube.request("GET", "/api/v1/pods", most_bytes=100)
        assert answer.status == 200


async def test_reports_go_out_by_the_clock(sim: SimCluster, kube: KubeClient) -> None:
    told: list[PodMeasured] = []

    async def put(kind: object, events: Any, position: object) -> None:
        told.extend(events)

    async with MetricsServer(sim) as server:
        await running(sim, "a", "cpu=1m,memory=1Mi")
        server.sample(LATER)
        one = measuring(kube, put)
        task = asyncio.create_task(one.run())

        async def some() -> bool:
            return bool(told)

        await until(some, "a report")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [one.samples for one in told] == [1]
