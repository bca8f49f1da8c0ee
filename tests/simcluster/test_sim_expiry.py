"""Events have a time to live."""

import asyncio

import pytest

from simcluster import Settings
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def test_events_go_and_other_objects_stay() -> None:
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    }
    async with SimCluster(Settings(event_ttl_s=1.0)) as cluster:
        await cluster.create("", "events", event, "default")
        await cluster.create("", "configmaps", {"metadata": {"name": "c"}}, "default")
        await asyncio.sleep(0.5)
        assert len(cluster.objects("", "events")) == 1
        async with asyncio.timeout(10):
            while cluster.objects("", "events"):
                await asyncio.sleep(0.05)
        assert len(cluster.objects("", "configmaps", "default")) == 1
