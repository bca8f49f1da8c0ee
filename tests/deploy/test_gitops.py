"""What the chart renders stays as it was rendered, while the parts live.

Applied server-side as GitOps tools do, on the stand-in or on the real API server that
GATELOG_TEST_KUBECONFIG names; then the parts run as processes with the settings, the rights and the
secrets that the rendering gives them; certificates are made anew, leaders change, an upgrade is
rendered. Afterwards a dry run of the same apply changes nothing: that is an empty `kubectl diff`.
"""

import asyncio
import base64
import json
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from runtime.ca_bundle import registered
from runtime.embedded import server_binary
from simcluster import Settings as SimSettings
from simcluster.access import User
from tests.deploy import helm
from tests.deploy.compose import free_port
from tests.deploy.manifests import Json, parsed
from tests.support import realcluster
from tests.support.faults.postgres import DATABASE, Postgres
from tests.support.forking import GATELOG
from tests.support.processes import Api, Child, server_of, write_kubeconfig
from tests.support.standin import SimCluster

pytestmark = [
    pytest.mark.skipif(helm.helm() is None, reason="no helm for this machine"),
    pytest.mark.slow("a dozen processes come and go"),
    pytest.mark.timeout(300),
    pytest.mark.retried("it waits by the clock, on two cores shared with other tests"),
]

HERE = realcluster.NAMESPACE
ACCOUNTS = ("ingest", "projector", "actuator", "serve", "secrets")
HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gatelog-pods"
SERVED = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.gatelog.io"
PLURALS = {
    "NetworkPolicy": "networkpolicies",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
}
WIDE = ("Cluster", "Custom", "Mutating", "Validating", "APIService")
"""How the kinds that have no namespace begin."""
OF_SERVER = ("managedFields", "resourceVersion", "creationTimestamp", "uid", "generation")


def path_of(obj: Json) -> str:
    kind, meta = obj["kind"], obj["metadata"]
    base = "/api/v1" if obj["apiVersion"] == "v1" else f"/apis/{obj['apiVersion']}"
    space = "" if kind.startswith(WIDE) else f"/namespaces/{meta.get('namespace', HERE)}"
    return f"{base}{space}/{PLURALS.get(kind, kind.lower() + 's')}/{meta['name']}"


def plain(obj: Json) -> Json:
    meta = {k: v for k, v in obj["metadata"].items() if k not in OF_SERVER}
    return {k: v for k, v in obj.items() if k != "status"} | {"metadata": meta}


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        found = {k: without_empty(v) for k, v in value.items()}
        return {k: v for k, v in found.items() if v not in ({}, [])}
    return [without_empty(v) for v in value] if isinstance(value, list) else value


