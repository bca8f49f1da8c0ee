"""gatelog up on the stand-in, as one thing to test against: HTTP, NATS, SQL and the command line.

A `Stack` is two child processes: the stand-in with its scripted kubelet, and `gatelog up --install`
(webhook, unless told) with everything embedded. What tests see of it is what users and operators
see: answers of the API server, the read model by SQL, the streams, and what the commands print.

Invariant: nothing here reaches into a process; both can be ended and started again.
"""

import asyncio
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from gatelog.cluster import install as installing
from runtime.embedded import running
from runtime.jetstream import Bus, connect
from runtime.kube import connect as kube_connect
from runtime.settings import KubernetesSettings, Settings
from tests.deploy.compose import free_port
from tests.support import realcluster
from tests.support.forking import GATELOG, PYTHON, ran
from tests.support.parts import PARTS, Parts, migrate, shipped_environment
from tests.support.processes import Api, Child, Simulator, pod, server_of, write_kubeconfig
from tests.support.shippednats import ShippedNats

START_S = 60.0


class Stack:
    """The stand-in and `gatelog up` in `folder`."""

    def __init__(
        self,
        folder: Path,
        *simulator: str,
        install: str = "webhook",
        module: str = "tests.support.standin",
        real: Path | None = None,
    ) -> None:
        """On the cluster whose kubeconfig is `real`, an administrator's, if it is given."""
        self.good = 0
        self.state = folder / "state"
        self.simulator = Simulator(folder, "--kubelet", "scripted", *simulator, module=module)
        self.real = real
        self.env = {
            "KUBECONFIG": str(real or self.simulator.kubeconfig),
            "GATELOG_STATE_DIR": str(self.state),
            "GATELOG_WEBHOOK_PORT": "0",
            "GATELOG_LOG_FORMAT": "json",
        }
        self.up = Child("up", [GATELOG, "up", "--install", install], self.env, folder)

    @property
    def server(self) -> tuple[str, str]:
        """Address and token of an administrator."""
        return server_of(self.real) if self.real else (self.simulator.url, self.simulator.token)

    def start(self) -> None:
        if self.real is None and not self.simulator.running:
            self.simulator.start()
        self.up.start()
        self.up.wait_for(rf'(?s)(?:"event": "ready".*){{{self.up.starts}}}', START_S)

    def stop(self) -> None:
        self.up.stop()
        self.simulator.stop()

    def api(self) -> Api:
        return Api(*self.server)

    async def clear(self, api: Api, namespace: str) -> None:
        """End what a test left behind. A cluster that ends with the tests needs none of it."""

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a gatelog command; what it printed is in `stdout` and `stderr`."""
        return ran([GATELOG, *words], {**self.up.env, **self.env}, self.up.output.parent)

    def doctor(self) -> dict[str, dict[str, str]]:
        """What `gatelog doctor` says, by what it looked at."""
        done = self.command("doctor", "--json")
        return {found["what"]: found for found in json.loads(done.stdout)}

    def sql(self, query: str, *values: object) -> list[dict[str, Any]]:
        """Rows of the read model, read by another process as anybody could."""
        place = f"file:{self.state / 'read-model.sqlite3'}?mode=ro"
        with closing(sqlite3.connect(place, uri=True, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, values)]

    async def bus(self) -> Bus:
        """A connection to the embedded server, as `gatelog doctor` makes one."""
        settings = running(self.state / "nats")
        assert settings is not None, self.up.tail()
        return await connect(settings, "test", deadline_s=20)

    def log_lines(self, event: str) -> list[dict[str, Any]]:
        """Lines that `gatelog up` logged under a name."""
        lines = (line for line in self.up.text().splitlines() if line.startswith("{"))
        return [found for found in map(json.loads, lines) if found.get("event") == event]


class RealStack(Stack):
    """The three parts on the API server that the kubeconfig `place` names, with a kubelet.

    Each has the token of its own ServiceAccount, and its own account at the shipped log server;
    decisions are signed. None has the administrator's token.
    """

    def __init__(self, folder: Path, place: Path, install: str) -> None:
        self.good = 0
        self.folder = folder
        self.place = place
        self.install = install
        self.state = folder / "state"
        self.state.mkdir()
        self.log = ShippedNats(folder, ("default",))
        self.kubelet = Child(
            "kubelet", [PYTHON, "-m", "tests.support.kubelet", str(place)], {}, folder
        )
        self.port = free_port()
        self.up: Any = None

    @property
    def server(self) -> tuple[str, str]:
        return server_of(self.place)

    def start(self) -> None:
        """Install and start; a second time: start what was ended."""
        if self.up is None:
            tokens = asyncio.run(self._install())
            for account, token in tokens.items():
                write_kubeconfig(self.place, self.folder / f"{account}.kubeconfig", token=token)
            migrate(self._env("streams"), self.folder)
            self.kubelet.start()
            self.kubelet.wait_for('"ready"')
            self.up = Parts(self._env, self.folder, probed=True)
            self.env = self._env("logreader")
            self.up.start()
            asyncio.run(self._until_in_force())
        else:
            self.up.start()

    def stop(self) -> None:
        if self.up is not None:
            self.up.stop()
        self.kubelet.stop()
        self.log.stop()
        asyncio.run(self._leave())

    async def clear(self, api: Api, namespace: str) -> None:
        """End what a test left, so that it is nobody's load."""
        base = f"/api/v1/namespaces/{namespace}/pods"
        await api.call("DELETE", base, {"gracePeriodSeconds": 0}, ok=())
        stranger = f"/api/v1/namespaces/default/pods/stranger-to-{namespace}"
        await api.call("DELETE", stranger, {"gracePeriodSeconds": 0}, ok=())

    async def _install(self) -> dict[str, str]:
        kube = await kube_connect(KubernetesSettings(kubeconfig=str(self.place)))
        async with self.api() as api:
            try:
                await realcluster.forget_admission(api)
                await realcluster.give_rights(api)
                await installing.install_kinds(kube)
                if self.install == "policy":
                    await installing.install_policy(kube, Settings())
                else:
                    await realcluster.let_register(api)
                    await installing.install_fence(kube, Settings())
            finally:
                await kube.close()
            names = (*PARTS, "doctor")
            return {name: await realcluster.token_of(api, f"gatelog-{name}") for name in names}

    async def _until_in_force(self) -> None:
        async with self.api() as api:
            await realcluster.until_gated(api)

    async def _leave(self) -> None:
        async with self.api() as api:
            await realcluster.forget_admission(api)

    def _env(self, user: str) -> dict[str, str]:
        config = self.folder / f"{user if user in PARTS else 'doctor'}.kubeconfig"
        database = f"sqlite:///{self.state}/read-model.sqlite3"
        found = shipped_environment(self.log, user, "default", database, config)
        found["GATELOG_LEASE_NAMESPACE"] = realcluster.NAMESPACE
        if self.install == "webhook" and user == "ingest":
            found |= {
                "GATELOG_WEBHOOK_ENABLED": "true",
                "GATELOG_WEBHOOK_PORT": str(self.port),
                "GATELOG_WEBHOOK_URL": f"https://127.0.0.1:{self.port}",
            }
        return found


