"""Shares end as even as Kueue's, in whatever order the groups of a burst come.

Measured by `excess` over the 2,000 recorded cases, of which 876 have fair sharing: 47,841 in all by
gatelog's decisions, 54,950 by Kueue's; in 42 of them more than by Kueue's, in 55 less. No law of
`invariants` breaks in any of them. In 300 bursts of pods of one core it is 13,169 against 13,107,
in 5 of them more, in 3 less; without contested claims it is 31,722.

In 150 bursts of pods of one to three cores it is 7,907 against 7,634. In one of those a victim is
back before the loser, which no longer fits: it preempts in its own queue. Victims of a lost claim
wait for no longer than the winner's claim lasts, since a loser may wait for ever.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from podgroup.admission import Scheduler
from podgroup.admission.model import Configuration, PodSet, Workload
from podgroup.model.objects import ClusterQueueView, CohortView, FlavorQuotas, Quota, ResourceGroup
from tests.oracle.case import Recorded, read
from tests.oracle.fairness import excess
from tests.oracle.invariants import CheckedPlay
from tests.oracle.play import Play
from tests.support.offers import ClusterQueue, Cohort, Flavor, LocalQueue, Namespace, Preemption

CASES = Path(__file__).parent / "cases.jsonl.gz"
CONTESTED = Path(__file__).parent / "contested.jsonl.gz"
"""Cases in which other ways to contest claims let a victim back before its preemptor."""
RESEARCH = ("best-effort", "chemistry", "physics", "llm")
LITTLE = 1e-6


def _cpu(cores: int) -> tuple[ResourceGroup, ...]:
    quota = FlavorQuotas(name="f", resources={"cpu": Quota(nominal=cores)})
    return (ResourceGroup(covered=("cpu",), flavors=(quota,)),)


class Burst:
    """Queues to which pods of one core come one at a time; each has a pass of its own."""

    def __init__(
        self,
        cohorts: Sequence[CohortView],
        queues: Sequence[ClusterQueueView],
        *,
        as_kueue: bool = False,
    ) -> None:
        self.scheduler = Scheduler(Configuration(fair_strategies=(), as_kueue=as_kueue))
        self.cache = self.scheduler.cache
        self.cache.apply(Namespace(name="ns"))
        self.cache.apply(Flavor(name="f"))
        for cohort in cohorts:
            self.cache.apply(cohort)
        for queue in queues:
            self.cache.apply(queue)
            self.cache.apply(LocalQueue(namespace="ns", name=queue.name, cluster_queue=queue.name))
        self.now = 0
        self.leaving: list[str] = []

    def submit(self, queue: str, priority: int) -> None:
        self.now += 1
        name = f"{queue}-{self.now}"
        pods = PodSet(name="main", count=1, requests=(("cpu", 1),))
        self.cache.submit(
            Workload(
                id=name,
                uid=name,
                namespace="ns",
                queue=queue,
                created=self.now,
                priority=priority,
                pod_sets=(pods,),
            )
        )
        self.decide()

    def decide(self) -> None:
        """Run passes until one decides nothing."""
        for _ in range(60):
            self.now += 1
            verdicts = self.scheduler.settle(self.now, self.now)
            waited_for = {lost.winner for lost in self.cache.claims.lost.values()}
            assert waited_for <= self.cache.claims.by_id.keys(), (
                "a victim waits for nothing to come"
            )
            self.leaving += [one.id for one in verdicts.preempted]
            if not verdicts.admitted and not verdicts.preempted:
                return

    def finish(self) -> None:
        """Complete evictions one after the other, also those that come of it."""
        for _ in range(200):
            if not self.leaving:
                return
            self.cache.release(self.leaving.pop(0))
            self.decide()
        raise AssertionError("workloads preempt one another without end")

    def held(self) -> dict[str, int]:
        """How many pods of each ClusterQueue are admitted."""
        return Counter(one.cluster_queue for one in self.cache.reservations.admitted.values())


def research() -> Burst:
    """The story of Kueue's own suite (fair_sharing_test.go): twelve cores, all lent."""
    lower = Preemption(reclaim_within_cohort="LowerPriority")
    weights = {"best-effort": Fraction(1, 2), "llm": Fraction(2)}
    cohorts = [Cohort(name="root", groups=_cpu(12)), Cohort(name="research", parent="root")]
    queues = []
    for name in RESEARCH:
        parent = "root" if name == "best-effort" else "research"
        cohorts.append(Cohort(name=name, parent=parent, weight=weights.get(name, Fraction(1))))
        preemption = Preemption() if name == "best-effort" else lower
        queues.append(ClusterQueue(name=name, cohort=name, groups=_cpu(0), preemption=preemption))
    return Burst(cohorts, queues)


