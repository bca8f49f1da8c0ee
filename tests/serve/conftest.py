"""`gatelog serve` behind the stand-in's front proxy, with two users who see a namespace each.

read_model   a read model of cluster `test` (SQLite or PostgreSQL) and its toy
world        the stand-in, serve on it, and kubeconfigs of admin, ann (ns) and bob (other)
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatelog.serve.bootstrap import run_serve
from podgroup.model.names import QUEUE_NAME
from runtime.kube import connect
from runtime.settings import DatabaseSettings, KubernetesSettings, ServeSettings, Settings
from simcluster.access import User
from simcluster.client import Client
from simcluster.settings import Settings as SimSettings
from tests.deploy.manifests import DEPLOY, objects
from tests.projector.support import Writer, busy_toy
from tests.support.databases import filled
from tests.support.standin import SimCluster
from tests.support.toy import Toy

KUBECTL = shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
PER_USER = 6
"""Watches, and live pages, of a user."""
USERS = {
    "ann-token": User(name="ann", groups=("team-a",)),
    "bob-token": User(name="bob"),
    "lead-token": User(name="lead", groups=("leads",)),
    "nobody-token": User(name="nobody"),
}


@dataclass
class World:
    cluster: SimCluster
    url: str
    port: int
    settings: Settings
    folder: Path
    writer: Writer
    toy: Toy
    clients: dict[str, Client] = field(default_factory=dict)

    def client(self, user: str = "") -> Client:
        if user not in self.clients:
            token = f"{user}-token" if user else self.cluster.token
            self.clients[user] = Client(self.cluster.url, token, authority=self.cluster.authority)
        return self.clients[user]

    def kubeconfig(self, user: str = "") -> Path:
        file = self.folder / f"{user or 'admin'}.kubeconfig"
        return self.cluster.kubeconfig(file, f"{user}-token" if user else "")

    async def kubectl(self, *args: str, user: str = "", wait_s: float = 30) -> tuple[int, str, str]:
        assert KUBECTL is not None
        environment = {
            **os.environ,
            "HOME": str(self.folder),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(self.kubeconfig(user)),
        }
        process = await asyncio.create_subprocess_exec(
            *(KUBECTL, *args),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        async with asyncio.timeout(wait_s):
            out, err = await process.communicate()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()


def story() -> Toy:
    """The busy namespace `ns`, and a group with labels in `other`."""
    toy = busy_toy()
    toy.pod("far", namespace="other", labels={QUEUE_NAME: "lq"})
    return toy


@contextmanager
def written(url: str) -> Iterator[tuple[str, Writer, Toy]]:
    """The story in an empty database."""
    writer = Writer(filled(url, tell)).load().heard()
    yield url, writer, story()
    writer.store.close()


def tell(url: str) -> None:
    Writer(url).feed(story().messages).store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def read_model(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Writer, Toy]]:
    url = f"sqlite:///{tmp_path}/read-model.sqlite3"
    if request.param == "postgresql":
        url = str(request.getfixturevalue("postgres_database"))
    with written(url) as model:
        yield model


@pytest.fixture
def sqlite_model(tmp_path: Path) -> Iterator[tuple[str, Writer, Toy]]:
    url = f"sqlite:///{tmp_path}/read-model.sqlite3"
    with written(url) as model:
        yield model


@pytest.fixture
async def world(sqlite_model: tuple[str, Writer, Toy], tmp_path: Path) -> AsyncIterator[World]:
    async for one in serve_on(sqlite_model, tmp_path):
        yield one


@pytest.fixture
async def both(read_model: tuple[str, Writer, Toy], tmp_path: Path) -> AsyncIterator[World]:
    async for one in serve_on(read_model, tmp_path):
        yield one


async def serve_on(model: tuple[str, Writer, Toy], folder: Path) -> AsyncIterator[World]:
    url, writer, toy = model
    async with SimCluster(SimSettings(users=USERS), front_proxy=True) as cluster:
        await install(cluster)
        settings = Settings(
            cluster="test",
            state_dir=str(folder / "state"),
            database=DatabaseSettings(url=url),
            serve=ServeSettings(
                port=0, review_cache_s=0.5, statement_timeout_s=60, streams_per_user=PER_USER
            ),
            kubernetes=KubernetesSettings(
                kubeconfig=str(cluster.kubeconfig(folder / "serve.kubeconfig"))
            ),
        )
        kube = await connect(settings.kubernetes)
        stop = asyncio.Event()
        started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(run_serve(settings, stop, kube=kube, started=started))
        both: list[asyncio.Future[Any]] = [task, started]
        done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            task.result()
        port = started.result()
        cluster.webhook_services["gatelog-system/gatelog-serve"] = f"127.0.0.1:{port}"
        one = World(cluster, url, port, settings, folder, writer, toy)
        try:
            await trusted(one)
            yield one
        finally:
            for client in one.clients.values():
                await client.__aexit__()
            stop.set()
            await task
            await kube.close()


async def trusted(one: World) -> None:
    """Wait until serve knows the front proxy and its authority is announced."""
    path = "/apis/gatelog.io/v1beta1"
    async with asyncio.timeout(10):
        while True:
            status, _, _ = await one.client().request("GET", path)
            services = one.cluster.objects("apiregistration.k8s.io", "apiservices")
            if status == 200 and all(s["spec"].get("caBundle") for s in services):
                return
            await asyncio.sleep(0.05)


async def install(cluster: SimCluster) -> None:
    """Apply what the component brings, and give two users a namespace each."""
    group = "rbac.authorization.k8s.io"
    for obj in objects(DEPLOY / "components" / "serve-own-certificates"):
        if obj["kind"] == "APIService":
            await cluster.create("apiregistration.k8s.io", "apiservices", obj)
        elif obj["kind"] == "ClusterRole" and obj["metadata"]["name"].startswith("gatelog-ledger"):
            await cluster.create(group, "clusterroles", obj)
    for namespace, user in (("ns", "ann"), ("other", "bob")):
        await cluster.create("", "namespaces", {"metadata": {"name": namespace}})
        await cluster.create(group, "rolebindings", binding("RoleBinding", user), namespace)
    lead = binding("ClusterRoleBinding", "lead", "gatelog-ledger-quota-viewer")
    await cluster.create(group, "clusterrolebindings", lead)


def binding(kind: str, user: str, role: str = "gatelog-ledger-viewer") -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {"name": f"{user}-{role}"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": role,
        },
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    }


def yaml_of(text: str) -> Any:
    return yaml.safe_load(text)
