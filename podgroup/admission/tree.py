"""The quota tree: what each ClusterQueue and Cohort has, lends, borrows and uses.

Theory. Every node has a *subtree quota*: its own nominal quota and what its children lend up. The
part that a lending limit keeps is *local*: the parent never sees it. Usage fills the local part
first; what exceeds it goes up to the parent, and so on. *Available* to a node is the rest of its
local part and what the parent has for it, at most the borrowing limit above its own quota.
Pods that run in a ClusterQueue without having been admitted fill up its own quota beside its
admissions, and never borrow: usage beyond the own quota keeps this ClusterQueue from admitting, and
takes nothing from others.
The *potential* of a ClusterQueue is what it may ever get: what is available with nothing used.
Limits of a root are never looked at. (Kueue: pkg/cache/scheduler/resource_node.go.)

A Cohort that is only referred to exists without quota. Cohorts with more than `MOST_ABOVE` others
above them, and so all whose way up is a circle, have no parent here, and the ClusterQueues below
them are not active: so a way up or down a tree has few steps. A ClusterQueue that is not active
takes part with quota and usage, but does not count as a child of its cohort.

Invariant: `remove` undoes `add`, in whatever order several of them are done; usage of a node is
what its children's exceeding usage and its own workloads add up to.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from podgroup.admission.amounts import bounded
from podgroup.admission.model import FlavorResource
from podgroup.model.names import MOST_ABOVE
from podgroup.model.objects import WHOLE, ClusterQueueView, CohortView, Quota, ResourceGroup

if TYPE_CHECKING:
    from podgroup.admission.holding import AdmittedWorkload

Usage = dict[FlavorResource, int]
_NONE = Quota(nominal=0)


class Node:
    """A ClusterQueue or a Cohort. Written by `Forest` alone, except `holdings`."""

    __slots__ = (
        "active",
        "admitted",
        "borrow",
        "cohorts",
        "height",
        "holdings",
        "keepers",
        "lendable",
        "local",
        "name",
        "nominal",
        "parent",
        "potential",
        "queue",
        "queues",
        "root",
        "subtree",
        "unadmitted",
        "usage",
        "weight",
    )

    def __init__(self, name: str, queue: bool, weight: Fraction = Fraction(1)) -> None:
        self.name = name
        self.queue = queue
        self.weight = weight
        self.active = True
        self.parent: Node | None = None
        self.root: Node = self
        self.cohorts: list[Node] = []
        self.queues: list[Node] = []
        """Active ClusterQueues only."""
        self.nominal: Usage = {}
        self.borrow: Usage = {}
        self.local: Usage = {}
        self.subtree: Usage = {}
        self.potential: Usage = {}
        self.usage: Usage = {}
        self.unadmitted: Usage = {}
        """Of a ClusterQueue: usage of all pods that run in it without having been admitted."""
        self.admitted: Usage = {}
        """Usage of admissions, for the flavors and resources of `unadmitted`."""
        self.height = 0
        self.lendable: dict[str, int] = {}
        """Resource -> the amount that this node could lend to a child; `Forest` writes it."""
        self.keepers: dict[FlavorResource, list[Node]] = {}
        """Of a root: nodes of its tree that keep quota from others; `Forest` writes it."""
        self.holdings: dict[str, AdmittedWorkload] = {}
        """Of a ClusterQueue: workloads that hold quota in it and may become victims."""

    def path(self) -> Iterator["Node"]:
        """Yield the cohorts above, the root last."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def spare(self, key: FlavorResource) -> int:
        """Return the rest of the local part."""
        return max(0, self.local.get(key, 0) - self.usage.get(key, 0))

    def available(self, key: FlavorResource) -> int:
        """Return the available amount; 0 where quota is exceeded."""
        return max(0, self.room(key))

    def room(self, key: FlavorResource) -> int:
        """Return the available amount, below 0 where quota is exceeded."""
        used = self.usage.get(key, 0)
        if self.parent is None:
            return self.subtree.get(key, 0) - used - self.overrun(key)
        above = self.parent.room(key)
        local = self.local.get(key, 0)
        limit = self.borrow.get(key)
        if limit is not None:
            above = min(above, self.subtree.get(key, 0) - local - max(0, used - local) + limit)
        own = max(0, local - used) - (self.overrun(key) if self.unadmitted else 0)
        return own + above

    def overrun(self, key: FlavorResource) -> int:
        """Return the unadmitted usage beyond the own quota, which costs others nothing."""
        runs = self.unadmitted.get(key)
        return self.admitted[key] + runs - self.usage.get(key, 0) if runs else 0

    def bottleneck(self, key: FlavorResource) -> "Node":
        """Return the node that ends the search for quota: by its borrowing limit, or the root."""
        if self.parent is None:
            return self
        local = self.local.get(key, 0)
        limit = self.borrow.get(key)
        if limit is not None:
            above = self.subtree.get(key, 0) - local - max(0, self.usage.get(key, 0) - local)
            if above + limit < self.parent.room(key):
                return self
        return self.parent.bottleneck(key)

    def ceiling(self, key: FlavorResource) -> "Node":
        """Return the node that limits the potential: by its borrowing limit, or the root."""
        if self.parent is None:
            return self
        most = self.local.get(key, 0) + self.parent.potential.get(key, 0)
        limit = self.borrow.get(key)
        if limit is not None and self.subtree.get(key, 0) + limit < most:
            return self
        return self.parent.ceiling(key)

    def unlimited(self, key: FlavorResource, *, empty: bool = False) -> int:
        """Return what would be available without borrowing limits; `empty`: with nothing used."""
        if self.parent is None:
            used = 0 if empty else self.usage.get(key, 0) + self.overrun(key)
            return self.subtree.get(key, 0) - used
        own = self.local.get(key, 0) if empty else self.spare(key) - self.overrun(key)
        return own + self.parent.unlimited(key, empty=empty)

    def borrows(self, key: FlavorResource, more: int = 0) -> bool:
        """Tell whether usage, with `more`, is above the node's own quota."""
        return self.subtree.get(key, 0) < self.usage.get(key, 0) + more

    def within(self, keys: Iterable[FlavorResource]) -> bool:
        """Tell whether none of `keys` is borrowed."""
        return not any(self.borrows(key) for key in keys)

    def add(self, key: FlavorResource, amount: int) -> None:
        """Take an amount, from the parent where the local part is used up."""
        if key in self.unadmitted:
            self.admitted[key] += amount
            self._level(key)
        else:
            self._add(key, amount)

    def remove(self, key: FlavorResource, amount: int) -> None:
        """Give an amount back."""
        if key in self.unadmitted:
            self.add(key, -amount)
        else:
            self._remove(key, amount)

    def run(self, usage: Mapping[FlavorResource, int], sign: int = 1) -> None:
        """Enter further usage of pods that run without having been admitted, or less."""
        for key, amount in usage.items():
            if key not in self.unadmitted:
                self.unadmitted[key], self.admitted[key] = 0, self.usage.get(key, 0)
            self.unadmitted[key] += sign * amount
            self._level(key)
            if not self.unadmitted[key]:
                del self.unadmitted[key], self.admitted[key]

    def _level(self, key: FlavorResource) -> None:
        """Set usage to that of admissions, and of unadmitted pods within the own quota."""
        admitted = self.admitted[key]
        own = min(admitted + self.unadmitted[key], self.subtree.get(key, 0))
        more = max(admitted, own) - self.usage.get(key, 0)
        if more > 0:
            self._add(key, more)
        elif more:
            self._remove(key, -more)

    def _add(self, key: FlavorResource, amount: int) -> None:
        node: Node | None = self
        while node is not None:
            spare = node.spare(key)
            node.usage[key] = node.usage.get(key, 0) + amount
            if amount <= spare:
                return
            amount -= spare
            node = node.parent

    def _remove(self, key: FlavorResource, amount: int) -> None:
        node: Node | None = self
        while node is not None:
            above = node.usage.get(key, 0) - node.local.get(key, 0)
            node.usage[key] = node.usage.get(key, 0) - amount
            if above <= 0:
                return
            amount = min(amount, above)
            node = node.parent

    def take(self, usage: Mapping[FlavorResource, int]) -> None:
        """Add all of `usage`."""
        for key, amount in usage.items():
            self.add(key, amount)

    def give(self, usage: Mapping[FlavorResource, int]) -> None:
        """Remove all of `usage`."""
        for key, amount in usage.items():
            self.remove(key, amount)

    def fits(self, usage: Mapping[FlavorResource, int]) -> bool:
        """Tell whether all of `usage` is available."""
        return all(amount <= self.available(key) for key, amount in usage.items())


