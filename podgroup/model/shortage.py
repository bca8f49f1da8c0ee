"""Shortages and preemptions as values: what was short, by whose limit; who preempted whom.

Theory. An attempt to admit fails at some node of the quota tree, for some flavor and resource, and
one limit ends the search for quota there. That is recorded as a value, beside the sentence for
people, so that it can be counted: which groups wait by whose borrowing limit, and what would help.

Amounts in a shortage change with every admission and release; whose limit holds a group back, and
whether it would fit without, changes rarely. So a shortage is recorded again when its `question` is
another, with the amounts of that moment. The most that a tree can have changes with its quota
alone, and is part of the question.

Invariant: values; amounts are the integers of `podgroup.model.objects`, 2^63-1 is without limit.
"""

from typing import Final

from msgspec import Struct

NOMINAL: Final = "nominal"
"""The ClusterQueue is in no cohort, and its own quota is not enough."""
BORROWING: Final = "borrowingLimit"
"""The node may not borrow that much."""
LENDING: Final = "lendingLimit"
"""There would be enough, if others in the tree lent what they do not use."""
COHORT: Final = "cohort"
"""All that the tree has is taken, or it never has so much."""


class Shortage(Struct, frozen=True, array_like=True, gc=False):
    """A group requested more of one resource in one flavor than was available.

    `node` ends the search for quota: the ClusterQueue, or the cohort if `cohort`, whose borrowing
    limit is reached, else the root of the tree. `available` is the amount at that moment,
    `without` the amount without that limit (all borrowing limits on the way up, or
    what others keep; the same as `available` for other limits). `lender` keeps most of the latter,
    "" if none does. With `ever` amounts are of an empty tree: the request never fits.
    """

    flavor: str
    resource: str
    node: str
    cohort: bool
    requested: int
    available: int
    limit: str
    without: int
    lender: str = ""
    ever: bool = False

    @property
    def question(self) -> tuple[str, str, str, bool, int, str, bool, bool, int]:
        """The fields that make a shortage another one, which is recorded again."""
        fits = self.requested <= self.without
        return (
            *(self.flavor, self.resource, self.node, self.cohort),
            *(self.requested, self.limit, fits, self.ever, self.available if self.ever else 0),
        )


def same(one: tuple[Shortage, ...], other: tuple[Shortage, ...]) -> bool:
    """Tell whether two attempts had the same shortages, by the same limits."""
    return one is other or [s.question for s in one] == [s.question for s in other]


class Side(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The ClusterQueue of a victim or preemptor, as it was when the preemption was decided.

    `share` is its weighted dominant resource share in thousandths, rounded up, as in `Standing`.
    """

    cluster_queue: str
    share: int = 0
    borrowed: tuple[tuple[str, str, int], ...] = ()
    """(flavor, resource, amount) that it had borrowed from its cohort."""


class Preempted(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """The policy of a preemption (`podgroup.model.names.PREEMPTED_…`), victim and preemptor.

    `cohort` is the lowest cohort above both, "" within one ClusterQueue.
    """

    policy: str
    victim: Side
    preemptor: Side
    cohort: str = ""
