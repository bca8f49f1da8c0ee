"""Switching who admits on the stand-in: before, between and after."""

from typing import Any

import pytest

from gatelog.cluster import clusterinfo, crds, install
from gatelog.shell.errors import CommandFailed
from gatelog.switching import parts
from gatelog.switching.queueing import Queueing
from podgroup.model.names import MANAGED_LABEL
from runtime.kube import KubeClient
from runtime.settings import Settings
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


async def deployed(kube: KubeClient, part: str, **variables: str) -> None:
    """A deployment all of whose replicas are ready."""
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
                "spec": {"containers": [container]},
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


@pytest.fixture
async def space(bare_cluster: Bare) -> Bare:
    """Gatelog's namespace and the queues' kinds."""
    _, kube = bare_cluster
    await make(kube, "/api/v1/namespaces", {"metadata": {"name": SPACE}})
    await install.install_kinds(kube)
    return bare_cluster


async def go(switch: Queueing, *, dry: bool = False) -> list[str]:
    said: list[str] = []
    await switch.switch(said.append, dry=dry)
    return said


async def not_yet(switch: Queueing) -> list[str]:
    said: list[str] = []
    with pytest.raises(CommandFailed, match="not switched yet"):
        await switch.switch(said.append, dry=False)
    return said


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
        await go(Queueing(kube, "kueue", SPACE, drain=False))
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
        return Queueing(kube, way, SPACE, drain=drain)

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
    ingest = f"/apis/apps/v1/namespaces/{SPACE}/deployments/gatelog-ingest/status"
    await change(kube, ingest, {"status": {"readyReplicas": 1}})
    with pytest.raises(CommandFailed, match="gatelog-ingest has 2 of 2 replicas updated, 1 ready"):
        await parts.rolled_out(kube, SPACE, wait_s=0)
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
