"""Cases of the oracle as a past that they are a change to: pods that came, queues in YAML.

Theory. A case says what Kueue decided on a snapshot, one pass per step. A log has no snapshots:
what stands at the case's beginning has to come about. So whoever holds quota then comes at the time
at which it was given, the others in their order after it, while the flavors are gone; then the
flavors are there again, which is step 1. Events follow `STEP_S` apart. In the past the quota of
every queue was unlimited, so all that could start did, and each ran for as long as the oracle says.
What is changed are the queues: to those of the case.

A play decides all that can be decided at a moment, the oracle one head per queue and step. So cases
whose events come while something is left to decide, in which somebody gives up while waiting, or
in which a victim is looked at in the step in which its pods have ended, or gets in before others
(they come again later here) are another story and are left out; so are those that never settle,
whose times tie, or that begin with an eviction.

Pods have no order of podsets but that of their names, so each podset is told with its place in its
name.

Invariant: cases do not touch one another; every name begins with that of its case.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec import Struct

from gatelog.whatif.arrivals import Arrival, Delays, Life
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED_LABEL,
    POD_FINALIZER,
    PRIORITY_CLASS,
    QUEUE_NAME,
)
from podgroup.model.objects import PodView
from tests.oracle import case as reading
from tests.oracle.case import ClusterQueueOf, Recorded, ResourceGroupOf, WorkloadOf

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
GONE, BACK = BEGIN + timedelta(seconds=2_000), BEGIN + timedelta(seconds=10_000)
"""Between these there are no flavors."""
STEP_S = 1_000
FOREVER_S = 200_000.0
"""How long runs who does not end in the case."""
UNLIMITED = 1_000_000

LEFT_OUT = {"afs", "ties"}
"""Tags of cases of which the clock or the drawing of lots is a part."""
BUSY = ("admitted", "preempted", "evictionsCompleted")
"""What a step has in it after which something may be left to decide; and whoever is in line."""


class Admitted(Struct, frozen=True):
    """A group is admitted: podset -> resource -> flavor."""

    at: datetime
    group: str
    queue: str
    flavors: dict[str, dict[str, str]]


class Story(Struct, frozen=True):
    """A case that can be told as a past."""

    recorded: Recorded
    beginning: list[WorkloadOf]
    """Who holds quota at its beginning, in the order in which that was given."""
    moments: list[int]
    """Steps at which something comes or ends, the first of them 1."""

    @property
    def name(self) -> str:
        return self.recorded.id

    def names(self) -> list[str]:
        """Return the names of its groups."""
        return [f"{self.name}-{one.name}" for one in _workloads(self)]

    def end(self) -> datetime:
        """Return a time after its last step, and before anybody ends by itself."""
        return _at(self.recorded.outcome["stepsRun"] + 1)

    def moment(self, step: int) -> int:
        """Return the last step up to `step` at which something came or ended."""
        return max(each for each in self.moments if each <= step)

    def admitted(self) -> list[Admitted]:
        """Return who is admitted after the beginning: by steps, of one step by ClusterQueue."""
        found = []
        for step in self.recorded.outcome["steps"]:
            mine = step.get("admitted") or ()
            for one in sorted(mine, key=lambda each: str(each["clusterQueue"])):
                at = _at(self.moment(step["step"]))
                found.append(self._admitted(one, at, one["podSets"]))
        return found

    def held(self) -> list[Admitted]:
        """Return who holds quota at the beginning, in the order in which it was given."""
        found = []
        for one in self.beginning:
            assert one.admission is not None
            at = BEGIN + timedelta(seconds=one.admission.at)
            whole = msgspec.to_builtins(one.admission)
            found.append(self._admitted({"workload": one.name, **whole}, at, whole["podSets"]))
        return found

    def _admitted(self, one: dict[str, Any], at: datetime, sets: list[dict[str, Any]]) -> Admitted:
        flavors = {
            _role(place, each["name"]): {
                r: f"{self.name}-{f}" for r, f in (each.get("flavors") or {}).items()
            }
            for place, each in enumerate(sets)
        }
        queue = f"{self.name}-{one['clusterQueue']}"
        return Admitted(at, f"{self.name}-{one['workload']}", queue, flavors)

    def tree(self, queue: str) -> str:
        """Return the cohort at the top of a ClusterQueue's, or the queue if there is none."""
        above = {f"{self.name}-{q.name}": q.cohort for q in self.recorded.case.cluster_queues}
        above |= {one.name: one.parent for one in self.recorded.case.cohorts or ()}
        while above.get(queue):
            queue = str(above[queue])
        return queue

    def preempted(self) -> list[tuple[str, str]]:
        """Return who was preempted and why, in no order."""
        return sorted(
            (f"{self.name}-{one['workload']}", one["reason"])
            for step in self.recorded.outcome["steps"]
            for one in step.get("preempted") or ()
        )


