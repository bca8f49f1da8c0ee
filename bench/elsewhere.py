"""A cluster that is there already: a namespace and a queue of our own on it, and all of it undone.

Theory. All that is made is in one namespace or bears its name, so it can be told from what others
have. Who holds it by a finalizer (gatelog its pods and Workloads, Kueue the queues) is given time
to let go; then the finalizer is taken off, because a benchmark must leave nothing behind.

Invariant: nothing is changed or deleted but what this run made.
"""

import asyncio
import contextlib
import secrets
import ssl
import time
from collections.abc import AsyncIterator
from typing import Any, Self

import aiohttp

from bench.cluster import pods_of
from tests.support.processes import KUEUE, Api

MERGE = "application/merge-patch+json"
LET_GO_S, GONE_S = 30.0, 300.0
"""Seconds until finalizers are taken off, and until what is then still there is told."""
POLL_S = 0.5


class Unusable(Exception):
    """The cluster does not let us measure; the message says why and what to do."""


class Refused(Unusable):
    """The API server answered, and refused."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.passing = status == 429 or status >= 500
        """It may say something else when it is less busy."""


def trust(ca: str = "", cert: str = "", key: str = "", insecure: bool = False) -> ssl.SSLContext:
    """What is believed of the server's certificate, and our own where there is one.

    Raises:
        Unusable: a file cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if cert:
            context.load_cert_chain(cert, key or None)
    except (OSError, ssl.SSLError) as error:
        named = ", ".join(name for name in (ca, cert, key) if name)
        raise Unusable(f"certificates {named}: {error}") from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class Cluster(Api):
    """One API server, within a namespace of our own once `claim` was called."""

    def __init__(self, server: str, token: str, tls: ssl.SSLContext) -> None:
        super().__init__(server.rstrip("/"), token, tls, at_once=0)
        self.namespace = self.queue = f"gatelog-bench-{secrets.token_hex(3)}"
        self._workloads = f"{KUEUE}/namespaces/{self.namespace}/workloads"
        self._made: list[str] = []

    async def __aenter__(self) -> Self:
        """Use the connections."""
        return self

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        ok: tuple[int, ...] = (),
    ) -> Any:
        """Send a request; None where there is nothing.

        Raises:
            Unusable: it was refused, or no answer came.
        """
        try:
            found = await super().call(method, path, body, kind=kind, ok=())
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise Unusable(f"{method} {self.url}{path}: no answer: {error}") from error
        if found.get("kind") != "Status" or found.get("status") != "Failure":
            return found
        status = int(found.get("code", 500))
        if status == 404 and method != "POST":
            return None
        raise Refused(f"{method} {path}: {status}: {found.get('message', '')}", status)

    async def claim(self) -> None:
        """Make the namespace, and a queue in it with more quota than pods can ask for."""
        await self._make("/api/v1/namespaces", "v1", "Namespace", {})
        version = KUEUE.removeprefix("/apis/")
        await self._make(f"{KUEUE}/resourceflavors", version, "ResourceFlavor", {})
        quota = {"name": self.queue, "resources": [{"name": "cpu", "nominalQuota": "1000000"}]}
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
        }
        await self._make(f"{KUEUE}/clusterqueues", version, "ClusterQueue", {"spec": spec})
        local = f"{KUEUE}/namespaces/{self.namespace}/localqueues"
        await self._make(local, version, "LocalQueue", {"spec": {"clusterQueue": self.queue}})

    async def _make(self, path: str, version: str, kind: str, rest: dict[str, Any]) -> None:
        self._made.append(f"{path}/{self.queue}")
        made = {"apiVersion": version, "kind": kind, "metadata": {"name": self.queue}} | rest
        try:
            await self.call("POST", path, made)
        except Refused:
            self._made.pop()
            raise

    async def create(self, body: Any, namespace: str = "") -> list[str]:
        """Create a pod, in our namespace if no other is named; return the gates that it got."""
        made = await self.call("POST", pods_of(namespace or self.namespace), body)
        return [gate["name"] for gate in made["spec"].get("schedulingGates", ())]

    async def workloads(self) -> tuple[int, int]:
        """Return how many Workloads there are, and how many of them do not say Admitted."""
        found = [_admitted(one) async for one in self._all(self._workloads)]
        return len(found), found.count(False)

    async def clear(self) -> None:
        """Delete pods and Workloads, and wait until none is left.

        Raises:
            Unusable: some are still there after `GONE_S` seconds.
        """
        pods = pods_of(self.namespace)
        for path in (self._workloads, pods):
            await self._delete(path)
        for path in (pods, self._workloads):
            await self._gone(path, collection=True)

    async def release(self) -> None:
        """Undo `claim`, and whatever is in the namespace.

        Raises:
            Unusable: something is still there after `GONE_S` seconds; it is named.
        """
        left = []
        with contextlib.suppress(Unusable):
            await self.clear()  # what cannot be cleared keeps the namespace, named below
        for path in reversed(self._made):
            try:
                await self._delete(path)
                await self._gone(path)
            except Unusable as error:
                left.append(str(error))
        if left:
            raise Unusable("left behind: " + "; ".join(left))

    async def _delete(self, path: str) -> None:
        """Delete an object or a collection; one too big for a busy server is asked for again."""
        try:
            await self.call("DELETE", f"{path}?gracePeriodSeconds=0")
        except Refused as error:
            if not error.passing:
                raise

    async def _gone(self, path: str, *, collection: bool = False) -> None:
        begin, stripped = time.monotonic(), False
        while found := await self.call("GET", f"{path}?limit=1" if collection else path):
            if collection and not found["items"]:
                return
            waited_s = time.monotonic() - begin
            if waited_s > GONE_S:
                left = found["items"][0]["metadata"]["name"] if collection else path
                raise Unusable(f"{path}: {left} is still there after {GONE_S:.0f} s: delete it")
            if waited_s > LET_GO_S and not stripped:
                stripped = True
                await self._delete(path)
                held = [path]
                if collection:
                    held = [f"{path}/{one['metadata']['name']}" async for one in self._all(path)]
                for one in held:
                    await self.call("PATCH", one, {"metadata": {"finalizers": None}}, kind=MERGE)
            await asyncio.sleep(POLL_S)

    async def _all(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the objects of a collection, page by page."""
        more = ""
        while True:
            tail = f"&continue={more}" if more else ""
            page = await self.call("GET", f"{path}?limit=500{tail}") or {"items": ()}
            for one in page["items"]:
                yield one
            more = page.get("metadata", {}).get("continue", "")
            if not more:
                return


def _admitted(workload: dict[str, Any]) -> bool:
    conditions = workload.get("status", {}).get("conditions", ())
    return any(one["type"] == "Admitted" and one["status"] == "True" for one in conditions)
