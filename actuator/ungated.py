"""Single pods as the answers to their ungating showed them, for the Workloads made from them.

Theory. A Workload's template is that of a live pod, which is a GET. In builtin mode a single pod is
ungated just before its Workload is created, and the answer to that patch holds the pod: the
creation waits for an ungating under way and takes the pod from its answer. Without such an answer
(another replica ungated, the pod still waits) the pod is read. Pods of groups are not kept: a group
asks for one pod of each role.

Invariant: at most `MAX_BYTES` are kept, the oldest go first; a pod is taken once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from actuator.replies import Reply

MAX_BYTES: Final = 4 * 1024 * 1024
POD_BYTES: Final = 1024
"""Bytes of a pod beside its body, as in `workloadcache`."""


class UngatedPods:
    """Answers to ungatings by the uid of the pod."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Event] = {}
        self._pods: OrderedDict[str, Reply] = OrderedDict()
        self._bytes = 0

    @contextmanager
    def under_way(self, uid: str) -> Iterator[None]:
        """Let `take` wait, while the context is open, for the answer that `remember` keeps."""
        ended = self._under_way[uid] = asyncio.Event()
        try:
            yield
        finally:
            del self._under_way[uid]
            ended.set()

    def remember(self, reply: Reply) -> None:
        """Keep the pod in an answer, if the answer has a pod."""
        if not reply.ok or not reply.uid:
            return
        self._drop(reply.uid)
        self._pods[reply.uid] = reply
        self._bytes += len(reply.body) + POD_BYTES
        while self._bytes > MAX_BYTES:
            self._drop(next(iter(self._pods)))

    async def take(self, uid: str) -> Reply | None:
        """Return the pod and forget it, None if it is not known."""
        ended = self._under_way.get(uid)
        if ended is not None:
            await ended.wait()
        return self._drop(uid)

    def _drop(self, uid: str) -> Reply | None:
        found = self._pods.pop(uid, None)
        if found is not None:
            self._bytes -= len(found.body) + POD_BYTES
        return found
