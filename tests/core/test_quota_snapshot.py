"""On flat queues the package decides as builtin admission does, on snapshots of real worlds.

A ClusterQueue is stopped while pods come and go; when it is started again, what one message makes
builtin admission decide is held against what a scheduler with the same snapshot decides.
"""

import random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from podgroup import commands as c
from podgroup import events as e
from podgroup.admission import BETTER, Scheduler
from podgroup.decide import snapshot
from podgroup.objects import FlavorQuotas, FlavorView, Quota, ResourceGroup
from tests.support.toy import Toy

PRIORITY = "kueue.x-k8s.io/priority-class"


WAITING = msgspec.structs.replace(BETTER, pass_hopeless=False)
"""Builtin admission waits behind a head of a StrictFIFO queue whatever is in its way."""


def decided(scheduler: Scheduler, now: float) -> tuple[dict[str, Any], set[tuple[str, str]]]:
    """Who is let in with what, and who gives way for whom, when victims are gone at once."""
    admitted: dict[str, Any] = {}
    preempted: set[tuple[str, str]] = set()
    while (verdicts := scheduler.decide(now)).admitted or verdicts.preempted:
        for one in verdicts.admitted:
            admitted[one.id] = [(s.name, s.count, s.flavors) for s in one.pod_sets]
        for victim in verdicts.preempted:
            preempted.add((victim.id, victim.by_id))
            # A single pod dies with its eviction, a group's pods are made again and wait.
            scheduler.book.released(victim.id, requeue=victim.id.startswith("group"))
    return admitted, preempted


def switch(toy: Toy, stop_policy: str) -> Any:
    """The ClusterQueue, started or stopped."""
    view = toy.world.cluster_queues["cq"]
    return replace(view, resource_version=toy.bump(), stop_policy=stop_policy)


def two_flavors(toy: Toy, cpu: int) -> None:
    toy.do(
        e.ObjectApplied(object=FlavorView(uid="g", name="g", resource_version=toy.bump())),
    )
    view = toy.world.cluster_queues["cq"]
    (group,) = view.groups
    quota = {"cpu": Quota(nominal=cpu * 1000)}
    wider = ResourceGroup(
        covered=group.covered,
        flavors=(*group.flavors, FlavorQuotas(name="g", resources=quota)),
    )
    changed = replace(view, resource_version=toy.bump(), groups=(wider,))
    toy.do(e.ObjectApplied(object=changed))


def some_pods(toy: Toy, rng: random.Random, wave: int) -> None:
    for number in range(rng.randint(1, 5)):
        labels = {PRIORITY: rng.choice(["high", "low"])} if rng.random() < 0.7 else {}
        size = rng.choice([1, 1, 1, 2, 3])
        name = f"{wave}-{number}"
        cpu = rng.randint(1, 4)
        for i in range(size):
            if size == 1:
                toy.pod(name, cpu=cpu, labels=labels)
            else:
                toy.pod(f"{name}-{i}", group=name, total=size, cpu=cpu, labels=labels)


@pytest.mark.parametrize("seed", range(24))
def test_both_decide_alike(seed: int) -> None:
    rng = random.Random(seed)
    strategy = rng.choice(["BestEffortFIFO", "StrictFIFO"])
    within = rng.choice(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
    toy = Toy(cpu=rng.randint(4, 12), strategy=strategy, within=within)
    if rng.random() < 0.5:
        two_flavors(toy, rng.randint(1, 8))
    compared = 0
    for wave in range(5):
        toy.do(e.ObjectApplied(object=switch(toy, "Hold")))
        some_pods(toy, rng, wave)
        for pod in list(toy.pods.values()):
            if not pod.gates and rng.random() < 0.4:
                toy.end(pod.name)
        started = switch(toy, "None")
        scheduler = snapshot.scheduler(toy.world, WAITING, queues={"cq": started})
        told, preempted = decided(scheduler, toy.now.timestamp())
        before = len(toy.decisions)
        toy.do(e.ObjectApplied(object=started))  # victims are told to stop, and are seen to
        made = toy.decisions[before:]
        admitted = {}
        evicted = set()
        for decision in made:
            match decision.command:
                case c.AdmitGroup(assignments=sets):
                    admitted[decision.group] = [(s.name, s.count, s.flavors) for s in sets]
                case c.EvictGroup(preempted_by=preemptor):
                    evicted.add((decision.group, preemptor))
        assert told.keys() == admitted.keys()
        assert preempted == evicted
        if not evicted:  # how what is kept for a preemptor is counted may choose another flavor
            assert told == admitted
        compared += len(admitted) + len(evicted)
        toy.settle()
    assert compared


def test_what_runs_without_an_admission_is_counted_and_never_preempted() -> None:
    toy = Toy(cpu=2)
    toy.pod("early", cpu=2, gated=False)
    toy.run("early")
    toy.pod("urgent", cpu=2, labels={PRIORITY: "high"})
    scheduler = snapshot.scheduler(toy.world)
    verdicts = scheduler.decide(toy.now.timestamp())
    assert not verdicts.admitted
    assert not verdicts.preempted
    assert [head.reason for head in verdicts.heads] == ["WaitingForQuota"]
