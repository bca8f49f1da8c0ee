"""Users of a cluster, many at once: they make pods, see them through, and clean up after them.

Theory. A *job* is a single pod or a group. Jobs are started at a steady rate of pods, with sizes
and fates drawn from a seeded generator; a watch tells how their pods stand, and when all of a job's
pods have ended and are let go, its pods are deleted. Some jobs do what users do: fail and are
replaced, are deleted while they wait, have a pod too many.

Users notice when a cluster is too slow for them: while as many pods as they make in `HOLD_BACK_S`
seconds are there, nothing is started. So a machine that cannot carry the rate is loaded with what
it can carry, for as long as it is asked to, and a job that does not end is stuck and not one of a
queue that only grows.

Invariant: the rate counts pods created, replacements included; what is drawn depends on the seed
alone.
"""

import asyncio
import random
import time
from collections import Counter

from msgspec import Struct, field

from bench.cluster import FAILED, GONE, LET_GO, UNGATED, PodWatch, gated, pods_of
from bench.figures import percentile
from tests.support.processes import Api

SIZES = (1, 1, 1, 4, 4, 10, 10, 25, 100)
FATES = ("plain",) * 15 + ("fails", "excess", "deleted")
HOLD_BACK_S = 8.0
PATIENCE_S = 120.0
"""Seconds after which a job counts as stuck."""


class Job(Struct):
    """A single pod (`size` 1) or a group, and what becomes of it."""

    name: str
    namespace: str
    size: int
    fate: str
    created_s: float = 0.0
    names: list[str] = field(default_factory=list)


class Users:
    """Starts jobs in `namespaces`, `pods_per_s` pods a second, and sees them through."""

    def __init__(
        self, api: Api, watch: PodWatch, namespaces: list[str], pods_per_s: float, seed: int
    ) -> None:
        self._api = api
        self._watch = watch
        self._namespaces = namespaces
        self._rate = pods_per_s
        self._random = random.Random(seed)
        self._open: set[asyncio.Task[None]] = set()
        self._there = 0
        self.held_back_s = 0.0
        """For how long nothing was started because too much was under way."""
        self.counts: Counter[str] = Counter()
        self.waits_ms: list[tuple[float, float]] = []
        """(when, milliseconds from the last creation of a job to its last ungating)."""
        self.stuck: list[str] = []

    async def work(self, seconds: float) -> None:
        """Start jobs for `seconds`; those under way go on afterwards."""
        begin = time.monotonic()
        number = 0
        while (now := time.monotonic() - begin) < seconds:
            due = (now - self.held_back_s) * self._rate
            if self.counts["pods"] > due:
                await asyncio.sleep(min(0.05, (self.counts["pods"] - due) / self._rate))
                continue
            if self._there > most_there(self._rate):
                await asyncio.sleep(0.05)
                self.held_back_s += time.monotonic() - begin - now
                continue
            job = self._draw(number)
            number += 1
            self.counts["pods"] += job.size + (job.fate == "excess")
            self._there += job.size
            task = asyncio.create_task(self._see_through(job))
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        self.counts["jobs"] = number

    async def finish(self, patience_s: float) -> None:
        """Wait for the jobs under way."""
        if self._open:
            await asyncio.wait(self._open, timeout=patience_s)

    @property
    def ended(self) -> int:
        """Pods of jobs that were seen through."""
        return self.counts["pods seen through"]

    @property
    def under_way(self) -> int:
        """Jobs that are not over."""
        return len(self._open)

    def waits(self, since: float, until: float) -> tuple[float, float]:
        """p50 and p99 in milliseconds of jobs that were ungated between two times."""
        found = [wait for at, wait in self.waits_ms if since <= at < until]
        return (round(percentile(found, 50)), round(percentile(found, 99))) if found else (0.0, 0.0)

    def _draw(self, number: int) -> Job:
        pick = self._random
        size, fate = pick.choice(SIZES), pick.choice(FATES)
        if size == 1 and fate != "deleted":
            fate = "plain"
        return Job(f"j{number}", pick.choice(self._namespaces), size, fate)

    async def _see_through(self, job: Job) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._one(job)
            self.counts[job.fate] += 1
            self.counts["pods seen through"] += len(job.names)
        except TimeoutError:
            self.stuck.append(f"{job.namespace}/{job.name} ({job.size} pods, {job.fate})")
        finally:
            self._there -= job.size

    async def _one(self, job: Job) -> None:
        if job.fate == "deleted":
            # One short of complete: it waits until its user loses patience.
            await self._create(job, max(1, job.size - 1))
            await self._remove(job)
            return
        await self._create(job, job.size + (job.fate == "excess"))
        created_s = time.perf_counter()
        if job.fate == "excess":
            # Mostly the last one, but of pods of one second any may be it: the uid decides.
            surplus = await self._watch.first(GONE, job.names)
            job.names.remove(surplus)
            job.names.append(surplus)
        kept = job.names[: job.size]
        await self._until(UNGATED, kept)
        if job.fate != "excess":
            now = time.perf_counter()
            self.waits_ms.append((now, (now - created_s) * 1000))
        if job.fate == "fails":
            await self._until(FAILED, kept[:1])
            await self._create(job, 1)
            self.counts["pods"] += 1
        await self._until(LET_GO, job.names)
        await self._remove(job)

    async def _until(self, sign: str, names: list[str]) -> None:
        await self._watch.until(sign, names, PATIENCE_S)

    async def _create(self, job: Job, count: int) -> None:
        for _ in range(count):
            index = len(job.names)
            name = f"{job.name}-{index}"
            fails = job.fate == "fails" and index == 0
            script = f"start=10ms,run={self._random.randint(200, 2000)}ms,"
            script += "fail=1" if fails else "succeed"
            group = job.name if job.size > 1 else ""
            body = gated(name, group, job.size if group else 0, script)
            await self._api.call("POST", pods_of(job.namespace), body)
            job.names.append(name)
            if job.fate == "excess" and index == job.size - 1:
                # The group is admitted by now, unless the machine is busy.
                await asyncio.sleep(0.5)

    async def _remove(self, job: Job) -> None:
        async def one(name: str) -> None:
            await self._api.call("DELETE", f"{pods_of(job.namespace)}/{name}", ok=(200, 202, 404))

        for name in job.names:
            await one(name)
        await self._until(GONE, job.names)
        self._watch.forget(job.names)


def most_there(pods_per_s: float) -> float:
    """Pods that users have at most, those of one more job included."""
    return pods_per_s * HOLD_BACK_S + max(SIZES)
