"""Who did not fit answers for larger ones, and what is decided is as if each had been asked."""

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podgroup.admission import Scheduler
from podgroup.admission.model import (
    ClusterQueue,
    Cohort,
    Configuration,
    Flavor,
    LocalQueue,
    Namespace,
    PodSet,
    Preemption,
    Workload,
)
from podgroup.admission.rejections import MANY
from podgroup.model.objects import FlavorQuotas, Quota, ResourceGroup
from tests.support.examples import examples

RESOURCES = ("cpu", "memory")
LABELS: tuple[dict[str, str], ...] = ({}, {"zone": "a"}, {"zone": "b"})


@st.composite
def trees(draw: Any) -> list[Any]:
    """Queues alone and in a cohort, that lend, preempt now and then, and have one to two groups."""
    objects: list[Any] = [Namespace(name="ns")]
    objects += [Flavor(name=f"f{i}", labels=draw(st.sampled_from(LABELS))) for i in range(4)]
    objects.append(Cohort(name="c", weight=Fraction(1)))
    for index in range(draw(st.integers(1, 3))):
        split = draw(st.booleans())
        parts = [("cpu",), ("memory",)] if split else [RESOURCES]
        groups, first = [], 0
        for covered in parts:
            many = draw(st.integers(1, 2))
            quotas = [
                FlavorQuotas(
                    name=f"f{first + number}",
                    resources={r: Quota(nominal=draw(st.integers(0, 9))) for r in covered},
                )
                for number in range(many)
            ]
            first += many
            groups.append(ResourceGroup(covered=covered, flavors=tuple(quotas)))
        objects.append(
            ClusterQueue(
                name=f"q{index}",
                cohort=draw(st.sampled_from(["", "c"])),
                strategy=draw(st.sampled_from(["BestEffortFIFO"] * 3 + ["StrictFIFO"])),
                groups=tuple(groups),
                preemption=Preemption(
                    within_cluster_queue=draw(st.sampled_from(["Never", "LowerPriority"])),
                    reclaim_within_cohort=draw(st.sampled_from(["Never"] * 4 + ["Any"])),
                ),
            )
        )
        objects.append(LocalQueue(namespace="ns", name=f"l{index}", cluster_queue=f"q{index}"))
    return objects


def workload(rng: random.Random, number: int, queues: int) -> Workload:
    sets = tuple(
        PodSet(
            name=f"s{i}",
            count=rng.randint(1, 2),
            requests=tuple((r, rng.randint(0, 5)) for r in RESOURCES if rng.random() < 0.9),
        )
        for i in range(1 if rng.random() < 0.8 else 2)
    )
    return Workload(
        id=f"w{number}",
        uid=f"w{number}",
        namespace="ns",
        queue=f"l{rng.randrange(queues)}",
        created=rng.randint(0, 5),
        priority=rng.choice([0, 0, 0, 1]),
        pod_sets=sets,
    )


def play(objects: list[Any], seed: int, fair: bool, many: int) -> tuple[list[Any], int]:
    """Return who was admitted and preempted at each step, and how many were asked."""
    scheduler = Scheduler(Configuration(fair_strategies=() if fair else None))
    scheduler.rejections.many = many
    cache, rng = scheduler.cache, random.Random(seed)
    for one in objects:
        cache.apply(one)
    queues = sum(isinstance(one, ClusterQueue) for one in objects)
    told, asked, number = [], 0, 0
    leaving: dict[str, int] = {}
    for step in range(8):
        for _ in range(rng.choice([0, 1, 10])):
            cache.submit(workload(rng, number, queues))
            number += 1
        for name in sorted(one for one, at in leaving.items() if at <= step):
            del leaving[name]
            cache.release(name)
        staying = sorted(set(cache.reservations.admitted) - set(leaving))
        if staying and rng.random() < 0.7:
            cache.remove(rng.choice(staying))
        verdicts = scheduler.decide(float(step))
        asked += len(verdicts.heads)
        for one in verdicts.preempted:
            leaving[one.id] = step + rng.randint(1, 3)
        told.append(
            (
                [(one.id, one.pod_sets) for one in verdicts.admitted],
                [(one.id, one.by_id) for one in verdicts.preempted],
                sorted(cache.claims.by_id),
            )
        )
    return told, asked


@examples(150, brief=40)
@given(trees(), st.integers(0, 1 << 16), st.booleans())
def test_the_same_is_decided_as_if_each_were_asked(
    objects: list[Any], seed: int, fair: bool
) -> None:
    answered, some = play(objects, seed, fair, many=0)
    each, every = play(objects, seed, fair, many=1 << 30)
    assert answered == each
    assert some <= every


def line(sizes: list[int], quota: int) -> Scheduler:
    """A ClusterQueue whose quota is all taken, and those that wait, each of another size."""
    scheduler = Scheduler()
    cache = scheduler.cache
    taken = FlavorQuotas(name="f", resources={"cpu": Quota(nominal=quota)})
    group = ResourceGroup(covered=("cpu",), flavors=(taken,))
    for one in (Namespace(name="ns"), Flavor(name="f"), ClusterQueue(name="q", groups=(group,))):
        cache.apply(one)
    cache.apply(LocalQueue(namespace="ns", name="q", cluster_queue="q"))
    for number, size in enumerate((quota - 1, 1, *sizes)):
        pods = PodSet(name="main", count=1, requests=(("cpu", size),))
        name = f"w{number}"
        cache.submit(
            Workload(id=name, uid=name, namespace="ns", queue="q", created=number, pod_sets=(pods,))
        )
    scheduler.decide(0)
    return scheduler


@pytest.mark.parametrize("waiting", [500, 1_500])
def test_few_of_many_sizes_are_asked(waiting: int) -> None:
    sizes = list(range(2, waiting + 2))
    random.Random(1).shuffle(sizes)
    scheduler = line(sizes, 2 * waiting)
    assert len(scheduler.cache.queues.waiting) == waiting
    scheduler.cache.remove("w1")
    heads = scheduler.decide(1).heads
    assert MANY <= len(heads) <= 8 * MANY
    scheduler.cache.remove("w0")
    admitted = scheduler.decide(2).admitted
    assert admitted, "what was answered for is tried again once something becomes free"
