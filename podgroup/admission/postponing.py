"""Postponed preemptions: those who would give way have not run for their least time yet.

Theory. The head waits until they have, with the claim that it would have had: what else is free for
it goes to no other meanwhile, or there would be others at that moment that have just begun to run.
Nothing was evicted for such a claim, so nothing is lost when it is given up, and nothing else rests
on it: who has room only once its victims are gone waits as well. It is decided anew at its moment,
and whenever something becomes free in its tree. A head that comes before it takes part in that:
claims behind it are lifted, and end where the head gets more, or sooner, without them. The round
stops there, so that those who lose a claim are tried before all that come after them.

Invariant: a postponed claim ends for a head that comes before it only, so claims do not go in a
circle; without such claims, all that is admitted and all other claims fit.
"""

from collections.abc import Sequence

from podgroup.admission import order
from podgroup.admission.cache.claims import Claim
from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.head import Head
from podgroup.admission.nominate import Nominator
from podgroup.admission.plan import Mode
from podgroup.admission.share import share_of, turn
from podgroup.admission.topology.places import given
from podgroup.admission.tree import sides
from podgroup.admission.victims import has_room
from podgroup.model.reasons import effect_of

_NEVER = float("inf")


def postpone(cache: SchedulerCache, nominator: Nominator, head: Head) -> bool:
    """Find until when a head waits for others to run; tell whether claims ended for it.

    `head.until` is 0 where it waits for none: it fits, others give way now, or none ever will.
    """
    plan = head.planned
    if plan.mode is Mode.NO_FIT and effect_of(plan.reason).hopeless:
        return False
    claims = cache.claims.postponed_beside(head.node.name)
    if _ready_at(head) == _NEVER:
        nominator.nominate(head, None, later=True)
    _rest(cache, head, claims)
    behind = [one for one in claims if _before(cache, head, one)] if _ready_at(head) else []
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
        cache.claims.end(claim.waiter.id)
        cache.queues.place(claim.waiter)
    return True


def _ready_at(head: Head) -> float:
    """Return from when on a head fits, or others may be evicted for it; 0: now."""
    fits = head.planned.mode is Mode.FIT or head.deferred or head.targets
    return head.until if fits else _NEVER


def _rest(cache: SchedulerCache, head: Head, claims: Sequence[Claim]) -> None:
    """Let a head wait until the last of some claims is due, if it has no room without them."""
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


def _before(cache: SchedulerCache, head: Head, claim: Claim) -> bool:
    """Tell whether a head comes before who has a claim."""
    waiter, objects = head.waiter, cache.objects
    if claim.queue == head.node.name:
        queue = objects.cluster_queues[claim.queue]
        return cache.queues.before(queue, waiter, claim.waiter)
    borrowing = head.planned.borrowing
    if not cache.configuration.fair_sharing:
        return order.rank(borrowing, waiter) < order.rank(claim.borrowing, claim.waiter)
    asked = head.planned.usage
    head.node.take(asked)
    ours, theirs = sides(head.node, objects.forest.queues[claim.queue])
    first = turn(share_of(ours), asked) < turn(share_of(theirs), claim.usage)
    head.node.give(asked)
    return first
