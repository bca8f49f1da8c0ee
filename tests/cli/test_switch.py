"""Switching what gates pods: checked before and after; and what doctor says of what was left."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from gatelog.cluster import clusterinfo, install
from gatelog.examine import gating
from gatelog.shell.errors import CommandFailed
from gatelog.switching.admission import Admission
from gatelog.switching.course import carry_out
from runtime.kube import KubeClient, connect
from runtime.settings import KubernetesSettings, Settings
from simcluster import SimCluster

Bare = tuple[SimCluster, KubeClient]
HOOKS = "mutatingwebhookconfigurations"


async def switch(kube: KubeClient, to: Any, namespace: str, tell: Any, *, dry: bool) -> None:
    await carry_out(Admission(kube, to, namespace), tell, dry=dry)


def registration(**client: Any) -> dict[str, Any]:
    hook = {
        "name": "queued.mpod.gatelog",
        "admissionReviewVersions": ["v1"],
        "clientConfig": client,
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods"],
                "scope": "*",
            }
        ],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "gatelog-pods"},
        "webhooks": [hook],
    }


async def test_the_old_registration_goes_and_pods_get_their_gate(bare_cluster: Bare) -> None:
    cluster, kube = bare_cluster
    said: list[str] = []
    with pytest.raises(CommandFailed, match="not switched yet"):
        await switch(kube, "policy", "default", said.append, dry=False)
    assert said[0] == "before: nothing gates pods by policy here yet"
    assert "admission.way=policy" in said[1]
    settings = await install.as_ourselves(kube, Settings())
    await install.install_policy(kube, settings)
    await kube.json("POST", "/api/v1/namespaces", body={"metadata": {"name": "team-a"}})
    dead = registration(url="https://127.0.0.1:9/mutate")
    status, _ = await kube.json("POST", f"{clusterinfo.ADMISSION}/{HOOKS}", body=dead)
    assert status == 201
    await switch(kube, "policy", "team-a", said.append, dry=True)
    assert cluster.objects("admissionregistration.k8s.io", HOOKS), "only said"
    await switch(kube, "policy", "team-a", said.append, dry=False)
    assert not cluster.objects("admissionregistration.k8s.io", HOOKS)
    assert said[-2] == "after: a pod that names a queue gets its gate, by policy alone"
    assert not cluster.objects("", "pods"), "it was not stored"
    with pytest.raises(CommandFailed, match="not switched yet"):
        await switch(kube, "webhook", "team-a", said.append, dry=False)


async def test_a_webhook_nobody_answers_is_not_switched_to(bare_cluster: Bare) -> None:
    cluster, kube = bare_cluster
    settings = await install.as_ourselves(kube, Settings())
    await install.install_policy(kube, settings)
    dead = registration(url="https://127.0.0.1:9/mutate")
    await kube.json("POST", f"{clusterinfo.ADMISSION}/{HOOKS}", body=dead)
    with pytest.raises(CommandFailed, match="nothing listens there"):
        await switch(kube, "webhook", "default", lambda _: None, dry=False)
    assert cluster.objects("admissionregistration.k8s.io", "mutatingadmissionpolicies")


@pytest.fixture
async def server(tmp_path: Any) -> AsyncIterator[tuple[dict[str, Any], KubeClient]]:
    """An API server that answers what a test puts there; everything else is forbidden."""
    answers: dict[str, Any] = {}

    async def answer(request: web.Request) -> web.Response:
        if request.path in answers:
            return web.json_response(answers[request.path])
        return web.json_response({"message": "forbidden"}, status=403)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    file = tmp_path / "kubeconfig"
    file.write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", '
        f'"cluster": {{"server": "http://127.0.0.1:{runner.addresses[0][1]}"}}}}], "users": '
        '[{"name": "u", "user": {"token": "t"}}], "contexts": [{"name": "c", "context": '
        '{"cluster": "c", "user": "u"}}]}'
    )
    kube = await connect(KubernetesSettings(kubeconfig=str(file)))
    yield answers, kube
    await kube.close()
    await runner.cleanup()


async def look(kube: KubeClient) -> tuple[str, str]:
    found = await clusterinfo.admission(kube)
    finding = await gating.examine(kube, found)
    return finding.verdict, finding.detail + finding.remedy


async def test_what_may_not_be_seen_is_not_called_absent(
    server: tuple[dict[str, Any], KubeClient],
) -> None:
    verdict, text = await look(server[1])
    assert verdict == "warn" and "may not see whether there is a webhook or a policy" in text


async def test_a_service_without_endpoints_is_found(
    server: tuple[dict[str, Any], KubeClient],
) -> None:
    answers, kube = server
    path = f"{clusterinfo.ADMISSION}/{HOOKS}/gatelog-pods"
    service = {"namespace": "gatelog-system", "name": "gatelog-webhook", "port": 443}
    answers[path] = registration(service=service)
    assert (await look(kube))[0] == "ok", "endpoints may not be seen"
    slices = "/apis/discovery.k8s.io/v1/namespaces/gatelog-system/endpointslices"
    answers[slices] = {"items": []}
    verdict, text = await look(kube)
    assert verdict == "fail" and "Service gatelog-system/gatelog-webhook" in text
    answers[f"{clusterinfo.ADMISSION}/mutatingadmissionpolicies/gatelog-queued-pods"] = {"a": 1}
    assert "gatelog switch admission policy" in (await look(kube))[1]
    answers[slices] = {"items": [{"endpoints": [{"conditions": {"ready": False}}]}]}
    assert (await look(kube))[0] == "fail"
    answers[slices] = {"items": [{"endpoints": [{"conditions": {"ready": True}}]}]}
    assert (await look(kube))[0] == "ok"
