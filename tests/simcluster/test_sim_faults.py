"""Faults: errors before and after effect, delays, watches, refusal, and their HTTP endpoint."""

from __future__ import annotations

import asyncio
import time

import aiohttp
import pytest

from simcluster.client import ApiFailure, Client
from tests.simcluster.make import brief, config_map, take
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

NS = "default"


@pytest.mark.parametrize(
    ("status", "reason"),
    [(429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable")],
)
async def test_the_next_requests_fail(
    cluster: SimCluster, client: Client, status: int, reason: str
) -> None:
    rule = cluster.faults.answer(status, method="POST", path="/configmaps", count=2)
    for _ in range(2):
        with pytest.raises(ApiFailure) as caught:
            await client.create("configmaps", config_map("a"), NS)
        assert (caught.value.status, caught.value.reason) == (status, reason)
    await client.list("configmaps", NS)
    await client.create("configmaps", config_map("a"), NS)
    assert rule.hits == 2


async def test_retry_after_is_a_header_and_a_detail(cluster: SimCluster, client: Client) -> None:
    cluster.faults.answer(429, count=1, retry_after_s=3)
    status, body, headers = await client.request("GET", "/api/v1/pods")
    assert (status, headers["Retry-After"]) == (429, "3")
    assert body["details"]["retryAfterSeconds"] == 3


async def test_a_write_may_take_effect_although_its_answer_fails(
    cluster: SimCluster, client: Client
) -> None:
    cluster.faults.answer(504, method="POST", count=1, after=True)
    with pytest.raises(ApiFailure):
        await client.create("configmaps", config_map("a"), NS)
    assert (await client.get("configmaps", "a", NS))["data"] == {"k": "v"}


async def test_a_fraction_is_hit_the_same_way_each_time() -> None:
    runs = []
    for _ in range(2):
        async with SimCluster() as cluster, Client(cluster.url, cluster.token) as client:
            cluster.faults.answer(500, fraction=0.3)
            hit = [(await client.request("GET", "/api/v1/pods"))[0] == 500 for _ in range(60)]
            runs.append(hit)
    assert runs[0] == runs[1]
    assert 5 < sum(runs[0]) < 35


async def test_slow_answers(cluster: SimCluster, client: Client) -> None:
    cluster.faults.delay(80, path="/configmaps")
    began = time.monotonic()
    await client.list("configmaps", NS)
    assert time.monotonic() - began >= 0.08
    cluster.faults.delay(20_000, path="/configmaps")
    cluster.faults.clear()
    began = time.monotonic()
    await client.list("configmaps", NS)
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("abrupt", [False, True])
async def test_watches_are_dropped(cluster: SimCluster, client: Client, abrupt: bool) -> None:
    async def follow() -> int:
        return len([item async for item in client.watch("configmaps", NS)])

    task = asyncio.create_task(follow())
    await asyncio.sleep(0.05)
    await client.create("configmaps", config_map("a"), NS)
    await asyncio.sleep(0.05)
    cluster.faults.drop_watches(abrupt=abrupt)
    async with asyncio.timeout(2):
        if abrupt:
            with pytest.raises(aiohttp.ClientError):
                await task
        else:
            assert await task == 1
    async with asyncio.timeout(2):
        while (await client.ok("GET", "/_sim/stats"))["watches"]:
            await asyncio.sleep(0.01)


async def test_stalled_watches_catch_up(cluster: SimCluster, client: Client) -> None:
    task = asyncio.create_task(take(client.watch("configmaps", NS), 2))
    await asyncio.sleep(0.05)
    cluster.faults.stall_watches()
    await client.create("configmaps", config_map("a"), NS)
    await client.create("configmaps", config_map("b"), NS)
    await asyncio.sleep(0.1)
    assert not task.done()
    cluster.faults.stall_watches(False)
    assert brief(await task) == [("ADDED", "a"), ("ADDED", "b")]


async def test_connections_are_refused_for_a_while(cluster: SimCluster, client: Client) -> None:
    await client.create("configmaps", config_map("a"), NS)
    address = cluster.url
    cluster.faults.refuse(0.2)
    await asyncio.sleep(0.05)
    with pytest.raises(aiohttp.ClientError):
        await client.get("configmaps", "a", NS)
    await asyncio.sleep(0.3)
    assert cluster.url == address
    assert (await client.get("configmaps", "a", NS))["data"] == {"k": "v"}


async def test_the_endpoint_does_what_the_object_does(client: Client) -> None:
    rule = {"status": 503, "method": "GET", "path": "/pods", "count": 1}
    await client.ok("POST", "/_sim/faults", {"rules": [rule]})
    with pytest.raises(ApiFailure):
        await client.list("pods", NS)
    await client.list("pods", NS)
    shown = await client.ok("GET", "/_sim/faults")
    assert shown[0]["hits"] == 1
    start = (await client.list("configmaps", NS))["metadata"]["resourceVersion"]
    await client.create("configmaps", config_map("a"), NS)
    await client.ok("POST", "/_sim/faults", {"compact": True, "clear": True})
    assert (await take(client.watch("configmaps", NS, resourceVersion=start), 1))[0][0] == "ERROR"
    status, body, _ = await client.request("POST", "/_sim/faults", {"nonsense": 1})
    assert status == 400
    assert "nonsense" in body["message"]
    status, _, _ = await client.request(
        "POST", "/_sim/faults", {}, headers={"Authorization": "Bearer wrong"}
    )
    assert status == 401


async def test_statistics_count_by_verb_resource_and_status(client: Client) -> None:
    await client.create("configmaps", config_map("a"), NS)
    with pytest.raises(ApiFailure):
        await client.get("configmaps", "b", NS)
    found = (await client.ok("GET", "/_sim/stats"))["requests"]
    counts = {(r["verb"], r["resource"], r["status"]): r["count"] for r in found}
    assert counts["create", "configmaps", 201] == 1
    assert counts["get", "configmaps", 404] == 1
