"""`gatelog doctor` with parts missing; with everything in place it is in test_up."""

import json
import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from gatelog.cluster import install
from gatelog.examine import installed, readmodel
from podgroup.model import names
from projector import tables
from projector.storage.database import writer
from projector.upkeep import migrate
from runtime.jetstream import Bus
from runtime.kube import KubeClient, connect
from runtime.settings import KubernetesSettings, NatsSettings, Settings, WebhookSettings
from tests.cli.conftest import Ran
from tests.support.databases import migrated
from tests.support.standin import SimCluster
from tests.support.toy import Toy

Gatelog = Callable[..., Ran]
Found = dict[tuple[str, str], dict[str, Any]]


def examine(gatelog: Gatelog, *args: str) -> tuple[int, Found]:
    code, out, err = gatelog("doctor", "--json", *args)
    assert err == ""
    findings = json.loads(out)
    for finding in findings:
        assert finding["verdict"] in ("ok", "skip") or finding["remedy"], finding
    return code, {(f["area"], f["what"]): f for f in findings}


def test_with_nothing_there_it_says_what_is_missing_and_what_to_do(
    gatelog: Gatelog, tmp_path: Path
) -> None:
    kubeconfig = str(tmp_path / "none")
    args = ("--state-dir", str(tmp_path / "state"), "--kubeconfig", kubeconfig)
    code, found = examine(gatelog, *args)
    assert code == 1
    assert found["settings", "read"]["verdict"] == "ok"
    assert "read-model.sqlite3" in found["database", "reachable"]["detail"]
    assert "gatelog up" in found["database", "reachable"]["remedy"]
    assert found["log", "reachable"]["verdict"] == "warn"
    assert kubeconfig in found["cluster", "reachable"]["detail"]
    assert not (tmp_path / "state").exists(), "doctor changed something"
    code, out, _ = gatelog("doctor", *args)
    assert code == 1 and "2 of 4 checks failed, 1 with a warning" in out
    assert max(map(len, out.splitlines())) <= 100


