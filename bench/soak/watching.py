"""One watch on all pods, and waiting for what happens to them.

Theory. Thousands of jobs wait for something at once, so a waiter is woken by the pods it waits for
and by nothing else: for each pod and each sign it is known who waits.

Invariant: a sign, once seen, stays seen until its pod is forgotten.
"""

import asyncio
from collections.abc import Iterable

from bench.cluster import Line, PodLines
from tests.support.processes import Api

Key = tuple[str, str]

UNGATED, FAILED, LET_GO, GONE = "ungated", "failed", "let go", "gone"


class _Waiter:
    """Waits for a sign of `wanted` pods out of those that have not shown it; knows the last."""

    def __init__(self, left: set[Key], wanted: int) -> None:
        self.left, self.enough = left, len(left) - wanted
        self.over: asyncio.Future[Key] = asyncio.get_running_loop().create_future()

    def saw(self, key: Key) -> None:
        self.left.discard(key)
        if len(self.left) <= self.enough and not self.over.done():
            self.over.set_result(key)


class PodWatch(PodLines):
    """Signs of pods: ungated, failed, let go (no finalizer), gone."""

    def __init__(self, api: Api) -> None:
        super().__init__(api, "/api/v1/pods")
        self._seen: dict[Key, set[str]] = {}
        self._waiting: dict[tuple[Key, str], list[_Waiter]] = {}

    async def until(self, sign: str, namespace: str, names: Iterable[str]) -> None:
        """Wait until all pods have shown a sign."""
        if left := self._without(sign, namespace, names):
            await self._wait(sign, left, len(left))

    async def first(self, sign: str, namespace: str, names: Iterable[str]) -> str:
        """Wait until one of the pods has shown a sign; return its name."""
        names = list(names)
        left = self._without(sign, namespace, names)
        for name in names:
            if (namespace, name) not in left:
                return name
        return (await self._wait(sign, left, 1))[1]

    def _without(self, sign: str, namespace: str, names: Iterable[str]) -> set[Key]:
        keys = ((namespace, name) for name in names)
        return {key for key in keys if sign not in self._seen.get(key, ())}

    async def _wait(self, sign: str, left: set[Key], wanted: int) -> Key:
        waiter = _Waiter(left, wanted)
        for key in left:
            self._waiting.setdefault((key, sign), []).append(waiter)
        return await waiter.over

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

    def feed(self, line: Line) -> None:
        """Note the signs that a line shows, and wake those who wait for them."""
        if line.type not in ("ADDED", "MODIFIED", "DELETED"):
            return
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
