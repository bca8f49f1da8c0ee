"""A user of a cluster: makes pods, and follows them through a watch.

Theory. Thousands of jobs wait at once, so a waiter is woken only by the pods that it waits for:
each pod and sign has its waiters. The API server ends the watch of a reader that is too slow, and
every watch after some minutes: the watch is opened again at its last version, and after an expired
version a list fills the gap.

Invariant: a sign, once seen, stays seen until its pod is forgotten.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterable
from typing import Any, Self

import aiohttp
import msgspec
from msgspec import Struct, field

from podgroup.model.names import ADMISSION_GATE, MANAGED_LABEL, POD_FINALIZER
from runtime.settings import ActuatorSettings
from tests.support.processes import Api, pod

PATIENCE_S = 60.0
AT_ONCE = ActuatorSettings().max_in_flight
"""Requests of a client at once: as many as the actuator may have."""
STEPS = "application/json-patch+json"
_AGAIN_S = 0.5

UNGATED, FAILED, LET_GO, GONE = "ungated", "failed", "let go", "gone"


def gated(name: str, group: str = "", total: int = 0, script: str = "") -> dict[str, Any]:
    """A pod as admission leaves it; the webhook's own time is no part of these figures."""
    body = pod(name, group, total, script=script)
    body["metadata"]["labels"][MANAGED_LABEL] = "true"
    body["metadata"]["finalizers"] = [POD_FINALIZER]
    body["spec"]["schedulingGates"] = [{"name": ADMISSION_GATE}]
    return body


def pods_of(namespace: str) -> str:
    """Return the path of a namespace's pods; of all pods for ""."""
    return f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"


async def ungate(api: Api, namespace: str, name: str) -> None:
    """Take the first gate off a pod, if it is that: the bare write that admission comes down to."""
    first = "/spec/schedulingGates/0"
    steps = [
        {"op": "test", "path": f"{first}/name", "value": ADMISSION_GATE},
        {"op": "remove", "path": first},
    ]
    await api.call("PATCH", f"{pods_of(namespace)}/{name}", steps, kind=STEPS)


async def together(work: Iterable[Coroutine[Any, Any, Any]], at_once: int = AT_ONCE) -> None:
    """Run all of `work`, `at_once` at a time.

    Raises:
        Exception: the error of the first failure.
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


class Meta(Struct, frozen=True):
    """Metadata of a pod: name and version; of a list: the token of its next page."""

    name: str = ""
    version: str = field(name="resourceVersion", default="")
    more: str = field(name="continue", default="")
    finalizers: tuple[str, ...] = ()


class Gate(Struct, frozen=True):
    """What holds a pod back."""

    name: str = ""


class Spec(Struct, frozen=True):
    """The gates of a pod, including those of other controllers."""

    gates: tuple[Gate, ...] = field(name="schedulingGates", default=())


class Status(Struct, frozen=True):
    """The phase of a pod."""

    phase: str = ""


class SeenPod(Struct, frozen=True):
    """The part of a pod that a watcher needs, or of an error in its place."""

    metadata: Meta = Meta()
    spec: Spec = Spec()
    status: Status | str = Status()
    code: int = 0

    @property
    def gated(self) -> bool:
        """One of the gates that count is on it."""
        return any(gate.name == ADMISSION_GATE for gate in self.spec.gates)

    @property
    def phase(self) -> str:
        """Its phase."""
        return self.status.phase if isinstance(self.status, Status) else ""


class Line(Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: SeenPod


class Listed(Struct, frozen=True):
    """A page of a list."""

    metadata: Meta = Meta()
    items: tuple[SeenPod, ...] = ()


# The watcher runs on the same cores: it should take as little of them as possible.
_lines = msgspec.json.Decoder(Line)
_lists = msgspec.json.Decoder(Listed)


class WatchFailed(Exception):
    """A watch that cannot go on; the message has the API server's answer."""


class _Waiter:
    """Waits until `wanted` of the pods that lack a sign show it; knows the last of them."""

    def __init__(self, left: set[str], wanted: int) -> None:
        self.left, self.enough = left, len(left) - wanted
        self.over: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def saw(self, name: str) -> None:
        self.left.discard(name)
        if len(self.left) <= self.enough and not self.over.done():
            self.over.set_result(name)


