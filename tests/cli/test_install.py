"""Setting a cluster up, against the stand-in and a server that is too old."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatelog.allinone import Setup, run_up
from gatelog.cluster import clusterinfo, crds, install, policies
from gatelog.examine import cluster as cluster_examine
from gatelog.shell.errors import CommandFailed, UsageFailed
from gatelog.shell.narrator import Narrator
from ingest.webhook.policy import ACTUATOR_USER
from runtime import manifests
from runtime.kube import KubeClient, connect
from runtime.settings import KubernetesSettings, Settings, WebhookSettings
from runtime.settings_source import load
from simcluster import Settings as SimSettings
from simcluster.access import User
from simcluster.patches import json_patch
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

Bare = tuple[SimCluster, KubeClient]
Distant = Callable[[str], Awaitable[KubeClient]]
POLICIES = ("admissionregistration.k8s.io", "mutatingadmissionpolicies")


CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")


def versions(cluster: SimCluster) -> dict[str, str]:
    """Name of each CRD -> its resource version."""
    return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in cluster.objects(*CRDS)}


async def test_kinds_are_installed_once_and_served_then(bare_cluster: Bare) -> None:
    cluster, kube = bare_cluster
    before = await clusterinfo.kueue(kube)
    assert before.missing == list(clusterinfo.NEEDED_KINDS) and before.version == ""
    done, left = await install.install_kinds(kube)
    assert len(done) == 8 and all(d.startswith("CustomResourceDefinition ") for d in done)
    assert left == []
    after = await clusterinfo.kueue(kube)
    assert after.missing == [] and after.version == "v1beta2"
    there = versions(cluster)
    assert await install.install_kinds(kube) == ([], []) and versions(cluster) == there


def of_before(**labels: str) -> list[Any]:
    """The CRDs as an earlier release had them: with a field less in a schema."""
    found = copy.deepcopy(crds.definitions())
    for crd in found:
        if labels:
            crd["metadata"]["labels"] = labels
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        if "spec" in schema and crd["spec"]["names"]["plural"] != "resourceflavors":
            spec = schema["spec"]["properties"]
            del spec[sorted(spec)[-1]]
    return found


async def test_kinds_of_an_earlier_release_are_brought_up_to_date(bare_cluster: Bare) -> None:
    cluster, kube = bare_cluster
    await install.apply(kube, of_before())
    there = versions(cluster)
    found = await cluster_examine.kinds(kube)
    assert found.verdict == "warn" and "workloads" in found.detail
    done, left = await install.install_kinds(kube)
    changed = {name for name in there if versions(cluster)[name] != there[name]}
    assert {d.split()[1] for d in done} == changed
    assert len(done) == 6 and left == []
    assert (await crds.compare(kube)) == ([], [], [])
    assert (await cluster_examine.kinds(kube)).verdict == "ok"


async def test_who_may_not_write_crds_goes_on_with_those_of_before(tmp_path: Path) -> None:
    reader = {
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}],
    }
    to_bob = {
        "metadata": {"name": "reader"},
        "roleRef": {"kind": "ClusterRole", "name": "reader"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    settings = SimSettings(kueue_kinds=False, users={"bob-token": User(name="bob")})
    async with SimCluster(settings) as cluster:
        file = cluster.kubeconfig(tmp_path / "kubeconfig")
        admin = await connect(KubernetesSettings(kubeconfig=str(file)))
        await install.apply(admin, of_before())
        for kind, obj in (("clusterroles", reader), ("clusterrolebindings", to_bob)):
            path = f"/apis/rbac.authorization.k8s.io/v1/{kind}"
            assert (await admin.json("POST", path, body=obj))[0] == 201
        file.write_text(file.read_text().replace(cluster.token, "bob-token"))
        bob = await connect(KubernetesSettings(kubeconfig=str(file)))
        done, left = await install.install_kinds(bob)
        assert done == [] and len(left) == 6
        assert "answered 403" in left[0] and crds.BY_HAND in left[0]
        for kube in (admin, bob):
            await kube.close()


async def test_an_interrupted_installation_is_finished(bare_cluster: Bare) -> None:
    _, kube = bare_cluster
    await install.apply(kube, manifests.read("crds/workloads.yaml"))
    assert len((await install.install_kinds(kube)).applied) == 7
    assert (await clusterinfo.kueue(kube)).missing == []


async def test_kueues_own_kinds_are_left_as_they_are(bare_cluster: Bare) -> None:
    cluster, kube = bare_cluster
    theirs = of_before(**{"app.kubernetes.io/name": "kueue"})
    await install.apply(kube, theirs[:1])
    with pytest.raises(CommandFailed, match=r"localqueues.*does not mix"):
        await install.install_kinds(kube)
    await install.apply(kube, theirs)
    there = versions(cluster)
    done, (left,) = await install.install_kinds(kube)
    assert done == [] and "workloads" in left and "left alone" in left
    assert versions(cluster) == there
    assert (await cluster_examine.kinds(kube)).verdict == "ok"


async def test_kinds_with_a_version_that_ours_lack_are_not_narrowed(bare_cluster: Bare) -> None:
    cluster, kube = bare_cluster
    wider = copy.deepcopy(crds.definitions())
    for crd in wider:
        older = copy.deepcopy(crd["spec"]["versions"][0])
        crd["spec"]["versions"].append(older | {"name": "v1beta1", "storage": False})
    await install.apply(kube, wider)
    there = versions(cluster)
    assert (await install.install_kinds(kube)).applied == [] and versions(cluster) == there


async def test_policy_is_applied_and_applying_again_changes_nothing(bare_cluster: Bare) -> None:
    cluster, kube = bare_cluster
    settings = await install.as_ourselves(kube, Settings())
    assert settings.webhook.actuator_user == "sim-admin"
    done = await install.install_policy(kube, settings)
    assert any(d.startswith("MutatingAdmissionPolicy ") for d in done)
    versions = [o["metadata"]["resourceVersion"] for o in cluster.objects(*POLICIES)]
    assert versions and await install.install_policy(kube, settings) == done
    assert versions == [o["metadata"]["resourceVersion"] for o in cluster.objects(*POLICIES)]


async def test_an_old_server_gets_neither_policy_nor_webhook(distant_server: Distant) -> None:
    old_server = await distant_server("1.29")
    with pytest.raises(CommandFailed, match=r"1\.36.*v1\.29\.4.*--install webhook"):
        await install.install_policy(old_server, Settings())
    with pytest.raises(CommandFailed, match=r"1\.30.*v1\.29\.4"):
        await install.webhook_settings(old_server, Settings())
    assert (await clusterinfo.version(old_server)).at_least(1, 29)


async def test_a_webhook_on_loopback_is_refused_for_a_distant_server(
    bare_cluster: Bare, distant_server: Distant
) -> None:
    distant = await distant_server("1.34")
    with pytest.raises(UsageFailed, match=r"cannot reach.*127\.0\.0\.1:9443.*webhook\.url"):
        await install.webhook_settings(distant, Settings())
    chosen = Settings(webhook=WebhookSettings(url="https://10.0.0.1:1/"))
    on = await install.webhook_settings(distant, chosen)
    assert on.webhook.enabled and on.webhook.url == "https://10.0.0.1:1"
    here = await install.webhook_settings(bare_cluster[1], Settings())
    assert here.webhook.url == "https://127.0.0.1:9443"
    with pytest.raises(UsageFailed, match="https only"):
        plain = Settings(webhook=WebhookSettings(url="http://h:1"))
        await install.webhook_settings(bare_cluster[1], plain)


async def test_waiting_for_a_webhook_nobody_registers_ends_with_a_sentence(
    bare_cluster: Bare,
) -> None:
    _, kube = bare_cluster
    assert await install.registered_url(kube) == ""
    with pytest.raises(CommandFailed, match="registered: nothing"):
        await install.wait_registered(kube, deadline_s=0.2)


async def test_who_looks_whether_somebody_listens_can_be_stopped_at_any_moment() -> None:
    """Also when the answer comes as it is stopped: what hung then was `gatelog up`, for ever."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        for turns in range(40):
            looking = asyncio.create_task(install.listens_at(f"https://127.0.0.1:{port}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            told = looking.cancel()
            await asyncio.wait([looking])
            assert looking.cancelled() == told


async def test_a_refusal_of_the_server_is_passed_on(bare_cluster: Bare) -> None:
    _, kube = bare_cluster
    broken = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "Not Valid!"},
        "spec": {},
    }
    with pytest.raises(CommandFailed, match="cannot install CustomResourceDefinition Not Valid!"):
        await install.apply(kube, [broken])
    with pytest.raises(CommandFailed, match="Secret"):
        await install.apply(
            kube, [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}]
        )


