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
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, Self

import aiohttp
import msgspec
from msgspec import Raw, Struct, field

from podgroup.model.names import ADMISSION_GATE

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
GATE = "gatelog.io/bench"
"""The gate of pods that no queue is to see."""
MERGE, STEPS = "application/merge-patch+json", "application/json-patch+json"
LET_GO_S, GONE_S = 30.0, 300.0
"""Seconds until finalizers are taken off, and until what is then still there is told."""
POLL_S = 0.5
LINE_BYTES = 16 * 1024**2
"""A line of a watch at most; pods may have 1.5 MB."""


class Unusable(Exception):
    """The cluster does not let us measure; the message says why and what to do."""


class Refused(Unusable):
    """The API server answered, and refused."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.passing = status == 429 or status >= 500
        """It may say something else when it is less busy."""


class Meta(Struct, frozen=True):
    """Who an object is, and at which version."""

    name: str = ""
    version: str = field(name="resourceVersion", default="")
    more: str = field(name="continue", default="")


class Named(Struct, frozen=True):
    """A gate."""

    name: str = ""


class Spec(Struct, frozen=True):
    """What holds a pod back."""

    gates: tuple[Named, ...] = field(name="schedulingGates", default=())


class Condition(Struct, frozen=True):
    """What a Workload says of itself."""

    type: str = ""
    status: str = ""


class Status(Struct, frozen=True):
    """How a Workload stands."""

    conditions: tuple[Condition, ...] = ()


class Seen(Struct, frozen=True):
    """As much of a pod or Workload (or of a Status in its place) as is looked at."""

    metadata: Meta = Meta()
    spec: Spec = Spec()
    code: int = 0
    status: Raw = Raw(b"{}")
    """Of a Status a word."""

    @property
    def gated(self) -> bool:
        """One of the gates that count is on it."""
        return any(gate.name in (ADMISSION_GATE, GATE) for gate in self.spec.gates)

    @property
    def admitted(self) -> bool:
        """A Workload says that it is admitted."""
        said = _status.decode(self.status)
        return any(one.type == "Admitted" and one.status == "True" for one in said.conditions)


class Line(Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: Seen


class Listed(Struct, frozen=True):
    """A list, or a page of one."""

    metadata: Meta = Meta()
    items: tuple[Seen, ...] = ()


_line = msgspec.json.Decoder(Line)
_list = msgspec.json.Decoder(Listed)
_seen = msgspec.json.Decoder(Seen)
_status = msgspec.json.Decoder(Status)


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


async def together(work: Iterable[Coroutine[Any, Any, None]], at_once: int) -> None:
    """Do all of it, so many at once.

    Raises:
        Exception: whatever the first that failed has raised.
    """
    waiting = iter(work)

    async def some() -> None:
        for one in waiting:
            await one

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(some())
    except ExceptionGroup as several:
        raise several.exceptions[0] from None


class Cluster:
    """Requests to one API server, within a namespace of our own once `claim` was called."""

    def __init__(self, server: str, token: str, tls: ssl.SSLContext) -> None:
        self.server = server.rstrip("/")
        self.namespace = self.queue = f"gatelog-bench-{secrets.token_hex(3)}"
        self.pods = self.pods_of(self.namespace)
        self._workloads = f"{KUEUE}/namespaces/{self.namespace}/workloads"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = tls
        self._made: list[str] = []

    async def __aenter__(self) -> Self:
        """Open the connections."""
        self.http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, limit=0),
            headers=self._headers,
            read_bufsize=LINE_BYTES,
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close them."""
        await self.http.close()

    async def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> bytes:
        """Send a request; b"" where there is nothing.

        Raises:
            Unusable: it was refused, or no answer came.
        """
        data = None if body is None else msgspec.json.encode(body)
        try:
            async with self.http.request(
                method, self.server + path, data=data, headers={"Content-Type": kind}
            ) as answer:
                text = await answer.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Unusable(f"{method} {self.server}{path}: no answer: {error}") from error
        if answer.status == 404 and method != "POST":
            return b""
        if answer.status >= 300:
            said = text[:500].decode(errors="replace")
            raise Refused(f"{method} {path}: {answer.status}: {said}", answer.status)
        return text

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

    def pods_of(self, namespace: str) -> str:
        """Return the path of a namespace's pods."""
        return f"/api/v1/namespaces/{namespace}/pods"

    async def create(self, body: Any, where: str = "") -> Seen:
        """Create a pod, at the path `where` if not among ours; return it as it was taken."""
        return _seen.decode(await self.call("POST", where or self.pods, body))

    async def ungate(self, name: str) -> None:
        """Take a gate off by hand."""
        first = "/spec/schedulingGates/0"
        steps = [
            {"op": "test", "path": f"{first}/name", "value": GATE},
            {"op": "remove", "path": first},
        ]
        await self.call("PATCH", f"{self.pods}/{name}", steps, STEPS)

    async def workloads(self) -> tuple[int, int]:
        """Return how many Workloads there are, and how many of them do not say Admitted."""
        count, unwritten, more = 0, 0, ""
        while True:
            page = await self.page(self._workloads, more)
            count += len(page.items)
            unwritten += sum(not one.admitted for one in page.items)
            more = page.metadata.more
            if not more:
                return count, unwritten

    async def page(self, path: str, more: str = "", limit: int = 500) -> Listed:
        """Return a page of a collection."""
        tail = f"&continue={more}" if more else ""
        found = await self.call("GET", f"{path}?limit={limit}{tail}")
        return _list.decode(found) if found else Listed()

    async def clear(self) -> None:
        """Delete pods and Workloads, and wait until none is left.

        Raises:
            Unusable: some are still there after `GONE_S` seconds.
        """
        for path in (self._workloads, self.pods):
            await self._delete(path)
        for path in (self.pods, self._workloads):
            await self._gone(path, collection=True)

    async def release(self) -> None:
        """Undo `claim`, and whatever is in the namespace.

        Raises:
            Unusable: something is still there after `GONE_S` seconds; it is named.
        """
        left = []
        with contextlib.suppress(
            Unusable
        ):  # what cannot be cleared keeps the namespace, told below
            await self.clear()
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
        while True:
            if collection:
                left = [one.metadata.name for one in (await self.page(path, limit=1)).items]
            else:
                left = [path] if await self.call("GET", path) else []
            if not left:
                return
            waited_s = time.monotonic() - begin
            if waited_s > GONE_S:
                raise Unusable(f"{path}: {left[0]} is still there after {GONE_S:.0f} s: delete it")
            if waited_s > LET_GO_S and not stripped:
                stripped = True
                await self._delete(path)
                held = [f"{path}/{name}" async for name in self._all(path)] if collection else left
                for one in held:
                    await self.call("PATCH", one, {"metadata": {"finalizers": None}}, MERGE)
            await asyncio.sleep(POLL_S)

    async def _all(self, path: str) -> AsyncIterator[str]:
        more = ""
        while True:
            page = await self.page(path, more)
            for one in page.items:
                yield one.metadata.name
            more = page.metadata.more
            if not more:
                return


