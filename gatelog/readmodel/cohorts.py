"""A cohort as one pool: each queue's nominal quota, held, borrowed and lent, and debts.

Theory. Rows of `quota` are each about one queue. A loan comes out of the single pool of a cohort's
tree, so it has no lender of its own: a borrower owes each lender by the lender's part of all lent
quota.

Invariant: pure; debts of borrowers add up to their borrowed quota, if any quota is lent.
"""

from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from gatelog.readmodel.quota import QuotaRow
from podgroup.model.quantities import MAX_INT64, capped


class Pool(Struct, frozen=True):
    """One resource of one flavor in a cohort's tree; amounts as in tables.

    `members`: ClusterQueues by name, then Cohorts that have quota of their own.
    """

    cohort: str
    flavor: str
    resource: str
    members: list[QuotaRow]

    @property
    def nominal(self) -> int:
        """All there is; 2^63-1: no limit."""
        return capped(sum(one.nominal for one in self.members))

    @property
    def held(self) -> int:
        """The quota that ClusterQueues hold; a Cohort's row repeats its members' amounts."""
        return capped(sum(one.held for one in self.members if one.kind == "ClusterQueue"))

    @property
    def unadmitted(self) -> int:
        """The quota that pods without an admission take, of their own queue alone."""
        return sum(
            min(one.unadmitted, max(0, one.nominal - one.held))
            for one in self.members
            if one.kind == "ClusterQueue"
        )

    @property
    def free(self) -> int:
        """What nothing takes."""
        if self.nominal == MAX_INT64:
            return MAX_INT64
        return max(0, self.nominal - self.held - self.unadmitted)


class Debt(Struct, frozen=True):
    """An amount that a queue borrows of another queue's quota."""

    borrower: str
    lender: str
    amount: int


def pools(rows: Iterable[QuotaRow], cohort: str = "") -> list[Pool]:
    """Return the pools of a cohort's tree ("": of all), by cohort, flavor and resource."""
    found: dict[tuple[str, str, str], list[QuotaRow]] = defaultdict(list)
    for row in rows:
        if row.kind == "LocalQueue" or not row.root or cohort not in ("", row.root):
            continue
        if row.kind == "ClusterQueue" or row.nominal:
            found[row.root, row.flavor, row.resource].append(row)
    return [
        Pool(*key, members=sorted(found[key], key=lambda row: (row.kind == "Cohort", row.name)))
        for key in sorted(found)
    ]


def debts(pool: Pool) -> list[Debt]:
    """Return the debts, in the order of members; [] where no quota is lent."""
    lenders = [one for one in pool.members if one.lent]
    lent = sum(one.lent for one in lenders)
    found = []
    for one in pool.members:
        if one.kind == "Cohort" or not one.borrowed or not lent:
            continue
        before = passed = 0
        for lender in lenders:  # cut at whole units, so that parts add up to the whole
            passed += lender.lent
            until = one.borrowed * passed // lent
            if until > before:
                found.append(Debt(one.name, lender.name, until - before))
            before = until
    return found
