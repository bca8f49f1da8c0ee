"""The cluster: store, server and controllers put together.

Theory: everything runs in one event loop and shares one store; controllers listen to the store
directly, all others through HTTP.

Invariant: after ``start`` returns, the address answers; after ``stop`` returns, no task, timer or
socket of the cluster is left.
"""

import asyncio
import json
from base64 import b64encode
from pathlib import Path
from typing import Any, Self

from simcluster import backups, catalogue, kinds
from simcluster.access import Access
from simcluster.admission import AdmissionChain
from simcluster.api import Api
from simcluster.claims import ClaimController
from simcluster.deletion import Deletions
from simcluster.errors import Obj
from simcluster.expiry import expire_events
from simcluster.garbage import GarbageCollector
from simcluster.kubelet import Kubelet
from simcluster.namespaces import NamespaceController
from simcluster.nodes import node_object
from simcluster.pods import PodWrites
from simcluster.requests import Options, Target
from simcluster.resources import Catalogue
from simcluster.scheduler import Scheduler
from simcluster.server import Front, Server
from simcluster.settings import Controller, Settings
from simcluster.store import Change, Store, Table
from simcluster.webhookcall import Caller
from simcluster.writes import Writes

_SPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class SimCluster:
    """A stand-in cluster. ``async with SimCluster(Settings(...)) as cluster: ...``."""

    chain: type[AdmissionChain] = AdmissionChain
    serving: type[Server] = Server

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings = settings or Settings()
        self.store = Store(settings.history, settings.max_object_bytes)
        kueue = catalogue.kueue(settings.kueue_versions) if settings.kueue_kinds else []
        self.catalogue = Catalogue([*catalogue.core(), *kueue])
        for resource in self.catalogue.resources.values():
            self.store.table(resource)
        self.webhook_services: dict[str, str] = dict(settings.webhook_services)
        self._caller = Caller(self.webhook_services)
        access = Access(self.store, settings.token, settings.users)
        self.admission = self.chain(self.store, self._caller, access)
        self.writes = Writes(self.store, self.admission, settings.seed)
        self.deletions = Deletions(self.writes)
        self.pods = PodWrites(self.writes)
        self.api = api = Api(self.store, self.writes, self.deletions, self.pods, settings)
        self.front = self.in_front()
        self.server = self.serving(api, self.catalogue, access, self.front)
        self.store.hooks.append(self._seen)
        self.scheduler: Scheduler | None = None
        self.kubelet: Kubelet | None = None
        self.controllers: list[Controller] = []
        self._tasks: list[asyncio.Task[None]] = []

    def in_front(self) -> Front | None:
        """The front of the API server; None but for clusters of tests."""
        return None

    async def start(self) -> None:
        """Bring up controllers, built-in namespaces, nodes, and listen."""
        settings = self.settings
        NamespaceController(self.store, self.deletions)
        if settings.garbage_collector:
            collector = GarbageCollector(self.store, self.writes, self.deletions)
            loop = asyncio.get_running_loop()
            self._tasks.append(loop.create_task(collector.run()))
        claims = ClaimController(self.store, self.writes, self.pods)
        self._tasks.append(asyncio.get_running_loop().create_task(claims.run()))
        expiry = expire_events(self.store, settings.event_ttl_s)
        self._tasks.append(asyncio.get_running_loop().create_task(expiry))
        if settings.scheduler:
            self.scheduler = Scheduler(
                self.store,
                self.pods,
                settings.scheduler_delay_s,
                events=settings.scheduler_events,
            )
        if settings.kubelet == "scripted":
            self.kubelet = Kubelet(self.store, self.pods, self.deletions, settings)
        self.controllers = [made(self.store, self.writes) for made in settings.controllers]
        for name in _SPACES:
            await self.create("", "namespaces", {"metadata": {"name": name}})
        if self.front is not None:
            await self.create("", "configmaps", self.front.trust(), "kube-system")
        for node in settings.nodes:
            await self.create("", "nodes", node_object(node))
        await self.server.start()

    async def stop(self) -> None:
        """Take everything down."""
        for part in (self.scheduler, self.kubelet, *self.controllers):
            if part is not None:
                part.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.server.stop()
        await self._caller.close()
        if self.front is not None:
            await self.front.close()

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    @property
    def url(self) -> str:
        """Address of the API server."""
        scheme = "http" if self.front is None else "https"
        return f"{scheme}://{self.settings.host}:{self.server.listener.port}"

    @property
    def authority(self) -> Path | None:
        """File of the authority of our certificate; None without TLS."""
        return None if self.front is None else self.front.authority

    @property
    def token(self) -> str:
        """The bearer token that is let in."""
        return self.settings.token

    def kubeconfig(self, path: str | Path, token: str = "") -> Path:
        """Write a kubeconfig (JSON is YAML) for this cluster; readable by the owner only.

        ``token``: a token of the settings' users; empty: the administrator's.
        """
        where = {"server": self.url}
        if self.authority is not None:
            where["certificate-authority-data"] = b64encode(self.authority.read_bytes()).decode()
        found = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "sim",
            "clusters": [{"name": "sim", "cluster": where}],
            "users": [{"name": "sim", "user": {"token": token or self.token}}],
            "contexts": [
                {
                    "name": "sim",
                    "context": {"cluster": "sim", "user": "sim", "namespace": "default"},
                }
            ],
        }
        file = Path(path)
        file.touch(mode=0o600)
        file.write_text(json.dumps(found, indent=1) + "\n")
        return file

    def compact(self) -> None:
        """Forget history: watches and pages from older versions answer 410."""
        self.store.compact()

    def backup(self) -> backups.Backup:
        """Save the stored objects."""
        return backups.Backup(self.store)

    def restore(self, backup: backups.Backup, *, bump: int = 0) -> None:
        """Put etcd back to a backup, its revision raised by `bump`; the API server restarts."""
        backups.restore(self.store, backup, bump=bump)

    async def create(self, group: str, plural: str, obj: Obj, namespace: str = "") -> Obj:
        """Create an object without HTTP (set-up of tests). Raises ``ApiError``."""
        resource = self.catalogue.resources[group, plural]
        route = self.catalogue.routes[group, resource.versions[0], plural]
        rec = await self.writes.create(Target(route, namespace), obj, Options(manager="simcluster"))
        return rec.obj

    def objects(self, group: str, plural: str, namespace: str = "") -> list[Obj]:
        """Stored objects of a kind, by name (assertions of tests). Do not change them."""
        table = self.store.tables.get((group, plural))
        found = [] if table is None else list(table.iterate(namespace))
        return [rec.obj for rec in sorted(found, key=lambda r: (r.namespace, r.name))]

    def _seen(self, table: Table, change: Change) -> None:
        """Objects that change the server itself: custom kinds and priority classes."""
        obj: dict[str, Any] = change.rec.obj
        if table.resource.plural == "customresourcedefinitions":
            resource = kinds.custom_resource(obj)
            if change.type == "DELETED":
                self._uninstall(resource.key)
            else:
                self.catalogue.install(resource)
                own = self.store.table(resource)
                own.resource, own.defined = resource, self.store.version
        elif table.resource.plural == "priorityclasses":
            if change.type == "DELETED":
                self.writes.priorities.pop(change.rec.name, None)
            else:
                self.writes.priorities[change.rec.name] = int(obj.get("value") or 0)

    def _uninstall(self, key: tuple[str, str]) -> None:
        """Remove a custom kind with its objects; open watches of the kind end."""
        self.catalogue.remove(key)
        table = self.store.tables.pop(key, None)
        if table is None:
            return
        for rec in list(table.iterate()):
            self.store.remove(table, rec)
        for watcher in list(table.watchers):
            watcher.end()
