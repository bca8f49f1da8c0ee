"""The tree of a flavor's nodes: what each leaf has free, kept while nodes and usage change.

Theory. Nodes that belong to the flavor are grouped by the values of their level labels. A leaf has
the sum of its nodes' allocatable amounts, less what pods take that others placed (`free`), and the
usage of admitted workloads in it (`held`). With hostname as the last level the hostname alone
names a leaf; of several nodes with one hostname the first by name gives path, labels and taints.

Questions about room (`topology.counts`) watch the tree: a change marks a leaf for each question,
and is worked out when the question is asked again. So a change costs the same in a cluster of ten
nodes and of ten thousand. Usage in a leaf that is gone counts again once the leaf is back.

Invariant: the tree depends on the present nodes and usage, and not on the order in which they came.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from podgroup.admission.amounts import PODS
from podgroup.admission.model import Requests
from podgroup.model.objects import FlavorView, NodeView, Toleration
from podgroup.model.topology import HOSTNAME, TopologyAssignment

Path = tuple[str, ...]
"""Values of the levels from the outermost down."""

_NOTHING: Mapping[str, int] = {}


class Domain:
    """A domain of any level; a leaf has no children."""

    __slots__ = ("attached", "children", "parent", "path")

    def __init__(self, path: Path, parent: "Domain | None") -> None:
        self.path = path
        self.parent = parent
        self.children: dict[Path, Domain] = {}
        self.attached = True


class Member:
    """A node of a leaf: `free` is its allocatable, less what pods take that others placed."""

    __slots__ = ("free", "view")

    def __init__(self, view: NodeView) -> None:
        self.view = view
        self.free = dict(view.allocatable)
        _add(self.free, view.taken.items(), -1)


class Leaf(Domain):
    """A domain of the last level: `free` does not count workloads' usage, which is `held`.

    `nodes` are looked at one by one; empty where the leaf is a node, or counts as a node.
    """

    __slots__ = ("free", "held", "key", "labels", "nodes", "taints")

    def __init__(self, path: Path, parent: Domain | None, key: Path) -> None:
        super().__init__(path, parent)
        self.key = key
        self.labels: Mapping[str, str] = {}
        self.taints: tuple[Toleration, ...] = ()
        self.free: dict[str, int] = {}
        self.held: Mapping[str, int] = _NOTHING
        self.nodes: Sequence[Member] = ()


class Watcher(Protocol):
    """A watcher of a tree, which is to know the leaves that changed."""

    stale: set[Leaf]


class DomainTree:
    """The domains of a flavor with topology `name`; `better`: placement differs from Kueue's."""

    def __init__(
        self, name: str, levels: Sequence[str], flavor: FlavorView, better: bool = True
    ) -> None:
        self.name = name
        self.better = better
        self.levels = tuple(levels)
        self.flavor = flavor
        self.by_host = self.levels[-1] == HOSTNAME
        self.at: list[dict[Path, Domain]] = [{} for _ in self.levels]
        self.leaves: dict[Path, Leaf] = {}
        self.watchers: dict[object, Watcher] = {}
        self._members: dict[Path, dict[str, Member]] = {}
        self._key_of: dict[str, Path] = {}
        self._held: dict[Path, dict[str, int]] = {}

    @property
    def size(self) -> int:
        """The number of nodes, or of leaves where a leaf counts as a node."""
        return len(self.leaves) if self.by_host or not self.better else len(self._key_of)

    # -- nodes ---------------------------------------------------------------------------------

    def set_node(self, node: NodeView) -> bool:
        """Enter a new or changed node; tell whether it belongs or belonged to this flavor."""
        return self.set_nodes((node,))

    def set_nodes(self, nodes: Iterable[NodeView]) -> bool:
        """Enter new or changed nodes; tell whether any belongs or belonged to this flavor."""
        changed: dict[Path, None] = {}
        for node in nodes:
            key = self._key(node) if self.suits(node) else None
            before = self._key_of.pop(node.name, None)
            if before is not None:
                changed[before] = None
                if before != key:
                    del self._members[before][node.name]
            if key is not None:
                changed[key] = None
                self._key_of[node.name] = key
                self._members.setdefault(key, {})[node.name] = Member(node)
        for key in changed:
            self._refresh(key)
        return bool(changed)

    def remove_node(self, name: str) -> bool:
        """Forget a node; tell whether it was known."""
        key = self._key_of.pop(name, None)
        if key is not None:
            del self._members[key][name]
            self._refresh(key)
        return key is not None

    def suits(self, node: NodeView) -> bool:
        """Whether pods can get places on a node: it is the flavor's, ready and not cordoned."""
        return node.ready and not node.unschedulable and self.belongs(node)

    def belongs(self, node: NodeView) -> bool:
        """Whether a node is the flavor's, usable or not: it has its labels and all levels."""
        return node.has_labels(self.flavor.node_labels, self.levels)

    def name_of(self, domain: Domain) -> str:
        """The name of a domain, as a text."""
        if self.by_host and len(domain.path) == len(self.levels):
            return domain.path[-1]
        return ",".join(domain.path)

    def path_of(self, node: NodeView) -> Path:
        """The path of a node that is the flavor's."""
        return tuple(node.labels[level] for level in self.levels)

    def _key(self, node: NodeView) -> Path:
        return (node.labels[HOSTNAME],) if self.by_host else self.path_of(node)

    def _refresh(self, key: Path) -> None:
        members = self._members.get(key)
        leaf = self.leaves.get(key)
        if not members:
            self._members.pop(key, None)
            if leaf is not None:
                self._detach(leaf)
            return
        first = members[min(members)] if len(members) > 1 else next(iter(members.values()))
        path = self.path_of(first.view)
        if leaf is not None and leaf.path != path:
            self._detach(leaf)
            leaf = None
        if leaf is None:
            leaf = self._attach(path, key)
        leaf.labels, leaf.taints = first.view.labels, first.view.taints
        leaf.free = {}
        for member in members.values():
            _add(leaf.free, member.free.items(), 1)
        if self.better and not self.by_host:
            leaf.nodes = list(members.values())
        self.touch(leaf)

    def _attach(self, path: Path, key: Path) -> Leaf:
        parent: Domain | None = None
        for level in range(len(path) - 1):
            upper = path[: level + 1]
            found = self.at[level].get(upper)
            if found is None:
                found = self.at[level][upper] = Domain(upper, parent)
                if parent is not None:
                    parent.children[upper] = found
            parent = found
        leaf = self.leaves[key] = Leaf(path, parent, key)
        self.at[-1][path] = leaf
        if parent is not None:
            parent.children[path] = leaf
        leaf.held = self._held.get(key, _NOTHING)
        return leaf

    def _detach(self, leaf: Leaf) -> None:
        del self.leaves[leaf.key]
        gone: Domain = leaf
        while True:
            gone.attached = False
            del self.at[len(gone.path) - 1][gone.path]
            if gone.parent is None:
                break
            del gone.parent.children[gone.path]
            if gone.parent.children:
                break
            gone = gone.parent
        self.touch(leaf)

    def touch(self, leaf: Leaf) -> None:
        """Mark a leaf that changed, for all watchers."""
        for watcher in self.watchers.values():
            watcher.stale.add(leaf)

    # -- usage ---------------------------------------------------------------------------------

    def charge(self, assignment: TopologyAssignment, requests: Requests, times: int = 1) -> None:
        """Count pods in their domains; `times` -1 takes them out again."""
        for domain in assignment.domains:
            self.add_held(domain.values, pods(requests, domain.count * times))

    def add_held(self, key: Path, amounts: Iterable[tuple[str, int]]) -> None:
        """Add amounts to what is held in a leaf, which need not exist now."""
        held = self._held.setdefault(key, {})
        _add(held, amounts, 1)
        if not any(held.values()):
            del self._held[key]
            held = {}
        leaf = self.leaves.get(key)
        if leaf is not None:
            leaf.held = held
            self.touch(leaf)

    def held(self, key: Path) -> Mapping[str, int]:
        """What admitted workloads hold in a leaf."""
        return self._held.get(key, _NOTHING)

    @contextmanager
    def assuming(self) -> Iterator["Assumption"]:
        """Take room for a while, from `empty` questions too; it is given back at the end.

        No node may change meanwhile.
        """
        assumption = Assumption(self)
        try:
            yield assumption
        finally:
            assumption.give_back()


class Assumption:
    """Room that is taken until the end of `DomainTree.assuming`."""

    def __init__(self, tree: DomainTree) -> None:
        self._tree = tree
        self._taken: list[tuple[TopologyAssignment, Requests]] = []

    def take(self, assignment: TopologyAssignment, requests: Requests) -> None:
        """Take the room of pods in the domains of their assignment."""
        self._taken.append((assignment, requests))
        self._change(assignment, requests, -1)

    def give_back(self) -> None:
        """Give all taken room back."""
        while self._taken:
            self._change(*self._taken.pop(), 1)

    def _change(self, assignment: TopologyAssignment, requests: Requests, sign: int) -> None:
        for domain in assignment.domains:
            leaf = self._tree.leaves[domain.values]
            _add(leaf.free, pods(requests, domain.count), sign)
            self._tree.touch(leaf)


def pods(requests: Requests, count: int) -> list[tuple[str, int]]:
    """The amounts of `count` pods: their requests, and one of `pods` each."""
    return [(name, each * count) for name, each in requests] + [(PODS, count)]


def _add(amounts: dict[str, int], more: Iterable[tuple[str, int]], sign: int) -> None:
    for name, amount in more:
        amounts[name] = amounts.get(name, 0) + sign * amount
