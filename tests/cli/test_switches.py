"""Switching certificates, queueing and processes on the stand-in: before, between and after."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from gatelog.cluster import clusterinfo, crds, install, manifests
from gatelog.shell.errors import CommandFailed
from gatelog.shell.statedir import StateDir
from gatelog.switching import parts
from gatelog.switching.certificates import INJECT, Certificates
from gatelog.switching.course import carry_out
from gatelog.switching.processes import Processes
from gatelog.switching.queueing import Queueing
from ingest.registration import webhook
from podgroup.model.names import MANAGED_LABEL, QUEUE_NAME
from runtime.certificates import OwnCertificates
from runtime.kube import KubeClient
from runtime.settings import Settings, WebhookSettings
from simcluster import SimCluster

Bare = tuple[SimCluster, KubeClient]
SPACE, SERVICE = "gatelog-system", "gatelog-webhook.gatelog-system.svc"
HOOKS = [f"{clusterinfo.ADMISSION}/{k}webhookconfigurations" for k in ("mutating", "validating")]
QUEUES = "/apis/kueue.x-k8s.io/v1beta2"


async def make(kube: KubeClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    status, made = await kube.json("POST", path, body=body)
    assert status == 201, made
    return dict(made)


async def change(kube: KubeClient, path: str, body: dict[str, Any]) -> None:
    form = "application/merge-patch+json"
    status, made = await kube.json("PATCH", path, body=body, content_type=form)
    assert status == 200, made["message"]


async def deployed(
    kube: KubeClient, part: str, *, secret: str = "", **variables: str
) -> dict[str, Any]:
    """A deployment all of whose replicas are ready."""
    mounts = [{"name": "webhook", "secret": {"secretName": secret}}] if secret else []
    container = {
        "name": part,
        "image": "gatelog",
        "env": [{"name": f"GATELOG_{k.upper()}", "value": v} for k, v in variables.items()],
    }
    labels = {"app.kubernetes.io/name": "gatelog", "app.kubernetes.io/component": part}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"gatelog-{part}", "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "volumes": mounts},
            },
        },
    }
    path = f"/apis/apps/v1/namespaces/{SPACE}/deployments"
    await kube.request("DELETE", f"{path}/gatelog-{part}")
    made = await make(kube, path, body)
    status = {
        "observedGeneration": made["metadata"]["generation"],
        **dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas"), 2),
    }
    await change(kube, f"{path}/gatelog-{part}/status", {"status": status})
    return made


@pytest.fixture
async def space(bare_cluster: Bare) -> Bare:
    """Gatelog's namespace and the queues' kinds."""
    _, kube = bare_cluster
    await make(kube, "/api/v1/namespaces", {"metadata": {"name": SPACE}})
    await install.install_kinds(kube)
    return bare_cluster


def secret_of(name: str, folder: Path, host: str = SERVICE) -> dict[str, Any]:
    own = OwnCertificates(folder, (host,))
    own.ensure(datetime.now(UTC))
    key, _, rest = (folder / "serving.pem").read_text().partition("-----BEGIN CERTIFICATE-----")
    data = {
        "tls.crt": f"-----BEGIN CERTIFICATE-----{rest}".encode(),
        "tls.key": key.encode(),
        "ca.crt": own.ca_bundle(),
    }
    encoded = {k: base64.b64encode(v).decode() for k, v in data.items()}
    return {"metadata": {"name": name}, "type": "kubernetes.io/tls", "data": encoded}


@asynccontextmanager
async def serving(cluster: SimCluster, kube: KubeClient, folder: Path) -> AsyncIterator[None]:
    """An ingest that serves the files of a folder behind the Service."""
    file = str(folder / "serving.pem")
    wanted = WebhookSettings(enabled=True, port=0, cert_file=file, key_file=file, linger_s=0)
    async with webhook(msgspec.structs.replace(Settings(), webhook=wanted), kube) as server:
        cluster.webhook_services[f"{SPACE}/gatelog-webhook"] = urlsplit(server.url).netloc
        yield


def cert_manager_crd(kind: str) -> dict[str, Any]:
    plural, group = f"{kind.lower()}s", "cert-manager.io"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


async def play_cert_manager(cluster: SimCluster, kube: KubeClient, folder: Path) -> None:
    """Issue what is asked for, and write its authority where the annotation asks for it."""
    while True:
        for one in cluster.objects("cert-manager.io", "certificates"):
            name = one["spec"]["secretName"]
            if name not in {o["metadata"]["name"] for o in cluster.objects("", "secrets")}:
                path = f"/api/v1/namespaces/{SPACE}/secrets"
                await make(kube, path, secret_of(name, folder))
            issued = next(
                o for o in cluster.objects("", "secrets") if o["metadata"]["name"] == name
            )
            for path in HOOKS:
                await injected(cluster, kube, path, issued["data"]["ca.crt"])
        await asyncio.sleep(0.02)


async def injected(cluster: SimCluster, kube: KubeClient, path: str, bundle: str) -> None:
    for one in cluster.objects("admissionregistration.k8s.io", path.rsplit("/", 1)[1]):
        marked = INJECT in (one["metadata"].get("annotations") or {})
        if marked and {h["clientConfig"].get("caBundle") for h in one["webhooks"]} != {bundle}:
            hooks = [
                h | {"clientConfig": h["clientConfig"] | {"caBundle": bundle}}
                for h in one["webhooks"]
            ]
            await change(kube, f"{path}/gatelog-pods", {"webhooks": hooks})


async def registered_by_helm(kube: KubeClient, bundle: str, **annotations: str) -> None:
    """What the chart registers."""
    for path, obj in zip(HOOKS, manifests.read("webhook/configuration.yaml"), strict=True):
        made = msgspec.json.decode(msgspec.json.encode(obj))
        made["metadata"]["annotations"] = annotations
        for hook in made["webhooks"]:
            if bundle:
                hook["clientConfig"]["caBundle"] = bundle
        await kube.request("DELETE", f"{path}/gatelog-pods")
        await make(kube, path, made)


async def go(switch: Any, *, dry: bool = False) -> list[str]:
    said: list[str] = []
    await carry_out(switch, said.append, dry=dry)
    return said


async def not_yet(switch: Any) -> list[str]:
    said: list[str] = []
    with pytest.raises(CommandFailed, match="not switched yet"):
        await carry_out(switch, said.append, dry=False)
    return said


@pytest.mark.timeout(60)
async def test_certificates_become_cert_managers_and_ours_again(
    space: Bare, tmp_path: Path
) -> None:
    cluster, kube = space

    def to(way: Any) -> Certificates:
        return Certificates(kube, way, SPACE, "default")

    with pytest.raises(CommandFailed, match="no certificates to switch"):
        await go(to("cert-manager"))
    made = secret_of("gatelog-webhook-tls", tmp_path / "helm")
    await make(kube, f"/api/v1/namespaces/{SPACE}/secrets", made)
    await registered_by_helm(kube, made["data"]["ca.crt"])
    await deployed(kube, "ingest", secret="gatelog-webhook-tls")
    with pytest.raises(CommandFailed, match="cert-manager is not installed: certificates and iss"):
        await go(to("cert-manager"))
    for kind in ("Certificate", "Issuer"):
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await make(kube, path, cert_manager_crd(kind))

    async with serving(cluster, kube, tmp_path / "helm"):
        said = await go(to("cert-manager"), dry=True)
        assert not cluster.objects("cert-manager.io", "certificates"), "only said"
        assert any("secretName=gatelog-webhook-issued" in line for line in said)
        playing = asyncio.create_task(play_cert_manager(cluster, kube, tmp_path / "issued"))
        await not_yet(to("cert-manager"))
        (issued,) = cluster.objects("cert-manager.io", "certificates")
        assert issued["spec"]["secretName"] == "gatelog-webhook-issued"
        assert issued["spec"]["dnsNames"][0] == SERVICE

        # What helm upgrade does, and what is seen while the roll-out lags behind.
        await registered_by_helm(kube, "", **{INJECT: f"{SPACE}/gatelog-webhook"})
        await deployed(kube, "ingest", secret="gatelog-webhook-issued")
        with pytest.raises(CommandFailed, match=r"is refused in namespace default.*certificate"):
            await go(to("cert-manager"))
    async with serving(cluster, kube, tmp_path / "issued"):
        said = await go(to("cert-manager"))
        assert "after: a pod that names a queue gets its gate" in said

        said = await not_yet(to("own"))
        assert any("it goes on trusting" in line for line in said)
        for path in HOOKS:
            (one,) = cluster.objects("admissionregistration.k8s.io", path.rsplit("/", 1)[1])
            assert INJECT not in (one["metadata"].get("annotations") or {})
            assert one["webhooks"][0]["clientConfig"]["caBundle"]
    playing.cancel()
    await registered_by_helm(kube, made["data"]["ca.crt"])
    await deployed(kube, "ingest", secret="gatelog-webhook-tls")
    async with serving(cluster, kube, tmp_path / "helm"):
        said = await go(to("own"))
    assert "removed certificates gatelog-webhook" in said
    left = {o["metadata"]["name"] for o in cluster.objects("", "secrets")}
    assert left == {"gatelog-webhook-tls"}


async def test_a_secret_that_does_not_fit_is_named(space: Bare, tmp_path: Path) -> None:
    _, kube = space
    made = secret_of("gatelog-webhook-tls", tmp_path, "elsewhere.svc")
    await make(kube, f"/api/v1/namespaces/{SPACE}/secrets", made)
    await registered_by_helm(kube, made["data"]["ca.crt"])
    one = await deployed(kube, "ingest", secret="gatelog-webhook-tls")
    own = Certificates(kube, "own", SPACE, "default", wait_s=0.0)
    with pytest.raises(CommandFailed, match=f"certificate that is not for {SERVICE}"):
        await go(own)
    path = f"/apis/apps/v1/namespaces/{SPACE}/deployments/{one['metadata']['name']}"
    await change(kube, f"{path}/status", {"status": {"readyReplicas": 1}})
    with pytest.raises(CommandFailed, match="gatelog-ingest has 2 of 2 replicas updated, 1 ready"):
        await go(own)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": []} | spec,
    }


def kueue(*frameworks: str) -> dict[str, dict[str, Any]]:
    listed = "".join(f"\n  - {name}" for name in frameworks)
    config = f"integrations:\n  frameworks:{listed}\n"
    return {
        HOOKS[0]: {"metadata": {"name": "kueue-mutating-webhook-configuration"}, "webhooks": []},
        "/api/v1/namespaces/kueue-system/configmaps": {
            "metadata": {"name": "kueue-manager-config"},
            "data": {"controller_manager_config.yaml": config},
        },
    }


async def test_queueing_becomes_kueues_and_ours_again(space: Bare) -> None:
    cluster, kube = space
    alone = {
        "metadata": {"name": "alone", "labels": {MANAGED_LABEL: "true"}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    await make(kube, "/api/v1/namespaces/default/pods", alone)  # it runs from before admission
    await install.install_policy(kube, await install.as_ourselves(kube, Settings()))
    for name in ("research", "teaching"):
        await make(kube, f"{QUEUES}/clusterqueues", queue(name))
    await make(kube, f"{QUEUES}/clusterqueues", queue("closed", stopPolicy="Hold"))
    with pytest.raises(CommandFailed, match="no deployment of gatelog is in gatelog-system"):
        await go(Queueing(kube, "kueue", SPACE, "default", drain=False))
    for part in parts.PARTS:
        await deployed(kube, part)
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    held = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "train", "annotations": {"kueue.x-k8s.io/is-group-workload": "true"}},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
    }
    path = f"{QUEUES}/namespaces/default/workloads"
    await make(kube, path, held)
    now = "2026-01-01T00:00:00Z"
    reserved = {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "QuotaReserved",
        "message": "It has quota",
        "lastTransitionTime": now,
    }
    admission = {"clusterQueue": "research", "podSetAssignments": [{"name": "main", "count": 1}]}
    await change(
        kube, f"{path}/train/status", {"status": {"conditions": [reserved], "admission": admission}}
    )

    def policies() -> dict[str, str]:
        found = cluster.objects("kueue.x-k8s.io", "clusterqueues")
        return {o["metadata"]["name"]: o["spec"].get("stopPolicy", "None") for o in found}

    def to(way: Any, drain: bool = False) -> Queueing:
        return Queueing(kube, way, SPACE, "default", drain=drain)

    before = policies()
    with pytest.raises(CommandFailed, match="Kueue is not installed"):
        await go(to("kueue"), dry=True)
    assert policies() == before
    with pytest.raises(CommandFailed, match=r"1 Workloads hold quota \(default/train\)"):
        await go(to("kueue"))
    assert set(policies().values()) == {"Hold"}
    pod = "/api/v1/namespaces/default/pods/alone"
    await change(kube, pod, {"metadata": {"finalizers": [MANAGED_LABEL]}})
    match = r"2 Workloads and pods without one hold quota \(default/train, pod default/alone\)"
    with pytest.raises(CommandFailed, match=match):
        await go(to("kueue", drain=True))
    await change(kube, pod, {"metadata": {"finalizers": None}})
    assert policies() == {"research": "HoldAndDrain", "teaching": "HoldAndDrain", "closed": "Hold"}

    await change(
        kube,
        f"{path}/train/status",
        {"status": {"conditions": [reserved | {"status": "False"}], "admission": None}},
    )
    with pytest.raises(CommandFailed, match="Kueue is not installed"):
        await go(to("kueue"))
    await make(kube, "/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
    for folder, obj in kueue("batch/job", "statefulset").items():
        await make(kube, folder, obj)
    with pytest.raises(CommandFailed, match=r"Kueue queues pods itself \(statefulset in"):
        await go(to("kueue"))
    config = f"{'/api/v1/namespaces/kueue-system/configmaps'}/kueue-manager-config"
    await kube.request("DELETE", config)
    folder, obj = list(kueue("batch/job").items())[1]
    await make(kube, folder, obj)
    with pytest.raises(CommandFailed, match=r"the CRDs of workloads, localqueues.* are gatelog's"):
        await go(to("kueue"))
    for crd in crds.definitions():
        name = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"
        await change(kube, name, {"metadata": {"labels": {"app.kubernetes.io/name": "kueue"}}})
    said = await not_yet(to("kueue"))
    assert "before: nothing" not in said and any("helm upgrade with mode=kueue" in s for s in said)

    await deployed(kube, "ingest", mode="kueue")
    with pytest.raises(CommandFailed, match="set to different modes"):
        await go(to("kueue"))
    for part in parts.PARTS:
        await deployed(kube, part, mode="kueue")
    said = await go(to("kueue"))
    assert policies() == {"research": "None", "teaching": "None", "closed": "Hold"}
    assert "after: stopped by another client: closed" in said

    check = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": {"name": "elsewhere"},
        "spec": {"controllerName": "kueue.x-k8s.io/multikueue"},
    }
    await make(kube, f"{QUEUES}/admissionchecks", check)
    with pytest.raises(CommandFailed, match=r"asked for by AdmissionCheck elsewhere \(MultiKueue"):
        await go(to("builtin"))
    await kube.request("DELETE", f"{QUEUES}/admissionchecks/elsewhere")
    with pytest.raises(CommandFailed, match="Kueue is still here"):
        await go(to("builtin"))
    assert policies()["research"] == "Hold", "held before Kueue goes"
    await kube.request("DELETE", f"{HOOKS[0]}/kueue-mutating-webhook-configuration")
    await not_yet(to("builtin"))
    for part in parts.PARTS:
        await deployed(kube, part)
    await go(to("builtin"))
    assert policies() == {"research": "None", "teaching": "None", "closed": "Hold"}


async def test_one_process_becomes_three_and_one_again(space: Bare, tmp_path: Path) -> None:
    cluster, kube = space
    state = StateDir(tmp_path / "state")

    def to(way: Any) -> Processes:
        return Processes(kube, way, SPACE, "default", state)

    dead = {
        "metadata": {"name": "gatelog-pods"},
        "webhooks": [
            {
                "name": "queued.mpod.gatelog",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://127.0.0.1:9/mutate"},
                "rules": [],
                "sideEffects": "None",
            }
        ],
    }
    await make(kube, HOOKS[0], dead)
    with state.hold(), pytest.raises(CommandFailed, match=f"up still runs.*process {os.getpid()}"):
        await go(to("three"))
    with pytest.raises(CommandFailed, match=r"webhook of gatelog up at https://127\.0\.0\.1:9"):
        await go(to("three"))
    await install.install_policy(kube, await install.as_ourselves(kube, Settings()))
    pod = {
        "metadata": {"name": "runs", "labels": {QUEUE_NAME: "q", MANAGED_LABEL: "true"}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    await make(kube, "/api/v1/namespaces/default/pods", pod)
    said = await not_yet(to("three"))
    assert "before: 0 pods of queues run, 1 wait; 0 Workloads hold their quota" in said
    assert not cluster.objects("admissionregistration.k8s.io", "mutatingwebhookconfigurations")

    for part in parts.PARTS:
        await deployed(kube, part)
    with pytest.raises(CommandFailed, match="no replica holds the Lease of ingest"):
        await go(to("three"))
    for name in ("gatelog-ingest-default", "gatelog-projector-default-0"):
        path = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases"
        await make(kube, path, {"metadata": {"name": name}, "spec": {"holderIdentity": "a"}})
    said = await go(to("three"))
    assert "after: the Leases of ingest and projector are held" in said

    with pytest.raises(CommandFailed, match=r"are deployments in .*gatelog uninstall --gates keep"):
        await go(to("one"))
    for part in parts.PARTS:
        await kube.request("DELETE", f"/apis/apps/v1/namespaces/{SPACE}/deployments/gatelog-{part}")
    said = await not_yet(to("one"))
    assert any("gatelog import old.jsonl.gz --to" in line for line in said)
    with state.hold():
        said = await go(to("one"))
    assert any(f"process {os.getpid()}" in line for line in said)
