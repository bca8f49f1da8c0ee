"""What doctor says of what gates pods: registrations, what answers, and a pod that is tried."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from aiohttp import web

from gatelog.cluster import clusterinfo, install
from gatelog.examine import gating
from gatelog.shell.remedies import Installation, remedy
from ingest.registration import webhook
from runtime import manifests
from runtime.certificates import OwnCertificates
from runtime.kube import KubeClient, connect
from runtime.settings import KubernetesSettings, Settings, WebhookSettings
from tests.support.standin import SimCluster

Bare = tuple[SimCluster, KubeClient]
SPACE = "gatelog-system"
HOOK_PATHS = [path.rpartition("/")[0] for path in clusterinfo.REGISTRATIONS]
HOOKS = "mutatingwebhookconfigurations"


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


def own_certificates(folder: Path) -> bytes:
    """Certificates for the webhook's Service in a folder; return their authority."""
    own = OwnCertificates(folder, (f"gatelog-webhook.{SPACE}.svc",))
    own.ensure(datetime.now(UTC))
    return own.ca_bundle()


@asynccontextmanager
async def serving(cluster: SimCluster, kube: KubeClient, folder: Path) -> AsyncIterator[None]:
    """An ingest that serves the files of a folder behind the Service."""
    file = str(folder / "serving.pem")
    wanted = WebhookSettings(enabled=True, port=0, cert_file=file, key_file=file, linger_s=0)
    async with webhook(msgspec.structs.replace(Settings(), webhook=wanted), kube) as server:
        cluster.webhook_services[f"{SPACE}/gatelog-webhook"] = urlsplit(server.url).netloc
        yield


async def registered_for_service(kube: KubeClient, bundle: bytes) -> None:
    """What the chart registers."""
    for path, obj in zip(HOOK_PATHS, manifests.read("webhook/configuration.yaml"), strict=True):
        made = msgspec.json.decode(msgspec.json.encode(obj))
        for hook in made["webhooks"]:
            hook["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
        status, answer = await kube.json("POST", path, body=made)
        assert status == 201, answer


async def test_a_pod_is_tried_and_not_stored(bare_cluster: Bare) -> None:
    cluster, kube = bare_cluster
    found = await gating.tried(kube)
    assert found.verdict == "warn" and "gets no gate in namespace default" in found.detail
    await install.install_policy(kube, await install.as_ourselves(kube, Settings()))
    found = await gating.tried(kube)
    assert found.verdict == "ok" and "gets its gate" in found.detail
    assert not cluster.objects("", "pods"), "it was not stored"
    dead = registration(url="https://127.0.0.1:9/mutate")
    status, _ = await kube.json("POST", f"{clusterinfo.ADMISSION}/{HOOKS}", body=dead)
    assert status == 201
    found = await gating.tried(kube)
    assert found.verdict == "fail" and "is refused in namespace default (500" in found.detail


async def test_a_certificate_that_is_not_trusted_is_found(
    bare_cluster: Bare, tmp_path: Path
) -> None:
    cluster, kube = bare_cluster
    await kube.json("POST", "/api/v1/namespaces", body={"metadata": {"name": SPACE}})
    served, other = (own_certificates(tmp_path / name) for name in ("served", "other"))
    await registered_for_service(kube, other)
    async with serving(cluster, kube, tmp_path / "served"):
        found = await gating.tried(kube)
        assert found.verdict == "fail" and "certificate" in found.detail
        for path in HOOK_PATHS:
            assert (await kube.json("DELETE", f"{path}/gatelog-pods"))[0] == 200
        await registered_for_service(kube, served)
        assert (await gating.tried(kube)).verdict == "ok"


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
    assert (await gating.tried(server[1])).verdict == "skip"
    assert verdict == "skip" and "may not see whether there is a webhook or a policy" in text


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
    found = await clusterinfo.admission(kube)
    for at in (Installation(how="helm"), Installation(how="kustomize")):
        said = await gating.examine(kube, found, at)
        assert "delete mutating" not in said.remedy, "what was installed stays registered"
        assert said.remedy == remedy("part away", at, "ingest")
    answers[f"{clusterinfo.ADMISSION}/mutatingadmissionpolicies/gatelog-queued-pods"] = {"a": 1}
    assert "though the policies would gate them" in (await look(kube))[1]
    answers[slices] = {"items": [{"endpoints": [{"conditions": {"ready": False}}]}]}
    assert (await look(kube))[0] == "fail"
    answers[slices] = {"items": [{"endpoints": [{"conditions": {"ready": True}}]}]}
    assert (await look(kube))[0] == "ok"
