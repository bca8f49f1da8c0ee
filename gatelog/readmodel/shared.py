"""Words for shared quota: what a group is short of, what its cohort has left, who could give back.

Theory. What it fell short of when it was tried is in `shortages`; how full its tree is now is in
`usage`; whose it is are the admissions of the ClusterQueues that borrow. By right a ClusterQueue
takes back what it has of its own and does not hold, of whom its policy names; what it asks for
beyond that is a matter of shares and priorities, which are not guessed at here.

Invariant: pure.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec import Struct, structs

from gatelog.readmodel.rows import (
    BorrowerRow,
    GroupRow,
    PendingRow,
    PoolRow,
    ShortageRow,
    ShortRow,
)
from gatelog.readmodel.statements.waiting import WaitingRow
from podgroup.model import wording
from podgroup.model.quantities import MAX_INT64
from podgroup.model.reasons import effect_of
from podgroup.model.shortage import Shortage
from podgroup.model.wording import allowed, shown

W = TypeVar("W", bound=PendingRow | WaitingRow | GroupRow)
_MOST = 5
"""Groups that are named of each ClusterQueue that borrows."""


class Shared(Struct, frozen=True):
    """The facts about the quota that a group waits for. `reclaims` is its queue's policy."""

    short: list[ShortRow]
    pools: list[PoolRow]
    borrowers: list[BorrowerRow]
    reclaims: str = ""


def sentences(shared: Shared, priority: int) -> Iterator[tuple[str, str]]:
    """Yield label and sentence of each, for a group of `priority`."""
    for short in shared.short:
        mine = [p for p in shared.pools if (p.flavor, p.resource) == (short.flavor, short.resource)]
        for pool in mine:
            if pool.kind == "Cohort":
                left = allowed(pool.resource, pool.spare)
                yield "cohort", f"{pool.name} has {_within(pool, left, pool.quota)} left"
        owners = [p for p in mine if p.kind == "ClusterQueue" and p.name != short.cluster_queue]
        for pool in owners:
            if pool.borrowed:
                yield "borrowed", _borrowed(pool, shared.borrowers)
        own = [p for p in mine if p.kind == "ClusterQueue" and p.name == short.cluster_queue]
        if own and any(pool.borrowed for pool in owners):
            yield "reclaim", _reclaim(own[0], short, shared, priority)


def short_of(reason: str, rows: Iterable[ShortRow]) -> list[str]:
    """Say what a group needs, how much is free where, and which limit keeps it from more."""
    return wording.short_of(reason, map(_shortage, rows))


def as_of_now(rows: Iterable[W], shortages: Iterable[ShortageRow]) -> list[W]:
    """Return waiting groups with present amounts in messages; unchanged without a shortage.

    A message has the amounts at the begin of the wait, or says until when others run.
    """
    short: dict[str, list[ShortageRow]] = {}
    for one in shortages:
        short.setdefault(one.group_id, []).append(one)

    def now(row: W) -> W:
        if isinstance(row, GroupRow):
            message = _message(row.wait_reason, row.wait_message, short[row.id])
            return structs.replace(row, wait_message=message)
        return structs.replace(row, message=_message(row.reason, row.message, short[row.id]))

    return [now(row) if row.id in short else row for row in rows]


def _message(reason: str, message: str, short: Iterable[ShortRow]) -> str:
    if effect_of(reason).postponed:
        return message
    return wording.retold("; ".join(short_of(reason, short)), message)


def freed(shared: Shared, *, own_only: bool = False) -> str:
    """Say what has to be freed for a group to start, and who borrows; "" if that is not known.

    `own_only`: for who sees one namespace: nothing of the cohort.
    """
    return "; ".join(_freed(short, shared, own_only) for short in shared.short if not short.ever)


def _freed(short: ShortRow, shared: Shared, own_only: bool) -> str:
    lacking = short.requested - short.free
    what = f"{short.resource} of flavor {short.flavor}"
    if lacking <= 0:
        return f"nothing but its turn: {shown(short.resource, short.free)} {what} are free now"
    where = "" if own_only else f" in {short.kind} {short.name}"
    must = f"{shown(short.resource, lacking)} {what} must be freed{where}"
    if own_only:
        return must
    lent = [
        f"{pool.name} borrows {shown(pool.resource, pool.borrowed)}"
        for pool in shared.pools
        if (pool.flavor, pool.resource) == (short.flavor, short.resource)
        and pool.kind == "ClusterQueue"
        and pool.borrowed > 0
        and pool.name != short.cluster_queue
    ]
    return f"{must}; {', '.join(lent)}" if lent else must


def _shortage(short: ShortRow) -> Shortage:
    return Shortage(
        flavor=short.flavor,
        resource=short.resource,
        node=short.name,
        cohort=short.kind == "Cohort",
        requested=short.requested,
        available=short.free,
        limit=short.limited_by,
        without=short.without_limit,
        lender=short.lender,
        ever=short.ever,
    )


def _borrowed(pool: PoolRow, borrowers: list[BorrowerRow]) -> str:
    named = []
    for one in borrowers:
        held = one.resources.get(pool.flavor, {}).get(pool.resource, 0)
        if one.cluster_queue == pool.name and held:
            taken = shown(pool.resource, held)
            named.append(f"{one.namespace}/{one.name} {taken} (priority {one.priority})")
    taken = shown(pool.resource, pool.borrowed)
    more = f" and {len(named) - _MOST} more" if len(named) > _MOST else ""
    groups = f", held by {', '.join(named[:_MOST])}{more}" if named else ""
    return f"ClusterQueue {pool.name} borrows {taken} {pool.resource} of {pool.flavor}{groups}"


def _reclaim(own: PoolRow, short: ShortRow, shared: Shared, priority: int) -> str:
    free = own.nominal if own.nominal >= MAX_INT64 else own.nominal - own.reserved - own.unadmitted
    held = shown(own.resource, own.reserved)
    holds = f"ClusterQueue {own.name} holds {_within(own, held, own.nominal)} of its own"
    if shared.reclaims in ("", "Never"):
        return f"{holds}, and takes nothing back: its reclaimWithinCohort is Never"
    if free <= 0:
        return f"{holds}: by right it can take back nothing"
    whom = {
        "LowerPriority": f"groups of a priority below {priority}",
        "LowerOrNewerEqualPriority": f"groups of a priority below {priority}, or equal and newer",
    }.get(shared.reclaims, "any group")
    said = (
        f"{holds}: it can take back {allowed(own.resource, free)} from {whom} of a ClusterQueue "
        "that borrows"
    )
    if short.requested > free:
        asked = shown(own.resource, short.requested)
        said += f"; this group asks for {asked}, and beyond its own shares and priorities decide"
    return said


def _within(pool: PoolRow, value: str, whole: int) -> str:
    return f"{value} of {allowed(pool.resource, whole)} {pool.resource} of {pool.flavor}"