class Forest:
    """All trees of quota. Built anew when a ClusterQueue, its `active` or a Cohort changes."""

    def __init__(
        self,
        queues: Iterable[ClusterQueueView],
        cohorts: Iterable[CohortView],
        inactive: Iterable[str] = (),
    ) -> None:
        self.queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}
        stopped = set(inactive)
        parents: dict[str, str] = {}
        for cohort in sorted(cohorts, key=lambda c: c.name):
            node = self._cohort(cohort.name)
            node.weight = Fraction(cohort.weight_nano, WHOLE)
            _quotas(node, cohort.groups)
            if cohort.parent:
                parents[cohort.name] = cohort.parent
        for parent in parents.values():
            self._cohort(parent)
        broken = {name for name in self.cohorts if _without_root(name, parents)}
        for name in parents.keys() - broken:
            self.cohorts[name].parent = self.cohorts[parents[name]]
        for queue in sorted(queues, key=lambda q: q.name):
            node = Node(queue.name, True, Fraction(queue.weight_nano, WHOLE))
            self.queues[queue.name] = node
            _quotas(node, queue.groups)
            node.active = queue.name not in stopped and queue.cohort not in broken
            if queue.cohort:
                node.parent = self._cohort(queue.cohort)
        everyone = [*self.cohorts.values(), *self.queues.values()]
        for name in sorted(self.cohorts):
            above_it = self.cohorts[name].parent
            if above_it is not None:
                above_it.cohorts.append(self.cohorts[name])
        under: dict[str, list[Node]] = {name: [] for name in self.cohorts}
        for node in self.queues.values():
            if node.parent is not None:
                under[node.parent.name].append(node)
                if node.active:
                    node.parent.queues.append(node)
        for node in everyone:
            if node.parent is None:
                _sum_up(node, under)
                _pass_down(node, node, under)
                _lendable(node)
        for node in everyone:
            for key, amount in node.local.items():
                if amount and node.parent is not None:
                    node.root.keepers.setdefault(key, []).append(node)

    def path_text(self, queue: str) -> str:
        """Write the way from the root to a ClusterQueue."""
        node = self.queues[queue]
        above = [cohort.name for cohort in node.path()]
        return "/" + "/".join([*reversed(above), queue])

    def _cohort(self, name: str) -> Node:
        node = self.cohorts.get(name)
        if node is None:
            node = self.cohorts[name] = Node(name, False)
        return node


