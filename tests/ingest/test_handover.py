"""Replicas of the webhook come and go, and certificates with them: no pod is refused meanwhile.

Pods are created all the while on the stand-in, which verifies certificates against the registration
and follows a Service to one replica at a time.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from ingest.registration import own_certificates, register, registration, webhook
from ingest.webhook.install import configurations
from ingest.webhook.server import WebhookServer
from runtime.ca_bundle import MOST, merged, registered, trusts
from runtime.certificates import OwnCertificates, server_context
from runtime.health import Checks
from runtime.kube import KubeClient, connect
from runtime.rotation import GivenFiles, keep_fresh
from runtime.settings import KubernetesSettings, Settings, WebhookSettings
from tests.deploy.manifests import DEPLOY, documents
from tests.ingest.world import until
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

SERVICE = "gatelog-system/gatelog-webhook"
NAMES = ("gatelog-webhook.gatelog-system.svc",)
NOW = datetime.now(UTC)


@asynccontextmanager
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[SimCluster, KubeClient]]:
    async with SimCluster() as sim:
        file = sim.kubeconfig(tmp_path / "kubeconfig")
        kube = await connect(KubernetesSettings(kubeconfig=str(file)))
        try:
            yield sim, kube
        finally:
            await kube.close()


class Users:
    """Create pods that name a queue, one after the other, until told to stop."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube
        self._stop = False
        self.made = 0
        self.refused: list[Any] = []

    async def run(self) -> None:
        container = {"name": "c", "image": "job"}
        while not self._stop:
            name = f"pod-{self.made + len(self.refused)}"
            meta = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "q"}}
            body = {"metadata": meta, "spec": {"containers": [container]}}
            path = "/api/v1/namespaces/default/pods"
            status, answer = await self._kube.json("POST", path, body=body)
            if status == 201 and answer["spec"].get("schedulingGates"):
                self.made += 1
            else:
                self.refused.append((status, answer.get("message")))

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator["Users"]:
        task = asyncio.create_task(self.run())
        try:
            yield self
        finally:
            self._stop = True
            await task

    async def more(self, count: int = 20) -> None:
        """Wait until so many more pods were made, or one was refused."""
        before = self.made
        await until(lambda: self.made >= before + count or bool(self.refused), "more pods")


def replica(folder: Path, linger_s: float = 15.0, url: str = "") -> Settings:
    return msgspec.structs.replace(
        Settings(),
        state_dir=str(folder),
        webhook=WebhookSettings(enabled=True, port=0, linger_s=linger_s, url=url),
    )


async def ready(checks: Checks) -> None:
    """Wait until the replica may be sent to, as the kubelet's probe decides."""

    async def problems() -> bool:
        return not await checks.readiness()

    async with asyncio.timeout(20):
        while not await problems():
            await asyncio.sleep(0.01)


def address(server: WebhookServer) -> str:
    return urlsplit(server.url).netloc


GROUP = "admissionregistration.k8s.io"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"


def rendered() -> list[dict[str, Any]]:
    """What the chart renders, the mutating configuration first, but for its annotation."""
    return [
        obj | {"metadata": {"name": obj["metadata"]["name"], "labels": {"of": "a-chart"}}}
        for obj in documents(DEPLOY / "webhook" / "configuration.yaml")
    ]


async def installed(sim: SimCluster) -> dict[str, dict[str, Any]]:
    """Install what the chart renders; return it by kind."""
    return {
        obj["kind"]: await sim.create(GROUP, f"{obj['kind'].lower()}s", obj) for obj in rendered()
    }


def unchanged(sim: SimCluster, made: dict[str, dict[str, Any]]) -> None:
    """See to it that what was installed is as it was, but for the authorities."""
    for kind, before in made.items():
        (now,) = sim.objects("admissionregistration.k8s.io", f"{kind.lower()}s")
        assert now["metadata"]["labels"] == before["metadata"]["labels"]
        for hook, was in zip(now["webhooks"], before["webhooks"], strict=True):
            there = hook["clientConfig"].pop("caBundle")
            assert base64.b64decode(there).count(b"BEGIN CERTIFICATE") >= 1
            assert hook == was


