"""Quotas: who holds how much of which ClusterQueue, and who waits in what order.

Theory. An index for builtin admission, kept by difference: usage per (flavor, resource), the
groups that hold it, and the pending groups of each ClusterQueue in queue order: higher priority
first, then earlier queue time, then group id. A ClusterQueue is *dirty* when capacity may have
appeared (every pending group is worth another look) and has *fresh* groups when only those are.

Invariant: `usage` is the sum of `charges`, and a pending group is charged for nothing but pods
that run without ever having been gated.
"""

import bisect
from collections import Counter
from datetime import datetime

from msgspec import Struct, field

FlavorResource = tuple[str, str]
OrderKey = tuple[int, datetime, str]


class Charge(Struct, frozen=True, gc=False):
    """Quota charged to one group, with what preemption orders by."""

    cluster_queue: str
    usage: dict[FlavorResource, int]
    priority: int
    at: datetime


class Quotas(Struct):
    """Usage and pending order of all ClusterQueues."""

    usage: dict[str, Counter[FlavorResource]] = field(default_factory=dict)
    charges: dict[str, Charge] = field(default_factory=dict)
    holders: dict[str, dict[str, None]] = field(default_factory=dict)
    pending: dict[str, list[OrderKey]] = field(default_factory=dict)
    places: dict[str, tuple[str, OrderKey]] = field(default_factory=dict)
    dirty: dict[str, None] = field(default_factory=dict)
    fresh: dict[str, dict[str, None]] = field(default_factory=dict)
    preemptors: dict[str, dict[str, None]] = field(default_factory=dict)
    """ClusterQueue -> groups that wait for their own preemptions: first in line until they fit."""
    left: dict[str, None] = field(default_factory=dict)
    """ClusterQueues that a pending group left, which may have been in the way of others."""

    def enqueue(self, group: str, cluster_queue: str, priority: int, queued_at: datetime) -> None:
        """Make `group` pending; a changed place or queue moves it."""
        place = (cluster_queue, (-priority, queued_at, group))
        if self.places.get(group) == place:
            return
        self.dequeue(group)
        self.places[group] = place
        bisect.insort(self.pending.setdefault(cluster_queue, []), place[1])
        self.fresh.setdefault(cluster_queue, {})[group] = None

    def dequeue(self, group: str) -> None:
        """Take `group` out of the pending order, if it is in it."""
        place = self.places.pop(group, None)
        if place is None:
            return
        queue, key = place
        keys = self.pending[queue]
        del keys[bisect.bisect_left(keys, key)]
        self.fresh.get(queue, {}).pop(group, None)
        self.left[queue] = None
        if group in self.preemptors.get(queue, ()):
            del self.preemptors[queue][group]
            self.dirty[queue] = None

    def charge(self, group: str, charge: Charge) -> None:
        """Charge quota to `group`, in place of what it was charged before."""
        old = self.charges.get(group)
        if old == charge:
            return
        queue = charge.cluster_queue
        if old is not None:
            self._add(old, -1)
            self.dirty[old.cluster_queue] = None
            if old.cluster_queue != queue:
                del self.holders[old.cluster_queue][group]
        self.charges[group] = charge
        self._add(charge, 1)
        self.holders.setdefault(queue, {})[group] = None

    def discharge(self, group: str) -> None:
        """Give back what `group` was charged."""
        old = self.charges.pop(group, None)
        if old is None:
            return
        self._add(old, -1)
        del self.holders[old.cluster_queue][group]
        self.dirty[old.cluster_queue] = None

    def _add(self, charge: Charge, sign: int) -> None:
        usage = self.usage.setdefault(charge.cluster_queue, Counter())
        for flavor_resource, amount in charge.usage.items():
            total = usage.get(flavor_resource, 0) + sign * amount
            if total:
                usage[flavor_resource] = total
            else:
                usage.pop(flavor_resource, None)
