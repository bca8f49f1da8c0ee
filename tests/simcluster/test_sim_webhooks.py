"""Admission webhooks over HTTPS: matching, patches, refusals, failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simcluster.client import STRATEGIC, ApiFailure, Client
from tests.deploy.compose import free_port
from tests.simcluster.make import GATE, config_map, pod
from tests.simcluster.webhook import Authority, json_patch, serving
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

NS = "default"
GROUP = "admissionregistration.k8s.io/v1"
REGATE = [{"op": "add", "path": "/spec/schedulingGates", "value": [{"name": GATE}]}]


@pytest.fixture
def authority() -> Authority:
    return Authority()


async def register(
    client: Client, bundle: str, address: str, kind: str = "mutating", **hook: Any
) -> None:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
        "operations": hook.pop("operations", ["CREATE"]),
    }
    config = {"url": f"https://{address}/hook", "caBundle": bundle}
    found = {
        "name": f"{kind}.x.io",
        "clientConfig": config,
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
        **hook,
    }
    plural = f"{kind}webhookconfigurations.{GROUP}"
    await client.create(plural, {"metadata": {"name": kind}, "webhooks": [found]})


async def allow(_: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


async def test_a_patch_gates_the_pod_and_leaves_no_owner(
    client: Client, authority: Authority
) -> None:
    seen: list[dict[str, Any]] = []

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        seen.append(request)
        return {**json_patch(REGATE), "warnings": ["gated by gatelog"]}

    async with serving(authority, answer) as address:
        await register(client, authority.bundle, address)
        path = f"/api/v1/namespaces/{NS}/pods"
        status, got, headers = await client.request("POST", path, pod("a"))
    assert status == 201
    assert got["spec"]["schedulingGates"] == [{"name": GATE}]
    assert got["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert "schedulingGates" not in str(got["metadata"]["managedFields"])
    assert headers["Warning"] == '299 - "gated by gatelog"'
    (request,) = seen
    assert (request["operation"], request["name"], request["namespace"]) == ("CREATE", "a", NS)
    assert request["oldObject"] is None
    assert "uid" not in request["object"]["metadata"]
    assert request["object"]["status"] == {}
    assert request["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}


async def test_a_refusal_in_the_servers_words(client: Client, authority: Authority) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        assert request["object"]["metadata"]["uid"]
        status = {"code": 403, "reason": "Forbidden", "message": "no total count"}
        return {"allowed": False, "status": status}

    async with serving(authority, answer) as address:
        await register(client, authority.bundle, address, "validating")
        with pytest.raises(ApiFailure) as caught:
            await client.create("pods", pod("a"), NS)
    text = 'admission webhook "validating.x.io" denied the request: no total count'
    assert caught.value.body["message"] == text
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    assert "details" not in caught.value.body


async def test_a_refusal_without_words(client: Client, authority: Authority) -> None:
    async def answer(_: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": False}

    async with serving(authority, answer) as address:
        await register(client, authority.bundle, address, "validating")
        with pytest.raises(ApiFailure, match="denied the request without explanation") as caught:
            await client.create("pods", pod("a"), NS)
    assert caught.value.status == 400


@pytest.mark.parametrize(("policy", "status"), [("Fail", 500), ("Ignore", 201)])
async def test_nobody_listens(
    client: Client, authority: Authority, policy: str, status: int
) -> None:
    address = f"127.0.0.1:{free_port()}"
    await register(client, authority.bundle, address, failurePolicy=policy)
    got, body, _ = await client.request("POST", f"/api/v1/namespaces/{NS}/pods", pod("a"))
    assert got == status
    if policy == "Fail":
        assert body["reason"] == "InternalError"
        assert body["message"] == (
            'Internal error occurred: failed calling webhook "mutating.x.io": failed to call '
            f'webhook: Post "https://{address}/hook?timeout=1s": dial tcp {address}: connect: '
            "connection refused"
        )


async def test_another_authority_is_not_trusted(client: Client, authority: Authority) -> None:
    stranger = Authority()
    async with serving(authority, allow) as address:
        await register(client, stranger.bundle, address)
        with pytest.raises(ApiFailure, match="failed to verify certificate: x509") as caught:
            await client.create("pods", pod("a"), NS)
    assert caught.value.status == 500


async def test_a_slow_webhook_runs_into_its_deadline(client: Client, authority: Authority) -> None:
    async def answer(_: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(1.3)
        return {"allowed": True}

    async with serving(authority, answer) as address:
        await register(client, authority.bundle, address)
        with pytest.raises(ApiFailure, match="context deadline exceeded"):
            await client.create("pods", pod("a"), NS)


async def test_a_service_is_found_through_the_map(
    cluster: SimCluster, client: Client, authority: Authority
) -> None:
    service = {"name": "hook", "namespace": "tests", "path": "/hook"}
    config = {"service": service, "caBundle": authority.bundle}
    async with serving(authority, allow) as address:
        await register(client, authority.bundle, "-", clientConfig=config)
        with pytest.raises(ApiFailure, match='service "hook" not found'):
            await client.create("pods", pod("a"), NS)
        cluster.webhook_services["tests/hook"] = address
        await client.create("pods", pod("a"), NS)
        cluster.webhook_services["tests/wrong"] = address
        service["name"] = "wrong"
        patch = {"webhooks": [{"name": "mutating.x.io", "clientConfig": config}]}
        plural = f"mutatingwebhookconfigurations.{GROUP}"
        await client.patch(plural, "mutating", patch, kind=STRATEGIC)
        with pytest.raises(ApiFailure, match="failed to verify certificate"):
            await client.create("pods", pod("b"), NS)


async def test_selectors_decide_who_is_asked(client: Client, authority: Authority) -> None:
    asked: list[str] = []

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request["object"]["metadata"]["name"])
        return {"allowed": True}

    name = "kubernetes.io/metadata.name"
    async with serving(authority, answer) as address:
        await register(
            client,
            authority.bundle,
            address,
            namespaceSelector={
                "matchExpressions": [{"key": name, "operator": "NotIn", "values": ["kube-system"]}]
            },
            objectSelector={"matchLabels": {"queue": "q"}},
        )
        await client.create("pods", pod("plain"), NS)
        await client.create("pods", pod("system", labels={"queue": "q"}), "kube-system")
        await client.create("pods", pod("mine", labels={"queue": "q"}), NS)
        await client.create("configmaps", config_map("c", labels={"queue": "q"}), NS)
        await client.patch("pods", "mine", {"metadata": {"annotations": {"a": "b"}}}, NS)
    assert asked == ["mine"]


async def test_updates_and_deletions_are_asked_about(client: Client, authority: Authority) -> None:
    seen: list[tuple[str, bool, bool, dict[str, Any]]] = []

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        new, old = request["object"], request["oldObject"]
        seen.append((request["operation"], bool(new), bool(old), request["options"]))
        return {"allowed": True}

    async with serving(authority, answer) as address:
        operations = ["UPDATE", "DELETE"]
        await register(client, authority.bundle, address, "validating", operations=operations)
        await client.create("pods", pod("a", schedulerName="nobody"), NS)
        await client.patch("pods", "a", {"metadata": {"annotations": {"a": "b"}}}, NS)
        await client.patch("pods", "a", {"status": {"phase": "Running"}}, NS, sub="status")
        await client.delete("pods", "a", NS)
    assert [(op, new, old) for op, new, old, _ in seen] == [
        ("UPDATE", True, True),
        ("DELETE", False, True),
    ]
    assert seen[1][3]["gracePeriodSeconds"] == 0


async def test_an_update_is_repeated_when_the_object_changed_meanwhile(
    client: Client, authority: Authority
) -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        if "slow" in (request["object"]["metadata"].get("annotations") or {}):
            entered.set()
            await leave.wait()
        return {"allowed": True}

    async with serving(authority, answer) as address:
        await register(client, authority.bundle, address, "validating", operations=["UPDATE"])
        await client.create("pods", pod("a", schedulerName="nobody"), NS)
        patch = {"metadata": {"annotations": {"slow": "1"}}}
        slow = asyncio.create_task(client.patch("pods", "a", patch, NS))
        await entered.wait()
        await client.patch("pods", "a", {"status": {"phase": "Running"}}, NS, sub="status")
        leave.set()
        got = await slow
    assert got["status"]["phase"] == "Running"
    assert got["metadata"]["annotations"] == {"slow": "1"}


async def test_dry_run_asks_only_webhooks_without_effects(
    client: Client, authority: Authority
) -> None:
    async with serving(authority, allow) as address:
        await register(client, authority.bundle, address, sideEffects="Some")
        with pytest.raises(ApiFailure, match="does not support dry run"):
            await client.create("pods", pod("a"), NS, dryRun="All")
        await client.create("pods", pod("a"), NS)
