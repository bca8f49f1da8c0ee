"""Kueue's performance test on the stand-in: three processes of gatelog, and pods that come and go.

5 cohorts of 6 ClusterQueues that lend to and borrow from one another; to each of them come single
pods of three classes (`BASELINE`), by the clock, run for a moment, and end. A preempted pod is
deleted; its user makes another pod, as a Job does, and the work counts from the creation of its
first pod. Times are seen by a watch: a pod without the gate is admitted.

Kueue's published figures for the same load are the limits here; they are of another machine, on
which only Workload objects exist: no pod is made, bound or run.

`python -m bench kueue-load` is with a Workload for each pod, `kueue-load-groups` without
(`queueing.workloads`): for single pods the Workload is a mirror, which Kueue's own test does not
have.

Invariant: it ends when all work has run or after `PATIENCE_S`; in the second case it reports that
in place of figures.
"""

import asyncio
import os
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from bench import processes
from bench.cluster import AT_ONCE, Line, PodWatch, gated, pods_of
from bench.figures import Figure
from podgroup.model.names import QUEUE_NAME
from tests.support.processes import KUEUE, Api

NAMESPACE = "load"
COHORTS, PER_COHORT = 5, 6
NOMINAL, BORROWING = 20, 100
PATIENCE_S = 600.0
VERSION = "kueue.x-k8s.io/v1beta2"
KUEUES = {"whole": 351.0, "large": 16.5, "medium": 76.8, "small": 215.0, "usage": 55.9}
"""Kueue's published figures: seconds, and percent of the quota in use."""
WANTED_S = {"load": 100, "load.groups": 90, "medium": 41, "small": 65}
"""Targets: the whole by name of the figure, and mean waits by class."""


class Class(NamedTuple):
    """A class of workloads: how many a queue gets, how often, and their shape."""

    name: str
    workloads: int
    every_ms: int
    runtime_ms: int
    priority: int
    request: int


BASELINE = (
    Class("small", 350, 100, 200, 50, 1),
    Class("medium", 100, 500, 500, 100, 5),
    Class("large", 50, 1200, 1000, 200, 20),
)
"""Kueue's performance test: 5 cohorts of 6 ClusterQueues, 15,000 workloads."""


class Outcome(NamedTuple):
    """The outcome of a run; times in seconds by the watcher's clock."""

    works: int
    whole_s: float
    waited_s: dict[str, float]
    """Mean time from the creation of the first pod to the first admission, by class."""
    usage: float
    """Part of the quota used by pods that ran to their end, as a mean over the whole run."""
    preempted: int
    """Pods that were made again."""
    processor_s: dict[str, float]


class _Work(NamedTuple):
    queue: str
    kind: Class
    number: int

    @property
    def name(self) -> str:
        return f"{self.queue}-{self.kind.name}-{self.number:04d}"


class Users(PodWatch):
    """The users that make the pods, follow them, and make preempted pods again."""

    def __init__(self, api: Api, works: list[_Work]) -> None:
        super().__init__(api, NAMESPACE)
        self.works = {work.name: work for work in works}
        self.came: dict[str, float] = {}
        self.admitted: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.tries: Counter[str] = Counter()
        self.over = asyncio.Event()
        self._to_make: asyncio.Queue[str] = asyncio.Queue()

    def feed(self, line: Line) -> None:
        """Note admissions and ends; a pod that was stopped is to be made again."""
        now, pod = time.perf_counter(), line.object
        name, _, number = pod.metadata.name.rpartition("-")
        if not pod.spec.gates:
            self.admitted.setdefault(name, now)
        if pod.phase == "Succeeded":
            self.ended.setdefault(name, now)
            if len(self.ended) == len(self.works):
                self.over.set()
        elif line.type == "DELETED" and int(number) == self.tries[name] and name not in self.ended:
            self._to_make.put_nowait(name)

    async def play(self) -> None:
        """Make each work's pod when it is due, and again after a preemption."""
        makers = [asyncio.create_task(self._make()) for _ in range(AT_ONCE)]
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._come()
                await self.over.wait()
        except TimeoutError:
            left = sorted(self.works.keys() - self.ended.keys())
            raise RuntimeError(
                f"after {PATIENCE_S:.0f} s {len(left)} of {len(self.works)} have not run, "
                f"the first of them {', '.join(left[:5])}"
            ) from None
        finally:
            for maker in makers:
                maker.cancel()
            await asyncio.gather(*makers, return_exceptions=True)

    async def _come(self) -> None:
        begin = time.perf_counter()
        for work in sorted(self.works.values(), key=lambda w: (w.number * w.kind.every_ms, w.name)):
            due = begin + work.number * work.kind.every_ms / 1000
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            self._to_make.put_nowait(work.name)

    async def _make(self) -> None:
        while True:
            name = await self._to_make.get()
            work = self.works[name]
            self.tries[name] += 1
            script = f"start=1ms,run={work.kind.runtime_ms}ms,succeed"
            body = gated(f"{name}-{self.tries[name]}", script=script)
            body["metadata"]["labels"][QUEUE_NAME] = work.queue
            body["spec"]["priorityClassName"] = work.kind.name
            requests = {"cpu": str(work.kind.request)}
            body["spec"]["containers"][0]["resources"]["requests"] = requests
            self.came.setdefault(name, time.perf_counter())
            await self._api.call("POST", pods_of(NAMESPACE), body)