def stories(recorded: list[Recorded], strategies: tuple[str, ...]) -> list[Story]:
    """Return the cases that can be told as a past, of these strategies of fair sharing or none."""
    found: list[Story] = []
    for one in recorded:
        sharing = one.case.config.fair_sharing
        mine = () if sharing is None else tuple(sharing.strategies or ())
        plain = sharing is None or mine
        if plain and mine == strategies and not LEFT_OUT & set(one.tags) and (story := _story(one)):
            found.append(story)
    return found


def _story(one: Recorded) -> Story | None:
    case, steps = one.case, one.outcome["steps"]
    there = case.workloads or []
    if not one.outcome["quiescent"] or one.outcome["period"] or any(each.evicted for each in there):
        return None
    if any(q.preemption is not None and q.preemption.raw for q in case.cluster_queues):
        return None
    holding = [(w.admission.at, w.uid or w.name, w) for w in there if w.admission]
    beginning = [w for _, _, w in sorted(holding, key=lambda each: each[:2])]
    if not _older(case.cluster_queues, beginning, there):
        return None
    changing = {e.step for e in case.events or () if e.finish or e.delete or e.submit}
    busy = {s["step"] for s in steps if any(s.get(k) for k in BUSY) or any(s["active"].values())}
    if any(step - 1 in busy for step in changing if step > 1):
        return None
    if any(
        head["workload"] in (s.get("evictionsCompleted") or ()) and head["status"] == "skipped"
        for s in steps
        for head in s["heads"]
    ):
        return None
    if _back_before_others(steps, sorted({1} | changing)):
        return None
    gone = {name for s in steps for name in s.get("deleted") or ()}
    held = {w.name for w in beginning} | {
        one["workload"] for s in steps for one in s.get("admitted") or ()
    }
    if gone - held:
        return None
    return Story(one, beginning, sorted({1} | changing))


def _back_before_others(steps: list[dict[str, Any]], moments: list[int]) -> bool:
    """Tell whether a victim gets in again, and something else is decided after it at that time."""
    victims: set[str] = set()
    back: dict[int, int] = {}
    for step in steps:
        moment = max(each for each in moments if each <= step["step"])
        decided = step.get("admitted") or step.get("preempted")
        if decided and back.get(moment, step["step"]) < step["step"]:
            return True
        if any(one["workload"] in victims for one in step.get("admitted") or ()):
            back.setdefault(moment, step["step"])
        victims.update(one["workload"] for one in step.get("preempted") or ())
    return False


def _older(
    queues: list[ClusterQueueOf], beginning: list[WorkloadOf], there: list[WorkloadOf]
) -> bool:
    """Tell whether who holds quota came before all others, or nobody asks who came first."""
    newer = any(
        q.preemption is not None and "Newer" in q.preemption.within_cluster_queue for q in queues
    )
    waiting = [w.created for w in there if not w.admission]
    return not newer or not waiting or all(w.created < min(waiting) for w in beginning)