class Installed:
    """A cluster on which a rendering was applied, and the parts that it asks for."""

    def __init__(self, folder: Path, api: Api, kubeconfig: Path, *, real: bool) -> None:
        self.folder, self.api, self.kubeconfig, self.real = folder, api, kubeconfig, real
        self.objects: list[Json] = []
        self.replaced: dict[str, str] = {}
        self.children: dict[str, Child] = {}

    async def apply(self, values: Json) -> None:
        """Render, and apply what this cluster has kinds for; what is not rendered now is pruned."""
        asked = ("template", "gatelog", str(helm.CHART), "-n", HERE, "--no-hooks")
        done = await asyncio.to_thread(helm.run, *asked, "--kube-version", "1.36.0", values=values)
        assert done.returncode == 0, done.stderr
        before = {path_of(obj) for obj in self.objects}
        self.objects = [obj for obj in parsed(done.stdout) if await self._written(obj, dry=False)]
        for path in before - {path_of(obj) for obj in self.objects}:
            await self.api.call("DELETE", path)

    async def _written(self, obj: Json, *, dry: bool) -> Json | None:
        query = "fieldManager=gitops&force=true" + ("&dryRun=All" if dry else "")
        url = f"{self.api.url}{path_of(obj)}?{query}"
        head = {"Content-Type": realcluster.APPLY}
        async with self.api.http.patch(url, data=json.dumps(obj), headers=head) as answer:
            if answer.status == 404 and not self.real:
                return None  # a kind that the stand-in does not have
            assert answer.status in (200, 201), await answer.text()
            found: Json = await answer.json()
            return found

    async def drift(self) -> list[str]:
        """Whatever would change if the same rendering were applied again."""
        changed = []
        for obj in self.objects:
            live = await self.api.call("GET", path_of(obj))
            would = await self._written(obj, dry=True)
            assert would is not None
            compared = [plain(live), plain(would)]
            if not self.real:  # the stand-in fills in fewer defaults in an apply
                compared = [without_empty(one) for one in compared]
            if compared[0] != compared[1]:
                changed.append(f"{obj['kind']}/{obj['metadata']['name']}")
        if self.real and helm.kubectl() is not None:
            assert bool(await asyncio.to_thread(self._kubectl_diff)) == bool(changed)
        return changed

    def _kubectl_diff(self) -> str:
        command = [str(helm.kubectl()), "--kubeconfig", str(self.kubeconfig), "diff", "-f", "-"]
        done = subprocess.run(
            [*command, "--server-side", "--force-conflicts", "--field-manager=gitops"],
            input=yaml.safe_dump_all(self.objects),
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode in (0, 1), done.stderr
        return done.stdout

    def container(self, component: str, index: int = -1) -> Json:
        (spec,) = (
            obj["spec"]["template"]["spec"]
            for obj in self.objects
            if obj["kind"] in ("Deployment", "StatefulSet", "Job")
            and obj["metadata"]["labels"]["app.kubernetes.io/component"] == component
        )
        found: Json = [*spec.get("initContainers", ()), *spec["containers"]][index]
        return found

    def config(self, prefix: str, key: str) -> str:
        (text,) = (
            obj["data"][key]
            for obj in self.objects
            if obj["kind"] == "ConfigMap" and obj["metadata"]["name"].startswith(prefix)
        )
        return str(text)

    def child(self, name: str, account: str, container: Json, **own: str) -> Child:
        """A container as a process of this machine: its settings, but for addresses and paths."""
        home = self.folder / name
        home.mkdir(exist_ok=True)
        settings = home / "gatelog.toml"
        settings.write_text(self.config("gatelog-settings", "gatelog.toml"))
        said = {e["name"]: e.get("value", "") for e in container.get("env") or ()}
        said = {k: v for k, v in said.items() if k.startswith("GATELOG_")}
        files = {
            k: v.replace("/etc/gatelog/nats", str(self.folder / "secret")) for k, v in said.items()
        }
        user = said.get("GATELOG_NATS_USER", "")
        env = files | {
            "GATELOG_CONFIG": str(settings),
            "GATELOG_STATE_DIR": str(home / "state"),
            "GATELOG_HEALTH_PORT": str(free_port()),
            "GATELOG_NATS_PASSWORD_FILE": str(self.folder / "secret" / user),
            "KUBECONFIG": str(self.folder / f"{account}.kubeconfig"),
            **self.replaced,
            **own,
        }
        if not user:
            env.pop("GATELOG_NATS_PASSWORD_FILE")
        self.children[name] = Child(name, [GATELOG, *container["args"]], env, self.folder)
        self.children[name].start()
        return self.children[name]

    async def ended(self, child: Child) -> None:
        """Wait for the end of what is to end, and well."""
        assert child.process is not None
        assert await asyncio.to_thread(child.process.wait, 90) == 0, child.tail()

    async def trusted(self, path: str, count: int) -> None:
        """Wait until so many authorities are in a registration."""

        async def so() -> bool:
            found = await self.api.call("GET", path)
            text = found.get("spec", {}).get("caBundle", "")
            bundle = base64.b64decode(text) if text else registered(found)
            return bundle.count(b"BEGIN CERTIFICATE") >= count

        try:
            await self.api.until(f"{count} authorities in {path}", so, 60)
        except AssertionError as error:
            tails = "\n".join(child.tail(4) for child in self.children.values())
            raise AssertionError(f"{error}\n{tails}") from None

    async def leader(self, part: str) -> str:
        name = f"gatelog-{part}-default" + ("-0" if part == "projector" else "")
        path = f"/apis/coordination.k8s.io/v1/namespaces/{HERE}/leases/{name}"
        found = await self.api.call("GET", path, ok=())
        return str(found.get("spec", {}).get("holderIdentity") or "")

    async def end(self) -> None:
        for child in self.children.values():
            await asyncio.to_thread(child.kill)


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Installed]:
    """The real API server, emptied of gatelog, or the stand-in with a token for each account."""
    real = realcluster.kubeconfig()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HERE}}
    if real is not None:
        async with Api(*server_of(real)) as api:
            await api.call("POST", "/api/v1/namespaces", space, ok=())
            await realcluster.forget_admission(api)
            one = Installed(folder, api, real, real=True)
            try:
                yield one
            finally:
                await one.end()
                for obj in one.objects:
                    await api.call("DELETE", path_of(obj), ok=())
        return
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{HERE}")
    users = {
        f"token-{n}": User(name=f"system:serviceaccount:{HERE}:gatelog-{n}", groups=groups)
        for n in ACCOUNTS
    }
    sim = SimCluster(SimSettings(users=users), front_proxy=True)
    async with sim, Api(sim.url, sim.token) as api:
        await api.call("POST", "/api/v1/namespaces", space)
        one = Installed(folder, api, Path(sim.kubeconfig(folder / "kubeconfig")), real=False)
        try:
            yield one
        finally:
            await one.end()