ACCOUNT = "system:serviceaccount:queues:gatelog"


def fitted(settings: Settings) -> dict[str, Any]:
    """The policies for these settings, by name."""
    found = policies.policies(settings)
    return {o["metadata"]["name"]: o["spec"] for o in found if not o["kind"].endswith("Binding")}


def test_policies_fit_the_settings_as_the_components_do() -> None:
    alone = fitted(Settings())
    beside = fitted(Settings(mode="kueue"))
    root = manifests.root()
    kinds = ("gatelog-queued-pods", "gatelog-owner-labels")
    for name in ("policy-without-kueue", "policy-every-pod"):
        component = yaml.safe_load((root / f"components/{name}/kustomization.yaml").read_text())
        patched = {kind: copy.deepcopy(beside[kind]) for kind in kinds}
        for patch in component["patches"]:
            target = patch["target"]["name"]
            operations = yaml.safe_load(patch["patch"])
            for one in operations:
                one["path"] = one["path"].removeprefix("/spec")
            patched[target] = json_patch(patched[target], operations)
        if name == "policy-every-pod":
            every = WebhookSettings(manage_jobs_without_queue_name=True)
            alone = fitted(Settings(mode="kueue", webhook=every))
        assert patched == {kind: alone[kind] for kind in kinds}, name