def _quotas(node: Node, groups: Iterable[ResourceGroup]) -> None:
    for group in groups:
        for flavor in group.flavors:
            for resource in group.covered:
                quota = flavor.resources.get(resource, _NONE)
                key = (flavor.name, resource)
                node.nominal[key] = bounded(quota.nominal)
                if quota.borrowing_limit is not None:
                    node.borrow[key] = bounded(quota.borrowing_limit)
                if quota.lending_limit is not None:
                    node.local[key] = bounded(quota.lending_limit)  # the limit, until summed up


def _without_root(name: str, parents: Mapping[str, str]) -> bool:
    """Tell whether more than `MOST_ABOVE` cohorts are above a Cohort, as in a circle."""
    for _ in range(MOST_ABOVE + 1):
        if name not in parents:
            return False
        name = parents[name]
    return True


def _sum_up(node: Node, under: Mapping[str, list[Node]]) -> None:
    node.subtree = dict(node.nominal)
    if not node.queue:
        for child in [*node.cohorts, *under[node.name]]:
            _sum_up(child, under)
            for key, amount in child.subtree.items():
                lent = amount - child.local.get(key, 0)
                node.subtree[key] = node.subtree.get(key, 0) + lent
        if node.cohorts or node.queues:
            node.height = max([1, *(1 + child.height for child in node.cohorts)])
    limits = node.local
    node.local = {key: max(0, node.subtree.get(key, 0) - limit) for key, limit in limits.items()}


def _pass_down(node: Node, root: Node, under: Mapping[str, list[Node]]) -> None:
    node.root = root
    if node.parent is None:
        node.potential = dict(node.subtree)
    else:
        node.potential = {}
        for key in {**node.parent.potential, **node.subtree}:
            most = node.local.get(key, 0) + node.parent.potential.get(key, 0)
            limit = node.borrow.get(key)
            if limit is not None:
                most = min(most, node.subtree.get(key, 0) + limit)
            node.potential[key] = most
    if not node.queue:
        for child in [*node.cohorts, *under[node.name]]:
            _pass_down(child, root, under)


def _lendable(root: Node) -> None:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        for key in root.subtree:
            amount = node.potential.get(key, 0)
            node.lendable[key[1]] = node.lendable.get(key[1], 0) + amount
        waiting += node.cohorts


def sides(one: Node, other: Node) -> tuple[Node, Node]:
    """Return the nodes of both sides just below the lowest cohort above two nodes."""
    above: dict[Node, Node] = {}
    ours = one
    for cohort in one.path():
        above[cohort], ours = ours, cohort
    theirs = other
    for cohort in other.path():
        if cohort in above:
            return above[cohort], theirs
        theirs = cohort
    raise AssertionError(f"{other.name} is in another tree than {one.name}")
