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


def run(classes: tuple[Class, ...], cohorts: int, per_cohort: int, tick_ms: int = 10) -> Outcome:
    """Let everybody come, run and end."""
    scheduler = queues(cohorts, per_cohort)
    cache = scheduler.cache
    coming: list[tuple[int, str, Class, int]] = sorted(
        (number * kind.every_ms, queue_name(cohort, queue), kind, number)
        for cohort in range(cohorts)
        for queue in range(per_cohort)
        for kind in classes
        for number in range(kind.workloads)
    )
    coming.reverse()
    total = len(coming)
    kinds: dict[str, Class] = {}
    came: dict[str, int] = {}
    waited: Counter[str] = Counter()
    admitted_once: set[str] = set()
    running: dict[str, int] = {}
    ending: list[tuple[int, str]] = []
    used_ms = preemptions = passes = at = done = 0
    begin = time.process_time()
    while coming or running:
        at = _next(at, tick_ms, coming, ending)
        while ending and ending[0][0] <= at:
            ended, name = heapq.heappop(ending)
            if running.get(name) == ended:
                del running[name]
                cache.remove(name)
                used_ms += kinds[name].request * kinds[name].runtime_ms
                done += 1
        while coming and coming[-1][0] <= at:
            created, queue, kind, number = coming.pop()
            one = workload(queue, kind, number, created / 1000)
            kinds[one.id], came[one.id] = kind, created
            cache.submit(one)
        again = True
        while again:
            verdicts = scheduler.decide(at / 1000)
            passes += 1
            for admission in verdicts.admitted:
                ends = at + kinds[admission.id].runtime_ms
                running[admission.id] = ends
                heapq.heappush(ending, (ends, admission.id))
                if admission.id not in admitted_once:
                    admitted_once.add(admission.id)
                    waited[kinds[admission.id].name] += at - came[admission.id]
            for victim in verdicts.preempted:
                preemptions += 1
                running.pop(victim.id, None)
                cache.released(victim.id)
            again = bool(verdicts.preempted)
    if done != total or cache.waiters or cache.holdings:
        raise RuntimeError(f"{done} of {total} workloads ended, {len(cache.waiters)} wait")
    spent = time.process_time() - begin
    quota_ms = NOMINAL * cohorts * per_cohort * at
    return Outcome(
        workloads=total,
        whole_s=at / 1000,
        waited_s={
            kind.name: waited[kind.name] / 1000 / (kind.workloads * cohorts * per_cohort)
            for kind in classes
        },
        usage=used_ms / quota_ms,
        preemptions=preemptions,
        passes=passes,
        processor_s=spent,
    )


def _next(
    at: int, tick_ms: int, coming: list[tuple[int, str, Class, int]], ending: list[tuple[int, str]]
) -> int:
    """Return the next tick at which something happens."""
    soonest = min(coming[-1][0] if coming else 1 << 60, ending[0][0] if ending else 1 << 60)
    return max(at, -(-soonest // tick_ms) * tick_ms)
