"""Laws of deciding on quota, over random trees, queues and workloads.

Nothing is ever admitted beyond a quota, a borrowing or a lending limit; what is admitted does not
depend on the order in which objects are entered; nobody preempts in a circle; and whoever fits
alone into the idle tree is admitted in the end.
"""

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from podgroup.admission import Scheduler
from podgroup.admission.holding import unadmitted_id
from podgroup.admission.model import Configuration, PodSet, PodSetAssignment, Reservation, Workload
from podgroup.admission.tree import Forest, Node
from podgroup.admission.verdicts import Verdicts
from podgroup.model.objects import ClusterQueueView, CohortView, FlavorQuotas, Quota, ResourceGroup
from tests.support.examples import examples
from tests.support.offers import (
    ClusterQueue,
    Cohort,
    Flavor,
    Fungibility,
    LocalQueue,
    Namespace,
    Preemption,
)

FLAVORS = ("one", "two")
RESOURCES = ("cpu", "memory")
STEPS = 60
QUICK = examples(60, brief=25)


def draw_groups(draw: Any, in_cohort: bool, owner: bool) -> tuple[ResourceGroup, ...]:
    limit = st.none() | st.integers(0, 6)
    flavors = draw(st.permutations(FLAVORS))[: draw(st.integers(1, 2))]
    quotas = []
    for name in flavors:
        resources = {}
        for resource in RESOURCES:
            nominal = draw(st.integers(0, 8))
            borrowing = draw(limit) if in_cohort else None
            lending = draw(limit) if in_cohort else None
            if owner and lending is not None:
                lending = min(lending, nominal)
            resources[resource] = Quota(
                nominal=nominal, borrowing_limit=borrowing, lending_limit=lending
            )
        quotas.append(FlavorQuotas(name=name, resources=resources))
    return (ResourceGroup(covered=RESOURCES, flavors=tuple(quotas)),)


@st.composite
def worlds(draw: Any) -> tuple[Configuration, list[Any], list[Workload]]:
    """A configuration, the objects of a tree or two, and workloads in the order they come."""
    fair = draw(
        st.sampled_from([None, (), ("LessThanInitialShare",), ("LessThanOrEqualToFinalShare",)])
    )
    cohorts = [f"c{i}" for i in range(draw(st.integers(1, 4)))]
    objects: list[Any] = [Flavor(name=name) for name in FLAVORS]
    for index, name in enumerate(cohorts):
        parent = draw(st.sampled_from(["", *cohorts[:index]]))
        own = draw(st.booleans())
        groups = draw_groups(draw, bool(parent), False) if own else ()
        objects.append(Cohort(name=name, parent=parent, groups=groups, weight=draw(weights)))
    queues = []
    for index in range(draw(st.integers(1, 5))):
        cohort = draw(st.sampled_from(["", *cohorts]))
        reclaim = draw(policies("Any")) if cohort else "Never"
        queues.append(f"q{index}")
        objects.append(
            ClusterQueue(
                name=f"q{index}",
                cohort=cohort,
                strategy=draw(st.sampled_from(["BestEffortFIFO", "StrictFIFO"])),
                groups=draw_groups(draw, bool(cohort), True),
                preemption=Preemption(
                    within_cluster_queue=draw(policies("LowerOrNewerEqualPriority")),
                    reclaim_within_cohort=reclaim,  # type: ignore[arg-type] # one of them
                    borrow_within_cohort=(
                        draw(policies("LowerPriority")) if reclaim != "Never" else "Never"
                    ),
                ),
                fungibility=draw(fungibilities),
                weight=draw(weights),
            )
        )
        objects.append(LocalQueue(namespace="ns", name=f"l{index}", cluster_queue=f"q{index}"))
    workloads = []
    for number in range(draw(st.integers(1, 14))):
        sets = tuple(
            PodSet(
                name=f"s{i}",
                count=draw(st.integers(1, 2)),
                requests=tuple((r, draw(st.integers(0, 4))) for r in RESOURCES),
            )
            for i in range(draw(st.integers(1, 2)))
        )
        workloads.append(
            Workload(
                id=f"w{number}",
                uid=f"w{number}",
                namespace="ns",
                queue=f"l{draw(st.integers(0, len(queues) - 1))}",
                created=draw(st.integers(0, 5)),
                priority=draw(st.integers(0, 2)),
                pod_sets=sets,
            )
        )
    return Configuration(fair_strategies=fair), objects, workloads


