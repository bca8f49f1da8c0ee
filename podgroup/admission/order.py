"""The order in which the heads of a pass are processed: an earlier head is served first.

Theory. Without fair sharing a head that borrows from nearer goes first, then a head with a reserved
start, then higher priority, then the longer wait. With fair sharing a tournament: at each cohort
the winners of its children compete. A head that would not borrow goes before a head that would,
then the smaller share with the head's request counted, then priority and time. After each winner
all shares are worked out anew, since the winner has taken its request.

Invariant: every order ends in the uid.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from podgroup.admission.holding import PendingWorkload
from podgroup.admission.share import Share, share_of, turn
from podgroup.admission.tree import Node

if TYPE_CHECKING:
    from podgroup.admission.head import Head


def classical(heads: Iterable["Head"]) -> Iterator["Head"]:
    """Yield heads in the order without fair sharing."""
    yield from sorted(heads, key=lambda h: rank(h.planned.borrowing, h.waiter, reserved=h.reserved))


def rank(
    borrowing: int, waiter: PendingWorkload, *, reserved: bool = False
) -> tuple[int, bool, int, float, str]:
    """Return the key that orders workloads without fair sharing."""
    return borrowing, not reserved, -waiter.priority, waiter.since, waiter.uid


def fair(heads: Iterable["Head"]) -> Iterator["Head"]:
    """Yield heads in the order of the tournament; the caller counts each before the next."""
    left = {head.node: head for head in heads}
    while left:
        node = next(iter(left))
        if node.parent is None:
            yield left.pop(node)
        else:
            yield left.pop(_Tournament(node.root, left).winner())


class _Tournament:
    def __init__(self, root: Node, left: dict[Node, "Head"]) -> None:
        self.root = root
        self.left = left
        self.shares: dict[tuple[Node, Node], Share] = {}
        """(cohort, competitor) -> the share of the cohort's child with the competitor in it."""
        for node, head in left.items():
            if node.root is not root:
                continue
            node.take(head.planned.usage)
            child = node
            for cohort in node.path():
                self.shares[cohort, node] = share_of(child)
                child = cohort
            node.give(head.planned.usage)

    def winner(self) -> Node:
        found = self._winner(self.root)
        assert found is not None
        return found

    def _winner(self, cohort: Node) -> Node | None:
        inner = self._least(cohort, [self._winner(child) for child in cohort.cohorts])
        own = self._least(cohort, [queue for queue in cohort.queues if queue in self.left])
        if own is None or inner is None:
            return own or inner
        return own if self._key(cohort, own)[:-1] < self._key(cohort, inner)[:-1] else inner

    def _least(self, cohort: Node, nodes: Iterable[Node | None]) -> Node | None:
        present = [node for node in nodes if node is not None]
        return min(present, key=lambda node: self._key(cohort, node), default=None)

    def _key(self, cohort: Node, node: Node) -> tuple[bool, tuple[int, float], int, float, str]:
        head = self.left[node]
        waiter = head.waiter
        first = turn(self.shares[cohort, node], head.planned.usage)
        return *first, -waiter.priority, waiter.since, waiter.uid
