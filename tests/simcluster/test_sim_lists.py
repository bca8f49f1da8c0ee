"""Lists: pages of one snapshot, expired tokens, selectors, versions."""

from __future__ import annotations

import base64
import json

import pytest

from simcluster.client import ApiFailure, Client
from tests.simcluster.make import config_map
from tests.support.standin import SimCluster

NS = "default"


async def fill(client: Client, count: int, namespace: str = NS) -> None:
    for i in range(count):
        await client.create(
            "configmaps", config_map(f"c{i:02}", labels={"n": str(i % 3)}), namespace
        )


async def test_pages_are_one_snapshot_while_objects_change(client: Client) -> None:
    await fill(client, 10)
    page = await client.list("configmaps", NS, limit="4")
    assert page["metadata"]["remainingItemCount"] == 6
    await client.delete("configmaps", "c05", NS)
    await client.create("configmaps", config_map("c055"), NS)
    await client.patch("configmaps", "c06", {"data": {"k": "new"}}, NS)
    items, versions = page["items"], {page["metadata"]["resourceVersion"]}
    while token := page["metadata"].get("continue"):
        page = await client.list("configmaps", NS, **{"limit": "4", "continue": token})
        versions.add(page["metadata"]["resourceVersion"])
        items += page["items"]
    assert [i["metadata"]["name"] for i in items] == [f"c{i:02}" for i in range(10)]
    assert items[6]["data"] == {"k": "v"}
    assert len(versions) == 1


async def test_a_snapshot_is_rebuilt_from_history(cluster: SimCluster, client: Client) -> None:
    """Exact asks for a version nobody listed: the present is undone change by change."""
    await fill(client, 3)
    version = (await client.get("configmaps", "c01", NS))["metadata"]["resourceVersion"]
    await client.delete("configmaps", "c00", NS)
    await client.patch("configmaps", "c01", {"data": {"k": "new"}}, NS)
    found = await client.list(
        "configmaps", NS, resourceVersion=version, resourceVersionMatch="Exact"
    )
    assert [i["metadata"]["name"] for i in found["items"]] == ["c00", "c01"]
    assert found["items"][1]["data"] == {"k": "v"}


async def test_an_expired_token_says_how_to_go_on(cluster: SimCluster, client: Client) -> None:
    await fill(client, 6)
    token = (await client.list("configmaps", NS, limit="2"))["metadata"]["continue"]
    await client.create("configmaps", config_map("z"), NS)
    cluster.compact()
    with pytest.raises(ApiFailure, match="continue parameter is too old") as caught:
        await client.list("configmaps", NS, **{"limit": "2", "continue": token})
    assert (caught.value.status, caught.value.reason) == (410, "Expired")
    again = caught.value.body["metadata"]["continue"]
    rest = await client.list("configmaps", NS, **{"continue": again})
    assert [i["metadata"]["name"] for i in rest["items"]] == ["c02", "c03", "c04", "c05", "z"]


async def test_continue_token_names_version_and_key(client: Client) -> None:
    await fill(client, 3)
    page = await client.list("configmaps", NS, limit="2")
    token = page["metadata"]["continue"]
    plain = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert plain["v"] == "meta.k8s.io/v1"
    assert plain["rv"] == int(page["metadata"]["resourceVersion"])
    assert "c01" in plain["start"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("n=1", "c01 c04"),
        ("n!=1", "c00 c02 c03 c05"),
        ("n in (0,2)", "c00 c02 c03 c05"),
        ("n notin (0, 2)", "c01 c04"),
        ("n", "c00 c01 c02 c03 c04 c05"),
        ("!n", ""),
        ("n in (0,1),n!=0", "c01 c04"),
        ("n>1", "c02 c05"),
    ],
)
async def test_label_selectors(client: Client, selector: str, names: str) -> None:
    await fill(client, 6)
    found = await client.list("configmaps", NS, labelSelector=selector)
    assert [i["metadata"]["name"] for i in found["items"]] == names.split()


async def test_selected_pages_carry_no_count(client: Client) -> None:
    await fill(client, 9)
    page = await client.list("configmaps", NS, labelSelector="n=1", limit="2")
    assert [i["metadata"]["name"] for i in page["items"]] == ["c01", "c04"]
    assert "remainingItemCount" not in page["metadata"]
    rest = await client.list(
        "configmaps", NS, labelSelector="n=1", **{"continue": page["metadata"]["continue"]}
    )
    assert [i["metadata"]["name"] for i in rest["items"]] == ["c07"]


async def test_all_namespaces_and_field_selectors(client: Client) -> None:
    await fill(client, 1)
    await fill(client, 1, "kube-public")
    found = await client.list("configmaps")
    spaces = [i["metadata"]["namespace"] for i in found["items"]]
    assert spaces == ["default", "kube-public"]
    one = await client.list("configmaps", fieldSelector="metadata.namespace!=default")
    assert [i["metadata"]["namespace"] for i in one["items"]] == ["kube-public"]
    with pytest.raises(ApiFailure, match=r"field label not supported: spec\.nodeName"):
        await client.list("configmaps", fieldSelector="spec.nodeName=x")


async def test_a_version_of_the_future_is_504_and_a_past_one_is_the_present(
    client: Client,
) -> None:
    await fill(client, 1)
    with pytest.raises(ApiFailure, match="Too large resource version: 9999999") as caught:
        await client.list("configmaps", NS, resourceVersion="9999999")
    assert caught.value.status == 504
    found = await client.list("configmaps", NS, resourceVersion="1")
    assert len(found["items"]) == 1


async def test_match_needs_a_version(client: Client) -> None:
    with pytest.raises(ApiFailure, match="forbidden unless resourceVersion") as caught:
        await client.list("configmaps", NS, resourceVersionMatch="Exact")
    assert caught.value.status == 422
