"""One watch on all pods, and waiting for what happens to them.

Theory. Thousands of jobs wait for something at once, so a waiter is woken by the pods it waits for
and by nothing else: for each pod and each sign it is known who waits.

Invariant: a sign, once seen, stays seen until its pod is forgotten.
"""

import asyncio
import contextlib
from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct, field

from tests.support.processes import Api

Key = tuple[str, str]

UNGATED, FAILED, LET_GO, GONE = "ungated", "failed", "let go", "gone"


class _Meta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    finalizers: tuple[str, ...] = ()


class _Spec(Struct, frozen=True):
    gates: tuple[Raw, ...] = field(name="schedulingGates", default=())


class _Status(Struct, frozen=True):
    phase: str = ""


class _Pod(Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _Line(Struct, frozen=True):
    type: str
    object: _Pod


_lines = msgspec.json.Decoder(_Line)


class _Waiter:
    def __init__(self, left: set[Key]) -> None:
        self.left = left
        self.over = asyncio.get_running_loop().create_future()

    def saw(self, key: Key) -> None:
        self.left.discard(key)
        if not self.left and not self.over.done():
            self.over.set_result(None)


class PodWatch:
    """Signs of pods: ungated, failed, let go (no finalizer), gone."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._seen: dict[Key, set[str]] = {}
        self._waiting: dict[tuple[Key, str], list[_Waiter]] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "PodWatch":
        """Begin to watch."""
        self._task = asyncio.create_task(self._watch())
        await asyncio.sleep(0.2)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def until(self, sign: str, namespace: str, names: Iterable[str]) -> None:
        """Wait until all pods have shown a sign."""
        keys = [(namespace, name) for name in names]
        left = {key for key in keys if sign not in self._seen.get(key, ())}
        if not left:
            return
        waiter = _Waiter(set(left))
        for key in left:
            self._waiting.setdefault((key, sign), []).append(waiter)
        await waiter.over

    def forget(self, namespace: str, names: Iterable[str]) -> None:
        """Drop what is known of pods that are gone."""
        for name in names:
            self._seen.pop((namespace, name), None)
            for sign in (UNGATED, FAILED, LET_GO, GONE):
                self._waiting.pop(((namespace, name), sign), None)

    @property
    def pods(self) -> int:
        """Pods something is known of."""
        return len(self._seen)

    async def _watch(self) -> None:
        params = {"watch": "1", "resourceVersion": "0"}
        path = f"{self._api.url}/api/v1/pods"
        while True:
            async with self._api.http.get(path, params=params, timeout=None) as answer:
                async for line in answer.content:
                    found = _lines.decode(line)
                    if found.type in ("ADDED", "MODIFIED", "DELETED"):
                        self._take(found)

    def _take(self, line: _Line) -> None:
        pod = line.object
        key = (pod.metadata.namespace, pod.metadata.name)
        seen = self._seen.setdefault(key, set())
        signs = []
        if not pod.spec.gates:
            signs.append(UNGATED)
        if pod.status.phase == "Failed":
            signs.append(FAILED)
        if not pod.metadata.finalizers:
            signs.append(LET_GO)
        if line.type == "DELETED":
            signs += [LET_GO, GONE]
        for sign in signs:
            if sign not in seen:
                seen.add(sign)
                for waiter in self._waiting.pop((key, sign), ()):
                    waiter.saw(key)