def policies(most: str) -> st.SearchStrategy[Any]:
    return st.sampled_from(["Never", "LowerPriority", most])


weights = st.sampled_from([Fraction(0), Fraction(1), Fraction(1), Fraction(2)])
fungibilities = st.builds(
    Fungibility,
    when_can_borrow=st.sampled_from(["MayStopSearch", "TryNextFlavor"]),
    when_can_preempt=st.sampled_from(["MayStopSearch", "TryNextFlavor"]),
) | st.builds(
    Fungibility,
    when_can_borrow=st.just("TryNextFlavor"),
    when_can_preempt=st.just("TryNextFlavor"),
    preference=st.sampled_from(["BorrowingOverPreemption", "PreemptionOverBorrowing"]),
)


def enter(scheduler: Scheduler, objects: list[Any]) -> None:
    cache = scheduler.cache
    cache.apply(Namespace(name="ns"))
    for one in objects:
        cache.apply(one)


def check_limits(scheduler: Scheduler, objects: list[Any]) -> None:
    """Count everything from nothing, and hold it against each limit by itself."""
    forest = Forest(
        [one for one in objects if isinstance(one, ClusterQueueView)],
        [one for one in objects if isinstance(one, CohortView)],
    )
    for holding in scheduler.cache.reservations.admitted.values():
        forest.queues[holding.cluster_queue].take(holding.usage)
    nodes: list[Node] = [*forest.queues.values(), *forest.cohorts.values()]
    children: dict[str, list[Node]] = {}
    for node in nodes:
        if node.parent is not None:
            children.setdefault(node.parent.name, []).append(node)
    for node in nodes:
        for key, used in node.usage.items():
            own = node.subtree.get(key, 0)
            if node.parent is None:
                assert used <= own, f"{node.name} uses {used} of {own} {key}"
            elif key in node.borrow:
                assert used <= own + node.borrow[key], f"{node.name} borrows too much {key}"
            if not node.queue:
                from_below = sum(
                    max(0, child.usage.get(key, 0) - child.local.get(key, 0))
                    for child in children.get(node.name, [])
                )
                assert used == from_below


def play(
    scheduler: Scheduler, objects: list[Any], workloads: list[Workload], seed: int
) -> list[Verdicts]:
    """Let workloads come, be evicted late, and end, until nothing happens any more."""
    rng = random.Random(seed)
    cache = scheduler.cache
    coming = list(workloads)
    leaving: dict[str, int] = {}
    told = []
    for step in range(STEPS):
        for _ in range(rng.randint(0, 3)):
            if coming:
                cache.submit(coming.pop(0))
        for name in sorted(leaving):
            if leaving[name] <= step:
                del leaving[name]
                cache.release(name)
        if rng.random() < 0.2:
            staying = sorted(set(cache.reservations.admitted) - set(leaving))
            if staying:
                cache.remove(rng.choice(staying))
        verdicts = scheduler.decide(float(step))
        told.append(verdicts)
        check_limits(scheduler, objects)
        for one in verdicts.preempted:
            leaving[one.id] = step + rng.randint(1, 4)
        if not coming and not leaving and verdicts.idle and not cache.reservations.admitted:
            break
    return told


@QUICK
@given(worlds(), st.integers(0, 1 << 16))
def test_no_limit_is_exceeded_and_nobody_preempts_in_a_circle(
    world: tuple[Configuration, list[Any], list[Workload]], seed: int
) -> None:
    configuration, objects, workloads = world
    scheduler = Scheduler(configuration)
    enter(scheduler, objects)
    told = play(scheduler, objects, workloads, seed)
    beat: dict[str, set[str]] = {}
    for verdicts in told:
        for one in verdicts.preempted:
            assert one.id not in beat.get(one.by_id, ()), "twice for the same"
            seen, waiting = set(), [one.id]
            while waiting:
                for loser in beat.get(waiting.pop(), ()):
                    assert loser != one.by_id, "in a circle"
                    if loser not in seen:
                        seen.add(loser)
                        waiting.append(loser)
            beat.setdefault(one.by_id, set()).add(one.id)