class Watch:
    """A watch on the pods of our namespace, as long as the context lasts.

    The API server ends the watch of a reader that is too slow for it, and every one after some
    minutes: it is opened again where it was, and after an expired version a list fills the gap.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.ungated: dict[str, float] = {}
        """When each pod was first seen without gate, by `time.perf_counter`."""
        self.opened = 0
        """How often it was opened."""

    async def __aenter__(self) -> Self:
        """Begin to watch what happens from now on."""
        version = await self._list()
        self._task = asyncio.create_task(self._run(version))
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop watching."""
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def until(self, names: list[str], timeout_s: float) -> float:
        """Wait until all have been seen ungated; return when the last was.

        Raises:
            Unusable: that took longer than `timeout_s`, or the watch cannot go on.
        """
        left = set(names) - self.ungated.keys()
        end = time.monotonic() + timeout_s
        while left:
            if self._task is not None and self._task.done():
                self._task.result()
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(1.0, timeout_s))
            left -= self.ungated.keys()
            if left and time.monotonic() > end:
                raise Unusable(
                    f"{len(left)} of {len(names)} pods still have their gate after "
                    f"{timeout_s:.0f} s, {min(left)} first: does gatelog run on this cluster, in a "
                    f"mode that admits LocalQueue {self._cluster.queue}?"
                )
        return max(self.ungated[name] for name in names)

    async def _run(self, version: str) -> None:
        while True:
            self.opened += 1
            try:
                version = await self._read(version)
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(POLL_S)
            if not version:
                version = await self._list()

    async def _read(self, version: str) -> str:
        """Read one watch to its end; return the version to go on from, "" if it has expired."""
        params = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
        url = self._cluster.server + self._cluster.pods
        async with self._cluster.http.get(
            url, params=params, timeout=aiohttp.ClientTimeout(total=None, sock_connect=30)
        ) as answer:
            if answer.status == 410:
                return ""
            if answer.status != 200:
                said = (await answer.read())[:500].decode(errors="replace")
                raise Unusable(f"watch of {url}: {answer.status}: {said}")
            try:
                async for text in answer.content:
                    line = _line.decode(text)
                    if line.type == "ERROR":
                        return "" if line.object.code == 410 else version
                    version = line.object.metadata.version
                    if line.type in ("ADDED", "MODIFIED"):
                        self._note(line.object)
            except aiohttp.ClientError:
                return version  # it broke off: what was read counts
        return version

    async def _list(self) -> str:
        more = version = ""
        while True:
            page = await self._cluster.page(self._cluster.pods, more)
            version = version or page.metadata.version
            for one in page.items:
                self._note(one)
            more = page.metadata.more
            if not more:
                return version

    def _note(self, pod: Seen) -> None:
        if not pod.gated:
            self.ungated.setdefault(pod.metadata.name, time.perf_counter())
            self._changed.set()
