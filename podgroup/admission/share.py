"""Dominant resource share: how much of the lendable quota a node of the quota tree has borrowed.

Theory. For each resource, the amount that a node borrowed is divided by what its parent could lend
if nothing were used; the largest of these ratios, in thousandths, divided by the node's weight, is
its share. A node of weight 0 that borrows has an infinite share; among such nodes the ratio
decides. A root borrows nothing. (Dominant resource fairness, Ghodsi et al. 2011, along a tree.)

Invariant: `Share` values are totally ordered by `rank`.
"""

from collections.abc import Container, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from podgroup.admission.model import FlavorResource
from podgroup.admission.tree import Node

INFINITE: Final[float] = float("inf")
_THOUSAND: Final[float] = 1000.0


class Share(NamedTuple):
    """The share of a node, and what it borrows."""

    weight: Fraction
    ratio: float
    borrowed: Container[FlavorResource]
    borrows: bool

    @property
    def value(self) -> float:
        """The weighted share."""
        if self.ratio == 0:
            return 0.0
        return self.ratio / float(self.weight) if self.weight else INFINITE

    @property
    def rank(self) -> tuple[int, float]:
        """The key that orders shares, ascending."""
        if self.ratio != 0 and not self.weight:
            return 1, self.ratio
        return 0, self.value


def share_of(node: Node) -> Share:
    """Return the share of a node by the present tree."""
    if node.parent is None:
        return Share(node.weight, 0.0, (), False)
    amounts: dict[str, int] = {}
    borrowed = set()
    usage = node.usage
    for key, own in node.subtree.items():
        over = usage.get(key, 0) - own
        if over > 0:
            borrowed.add(key)
            amounts[key[1]] = amounts.get(key[1], 0) + over
    ratio = 0.0
    for resource, amount in amounts.items():
        lendable = node.parent.lendable.get(resource, 0)
        if lendable > 0:
            ratio = max(ratio, float(amount) * _THOUSAND / float(lendable))
    return Share(node.weight, ratio, borrowed, bool(borrowed))


def turn(share: Share, usage: Mapping[FlavorResource, int]) -> tuple[bool, tuple[int, float]]:
    """Return the first key of the tournament for a node with `usage` counted, ascending."""
    return borrows_any(share, usage), share.rank


def borrows_any(share: Share, usage: Mapping[FlavorResource, int]) -> bool:
    """Tell whether the node borrows any flavor and resource of `usage`."""
    return any(amount > 0 and key in share.borrowed for key, amount in usage.items())
