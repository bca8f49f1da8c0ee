"""Rejections: a workload that did not fit answers for larger ones that wait in the same line.

Theory. A line of many sizes is many questions, and most are answered by the smallest that failed: a
workload that asks for at least as much of everything, of the same flavors and at the same priority,
cannot fit either while nothing becomes free. So once `MANY` were asked since the last release, and
each time that number has doubled, the larger ones are set aside without a look. What each of them
was told when it was asked last stands, as it does for those that equal the one that was asked.

That is a proof only where the answer hangs on what is free alone: one podset without topology, so
that no earlier podset chooses; flavors of several resource groups that go together; no evictions or
claims under way and none to come, and no pods that run unadmitted, whose quota is free to their own
workload.

Invariant: who is admitted and preempted is as if each had been asked.
"""

from itertools import combinations
from typing import Final

from podgroup.admission.cache.cached_queue import CachedQueue
from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.head import Head
from podgroup.admission.matching import contradiction
from podgroup.admission.tree import Node
from podgroup.admission.victims import NEVER
from podgroup.admission.wording import NO_CANDIDATES, NO_FIT

MANY: Final = 64
"""So many of one ClusterQueue are asked before others are answered for."""
_LEAST: Final = 8
"""So many of the smallest that failed are remembered."""


class Rejections:
    """Answers for larger ones; `many` as `MANY`."""

    def __init__(self, cache: SchedulerCache, many: int = MANY) -> None:
        self.many = many
        self._cache = cache

    def note(self, head: Head) -> None:
        """Take notice of a head that was put aside, and answer for larger ones if it is time."""
        queue = self._cache.objects.cluster_queues[head.node.name]
        if head.requeue not in (NO_FIT, NO_CANDIDATES) or head.waiter.shape not in queue.failed:
            return
        queue.asked += 1
        shape = head.waiter.shape
        if not (shape.plain and head.waiter.selected and self._is_proof(head, queue)):
            return
        if not any(one.within(shape) for one in queue.least):
            left = [one for one in queue.least if not shape.within(one)]
            queue.least = [*left[-_LEAST + 1 :], shape]
        if queue.asked >= max(self.many, 2 * queue.answered_at):
            queue.answered_at = queue.asked
            fresh = self._cache.queues.fresh
            queue.lines.set_aside_if(
                lambda other: other not in fresh and any(one.within(other) for one in queue.least)
            )

    def _is_proof(self, head: Head, queue: CachedQueue) -> bool:
        cache, node, policy = self._cache, head.node, queue.spec.preemption.within_cluster_queue
        if queue.strict or queue.lines.by_use or cache.objects.places.trees or cache.claims.by_id:
            return False
        if policy not in NEVER and (
            policy != "LowerPriority"
            or any(other.priority < head.waiter.priority for other in node.holdings.values())
        ):
            return False
        tree = [node.name] if node.parent is None else cache.objects.tree(node.name)
        return all(self._is_calm(name, node) for name in tree) and self._agree(queue)

    def _is_calm(self, name: str, own: Node) -> bool:
        """Tell whether nothing becomes free in a ClusterQueue before the next release."""
        objects = self._cache.objects
        queue, node = objects.cluster_queues[name], objects.forest.queues[name]
        preemption = queue.spec.preemption
        preempts = node is not own and preemption.within_cluster_queue not in NEVER
        reclaims = own.parent is not None and preemption.reclaim_within_cohort not in NEVER
        return not (queue.leaving or node.unadmitted or preempts or reclaims)

    def _agree(self, queue: CachedQueue) -> bool:
        """Tell whether a node can be of any two flavors of different resource groups."""
        flavors = self._cache.objects.flavors
        for one, other in combinations(queue.spec.groups, 2):
            for first in one.flavors:
                for second in other.flavors:
                    known = flavors.get(first.name), flavors.get(second.name)
                    if known[0] is None or known[1] is None or contradiction(known[0], known[1]):
                        return False
        return True
