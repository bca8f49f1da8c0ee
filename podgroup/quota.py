"""Quotas: who holds how much of which ClusterQueue, who waits for some, and what of that is news.

Theory. An index kept by difference: usage per (flavor, resource), the groups that are charged for
it, and those that wait. Who of them is next is none of its business: what decides that remembers
more (`decide.lineup`) and is told here what it has to look at again, so that nothing is worked out
anew for the sake of one event.

Invariant: `usage` is the sum of `charges`, and a waiting group is charged for nothing but pods
that run without ever having been gated.
"""

from collections import Counter
from datetime import datetime

from msgspec import Struct, field

FlavorResource = tuple[str, str]


class Charge(Struct, frozen=True, gc=False):
    """Quota charged to one group, with what preemption orders by."""

    cluster_queue: str
    usage: dict[FlavorResource, int]
    priority: int
    at: datetime


class Quotas(Struct):
    """Usage of all ClusterQueues, and who waits."""

    usage: dict[str, Counter[FlavorResource]] = field(default_factory=dict)
    charges: dict[str, Charge] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    news: dict[str, None] = field(default_factory=dict)
    """Groups of which something may have changed that admission asks for."""
    objects: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """(kind, namespace, name) of objects of which the same is true."""

    def enqueue(self, group: str) -> None:
        """Let `group` wait, or have what it asks for looked at again."""
        self.waiting[group] = None
        self.news[group] = None

    def dequeue(self, group: str) -> None:
        """Let `group` wait no longer, if it does."""
        if group in self.waiting:
            del self.waiting[group]
            self.news[group] = None

    def recall(self) -> None:
        """Have everybody looked at again who waits."""
        self.news.update(self.waiting)

    def told(self) -> None:
        """Nothing is news any more."""
        self.news.clear()
        self.objects.clear()

    def charge(self, group: str, charge: Charge) -> None:
        """Charge quota to `group`, in place of what it was charged before."""
        old = self.charges.get(group)
        if old == charge:
            return
        if old is not None:
            self._add(old, -1)
        self.charges[group] = charge
        self._add(charge, 1)
        self.news[group] = None

    def discharge(self, group: str) -> None:
        """Give back what `group` was charged."""
        old = self.charges.pop(group, None)
        if old is not None:
            self._add(old, -1)
            self.news[group] = None

    def _add(self, charge: Charge, sign: int) -> None:
        usage = self.usage.setdefault(charge.cluster_queue, Counter())
        for flavor_resource, amount in charge.usage.items():
            total = usage.get(flavor_resource, 0) + sign * amount
            if total:
                usage[flavor_resource] = total
            else:
                usage.pop(flavor_resource, None)
