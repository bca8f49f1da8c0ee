"""Users of a cluster in trouble: they make single pods and groups, and try again when refused.

Theory. A job is a single pod or a group; its size and fate are drawn from a seeded generator. Pods
of jobs that are over stay until `sweep`, so that what gatelog made of them can be audited at rest.
Some jobs are never over: one group is a pod short, one asks for more than there is.

Invariant: what is drawn depends on the seed alone; `unfinished` names every job that should be over
and is not.
"""

import asyncio
import random
from typing import Any

from bench.cluster import gated
from tests.chaos.watching import ENDED, Eyes
from tests.support.processes import Api

SIZES = (1, 1, 1, 2, 4, 6, 10)
QUOTA_CPU = 24
RETRY_S = 0.2


class Load:
    """Jobs in one namespace at a steady rate of pods, until told to stop."""

    def __init__(self, api: Api, eyes: Eyes, namespace: str, seed: int, prefix: str) -> None:
        self._api = api
        self._eyes = eyes
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._namespace = namespace
        self.prefix = prefix
        self._random = random.Random(seed)
        self._jobs: dict[str, asyncio.Task[None]] = {}
        self._stop = asyncio.Event()
        self.pods = 0

    async def run(self, pods_per_s: float) -> None:
        """Start jobs until `stop`."""
        await self._create("short", self._body("short-0", "short", 3, "run=1s,succeed"))
        for i in range(2):
            body = self._body(f"large-{i}", "large", 2, "run=1s,succeed", QUOTA_CPU)
            await self._create("large", body)
        number = 0
        while not self._stop.is_set():
            size = self._random.choice(SIZES)
            fails = size > 1 and self._random.random() < 0.15
            run_ms = self._random.randint(200, 1500)
            self._jobs[f"j{number}"] = asyncio.create_task(
                self._job(f"j{number}", size, fails, run_ms)
            )
            number += 1
            await asyncio.sleep(size / pods_per_s)

    def stop(self) -> None:
        """Start no more jobs."""
        self._stop.set()

    def abandon(self) -> None:
        """Leave the jobs under way to themselves."""
        for task in self._jobs.values():
            task.cancel()

    async def unfinished(self, timeout_s: float) -> list[str]:
        """Wait for the jobs under way; return those that are not over in time."""
        if not self._jobs:
            return []
        _, late = await asyncio.wait(self._jobs.values(), timeout=timeout_s)
        found = [name for name, task in self._jobs.items() if task in late]
        for task in late:
            task.cancel()
        for task in self._jobs.values():
            if not task.cancelled() and task.done():
                task.result()
        return [f"job {self.prefix}{name} is not over after {timeout_s:.0f} s" for name in found]

    async def sweep(self, timeout_s: float) -> list[str]:
        """Delete all pods; return those that do not go."""
        await self._api.call("DELETE", self._path)

        def gone() -> bool:
            return not any(key[0] == self._namespace for key in self._eyes.pods)

        if await self._eyes.until(gone, timeout_s):
            return []
        left = [key[1] for key in self._eyes.pods if key[0] == self._namespace]
        return [f"pod {name} was deleted and does not go" for name in left]

    def _body(self, name: str, group: str, total: int, script: str, cpu: int = 1) -> dict[str, Any]:
        full = self.prefix + group if group else ""
        body = gated(self.prefix + name, full, total, script)
        body["spec"]["containers"][0]["resources"]["requests"]["cpu"] = str(cpu)
        return body

    async def _job(self, name: str, size: int, fails: bool, run_ms: int) -> None:
        group = name if size > 1 else ""
        total = size if group else 0
        good = f"start=10ms,run={run_ms}ms,succeed"
        bad = f"start=10ms,run={run_ms}ms,fail=1"
        for i in range(size):
            script = bad if fails and i == 0 else good
            await self._create(name, self._body(f"{name}-{i}", group, total, script))
        names = [f"{self.prefix}{name}-{i}" for i in range(size)]
        if fails:
            await self._eyes.until(lambda: self._ended(names[:1]), 1e6)
            await self._create(name, self._body(f"{name}-again", group, total, good))
            names.append(f"{self.prefix}{name}-again")
        await self._eyes.until(lambda: self._over(names), 1e6)

    def _ended(self, names: list[str]) -> bool:
        pods = [self._eyes.pods.get((self._namespace, name)) for name in names]
        return all(pod is not None and pod.phase in ENDED for pod in pods)

    def _over(self, names: list[str]) -> bool:
        pods = [self._eyes.pods.get((self._namespace, name)) for name in names]
        return all(pod is not None and pod.phase in ENDED and not pod.held for pod in pods)

    async def _create(self, job: str, body: dict[str, Any]) -> None:
        """Create a pod, however often it takes; an error may have been a write all the same."""
        name = body["metadata"]["name"]
        self.pods += 1
        while True:
            found = await self._api.call("POST", self._path, body, ok=())
            if found.get("kind") == "Pod":
                return
            there = await self._api.call("GET", f"{self._path}/{name}", ok=())
            if there.get("kind") == "Pod":
                return
            await asyncio.sleep(RETRY_S)