@pytest.mark.parametrize("slow", [True, False])
def test_the_order_of_a_burst_does_not_decide(slow: bool) -> None:
    """In all 24 orders, whether evictions end after the burst or between its rounds."""
    for order in permutations(RESEARCH):
        burst = research()
        for _ in range(6):
            burst.submit("best-effort", -1)
            burst.submit("physics", -1)
        for _ in range(6):
            for name in order:
                burst.submit(name, 100)
            if not slow:
                burst.finish()
        burst.finish()
        assert burst.held() == {"best-effort": 4, "chemistry": 2, "physics": 2, "llm": 4}, order
        assert excess(burst.cache) == 0


def _random_burst(seed: int, *, as_kueue: bool) -> float:
    """Return the excess that a tree, a load and a burst made by chance end with."""
    chance = Random(seed)
    cohorts = [Cohort(name="root", groups=_cpu(chance.choice([0, 6, 12])))]
    for number in range(chance.choice([0, 0, 1, 2])):
        weight = Fraction(chance.choice(["1", "2", "1/2"]))
        cohorts.append(Cohort(name=f"c{number}", parent="root", weight=weight))
    queues = [
        ClusterQueue(
            name=f"q{number}",
            cohort=chance.choice(cohorts).name,
            groups=_cpu(chance.choice([0, 1, 2, 4])),
            weight=Fraction(chance.choice(["1", "2", "1/2"])),
            preemption=Preemption(
                within_cluster_queue=chance.choice(["Never", "LowerPriority"]),
                reclaim_within_cohort=chance.choice(["Never", "LowerPriority", "Any"]),
            ),
        )
        for number in range(chance.choice([2, 3, 4]))
    ]
    burst = Burst(cohorts, queues, as_kueue=as_kueue)
    for priorities, count in (((-1, 0), chance.choice([6, 12])), ((0, 1, 100), 8)):
        for _ in range(count):
            burst.submit(chance.choice(queues).name, chance.choice(priorities))
        if priorities == (-1, 0):
            burst.finish()
    burst.finish()
    return excess(burst.cache)


def _compared(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, int]:
    """Return the sums of Kueue's excess and ours, and in how many ours is the larger one."""
    kueue, ours = zip(*pairs, strict=True)
    return sum(kueue), sum(ours), sum(b > a + LITTLE for a, b in pairs)


@pytest.mark.parametrize(
    ("bursts", "more"),
    [
        (60, 1.1),
        pytest.param(300, 1.01, marks=pytest.mark.slow("600 plays, a quarter of a minute")),
    ],
)
def test_bursts_end_as_fair_as_kueues(bursts: int, more: float) -> None:
    """Of 60 one is worse, by one pod: `more` is by how much the sum may be the larger one."""
    pairs = [
        (_random_burst(seed, as_kueue=True), _random_burst(seed, as_kueue=False))
        for seed in range(bursts)
    ]
    kueue, ours, worse = _compared(pairs)
    assert kueue > 0
    assert ours <= more * kueue
    assert worse <= 0.03 * len(pairs)


@pytest.mark.parametrize("recorded", list(read(CONTESTED)), ids=lambda one: one.id)
def test_victims_of_a_lost_claim_are_not_in_before_the_loser(recorded: Recorded) -> None:
    play = CheckedPlay(recorded.case)
    play.run()
    assert play.broken == []


def test_recorded_cases_end_as_fair_as_kueues() -> None:
    pairs = []
    for recorded in read(CASES):
        if recorded.case.config.fair_sharing is not None and recorded.outcome["quiescent"]:
            plays = Play(recorded.case, as_kueue=True), Play(recorded.case)
            for play in plays:
                play.run()
            pairs.append((excess(plays[0].scheduler.cache), excess(plays[1].scheduler.cache)))
    kueue, ours, worse = _compared(pairs)
    assert kueue > 0
    assert ours <= kueue
    assert worse <= 0.05 * len(pairs)
