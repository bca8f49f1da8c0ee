"""Processing heads so that no quota is freed in vain: a decision counts at once, and stays.

Theory. Decisions are made on the trees as they will be when every eviction under way is complete.
A head that fits there and now is admitted. A head that fits there but not yet now gets a *claim*:
its quota is counted as used, no other workload gets it, and the claim holder is admitted as soon as
the evictions have made room. A head that must preempt gets a claim too, and its victims are tried
again only after it is admitted. So an eviction always serves its preemptor, and no two preemptors
count on the same quota.

With fair sharing a claim may still pass to a smaller share (`contest`). Its evicted victims go on
waiting for the loser, until that is admitted or has been tried after the winner.

Where the victims' least run time is not over, the preemption is postponed: the claim is kept until
then, and may still go to a head that comes before it (`postponing`).

A head that was nominated before others took quota is nominated again if its plan may have changed.

Invariant: an admission fits the quota that is really free at that moment.
"""

from podgroup.admission.cache.claims import Claim
from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.contest import takeover
from podgroup.admission.head import Head
from podgroup.admission.nominate import Nominator
from podgroup.admission.plan import Mode
from podgroup.admission.postponing import postpone
from podgroup.admission.reclaimers import Reclaimers
from podgroup.admission.topology.places import given
from podgroup.admission.tree import Node
from podgroup.admission.victims import has_room
from podgroup.admission.wording import (
    ASSUMED,
    EVICTIONS_UNDER_WAY,
    NO_CANDIDATES,
    NO_FIT,
    PENDING_LEAST_RUN,
    PENDING_PREEMPTION,
    lender_waits,
    pending_preemption,
    postponed,
)
from podgroup.model.names import (
    PENDING_LEAST_RUN_TIME,
    PENDING_PREEMPTED_WORKLOADS,
    PENDING_WAITING_FOR_QUOTA,
)


class ReservingCycle:
    """The processing of the heads of a round."""

    def __init__(self, cache: SchedulerCache, nominator: Nominator, reclaimers: Reclaimers) -> None:
        self._cache = cache
        self._nominator = nominator
        self._reclaimers = reclaimers
        self._touched: set[Node] = set()
        self._decided: set[str] = set()
        self.interrupted = False
        """Claims ended for a head: the rest of the round's heads are tried in the next round."""

    def process(self, head: Head) -> None:
        """Decide about a head. The caller enters preemptions and admissions."""
        # Trees of quota may share nodes.
        near = head.node.root in self._touched or (self._touched and head.planned.places)
        if near and not self._still_fits(head):
            self._nominator.nominate(head, None)
        if self._cache.configuration.fair_sharing:
            self._take_over(head)
            self._decided.add(head.waiter.id)
        if self._nominator.spares:
            self.interrupted |= postpone(self._cache, self._nominator, head)
        plan = head.planned
        if plan.mode is Mode.NO_FIT:
            head.rejected(plan.reason, head.message, NO_FIT)
        elif self._gives_way(head):
            return
        elif head.until:
            self._postpone(head)
        elif plan.mode is Mode.FIT:
            head.status = ASSUMED
            head.message = ""
            self._touched.add(head.node.root)
        elif head.deferred or head.targets:
            message = EVICTIONS_UNDER_WAY
            if head.targets:
                message = pending_preemption(head.message, len(head.targets))
            head.rejected(PENDING_PREEMPTED_WORKLOADS, message, PENDING_PREEMPTION)
            self._touched.add(head.node.root)
        else:
            reason = plan.reason or PENDING_WAITING_FOR_QUOTA
            head.rejected(reason, head.message, NO_CANDIDATES)

    def _postpone(self, head: Head) -> None:
        over_at = self._cache.objects.least_run.over_at
        last = [
            one.holding.id for one in head.targets if over_at(one.holding, one.reason) == head.until
        ]
        head.waits_for = min(last, default="")
        message = postponed(head.message, len(head.targets), head.until)
        claims = PENDING_LEAST_RUN if head.targets else NO_CANDIDATES
        head.rejected(PENDING_LEAST_RUN_TIME, message, claims)
        if head.targets:
            self._touched.add(head.node.root)

    def _gives_way(self, head: Head) -> bool:
        """Tell whether a head gives way to a waiting workload that would reclaim its quota."""
        if head.planned.mode is Mode.FIT or head.deferred or not head.targets:
            return False
        lender = self._reclaimers.of_head(head)
        if lender is None:
            return False
        name = self._cache.objects.local_queues[lender.local_queue].cluster_queue
        head.rejected(PENDING_WAITING_FOR_QUOTA, lender_waits(name), NO_CANDIDATES)
        head.until = 0.0
        self._reclaimers.give_way(head.node.name, lender)
        return True

    def _still_fits(self, head: Head) -> bool:
        if head.planned.mode is not Mode.FIT or self._nominator.starts.concern(head):
            return False
        present = self._cache.objects.present.queues[head.node.name]
        usage = head.planned.usage
        placed = given(head.waiter.shape.pod_sets, head.planned.assignments())
        free = self._cache.objects.places.free(placed, count_pods=True)
        return free and has_room(head.node, usage, True) and has_room(present, usage, True)

    def _take_over(self, head: Head) -> None:
        """Let a head take over claims of others, where it comes before them by its share."""
        found = takeover(self._cache, self._nominator, head, self._decided)
        if found is None:
            return
        other = found.head
        head.plan, head.message = other.plan, other.message
        head.targets, head.deferred = [], other.deferred
        for claim in found.claims:
            self._cache.claims.pass_on(claim, head.waiter.id)
            self._cache.queues.place(claim.waiter)
        self._touched.add(head.node.root)


def claim_of(head: Head) -> Claim:
    """Return the claim of a head until evictions are complete."""
    plan = head.planned
    claim = Claim(
        head.waiter,
        head.node.name,
        plan.assignments(),
        plan.usage,
        plan.borrowing,
        [victim.holding.id for victim in head.targets],
    )
    claim.until = head.until
    return claim