async def kubeconfigs(one: Installed) -> None:
    for account in ACCOUNTS:
        token = f"token-{account}"
        rendered = {o["metadata"]["name"] for o in one.objects if o["kind"] == "ServiceAccount"}
        if one.real and f"gatelog-{account}" in rendered:
            token = await realcluster.token_of(one.api, f"gatelog-{account}")
        write_kubeconfig(one.kubeconfig, one.folder / f"{account}.kubeconfig", token=token)


async def log_server(one: Installed) -> subprocess.Popen[bytes]:
    """Run nats-server with the rendered configuration and the passwords that the Job made."""
    path = f"/api/v1/namespaces/{HERE}/secrets/gatelog-nats"
    secret, port = one.folder / "secret", free_port()
    secret.mkdir()
    for key, text in (await one.api.call("GET", path))["data"].items():
        (secret / key).write_bytes(base64.b64decode(text))
    text = one.config("gatelog-nats-server", "nats.conf")
    for old, new in (
        ("0.0.0.0:4222", f"127.0.0.1:{port}"),
        ('http: "0.0.0.0:8222"', ""),
        ("/data", str(one.folder / "data")),
        ("../nats-secrets/passwords.conf", "secret/passwords.conf"),
    ):
        assert old in text
        text = text.replace(old, new)
    (one.folder / "nats.conf").write_text(text)
    one.replaced["GATELOG_NATS_URL"] = f"nats://127.0.0.1:{port}"
    command = [server_binary(), "-c", str(one.folder / "nats.conf")]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


async def test_production_lives_and_nothing_that_was_rendered_changes(tmp_path: Path) -> None:
    values: Json = {"profile": "production", "admission": {"way": "webhook"}}
    database = await asyncio.to_thread(Postgres)
    async with cluster(tmp_path) as one:
        nats = None
        try:
            await one.apply(values)
            assert await one.drift() == []
            await kubeconfigs(one)
            await one.ended(one.child("secrets", "secrets", one.container("secrets")))
            nats = await log_server(one)
            one.replaced["GATELOG_DATABASE_URL"] = database.url(DATABASE)
            await one.ended(one.child("migrate", "projector", one.container("projector", 0)))
            await _live(one)
            assert await one.drift() == []
            # An upgrade: another image, a setting; the Job and migrate run again.
            made = await one.api.call("GET", f"/api/v1/namespaces/{HERE}/secrets/gatelog-nats")
            await one.apply(
                values | {"image": {"tag": "9"}, "settings": {"log": {"level": "debug"}}}
            )
            await one.ended(one.child("secrets", "secrets", one.container("secrets")))
            await one.ended(one.child("migrate", "projector", one.container("projector", 0)))
            kept = await one.api.call("GET", f"/api/v1/namespaces/{HERE}/secrets/gatelog-nats")
            assert kept["data"] == made["data"]
            assert await one.drift() == []
            # And what was written is there: nothing was taken away by an apply.
            await one.trusted(HOOKS, 3)
            await one.trusted(SERVED, 3)
        finally:
            await one.end()
            if nats is not None:
                nats.terminate()
            await asyncio.to_thread(database.close)


