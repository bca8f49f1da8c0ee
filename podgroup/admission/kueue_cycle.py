"""Processing heads as Kueue does: on a copy of the quota that is thrown away after the cycle.

Theory. A head's usage is counted for the heads after it; its victims keep their quota until the
cycle is over. A head whose victims another head has claimed is nominated anew without them. Nothing
is kept for a preemptor beyond the cycle: it is tried again in the next cycle.

Invariant: after a cycle the trees differ from before by its admissions alone.
"""

from collections.abc import Iterable, Sequence

from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.head import Head
from podgroup.admission.holding import AdmittedWorkload
from podgroup.admission.nominate import Nominator
from podgroup.admission.plan import Mode
from podgroup.admission.topology.places import Given, given
from podgroup.admission.tree import Node, Usage
from podgroup.admission.victims import has_room
from podgroup.admission.wording import (
    ASSUMED,
    DEFERRED,
    FAILED_AFTER_NOMINATION,
    NO_CANDIDATES,
    NO_FIT,
    PENDING_PREEMPTION,
    SKIPPED,
    pending_preemption,
)
from podgroup.model.names import PENDING_PREEMPTED_WORKLOADS, PENDING_WAITING_FOR_QUOTA
from podgroup.model.reasons import NO_LONGER_FITS, OVERLAP


class KueueCycle:
    """The processing of the heads of a cycle."""

    def __init__(
        self, cache: SchedulerCache, nominator: Nominator, placed: Sequence[Given] = ()
    ) -> None:
        """Begin a cycle; the places of `placed` are taken."""
        self._cache = cache
        self._nominator = nominator
        self._preempted: dict[str, AdmittedWorkload] = {}
        self._taken: list[tuple[Node, Usage]] = []
        self._placed: list[Given] = []
        for one in placed:
            self._occupy(one)

    def process(self, head: Head) -> None:
        """Decide about a head, whose usage is counted until `undo`."""
        plan = head.planned
        fits = self._fits(head)
        if any(victim.holding.id in self._preempted for victim in head.targets):
            self._without_preempted(head)
            plan = head.planned
            fits = self._fits(head)
        elif fits and not self._holds(head):
            self._nominator.nominate(head, None, _flavors(head))
            plan = head.planned
            fits = self._fits(head) and self._holds(head)
        if plan.mode is Mode.NO_FIT:
            head.rejected(plan.reason, head.message, NO_FIT)
        elif plan.mode is Mode.PREEMPT and not head.targets:
            reason = plan.reason or PENDING_WAITING_FOR_QUOTA
            head.rejected(reason, head.message, NO_CANDIDATES)
            self._reserve(head)
        elif head.deferred:
            head.rejected(PENDING_PREEMPTED_WORKLOADS, DEFERRED, PENDING_PREEMPTION)
            head.waiter.last = None
            self._count(head.node, plan.usage)
        elif any(victim.holding.id in self._preempted for victim in head.targets):
            self._skip(head, OVERLAP)
        elif not fits:
            self._skip(head, NO_LONGER_FITS)
        else:
            for victim in head.targets:
                self._preempted[victim.holding.id] = victim.holding
            self._count(head.node, plan.usage)
            self._occupy(_placed(head))
            if plan.mode is Mode.FIT:
                head.status = ASSUMED
                head.message = ""
            else:
                head.waiter.last = None
                message = pending_preemption(head.message, len(head.targets))
                head.rejected(PENDING_PREEMPTED_WORKLOADS, message, PENDING_PREEMPTION)

    def undo(self) -> None:
        """Take out everything that the cycle counted."""
        for node, usage in reversed(self._taken):
            for key, amount in usage.items():
                if amount < 0 and key not in node.unadmitted:
                    node.usage[key] -= amount
                else:
                    node.remove(key, amount)
        self._taken.clear()
        for placed in self._placed:
            self._cache.objects.places.charge(placed, -1, own_only=True)
        self._placed.clear()

    def _occupy(self, placed: Given) -> None:
        """Keep places from other heads of this cycle."""
        self._cache.objects.places.charge(placed, own_only=True)
        self._placed.append(placed)

    def _holds(self, head: Head) -> bool:
        """Tell whether a head's places are free once all victims are gone."""
        leaving = dict(self._preempted)
        leaving.update({victim.holding.id: victim.holding for victim in head.targets})
        if head.planned.mode is Mode.NO_FIT or not head.planned.places:
            return True
        self._remove(leaving.values())
        placed = _placed(head)
        free = self._cache.objects.places.free(placed, count_pods=False)
        self._restore(leaving.values())
        return free

    def _count(self, node: Node, usage: Usage) -> None:
        taken = dict(usage)
        node.take(taken)
        self._taken.append((node, taken))

    def _skip(self, head: Head, message: str) -> None:
        head.status = SKIPPED
        head.rejected(PENDING_WAITING_FOR_QUOTA, message, FAILED_AFTER_NOMINATION)

    def _fits(self, head: Head) -> bool:
        """Tell whether a head fits once all victims are gone."""
        leaving = dict(self._preempted)
        leaving.update({victim.holding.id: victim.holding for victim in head.targets})
        self._remove(leaving.values())
        fits = has_room(head.node, head.planned.usage, True)
        self._restore(leaving.values())
        return fits

    def _without_preempted(self, head: Head) -> None:
        """Nominate a head anew in its flavors, as if the victims of other heads were gone."""
        self._remove(self._preempted.values())
        self._nominator.nominate(head, None, _flavors(head), self._preempted.keys())
        self._restore(self._preempted.values())
        if head.planned.mode is Mode.FIT:
            head.deferred = True

    def _reserve(self, head: Head) -> None:
        """Keep quota and places for a waiting head that could not reclaim them later."""
        if head.offer.queue.reclaim_within_cohort == "Any":
            return
        self._count(head.node, waiting_for(head, own_only=False))
        self._occupy(_placed(head))

    def _remove(self, holdings: Iterable[AdmittedWorkload]) -> None:
        for holding in holdings:
            self._cache.objects.forest.queues[holding.cluster_queue].give(holding.usage)
            self._cache.objects.places.charge(holding.given, -1)

    def _restore(self, holdings: Iterable[AdmittedWorkload]) -> None:
        for holding in holdings:
            self._cache.objects.forest.queues[holding.cluster_queue].take(holding.usage)
            self._cache.objects.places.charge(holding.given)


def _flavors(head: Head) -> list[dict[str, str]]:
    return [
        {resource: choice.flavor for resource, choice in one.choices.items()}
        for one in head.planned.sets
    ]


def _placed(head: Head) -> Given:
    return given(head.waiter.shape.pod_sets, head.planned.assignments())


def waiting_for(head: Head, own_only: bool) -> Usage:
    """Return the quota that is kept for a head which waits and has no victims.

    The free part of its own quota; if it borrows, up to its borrowing limit, unless `own_only`.
    """
    node, plan = head.node, head.planned
    kept: Usage = {}
    for key, amount in plan.usage.items():
        own, used = node.nominal.get(key, 0), node.usage.get(key, 0)
        if plan.borrowing > 0 and not own_only:
            limit = node.borrow.get(key)
            kept[key] = amount if limit is None else min(amount, own + limit - used)
        else:
            kept[key] = max(0, min(amount, own - used))
    return kept