def test_the_base_is_what_kueue_beside_us_asks_for() -> None:
    written = {
        o["metadata"]["name"]: o["spec"]
        for o in manifests.read(*policies.POLICY_FILES, *policies.FENCE_FILES)
        if not o["kind"].endswith("Binding")
    }
    assert written == fitted(Settings(mode="kueue"))


def test_policies_name_the_account_and_the_namespaces_of_the_settings() -> None:
    chosen = WebhookSettings(actuator_user=ACCOUNT, excluded_namespaces=("a", "b"))
    found = fitted(Settings(webhook=chosen))
    for name in ("gatelog-pods", "gatelog-fence", "gatelog-queue-fence"):
        assert f"'{ACCOUNT}'" in found[name]["matchConditions"][0]["expression"]
    for name, spec in found.items():
        if not name.endswith("fence") and name != "gatelog-new-workloads":
            (wish,) = spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
            assert wish["values"] == ["a", "b"]
    assert found["gatelog-fence"]["matchConstraints"]["namespaceSelector"] == {}
    # A person keeps their hands free; the gate is theirs all the same.
    person = fitted(Settings(webhook=WebhookSettings(actuator_user="jo")))
    assert "'jo'" in person["gatelog-pods"]["matchConditions"][0]["expression"]
    assert ACTUATOR_USER in person["gatelog-fence"]["matchConditions"][0]["expression"]
    none = fitted(Settings(webhook=WebhookSettings(queue_owner_kinds=())))
    assert "gatelog-owner-labels" not in none


async def test_up_refuses_beside_kueues_own_pod_integration(
    bare_cluster: Bare, tmp_path: Path
) -> None:
    cluster, _ = bare_cluster
    hooks = [{"name": "mpod.kb.io", "clientConfig": {"url": "https://127.0.0.1:9/kueue"}}]
    hooks = [h | {"admissionReviewVersions": ["v1"], "sideEffects": "None"} for h in hooks]
    await cluster.create(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
        {"metadata": {"name": "kueue-mutating-webhook-configuration"}, "webhooks": hooks},
    )
    await cluster.create("", "namespaces", {"metadata": {"name": "kueue-system"}})
    config = "integrations:\n  frameworks: [batch/job, deployment]\n"
    data = {"controller_manager_config.yaml": config}
    obj = {"metadata": {"name": "kueue-manager-config"}, "data": data}
    await cluster.create("", "configmaps", obj, "kueue-system")
    values = {"kubernetes.kubeconfig": str(tmp_path / "kubeconfig")}
    settings = load(None, {}, values | {"state_dir": str(tmp_path / "state")})
    narrator = Narrator(settings.log, "up")
    with pytest.raises(CommandFailed, match=r"deployment in integrations.frameworks.*--beside-kue"):
        await run_up(settings, asyncio.Event(), narrator, Setup("policy"))
    assert not cluster.objects("apiextensions.k8s.io", "customresourcedefinitions")
    stop = asyncio.Event()

    async def ready(_: object) -> None:
        stop.set()

    await run_up(settings, stop, narrator, Setup("policy", beside_kueue=True), on_ready=ready)
    state = tmp_path / "state"
    open_to_others = [f for f in (state, *state.rglob("*")) if f.stat().st_mode & 0o077]
    assert not [f for f in open_to_others if f.name != ".gitignore"], "of this user alone"
