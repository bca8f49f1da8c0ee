"""Workloads with places on nodes, where hostname is a level, and which of the nodes are unwell.

Invariant: a node is unwell only while a workload has places on it.
"""

from collections.abc import Iterable, Set


class Tenants:
    """Workloads by node, kept by difference."""

    def __init__(self) -> None:
        self._nodes: dict[str, Set[str]] = {}
        self._on: dict[str, set[str]] = {}
        self._unwell: set[str] = set()
        self._near: set[str] = set()

    def locate(self, id: str, nodes: Set[str]) -> Iterable[str]:
        """Enter the nodes of a workload's places; return the nodes that are new for it."""
        left = self._nodes.pop(id, frozenset())
        if nodes:
            self._nodes[id] = nodes
        for node in left - nodes:
            self._on[node].discard(id)
            if not self._on[node]:
                del self._on[node]
                self._unwell.discard(node)
        for node in nodes - left:
            self._on.setdefault(node, set()).add(id)
        return nodes - left

    def placed(self, id: str) -> bool:
        """Tell whether a workload has places."""
        return id in self._nodes

    def judge(self, node: str, unwell: bool, news: bool = False) -> None:
        """Enter whether a node is unwell; `news`: workloads with places there are concerned."""
        if node not in self._on:
            return
        if unwell:
            self._unwell.add(node)
        else:
            self._unwell.discard(node)
        if news:
            self._near |= self._on[node]

    def unwell(self, id: str) -> Set[str]:
        """Return the unwell nodes on which a workload has places."""
        return self._unwell & self._nodes.get(id, frozenset())

    def concerned(self) -> list[str]:
        """Return the workloads with places on nodes that changed since the last call."""
        found, self._near = sorted(self._near), set()
        return found
