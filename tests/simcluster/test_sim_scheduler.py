"""The scheduler: gates, selectors, taints, room, and the binding endpoint."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simcluster import NodeSettings, Settings
from simcluster.client import ApiFailure, Client
from tests.simcluster.make import GATE, pod
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

NS = "default"


async def bound(client: Client, name: str) -> str:
    got = await client.wait(
        "pods", name, NS, until=lambda p: p is not None and "nodeName" in p["spec"], timeout_s=2
    )
    assert got is not None
    return str(got["spec"]["nodeName"])


def scheduled(obj: dict[str, Any]) -> dict[str, Any]:
    conditions = obj["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == "PodScheduled"), {})


async def refused(client: Client, name: str) -> str:
    got = await client.wait(
        "pods",
        name,
        NS,
        until=lambda p: p is not None and scheduled(p).get("reason") == "Unschedulable",
        timeout_s=2,
    )
    assert got is not None
    return str(scheduled(got)["message"])


async def test_gated_pods_wait_and_default_nodes_carry_the_flavor_label(client: Client) -> None:
    await client.create("pods", pod("a", gates=(GATE,)), NS)
    await asyncio.sleep(0.05)
    assert "nodeName" not in (await client.get("pods", "a", NS))["spec"]
    patch = {"spec": {"schedulingGates": None, "nodeSelector": {"pool": "a"}}}
    await client.patch("pods", "a", patch, NS)
    assert await bound(client, "a") == "node-a"
    got = await client.get("pods", "a", NS)
    assert (scheduled(got)["status"], scheduled(got).get("reason")) == ("True", None)


async def test_foreign_schedulers_are_left_alone(client: Client) -> None:
    await client.create("pods", pod("a", schedulerName="nobody"), NS)
    await asyncio.sleep(0.05)
    assert "nodeName" not in (await client.get("pods", "a", NS))["spec"]


async def test_room_is_never_exceeded_and_freed_room_is_used() -> None:
    node = NodeSettings(name="n", cpu="2", memory="1Gi", pods=10)
    async with (
        SimCluster(Settings(nodes=(node,))) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        for i in range(6):
            await client.create("pods", pod(f"p{i}"), NS)
        assert await refused(client, "p2") == "0/1 nodes are available: 1 Insufficient cpu."
        names = [o["spec"].get("nodeName") for o in cluster.objects("", "pods")]
        assert names == ["n", "n", None, None, None, None]
        await client.patch("pods", "p0", {"status": {"phase": "Succeeded"}}, NS, sub="status")
        assert await bound(client, "p2") == "n"
        await client.delete("pods", "p1", NS, {"gracePeriodSeconds": 0})
        assert await bound(client, "p3") == "n"
        await client.delete("pods", "p4", NS)
        await client.delete("pods", "p2", NS, {"gracePeriodSeconds": 0})
        assert await bound(client, "p5") == "n"


async def test_taints_selectors_and_new_nodes() -> None:
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    nodes = (NodeSettings(name="tainted", taints=(taint,)),)
    async with (
        SimCluster(Settings(nodes=nodes)) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        await client.create("pods", pod("plain"), NS)
        assert "untolerated taint {spot: yes}" in await refused(client, "plain")
        toleration = {"key": "spot", "operator": "Equal", "value": "yes"}
        await client.create("pods", pod("tolerant", tolerations=[toleration]), NS)
        assert await bound(client, "tolerant") == "tainted"
        picky = pod("picky", nodeSelector={"pool": "b"}, tolerations=[toleration])
        await client.create("pods", picky, NS)
        assert "didn't match" in await refused(client, "picky")
        status = {"allocatable": {"cpu": "4", "pods": "10"}}
        node = {"metadata": {"name": "late", "labels": {"pool": "b"}}, "status": status}
        await client.create("nodes", node)
        assert await bound(client, "picky") == "late"
        assert await bound(client, "plain") == "late"


async def test_events_of_the_scheduler_are_recorded_when_wanted() -> None:
    node = NodeSettings(name="n", cpu="1", memory="1Gi", pods=10)
    async with (
        SimCluster(Settings(nodes=(node,), scheduler_events=True)) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        await client.create("pods", pod("a"), NS)
        await client.create("pods", pod("b"), NS)
        await refused(client, "b")
        found = (await client.list("events", NS))["items"]
        told = {(e["involvedObject"]["name"], e["reason"], e["type"]) for e in found}
        assert told == {("a", "Scheduled", "Normal"), ("b", "FailedScheduling", "Warning")}


async def test_pods_spread_over_nodes() -> None:
    nodes = tuple(NodeSettings(name=f"n{i}", labels={"pool": "a"}) for i in range(4))
    async with (
        SimCluster(Settings(nodes=nodes)) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        for i in range(8):
            await client.create("pods", pod(f"p{i}"), NS)
            await bound(client, f"p{i}")
        used = sorted(o["spec"]["nodeName"] for o in cluster.objects("", "pods"))
        assert used == [f"n{i // 2}" for i in range(8)]


async def test_binding_endpoint_refuses_gated_pods(client: Client) -> None:
    await client.create("pods", pod("a", gates=(GATE,)), NS)
    path = f"/api/v1/namespaces/{NS}/pods/a/binding"
    body = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "node-a"}}
    with pytest.raises(ApiFailure, match=r"non-empty \.spec\.schedulingGates") as caught:
        await client.ok("POST", path, body)
    assert caught.value.status == 409


async def test_eviction_is_a_deletion(client: Client) -> None:
    await client.create("pods", pod("a", nodeName="node-a"), NS)
    path = f"/api/v1/namespaces/{NS}/pods/a/eviction"
    await client.ok("POST", path, {"metadata": {"name": "a"}})
    assert "deletionTimestamp" in (await client.get("pods", "a", NS))["metadata"]
