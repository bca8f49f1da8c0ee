"""Users' eyes: one watch on all pods, held against what must never be true, event by event.

Theory. The API server hands out changes of pods in one order. After each of them the pods past
their gate are added up by namespace and held against its quota, and a group's first ungated pod
against the number of pods that the group was to have. A watch that ends is replaced by a list and
another watch, so nothing is missed but what came and went in between.

Invariant: `wrong` only grows; a run with an empty one never showed a broken promise.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import aiohttp

from podgroup.model.names import ADMISSION_GATE
from podgroup.model.objects import ENDED
from tests.support.processes import Api

Key = tuple[str, str]
GROUP = "kueue.x-k8s.io/pod-group-name"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"


class Seen:
    """What was last seen of a pod."""

    def __init__(self, body: dict[str, Any]) -> None:
        meta, spec = body["metadata"], body["spec"]
        self.key: Key = (meta["namespace"], meta["name"])
        self.group: str = meta.get("labels", {}).get(GROUP, "")
        self.total = int(meta.get("annotations", {}).get(TOTAL, "1"))
        self.cpu = int(spec["containers"][0]["resources"]["requests"]["cpu"])
        self.phase: str = body.get("status", {}).get("phase", "")
        self.gated = any(g["name"] == ADMISSION_GATE for g in spec.get("schedulingGates", ()))
        self.held = bool(meta.get("finalizers"))
        self.using = not self.gated and self.phase not in ENDED


class Eyes:
    """Watches all pods; `quotas` is cpu by namespace."""

    def __init__(self, api: Api, quotas: dict[str, int]) -> None:
        self.pods: dict[Key, Seen] = {}
        self.wrong: list[str] = []
        self.most: Counter[str] = Counter()
        self.events = 0
        self._api = api
        self._quotas = quotas
        self._used: Counter[str] = Counter()
        self._opened: set[tuple[str, str]] = set()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Eyes":
        self._task = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def until(self, check: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something holds of the pods; False: it did not in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not check():
                    self._changed.clear()
                    await self._changed.wait()
        return check()

    async def _look(self) -> None:
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError, KeyError, ValueError):
                await self._once()
            await asyncio.sleep(0.05)

    async def _once(self) -> None:
        path = f"{self._api.url}/api/v1/pods"
        async with self._api.http.get(path) as answer:
            answer.raise_for_status()
            found = await answer.json()
        listed = [Seen(body) for body in found["items"]]
        self._used.clear()
        self.pods = {pod.key: pod for pod in listed}
        for pod in listed:
            self._used[pod.key[0]] += pod.cpu * pod.using
        self._judge(listed)
        params = {"watch": "1", "resourceVersion": found["metadata"]["resourceVersion"]}
        async with self._api.http.get(path, params=params, timeout=None) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                item = json.loads(line)
                if item["type"] in ("ADDED", "MODIFIED", "DELETED"):
                    self._take(item["type"], Seen(item["object"]))

    def _take(self, kind: str, pod: Seen) -> None:
        self.events += 1
        before = self.pods.pop(pod.key, None)
        space = pod.key[0]
        if before is not None:
            self._used[space] -= before.cpu * before.using
        if kind != "DELETED":
            self.pods[pod.key] = pod
            self._used[space] += pod.cpu * pod.using
            self._judge([pod])
        self._changed.set()

    def _judge(self, changed: list[Seen]) -> None:
        self._changed.set()
        for space, quota in self._quotas.items():
            used = self._used[space]
            self.most[space] = max(self.most[space], used)
            if used > quota:
                self.wrong.append(f"{space}: {used} cpu past the gate, quota {quota}")
        for pod in changed:
            group = (pod.key[0], pod.group)
            if pod.gated or not pod.group or group in self._opened:
                continue
            self._opened.add(group)
            there = sum(p.group == pod.group for p in self.pods.values() if p.key[0] == group[0])
            if there < pod.total:
                self.wrong.append(
                    f"{group[0]}/{pod.group}: ungated with {there} of {pod.total} pods"
                )
