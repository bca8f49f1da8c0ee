"""`gatelog doctor` with nothing but a kubeconfig: what the API server shows, and no more."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatelog.cluster import clusterinfo, install
from gatelog.examine import nodes
from gatelog.shell.remedies import UNKNOWN, Installation, remedy
from gatelog.shell.statedir import StateDir
from runtime.kube import KubeClient, connect
from runtime.settings import KubernetesSettings
from simcluster import Settings as SimSettings
from simcluster.access import User
from tests.cli.conftest import Ran
from tests.support.standin import SimCluster

Gatelog = Callable[..., Ran]
Bare = tuple[SimCluster, KubeClient]
SYSTEM = "gatelog-system"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"


async def post(kube: KubeClient, path: str, kind: str, name: str, **more: Any) -> None:
    labels = {"app.kubernetes.io/name": "gatelog", "app.kubernetes.io/component": name[8:]}
    body = {"kind": kind, "metadata": {"name": name, "labels": labels}, **more}
    group = path.split("/")[2:4]
    body["apiVersion"] = "/".join(group) if path.startswith("/apis") else "v1"
    status, answer = await kube.json("POST", path, body=body)
    assert status == 201, answer


async def say(kube: KubeClient, path: str, status: dict[str, Any]) -> None:
    kind = "application/merge-patch+json"
    code, answer = await kube.json(
        "PATCH", f"{path}/status", body={"status": status}, content_type=kind
    )
    assert code == 200, answer


@pytest.fixture
async def away(tmp_path: Path) -> AsyncIterator[Bare]:
    """A cluster with the three deployments, of which actuators are not ready, and two queues."""
    users = {"stranger-token": User(name="stranger")}
    async with SimCluster(SimSettings(kueue_kinds=False, users=users)) as cluster:
        file = cluster.kubeconfig(tmp_path / "kubeconfig")
        cluster.kubeconfig(tmp_path / "stranger", token="stranger-token")
        kube = await connect(KubernetesSettings(kubeconfig=str(file)))
        await install.install_kinds(kube)
        await post(kube, "/api/v1/namespaces", "Namespace", SYSTEM)
        for part, count in (("ingest", 2), ("projector", 1), ("actuator", 0)):
            path = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"
            spec: dict[str, Any] = {"replicas": 2, "selector": {}, "template": {"metadata": {}}}
            await post(kube, path, "Deployment", f"gatelog-{part}", spec=spec)
            await say(kube, f"{path}/gatelog-{part}", {"readyReplicas": count})
        quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "1"}]}
        covered = {"coveredResources": ["cpu"], "flavors": [quota]}
        whole = {"namespaceSelector": {}, "resourceGroups": [covered]}
        for name, said in (("idle", "False"), ("busy", "True")):
            await post(kube, QUEUES, "ClusterQueue", name, spec=whole)
            condition = {"type": "Active", "status": said, "reason": "R", "message": f"{name} m"}
            condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
            await say(kube, f"{QUEUES}/{name}", {"conditions": [condition]})
        meta = {"name": "going", "finalizers": ["kueue.x-k8s.io/resource-in-use"]}
        await post(kube, QUEUES, "ClusterQueue", "going", spec=whole, metadata=meta)
        await say(kube, f"{QUEUES}/going", {"conditions": [{**condition, "status": "False"}]})
        await kube.json("DELETE", f"{QUEUES}/going")
        template = {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
        sets = [{"name": "main", "count": 1, "template": template}]
        place = f"{QUEUES.removesuffix('clusterqueues')}namespaces/default/workloads"
        await post(kube, place, "Workload", "holds", spec={"podSets": sets})
        held = {"clusterQueue": "going", "podSetAssignments": [{"name": "main"}]}
        await say(kube, f"{place}/holds", {"admission": held})
        yield cluster, kube
        await kube.close()


async def examine(gatelog: Gatelog, *words: str) -> tuple[int, dict[Any, Any]]:
    code, out, err = await asyncio.to_thread(gatelog, "doctor", "--json", *words)
    assert err == ""
    return code, {(f["area"], f["what"]): f for f in json.loads(out)}


async def test_what_the_api_server_shows(gatelog: Gatelog, away: Bare, tmp_path: Path) -> None:
    words = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--state-dir", str(tmp_path / "none"))
    code, found = await examine(gatelog, *words)
    assert code == 1, "actuators are not ready"
    verdicts = {what: found["deployments", what]["verdict"] for what in ("ingest", "projector")}
    assert verdicts == {"ingest": "ok", "projector": "warn"}
    assert found["deployments", "actuator"]["verdict"] == "fail"
    assert "0 of 2 ready" in found["deployments", "actuator"]["detail"]
    for area in ("database", "log"):
        assert found[area, "reachable"]["verdict"] == "skip"
        line = f"kubectl -n {SYSTEM} exec deploy/gatelog-projector -- gatelog doctor"
        assert line in found[area, "reachable"]["detail"]
    idle = found["queues", "clusterqueues"]
    assert idle["verdict"] == "warn" and "2 of 3 admit no group:" in idle["detail"]
    assert "idle (R: idle m)" in idle["detail"]
    assert "gatelog resume" not in idle["remedy"], "none was stopped"
    assert "going (R: busy m), held by default/holds" in idle["detail"]
    assert found["queues", "groups"]["verdict"] == "skip", "gatelog serve is not installed"
    assert found["leases", "ingest"]["verdict"] == "fail", "nobody holds the Lease"
    assert f"{SYSTEM}/gatelog-ingest-default" in found["leases", "ingest"]["detail"]


async def test_one_process_beside_deployments_is_found(
    gatelog: Gatelog, away: Bare, tmp_path: Path
) -> None:
    words = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--state-dir", str(tmp_path / "here"))
    _, found = await examine(gatelog, *words)
    assert ("cluster", "processes") not in found
    with StateDir(tmp_path / "here").hold():
        code, found = await examine(gatelog, *words)
    assert code == 1 and f"process {os.getpid()}" in found["cluster", "processes"]["detail"]


async def test_not_allowed_to_look_is_not_absent(
    gatelog: Gatelog, away: Bare, tmp_path: Path
) -> None:
    words = ("--kubeconfig", str(tmp_path / "stranger"), "--state-dir", str(tmp_path / "none"))
    _, found = await examine(gatelog, *words)
    assert found["deployments", "parts"]["verdict"] == "skip"
    for plural in ("clusterqueues", "localqueues"):
        assert found["queues", plural]["verdict"] == "skip"
        assert "may not list" in found["queues", plural]["detail"]
    assert found["cluster", "gating"]["verdict"] == "skip"
    _, said, _ = await asyncio.to_thread(gatelog, "doctor", *words)
    assert "all is well" not in said and "not looked at" in said
    assert "may not see" in found["cluster", "gating"]["detail"]


async def test_another_clusters_state_directory_is_not_looked_at(
    gatelog: Gatelog, away: Bare, tmp_path: Path
) -> None:
    """It said "all is well" of a SQLite of a `gatelog up` that once ran there."""
    state = StateDir(tmp_path / "once")
    with state.hold("https://another.example 0123456789abcdef"):
        pass
    words = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--state-dir", str(state.path))
    _, found = await examine(gatelog, *words)
    for area in ("database", "log"):
        assert found[area, "reachable"]["verdict"] == "skip"


async def test_the_user_of_gatelog_up_gets_the_rights_that_the_printed_line_gives(
    gatelog: Gatelog, tmp_path: Path
) -> None:
    """The line applied deploy/common/rights.yaml, which who installed the wheel does not have."""
    users = {"stranger-token": User(name="stranger")}
    async with SimCluster(SimSettings(kueue_kinds=False, users=users)) as cluster:
        cluster.kubeconfig(tmp_path / "stranger", token="stranger-token")
        file = cluster.kubeconfig(tmp_path / "admin")
        kube = await connect(KubernetesSettings(kubeconfig=str(file)))
        there = ("--kubeconfig", str(tmp_path / "stranger"), "--state-dir", str(tmp_path / "up"))
        counted = ("--set", "queueing.device_classes=gpu.example.com=gpus")
        sets = ("--set", "queueing.owned_groups=StatefulSet")
        words = (*there, *counted, *sets, "--set", "ingest.measure_interval_s=60")
        with StateDir(tmp_path / "up").hold():
            _, before = await examine(gatelog, *words)
        parts = ("ingest", "actuator", "measure", "devices", "owned-groups")
        assert {before["cluster", f"may {part}"]["verdict"] for part in parts} == {"fail"}
        assert "this user, stranger, may not" in before["cluster", "may ingest"]["detail"]
        line = remedy("rights", Installation(how="up"))
        assert "gatelog rights USER | kubectl apply --server-side -f -" in line
        code, out, err = await asyncio.to_thread(gatelog, "rights", "stranger", *words[-6:])
        assert (code, err) == (0, "")
        for obj in yaml.safe_load_all(out):
            plural = f"{obj['kind'].lower()}s"
            path = f"/apis/{obj['apiVersion']}/{plural}/{obj['metadata']['name']}"
            answer = await kube.request(
                "PATCH",
                f"{path}?fieldManager=kubectl",
                body=json.dumps(obj).encode(),
                content_type="application/apply-patch+yaml",
            )
            assert answer.status == 201, answer.message()
        with StateDir(tmp_path / "up").hold():
            _, found = await examine(gatelog, *words)
        assert {found["cluster", f"may {part}"]["verdict"] for part in parts} == {"ok"}
        await kube.close()


async def node(kube: KubeClient, name: str, ready: str, renewed: datetime) -> None:
    at = renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    await post(kube, "/api/v1/nodes", "Node", name)
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    condition |= {"reason": "R", "message": "no network"}
    await say(kube, f"/api/v1/nodes/{name}", {"conditions": [condition]})
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    await post(kube, path, "Lease", name, spec={"renewTime": at, "holderIdentity": name})


async def test_a_node_that_is_away_is_named_and_so_is_one_whose_clock_is_wrong(
    gatelog: Gatelog, away: Bare, tmp_path: Path
) -> None:
    """Four deployments were named, the node was not; of a skew of 2 minutes nothing was said."""
    _, kube = away
    now = datetime.now(UTC)
    for name, ready, renewed in (
        ("good", "True", now + timedelta(seconds=60)),
        ("away", "Unknown", now - timedelta(seconds=65)),
        ("fast", "True", now + timedelta(seconds=120)),
    ):
        await node(kube, name, ready, renewed if name != "good" else now)
    pod = {"containers": [{"name": "main", "image": "x"}], "nodeName": "away"}
    pods = f"/api/v1/namespaces/{SYSTEM}/pods"
    await post(kube, pods, "Pod", "gatelog-ingest", spec=pod)
    words = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--state-dir", str(tmp_path / "none"))
    _, found = await examine(gatelog, *words)
    gone, clock = found["cluster", "nodes"], found["cluster", "clock"]
    assert gone["verdict"] == "fail" and "kubelet is away of away;" in gone["detail"]
    order = list(found)
    assert order.index(("cluster", "nodes")) < order.index(("cluster", "gating")), "cause first"
    assert "pods of gatelog are on away" in gone["detail"]
    assert clock["verdict"] == "warn" and "node fast is" in clock["detail"]
    assert "good" not in clock["detail"] and "ahead of the API server's" in clock["detail"]
    assert found["cluster", "clock here"]["verdict"] == "ok"


async def test_a_kubelet_that_answers_is_not_called_away(
    gatelog: Gatelog, away: Bare, tmp_path: Path
) -> None:
    """Ready is False by the kubelet's own word: its node was called away, to be deleted."""
    _, kube = away
    await node(kube, "unwell", "False", datetime.now(UTC))
    words = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--state-dir", str(tmp_path / "none"))
    _, found = await examine(gatelog, *words)
    assert found["cluster", "nodes"]["verdict"] == "ok"
    unwell = found["cluster", "nodes not ready"]
    assert unwell["verdict"] == "warn" and "of unwell (R: no network)" in unwell["detail"]
    assert "describe node unwell" in unwell["remedy"] and "delete" not in unwell["remedy"]
    assert "of 1 nodes none" in found["cluster", "clock"]["detail"], "it renews its Lease"


