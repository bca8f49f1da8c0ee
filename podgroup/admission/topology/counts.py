"""How many pods of a shape fit into each domain, kept while leaves change.

Theory. A *question* has the needs of pods of one shape, and the sizes in which they are counted. A
leaf holds as many pods as its scarcest resource allows, none if taints, selector or affinity
exclude it. Pods are added up from the leaves; where a layer of slices applies each child counts
with whole units of the layer only. At the slice level pods become slices, which are added up from
there; below it no domain has slices. A leaf that changed passes its difference up until nothing
changes any more. The domains of a level are kept in ascending order of slices, then pods, then
path, so that the tightest domain that is large enough is found by bisection.

Invariant: after `Counts.refresh` all counts are as if counted anew.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from podgroup.admission.amounts import PODS
from podgroup.admission.matching import satisfies, untolerated
from podgroup.admission.model import PodSet, Requests
from podgroup.admission.topology.domains import Domain, DomainTree, Leaf, Path
from podgroup.admission.topology.request import Plan
from podgroup.model.objects import NodeTerm, Toleration

Entry = tuple[int, int, Path]
"""Slices, pods and path of a domain, by which domains are ordered."""

_EMPTY = (0, 0)


class Question(Struct, frozen=True, kw_only=True):
    """The fields that decide how many pods fit; equal questions have equal counts.

    `empty`: as if no workload held anything. `within`: only leaves below this path count.
    """

    requests: Requests
    tolerations: tuple[Toleration, ...]
    node_selector: tuple[tuple[str, str], ...]
    node_terms: tuple[NodeTerm, ...]
    slice_level: int
    size: int
    inner: tuple[tuple[int, int], ...]
    empty: bool
    within: Path


def question(pod_set: PodSet, plan: Plan, empty: bool, within: Path = ()) -> Question:
    """Return the question of a podset."""
    return Question(
        requests=per_pod(pod_set.requests),
        tolerations=pod_set.tolerations,
        node_selector=pod_set.node_selector,
        node_terms=pod_set.node_terms,
        slice_level=plan.slice_level,
        size=plan.size,
        inner=tuple(plan.inner.items()),
        empty=empty,
        within=within,
    )


def per_pod(requests: Requests) -> Requests:
    """The amounts of one pod, in the order of names: its requests above 0, and one of `pods`."""
    one = dict(requests)
    one[PODS] = one.get(PODS, 0) + 1
    return tuple((name, one[name]) for name in sorted(one) if one[name] > 0)


def fitting(
    room: Mapping[str, int], held: Mapping[str, int], requests: Requests
) -> tuple[int, str]:
    """Return how many pods fit, at least 0, and the first resource that allows no more."""
    most, scarce = -1, ""
    for name, each in requests:
        many = (room.get(name, 0) - held.get(name, 0)) // each
        if many <= 0:
            return _none(room, held, requests)
        if most < 0 or many < most:
            most, scarce = many, name
    return most, scarce


def _none(room: Mapping[str, int], held: Mapping[str, int], requests: Requests) -> tuple[int, str]:
    short = (name for name, each in requests if room.get(name, 0) - held.get(name, 0) < each)
    return 0, next(short)


def _scarce(resource: str) -> str:
    return f'resource "{resource}"'


class Counts:
    """The answer to a question, for all domains of a tree."""

    def __init__(self, tree: DomainTree, asked: Question) -> None:
        self.tree = tree
        self.asked = asked
        self.stale: set[Leaf] = set()
        self.excluded: Counter[str] = Counter()
        self._inner = dict(asked.inner)
        self._tolerations = (*asked.tolerations, *tree.flavor.tolerations)
        self._rooms: dict[Domain, tuple[int, int]] = {}
        self._gone: dict[Domain, tuple[int, int]] = {}
        """Counts of domains that are gone, which are still to be subtracted above."""
        self._causes: dict[Leaf, Sequence[str]] = {}
        self._orders: dict[int, list[Entry]] = {}
        self._count_all()

    def room(self, domain: Domain) -> tuple[int, int]:
        """Slices and pods that fit into a domain."""
        return self._rooms.get(domain) or self._gone.get(domain, _EMPTY)

    def order(self, level: int) -> list[Entry]:
        """The domains of a level in ascending order; not to be changed."""
        found = self._orders.get(level)
        if found is None:
            rooms = self._rooms
            found = self._orders[level] = sorted(
                (*rooms[domain], path) for path, domain in self.tree.at[level].items()
            )
        return found

    def refresh(self) -> None:
        """Work out what changed since the last time."""
        if len(self.stale) * 4 > len(self.tree.leaves) > 64:
            self._count_all()
        for leaf in self.stale:
            self._change(leaf)
        self.stale.clear()
        self._gone.clear()

    # -- one leaf ------------------------------------------------------------------------------

    def held(self, leaf: Leaf) -> Mapping[str, int]:
        """What workloads hold in a leaf; nothing where the question is about an empty tree."""
        return {} if self.asked.empty else leaf.held

    def fitting(
        self, leaf: Leaf, held: Mapping[str, int], requests: Requests
    ) -> tuple[int, Sequence[str]]:
        """Return how many pods fit into a leaf, and why some of its nodes are excluded.

        Where a leaf is several nodes, pods fit that fit each node as if it was empty, and also what
        is left of all nodes together: on which of the nodes the present pods are is not known.
        """
        if leaf.path[: len(self.asked.within)] != self.asked.within:
            return 0, ("topologyDomain",) * max(1, len(leaf.nodes))
        if leaf.nodes:
            found = [
                self._one(one.view.labels, one.view.taints, one.free, {}, requests)
                for one in leaf.nodes
            ]
            most = sum(many for many, _ in found)
            causes = [cause for _, cause in found if cause]
            many, scarce = fitting(leaf.free, held, requests)
            if most and not many:
                causes += [_scarce(scarce)] * (len(found) - len(causes))
            return min(most, many), causes
        many, cause = self._one(leaf.labels, leaf.taints, leaf.free, held, requests)
        return many, (cause,) if cause else ()

    def _one(
        self,
        labels: Mapping[str, str],
        taints: Sequence[Toleration],
        free: Mapping[str, int],
        held: Mapping[str, int],
        requests: Requests,
    ) -> tuple[int, str]:
        """Return how many pods fit a node, and why if none does."""
        if self.tree.by_host or self.tree.better:
            cause = self._excluding(labels, taints)
            if cause:
                return 0, cause
        many, scarce = fitting(free, held, requests)
        return many, "" if many else _scarce(scarce)

    def _excluding(self, labels: Mapping[str, str], taints: Sequence[Toleration]) -> str:
        """Say why pods may not use a node, whatever room it has; "" if they may."""
        asked = self.asked
        taint = untolerated(taints, self._tolerations)
        if taint is not None:
            value = f"={taint.value}" if taint.value else ""
            return f'taint "{taint.key}{value}:{taint.effect}"'
        if any(labels.get(key) != value for key, value in asked.node_selector):
            return "nodeSelector"
        if asked.node_terms and not _any_term(asked.node_terms, labels):
            return "affinity"
        return ""

    def _note(self, leaf: Leaf, causes: Sequence[str]) -> None:
        self.excluded.subtract(self._causes.pop(leaf, ()))
        if causes:
            self._causes[leaf] = causes
            self.excluded.update(causes)

    # -- going up ------------------------------------------------------------------------------

    def unit(self, level: int) -> int:
        """The size of the units in which pods of a level's domains count for the level above."""
        return self._inner.get(level, 1)

    def slices(self, level: int, pods: int, below: int) -> int:
        """The slices of a domain with `pods`, at a level, whose children have `below` slices."""
        if level == self.asked.slice_level:
            return pods // self.asked.size
        return below if level < self.asked.slice_level else 0

    def _count_all(self) -> None:
        self._rooms.clear()
        self._causes.clear()
        self._orders.clear()
        self.excluded.clear()
        self.stale.clear()
        rooms, last = self._rooms, len(self.tree.levels) - 1
        for leaf in self.tree.leaves.values():
            pods, causes = self.fitting(leaf, self.held(leaf), self.asked.requests)
            if causes:
                self._note(leaf, causes)
            rooms[leaf] = (self.slices(last, pods, 0), pods)
        for level in range(last - 1, -1, -1):
            unit = self.unit(level + 1)
            for domain in self.tree.at[level].values():
                pods = slices = 0
                for child in domain.children.values():
                    more, some = rooms[child]
                    slices += more
                    pods += some - some % unit
                rooms[domain] = (self.slices(level, pods, slices), pods)

    def _change(self, leaf: Leaf) -> None:
        pods = 0
        causes: Sequence[str] = ()
        if leaf.attached:
            pods, causes = self.fitting(leaf, self.held(leaf), self.asked.requests)
        self._note(leaf, causes)
        level = len(leaf.path) - 1
        domain: Domain | None = leaf
        slices = self.slices(level, pods, 0)
        while domain is not None:
            old_slices, old_pods = self._set(domain, level, (slices, pods))
            unit = self.unit(level)
            more = slices - old_slices
            some = (pods - pods % unit) - (old_pods - old_pods % unit)
            attached = domain.attached
            domain = domain.parent
            if domain is None or (attached and not more and not some and domain in self._rooms):
                return
            level -= 1
            had_slices, had_pods = self.room(domain)
            pods = had_pods + some
            slices = self.slices(level, pods, had_slices + more)

    def _set(self, domain: Domain, level: int, room: tuple[int, int]) -> tuple[int, int]:
        """Enter the room of a domain; return its room before."""
        listed = self._rooms.get(domain)
        if listed == room and domain.attached:
            return room
        had = self.room(domain)
        self._rooms.pop(domain, None)
        if domain.attached:
            self._rooms[domain] = room
        else:
            self._gone[domain] = room
        order = self._orders.get(level)
        if order is not None:
            if listed is not None:
                del order[bisect_left(order, (*listed, domain.path))]
            if domain.attached:
                insort(order, (*room, domain.path))
        return had


KEPT = 32
"""Questions that a tree remembers; the question asked longest ago is forgotten first."""


def counts(tree: DomainTree, asked: Question) -> Counts:
    """Return the present counts for a question."""
    found = tree.watchers.pop(asked, None)
    if isinstance(found, Counts):
        found.refresh()
    else:
        found = Counts(tree, asked)
        if len(tree.watchers) >= KEPT:
            del tree.watchers[next(iter(tree.watchers))]
    tree.watchers[asked] = found
    return found


def _any_term(terms: Iterable[NodeTerm], labels: Mapping[str, str]) -> bool:
    return any(all(satisfies(labels, one) for one in term.expressions) for term in terms)
