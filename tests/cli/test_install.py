"""Setting a cluster up, against the stand-in and a server that is too old."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import yaml

from gatelog import clusterinfo, install, manifests, policies
from gatelog.errors import CommandFailed, UsageFailed
from ingest.webhook.policy import ACTUATOR_USER
from podgroup.runtime.kube import KubeClient
from podgroup.runtime.settings import Settings, WebhookSettings
from simcluster import SimCluster
from simcluster.patches import json_patch

Bare = tuple[SimCluster, KubeClient]
Distant = Callable[[str], Awaitable[KubeClient]]
POLICIES = ("admissionregistration.k8s.io", "mutatingadmissionpolicies")


async def test_kinds_are_installed_once_and_served_then(bare_cluster: Bare) -> None:
    cluster, kube = bare_cluster
    before = await clusterinfo.kueue(kube)
    assert before.missing == list(clusterinfo.NEEDED_KINDS) and before.version == ""
    done = await install.install_kinds(kube)
    assert len(done) == 5 and all(d.startswith("CustomResourceDefinition ") for d in done)
    after = await clusterinfo.kueue(kube)
    assert after.missing == [] and after.version == "v1beta2"
    assert await install.install_kinds(kube) == []
    assert len(cluster.objects("apiextensions.k8s.io", "customresourcedefinitions")) == 5


async def test_a_half_installed_kueue_is_left_alone(bare_cluster: Bare) -> None:
    _, kube = bare_cluster
    from gatelog import manifests

    crds = manifests.read("crds/workloads.yaml")
    await install.apply(kube, crds)
    with pytest.raises(CommandFailed, match=r"localqueues.*does not mix"):
        await install.install_kinds(kube)


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
    for name in ("gatelog-pods", "gatelog-fence"):
        assert f"'{ACCOUNT}'" in found[name]["matchConditions"][0]["expression"]
    for name, spec in found.items():
        if name != "gatelog-fence":
            (wish,) = spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
            assert wish["values"] == ["a", "b"]
    assert "namespaceSelector" not in found["gatelog-fence"]["matchConstraints"]
    # A person keeps their hands free; the gate is theirs all the same.
    person = fitted(Settings(webhook=WebhookSettings(actuator_user="jo")))
    assert "'jo'" in person["gatelog-pods"]["matchConditions"][0]["expression"]
    assert ACTUATOR_USER in person["gatelog-fence"]["matchConditions"][0]["expression"]
    none = fitted(Settings(webhook=WebhookSettings(queue_owner_kinds=())))
    assert "gatelog-owner-labels" not in none
