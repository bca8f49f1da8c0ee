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
    def __init__(self, left: set[Key]) -> None:
        self.left = left
        self.over = asyncio.get_running_loop().create_future()

    def saw(self, key: Key) -> None:
        self.left.discard(key)
        if not self.left and not self.over.done():
            self.over.set_result(None)


class PodWatch(PodLines):
    """Signs of pods: ungated, failed, let go (no finalizer), gone."""

    def __init__(self, api: Api) -> None:
        super().__init__(api, "/api/v1/pods")
        self._seen: dict[Key, set[str]] = {}
        self._waiting: dict[tuple[Key, str], list[_Waiter]] = {}

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