@pytest.mark.timeout(60)
async def test_replicas_with_authorities_of_their_own_take_over(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (sim, kube), AsyncExitStack() as last:
        users = Users(kube)
        made = await installed(sim)
        before: AsyncExitStack | None = None
        for number in range(3):
            stack, checks = AsyncExitStack(), Checks()
            serving = webhook(replica(tmp_path / str(number)), kube, checks, heard_s=0.1)
            server = await stack.enter_async_context(serving)
            await ready(checks)
            if before is None:
                sim.webhook_services[SERVICE] = address(server)
                await last.enter_async_context(users.at_work())
                await users.more()
            else:
                # The old one is told to end while the endpoints still lead there.
                ending = asyncio.ensure_future(before.aclose())
                await users.more()
                sim.webhook_services[SERVICE] = address(server)
                await users.more()
                await ended(ending)
                await users.more()
            before = stack
        assert users.refused == [] and users.made >= 140
        assert before is not None
        ending = asyncio.ensure_future(before.aclose())
        await users.more()
        await last.aclose()
        await ended(ending)
        assert users.refused == []
        bundle = registered(
            sim.objects("admissionregistration.k8s.io", "mutatingwebhookconfigurations")[0]
        )
        assert bundle.count(b"BEGIN CERTIFICATE") == 3
        unchanged(sim, made)


async def ended(lingering: "asyncio.Future[None]") -> None:
    """Let what lingers end now, as a second signal does."""
    assert not lingering.done(), "it went before it was to"
    lingering.cancel()
    await asyncio.gather(lingering, return_exceptions=True)


async def test_two_that_register_at_once_are_both_trusted(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (sim, kube):
        made = await installed(sim)
        one, two = Checks(), Checks()
        a, b = (replica(tmp_path / name, linger_s=0) for name in ("a", "b"))
        async with webhook(a, kube, one, 0.05), webhook(b, kube, two, 0.05):
            assert set(await one.readiness()) <= {"ingest: webhook"}
            await asyncio.gather(ready(one), ready(two))
            (found,) = sim.objects("admissionregistration.k8s.io", "mutatingwebhookconfigurations")
            for settings in (a, b):
                assert trusts(registered(found), own_certificates(settings).ca_bundle())
            unchanged(sim, made)


def trusting(sim: SimCluster, plural: str) -> bool:
    """Whether what is registered names an authority."""
    return any(registered(found) for found in sim.objects(GROUP, plural))


async def removed(sim: SimCluster, kube: KubeClient) -> None:
    for plural in (MUTATING, VALIDATING):
        for found in sim.objects(GROUP, plural):
            path = f"/apis/{GROUP}/v1/{plural}/{found['metadata']['name']}"
            assert (await kube.request("DELETE", path)).status == 200


@pytest.mark.parametrize("where", ["behind a Service", "at an address"])
async def test_a_registration_that_was_removed_is_not_put_back_by_who_is_about_to_end(
    where: str, tmp_path: Path
) -> None:
    url = "https://127.0.0.1:0" if where == "at an address" else ""
    one, other = (replica(tmp_path / name, linger_s=0, url=url) for name in ("a", "b"))
    async with cluster(tmp_path) as (sim, kube):
        if not url:
            await installed(sim)

        async with webhook(one, kube, Checks(), 0.05, 0.05):
            await until(lambda: trusting(sim, MUTATING), "it is registered")
            await asyncio.sleep(0.5)  # and has been seen to be trusted
            await removed(sim, kube)
            await asyncio.sleep(1)  # twenty looks
            assert sim.objects(GROUP, MUTATING) == []
        async with webhook(other, kube, Checks(), 0.05, 0.05):
            if not url:
                await installed(sim)
            await until(lambda: trusting(sim, MUTATING), "it is registered with again")


async def test_behind_a_service_nobody_who_calls_is_ready(tmp_path: Path) -> None:
    """Policies gate still, or the tool that installs registrations is under way."""
    async with cluster(tmp_path) as (sim, kube):
        checks = Checks()
        async with webhook(replica(tmp_path / "a", linger_s=0), kube, checks, 0.05, 0.05):
            await ready(checks)
            first, second = rendered()
            assert sim.objects(GROUP, MUTATING) == [], "it is the chart's to install"
            await sim.create(GROUP, MUTATING, first)
            await until(lambda: trusting(sim, MUTATING), "the first names our authority")
            assert sim.objects(GROUP, VALIDATING) == [], "it is the chart's to install"
            await sim.create(GROUP, VALIDATING, second)
            await until(lambda: trusting(sim, VALIDATING), "the second names our authority")
            assert not await checks.readiness()


@pytest.mark.parametrize("status", [403, 429, 500])
async def test_an_answer_that_says_nothing_leaves_the_registration_as_it_is(
    status: int, tmp_path: Path
) -> None:
    async with cluster(tmp_path) as (sim, kube):
        made = await installed(sim)
        checks = Checks()
        async with webhook(replica(tmp_path / "a", linger_s=0), kube, checks, 0.05):
            await ready(checks)
        (before,) = sim.objects(GROUP, MUTATING)
        checks = Checks()
        rule = sim.faults.answer(status, method="GET", path=MUTATING)
        async with webhook(replica(tmp_path / "b", linger_s=0), kube, checks, 0.05):
            await until(lambda: rule.hits > 0, "it has asked")
            await asyncio.sleep(0.2)
            assert sim.objects(GROUP, MUTATING) == [before]
            assert await checks.readiness()
        unchanged(sim, made)


async def test_who_has_read_an_older_registration_drops_no_authority(tmp_path: Path) -> None:
    """Another replica writes between our read and our apply."""
    async with cluster(tmp_path) as (sim, kube):
        await installed(sim)
        rule = sim.faults.delay(500, method="PATCH")
        one, other = (replica(tmp_path / name, linger_s=0) for name in ("a", "b"))
        late, checks = Checks(), Checks()
        async with webhook(one, kube, late, 0.05, look_s=1000):
            await until(lambda: rule.hits > 0, "it has read, and its apply is on its way")
            sim.faults.rules.clear()
            async with webhook(other, kube, checks, 0.05, look_s=1000):
                await ready(checks)
                await ready(late)
                for settings in (one, other):
                    for plural in (MUTATING, VALIDATING):
                        (found,) = sim.objects(GROUP, plural)
                        assert trusts(registered(found), own_certificates(settings).ca_bundle())


async def test_what_an_earlier_release_applied_stays_but_for_its_authority(tmp_path: Path) -> None:
    """It was the field manager of the whole, and the chart has adopted it."""
    async with cluster(tmp_path) as (sim, kube):
        await register(kube, rendered())
        made = {
            kind: sim.objects(GROUP, f"{kind.lower()}s")[0]
            for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        }
        checks = Checks()
        async with webhook(replica(tmp_path / "a", linger_s=0), kube, checks, 0.05):
            await ready(checks)
            unchanged(sim, made)


async def test_a_webhook_that_an_upgrade_adds_trusts_us_too(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (sim, kube):
        await installed(sim)
        checks = Checks()
        async with webhook(replica(tmp_path / "a", linger_s=0), kube, checks, 0.05, 0.05):
            await ready(checks)
            found = json.loads(json.dumps(sim.objects(GROUP, MUTATING)[0]))
            path = f"/apis/{GROUP}/v1/{MUTATING}/{found['metadata']['name']}"
            (new,) = rendered()[0]["webhooks"][:1]
            found["webhooks"].append(new | {"name": "new.mpod.gatelog"})
            status, said = await kube.json("PUT", path, body=found)
            assert status == 200, said

            def trusted() -> bool:
                (now,) = sim.objects(GROUP, MUTATING)
                return all(hook["clientConfig"].get("caBundle") for hook in now["webhooks"])

            await until(trusted, "it trusts us")


@pytest.mark.parametrize("there", ["none", "of an earlier port"])
async def test_a_restored_cluster_is_registered_with_again(tmp_path: Path, there: str) -> None:
    group, plural = "admissionregistration.k8s.io", "mutatingwebhookconfigurations"
    async with cluster(tmp_path) as (sim, kube):
        restored, checks = asyncio.Event(), Checks()
        settings = replica(tmp_path / "a", linger_s=0)
        settings = msgspec.structs.replace(
            settings,
            webhook=msgspec.structs.replace(settings.webhook, url="https://127.0.0.1:0"),
        )
        async with webhook(settings, kube, checks, 0.05, 0.05, restored) as server:

            def is_there() -> bool:
                found = sim.objects(group, plural)
                clients = [hook["clientConfig"] for one in found for hook in one["webhooks"]]
                return bool(clients) and all(server.url in str(one["url"]) for one in clients)

            await until(is_there, "it is registered")
            await asyncio.sleep(1)  # and has been seen to be trusted
            (found,) = sim.objects(group, plural)
            path = f"/apis/{group}/v1/{plural}/{found['metadata']['name']}"
            if there == "none":
                assert (await kube.request("DELETE", path)).status == 200
            else:
                port = server.url.rpartition(":")[2]
                old = json.loads(json.dumps(found).replace(f":{port}", ":1"))
                status, said = await kube.json("PUT", path, body=old)
                assert status == 200, said
            await asyncio.sleep(0.5)  # ten looks
            assert not is_there()
            restored.set()
            await until(is_there, "it is registered")
            assert not restored.is_set()


async def test_given_certificates_are_replaced_under_load(tmp_path: Path) -> None:
    """Another certificate, and then another authority as cert-manager goes about it."""
    async with cluster(tmp_path) as (sim, kube):
        files = tmp_path / "mounted.pem"
        first = OwnCertificates(tmp_path / "first", NAMES)
        second = OwnCertificates(tmp_path / "second", NAMES)
        for made in (first, second):
            made.ensure(NOW)
        files.write_bytes((tmp_path / "first" / "serving.pem").read_bytes())
        settings = msgspec.structs.replace(
            Settings(),
            webhook=WebhookSettings(enabled=True, port=0, cert_file=str(files)),
        )
        async with webhook(settings, kube) as server:
            wanted = registration(settings, first.ca_bundle(), server.url)
            await register(kube, configurations(wanted))
            sim.webhook_services[SERVICE] = address(server)
            context = server_context()
            given = GivenFiles(files, files)
            given.refresh(context)
            async with Users(kube).at_work() as users:
                await users.more()
                both = merged(second.ca_bundle(), first.ca_bundle(), NOW)
                await register(kube, configurations(registration(settings, both, server.url)))
                tls = server._tls
                assert tls is not None
                refreshing = keep_fresh(lambda: given.refresh(tls), interval_s=0.02)
                keeper = asyncio.create_task(refreshing)
                files.write_bytes((tmp_path / "second" / "serving.pem").read_bytes())
                await users.more(40)
                keeper.cancel()
                last = registration(settings, second.ca_bundle(), server.url)
                await register(kube, configurations(last))
                await users.more()
            assert users.refused == []


def test_a_bundle_keeps_those_that_live_and_is_bounded(tmp_path: Path) -> None:
    made = []
    for number in range(MOST + 2):
        own = OwnCertificates(tmp_path / str(number), NAMES)
        own.ensure(NOW)
        made.append(own.ca_bundle())
    bundle = b""
    for one in made:
        bundle = merged(one, bundle, NOW)
    assert bundle.count(b"BEGIN CERTIFICATE") == MOST
    assert trusts(bundle, made[-1]) and trusts(bundle, made[2]) and not trusts(bundle, made[1])
    assert merged(made[-1], bundle, NOW) == bundle
    later = NOW + timedelta(days=4000)
    assert merged(made[0], bundle, later).count(b"BEGIN") == 1
    assert registered({"webhooks": [{"clientConfig": {"caBundle": "!"}}]}) == b""
    assert merged(made[0], b"no certificate", NOW) == made[0]
