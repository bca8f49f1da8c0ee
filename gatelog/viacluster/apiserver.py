"""The API server: its address, our login, and its answers.

Invariant: an answer that is no success becomes a `CommandFailed` with the server's own sentence.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from gatelog.shell.errors import CommandFailed, UsageFailed
from gatelog.shell.named import by_kubeconfig
from gatelog.viacluster.answers import TableRow, rows
from runtime import kube as kubernetes
from runtime.kube import KubeClient
from runtime.settings import KubernetesSettings

GROUP, VERSION = "gatelog.io", "v1beta1"
BASE = f"/apis/{GROUP}/{VERSION}"
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_IDLE_S = 3600.0


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where to ask: kubeconfig, context, and the namespace ("" for all)."""

    kubeconfig: str = ""
    context: str = ""
    namespace: str = ""

    @property
    def settings(self) -> KubernetesSettings:
        """As the client takes it."""
        return KubernetesSettings(kubeconfig=self.kubeconfig, context=self.context)


def destination(kubeconfig: str, context: str, namespace: str, everywhere: bool) -> Place:
    """Return where to ask; without a namespace that of the context, as kubectl has it.

    Raises:
        UsageFailed: a namespace and all of them at once.
    """
    if everywhere and namespace:
        raise UsageFailed("-A and -n exclude each other: all namespaces, or one")
    if not everywhere and not namespace:
        namespace = _of_context(kubeconfig, context)
    return Place(kubeconfig=kubeconfig, context=context, namespace=namespace)


def parted(name: str, namespace: str) -> tuple[str, str]:
    """Return name and namespace of an object given as NAME, or as NAMESPACE/NAME.

    Raises:
        UsageFailed: two namespaces.
    """
    space, slash, rest = name.partition("/")
    if not slash:
        return name, namespace
    if namespace and namespace != space:
        raise UsageFailed(f"{name} with -n {namespace}: one namespace, in front of the / or by -n")
    if not (space and rest) or "/" in rest:
        raise UsageFailed(f"{name}: write NAME, with -n NAMESPACE, or NAMESPACE/NAME")
    return rest, space


def _of_context(kubeconfig: str, context: str) -> str:
    named = by_kubeconfig(kubeconfig, context)
    if named is None and _IN_POD.is_file():
        return _IN_POD.read_text().strip() or "default"
    return (named.namespace if named is not None else "") or "default"


class Cluster:
    """The API server, asked as the user of the kubeconfig."""

    def __init__(self, kube: KubeClient, where: Place) -> None:
        self._kube = kube
        self.namespace = where.namespace
        self.server = kube.server

    def path(self, plural: str, name: str = "", namespace: str | None = None) -> str:
        """Return the path of a kind or of one object of it."""
        where = self.namespace if namespace is None else namespace
        within = f"/namespaces/{where}" if where else ""
        return f"{BASE}{within}/{plural}" + (f"/{name}" if name else "")

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """Return the server's answer.

        Raises:
            CommandFailed: the server refused; the message is its own.
            KubeError: the server does not answer.
        """
        answer = await self._kube.request("GET", path, params=params)
        return _accepted(answer.status, _decoded(answer.body))

    async def create(self, path: str, body: Any) -> Any:
        """Return what the server makes of an object that is kept nowhere.

        Raises:
            CommandFailed, KubeError: as `get`.
        """
        answer = await self._kube.request("POST", path, body=msgspec.json.encode(body))
        return _accepted(answer.status, _decoded(answer.body))

    async def maybe(self, path: str, params: Mapping[str, str] | None = None) -> Any:
        """Return the server's answer, None for an object that does not exist or may not be seen."""
        answer = await self._kube.request("GET", path, params=params)
        if answer.status in (403, 404):
            return None
        return _accepted(answer.status, _decoded(answer.body))

    async def items(self, path: str, params: Mapping[str, str] | None = None) -> list[Any]:
        """Return all objects of a list.

        Raises:
            CommandFailed, KubeError: as `get`.
        """
        return [one async for page in self._pages(path, params, "") for one in page["items"]]

    async def table(self, path: str, params: Mapping[str, str] | None = None) -> list[TableRow]:
        """Return the server's table rows of a list, or of an object.

        Raises:
            CommandFailed, KubeError: as `get`.
        """
        return [one async for page in self._pages(path, params, _TABLE) for one in rows(page)]

    async def _pages(
        self, path: str, params: Mapping[str, str] | None, accept: str
    ) -> AsyncIterator[Any]:
        asked = dict(params or {})
        while True:
            answer = await self._kube.request("GET", path, params=asked, accept=accept)
            found = _accepted(answer.status, _decoded(answer.body))
            yield found
            asked["continue"] = found["metadata"].get("continue", "")
            if not asked["continue"]:
                return

    async def watch(self, plural: str, params: Mapping[str, str]) -> AsyncIterator[Any]:
        """Yield the events of a watch until the server ends it.

        Raises:
            CommandFailed: the watch is refused.
        """
        asked = {**params, "watch": "true"}
        async with self._kube.watch(self.path(plural), asked, idle_timeout_s=_IDLE_S) as found:
            if found.status != 200:
                raise failure_of(found.status, _decoded(await found.read()))
            async for line in found:
                yield msgspec.json.decode(line)


def _decoded(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return None


def _accepted(status: int, found: Any) -> Any:
    if status in (200, 201):
        return found
    raise failure_of(status, found)


def failure_of(status: int, found: Any) -> CommandFailed:
    """Return the failure of an answer."""
    said = found.get("message") if isinstance(found, dict) else ""
    if status == 404 and not (isinstance(found, dict) and found.get("details")):
        return CommandFailed(
            "the cluster does not serve gatelog.io/v1beta1: is `gatelog serve` installed, and its "
            "APIService available (kubectl get apiservices v1beta1.gatelog.io)?"
        )
    return CommandFailed(str(said or f"the API server answered {status}"))


@asynccontextmanager
async def connected(where: Place) -> AsyncIterator[Cluster]:
    """Yield the API server.

    Raises:
        KubeError: the kubeconfig cannot be used.
    """
    kube = await kubernetes.connect(where.settings, part="kubectl")
    try:
        yield Cluster(kube, where)
    finally:
        await kube.close()
