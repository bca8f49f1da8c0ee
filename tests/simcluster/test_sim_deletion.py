"""Deletion: grace, finalizers, preconditions, namespaces, owners."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simcluster.client import ApiFailure, Client
from tests.simcluster.make import config_map, owner, pod, take
from tests.support.standin import SimCluster

NS = "default"
OTHER: dict[str, Any] = {"schedulerName": "nobody"}


async def gone(client: Client, plural: str, name: str) -> None:
    await client.wait(plural, name, NS, until=lambda obj: obj is None, timeout_s=2)


async def test_unbound_pod_goes_in_one_request_with_two_events(client: Client) -> None:
    await client.create("pods", pod("a", **OTHER), NS)
    start = (await client.list("pods", NS))["metadata"]["resourceVersion"]
    await client.delete("pods", "a", NS)
    items = await take(client.watch("pods", NS, resourceVersion=start), 2)
    assert [kind for kind, _ in items] == ["MODIFIED", "DELETED"]
    assert items[0][1]["metadata"]["deletionGracePeriodSeconds"] == 0


async def test_bound_pod_waits_for_its_kubelet(client: Client) -> None:
    await client.create("pods", pod("a", nodeName="node-a", terminationGracePeriodSeconds=7), NS)
    got = await client.delete("pods", "a", NS)
    assert got["metadata"]["deletionGracePeriodSeconds"] == 7
    again = await client.delete("pods", "a", NS)
    assert again["metadata"]["resourceVersion"] == got["metadata"]["resourceVersion"]
    shorter = await client.delete("pods", "a", NS, {"gracePeriodSeconds": 3})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 3
    longer = await client.delete("pods", "a", NS, {"gracePeriodSeconds": 30})
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 3
    await client.delete("pods", "a", NS, {"gracePeriodSeconds": 0})
    await gone(client, "pods", "a")


async def test_terminal_pod_has_no_grace(client: Client) -> None:
    await client.create("pods", pod("a", nodeName="node-a"), NS)
    await client.patch("pods", "a", {"status": {"phase": "Succeeded"}}, NS, sub="status")
    await client.delete("pods", "a", NS)
    await gone(client, "pods", "a")


async def test_finalizers_hold_and_release(client: Client) -> None:
    await client.create("configmaps", config_map("a", finalizers=["x.io/a", "x.io/b"]), NS)
    got = await client.delete("configmaps", "a", NS)
    assert got["metadata"]["deletionGracePeriodSeconds"] == 0
    await client.patch("configmaps", "a", {"metadata": {"finalizers": ["x.io/b"]}}, NS)
    with pytest.raises(ApiFailure, match="no new finalizers can be added"):
        await client.patch("configmaps", "a", {"metadata": {"finalizers": ["x.io/c"]}}, NS)
    await client.patch("configmaps", "a", {"metadata": {"finalizers": None}}, NS)
    await gone(client, "configmaps", "a")


async def test_bound_pod_with_finalizer_survives_its_kubelet(client: Client) -> None:
    await client.create("pods", pod("a", nodeName="node-a", finalizers=["x.io/a"]), NS)
    await client.delete("pods", "a", NS)
    got = await client.patch("pods", "a", {"metadata": {"annotations": {"k": "v"}}}, NS)
    assert got["metadata"]["deletionGracePeriodSeconds"] == 30
    await client.delete("pods", "a", NS, {"gracePeriodSeconds": 0})
    got = await client.get("pods", "a", NS)
    assert got["metadata"]["deletionGracePeriodSeconds"] == 0
    await client.patch("pods", "a", {"metadata": {"finalizers": None}}, NS)
    await gone(client, "pods", "a")


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
async def test_preconditions(client: Client, field: str) -> None:
    made = await client.create("configmaps", config_map("a"), NS)
    with pytest.raises(ApiFailure, match="in the precondition") as caught:
        await client.delete("configmaps", "a", NS, {"preconditions": {field: "1"}})
    assert (caught.value.status, caught.value.reason) == (409, "Conflict")
    right = {field: made["metadata"][field]}
    answer = await client.delete("configmaps", "a", NS, {"preconditions": right})
    assert answer["status"] == "Success"
    assert answer["details"]["uid"] == made["metadata"]["uid"]


async def test_collections_by_selector(client: Client) -> None:
    for i in range(4):
        await client.create("configmaps", config_map(f"c{i}", labels={"n": str(i % 2)}), NS)
    path = f"/api/v1/namespaces/{NS}/configmaps"
    answer = await client.ok("DELETE", path, params={"labelSelector": "n=1"})
    assert [i["metadata"]["name"] for i in answer["items"]] == ["c1", "c3"]
    left = (await client.list("configmaps", NS))["items"]
    assert [i["metadata"]["name"] for i in left] == ["c0", "c2"]


async def test_namespace_takes_its_contents_along(client: Client) -> None:
    await client.create("namespaces", {"metadata": {"name": "team"}})
    await client.create("configmaps", config_map("a"), "team")
    await client.create("configmaps", config_map("held", finalizers=["x.io/a"]), "team")
    got = await client.delete("namespaces", "team")
    assert got["status"]["phase"] == "Terminating"
    with pytest.raises(ApiFailure, match="because it is being terminated") as caught:
        await client.create("configmaps", config_map("late"), "team")
    assert caught.value.status == 403
    await asyncio.sleep(0.05)
    assert (await client.get("namespaces", "team"))["status"]["phase"] == "Terminating"
    await client.patch("configmaps", "held", {"metadata": {"finalizers": None}}, "team")
    await client.wait("namespaces", "team", until=lambda obj: obj is None, timeout_s=2)
    with pytest.raises(ApiFailure, match="not found"):
        await client.create("configmaps", config_map("a"), "team")


async def test_empty_namespace_goes_at_once(client: Client) -> None:
    await client.create("namespaces", {"metadata": {"name": "team"}})
    await client.delete("namespaces", "team")
    await client.wait("namespaces", "team", until=lambda obj: obj is None, timeout_s=2)


def owned(name: str, *owners: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return config_map(name, ownerReferences=list(owners), **meta)


async def test_dependents_go_with_their_last_owner(client: Client) -> None:
    one = await client.create("pods", pod("one", **OTHER), NS)
    two = await client.create("pods", pod("two", **OTHER), NS)
    await client.create("configmaps", owned("c", owner(one), owner(two)), NS)
    await client.delete("pods", "one", NS)
    got = await client.wait(
        "configmaps",
        "c",
        NS,
        until=lambda obj: obj is not None and len(obj["metadata"]["ownerReferences"]) == 1,
        timeout_s=2,
    )
    assert got is not None
    assert got["metadata"]["ownerReferences"][0]["name"] == "two"
    await client.delete("pods", "two", NS)
    await gone(client, "configmaps", "c")


async def test_collection_is_prompt_and_follows_chains(cluster: SimCluster, client: Client) -> None:
    parent = await client.create("configmaps", config_map("c0"), NS)
    for i in range(1, 10):
        parent = await client.create("configmaps", owned(f"c{i}", owner(parent)), NS)
    await client.delete("configmaps", "c0", NS)
    await asyncio.sleep(0.05)
    assert cluster.objects("", "configmaps", NS) == []


async def test_an_owner_that_never_was_is_an_absent_owner(client: Client) -> None:
    parent = await client.create("configmaps", config_map("p"), NS)
    wrong = {**owner(parent), "uid": "00000000-0000-0000-0000-000000000000"}
    await client.create("configmaps", owned("c", wrong), NS)
    await gone(client, "configmaps", "c")


async def test_finalizer_blocks_collection(client: Client) -> None:
    parent = await client.create("configmaps", config_map("p"), NS)
    await client.create("configmaps", owned("c", owner(parent), finalizers=["x.io/a"]), NS)
    await client.delete("configmaps", "p", NS)
    got = await client.wait(
        "configmaps",
        "c",
        NS,
        until=lambda obj: obj is not None and "deletionTimestamp" in obj["metadata"],
        timeout_s=2,
    )
    assert got is not None


async def test_orphan_and_foreground(client: Client) -> None:
    parent = await client.create("configmaps", config_map("p"), NS)
    await client.create("configmaps", owned("c", owner(parent)), NS)
    await client.delete("configmaps", "p", NS, {"propagationPolicy": "Orphan"})
    await gone(client, "configmaps", "p")
    left = await client.get("configmaps", "c", NS)
    assert "ownerReferences" not in left["metadata"]
    parent = await client.create("configmaps", config_map("p"), NS)
    child = owned("d", owner(parent, blockOwnerDeletion=True), finalizers=["x.io/a"])
    await client.create("configmaps", child, NS)
    await client.delete("configmaps", "p", NS, {"propagationPolicy": "Foreground"})
    await asyncio.sleep(0.05)
    assert (
        "foregroundDeletion" in (await client.get("configmaps", "p", NS))["metadata"]["finalizers"]
    )
    await client.patch("configmaps", "d", {"metadata": {"finalizers": None}}, NS)
    await gone(client, "configmaps", "p")
