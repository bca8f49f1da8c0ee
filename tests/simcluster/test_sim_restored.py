"""Versions that the store has not reached, and a store that is put back to a backup."""

from __future__ import annotations

import asyncio

import pytest

from simcluster import Settings
from simcluster.client import ApiFailure, Client
from tests.simcluster.make import brief, config_map, take
from tests.support.standin import SimCluster

NS = "default"


@pytest.fixture
async def quick() -> SimCluster:
    settings = Settings(
        future_version_wait_s=0.2, bookmark_interval_s=0.05, bookmark_before_timeout_s=0.0
    )
    async with SimCluster(settings) as cluster:
        yield cluster


@pytest.fixture
async def client(quick: SimCluster) -> Client:
    async with Client(quick.url, quick.token) as one:
        yield one


async def test_a_watch_from_the_future_is_silent_until_it_is_reached(
    quick: SimCluster, client: Client
) -> None:
    future = quick.store.version + 3
    watch = client.watch("configmaps", NS, resourceVersion=str(future), allowWatchBookmarks="true")
    taking = asyncio.create_task(take(watch, 2))
    for name in ("a", "b"):
        await client.create("configmaps", config_map(name), NS)
    await asyncio.sleep(0.3)
    # Nothing of what came before, and no bookmark that would say less than what was asked for.
    assert not taking.done()
    await client.create("configmaps", config_map("reaches-it"), NS)
    await client.create("configmaps", config_map("beyond"), NS)
    items = await taking
    assert {kind for kind, _ in items} <= {"ADDED", "BOOKMARK"}
    assert all(int(o["metadata"]["resourceVersion"]) >= future for _, o in items)
    assert [o["metadata"].get("name") for kind, o in items if kind == "ADDED"] in ([], ["beyond"])


@pytest.mark.parametrize("match", ["", "NotOlderThan", "Exact"])
async def test_a_list_of_the_future_is_a_timeout(
    match: str, quick: SimCluster, client: Client
) -> None:
    future = str(quick.store.version + 100)
    asked = {"resourceVersion": future} | ({"resourceVersionMatch": match} if match else {})
    with pytest.raises(ApiFailure) as failure:
        await client.list("configmaps", NS, **asked)
    assert failure.value.status == 504
    assert "Too large resource version" in str(failure.value)


async def test_a_restore_brings_objects_back_at_their_versions_and_versions_come_again(
    quick: SimCluster, client: Client
) -> None:
    kept = await client.create("configmaps", config_map("kept"), NS)
    doomed = await client.create("configmaps", config_map("doomed"), NS)
    backup, saved = quick.backup(), quick.store.version
    start = str(saved)
    watch = asyncio.create_task(take(client.watch("configmaps", NS, resourceVersion=start), 99))
    await client.delete("configmaps", "doomed", NS)
    await client.patch("configmaps", "kept", {"data": {"k": "later"}}, NS)
    new = await client.create("configmaps", config_map("never"), NS)
    quick.restore(backup)
    await asyncio.wait([watch])
    found = (await client.list("configmaps", NS))["items"]
    assert [(o["metadata"]["name"], o["metadata"]["resourceVersion"]) for o in found] == [
        (o["metadata"]["name"], o["metadata"]["resourceVersion"]) for o in (doomed, kept)
    ]
    assert {o["metadata"]["uid"] for o in found} == {o["metadata"]["uid"] for o in (kept, doomed)}
    for name in ("x", "y", "z"):
        again = await client.create("configmaps", config_map(name), NS)
    assert again["metadata"]["resourceVersion"] == new["metadata"]["resourceVersion"]
    assert again["metadata"]["uid"] != new["metadata"]["uid"]
    # What was before the API server's restart is no history: 410, as its new watch cache says.
    old = await take(client.watch("configmaps", NS, resourceVersion=str(saved - 1)), 1)
    assert old[0][0] == "ERROR" and old[0][1]["code"] == 410


async def test_a_bumped_restore_goes_on_far_ahead(quick: SimCluster, client: Client) -> None:
    await client.create("configmaps", config_map("kept"), NS)
    backup = quick.backup()
    quick.restore(backup, bump=1_000_000_000)
    listed = await client.list("configmaps", NS)
    assert int(listed["metadata"]["resourceVersion"]) == backup.version + 1_000_000_000
    assert int(listed["items"][0]["metadata"]["resourceVersion"]) <= backup.version
    watch = client.watch("configmaps", NS, resourceVersion=str(backup.version))
    assert brief(await take(watch, 1))[0][0] == "ERROR"


async def test_scheduler_and_kubelet_go_on_with_what_is_restored(tmp_path) -> None:
    async with (
        SimCluster(Settings(kubelet="scripted")) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        body = {
            "metadata": {"name": "p", "annotations": {"sim.gatelog.io/script": "run=forever"}},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
        }
        backup = cluster.backup()
        await client.create("pods", body, NS)
        cluster.restore(backup)
        assert (await client.list("pods", NS))["items"] == []
        await client.create("pods", body, NS)

        async def running() -> bool:
            return (await client.get("pods", "p", NS))["status"].get("phase") == "Running"

        async with asyncio.timeout(10):
            while not await running():
                await asyncio.sleep(0.02)
