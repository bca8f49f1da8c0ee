"""`gatelog uninstall` on the stand-in: nothing stuck, nothing stopped, what was asked for gone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatelog.cluster import install, policies
from gatelog.removal.released import inspect
from gatelog.removal.removing import Removal, Wish, leftovers
from podgroup.model.names import (
    ADMISSION_GATE,
    IS_GROUP_WORKLOAD,
    MANAGED_LABEL,
    POD_FINALIZER,
    QUEUE_NAME,
    WORKLOAD_FINALIZER,
)
from runtime import manifests
from runtime.kube import KubeClient
from runtime.settings import Settings
from tests.support.standin import SimCluster
from tests.support.standin.faults import Rule

Bare = tuple[SimCluster, KubeClient]
SYSTEM, TEAM = "gatelog-system", "team-a"
QUEUE = "/apis/kueue.x-k8s.io/v1beta2"


async def make(kube: KubeClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    status, made = await kube.json("POST", path, body=body)
    assert status == 201, made
    return dict(made)


def pod(name: str, *, gated: bool = False, **more: Any) -> dict[str, Any]:
    meta = {
        "name": name,
        "labels": {QUEUE_NAME: "user-queue", MANAGED_LABEL: "true"},
        "finalizers": [POD_FINALIZER, "example.com/other"],
    }
    gates = [{"name": ADMISSION_GATE}, {"name": "example.com/other"}] if gated else []
    containers = [{"name": "main", "image": "busybox"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta | more,
        "spec": {"containers": containers, "schedulingGates": gates},
    }


def workload(name: str, **more: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "finalizers": [WORKLOAD_FINALIZER]} | more,
        "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
    }


@pytest.fixture
async def installed(bare_cluster: Bare) -> Bare:
    """Gatelog's objects as far as the stand-in serves their kinds, pods of users, Workloads."""
    _, kube = bare_cluster
    for name, labels in ((SYSTEM, {"app.kubernetes.io/name": "gatelog"}), (TEAM, {})):
        namespace = {"apiVersion": "v1", "kind": "Namespace"}
        await make(
            kube, "/api/v1/namespaces", namespace | {"metadata": {"name": name, "labels": labels}}
        )
    await install.install_kinds(kube)
    pods = f"/api/v1/namespaces/{TEAM}/pods"
    await make(kube, pods, pod("runs"))
    await make(kube, pods, pod("waits", gated=True))
    await make(kube, pods, pod("unlabelled", labels={}))
    await make(kube, pods, pod("stranger", labels={}, finalizers=[]))
    listed = f"{QUEUE}/namespaces/{TEAM}/workloads"
    await make(kube, listed, workload("train", annotations={IS_GROUP_WORKLOAD: "true"}))
    await make(kube, listed, workload("job-of-kueue"))
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "spec": {}}
    meta = {"name": "research", "finalizers": [WORKLOAD_FINALIZER]}
    await make(kube, f"{QUEUE}/clusterqueues", queue | {"metadata": meta})
    settings = await install.as_ourselves(kube, Settings())
    await install.apply(kube, policies.policies(settings))
    plurals = {"ServiceAccount": "serviceaccounts", "ConfigMap": "configmaps"}
    for obj in manifests.read("base"):
        if obj["kind"] in plurals:
            path = f"/api/v1/namespaces/{SYSTEM}/{plurals[obj['kind']]}"
            await make(kube, path, obj)
        if obj["kind"] in ("ClusterRole", "ClusterRoleBinding"):
            await make(kube, f"/apis/{obj['apiVersion']}/{obj['kind'].lower()}s", obj)
    for name in ("gatelog-actuator", "other"):
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {}}}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
        path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"
        await make(kube, path, body | {"metadata": {"name": name}})
    for name in ("gatelog-nats", "mine"):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        await make(kube, f"/api/v1/namespaces/{SYSTEM}/secrets", body)
    return bare_cluster


def names(cluster: SimCluster, group: str, plural: str) -> set[str]:
    return {o["metadata"]["name"] for o in cluster.objects(group, plural)}


async def run(kube: KubeClient, steps: int | None = None, **wish: Any) -> dict[str, int]:
    wanted = Wish(SYSTEM, "open", (), False)._replace(**wish)
    removal = Removal(kube, wanted, lambda _: None)
    return {
        found.name: found.objects
        for found in [await step() for step in list(await removal.steps())[:steps]]
    }


