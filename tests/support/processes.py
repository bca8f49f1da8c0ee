"""Child processes for end-to-end tests: the stand-in cluster, gatelog's deployments, nats-server.

Each child is started by its command line, as an operator would, and ended by its own pid. What it
printed is kept in a file beside the test and shown when something goes wrong.
"""

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import yaml

from tests.support.forking import GATELOG, PYTHON, Forked

TOKEN = "e2e-token"
LINE_BYTES = 16 * 1024**2
"""A line of a watch at most; pods may have 1.5 MB."""


def server_of(kubeconfig: Path) -> tuple[str, str]:
    """The server and bearer token of a kubeconfig's first cluster and user."""
    found = yaml.safe_load(kubeconfig.read_text())
    return found["clusters"][0]["cluster"]["server"], found["users"][0]["user"]["token"]


def write_kubeconfig(place: Path, target: Path, *, token: str = "", port: int = 0) -> None:
    """Write the kubeconfig of `place` for a person who has a token, or by way of a local port."""
    found = yaml.safe_load(place.read_text())
    if token:
        found["users"] = [{"name": found["users"][0]["name"], "user": {"token": token}}]
    if port:
        cluster = found["clusters"][0]["cluster"]
        cluster["server"] = f"{urlsplit(cluster['server']).scheme}://127.0.0.1:{port}"
    target.write_text(json.dumps(found))


class Child:
    """A child process; `start` may be called again after `kill`."""

    def __init__(self, name: str, argv: list[str], env: dict[str, str], folder: Path) -> None:
        self.name = name
        self.argv = argv
        # What steers the tests is no setting of gatelog, which refuses what it does not know.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("GATELOG_TEST_")}
        self.env = {**inherited, **env}
        self.output = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self.starts = 0

    def start(self) -> None:
        self.starts += 1
        if self.argv[0] == GATELOG or self.argv[:2] == [PYTHON, "-m"]:
            self.process = Forked(self.argv, self.env, self.output)
            return
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(
                self.argv, env=self.env, stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} was never started"
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self, patience_s: float = 10) -> None:
        self._end(signal.SIGTERM, patience_s)

    def _end(self, how: signal.Signals, patience_s: float = 10) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)

    def text(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def tail(self, count: int = 30) -> str:
        return f"--- {self.name} ---\n" + "\n".join(self.text().splitlines()[-count:])

    def wait_for(self, pattern: str, timeout_s: float = 60) -> "re.Match[str]":
        """Wait until the child has printed something."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            found = re.search(pattern, self.text())
            if found:
                return found
            if not self.running:
                raise AssertionError(f"{self.name} ended early\n{self.tail()}")
            time.sleep(0.05)
        raise AssertionError(f"{self.name} never printed {pattern!r}\n{self.tail()}")


KUEUE_CORE = "tests.support.kueuecore"
"""Module of the stand-in cluster on which Workloads are admitted as Kueue does."""


class Simulator(Child):
    """`python -m MODULE`, a stand-in cluster, on a loopback port, with a kubeconfig."""

    def __init__(self, folder: Path, *args: str, module: str = "tests.support.standin") -> None:
        self.kubeconfig = folder / "kubeconfig"
        argv = [
            PYTHON,
            "-m",
            module,
            "--token",
            TOKEN,
            "--kubeconfig",
            str(self.kubeconfig),
            *args,
        ]
        super().__init__("simcluster", argv, {}, folder)
        self.url = ""
        self.token = TOKEN

    def start(self) -> None:
        super().start()
        self.url = json.loads(self.wait_for(r"\{.*\"url\".*\}").group(0))["url"]


class Api:
    """A user of the cluster: HTTP with a bearer token, or with what `tls` has."""

    def __init__(
        self, url: str, token: str, tls: ssl.SSLContext | bool = False, *, at_once: int = 64
    ) -> None:
        self.url = url
        self.http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=at_once),
            headers={"Authorization": f"Bearer {token}"} if token else {},
            read_bufsize=LINE_BYTES,
        )

    async def __aenter__(self) -> "Api":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.http.close()

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        ok: tuple[int, ...] = (200, 201, 202),
    ) -> Any:
        async with self.http.request(
            method,
            self.url + path,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": kind},
        ) as answer:
            found = await answer.json(content_type=None)
            if ok and answer.status not in ok:
                raise AssertionError(f"{method} {path} -> {answer.status} {found}")
            return found

    async def merge(self, path: str, body: Any, **more: Any) -> Any:
        return await self.call("PATCH", path, body, kind="application/merge-patch+json", **more)

    async def pods(self, namespace: str) -> dict[str, Any]:
        found = await self.call("GET", f"/api/v1/namespaces/{namespace}/pods")
        return {pod["metadata"]["name"]: pod for pod in found["items"]}

    async def until(self, what: str, check: Any, timeout_s: float = 60) -> Any:
        end = time.monotonic() + timeout_s
        while True:
            found = await check()
            if found:
                return found
            if time.monotonic() > end:
                raise AssertionError(f"never came: {what}")
            await asyncio.sleep(0.05)


KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


async def make_queue(
    api: Api, namespace: str, *, cpu: str = "10", name: str = "user-queue"
) -> None:
    """One flavor, one ClusterQueue and one LocalQueue for a namespace."""
    version = "kueue.x-k8s.io/v1beta2"
    await api.call(
        "POST",
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        ok=(),
    )
    await api.call(
        "POST",
        f"{KUEUE}/resourceflavors",
        {
            "apiVersion": version,
            "kind": "ResourceFlavor",
            "metadata": {"name": "lab-flavor"},
            "spec": {"nodeLabels": {"pool": "a"}},
        },
        ok=(),
    )
    await api.call(
        "POST",
        f"{KUEUE}/clusterqueues",
        {
            "apiVersion": version,
            "kind": "ClusterQueue",
            "metadata": {"name": f"cq-{namespace}"},
            "spec": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu"],
                        "flavors": [
                            {
                                "name": "lab-flavor",
                                "resources": [{"name": "cpu", "nominalQuota": cpu}],
                            }
                        ],
                    }
                ],
            },
        },
    )
    await api.call(
        "POST",
        f"{KUEUE}/namespaces/{namespace}/localqueues",
        {
            "apiVersion": version,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterQueue": f"cq-{namespace}"},
        },
    )


def pod(
    name: str,
    group: str = "",
    total: int = 0,
    cpu: str = "1",
    *,
    script: str = "",
    queue: str = "user-queue",
    labels: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A pod as a user writes it. `script` is for the scripted kubelet of the stand-in."""
    found = {"kueue.x-k8s.io/queue-name": queue, **(labels or {})}
    notes = {"simcluster/script": script} if script else {}
    if group:
        found["kueue.x-k8s.io/pod-group-name"] = group
        notes["kueue.x-k8s.io/pod-group-total-count"] = str(total)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": found, "annotations": notes},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "job", "image": "job", "resources": {"requests": {"cpu": cpu}}}
            ],
        },
    }
