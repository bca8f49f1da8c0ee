"""How far above its share a queue or cohort ends while another one waits for its own.

Theory. At each cohort its children are compared: what a child would have with the first request
that waits in it counted is what it may ask for. A child that has more than the least of what its
siblings ask for is *above its share* by the difference. The sum over a tree is its excess, in
thousandths of what could be lent, by weight, as shares are (`podgroup.admission.share`).

Invariant: the trees are the same afterwards as before.
"""

from collections.abc import Iterator

from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.holding import PendingWorkload
from podgroup.admission.share import INFINITE, share_of
from podgroup.admission.tree import Node, Usage
from podgroup.model.reasons import effect_of


def excess(cache: SchedulerCache) -> float:
    """Return by how much in all the queues and cohorts of a cache are above their shares."""
    asked: dict[Node, dict[Node, float]] = {}
    for node, usage in _asking(cache):
        node.take(usage)
        child = node
        for cohort in node.path():
            value = share_of(child).value
            least = asked.setdefault(cohort, {})
            least[child] = min(value, least.get(child, INFINITE))
            child = cohort
        node.give(usage)
    total = 0.0
    for cohort, shares in asked.items():
        for child in (*cohort.queues, *cohort.cohorts):
            others = [value for other, value in shares.items() if other is not child]
            here = share_of(child).value
            if others and here != INFINITE:
                total += max(0.0, here - min(others))
    return total


def _asking(cache: SchedulerCache) -> Iterator[tuple[Node, Usage]]:
    """Yield per ClusterQueue what the first one asks for that waits, in the first flavors."""
    for name in cache.objects.cluster_queues:
        node = cache.objects.present.queues[name]
        waiting = [
            waiter for waiter in cache.queues.line(name) if not effect_of(waiter.reason).hopeless
        ]
        if node.active and node.parent is not None and waiting:
            yield node, _usage(cache, name, waiting[0])


def _usage(cache: SchedulerCache, name: str, waiter: PendingWorkload) -> Usage:
    flavors = {
        resource: group.flavors[0].name
        for group in cache.objects.cluster_queues[name].spec.groups
        for resource in group.covered
    }
    usage: Usage = {}
    for requests in waiter.shape.requests(True):
        for resource, amount in requests.items():
            if resource in flavors:
                key = flavors[resource], resource
                usage[key] = usage.get(key, 0) + amount
    return usage
