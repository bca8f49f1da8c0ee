"""Which Workloads must go so that another fits: the fewest, least important, latest.

Theory: candidates hold a flavor-resource that is short and rank below the preemptor. They are taken
one by one until it fits (evicted ones first: their quota is on its way back), then given back in
reverse order as long as it still fits.

Invariant: removing the targets makes room, and leaving any one of them does not, unless it is on
its way out already.
"""

from collections.abc import Iterable
from fractions import Fraction

from tests.support.kueuecore.assigning import Assignment, ClusterQueue
from tests.support.kueuecore.workload import Info, Usage


def targets(
    queue: ClusterQueue, info: Info, wanted: Assignment, used: Usage, holders: Iterable[Info]
) -> list[Info]:
    """The Workloads to evict; empty when no choice of them makes room."""
    found = [
        h for h in holders if _candidate(queue, info, h) and not wanted.short.isdisjoint(h.usage)
    ]
    found.sort(key=_order)
    left = dict(used)
    chosen: list[Info] = []
    for candidate in found:
        chosen.append(candidate)
        _add(left, candidate.usage, -1)
        if _fits(queue, wanted, left):
            break
    else:
        return []
    for candidate in chosen[-2::-1]:
        _add(left, candidate.usage, 1)
        if _fits(queue, wanted, left):
            chosen.remove(candidate)
        else:
            _add(left, candidate.usage, -1)
    return chosen


def _candidate(queue: ClusterQueue, info: Info, holder: Info) -> bool:
    if queue.within == "LowerPriority":
        return holder.priority < info.priority
    if queue.within == "LowerOrNewerEqualPriority":
        return holder.order > info.order
    return False


def _order(info: Info) -> tuple[bool, int, str, str]:
    since = info.conditions["QuotaReserved"].get("lastTransitionTime", "")
    return (not info.true("Evicted"), info.priority, _latest_first(since), info.uid)


def _latest_first(stamp: str) -> str:
    """A text that sorts the other way round: times are digits in fixed places."""
    return "".join(chr(ord("9") - int(c)) if c.isdigit() else c for c in stamp)


def _add(usage: Usage, more: Usage, sign: int) -> None:
    for key, amount in more.items():
        usage[key] = usage.get(key, Fraction(0)) + sign * amount


def _fits(queue: ClusterQueue, wanted: Assignment, used: Usage) -> bool:
    nominal = queue.nominal
    return all(
        used.get(key, Fraction(0)) + amount <= nominal.get(key, Fraction(0))
        for key, amount in wanted.usage.items()
    )