def queue_name(cohort: int, number: int) -> str:
    """Return the name of a queue."""
    return f"queue-{cohort:02}-{number:03}"


async def _objects(api: Api, classes: tuple[Class, ...], cohorts: int, per_cohort: int) -> None:
    """Make the namespace, priorities, flavor and queues of the test."""

    async def make(path: str, kind: str, name: str, **more: Any) -> None:
        version = VERSION if path.startswith(KUEUE) else "v1"
        if kind == "PriorityClass":
            version = "scheduling.k8s.io/v1"
        body = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}
        await api.call("POST", path, body)

    await make("/api/v1/namespaces", "Namespace", NAMESPACE)
    for kind in classes:
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await make(path, "PriorityClass", kind.name, value=kind.priority)
    await make(f"{KUEUE}/resourceflavors", "ResourceFlavor", "default")
    quota = {"name": "cpu", "nominalQuota": str(NOMINAL), "borrowingLimit": str(BORROWING)}
    for cohort in range(cohorts):
        for number in range(per_cohort):
            name = queue_name(cohort, number)
            spec = {
                "cohortName": f"cohort-{cohort}",
                "namespaceSelector": {},
                "preemption": {
                    "withinClusterQueue": "LowerPriority",
                    "reclaimWithinCohort": "Any",
                },
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu"],
                        "flavors": [{"name": "default", "resources": [quota]}],
                    }
                ],
            }
            await make(f"{KUEUE}/clusterqueues", "ClusterQueue", name, spec=spec)
            local = f"{KUEUE}/namespaces/{NAMESPACE}/localqueues"
            await make(local, "LocalQueue", name, spec={"clusterQueue": name})

    async def active() -> bool:
        found = await api.call("GET", f"{KUEUE}/namespaces/{NAMESPACE}/localqueues")
        return all("status" in queue for queue in found["items"])

    await api.until("all LocalQueues active, by gatelog's word", active)


async def play(
    classes: tuple[Class, ...] = BASELINE,
    cohorts: int = COHORTS,
    per_cohort: int = PER_COHORT,
    workloads: str = "all",
) -> Outcome:
    """Let everybody come, run and end; `workloads` is the setting `queueing.workloads`."""
    works = [
        _Work(queue_name(cohort, queue), kind, number)
        for cohort in range(cohorts)
        for queue in range(per_cohort)
        for kind in classes
        for number in range(kind.workloads)
    ]
    async with processes.gatelog(GATELOG_QUEUEING_WORKLOADS=workloads) as running:
        await _objects(running.api, classes, cohorts, per_cohort)
        mine, before = processes.cpu_s(os.getpid()), running.cpu_s()
        async with Users(running.api, works) as users:
            await users.play()
        spent = {name: each - before[name] for name, each in running.cpu_s().items()}
        spent["client"] = processes.cpu_s(os.getpid()) - mine
    return _outcome(users, cohorts * per_cohort, spent)


def _outcome(users: Users, queues: int, spent: dict[str, float]) -> Outcome:
    whole_s = max(users.ended.values()) - min(users.came.values())
    waited: dict[str, list[float]] = defaultdict(list)
    for name, work in users.works.items():
        waited[work.kind.name].append(users.admitted[name] - users.came[name])
    used_ms = sum(work.kind.request * work.kind.runtime_ms for work in users.works.values())
    return Outcome(
        works=len(users.works),
        whole_s=whole_s,
        waited_s={kind: sum(each) / len(each) for kind, each in waited.items()},
        usage=used_ms / 1000 / (NOMINAL * queues * whole_s),
        preempted=sum(users.tries.values()) - len(users.works),
        processor_s=spent,
    )


async def run(workloads: str = "all") -> AsyncIterator[Figure]:
    """Play it and give its figures beside Kueue's."""
    got = await play(workloads=workloads)
    name = "load" if workloads == "all" else f"load.{workloads}"
    spent = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in got.processor_s.items())
    yield Figure(
        name=f"{name}.whole",
        value=got.whole_s,
        unit="s",
        limit=KUEUES["whole"],
        limit_name="Kueue's, published",
        target=WANTED_S[name],
        note=f"{got.works:,} single pods, {got.preempted:,} made again, queueing.workloads = "
        f"{workloads}; processor time: {spent}",
    )
    for kind, seconds in got.waited_s.items():
        yield Figure(
            name=f"{name}.{kind}",
            value=seconds,
            unit="s",
            limit=KUEUES[kind],
            limit_name="Kueue's, published",
            target=WANTED_S.get(kind),
            note="mean time from coming to the first admission",
        )
    yield Figure(
        name=f"{name}.usage",
        value=100 * got.usage,
        unit="%",
        limit=KUEUES["usage"],
        limit_name="Kueue's, published",
        ratio=round(100 * got.usage / KUEUES["usage"], 4),
        note="of the quota, by what ran to its end",
    )
