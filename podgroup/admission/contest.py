"""Claims contested by share: with fair sharing, the first claim holder need not keep its claim.

Theory. Quota that evictions free belongs to the winner of the tournament (`order`) once they are
complete, as in Kueue, whatever the order of requests. So a head that does not fit is a challenger:
it looks for claims by which other ClusterQueues of its tree borrow, and takes over the claims of
the largest shares. Each time the challenger's side, with its request counted, must come before the
claim holder's side in the tournament. The challenger must need all quota of the claims, so nothing
is evicted in vain and a large claim holder does not lose to small challengers. A claim larger than
one of its victims is not taken over: once its holder had lost, that victim would be admitted first.

Invariant: a claim passes to a strictly smaller share, so claims do not go in a circle.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from podgroup.admission.cache.claims import Claim
from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.head import Head
from podgroup.admission.nominate import Nominator
from podgroup.admission.plan import Mode
from podgroup.admission.share import share_of, turn
from podgroup.admission.tree import Forest, Usage, sides
from podgroup.admission.victims import has_room
from podgroup.model.reasons import effect_of


class Takeover(NamedTuple):
    """How a head fits without the claims that it takes over."""

    head: Head
    claims: Sequence[Claim]


def takeover(
    cache: SchedulerCache, nominator: Nominator, head: Head, decided: Iterable[str]
) -> Takeover | None:
    """Return the claims that a head which does not fit takes over, None if it takes none.

    Claims of `decided` (ids) are of the same round: the tournament has decided about them.
    """
    plan = head.planned
    if plan.mode is Mode.FIT or head.deferred:
        return None
    if plan.mode is Mode.NO_FIT and effect_of(plan.reason).hopeless:
        return None
    contested = [
        claim
        for claim in cache.claims.beside(head.node.name)
        if claim.waiter.id not in decided and not claim.until and _is_contested(cache, claim)
    ]
    if not contested:
        return None
    other = Head(head.waiter, head.offer, head.node, head.preemptor)
    _uncount(cache.objects.forest, contested)
    with cache.objects.places.without(claim.given for claim in contested):
        nominator.nominate(other, None)
    _count(cache.objects.forest, contested)
    if other.planned.mode is Mode.FIT or other.deferred:
        lost = _claims_to_take(cache.objects.forest, other, contested)
        if lost:
            return Takeover(other, lost)
    return None


def _is_contested(cache: SchedulerCache, claim: Claim) -> bool:
    """Tell whether a claim borrows, and is larger than none of its victims."""
    if cache.objects.forest.queues[claim.queue].within(claim.usage):
        return False
    kept = _by_resource(claim.usage)
    asked = (_asked_by(cache, victim) for victim in claim.victims)
    return all(one.get(key, 0) >= amount for one in asked if one for key, amount in kept.items())


def _asked_by(cache: SchedulerCache, id: str) -> Mapping[str, int]:
    """Return how much of each resource a workload holds or requests; {} if it is gone."""
    if (holding := cache.reservations.admitted.get(id)) is not None:
        return _by_resource(holding.usage)
    waiter = cache.queues.waiting.get(id)
    return waiter.shape.total(True) if waiter is not None else {}


def _by_resource(usage: Usage) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for (_, resource), amount in usage.items():
        found[resource] = found.get(resource, 0) + amount
    return found


def _claims_to_take(forest: Forest, head: Head, contested: Iterable[Claim]) -> list[Claim]:
    """Return claims whose end makes a challenger fit; none if that takes more than it needs."""
    needed = dict(head.planned.usage)
    left = {claim.waiter.uid: claim for claim in contested}
    lost: list[Claim] = []
    while not has_room(head.node, head.planned.usage, True):
        claim = _largest(forest, head, left.values())
        if claim is None or any(v > needed.get(key, 0) for key, v in claim.usage.items()):
            _count(forest, lost)
            return []
        del left[claim.waiter.uid]
        _uncount(forest, [claim])
        lost.append(claim)
        for key, amount in claim.usage.items():
            needed[key] = needed.get(key, 0) - amount
    _count(forest, lost)
    return lost


def _largest(forest: Forest, head: Head, contested: Iterable[Claim]) -> Claim | None:
    """Return the claim that a challenger goes before: of the largest share, then by uid."""
    asked = head.planned.usage
    head.node.take(asked)
    found = []
    for claim in contested:
        ours, theirs = sides(head.node, forest.queues[claim.queue])
        now = turn(share_of(theirs), claim.usage)
        if turn(share_of(ours), asked) < now:
            found.append((now, claim.waiter.uid, claim))
    head.node.give(asked)
    return max(found, key=lambda one: one[:2])[2] if found else None


def _uncount(forest: Forest, claims: Iterable[Claim]) -> None:
    for claim in claims:
        forest.queues[claim.queue].give(claim.usage)


def _count(forest: Forest, claims: Iterable[Claim]) -> None:
    for claim in claims:
        forest.queues[claim.queue].take(claim.usage)