def test_in_a_pipe_each_finding_is_one_line_that_says_all_of_itself(
    gatelog: Gatelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS")
    words = ("--state-dir", str(tmp_path / "state"), "--kubeconfig", str(tmp_path / "none"))
    _, text, _ = gatelog("doctor", *words)
    _, found, _ = gatelog("doctor", *words, "-o", "json")
    *lines, blank, last = text.splitlines()
    assert blank == "" and "checks failed" in last
    for line, finding in zip(lines, json.loads(found), strict=True):
        assert line.split()[:2] == [finding["verdict"], finding["area"]]
        assert line.endswith(finding["remedy"] or finding["detail"])


def test_a_database_without_schema_and_one_without_projector(
    gatelog: Gatelog, tmp_path: Path
) -> None:
    file = tmp_path / "db.sqlite3"
    sqlite3.connect(file).close()
    _, found = examine(gatelog, "--db", str(file))
    assert found["database", "schema"]["verdict"] == "fail"
    assert "gatelog migrate" in found["database", "schema"]["remedy"]
    migrate.upgrade(f"sqlite:///{file}")
    _, found = examine(gatelog, "--db", str(file))
    assert found["database", "schema"]["verdict"] == "ok"
    assert found["database", "checkpoint"]["verdict"] == "warn"


def test_servers_that_are_not_there(gatelog: Gatelog, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        '{"apiVersion": "v1", "kind": "Config", "current-context": "c", '
        '"clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}], '
        '"users": [{"name": "u", "user": {"token": "t"}}], '
        '"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}'
    )
    code, found = examine(
        gatelog,
        *("--set", "nats.url=nats://127.0.0.1:9", "--kubeconfig", str(file)),
        *("--db", "postgresql://u:s3cret@127.0.0.1:9/d"),
    )
    assert code == 1
    for area in ("database", "log", "cluster"):
        assert found[area, "reachable"]["verdict"] == "fail", area
        assert "s3cret" not in found[area, "reachable"]["detail"]


@pytest.fixture
def log_of(bus: Bus, nats_settings: NatsSettings) -> tuple[str, ...]:
    return (
        *("--set", f"nats.url={nats_settings.url}", "--set", f"nats.user={nats_settings.user}"),
        *("--set", f"nats.password_file={nats_settings.password_file}"),
    )


async def _in_thread(gatelog: Gatelog, *args: str) -> tuple[int, Found]:
    import asyncio

    return await asyncio.to_thread(examine, gatelog, *args)


async def test_a_log_that_ends_before_the_checkpoint(
    gatelog: Gatelog, busy_db: tuple[str, Toy], log_of: tuple[str, ...]
) -> None:
    url, toy = busy_db
    args = ("--db", url, "--cluster", "test", *log_of)
    _, found = await _in_thread(gatelog, *args)
    assert found["log", "reachable"]["verdict"] == "ok"
    lag = found["log", "lag"]
    if f"before the checkpoint {toy.position}" in lag["detail"]:
        assert lag["verdict"] == "fail" and "epoch" in lag["remedy"]
    else:  # other tests have written more to this server's stream than the toy's messages
        assert lag["detail"] == "none" or "behind" in lag["detail"]
    assert found["log", "durability"]["verdict"] == "skip"
    assert "sync_interval" in found["log", "durability"]["detail"]
    _, found = await _in_thread(gatelog, "--db", url, *log_of)
    assert "there are test" in found["database", "checkpoint"]["detail"]
    assert found["log", "lag"]["verdict"] == "skip"


async def test_a_cluster_that_gates_nothing(
    gatelog: Gatelog, bare_cluster: tuple[SimCluster, KubeClient], tmp_path: Path
) -> None:
    _, kube = bare_cluster
    args = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--state-dir", str(tmp_path / "s"))
    code, found = await _in_thread(gatelog, *args)
    assert code == 1
    assert found["cluster", "reachable"]["verdict"] == "ok"
    assert found["cluster", "may ingest"]["verdict"] == "ok"
    assert found["cluster", "kinds"]["verdict"] == "fail"
    assert "workloads" in found["cluster", "kinds"]["detail"]
    assert found["cluster", "measured"]["verdict"] == "ok"
    assert "has no metrics API" in found["cluster", "measured"]["detail"]
    assert found["cluster", "gating"]["verdict"] == "fail"
    await kube.json(
        "POST",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        body={
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "gatelog-pods"},
            "webhooks": [_webhook("queued.mpod.gatelog", "https://127.0.0.1:9/mutate")],
        },
    )
    await kube.json(
        "POST",
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
        body={
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "kueue-mutating-webhook-configuration"},
            "webhooks": [_webhook("mpod.kb.io", "https://127.0.0.1:9/kueue")],
        },
    )
    code, found = await _in_thread(gatelog, *args)
    assert "nothing listens there" in found["cluster", "gating"]["detail"]
    assert found["cluster", "kueue"]["verdict"] == "warn"
    assert "mode is builtin" in found["cluster", "kueue"]["detail"]
    config = "integrations:\n  frameworks: [batch/job, pod]\n"
    await kube.json("POST", "/api/v1/namespaces", body={"metadata": {"name": "kueue-system"}})
    status, _ = await kube.json(
        "POST",
        "/api/v1/namespaces/kueue-system/configmaps",
        body={
            "metadata": {"name": "kueue-manager-config"},
            "data": {"controller_manager_config.yaml": config},
        },
    )
    assert status == 201
    also = ("--set", "mode=kueue", "--set", "ingest.measure_interval_s=60")
    code, found = await _in_thread(gatelog, *args, *also)
    assert found["cluster", "may measure"]["verdict"] == "ok"
    assert found["cluster", "measured"]["verdict"] == "warn"
    assert "install metrics-server" in found["cluster", "measured"]["remedy"]
    assert found["cluster", "kueue"]["verdict"] == "fail"
    assert "pod integration is on" in found["cluster", "kueue"]["detail"]
    assert code == 1


