"""Users of a cluster, many at once: they make pods, see them through, and clean up after them.

Theory. A *job* is a single pod or a group. Jobs are started at a steady rate of pods, with sizes
and fates drawn from a seeded generator; a watch shows the states of their pods, and when all of a
job's pods have ended and lost their finalizers, its pods are deleted. Some jobs do what users do:
fail and are replaced, are deleted while they wait, have a pod too many. Where some are urgent,
others are preempted, and their pods are made anew as a controller would.

Users notice when a cluster is too slow for them: while as many pods exist as they make in
`HOLD_BACK_S` seconds, no job starts. So a machine that cannot carry the rate gets the load that it
can carry, for as long as the run lasts, and a job that does not end is stuck, and is not part of a
queue that only grows.

Invariant: the rate counts pods created, replacements included; all draws depend on the seed alone.
"""

import asyncio
import random
import time
from collections import Counter

from msgspec import Struct, field

from bench.cluster import FAILED, GONE, LET_GO, UNGATED, PodWatch, gated, pods_of
from bench.figures import percentile
from podgroup.model.names import PRIORITY_CLASS
from tests.support.processes import Api

SIZES = (1, 1, 1, 4, 4, 10, 10, 25, 100)
FATES = ("plain",) * 15 + ("fails", "excess", "deleted")
URGENT = "urgent"
"""The WorkloadPriorityClass of jobs that may preempt others."""
HOLD_BACK_S = 8.0
PATIENCE_S = 120.0
"""Seconds after which a job counts as stuck."""


class Load(Struct, frozen=True):
    """How many pods a second, the seed, which part of jobs is urgent, and how long pods run.

    `quota` is what each namespace has; 0: for a third of the pods that there are at most.
    """

    pods_per_s: float
    seed: int
    urgent: float = 0.0
    longest_s: float = 2.0
    quota: int = 0

    @property
    def cpu(self) -> int:
        """Quota of a namespace, in cores: one per pod."""
        return self.quota or max(*SIZES, round(most_there(self.pods_per_s) / 3))


class Job(Struct):
    """A single pod (`size` 1) or a group, and its fate."""

    name: str
    namespace: str
    size: int
    fate: str
    urgent: bool = False
    created_s: float = 0.0
    names: list[str] = field(default_factory=list)


class Users:
    """Starts jobs in `namespaces`, as a load says, and sees them through."""

    def __init__(self, api: Api, watch: PodWatch, namespaces: list[str], load: Load) -> None:
        self._api = api
        self._watch = watch
        self._namespaces = namespaces
        self._rate = load.pods_per_s
        self._urgent = load.urgent
        self._longest_ms = round(1000 * load.longest_s)
        self._sizes = [size for size in SIZES if size <= load.cpu]
        self._random = random.Random(load.seed)
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
        size, fate = pick.choice(self._sizes), pick.choice(FATES)
        if size == 1 and fate != "deleted":
            fate = "plain"
        namespace = pick.choice(self._namespaces)
        urgent = self._urgent > 0 and pick.random() < self._urgent
        return Job(f"j{number}", namespace, size, fate, urgent)

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
            # A pod short of complete: the group waits until its user loses patience.
            await self._create(job, max(1, job.size - 1))
            await self._remove(job)
            return
        await self._create(job, job.size + (job.fate == "excess"))
        created_s = time.perf_counter()
        if job.fate == "excess":
            # Mostly the last pod, but of pods of the same second any may be it: the uid decides.
            surplus = await self._watch.first(GONE, job.names)
            job.names.remove(surplus)
            job.names.append(surplus)
        kept = job.names[: job.size]
        through = [asyncio.create_task(self._pod(job, name)) for name in job.names]
        if not self._urgent:  # else a pod that is preempted at its gate never loses it
            await self._until(UNGATED, kept)
        if job.fate != "excess" and not self._urgent:
            now = time.perf_counter()
            self.waits_ms.append((now, (now - created_s) * 1000))
        await asyncio.gather(*through)
        await self._remove(job)

    async def _pod(self, job: Job, name: str) -> None:
        """See a pod through, and its replacement when it fails or is preempted."""
        spare = job.names[job.size : job.size + 1]
        while True:
            signs = [asyncio.create_task(self._until(sign, [name])) for sign in (FAILED, LET_GO)]
            _, open_ones = await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            for one in open_ones:
                one.cancel()
            stopped = name in self._watch.seen[GONE] and name not in spare
            if name not in self._watch.seen[FAILED] and not stopped:
                return
            replaced, name = name, f"{job.name}-{len(job.names)}"
            await self._create(job, 1)
            self.counts["pods"] += 1
            await self._until(LET_GO, [replaced])

    async def _until(self, sign: str, names: list[str]) -> None:
        await self._watch.until(sign, names, PATIENCE_S)

    async def _create(self, job: Job, count: int) -> None:
        for _ in range(count):
            index = len(job.names)
            name = f"{job.name}-{index}"
            fails = job.fate == "fails" and index == 0
            script = f"start=10ms,run={self._random.randint(200, self._longest_ms)}ms,"
            script += "fail=1" if fails else "succeed"
            group = job.name if job.size > 1 else ""
            body = gated(name, group, job.size if group else 0, script)
            if job.urgent:
                body["metadata"]["labels"][PRIORITY_CLASS] = URGENT
            job.names.append(name)  # before any other pod of the job takes its number
            await self._api.call("POST", pods_of(job.namespace), body)
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
    """Pods that users have at most, including those of another job."""
    return pods_per_s * HOLD_BACK_S + max(SIZES)
