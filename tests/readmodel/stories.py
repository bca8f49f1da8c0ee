"""Random stories of two teams in a cohort, for whoever asks different places the same question.

A story is told by its seed: pods and groups of several priorities come, run, fail, end and are
deleted; evicted pods stop late, Workloads are deleted, a queue is stopped, quota changes; a pod
comes past admission.
"""

import random
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from podgroup.log import events as e
from podgroup.model.names import QUEUE_NAME
from podgroup.model.objects import Assignment, Condition, LocalQueueView
from podgroup.model.policy import Policy
from tests.core.test_shared_quota import cohort, team
from tests.support.toy import Toy

PRIORITY = "kueue.x-k8s.io/priority-class"
BY_USE = Policy(usage_half_life_s=600, usage_sampling_s=30, status_interval_s=1)
PLAIN = Policy(status_interval_s=1)
TEAMS = ("red", "blue")


class Story:
    """One story; each of `moments` goes on with it and stops where people may ask."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        by_use = bool(self.random.getrandbits(1))
        policy = BY_USE if by_use else PLAIN
        if seed % 3 == 2:
            policy = replace(policy, compatibility="kueue")
        self.toy = toy = Toy(policy=policy)
        toy.slow = True  # evicted pods stop late: quota is kept for whoever preempted them
        cohort(toy, "lab", cpu=self.random.choice((0, 2)))
        for name in TEAMS:
            strict = "StrictFIFO" if self.random.random() < 0.3 else "BestEffortFIFO"
            team(toy, name, 4, strategy=strict, usage_based=by_use)
            self._local_queue(f"{name}-2", name)
        self.number = 0

    def moments(self, steps: int = 60, every: int = 6) -> Iterator[Toy]:
        """Go on for some steps; stop at every `every`-th."""
        for step in range(1, steps + 1):
            self._step()
            if step == 20:
                self.toy.pod("sly", labels={QUEUE_NAME: "red-2"}, gated=False)
                self.toy.run("sly")
            if step % every == 0:
                self.toy.wait(1.1)  # what is told of queues at most once a second is told
                yield self.toy

    def _local_queue(self, name: str, cluster_queue: str, stop: str = "None") -> None:
        view = LocalQueueView(
            uid=f"l-{name}",
            namespace="ns",
            name=name,
            resource_version=self.toy.bump(),
            cluster_queue=cluster_queue,
            stop_policy=stop,
            active=("True", "Ready", "Can submit new workloads to localQueue"),
        )
        self.toy.do(e.ObjectApplied(object=view))

    def _step(self) -> None:
        toy, chance = self.toy, self.random.random()
        pods = list(toy.pods.values())
        if chance < 0.45 or not pods:
            self._come()
        elif chance < 0.7:
            pod = self.random.choice(pods)
            if not pod.gates and pod.phase == "Pending" and pod.deleted_at is None:
                toy.run(pod.name)
            elif pod.phase == "Running":
                ended = self.random.random() < 0.7 and pod.deleted_at is None
                toy.end(pod.name, phase="Succeeded" if ended else "Failed")
        elif chance < 0.78:
            toy.delete(self.random.choice(pods).name)
        elif chance < 0.83 and toy.workloads:
            toy.delete_workload(self.random.choice(sorted(toy.workloads)))
        elif chance < 0.88:
            self._local_queue("red-2", "red", self.random.choice(("None", "Hold")))
        elif chance < 0.92:
            known = toy.world.cluster_queues["blue"]
            queue = toy.cluster_queue(self.random.choice((2, 4, 6)), known.strategy)
            kept: dict[str, Any] = {
                "uid": "blue",
                "name": "blue",
                "cohort": "lab",
                "active": known.active,
            }
            kept |= {"reclaim_within_cohort": "Any", "usage_based": known.usage_based}
            toy.do(e.ObjectApplied(object=replace(queue, **kept)))
        else:
            toy.wait(self.random.choice((1, 40, 600)))

    def _come(self) -> None:
        self.number += 1
        queue = self.random.choice(TEAMS) + self.random.choice(("", "-2"))
        labels = {QUEUE_NAME: queue}
        if self.random.random() < 0.6:
            labels[PRIORITY] = self.random.choice(("high", "low"))
        size = self.random.choice((0, 0, 2, 3))
        cpu = self.random.choice((1, 1, 2, 9))
        there = size if self.random.random() < 0.8 else 1  # or it waits for its pods
        for index in range(max(there, 1)):
            group = f"g{self.number}" if size else ""
            name = f"p{self.number}-{index}"
            self.toy.pod(name, group, size, cpu=cpu, labels=labels)


def kueue_admits() -> Iterator[Toy]:
    """A story in kueue mode: red borrows two cores of blue, one of its pods ends, one waits."""
    toy = Toy(mode="kueue", policy=PLAIN)
    cohort(toy, "lab")
    for name in TEAMS:
        team(toy, name, 4)
    for number in range(7):
        toy.pod(f"p{number}", cpu=1, labels={QUEUE_NAME: "red"})
        toy.wait(20)
    toy.pod("b", cpu=1, labels={QUEUE_NAME: "blue"})
    yield toy
    for name in [name for name in sorted(toy.workloads) if name.startswith("pod-p")][:6]:
        _admit(toy, name, "red")
    toy.wait(30)
    yield toy
    started = [pod.name for pod in toy.pods.values() if not pod.gates]
    toy.run(*started[:4])
    toy.wait(600)
    toy.end(started[0])
    toy.wait(2)
    yield toy


def _admit(toy: Toy, name: str, queue: str) -> None:
    """Admit a Workload to a ClusterQueue, as Kueue's core does."""
    given = Assignment(
        name=toy.workloads[name].pod_sets[0].name,
        flavors={"cpu": "f"},
        usage={"cpu": 1000},
        count=1,
    )
    conditions = (
        Condition(type=kind, status="True", reason=kind, at=toy.now)
        for kind in ("QuotaReserved", "Admitted")
    )
    toy.say(name, *conditions, cluster_queue=queue, assignments=(given,))