def everything(cluster: SimCluster) -> str:
    kinds = [
        ("", "pods"),
        ("kueue.x-k8s.io", "workloads"),
        ("apps", "deployments"),
        ("", "secrets"),
        ("", "serviceaccounts"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ]
    return json.dumps([cluster.objects(*kind) for kind in kinds], sort_keys=True)


async def test_a_dry_run_says_what_goes_and_changes_nothing(installed: Bare) -> None:
    cluster, kube = installed
    before = everything(cluster)
    said = await run(kube, dry=True, also=("crds", "data"))
    assert everything(cluster) == before
    assert said["pods"] == 3 and said["deployments"] == 1 and said["crds"] >= 5
    done = await run(kube, also=("crds", "data"))
    assert {k: v for k, v in done.items() if k != "crds"} == {
        k: v for k, v in said.items() if k != "crds"
    }


async def test_what_runs_runs_on_and_nothing_of_ours_is_left(installed: Bare) -> None:
    cluster, kube = installed
    await run(kube)
    pods = {o["metadata"]["name"]: o for o in cluster.objects("", "pods")}
    assert set(pods) == {"runs", "waits", "unlabelled", "stranger"}
    for name in ("runs", "waits", "unlabelled"):
        assert not inspect(pods[name]).touched("open")
        assert pods[name]["metadata"]["finalizers"] == ["example.com/other"], "others' stay"
        assert "deletionTimestamp" not in pods[name]["metadata"]
    assert pods["waits"]["spec"]["schedulingGates"] == [{"name": "example.com/other"}]
    assert names(cluster, "kueue.x-k8s.io", "workloads") == {"job-of-kueue"}
    (queue,) = cluster.objects("kueue.x-k8s.io", "clusterqueues")
    assert not queue["metadata"].get("finalizers"), "it can be deleted now"
    assert names(cluster, "apps", "deployments") == {"other"}
    assert "mine" in names(cluster, "", "secrets") and "gatelog-nats" in names(
        cluster, "", "secrets"
    )
    for kind in ("mutatingadmissionpolicies", "validatingadmissionpolicybindings"):
        assert not names(cluster, "admissionregistration.k8s.io", kind)
    for kind in ("clusterroles", "clusterrolebindings"):
        assert not {n for n in names(cluster, "rbac.authorization.k8s.io", kind) if "gatelog" in n}
    assert len(cluster.objects("apiextensions.k8s.io", "customresourcedefinitions")) >= 5


async def test_a_policy_that_is_still_in_force_for_a_moment_is_waited_for(installed: Bare) -> None:
    """An API server hears a little later that a policy was deleted; seen on a real one."""
    cluster, kube = installed
    said = "pods \"runs\" is forbidden: ValidatingAdmissionPolicy 'gatelog-pods' denied request"
    pods = Rule(status=403, method="PATCH", path="/pods/runs", count=3, text=said)
    hook = 'Internal error occurred: failed calling webhook "vpod.validate.gatelog": refused'
    cluster.faults.add(pods)
    cluster.faults.add(Rule(status=500, method="PATCH", path="/pods/waits", count=2, text=hook))
    done = await run(kube)
    assert pods.hits == 3 and done["pods"] == 3
    assert await leftovers(kube, "open") == 0


async def test_kept_gates_wait_for_a_gatelog_that_comes_back(installed: Bare) -> None:
    cluster, kube = installed
    await run(kube, gates="keep")
    pods = {o["metadata"]["name"]: o for o in cluster.objects("", "pods")}
    assert inspect(pods["waits"]).gated and inspect(pods["runs"]).label
    assert not any(inspect(p).finalizer for p in pods.values())
    kept = {
        o["metadata"]["name"]: o["metadata"] for o in cluster.objects("kueue.x-k8s.io", "workloads")
    }
    assert not kept["train"].get("finalizers") and kept["job-of-kueue"]["finalizers"]


@pytest.mark.parametrize("after", [1, 2, 3, 4])
async def test_an_interrupted_removal_is_repeated(installed: Bare, after: int) -> None:
    cluster, kube = installed
    await run(kube, after)
    done = await run(kube, also=("crds", "data"))
    assert not done["admission"]
    assert not any(name in done and done[name] for name in ("deployments", "pods")[: after - 1])
    assert not await leftovers(kube, "open")
    again = await run(kube, also=("crds",))
    assert not any(again.values())
    assert not [
        n
        for n in names(cluster, "apiextensions.k8s.io", "customresourcedefinitions")
        if n.endswith(".kueue.x-k8s.io")
    ]
    assert "gatelog-nats" not in names(cluster, "", "secrets")


async def test_kinds_of_kueue_are_not_removed_from_under_it(installed: Bare) -> None:
    cluster, kube = installed
    hook = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    meta = {"metadata": {"name": "kueue-mutating-webhook-configuration"}, "webhooks": []}
    await make(kube, path, hook | meta)
    with pytest.raises(Exception, match="leave --also crds out"):
        await run(kube, also=("crds",))
    await run(kube)
    (queue,) = cluster.objects("kueue.x-k8s.io", "clusterqueues")
    assert queue["metadata"]["finalizers"] == [WORKLOAD_FINALIZER], "that one is Kueue's"


async def test_installing_while_kinds_are_being_deleted_is_refused(installed: Bare) -> None:
    _, kube = installed
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io"
    waits = b'{"metadata": {"finalizers": ["customresourcecleanup.apiextensions.k8s.io"]}}'
    await kube.request("PATCH", path, body=waits, content_type="application/merge-patch+json")
    await kube.request("DELETE", path)
    with pytest.raises(Exception, match="gatelog uninstall --gates keep"):
        await install.install_kinds(kube)


def test_the_command_says_what_it_did(
    gatelog: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    code, _, err = gatelog("uninstall", "--also", "everything")
    assert code == 2 and "crds and data" in err
