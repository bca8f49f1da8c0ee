"""Load on queues in simulated time: workloads come, are admitted, run, end; deciding alone is real.

Time is a number, so that what is measured is what the decisions are worth (how long workloads wait,
how well quota is used) and what deciding costs, and nothing else. A preempted workload gives its
quota back at once and starts from the beginning when it is admitted again. It is played as a
forecast is, with times that are known; all of them are whole hundredths of a second.
"""

import time
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from gatelog.forecast.playing import Course, QuotaPlay
from podgroup.admission import Scheduler
from podgroup.admission.model import (
    ClusterQueue,
    Flavor,
    LocalQueue,
    Namespace,
    PodSet,
    Preemption,
    Workload,
)
from podgroup.model.objects import FlavorQuotas, Quota, ResourceGroup

NOMINAL, BORROWING = 20, 100
NAMESPACE, FLAVOR = "team", "default"
_MOMENT_S = 1e-6
"""What adding up times may be off by."""


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
    cache.apply(Namespace(name=NAMESPACE))
    cache.apply(Flavor(name=FLAVOR))
    for cohort in range(cohorts):
        for number in range(per_cohort):
            name = queue_name(cohort, number)
            quota = Quota(nominal=NOMINAL * 1000, borrowing_limit=BORROWING * 1000)
            cache.apply(
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
            cache.apply(LocalQueue(namespace=NAMESPACE, name=name, cluster_queue=name))
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


def run(classes: tuple[Class, ...], cohorts: int, per_cohort: int) -> Outcome:
    """Let everybody come, run and end."""
    scheduler = queues(cohorts, per_cohort)
    works = sorted(
        (number * kind.every_ms, queue_name(cohort, queue), kind, number)
        for cohort in range(cohorts)
        for queue in range(per_cohort)
        for kind in classes
        for number in range(kind.workloads)
    )
    kinds: dict[str, Class] = {}
    came: dict[str, float] = {}

    def coming() -> Iterator[tuple[float, Workload]]:
        for at_ms, queue, kind, number in works:
            one = workload(queue, kind, number, at_ms / 1000)
            kinds[one.id], came[one.id] = kind, one.created
            yield one.created, one

    def runs(name: str, held_s: float) -> float:
        return kinds[name].runtime_ms / 1000

    course = Course(runs, lambda _: True, coming(), stop_s=0.0, until=lambda at: at + _MOMENT_S)
    admitted: set[str] = set()
    waited = {kind.name: 0.0 for kind in classes}
    passes = preemptions = 0
    begin = time.process_time()
    for now, verdicts in QuotaPlay(scheduler, course).passes(0.0):
        passes += 1
        preemptions += len(verdicts.preempted)
        for name in (admission.id for admission in verdicts.admitted):
            if name not in admitted:
                admitted.add(name)
                waited[kinds[name].name] += now - came[name]
    spent = time.process_time() - begin
    cache = scheduler.cache
    if len(admitted) != len(works) or cache.queues.waiting or cache.reservations.admitted:
        raise RuntimeError(f"{len(cache.queues.waiting)} of {len(works)} workloads wait")
    used_ms = sum(kind.request * kind.runtime_ms for _, _, kind, _ in works)
    return Outcome(
        workloads=len(works),
        whole_s=now,
        waited_s={
            kind.name: waited[kind.name] / (kind.workloads * cohorts * per_cohort)
            for kind in classes
        },
        usage=used_ms / 1000 / (NOMINAL * cohorts * per_cohort * now),
        preemptions=preemptions,
        passes=passes,
        processor_s=spent,
    )
