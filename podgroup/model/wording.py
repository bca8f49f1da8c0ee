"""Why a group waits, in plain words: what it needs, what is free where, by whose limit.

Theory. People who know Kueue search for its sentences; others do not understand them. So a message
has plain words first, then `KUEUES`, then Kueue's own sentence. Lists and stories show the first
part alone.

Invariant: pure, and a message is never taken for plain words twice (`joined`).
"""

from collections.abc import Iterable
from typing import Final

from podgroup.model.names import PENDING_EXCEEDS_MAX_QUOTA
from podgroup.model.quantities import CPU, MAX_INT64, format_amount
from podgroup.model.shortage import BORROWING, LENDING, NOMINAL, Shortage

KUEUES: Final = " — "
"""Separates our words from Kueue's."""
UNLIMITED: Final = "unlimited"
"""A quota that has no limit."""
NEVER: Final = "can never start: "
"""Begins a message where no flavor ever has enough, or none suits."""
RAISED_BY: Final = "administrators of ClusterQueues may raise"
NOT_SELECTED: Final = "workload namespace doesn't match ClusterQueue selector"
UNAVAILABLE: Final = "unavailable in ClusterQueue"
"""Part of Kueue's sentences on a wait that free quota does not end."""


def shown(resource: str, amount: int) -> str:
    """Return an amount for people: cpu is kept in thousandths, memory in bytes."""
    if amount >= MAX_INT64:
        return at_least(resource)
    return f"{amount / 1000:g}" if resource == CPU else format_amount(resource, amount)


def at_least(resource: str) -> str:
    """Return the largest amount for people, which means that amount or more."""
    return f"≥ {MAX_INT64 / (1000 if resource == CPU else 1):.3g}"


def quantity(resource: str, amount: int) -> str:
    """Return an amount for people as a Kubernetes quantity."""
    return at_least(resource) if amount >= MAX_INT64 else format_amount(resource, amount)


def allowed(resource: str, amount: int) -> str:
    """Return a quota, or the available part of a quota, for people."""
    return UNLIMITED if amount >= MAX_INT64 else shown(resource, amount)


def needs(short: Shortage) -> str:
    """Say what is needed, how much of it is free and where, and which limit there is.

    Where quota never suffices: how much there can be, which fields say so, and who may change them.
    """
    asked, free = shown(short.resource, short.requested), allowed(short.resource, short.available)
    place = f"{'Cohort' if short.cohort else 'ClusterQueue'} {short.node}"
    need = f"needs {asked} {short.resource}"
    without = allowed(short.resource, short.without)
    if short.ever:
        limit, more = _at_most(short, without)
        most = f"{place} can have {free} at most (flavor {short.flavor})"
        return f"{need}; {most}: {limit}, which {RAISED_BY}{more}"
    match short.limit:
        case str(limit) if limit == BORROWING:
            why = f": it may not borrow more; without borrowing limits it could have {without}"
        case str(limit) if limit == LENDING:
            why = f": {short.lender} keeps what it does not use; if all was lent, {without}"
        case _:
            why = ""
    are = "is" if free == "1" else "are"
    return f"{need}; {free} {are} free in {place} (flavor {short.flavor}){why}"


def _at_most(short: Shortage, without: str) -> tuple[str, str]:
    """Return the fields that limit what there can ever be, and what there could be without."""
    match short.limit:
        case str(limit) if limit == BORROWING:
            return (
                "its nominalQuota and borrowingLimit",
                f"; without borrowing limits it could have {without}",
            )
        case str(limit) if limit == LENDING:
            return f"the lendingLimit of {short.lender}", f"; if all was lent, {without}"
        case str(limit) if limit == NOMINAL:
            return "its nominalQuota", ""
        case _:
            return "the nominalQuota of all that is in it", ""


def short_of(reason: str, shortages: Iterable[Shortage]) -> list[str]:
    """Say for each shortage what is needed and free, and before the first whether it never fits."""
    said = [needs(one) for one in shortages]
    if said and reason == PENDING_EXCEEDS_MAX_QUOTA:
        said[0] = f"{NEVER}{said[0]}"
    return said


EARLIER_RUN: Final = "pods of an earlier run of"
"""Begins the message of a complete group that other pods of its name keep waiting."""


def too_few(total: object) -> str:
    """Say that a group waits for more of its pods; the read model says how many are there.

    `total`: a number, or its place in a pattern.
    """
    return f"needs {total} pods; fewer are there"


THERE: Final = ("pods_gated", "pods_running", "pods_succeeded")
"""Counters of the pods that a group without admission has: gated, running without admission, done.
"""


def exist(there: object, total: object, more: object) -> str:
    """Say how many pods a group that waits for more has; the arguments may be parts of SQL."""
    return f"{there} of {total} pods exist; create {more} more"


def joined(said: str, message: str) -> str:
    """Return Kueue's message with plain words before it; unchanged if there are none."""
    return f"{said}{KUEUES}{kueues(message)}" if said else message


def retold(said: str, message: str) -> str:
    """Return a message with its plain words replaced; unchanged if it has none, or `said` is ""."""
    _, mark, of_kueue = message.partition(KUEUES)
    return joined(said, of_kueue) if said and mark else message


def more(message: str, said: str) -> str:
    """Return a message with further plain words before Kueue's."""
    plain, mark, theirs = message.partition(KUEUES)
    return f"{plain}; {said}{mark}{theirs}"


def unparked(message: str) -> str:
    """Return why a decision was parked, as its outcome has it."""
    return message.removeprefix("parked: ")


def first(message: str) -> str:
    """Return the plain words of a message; the whole message if it marks no words of Kueue."""
    return message.partition(KUEUES)[0]


def kueues(message: str) -> str:
    """Return Kueue's sentence of a message; the whole message if it has no plain words."""
    before, found, after = message.partition(KUEUES)
    return after if found else before