async def _live(one: Installed) -> None:
    """Two replicas of each part; a new certificate in each, and other leaders."""

    def start(part: str, number: int) -> Child:
        own = {}
        if part == "ingest":
            own["GATELOG_WEBHOOK_PORT"] = str(free_port())
            own["GATELOG_WEBHOOK_LINGER_S"] = "0"
        if part == "serve":
            own["GATELOG_SERVE_PORT"] = str(free_port())
        return one.child(f"{part}-{number}", part, one.container(part), **own)

    for part in ("ingest", "projector", "actuator", "serve"):
        for number in (1, 2):
            start(part, number)
    await one.trusted(HOOKS, 2)
    await one.trusted(SERVED, 2)
    leaders = {}
    for part in ("ingest", "projector"):

        async def led(part: str = part) -> str:
            return await one.leader(part)

        leaders[part] = await one.api.until(f"a leader of {part}", led, 60)
    # Pods come and go with their disks: new authorities beside the old ones, and new leaders.
    for part in ("ingest", "serve", "projector"):
        await asyncio.to_thread(one.children[f"{part}-1"].stop)
        shutil.rmtree(one.folder / f"{part}-1" / "state", ignore_errors=True)
        start(part, 1)
    await one.trusted(HOOKS, 3)
    await one.trusted(SERVED, 3)
    for part, before in leaders.items():
        for number in (1, 2):
            child = one.children[f"{part}-{number}"]
            if child.running and await one.leader(part) == before:
                await asyncio.to_thread(child.kill)
                start(part, number)

        async def other(part: str = part, before: str = before) -> bool:
            return await one.leader(part) not in ("", before)

        await one.api.until(f"another leader of {part}", other, 60)


async def test_one_pod_lives_and_nothing_that_was_rendered_changes(tmp_path: Path) -> None:
    values: Json = {"admission": {"way": "toWebhook"}}
    async with cluster(tmp_path) as one:
        await one.apply(values)
        await kubeconfigs(one)
        assert not [o for o in one.objects if o["kind"] in ("Secret", "Job")]

        def start() -> Child:
            ports = ("WEBHOOK_PORT", "SERVE_PORT", "SERVE_CONSOLE_PORT")
            own = {f"GATELOG_{name}": str(free_port()) for name in ports}
            own["GATELOG_WEBHOOK_LINGER_S"] = "0"
            return one.child("gatelog-0", "actuator", one.container("standalone"), **own)

        if one.real:
            # Tools apply in an order of their own: the pod may be there before the registrations,
            # which it may not create. The stand-in asks for no right to create in an apply.
            for hooks in (HOOKS, HOOKS.replace("mutating", "validating")):
                await one.api.call("DELETE", hooks)
            child = start()
            await asyncio.to_thread(child.wait_for, "webhook_registration_awaited")
            await one.apply(values)
        else:
            child = start()
        await one.trusted(HOOKS, 1)
        await one.trusted(SERVED, 1)
        assert await one.drift() == []
        child.send(signal.SIGTERM)
        await one.ended(child)
        for name in ("webhook", "serve"):
            shutil.rmtree(one.folder / "gatelog-0" / "state" / name)
        await one.apply({"admission": {"way": "webhook"}, "image": {"tag": "9"}})
        found = await one.api.call("GET", HOOKS)
        assert found["webhooks"][0]["failurePolicy"] == "Fail" and registered(found), (
            "trusted still"
        )
        start()
        await one.trusted(HOOKS, 2)
        await one.trusted(SERVED, 2)
        assert await one.drift() == []


async def test_a_change_of_what_was_rendered_would_be_seen(tmp_path: Path) -> None:
    async with cluster(tmp_path) as one:
        await one.apply({"admission": {"way": "webhook"}})
        found = await one.api.call("GET", HOOKS)
        found["webhooks"][0]["timeoutSeconds"] += 1
        await one.api.call("PUT", HOOKS, found)
        assert await one.drift() == ["MutatingWebhookConfiguration/gatelog-pods"]
