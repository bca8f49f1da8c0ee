"""Postponed preemptions: the victims' least run time is not over yet.

Theory. The head waits until it is over, and has its claim already: otherwise the quota that is free
for it would go to workloads that have just begun to run when its time comes. No victim was evicted
for a postponed claim, so it can end without loss. No other claim depends on it: a head that fits
only once the victims of postponed claims are gone waits for that, without a claim. A postponed
claim is decided anew at its time, and whenever quota becomes free in its tree. A head that comes
before postponed claims is nominated without them, too, and ends the claims if it fits sooner then.
The round stops there, so that workloads that lose a claim are tried before all later ones.

Of two workloads each ends a claim of the other once in a pass at most.

Invariant: without postponed claims, all admissions and all other claims fit.
"""

from collections.abc import Sequence

from podgroup.admission import order
from podgroup.admission.cache.claims import Claim
from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.head import Head
from podgroup.admission.holding import PendingWorkload
from podgroup.admission.nominate import Nominator
from podgroup.admission.plan import Mode
from podgroup.admission.share import share_of, turn
from podgroup.admission.topology.places import given
from podgroup.admission.tree import Node, Usage, sides
from podgroup.admission.victims import has_room
from podgroup.model.reasons import effect_of

_NEVER = float("inf")


def postpone(cache: SchedulerCache, nominator: Nominator, head: Head) -> bool:
    """Find until when a head waits for least run times; tell whether claims ended for it.

    `head.until` is 0 where it waits for none: it fits, it has victims now, or it never has any.
    """
    plan = head.planned
    if plan.mode is Mode.NO_FIT and effect_of(plan.reason).hopeless:
        return False
    claims = cache.claims.postponed_beside(head.node.name)
    if _ready_at(head) == _NEVER:
        nominator.nominate(head, None, later=True)
    _rest(cache, head, claims)
    overtaken = cache.claims.overtaken
    behind = []
    if claims and _ready_at(head):
        with cache.claims.without(claims):
            behind = [one for one in claims if _before(cache, head, one)]
        behind = [one for one in behind if _pair(head, one) not in overtaken]
    if not behind:
        return False
    other = Head(head.waiter, head.offer, head.node, head.preemptor)
    with cache.claims.without(behind):
        nominator.nominate(other, None, later=True)
        _rest(cache, other, [one for one in claims if one not in behind])
    if _ready_at(other) >= _ready_at(head):
        return False
    head.plan, head.message = other.plan, other.message
    head.targets, head.deferred, head.until = other.targets, other.deferred, other.until
    for claim in behind:
        overtaken.add(_pair(head, claim))
        cache.claims.end(claim.waiter.id)
        cache.queues.place(claim.waiter)
    return True


def _pair(head: Head, claim: Claim) -> frozenset[str]:
    return frozenset((head.waiter.id, claim.waiter.id))


def _ready_at(head: Head) -> float:
    """Return from when on a head fits, or its victims may be evicted; 0: now."""
    fits = head.planned.mode is Mode.FIT or head.deferred or head.targets
    return head.until or (0.0 if fits else _NEVER)


def _rest(cache: SchedulerCache, head: Head, claims: Sequence[Claim]) -> None:
    """Let a head wait until the last of some claims is due, if it fits only after them."""
    if not claims or _ready_at(head) != 0.0:
        return
    forest, places = cache.objects.forest, cache.objects.places
    placed = given(head.waiter.shape.pod_sets, head.planned.assignments())
    gone = [one.holding for one in head.targets]
    with cache.claims.without(claims):
        for one in gone:
            forest.queues[one.cluster_queue].give(one.usage)
        room = has_room(head.node, head.planned.usage, True)
        if room and placed:
            with cache.reservations.without_leaving(), places.without(one.given for one in gone):
                room = places.free(placed, count_pods=True)
        for one in gone:
            forest.queues[one.cluster_queue].take(one.usage)
    if not room:
        head.until = max(claim.until for claim in claims)
        head.targets, head.deferred = [], False


def _before(cache: SchedulerCache, head: Head, claim: Claim) -> bool:
    """Tell whether a head comes before a claim holder; postponed claims are not counted.

    So the answer depends on both requests, and not on which of the two has the claim.
    """
    queues = cache.objects.forest.queues
    if claim.queue == head.node.name:
        queue = cache.objects.cluster_queues[claim.queue]
        return cache.queues.before(queue, head.waiter, claim.waiter)
    ours, theirs = head.planned.usage, claim.usage
    other = queues[claim.queue]
    if not cache.configuration.fair_sharing:
        first = order.rank(_beyond_own(head.node, ours, head.waiter), head.waiter)
        return first < order.rank(_beyond_own(other, theirs, claim.waiter), claim.waiter)
    head.node.take(ours)
    other.take(theirs)
    side, beside = sides(head.node, other)
    before = turn(share_of(side), ours) < turn(share_of(beside), theirs)
    other.give(theirs)
    head.node.give(ours)
    return before


def _beyond_own(node: Node, usage: Usage, waiter: PendingWorkload) -> int:
    """Return 1 if a workload requests more than its ClusterQueue's own quota, else 0.

    Counted beside it are holders of the ClusterQueue that do not give way to its priority.
    """
    staying = [one for one in node.holdings.values() if one.priority >= waiter.priority]
    return int(
        any(
            amount + sum(one.usage.get(key, 0) for one in staying) > node.nominal.get(key, 0)
            for key, amount in usage.items()
        )
    )