def _webhook(name: str, url: str) -> dict[str, Any]:
    return {
        "name": name,
        "clientConfig": {"url": url},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "rules": [],
    }


@pytest.mark.parametrize("way", ["policy", "webhook"])
async def test_a_topology_that_nobody_waits_for_is_told(
    gatelog: Gatelog, bare_cluster: tuple[SimCluster, KubeClient], tmp_path: Path, way: str
) -> None:
    _, kube = bare_cluster
    await install.install_kinds(kube)
    args = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--state-dir", str(tmp_path / "s"))
    off = Settings(mode="kueue", webhook=WebhookSettings(topology_gate=False))
    beside: tuple[str, ...] = (*args, "--set", "mode=kueue")
    if way == "webhook":
        beside = (*beside, "--set", "webhook.topology_gate=false")
    _, found = await _in_thread(gatelog, *beside)
    assert ("cluster", "topology") not in found
    asking = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "rank-0",
            "labels": {names.MANAGED_LABEL: "true"},
            "annotations": {names.TOPOLOGY_REQUIRED: "example.com/block"},
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    # Made while admission was away: with it, a pod that bears the label gets a gate or is refused.
    assert (await kube.json("POST", "/api/v1/namespaces/default/pods", body=asking))[0] == 201
    if way == "policy":
        await install.install_policy(kube, off)
    _, found = await _in_thread(gatelog, *beside)
    told = found["cluster", "topology"]
    assert told["verdict"] == "warn"
    assert (
        "pod default/rank-0 asks for a topology" in told["detail"]
        and "may run before" in told["detail"]
    )
    _, found = await _in_thread(gatelog, *args)
    assert "builtin" in found["cluster", "topology"]["detail"]
    if way == "policy":
        await install.install_policy(kube, Settings(mode="kueue"))
    else:
        beside = (*args, "--set", "mode=kueue")
    _, found = await _in_thread(gatelog, *beside)
    assert found["cluster", "topology"]["verdict"] == "ok"


@pytest.mark.parametrize(
    ("ago", "stopped", "verdict"),
    [
        (timedelta(minutes=5), False, "warn"),
        (timedelta(days=2), False, "ok"),
        (timedelta(days=2), True, "warn"),
    ],
)
def test_what_is_parked_is_a_warning_while_it_is_news_or_holds_a_group_up(
    gatelog: Gatelog, busy_db: tuple[str, Toy], ago: timedelta, stopped: bool, verdict: str
) -> None:
    url, toy = busy_db
    engine = writer(url)
    with engine.begin() as connection:
        of = tables.groups.c.name == "a"
        group = connection.execute(sa.select(tables.groups.c.id).where(of)).scalar_one()
        row = {"cluster": "test", "shard": 0, "seq": 60, "ord": 0, "at": toy.now - ago}
        said = {"reason": "FoldFailed", "message": "x", "group_id": group, "object": "Pod ns/a9"}
        more = {"resolution": "", "resolved_by": ""}
        connection.execute(sa.insert(tables.parked).values(**row, **said, **more))
        if stopped:
            held = sa.update(tables.groups).where(of).values(parked="60/0 (Pod ns/a9): x")
            connection.execute(held)
    engine.dispose()
    _, found = examine(gatelog, "--db", url, "--cluster", "test")
    assert found["database", "parked"]["verdict"] == verdict, found["database", "parked"]
    assert ("for 1 of them a group is stuck" in found["database", "parked"]["detail"]) is stopped