async def test_all_nodes_are_looked_at(
    gatelog: Gatelog, away: Bare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what came after the first page it was said that every kubelet is heard of."""
    _, kube = away
    for name, ready in (("a", "True"), ("b", "True"), ("c", "Unknown")):
        await node(kube, name, ready, datetime.now(UTC))
    monkeypatch.setattr(clusterinfo, "PAGE", 2)
    listed = await clusterinfo.every(kube, "/api/v1/nodes") or ()
    assert [one["metadata"]["name"] for one in listed] == ["a", "b", "c", "node-a"]
    assert await clusterinfo.every(kube, "/apis/x/v1/nothing") == []
    looked = await nodes.examine(kube, UNKNOWN)
    said = [(one.verdict, one.detail) for one in looked if one.what == nodes.NODES]
    assert said == [("warn", "the kubelet is away of c")]


async def test_a_stopped_queue_is_resumed_by_the_line_that_is_printed(
    gatelog: Gatelog, away: Bare, tmp_path: Path
) -> None:
    _, kube = away
    words = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--state-dir", str(tmp_path / "none"))

    async def inactive(status: str) -> None:
        condition = {"type": "Active", "status": status, "reason": "Stopped", "message": "m"}
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        await say(kube, f"{QUEUES}/busy", {"conditions": [condition]})

    stop = ("stop", "clusterqueue", "busy", *words[:2])
    assert (await asyncio.to_thread(gatelog, *stop))[0] == 0
    await inactive("False")
    _, found = await examine(gatelog, *words)
    printed = found["queues", "clusterqueues"]["remedy"].partition(";")[0]
    assert printed == "gatelog resume clusterqueue busy"
    code, _, err = await asyncio.to_thread(gatelog, *printed.split()[1:], *words[:2])
    assert code == 0, err
    _, queue = await kube.json("GET", f"{QUEUES}/busy")
    assert queue["spec"].get("stopPolicy", "None") == "None"
