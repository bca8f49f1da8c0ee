"""Plays a case: everything around the scheduler, step by step.

A step: events (finish, delete, submit); evictions that are due are completed, by name; one pass.
An evicted workload's pods stop after as many steps as the case says. The case ends when nothing is
left to do, when only heads go round (a state seen before since anything changed), or at its last
step, which means that it never settles.
"""

from typing import Any

from msgspec.structs import replace

from podgroup.admission import Scheduler
from podgroup.admission.holding import AdmittedWorkload
from podgroup.admission.model import PodSetAssignment
from podgroup.admission.share import share_of
from podgroup.admission.tree import Node, Usage
from podgroup.admission.verdicts import AdmissionVerdict, HeadVerdict
from podgroup.model.names import PENDING_EVALUATION
from tests.oracle import case as reading
from tests.oracle.case import Case, WorkloadOf, write_amount
from tests.support.offers import Namespace

BEFORE = "evicted before the case began"


class Play:
    """One case and its scheduler."""

    def __init__(self, case: Case, *, as_kueue: bool = False) -> None:
        self.case = case
        self.scheduler = Scheduler(replace(reading.configuration(case), as_kueue=as_kueue))
        self.told: dict[str, tuple[str, str]] = {}
        self.given: dict[str, WorkloadOf] = {}
        self.due: dict[str, int] = {}
        self.finished: set[str] = set()
        self.preemptions: list[tuple[str, str]] = []
        """Victim and preemptor, in order."""
        cache = self.scheduler.cache
        for namespace in case.namespaces or ():
            cache.apply(Namespace(name=namespace.name, labels=namespace.labels or {}))
        for flavor in case.flavors or ():
            cache.apply(reading.flavor(flavor))
        for cohort in case.cohorts or ():
            cache.apply(reading.cohort(cohort))
        for cluster_queue in case.cluster_queues:
            cache.apply(reading.cluster_queue(cluster_queue))
        for local_queue in case.local_queues:
            cache.apply(reading.local_queue(local_queue))
            used, ledger = local_queue.consumed, cache.reservations.ledger
            if used and ledger is not None:
                opened = {resource: str(amount) for resource, amount in used.items()}
                key = (local_queue.namespace, local_queue.name)
                ledger.restore(key, opened, case.config.start)
        for one in case.workloads or ():
            self._create(one)
            if one.evicted is not None and one.admission is not None:
                self.due[one.name] = 2 + self._delay(one.name)

    def run(self) -> dict[str, Any]:
        """Play it to its end; return the outcome as it would be recorded."""
        config = self.case.config
        last_event = max((event.step for event in self.case.events or ()), default=0)
        seen: dict[Any, int] = {}
        steps: list[dict[str, Any]] = []
        quiescent, period, step = False, 0, 0
        for step in range(1, (config.max_steps or 40) + 1):
            now = config.start + (step - 1) * config.step
            done = self._events(step, now)
            verdicts = self.scheduler.decide(now)
            ran = not verdicts.idle
            for preemption in verdicts.preempted:
                self.preemptions.append((preemption.id, preemption.by_id))
                self.due[preemption.id] = step + 1 + self._delay(preemption.id)
            for head in verdicts.heads:
                if head.status != "assumed":
                    self.told[head.id] = (head.reason, head.message)
            at: dict[str, Any] = {
                "step": step,
                "time": now,
                **done,
                "heads": [_head(head) for head in verdicts.heads],
                "admitted": sorted(
                    (_admission(one) for one in verdicts.admitted), key=self._by_name
                ),
                "preempted": sorted(
                    (
                        {
                            "workload": one.id,
                            "by": one.by_uid,
                            "reason": one.reason,
                            "message": one.message,
                        }
                        for one in verdicts.preempted
                    ),
                    key=self._by_name,
                ),
                **self._lines(),
            }
            self.after_step(at)
            if ran or any(done.values()):
                steps.append(at)
            more = bool(self.due) or step < last_event
            if not ran and not more:
                quiescent = True
                break
            if more or any(done.values()) or verdicts.admitted or verdicts.preempted:
                seen.clear()
                continue
            state = self._state(at["heads"])
            if state in seen:
                quiescent, period = True, step - seen[state]
                break
            seen[state] = step
        return {
            "quiescent": quiescent,
            "period": period,
            "stepsRun": step,
            "steps": steps,
            "final": self._final(),
        }

    def after_step(self, at: dict[str, Any]) -> None:
        """Look at a step when it is over; for those who check what must always hold."""

    def _events(self, step: int, now: float) -> dict[str, list[str]]:
        done: dict[str, list[str]] = {
            "finished": [],
            "deleted": [],
            "submitted": [],
            "evictionsCompleted": [],
        }
        cache = self.scheduler.cache
        for event in self.case.events or ():
            if event.step != step:
                continue
            for name in event.finish or ():
                holding = cache.reservations.admitted.get(name)
                if holding is not None and holding.evicted is None:
                    cache.remove(name)
                    self.finished.add(name)
                    done["finished"].append(name)
            for name in event.delete or ():
                if name in self.given and name not in self.finished:
                    cache.remove(name)
                    del self.given[name]
                    self.due.pop(name, None)
                    done["deleted"].append(name)
            for one in event.submit or ():
                self._create(one)
                done["submitted"].append(one.name)
        for name in sorted(self.due, key=self._full_name):
            if self.due[name] > step:
                continue
            del self.due[name]
            done["evictionsCompleted"].append(name)
            if self.case.config.on_evict == "gone":
                cache.remove(name)
                del self.given[name]
                continue
            holding = cache.reservations.admitted[name]
            assert holding.evicted is not None
            self.told[name] = (PENDING_EVALUATION, holding.evicted.message)
            cache.release(name)
        return done

    def _create(self, one: WorkloadOf) -> None:
        self.given[one.name] = one
        self.finished.discard(one.name)
        self.told.pop(one.name, None)
        workload = reading.workload(one)
        if one.admission is not None:
            self.scheduler.cache.reserve(workload, reading.reservation(one.admission))
            return
        if one.evicted is not None:
            self.told[one.name] = (PENDING_EVALUATION, BEFORE)
        self.scheduler.cache.submit(workload)

    def _delay(self, name: str) -> int:
        config = self.case.config
        return (config.eviction_delays or {}).get(name, config.eviction_delay or 0)

    def _full_name(self, name: str) -> str:
        return f"{self.given[name].namespace}/{name}"

    def _by_name(self, one: dict[str, Any]) -> str:
        return self._full_name(one["workload"])

    def _lines(self) -> dict[str, dict[str, list[str]]]:
        cache = self.scheduler.cache
        active, aside = {}, {}
        for name, queue in cache.objects.cluster_queues.items():
            waiting = cache.queues.line(name)
            if line := [waiter.id for waiter in waiting if queue.lines.is_active(waiter)]:
                active[name] = line
            known = set(line)
            if others := sorted(w.id for w in queue.lines if w.id not in known):
                aside[name] = others
        return {"active": active, "inadmissible": aside}

    def _state(self, heads: list[dict[str, Any]]) -> Any:
        cache = self.scheduler.cache
        return repr(
            (
                heads,
                self._lines(),
                [
                    (q.preemptor, q.sticky, sorted(map(id, q.failed)))
                    for q in cache.objects.cluster_queues.values()
                ],
                sorted((w.id, w.last and w.last.tried) for w in cache.queues.waiting.values()),
            )
        )

    def _final(self) -> dict[str, Any]:
        cache = self.scheduler.cache
        forest = cache.objects.present
        admitted, pending = [], []
        lines = self._lines()
        place = {
            name: (queue, where)
            for where, listed in lines.items()
            for queue, names in listed.items()
            for name in names
        }
        for name in sorted(self.given, key=self._full_name):
            if name in self.finished:
                continue
            holding = cache.reservations.admitted.get(name)
            if holding is not None:
                admitted.append(_holding(holding))
                continue
            queue, where = place.get(name, ("", ""))
            reason, message = self.told.get(name, ("", ""))
            pending.append(
                {
                    "workload": name,
                    "clusterQueue": queue,
                    "where": where,
                    "reason": reason,
                    "message": message,
                }
            )
        shown = {n: node for n, node in forest.queues.items() if node.active}
        final: dict[str, Any] = {
            "admitted": admitted,
            "pending": pending,
            "usage": {n: _amounts(node.usage) for n, node in shown.items()},
            "available": {n: _amounts(_available(node)) for n, node in shown.items()},
            "potentialAvailable": {
                n: _amounts({k: node.potential[k] for k in node.nominal})
                for n, node in shown.items()
            },
            "cohortUsage": {n: _amounts(node.usage) for n, node in forest.cohorts.items()},
            "subtreeQuota": {n: _amounts(node.subtree) for n, node in forest.cohorts.items()},
        }
        if self.case.config.fair_sharing is not None:
            final["shares"] = {n: share_of(node).value for n, node in shown.items()}
            final["cohortShares"] = {n: share_of(node).value for n, node in forest.cohorts.items()}
        ledger = cache.reservations.ledger
        if ledger is not None:
            found = {key[1]: ledger.balance(key) for key in cache.objects.local_queues}
            final["afs"] = {n: dict(one.consumed) if one else {} for n, one in found.items()}
        return final