class PodWatch:
    """A watch on pods whose names differ, as long as the context lasts.

    `seen` has the time at which each pod first showed a sign, by `time.perf_counter`: ungated,
    failed, let go (no finalizer), gone. `opened` counts how often the watch was opened.
    """

    def __init__(self, api: Api, namespace: str = "") -> None:
        self._api = api
        self._url = api.url + pods_of(namespace)
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[tuple[str, str], list[_Waiter]] = {}
        self.seen: dict[str, dict[str, float]] = {
            sign: {} for sign in (UNGATED, FAILED, LET_GO, GONE)
        }
        self.opened = 0

    async def __aenter__(self) -> Self:
        """Begin to watch what happens from now on."""
        self._task = asyncio.create_task(self._run(await self._list()))
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop watching."""
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def until(
        self, sign: str, names: Iterable[str], timeout_s: float | None = PATIENCE_S
    ) -> None:
        """Wait until all pods have shown a sign.

        Raises:
            TimeoutError: they have not in time.
            WatchFailed: the watch cannot go on.
        """
        if left := set(names) - self.seen[sign].keys():
            await self._wait(sign, left, len(left), timeout_s)

    async def first(self, sign: str, names: Iterable[str]) -> str:
        """Wait until one of the pods has shown a sign; return its name."""
        names = list(names)
        shown = next((name for name in names if name in self.seen[sign]), None)
        return shown if shown is not None else await self._wait(sign, set(names), 1, None)

    def forget(self, names: Iterable[str]) -> None:
        """Drop the signs of pods that are gone."""
        for name in names:
            for sign, seen in self.seen.items():
                seen.pop(name, None)
                self._waiting.pop((name, sign), None)

    def feed(self, line: Line) -> None:
        """Note the signs that a line shows, and wake their waiters."""
        pod, name = line.object, line.object.metadata.name
        if not pod.gated:
            self._show(UNGATED, name)
        if pod.phase == "Failed":
            self._show(FAILED, name)
        if line.type == "DELETED":
            self._show(GONE, name)
        if line.type == "DELETED" or not pod.metadata.finalizers:
            self._show(LET_GO, name)

    def _show(self, sign: str, name: str) -> None:
        if name not in self.seen[sign]:
            self.seen[sign][name] = time.perf_counter()
            for waiter in self._waiting.pop((name, sign), ()):
                waiter.saw(name)

    async def _wait(self, sign: str, left: set[str], wanted: int, timeout_s: float | None) -> str:
        waiter = _Waiter(left, wanted)
        for name in left:
            self._waiting.setdefault((name, sign), []).append(waiter)
        assert self._task is not None
        async with asyncio.timeout(timeout_s):
            await asyncio.wait((waiter.over, self._task), return_when=asyncio.FIRST_COMPLETED)
        return waiter.over.result() if waiter.over.done() else self._ended(self._task)

    def _ended(self, task: "asyncio.Task[None]") -> str:
        task.result()
        raise WatchFailed(f"watch of {self._url} ended")

    async def _run(self, version: str) -> None:
        while True:
            self.opened += 1
            try:
                version = await self._read(version) or await self._list()
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_AGAIN_S)

    async def _read(self, version: str) -> str:
        """Read one watch to its end; return the version to go on from, "" if it has expired."""
        params = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30)
        async with self._api.http.get(self._url, params=params, timeout=timeout) as answer:
            if answer.status == 410:
                return ""
            if answer.status != 200:
                said = (await answer.read())[:500].decode(errors="replace")
                raise WatchFailed(f"watch of {self._url}: {answer.status}: {said}")
            with contextlib.suppress(aiohttp.ClientError):  # the lines that were read count
                async for text in answer.content:
                    line = _lines.decode(text)
                    if line.type == "ERROR":
                        return "" if line.object.code == 410 else version
                    version = line.object.metadata.version
                    if line.type != "BOOKMARK":
                        self.feed(line)
        return version

    async def _list(self) -> str:
        more = version = ""
        while True:
            params = {"limit": "500"} | ({"continue": more} if more else {})
            async with self._api.http.get(self._url, params=params) as answer:
                page = _lists.decode(await answer.read())
            version = version or page.metadata.version
            for one in page.items:
                self.feed(Line("ADDED", one))
            more = page.metadata.more
            if not more:
                return version
