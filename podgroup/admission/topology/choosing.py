"""Choosing the level and the domains for the slices of a podset.

Theory. The tightest domain of the requested level that holds all slices takes them. If none does, a
required level is refused, and a preferred level is searched one level above; at the highest level
several domains are taken, the domains with most room first. Where least room comes first no level
above is searched. A leader restricts the choice to domains that have room for it, less that room.

Invariant: the domains returned have room for all slices, and for the leader.
"""

from bisect import bisect_left
from collections.abc import Sequence

from podgroup.admission.topology.counts import Counts, Entry
from podgroup.admission.topology.dividing import (
    NO_LEADER,
    Holder,
    Leading,
    Share,
    divide,
    leader_first,
    tightest,
)
from podgroup.admission.topology.refusal import refusal
from podgroup.admission.topology.request import Plan, Refused


def choose(counts: Counts, plan: Plan, leading: Leading) -> tuple[int, list[Share]]:
    """Return a level, and how many slices each of its domains gets.

    Raises:
        Refused: there is not enough room.
    """
    level = plan.level
    while True:
        if not counts.tree.at[level]:
            raise Refused(f"no topology domains at level: {counts.tree.levels[level]}")
        alone = _led_alone(counts, plan, leading, level) if leading else _alone(counts, plan, level)
        if alone is not None:
            return level, [alone]
        if plan.required:
            raise refusal(counts, plan, level, _best(counts, leading, level))
        if not (plan.widens and level):
            break
        level -= 1
    if leading:
        return level, _led_several(counts, plan, leading, level)
    return level, _several(counts, plan, level)


def _alone(counts: Counts, plan: Plan, level: int) -> Share | None:
    order = counts.order(level)
    at = bisect_left(order, (plan.slices,))
    if at == len(order):
        return None
    return Share(counts.tree.at[level][order[at][2]], plan.slices)


def _several(counts: Counts, plan: Plan, level: int) -> list[Share]:
    holders = _holders(counts, plan, level)
    given = divide(holders, plan.slices, plan.least)
    if not given:
        raise refusal(counts, plan, level, sum(one.units for one in holders))
    return given


def _holders(counts: Counts, plan: Plan, level: int) -> list[Holder]:
    order: Sequence[Entry] = counts.order(level)
    order = order[bisect_left(order, (1,)) :]
    if not plan.least:
        order = sorted(order, key=lambda one: (-one[0], one[1], one[2]))
    at = counts.tree.at[level]
    return [Holder(at[path], slices) for slices, _, path in order]


def _led(counts: Counts, plan: Plan, leading: Leading, level: int) -> list[Holder]:
    """The domains in the order in which they are searched for a leader's place."""
    sign = 1 if plan.least else -1
    found = []
    for path, domain in counts.tree.at[level].items():
        beside = leading.get(domain, NO_LEADER)
        rank = (-beside.leader, sign * beside.slices, beside.pods, path)
        holder = Holder(domain, counts.room(domain)[0], beside.leader, beside.slices)
        found.append((rank, holder))
    return [holder for _, holder in sorted(found, key=lambda one: one[0])]


def _best(counts: Counts, leading: Leading, level: int) -> int:
    """How many slices the first domain holds."""
    if not leading:
        return counts.order(level)[-1][0]
    ranks = (
        (-leading[domain].leader, -leading[domain].slices, leading[domain].pods, path)
        for path, domain in counts.tree.at[level].items()
    )
    return counts.room(counts.tree.at[level][min(ranks)[3]])[0]


def _led_alone(counts: Counts, plan: Plan, leading: Leading, level: int) -> Share | None:
    able = [
        one
        for one in _led(counts, plan, leading, level)
        if one.leader and one.beside >= plan.slices
    ]
    return Share(tightest(able, plan.slices).domain, plan.slices, 1) if able else None


def _led_several(counts: Counts, plan: Plan, leading: Leading, level: int) -> list[Share]:
    holders = leader_first(_led(counts, plan, leading, level), plan.slices)
    if not holders[0].leader:
        raise refusal(counts, plan, level, 0)
    first, missing = holders[0], plan.slices
    if not plan.least and first.beside >= missing:
        first = tightest(holders, missing)
    missing -= first.beside
    rest = sorted(holders[1:], key=lambda one: _rank(counts, plan, one))
    chosen = [first]
    if missing > 0:
        given = divide(rest, missing, plan.least)
        if not given:
            total = (first.units if plan.rest else first.beside) + sum(one.units for one in rest)
            raise refusal(counts, plan, level, min(total, plan.slices))
        by_domain = {one.domain: one for one in rest}
        chosen += [by_domain[one.domain] for one in given]
    return divide(chosen, plan.slices, plan.least, 1)


def _rank(counts: Counts, plan: Plan, holder: Holder) -> tuple[int, int, tuple[str, ...]]:
    slices, pods = counts.room(holder.domain)
    return (slices if plan.least else -slices, pods, holder.domain.path)