class Past:
    """What came in all stories, as a source of a play."""

    def __init__(self, told: list[Story]) -> None:
        self.delays = Delays()
        self._arrivals = sorted(
            (one for story in told for one in _arrivals(story)),
            key=lambda one: (one.at, one.pod.uid),
        )

    def arrivals(self) -> Iterator[Arrival]:
        """Yield what comes, in order of time."""
        return iter(self._arrivals)

    def stopped(self, pod: PodView, life: Life, at: datetime) -> None:
        """Return nothing: with unlimited quota nobody is stopped."""

    def ended(self, pod: PodView, at: datetime) -> None:
        """Return nothing: everybody runs once."""


def _arrivals(story: Story) -> Iterator[Arrival]:
    case = story.recorded.case
    held = {w.name for w in story.beginning}
    for one in story.beginning:
        assert one.admission is not None
        yield from _pods(story, one, BEGIN + timedelta(seconds=one.admission.at))
    for one in case.workloads or ():
        if one.name not in held:
            at = GONE + timedelta(
                seconds=one.created - min(w.created for w in case.workloads or ())
            )
            assert at < BACK
            yield from _pods(story, one, at)
    for event in case.events or ():
        for one in event.submit or ():
            yield from _pods(story, one, _at(event.step))


def _at(step: int) -> datetime:
    return BACK + timedelta(seconds=(step - 1) * STEP_S)


def _pods(story: Story, one: WorkloadOf, at: datetime) -> Iterator[Arrival]:
    name, run_s = f"{story.name}-{one.name}", _run_s(story, one, at)
    namespace = f"{story.name}-{one.namespace}"
    read = reading.workload(one)
    for place, pod_set in enumerate(read.pod_sets):
        for index in range(pod_set.count):
            pod = f"{name}-{pod_set.name}-{index}"
            view = PodView(
                uid=f"{story.name}-{one.uid or one.name}-{pod_set.name}-{index}",
                namespace=namespace,
                name=pod,
                resource_version="",
                created_at=at,
                labels={
                    QUEUE_NAME: f"{story.name}-{one.queue}",
                    MANAGED_LABEL: "true",
                    GROUP_NAME: name,
                    PRIORITY_CLASS: _class(one.priority),
                },
                annotations={GROUP_TOTAL_COUNT: str(sum(s.count for s in read.pod_sets))},
                finalizers=(POD_FINALIZER,),
                gates=(ADMISSION_GATE,),
                role=_role(place, pod_set.name),
                role_annotated=True,
                requests=dict(pod_set.requests),
                node_selector=dict(pod_set.node_selector),
                node_terms=pod_set.node_terms,
                tolerations=pod_set.tolerations,
                phase="Pending",
            )
            yield Arrival(at, view, Life(run_s=run_s))


def _role(place: int, name: str) -> str:
    return f"{place}-{name}"


def _run_s(story: Story, one: WorkloadOf, came: datetime) -> float:
    """How long it runs: from its last admission to where the oracle has it end."""
    begin = None if one.admission is None else came
    for step in story.recorded.outcome["steps"]:
        if begin is not None and one.name in (step.get("finished") or step.get("deleted") or ()):
            return (_at(step["step"]) - begin).total_seconds()
        if any(each["workload"] == one.name for each in step.get("admitted") or ()):
            begin = _at(story.moment(step["step"]))
    return FOREVER_S


# -- queues ---


def manifests(told: list[Story], *, limited: bool) -> str:
    """Return the objects of all stories but flavors, as documents; else quota is unlimited."""
    priorities = {w.priority for story in told for w in _workloads(story)}
    found = [
        _object("WorkloadPriorityClass", _class(each), value=each) for each in sorted(priorities)
    ]
    for story in told:
        case, name = story.recorded.case, story.name
        for each in case.namespaces or ():
            found.append(_object("Namespace", f"{name}-{each.name}", labels=each.labels))
        for line in case.local_queues:
            there = _object("LocalQueue", f"{name}-{line.name}")
            there["metadata"]["namespace"] = f"{name}-{line.namespace}"
            there["spec"] = _given(
                clusterQueue=f"{name}-{line.cluster_queue}", stopPolicy=line.stop_policy
            )
            found.append(there)
        for queue in case.cluster_queues:
            spec = _queue(name, queue, limited=limited)
            found.append(_object("ClusterQueue", f"{name}-{queue.name}", spec=spec))
        for cohort in (case.cohorts or ()) if limited else ():
            spec = _given(
                parentName=cohort.parent and f"{name}-{cohort.parent}",
                fairSharing=_weight(cohort.weight),
                resourceGroups=[_group(name, g, True) for g in cohort.resource_groups or ()],
            )
            found.append(_object("Cohort", f"{name}-{cohort.name}", spec=spec))
    return _documents(found)


