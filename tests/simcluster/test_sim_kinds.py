"""Custom kinds, discovery, switches, and the process form."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio import client as kclient
from kubernetes_asyncio import config as kconfig
from kubernetes_asyncio import watch as kwatch

from simcluster import Settings
from simcluster.client import ApiFailure, Client
from tests.simcluster.make import GATE, pod, take
from tests.support.standin import SimCluster

NS = "default"
WIDGETS = "widgets.x.io/v1"


def definition(**version: Any) -> dict[str, Any]:
    spec = {
        "type": "object",
        "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1},
            "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
        },
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    served = {"name": "v1", "served": True, "storage": True, "schema": schema, **version}
    names = {"plural": "widgets", "kind": "Widget", "singular": "widget"}
    body = {"group": "x.io", "names": names, "scope": "Namespaced", "versions": [served]}
    return {"metadata": {"name": "widgets.x.io"}, "spec": body}


CRDS = "customresourcedefinitions.apiextensions.k8s.io/v1"


def widget(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "w"}, "spec": spec}


async def test_a_definition_serves_its_kind_at_once_and_takes_it_away(client: Client) -> None:
    with pytest.raises(ApiFailure, match="404 page not found"):
        await client.list(WIDGETS, NS)
    made = await client.create(CRDS, definition())
    assert ("Established", "True") in [
        (c["type"], c["status"]) for c in made["status"]["conditions"]
    ]
    got = await client.create(WIDGETS, widget(size=1), NS)
    assert got["spec"] == {"size": 1, "color": "red"}
    assert got["kind"] == "Widget"
    groups = await client.ok("GET", "/apis")
    assert "x.io" in [g["name"] for g in groups["groups"]]
    await client.delete(CRDS, "widgets.x.io")
    with pytest.raises(ApiFailure, match="404 page not found"):
        await client.get(WIDGETS, "w", NS)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"size": "big"}, "must be of type integer"),
        ({"size": 0}, "greater than or equal to 1"),
        ({}, "spec.size: Required value"),
        ({"size": 1, "color": "green"}, "Unsupported value"),
    ],
)
async def test_schemas_are_enforced(client: Client, spec: dict[str, Any], message: str) -> None:
    await client.create(CRDS, definition())
    with pytest.raises(ApiFailure, match=message) as caught:
        await client.create(WIDGETS, widget(**spec), NS)
    assert caught.value.status == 422


async def test_unknown_fields_are_pruned_warned_of_or_refused(client: Client) -> None:
    await client.create(CRDS, definition())
    path = f"/apis/x.io/v1/namespaces/{NS}/widgets"
    status, got, headers = await client.request("POST", path, widget(size=1, extra=2))
    assert (status, "extra" in got["spec"]) == (201, False)
    assert headers["Warning"] == '299 - "unknown field \\"spec.extra\\""'
    params = {"fieldValidation": "Strict"}
    body = {"metadata": {"name": "v"}, "spec": {"size": 1, "extra": 2}}
    status, got, _ = await client.request("POST", path, body, params=params)
    assert (status, got["reason"]) == (400, "BadRequest")


async def test_status_subresource_only_when_defined(client: Client) -> None:
    await client.create(CRDS, definition())
    await client.create(WIDGETS, widget(size=1), NS)
    with pytest.raises(ApiFailure, match="404"):
        await client.patch(WIDGETS, "w", {"status": {}}, NS, sub="status")


async def test_without_kueue() -> None:
    async with (
        SimCluster(Settings(kueue_kinds=False)) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        status, text, headers = await client.request("GET", "/apis/kueue.x-k8s.io/v1beta2")
        assert (status, text) == (404, "404 page not found\n")
        assert headers["Content-Type"] == "text/plain; charset=utf-8"
        with pytest.raises(ApiFailure, match="404 page not found"):
            await client.list("workloads.kueue.x-k8s.io/v1beta2")


async def test_two_versions_of_one_kind() -> None:
    settings = Settings(kueue_versions=("v1beta2", "v1beta1"))
    async with (
        SimCluster(settings) as cluster,
        Client(cluster.url, cluster.token) as client,
    ):
        work = {"metadata": {"name": "w"}, "spec": {"podSets": [], "queueName": "q"}}
        old, new = (f"workloads.kueue.x-k8s.io/{v}" for v in ("v1beta1", "v1beta2"))
        made = await client.create(old, work, NS)
        assert made["apiVersion"] == "kueue.x-k8s.io/v1beta1"
        assert (await client.get(new, "w", NS))["apiVersion"] == "kueue.x-k8s.io/v1beta2"
        assert (await client.list(old, NS))["items"][0]["apiVersion"].endswith("v1beta1")
        kind, obj = (await take(client.watch(old, NS), 1))[0]
        assert (kind, obj["apiVersion"]) == ("ADDED", "kueue.x-k8s.io/v1beta1")
        got = await client.patch(old, "w", {"spec": {"active": False}}, NS)
        assert (got["apiVersion"], got["metadata"]["generation"]) == (
            "kueue.x-k8s.io/v1beta1",
            2,
        )


async def test_health_needs_no_token(client: Client) -> None:
    for path in ("/healthz", "/readyz", "/livez"):
        status, text, _ = await client.request("GET", path, headers={"Authorization": ""})
        assert (status, text) == (200, "ok")


async def test_wrong_methods_and_paths(client: Client) -> None:
    for method, path, wanted in (
        ("PUT", "/api/v1/namespaces/default/pods", 405),
        ("POST", "/api/v1/namespaces/default/pods/a", 405),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/apis/apps/v1/namespaces/default/pods", 404),
        ("GET", "/nothing", 404),
    ):
        status, _, _ = await client.request(method, path, {})
        assert (method, path, status) == (method, path, wanted)


async def test_an_ordinary_client_library_works(cluster: SimCluster, tmp_path: Path) -> None:
    path = cluster.kubeconfig(tmp_path / "kubeconfig")
    assert path.stat().st_mode & 0o077 == 0
    await kconfig.load_kube_config(config_file=str(path))
    async with kclient.ApiClient() as api:
        v1 = kclient.CoreV1Api(api)
        made = await v1.create_namespaced_pod(NS, pod("a", gates=(GATE,)))  # type: ignore[arg-type] # dicts do
        listed = await v1.list_namespaced_pod(NS)
        assert [p.metadata.name for p in listed.items] == ["a"]
        watching = kwatch.Watch()
        start = listed.metadata.resource_version
        await v1.delete_namespaced_pod("a", NS)
        async for event in watching.stream(
            v1.list_namespaced_pod, NS, resource_version=start, timeout_seconds=2
        ):
            assert event["object"].metadata.uid == made.metadata.uid
            if event["type"] == "DELETED":
                break
        await watching.close()


async def test_as_a_process(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.support.standin",
        "--token",
        "secret",
        "--kubeconfig",
        str(config),
        "--kubelet",
        "scripted",
        "--script",
        "run=0s,succeed",
        "--nodes",
        "2",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            line = json.loads(await process.stdout.readline())
        user = json.loads(config.read_text())["users"][0]["user"]
        assert user == {"token": "secret"}
        async with Client(line["url"], "secret") as client:
            assert len((await client.list("nodes"))["items"]) == 2
            await client.create("pods", pod("a"), NS)
            await client.wait(
                "pods",
                "a",
                NS,
                until=lambda p: p is not None and p["status"]["phase"] == "Succeeded",
            )
            watching = asyncio.create_task(take(client.watch("pods", NS), 99))
            await asyncio.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(10):
                assert await process.wait() == 0
                await watching
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