@contextmanager
def started(stack: Stack) -> Iterator[Stack]:
    """A stack that is ready, ended afterwards; `up.env` of it is set before."""
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()


@contextmanager
def running_stack(folder: Path, *simulator: str, install: str = "webhook") -> Iterator[Stack]:
    """A stack that is ready, ended afterwards; on a real cluster if one is named."""
    place = realcluster.kubeconfig()
    if place is None:
        stack = Stack(folder, *simulator, install=install)
    else:
        stack = RealStack(folder, place, install)
    with started(stack):
        yield stack


async def runs_to_its_end(stack: Stack, api: Api, namespace: str) -> None:
    """Create a good group of two and wait until it has run, been let go and is told as finished."""
    stack.good += 1
    name = f"good-{stack.good}"
    names = [f"{name}-{i}" for i in range(2)]
    for one in names:
        body = pod(one, name, 2, script="run=50ms,succeed")
        await api.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    await finished(stack, api, namespace, name, names)


async def finished(
    stack: Stack, api: Api, namespace: str, name: str, pods: list[str], timeout_s: float = 60
) -> None:
    """Wait until the pods have succeeded and are let go, and the group is told as finished."""

    async def let_go() -> bool:
        found = await api.pods(namespace)
        return all(
            found[one]["status"].get("phase") == "Succeeded"
            and not found[one]["metadata"].get("finalizers")
            for one in pods
        )

    async def told() -> bool:
        query = "SELECT state FROM groups WHERE namespace = ? AND name = ? AND state = 'Finished'"
        return bool(stack.sql(query, namespace, name))

    await api.until(f"pods of {namespace}/{name} succeed and are let go", let_go, timeout_s)
    await api.until(f"{namespace}/{name} is told as finished", told, timeout_s)