def _head(head: HeadVerdict) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "workload": head.id,
        "clusterQueue": head.cluster_queue,
        "order": head.order,
        "preemptor": head.preemptor,
        "mode": head.mode,
        "borrow": head.borrowing,
        "status": head.status,
        "reason": head.reason,
        "requeue": head.requeue,
        "message": head.message,
    }
    if head.pod_sets:
        shown["podSets"] = [
            {"name": one.name, "flavors": one.flavors, "tried": one.tried} for one in head.pod_sets
        ]
    if head.targets:
        shown["targets"] = [{"workload": t.id, "reason": t.reason} for t in head.targets]
    return shown


def _admission(one: AdmissionVerdict) -> dict[str, Any]:
    return {
        "workload": one.id,
        "clusterQueue": one.cluster_queue,
        "podSets": _pod_sets(one.pod_sets),
    }


def _holding(one: AdmittedWorkload) -> dict[str, Any]:
    return {
        "workload": one.id,
        "clusterQueue": one.cluster_queue,
        "podSets": _pod_sets(one.reservation.pod_sets),
    }


def _pod_sets(sets: tuple[PodSetAssignment, ...]) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "count": one.count,
            "flavors": one.flavors,
            "usage": {r: write_amount(r, a) for r, a in one.usage.items()},
        }
        for one in sets
    ]


def _available(node: Node) -> Usage:
    return {key: node.available(key) for key in node.nominal}


def _amounts(usage: Usage) -> dict[str, dict[str, int | str]]:
    shown: dict[str, dict[str, int | str]] = {}
    for (flavor, resource), value in usage.items():
        if value:
            shown.setdefault(flavor, {})[resource] = write_amount(resource, value)
    return shown