def flavors(told: list[Story]) -> str:
    """Return the flavors of all stories, as documents."""
    return _documents(
        _object(
            "ResourceFlavor",
            f"{story.name}-{each.name}",
            spec=_given(
                nodeLabels=each.labels,
                nodeTaints=[msgspec.to_builtins(t) for t in each.taints or ()],
                tolerations=[msgspec.to_builtins(t) for t in each.tolerations or ()],
            ),
        )
        for story in told
        for each in story.recorded.case.flavors or ()
    )


def _workloads(story: Story) -> Iterator[WorkloadOf]:
    case = story.recorded.case
    yield from case.workloads or ()
    for event in case.events or ():
        yield from event.submit or ()


def _queue(name: str, queue: ClusterQueueOf, *, limited: bool) -> dict[str, Any]:
    preemption, fungibility = queue.preemption, queue.flavor_fungibility
    spec = _given(
        queueingStrategy=queue.strategy,
        stopPolicy=queue.stop_policy,
        resourceGroups=[_group(name, g, limited) for g in queue.resource_groups or ()],
    )
    spec["namespaceSelector"] = _given(matchLabels=queue.namespace_selector)
    if not limited:
        return spec
    borrow = preemption and preemption.borrow_within_cohort
    return spec | _given(
        cohortName=queue.cohort and f"{name}-{queue.cohort}",
        fairSharing=_weight(queue.weight),
        preemption=preemption
        and _given(
            withinClusterQueue=preemption.within_cluster_queue,
            reclaimWithinCohort=preemption.reclaim_within_cohort,
            borrowWithinCohort=borrow
            and _given(policy=borrow.policy, maxPriorityThreshold=borrow.max_priority_threshold),
        ),
        flavorFungibility=fungibility
        and _given(
            whenCanBorrow=fungibility.when_can_borrow,
            whenCanPreempt=fungibility.when_can_preempt,
            preference=fungibility.preference,
        ),
    )


def _group(name: str, group: ResourceGroupOf, limited: bool) -> dict[str, Any]:
    return {
        "coveredResources": group.resources,
        "flavors": [
            {
                "name": f"{name}-{flavor.name}",
                "resources": [
                    {"name": resource}
                    | _given(
                        nominalQuota=str(quota.nominal if limited else UNLIMITED),
                        borrowingLimit=_text(quota.borrowing_limit) if limited else None,
                        lendingLimit=_text(quota.lending_limit) if limited else None,
                    )
                    for resource, quota in (flavor.quotas or {}).items()
                ],
            }
            for flavor in group.flavors
        ],
    }


def _weight(weight: reading.Amount | None) -> dict[str, str] | None:
    return None if weight is None else {"weight": str(weight)}


def _text(amount: reading.Amount | None) -> str | None:
    return None if amount is None else str(amount)


def _class(priority: int) -> str:
    return f"priority-{priority}" if priority >= 0 else f"priority-minus{-priority}"


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value or value == 0}


def _object(kind: str, name: str, **parts: Any) -> dict[str, Any]:
    version = "v1" if kind == "Namespace" else "kueue.x-k8s.io/v1beta2"
    found: dict[str, Any] = {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
    if (labels := parts.pop("labels", None)) is not None:
        found["metadata"]["labels"] = labels
    return found | parts


def _documents(found: Any) -> str:
    return "---\n".join(msgspec.json.encode(each).decode() + "\n" for each in found)
