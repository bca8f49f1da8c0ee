"""Two replicas of each part, as processes, and everybody who may be asked how they are.

The log server is the shipped one with the users and rights of each part, and is probed as
deploy/components/nats has it; the database is PostgreSQL, whose role needs a password; every part
has a ServiceAccount's token and the rights of `deploy/`. The API server is the stand-in, or the one
that GATELOG_TEST_KUBECONFIG names.

Invariant: what is read here is what an operator reads: /readyz, /metrics, `gatelog doctor`,
`gatelog why`.
"""

import asyncio
import contextlib
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import psycopg

from runtime.listening import bracketed
from simcluster import Settings as SimSettings
from simcluster.access import User
from tests.deploy.compose import free_port
from tests.deploy.manifests import DEPLOY, documents, objects
from tests.support import realcluster
from tests.support.faults.postgres import DATABASE, ROLE, Postgres, Role
from tests.support.forking import GATELOG, ran
from tests.support.invariants import gated
from tests.support.parts import PARTS, Parts, migrate, shipped_environment
from tests.support.processes import KUEUE, Api, make_queue, server_of, write_kubeconfig
from tests.support.promql import Prometheus
from tests.support.shippednats import ShippedNats
from tests.support.standin import SimCluster
from tests.support.terminal import failing

CLUSTER, NAMESPACE = "default", "batch"
RULES = documents(DEPLOY / "prometheus" / "rules.yaml")[0]["spec"]["groups"]
SCRAPE_S = 15.0
"""Seconds between two scrapes, as the alerts count them."""
READY_S = 60.0


