"""In-place resize and pods that take their time to stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simcluster import Settings
from simcluster.client import ApiFailure, Client
from tests.simcluster.make import pod

NS = "default"


@pytest.fixture
def settings() -> Settings:
    return Settings(kubelet="scripted", kubelet_termination_s=0.02)


def asks(cpu: str, **more: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}, **more}}
    return {"spec": {"containers": [container]}}


async def running(client: Client, name: str) -> dict[str, Any]:
    got = await client.wait(
        "pods", name, NS, until=lambda p: p is not None and p["status"]["phase"] == "Running"
    )
    assert got is not None
    return got


async def test_a_resize_changes_spec_at_once_and_status_when_the_kubelet_has_done_it(
    client: Client,
) -> None:
    await client.create("pods", pod("a", cpu="10m"), NS)
    before = await running(client, "a")
    assert before["status"]["containerStatuses"][0]["allocatedResources"] == {"cpu": "10m"}
    kind = "application/strategic-merge-patch+json"
    got = await client.patch("pods", "a", asks("39"), NS, sub="resize", kind=kind)
    assert got["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "39"}}
    assert got["spec"]["containers"][0]["image"] == "x"
    assert got["metadata"]["generation"] == before["metadata"]["generation"] + 1

    def granted(p: dict[str, Any] | None) -> bool:
        assert p is not None
        one = p["status"]["containerStatuses"][0]
        return bool(one["allocatedResources"] == {"cpu": "39"} == one["resources"]["requests"])

    await client.wait("pods", "a", NS, until=granted)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (asks("1", limits={"cpu": "1", "memory": "1Gi"}), "QOS Class may not change"),
        (
            {
                "spec": {
                    "containers": [
                        {"name": "c", "resources": {"requests": {"cpu": "1", "gpu": "1"}}}
                    ]
                }
            },
            "only cpu and memory",
        ),
    ],
)
async def test_resizes_that_are_refused(client: Client, body: dict[str, Any], why: str) -> None:
    first = pod("a", cpu="1")
    first["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "1Gi"},
    }
    await client.create("pods", first, NS)
    with pytest.raises(ApiFailure, match=why):
        await client.patch(
            "pods",
            "a",
            body,
            NS,
            sub="resize",
            kind="application/strategic-merge-patch+json",
        )


async def test_a_pod_that_lingers_runs_until_its_grace_is_over(client: Client) -> None:
    body = pod("a", annotations={"simcluster/script": "run=forever,linger=forever"})
    await client.create("pods", body, NS)
    await running(client, "a")
    await client.delete("pods", "a", NS, options={"gracePeriodSeconds": 86400})
    await asyncio.sleep(0.1)
    assert (await client.get("pods", "a", NS))["status"]["phase"] == "Running"
    await client.delete("pods", "a", NS, options={"gracePeriodSeconds": 1})
    await client.wait("pods", "a", NS, until=lambda p: p is None)
