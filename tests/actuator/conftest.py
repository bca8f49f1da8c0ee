"""A stand-in cluster of one's own, and the actuator's view of it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from actuator.concurrency import AdaptiveConcurrency
from actuator.execute import execute
from actuator.kubeapi import KubeApi
from actuator.kubeevents import Emitter
from actuator.verdicts import Verdict
from podgroup.model.commands import AnyCommand, ObjectRef
from runtime.embedded import EmbeddedNats
from runtime.jetstream import Bus
from runtime.jetstream import connect as connect_bus
from runtime.kube import KubeClient, connect
from runtime.settings import KubernetesSettings, StreamSettings
from simcluster import Settings
from tests.actuator.commands import decision, pod
from tests.actuator.log import Outcomes
from tests.support.standin import SimCluster

NAMESPACE = "team"


class Lab:
    """A cluster, a client, and shorthand for both."""

    def __init__(self, cluster: SimCluster, kube: KubeClient) -> None:
        self.cluster = cluster
        self.kube = kube
        self.concurrency = concurrency = AdaptiveConcurrency(64)
        self.api = KubeApi(kube, concurrency)
        self.emitter = Emitter(self.api, concurrency)

    async def pod(self, name: str = "p0", **body: Any) -> ObjectRef:
        """Create a gated pod; `body` replaces top-level parts of its spec."""
        wanted = pod(name)
        wanted["spec"] |= body
        return await self.create(wanted)

    async def create(self, wanted: dict[str, Any]) -> ObjectRef:
        status, made = await self.kube.json(
            "POST", f"/api/v1/namespaces/{NAMESPACE}/pods", body=wanted
        )
        assert status == 201, made
        meta = made["metadata"]
        return ObjectRef(kind="Pod", namespace=NAMESPACE, name=meta["name"], uid=meta["uid"])

    async def live(self, ref: ObjectRef) -> dict[str, Any] | None:
        reply = await self.api.get(ref)
        if reply.status == 404:
            return None
        assert reply.ok, reply
        return reply.object()

    def events(self) -> list[dict[str, Any]]:
        return self.cluster.objects("", "events", NAMESPACE)


def settings(**changes: Any) -> Settings:
    return Settings(**{"scheduler": False, **changes})


@pytest.fixture
async def cluster_settings() -> Settings:
    """Overridden by parametrization where a test needs another cluster."""
    return settings()


async def carry_out(lab: Lab, command: AnyCommand) -> Verdict:
    return await execute(lab.api, lab.emitter, decision(command))


@pytest.fixture
async def lab(tmp_path: Path, cluster_settings: Settings) -> AsyncIterator[Lab]:
    async with SimCluster(cluster_settings) as cluster:
        await cluster.create("", "namespaces", {"metadata": {"name": NAMESPACE}})
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig")
        kube = await connect(KubernetesSettings(kubeconfig=str(kubeconfig), request_timeout_s=1.0))
        try:
            yield Lab(cluster, kube)
        finally:
            await kube.close()


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[EmbeddedNats]:
    server = EmbeddedNats(tmp_path / "nats", sync_always=False)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
async def bus(nats: EmbeddedNats) -> AsyncIterator[Bus]:
    found = await connect_bus(nats.settings(), "test", deadline_s=10)
    try:
        await found.ensure_streams(StreamSettings())
        yield found
    finally:
        await found.close()


@pytest.fixture
async def outcomes(bus: Bus) -> AsyncIterator[Outcomes]:
    found = Outcomes(bus)
    yield found
    await found.close()