class Stack:
    """See the module. `pace` real seconds pass between scrapes; all is on a loopback `host`."""

    def __init__(self, folder: Path, pace: float, host: str = "127.0.0.1") -> None:
        self.folder, self.pace, self.host = folder, pace, bracketed(host)
        self.postgres = Postgres(host)
        self.monitor = free_port()
        self.nats = ShippedNats(folder, (CLUSTER,), monitor=self.monitor, host=host)
        self.password = (self.nats.secrets / "postgres").read_text().strip()
        self.prometheus = Prometheus(RULES)
        self.scraped_at = 1_000_000_000.0
        self.sim: SimCluster | None = None
        self.api: Api
        self.http: aiohttp.ClientSession
        self.pods = 0
        self.nats_wanted = True
        self.doctors_account = "doctor"
        """Or "administrator", who sees what no account of gatelog may."""
        self._tasks: list[asyncio.Task[None]] = []
        self.parts = Parts(self.env, folder, replicas=2, probed=True)

    # -- start and end

    async def start(self) -> None:
        self.http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=2.5))
        self.role = await asyncio.to_thread(Role, self.postgres.url())
        self.give(self.password)
        tokens = await self._cluster()
        for user, token in tokens.items():
            write_kubeconfig(self.kubeconfig, self.folder / f"{user}.kubeconfig", token=token)
        await asyncio.to_thread(migrate, self.env("streams"), self.folder)
        for child in self.parts:
            child.start()
        await make_queue(self.api, NAMESPACE)
        await self.until_well()
        self._tasks = [asyncio.create_task(self._probe())]

    def add(self, name: str, own: dict[str, str]) -> None:
        """Start another replica, with settings of its own; nothing if it is there."""
        if name not in self.parts:
            self.parts.add(name, name.rpartition("-")[0], own).start()

    @property
    def health(self) -> dict[str, int]:
        """The port of each replica that answers /readyz and /metrics."""
        return self.parts.health

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self.parts.wake()
        if realcluster.kubeconfig() is not None:
            await self._leave()
        await asyncio.to_thread(self.parts.kill)
        self.nats.stop()
        await asyncio.to_thread(self.postgres.close)
        await self.api.http.close()
        await self.http.close()
        if self.sim is not None:
            await self.sim.__aexit__(None, None, None)

    def give(self, password: str) -> None:
        """Change the password of the projector's role, and end its sessions."""
        self.role.give(password)
        self.role.end_sessions()

    def as_admin(self, query: Any) -> None:
        with psycopg.connect(self.postgres.url(), autocommit=True) as connection:
            connection.execute(query)

    async def _cluster(self) -> dict[str, str]:
        names = (*PARTS, "doctor")
        real = realcluster.kubeconfig()
        if real is not None:
            self.kubeconfig = real
            self.api = Api(*server_of(real))
            await realcluster.forget_admission(self.api)
            await realcluster.give_rights(self.api)
            return {n: await realcluster.token_of(self.api, f"gatelog-{n}") for n in names}
        space = realcluster.NAMESPACE
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{space}")
        users = {
            f"token-{n}": User(name=f"system:serviceaccount:{space}:gatelog-{n}", groups=groups)
            for n in names
        }
        self.sim = SimCluster(SimSettings(users=users, kubelet="scripted"), front_proxy=True)
        await self.sim.__aenter__()
        self.kubeconfig = Path(self.sim.kubeconfig(self.folder / "kubeconfig"))
        self.api = Api(self.sim.url, self.sim.token)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
        await self.api.call("POST", "/api/v1/namespaces", body, ok=())
        for place in ("base", "doctor"):
            for obj in objects(DEPLOY / place):
                if obj["apiVersion"].startswith("rbac."):
                    await self.bind(obj)
        return {n: f"token-{n}" for n in names}

    async def bind(self, obj: dict[str, Any]) -> None:
        """Write a role or a binding."""
        spaced = obj["kind"] in ("Role", "RoleBinding")
        where = f"/namespaces/{realcluster.NAMESPACE}" if spaced else ""
        path = f"/apis/{obj['apiVersion']}{where}/{obj['kind'].lower()}s"
        await self.api.call("POST", path, obj, ok=())

    async def _leave(self) -> None:
        """Delete what was made, while the actuators are there to take finalizers off."""
        space = f"/api/v1/namespaces/{NAMESPACE}"
        await self.api.call("DELETE", space, ok=())
        await self.api.call("DELETE", f"{KUEUE}/clusterqueues/cq-{NAMESPACE}", ok=())

        async def gone() -> bool:
            return (await self.api.call("GET", space, ok=())).get("kind") != "Namespace"

        with contextlib.suppress(AssertionError):
            await self.api.until(f"{NAMESPACE} is gone", gone, READY_S)

    def env(self, user: str) -> dict[str, str]:
        """The settings of a part, or of somebody who asks."""
        account = user if user in PARTS else self.doctors_account
        own = self.folder / f"{account}.kubeconfig"
        database = (
            f"postgresql://{ROLE}:{self.password}@{self.host}:{self.postgres.port}/{DATABASE}"
        )
        config = self.kubeconfig if account == "administrator" else own
        return {
            **shipped_environment(self.nats, user, CLUSTER, database, config),
            "GATELOG_LEASE_NAMESPACE": realcluster.NAMESPACE,
            "GATELOG_HEALTH_HOST": "::" if ":" in self.host else self.host,
            "COLUMNS": "4000",
        }

    # -- what is asked

    async def _said(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return await asyncio.to_thread(
            ran, [GATELOG, *words], self.env("logreader"), self.folder, timeout_s=60
        )

    async def doctor(self) -> tuple[int, str]:
        """Exit code, and the findings that failed, one a line."""
        done = await self._said("doctor", "--json")
        code, text = done.returncode, done.stdout + done.stderr
        try:
            bad = failing(text[text.index("[") :])
        except ValueError:
            return code, text
        return code, "\n".join(
            f"{one['area']} {one['what']}: {one['detail']} -> {one['remedy']}" for one in bad
        )

    async def why(self, pod: str = "") -> str:
        """All that `gatelog why` prints of a pod, or of all that waits."""
        of = f"{NAMESPACE}/{pod}" if pod else "-A"
        done = await self._said("why", of)
        return done.stdout + done.stderr

    async def readyz(self, name: str) -> tuple[int, str]:
        """Status and text; 0 where nobody answers in time."""
        try:
            async with self.http.get(f"http://{self.host}:{self.health[name]}/readyz") as answer:
                return answer.status, await answer.text()
        except (TimeoutError, aiohttp.ClientError) as error:
            return 0, f"no answer: {error!r}"

    async def scrape(self) -> dict[str, int]:
        """Scrape all replicas once and return the alerts that fire."""

        async def page(name: str) -> str | None:
            try:
                url = f"http://{self.host}:{self.health[name]}/metrics"
                async with self.http.get(url) as answer:
                    return await answer.text() if answer.status == 200 else None
            except (TimeoutError, aiohttp.ClientError):
                return None

        pages = await asyncio.gather(*map(page, self.health))
        self.scraped_at += SCRAPE_S
        self.prometheus.scrape(dict(zip(self.health, pages, strict=True)), self.scraped_at)
        return self.prometheus.firing()

    def forget_scrapes(self) -> None:
        """Begin with a Prometheus that knows nothing: some alerts look back for ten minutes."""
        self.prometheus = Prometheus(RULES)

    def metric(self, expression: str) -> float | None:
        """The value of an expression by the last scrape; None for no series."""
        found = self.prometheus.query(expression)
        return next(iter(found.values()), None)

    # -- what users do, and what a kubelet does

    async def pod(self, ok: tuple[int, ...] = (200, 201)) -> str:
        """Create a pod that waits at the gate; return its name."""
        self.pods += 1
        name = f"p{self.pods:03d}"
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        await self.api.call("POST", path, gated(name, "", 1), ok=ok)
        return name

    async def past_gate(self, name: str) -> bool:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
        found = await self.api.call("GET", path, ok=())
        return found.get("kind") == "Pod" and not found["spec"].get("schedulingGates")

    async def until_well(self, timeout_s: float = READY_S) -> float:
        """Wait until every replica is ready and a new pod gets past its gate; return seconds."""
        began = time.monotonic()
        while True:
            answers = await asyncio.gather(*map(self.readyz, self.health))
            if all(status == 200 for status, _ in answers):
                break
            if time.monotonic() - began > timeout_s:
                tails = "\n".join(child.tail(6) for child in self.parts)
                raise AssertionError(f"never well: {answers}\n{tails}")
            await asyncio.sleep(0.2)
        name = await self.pod()
        left = max(5.0, timeout_s - (time.monotonic() - began))
        await self.api.until(f"{name} past its gate", lambda: self.past_gate(name), left)
        if self.sim is None:  # no kubelet ends them, and the quota is for ten
            path = f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0"
            await self.api.call("DELETE", path)
        return time.monotonic() - began

    async def _probe(self) -> None:
        """Restart nats-server as a kubelet would: by the shipped probes, liveness once started."""
        (pod,) = (
            one["spec"]["template"]["spec"]
            for one in objects(DEPLOY / "components" / "nats")
            if one["kind"] == "StatefulSet"
        )
        (container,) = pod["containers"]
        failures, started = 0, False
        while True:
            probe = container["livenessProbe" if started else "startupProbe"]
            url = f"http://{self.host}:{self.monitor}{probe['httpGet']['path']}"
            await asyncio.sleep(probe["periodSeconds"])
            try:
                async with self.http.get(url) as answer:
                    well = answer.status == 200
            except (TimeoutError, aiohttp.ClientError):
                well = False
            failures, started = 0 if well else failures + 1, started or well
            if self.nats_wanted and failures >= probe.get("failureThreshold", 3):
                failures, started = 0, False
                await asyncio.to_thread(self.nats.stop)
                self.nats.start()


@contextlib.asynccontextmanager
async def running(folder: Path, pace: float) -> AsyncIterator[Stack]:
    """A stack that works, ended afterwards."""
    stack = Stack(folder, pace)
    try:
        await stack.start()
        yield stack
    finally:
        await stack.close()
