"""Watches: order, selectors, bookmarks, WatchList, lost history, time-outs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simcluster import Settings, WatchListMode
from simcluster.client import ApiFailure, Client
from tests.simcluster.make import brief, config_map, take
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

NS = "default"


async def test_changes_arrive_in_version_order_once(client: Client) -> None:
    start = (await client.list("configmaps", NS))["metadata"]["resourceVersion"]
    for i in range(50):
        await client.create("configmaps", config_map(f"c{i}"), NS)
        await client.patch("configmaps", f"c{i}", {"data": {"k": "w"}}, NS)
        if i % 2:
            await client.delete("configmaps", f"c{i}", NS)
    items = await take(client.watch("configmaps", NS, resourceVersion=start), 125)
    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in items]
    assert versions == sorted(set(versions))
    alive: dict[str, Any] = {}
    for kind, obj in items:
        name = obj["metadata"]["name"]
        assert (kind == "ADDED") == (name not in alive)
        alive[name] = obj
        if kind == "DELETED":
            del alive[name]
    listed = (await client.list("configmaps", NS))["items"]
    assert {o["metadata"]["name"] for o in listed} == alive.keys()


async def test_live_changes_reach_several_watchers(client: Client) -> None:
    async def follow(namespace: str) -> list[tuple[str, str]]:
        watch = client.watch("configmaps", namespace, resourceVersion=start)
        return brief(await take(watch, 2))

    start = (await client.list("configmaps"))["metadata"]["resourceVersion"]
    watchers = [asyncio.create_task(follow(space)) for space in ("", NS, NS)]
    await asyncio.sleep(0.05)
    await client.create("configmaps", config_map("elsewhere"), "kube-public")
    await client.create("configmaps", config_map("here"), NS)
    await client.create("configmaps", config_map("again"), NS)
    everywhere, *inside = await asyncio.gather(*watchers)
    assert everywhere == [("ADDED", "elsewhere"), ("ADDED", "here")]
    assert inside == [[("ADDED", "here"), ("ADDED", "again")]] * 2


async def test_selector_turns_changes_into_additions_and_deletions(client: Client) -> None:
    start = (await client.list("configmaps", NS))["metadata"]["resourceVersion"]
    await client.create("configmaps", config_map("a", labels={"on": "1"}), NS)
    await client.patch("configmaps", "a", {"metadata": {"labels": {"on": "2"}}}, NS)
    await client.patch("configmaps", "a", {"data": {"k": "unseen"}}, NS)
    await client.patch("configmaps", "a", {"metadata": {"labels": {"on": "1"}}}, NS)
    await client.delete("configmaps", "a", NS)
    watch = client.watch("configmaps", NS, resourceVersion=start, labelSelector="on=1")
    items = await take(watch, 4)
    assert [kind for kind, _ in items] == ["ADDED", "DELETED", "ADDED", "DELETED"]
    assert all(obj["metadata"]["labels"] == {"on": "1"} for _, obj in items)


async def test_without_a_version_the_present_comes_first(client: Client) -> None:
    await client.create("configmaps", config_map("b"), NS)
    await client.create("configmaps", config_map("a"), NS)
    watch = client.watch("configmaps", NS)
    assert brief(await take(watch, 2)) == [("ADDED", "a"), ("ADDED", "b")]


async def test_compaction_is_410_and_ends_the_watch(cluster: SimCluster, client: Client) -> None:
    start = (await client.list("configmaps", NS))["metadata"]["resourceVersion"]
    await client.create("configmaps", config_map("a"), NS)
    cluster.compact()
    items = [item async for item in client.watch("configmaps", NS, resourceVersion=start)]
    assert len(items) == 1
    kind, status = items[0]
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"].startswith(f"too old resource version: {start} (")
    now = (await client.list("configmaps", NS))["metadata"]["resourceVersion"]
    await client.create("configmaps", config_map("b"), NS)
    watch = client.watch("configmaps", NS, resourceVersion=now)
    assert brief(await take(watch, 1)) == [("ADDED", "b")]


async def test_history_is_bounded_by_count() -> None:
    async with (
        SimCluster(Settings(history=10)) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        start = int((await client.list("configmaps", NS))["metadata"]["resourceVersion"])
        for i in range(12):
            await client.create("configmaps", config_map(f"c{i}"), NS)
        old = client.watch("configmaps", NS, resourceVersion=str(start + 1))
        assert (await take(old, 1))[0][0] == "ERROR"
        kept = client.watch("configmaps", NS, resourceVersion=str(start + 2))
        assert brief(await take(kept, 10))[0] == ("ADDED", "c2")


async def test_bookmarks_come_and_are_safe_to_resume_from() -> None:
    settings = Settings(bookmark_interval_s=0.05)
    async with (
        SimCluster(settings) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        start = (await client.list("configmaps", NS))["metadata"]["resourceVersion"]
        watch = client.watch("configmaps", NS, resourceVersion=start, allowWatchBookmarks="true")
        await client.create("secrets", config_map("other"), NS)
        kind, bookmark = (await take(watch, 1))[0]
        assert kind == "BOOKMARK"
        assert bookmark["metadata"].keys() == {"resourceVersion"}
        version = bookmark["metadata"]["resourceVersion"]
        assert int(version) > int(start)
        await client.create("configmaps", config_map("a"), NS)
        resumed = client.watch("configmaps", NS, resourceVersion=version)
        assert brief(await take(resumed, 1)) == [("ADDED", "a")]


async def test_no_bookmarks_unless_asked_for() -> None:
    settings = Settings(bookmark_interval_s=0.02)
    async with (
        SimCluster(settings) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        watch = client.watch("configmaps", NS, timeoutSeconds="1")
        assert [item async for item in watch] == []


async def test_time_out_ends_cleanly_with_a_bookmark_before(client: Client) -> None:
    watch = client.watch("configmaps", NS, timeoutSeconds="1", allowWatchBookmarks="true")
    async with asyncio.timeout(3):
        items = [item async for item in watch]
    # The end of the initial events, of which there are none, and the one before the time-out.
    assert [kind for kind, _ in items] == ["BOOKMARK", "BOOKMARK"]


async def test_watch_list_ends_its_initial_events(client: Client) -> None:
    await client.create("configmaps", config_map("a"), NS)
    watch = client.watch(
        "configmaps",
        NS,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    items = await take(watch, 2)
    assert [kind for kind, _ in items] == ["ADDED", "BOOKMARK"]
    marks = items[1][1]["metadata"]["annotations"]
    assert marks == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize("mode", [WatchListMode.FORBIDDEN, WatchListMode.IGNORED])
async def test_servers_without_watch_list(mode: WatchListMode) -> None:
    async with (
        SimCluster(Settings(watch_list=mode)) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        await client.create("configmaps", config_map("a"), NS)
        watch = client.watch(
            "configmaps",
            NS,
            sendInitialEvents="true",
            resourceVersionMatch="NotOlderThan",
            allowWatchBookmarks="true",
            timeoutSeconds="1",
        )
        if mode is WatchListMode.FORBIDDEN:
            with pytest.raises(ApiFailure, match="WatchList feature gate") as caught:
                await take(watch, 1)
            assert caught.value.status == 422
        else:
            items = [item async for item in watch]
            assert not any("annotations" in obj["metadata"] for _, obj in items)
            assert items[0][0] == "ADDED"


async def test_a_deletion_is_seen_by_a_field_selector(client: Client) -> None:
    await client.create("configmaps", config_map("a"), NS)
    watch = client.watch("configmaps", NS, fieldSelector="metadata.name=a")
    assert (await take(watch, 1))[0][0] == "ADDED"
    await client.create("configmaps", config_map("b"), NS)
    await client.delete("configmaps", "a", NS)
    watch = client.watch("configmaps", NS, fieldSelector="metadata.name=a", resourceVersion="1")
    assert brief(await take(watch, 2)) == [("ADDED", "a"), ("DELETED", "a")]