@QUICK
@given(worlds(), st.integers(0, 1 << 16), st.booleans())
def test_the_order_in_which_objects_are_entered_does_not_matter(
    world: tuple[Configuration, list[Any], list[Workload]], seed: int, as_kueue: bool
) -> None:
    configuration, objects, workloads = world
    told = []
    for shuffled in (False, True):
        listed = list(objects)
        if shuffled:
            random.Random(seed).shuffle(listed)
        scheduler = Scheduler(replace(configuration, as_kueue=as_kueue))
        enter(scheduler, listed)
        ordered = sorted(workloads, key=lambda w: w.uid, reverse=shuffled)
        for one in ordered:
            scheduler.cache.submit(one)
        told.append([scheduler.decide(float(step)) for step in range(4)])
    assert told[0] == told[1]


@QUICK
@given(worlds(), st.integers(0, 1 << 16), st.sampled_from(["calm", "preempting", "as drawn"]))
def test_without_reasons_the_same_is_decided(
    world: tuple[Configuration, list[Any], list[Workload]], seed: int, manner: str
) -> None:
    configuration, objects, workloads = world
    if manner != "as drawn":
        changed: dict[str, Any] = {"strategy": "BestEffortFIFO"}
        changed |= Preemption()._asdict() if manner == "calm" else {}
        configuration = Configuration()
        objects = [replace(o, **changed) if isinstance(o, ClusterQueueView) else o for o in objects]
    decided = []
    for reasons in (True, False):
        scheduler = Scheduler(configuration)
        enter(scheduler, objects)
        if not reasons:
            scheduler.give_no_reasons()
        passes = play(scheduler, objects, workloads, seed)
        decided.append([(one.admitted, one.preempted) for one in passes])
    assert decided[0] == decided[1]


def without_reasons(*queues: tuple[str, int, Preemption]) -> Scheduler:
    """Return one for ClusterQueues (name, cpu, whom they may preempt), of a cohort if several."""
    scheduler = Scheduler(Configuration())
    objects: list[Any] = [Flavor(name="one")]
    for name, cpu, preemption in queues:
        quota = FlavorQuotas(name="one", resources={"cpu": Quota(nominal=cpu)})
        groups = (ResourceGroup(covered=("cpu",), flavors=(quota,)),)
        objects.append(
            ClusterQueue(
                name=name,
                cohort="c" if len(queues) > 1 else "",
                groups=groups,
                preemption=preemption,
            )
        )
        objects.append(LocalQueue(namespace="ns", name=name, cluster_queue=name))
    enter(scheduler, objects)
    scheduler.give_no_reasons()
    return scheduler


def workload(name: str, queue: str, cpu: int, **more: Any) -> Workload:
    sets = (PodSet(name="s", count=1, requests=(("cpu", cpu),)),)
    given: dict[str, Any] = {"created": 0, "priority": 0} | more
    return Workload(id=name, uid=name, namespace="ns", queue=queue, pod_sets=sets, **given)


@pytest.mark.parametrize(
    ("policy", "newer"),
    [
        ("LowerPriority", {"priority": 1}),
        ("LowerOrNewerEqualPriority", {"created": -1}),
    ],
)
def test_without_reasons_those_that_must_give_way(policy: Any, newer: dict[str, int]) -> None:
    scheduler = without_reasons(("q", 2, Preemption(within_cluster_queue=policy)))
    scheduler.cache.submit(workload("first", "q", 2))
    scheduler.decide(0.0)
    scheduler.cache.submit(workload("second", "q", 2, **newer))
    assert [one.id for one in scheduler.decide(1.0).preempted] == ["first"]


def test_without_reasons_what_was_borrowed_is_taken_back() -> None:
    any_one = Preemption(reclaim_within_cohort="Any")
    scheduler = without_reasons(("a", 2, any_one), ("b", 2, any_one))
    scheduler.cache.submit(workload("x", "a", 4))
    scheduler.decide(0.0)
    scheduler.cache.submit(workload("y", "b", 2))
    assert [one.id for one in scheduler.decide(1.0).preempted] == ["x"]


