"""Load on queues in simulated time: workloads come, are admitted, run, end; deciding alone is real.

Time is a number, so that what is measured is what the decisions are worth (how long workloads wait,
how well quota is used) and what deciding costs, and nothing else. A preempted workload gives its
quota back at once and starts from the beginning when it is admitted again. Passes are a tick apart
at the least, as they are in a projector that takes events in batches.
"""

import heapq
import time
from collections import Counter
from fractions import Fraction
from typing import NamedTuple

from podgroup.admission import Scheduler
from podgroup.admission.model import (
    ClusterQueue,
    Flavor,
    LocalQueue,
    PodSet,
    Preemption,
    Workload,
)
from podgroup.model.objects import FlavorQuotas, Quota, ResourceGroup

NOMINAL, BORROWING = 20, 100
NAMESPACE, FLAVOR = "team", "default"


class Class(NamedTuple):
    """Workloads alike: how many a queue gets, how often, and what they are."""

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

LARGE_SCALE = (
    Class("small", 33, 20, 50, 50, 1),
    Class("medium", 12, 50, 100, 100, 5),
    Class("large", 5, 200, 200, 200, 20),
)
"""Its sibling: 20 cohorts of 100 ClusterQueues, 100,000 workloads."""


class Outcome(NamedTuple):
    """What a run was like; times simulated, in seconds, but `processor_s`."""

    workloads: int
    whole_s: float
    waited_s: dict[str, float]
    """Mean time from coming to the first admission, by class."""
    usage: float
    """Of the quota, as a mean over the whole run."""
    preemptions: int
    passes: int
    processor_s: float


def queues(cohorts: int, per_cohort: int) -> Scheduler:
    """Return a scheduler with the queues of the test and nobody in them."""
    scheduler = Scheduler()
    cache = scheduler.cache
    cache.set_namespace(NAMESPACE, {})
    cache.set_flavor(Flavor(name=FLAVOR))
    for cohort in range(cohorts):
        for number in range(per_cohort):
            name = queue_name(cohort, number)
            quota = Quota(nominal=NOMINAL * 1000, borrowing_limit=BORROWING * 1000)
            cache.set_cluster_queue(
                ClusterQueue(
                    name=name,
                    cohort=f"cohort-{cohort}",
                    groups=(
                        ResourceGroup(
                            covered=("cpu",),
                            flavors=(FlavorQuotas(name=FLAVOR, resources={"cpu": quota}),),
                        ),
                    ),
                    preemption=Preemption(
                        within_cluster_queue="LowerPriority", reclaim_within_cohort="Any"
                    ),
                    weight=Fraction(1),
                )
            )
            cache.set_local_queue(LocalQueue(namespace=NAMESPACE, name=name, cluster_queue=name))
    return scheduler


def queue_name(cohort: int, number: int) -> str:
    """Return the name of a queue."""
    return f"queue-{cohort:02}-{number:03}"


def workload(queue: str, kind: Class, number: int, created: float) -> Workload:
    """Return one workload of a class."""
    name = f"{queue}-{kind.name}-{number:06}"
    pods = PodSet(name="main", count=1, requests=(("cpu", kind.request * 1000),))
    return Workload(
        id=name,
        uid=name,
        namespace=NAMESPACE,
        queue=queue,
        created=created,
        priority=kind.priority,
        pod_sets=(pods,),
    )


class _Play:
    """What has come, runs and has ended, by the clock of the simulation."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._cache = scheduler.cache
        self._kinds: dict[str, Class] = {}
        self._came: dict[str, int] = {}
        self._admitted: set[str] = set()
        self.running: dict[str, int] = {}
        self.ending: list[tuple[int, str]] = []
        self.waited: Counter[str] = Counter()
        self.used_ms = self.preemptions = self.passes = self.done = 0

    def end(self, at: int) -> None:
        """Let everybody end whose time is over."""
        while self.ending and self.ending[0][0] <= at:
            ended, name = heapq.heappop(self.ending)
            if self.running.get(name) == ended:
                del self.running[name]
                self._cache.remove(name)
                self.used_ms += self._kinds[name].request * self._kinds[name].runtime_ms
                self.done += 1

    def come(self, at: int, coming: list[tuple[int, str, Class, int]]) -> None:
        """Let everybody come whose time it is."""
        while coming and coming[-1][0] <= at:
            created, queue, kind, number = coming.pop()
            one = workload(queue, kind, number, created / 1000)
            self._kinds[one.id], self._came[one.id] = kind, created
            self._cache.submit(one)

    def decide(self, at: int) -> None:
        """Let the scheduler decide until it preempts nobody."""
        again = True
        while again:
            verdicts = self._scheduler.decide(at / 1000)
            self.passes += 1
            for admission in verdicts.admitted:
                kind = self._kinds[admission.id]
                ends = at + kind.runtime_ms
                self.running[admission.id] = ends
                heapq.heappush(self.ending, (ends, admission.id))
                if admission.id not in self._admitted:
                    self._admitted.add(admission.id)
                    self.waited[kind.name] += at - self._came[admission.id]
            for victim in verdicts.preempted:
                self.preemptions += 1
                self.running.pop(victim.id, None)
                self._cache.released(victim.id)
            again = bool(verdicts.preempted)


def run(classes: tuple[Class, ...], cohorts: int, per_cohort: int, tick_ms: int = 10) -> Outcome:
    """Let everybody come, run and end."""
    scheduler = queues(cohorts, per_cohort)
    coming: list[tuple[int, str, Class, int]] = sorted(
        (number * kind.every_ms, queue_name(cohort, queue), kind, number)
        for cohort in range(cohorts)
        for queue in range(per_cohort)
        for kind in classes
        for number in range(kind.workloads)
    )
    coming.reverse()
    total, at = len(coming), 0
    play = _Play(scheduler)
    begin = time.process_time()
    while coming or play.running:
        at = _next(at, tick_ms, coming, play.ending)
        play.end(at)
        play.come(at, coming)
        play.decide(at)
    cache = scheduler.cache
    if play.done != total or cache.waiters or cache.holdings:
        raise RuntimeError(f"{play.done} of {total} workloads ended, {len(cache.waiters)} wait")
    spent = time.process_time() - begin
    return Outcome(
        workloads=total,
        whole_s=at / 1000,
        waited_s={
            kind.name: play.waited[kind.name] / 1000 / (kind.workloads * cohorts * per_cohort)
            for kind in classes
        },
        usage=play.used_ms / (NOMINAL * cohorts * per_cohort * at),
        preemptions=play.preemptions,
        passes=play.passes,
        processor_s=spent,
    )


def _next(
    at: int, tick_ms: int, coming: list[tuple[int, str, Class, int]], ending: list[tuple[int, str]]
) -> int:
    """Return the next tick at which something happens."""
    soonest = min(coming[-1][0] if coming else 1 << 60, ending[0][0] if ending else 1 << 60)
    return max(at, -(-soonest // tick_ms) * tick_ms)