async def test_a_cluster_queue_that_can_admit_nothing_fails(tmp_path: Path) -> None:
    async with SimCluster() as cluster:
        file = cluster.kubeconfig(tmp_path / "kubeconfig")
        kube = await connect(KubernetesSettings(kubeconfig=str(file)))
        flavors = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]
        groups = [{"coveredResources": ["cpu"], "flavors": flavors}]
        for name, spec in (
            ("good", {"namespaceSelector": {}, "resourceGroups": groups}),
            ("held", {"stopPolicy": "Hold"}),
            ("no-selector", {"resourceGroups": groups}),
            ("no-quota", {"namespaceSelector": {}}),
        ):
            queue: dict[str, Any] = {"metadata": {"name": name}, "spec": spec}
            await cluster.create("kueue.x-k8s.io", "clusterqueues", queue)
        found = next(f for f in await installed.queues(kube) if f.what == "clusterqueues")
        await kube.close()
    assert found.verdict == "fail"
    assert found.detail == (
        "ClusterQueue no-quota has no resourceGroups, so it has no quota for any resource; "
        "ClusterQueue no-selector has no namespaceSelector, so it admits from no namespace"
    )
    assert "namespaceSelector ({} selects every namespace)" in found.remedy


async def test_a_least_run_time_that_cannot_be_read_is_named_with_its_class(tmp_path: Path) -> None:
    async with SimCluster() as cluster:
        file = cluster.kubeconfig(tmp_path / "kubeconfig")
        kube = await connect(KubernetesSettings(kubeconfig=str(file)))
        for name, said in (("good", "600"), ("bad", "10m")):
            meta = {"name": name, "annotations": {names.LEAST_RUN_ANNOTATION: said}}
            made: dict[str, Any] = {"metadata": meta, "value": 1}
            await cluster.create("kueue.x-k8s.io", "workloadpriorityclasses", made)
        (found,) = [f for f in await installed.queues(kube) if f.what == "least run times"]
        await kube.close()
    assert found.verdict == "warn" and "good" not in found.detail
    assert "WorkloadPriorityClass bad: '10m' is no least run time: write seconds" in found.detail


async def test_flavors_that_no_node_can_be_of_are_named_with_their_queue(tmp_path: Path) -> None:
    async with SimCluster() as cluster:
        file = cluster.kubeconfig(tmp_path / "kubeconfig")
        kube = await connect(KubernetesSettings(kubeconfig=str(file)))
        case = Path(__file__).parents[1] / "core" / "cases" / "flavors-same-label.yaml"
        for made in yaml.safe_load_all(case.read_text()):
            await cluster.create("kueue.x-k8s.io", f"{made['kind'].lower()}s", made)
        (found,) = [f for f in await installed.queues(kube) if f.what == "flavors"]
        await kube.request(
            "PATCH",
            "/apis/kueue.x-k8s.io/v1beta2/resourceflavors/gpu-zone-b",
            body=b'{"spec": {"nodeLabels": {"zone": "a"}}}',
            content_type="application/merge-patch+json",
        )
        assert not [f for f in await installed.queues(kube) if f.what == "flavors"]
        await kube.close()
    assert found.verdict == "warn"
    assert found.detail == (
        "ClusterQueue two: a pod that asks for cpu and example.com/gpu never starts, since flavor "
        "gpu-zone-b wants nodes with zone=b, flavor cpu-zone-a of the same pods zone=a"
    )


def test_a_disk_that_is_full_is_said_though_the_projector_cannot(
    gatelog: Gatelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read model and log of `gatelog up` are on one disk: doctor said to start it."""
    file = tmp_path / "db.sqlite3"
    migrated(f"sqlite:///{file}")
    _, found = examine(gatelog, "--db", str(file))
    assert ("database", "room") not in found
    monkeypatch.setattr(readmodel, "LEAST_ROOM", 1 << 62)
    _, found = examine(gatelog, "--db", str(file))
    room = found["database", "room"]
    assert room["verdict"] == "fail" and "MiB left" in room["detail"]
    assert "tried again by itself" in room["remedy"]