def test_without_reasons_what_an_admission_frees_is_there_for_the_next() -> None:
    """What ran unadmitted, and beyond what it asked for, is charged as admitted: less."""
    scheduler = without_reasons(("qa", 6, Preemption()), ("qb", 3, Preemption()))
    cache = scheduler.cache
    running = workload(unadmitted_id("A"), "qa", 6, unadmitted=True)
    cache.reserve(running, held("qa", 6))
    cache.reserve(workload("there", "qb", 3), held("qb", 3))
    cache.submit(workload("A", "qa", 2))
    cache.submit(workload("B", "qb", 3, priority=1))
    assert [one.id for one in scheduler.decide(0.0).admitted] == ["A", "B"]


def held(queue: str, cpu: int) -> Reservation:
    taken = PodSetAssignment(name="s", count=1, flavors={"cpu": "one"}, usage={"cpu": cpu})
    return Reservation(cluster_queue=queue, at=0.0, pod_sets=(taken,))


@QUICK
@given(worlds())
def test_who_fits_alone_is_admitted_in_the_end(
    world: tuple[Configuration, list[Any], list[Workload]],
) -> None:
    configuration, objects, workloads = world
    alone = set()
    for one in workloads:
        scheduler = Scheduler(configuration)
        enter(scheduler, objects)
        scheduler.cache.submit(one)
        if scheduler.decide(0.0).admitted:
            alone.add(one.id)
    scheduler = Scheduler(configuration)
    enter(scheduler, objects)
    for one in workloads:
        scheduler.cache.submit(one)
    admitted = set()
    for step in range(4 * len(workloads) + 4):
        verdicts = scheduler.decide(float(step))
        admitted |= {admission.id for admission in verdicts.admitted}
        for victim in verdicts.preempted:
            scheduler.cache.release(victim.id)
        if not verdicts.preempted and scheduler.cache.reservations.admitted:
            scheduler.cache.remove(
                min(scheduler.cache.reservations.admitted)
            )  # it has run to its end
    assert alone <= admitted


@QUICK
@given(worlds(), st.integers(0, 1 << 16))
def test_a_restart_changes_nothing(
    world: tuple[Configuration, list[Any], list[Workload]], seed: int
) -> None:
    """Nothing is remembered, once all has settled, that objects do not say."""
    configuration, objects, workloads = world
    scheduler = Scheduler(configuration)
    enter(scheduler, objects)
    for one in workloads:
        scheduler.cache.submit(one)
    while (verdicts := scheduler.decide(0.0)).preempted or verdicts.admitted:
        for victim in verdicts.preempted:
            scheduler.cache.release(victim.id)
    again = Scheduler(configuration)
    enter(again, objects)
    for holding in scheduler.cache.reservations.admitted.values():
        again.cache.reserve(holding.workload, holding.reservation)
    for one in workloads:
        if one.id in scheduler.cache.queues.waiting:
            again.cache.submit(one)
    scheduler.cache.wake_ups.release_all()
    first, second = scheduler.decide(1.0), again.decide(1.0)
    assert first.admitted == second.admitted
    if not first.preempted:
        reasons = {head.id: (head.reason, head.message) for head in first.heads}
        for head in second.heads:
            if not head.targets and head.id in reasons:
                assert reasons[head.id] == (head.reason, head.message)


def test_the_checks_see_a_quota_that_is_exceeded() -> None:
    queue = ClusterQueue(
        name="q",
        groups=(
            ResourceGroup(
                covered=("cpu",),
                flavors=(FlavorQuotas(name="one", resources={"cpu": Quota(nominal=1)}),),
            ),
        ),
    )
    objects = [Flavor(name="one"), queue, LocalQueue(namespace="ns", name="l", cluster_queue="q")]
    scheduler = Scheduler()
    enter(scheduler, objects)
    pods = PodSet(name="s", count=1, requests=(("cpu", 1),))
    for name in ("a", "b"):
        scheduler.cache.submit(
            Workload(id=name, uid=name, namespace="ns", queue="l", created=0, pod_sets=(pods,))
        )
    assert [one.id for one in scheduler.decide(0.0).admitted] == ["a"]
    holding = scheduler.cache.reservations.admitted["a"]
    waiter = scheduler.cache.queues.waiting["b"]
    scheduler.cache.admit(waiter, holding.reservation)
    with pytest.raises(AssertionError, match="uses 2 of 1"):
        check_limits(scheduler, objects)
