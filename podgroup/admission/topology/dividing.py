"""Dividing pods among domains, and going down from the chosen domains to the leaves.

Theory. Domains are taken in order, each whole, the last for the rest. With most room first, the
first domain that holds all of the rest is replaced by the tightest later domain that holds it, too.
The pods of a domain are divided among its own children, those with most room first: so pods
are in as few domains as can be. Kueue keeps no division above the slice level, where the children
of all chosen domains are one pool, and fills the smallest first below. There pods are divided in
units of the layer of slices that applies.

With a leader (`topology.leading`) a domain that has room for the leader and loses the least by it
goes to the front, and counts with its room beside the leader until the leader has its place.

Invariant: no domain is given more than it has room for; the shares add up to what is wanted, or
there are none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from podgroup.admission.topology.counts import Counts
from podgroup.admission.topology.domains import Domain
from podgroup.admission.topology.request import Plan


class Beside(NamedTuple):
    """The room of a domain beside a leader; `leader` is 1 if the domain has room for a leader."""

    leader: int = 0
    slices: int = 0
    pods: int = 0


NO_LEADER = Beside()
Leading = Mapping[Domain, Beside]


class Holder(NamedTuple):
    """A domain that could be given units; `beside` is its room in units beside a leader."""

    domain: Domain
    units: int
    leader: int = 0
    beside: int = 0


class Share(NamedTuple):
    """What a domain is given: units, and perhaps the leader."""

    domain: Domain
    units: int
    leader: int = 0


def divide(holders: Sequence[Holder], wanted: int, least: bool, leader: int = 0) -> list[Share]:
    """Divide units, and a leader if there is one, among domains in their order."""
    given: list[Share] = []
    missing, at = wanted, 0
    if leader:
        holders = leader_first(holders, wanted)
        while at < len(holders) and leader:
            one = holders[at]
            if not least and one.leader and one.beside >= missing:
                one = tightest(holders[at:], missing)
            if one.leader and one.beside >= missing:
                return [*given, Share(one.domain, missing, 1)]
            some = min(one.beside, missing)
            given.append(Share(one.domain, some, one.leader))
            leader -= one.leader
            missing -= some
            at += 1
    for place in range(at, len(holders)):
        one = holders[place]
        if one.units >= missing:
            if not least:
                one = min(
                    (other for other in holders[place:] if other.units >= missing), key=_units
                )
            return [*given, Share(one.domain, missing)]
        given.append(Share(one.domain, one.units))
        missing -= one.units
    return []


def _units(holder: Holder) -> int:
    return holder.units


def tightest(holders: Sequence[Holder], missing: int) -> Holder:
    """Return the tightest domain that holds a leader and the missing units."""
    able = (one for one in holders if one.leader and one.beside >= missing)
    return min(able, key=lambda one: one.beside)


def leader_first(holders: Sequence[Holder], wanted: int) -> Sequence[Holder]:
    """Move the first domain to the front that holds the leader and leaves enough room in all."""
    if len(holders) < 2:
        return holders
    spare = sum(one.units for one in holders) - wanted
    for at, one in enumerate(holders):
        if one.leader and one.units - one.beside <= spare:
            return [one, *holders[:at], *holders[at + 1 :]]
    return holders


def down(
    counts: Counts, plan: Plan, leading: Leading, level: int, shares: Sequence[Share]
) -> list[Share]:
    """Turn shares of slices in domains of `level` into shares of pods in leaves."""
    last = len(counts.tree.levels) - 1
    while level < plan.slice_level:
        level += 1
        if not plan.better:
            shares = [_pooled(shares)]
        below: list[Share] = []
        for domain, units, leader in shares:
            holders = ordered(counts, plan, leading, domain.children.values(), _slices)
            below += divide(holders, units, plan.least, leader)
        shares = below
    shares = [_in_pods(plan, one) for one in shares]
    while level < last:
        level += 1
        unit = plan.inner.get(level, 1)
        below = []
        for domain, count, leader in shares:
            holders = ordered(counts, plan, leading, domain.children.values(), _pods_in(unit))
            below += _in_units(holders, plan, count, unit, leader)
        shares = below
    return list(shares)


def _pooled(shares: Sequence[Share]) -> Share:
    """Return the sum of all shares, in a domain that has all their domains' children."""
    pool = Domain((), None)
    for share in shares:
        pool.children.update(share.domain.children)
    return Share(pool, sum(one.units for one in shares), sum(one.leader for one in shares))


def _in_pods(plan: Plan, share: Share) -> Share:
    """Count a share in pods, those of the last, smaller slice included where it is placed."""
    rest = plan.rest if share.leader else 0
    return Share(share.domain, share.units * plan.size + rest, 0 if rest else share.leader)


def _in_units(
    holders: Sequence[Holder], plan: Plan, count: int, unit: int, leader: int
) -> Iterator[Share]:
    """Divide pods in units; the last unit may be smaller."""
    units = -(-count // unit) if plan.better else count // unit
    for one in divide(holders, units, plan.least, leader):
        pods = min(one.units * unit, count)
        yield Share(one.domain, pods, one.leader)
        count -= pods


Unit = Callable[[tuple[int, int]], int]
"""How many units slices and pods are."""


def _slices(room: tuple[int, int]) -> int:
    return room[0]


def _pods(room: tuple[int, int]) -> int:
    return room[1]


def _pods_in(unit: int) -> Unit:
    return _pods if unit == 1 else lambda room: room[1] // unit


def ordered(
    counts: Counts, plan: Plan, leading: Leading, domains: Iterable[Domain], unit: Unit
) -> list[Holder]:
    """Return domains in the order in which they are taken, with their room."""
    sign = 1 if plan.least else -1
    by = unit if plan.better else _slices
    found = []
    for domain in domains:
        room = counts.room(domain)
        found.append((sign * by(room), room[1], domain.path, domain, unit(room)))
    found.sort(key=itemgetter(0, 1, 2))
    if not leading:
        return [Holder(one[3], one[4]) for one in found]
    holders = []
    for *_, domain, units in found:
        beside = leading.get(domain, NO_LEADER)
        holders.append(Holder(domain, units, beside.leader, unit((beside.slices, beside.pods))))
    return holders
