"""Why something waits, in plain words: what it needs, what is free where, by whose limit.

Theory. People who know Kueue search for its sentences, others do not understand them. So a message
says what is so in plain words first, then `KUEUES`, then Kueue's own sentence. Lists and stories
show the first part alone.

Invariant: pure, and a message is never taken for plain words twice (`joined`).
"""

from collections.abc import Iterable
from typing import Final

from podgroup.model.names import PENDING_EXCEEDS_MAX_QUOTA
from podgroup.model.quantities import CPU, MAX_INT64, format_amount
from podgroup.model.shortage import BORROWING, LENDING, NOMINAL, Shortage

KUEUES: Final = " — "
"""Comes between our words and Kueue's."""
UNLIMITED: Final = "unlimited"
"""A quota that has no limit."""
NEVER: Final = "can never start: "
"""Comes first where no flavor ever has enough, or there is none for it."""
RAISED_BY: Final = "administrators of ClusterQueues may raise"
NOT_SELECTED: Final = "workload namespace doesn't match ClusterQueue selector"
UNAVAILABLE: Final = "unavailable in ClusterQueue"
"""Of Kueue's sentences: what no quota that becomes free changes."""


def shown(resource: str, amount: int) -> str:
    """Return an amount for people: cpu is kept in thousandths, memory in bytes."""
    if amount >= MAX_INT64:
        return at_least(resource)
    return f"{amount / 1000:g}" if resource == CPU else format_amount(resource, amount)


def at_least(resource: str) -> str:
    """Return the amount that stands for itself and all that is more."""
    return f"≥ {MAX_INT64 / (1000 if resource == CPU else 1):.3g}"


def quantity(resource: str, amount: int) -> str:
    """Return an amount for people as a Kubernetes quantity."""
    return at_least(resource) if amount >= MAX_INT64 else format_amount(resource, amount)


def allowed(resource: str, amount: int) -> str:
    """Return a quota, or what of one can be had, for people."""
    return UNLIMITED if amount >= MAX_INT64 else shown(resource, amount)


def needs(short: Shortage) -> str:
    """Say what is needed, what is free of it and where, and which limit keeps it from more.

    Of what is never there: how much there can be, which fields say so, and who may change them.
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
    """Say of each what is needed and free; first that it can never start, where `reason` is so."""
    said = [needs(one) for one in shortages]
    if said and reason == PENDING_EXCEEDS_MAX_QUOTA:
        said[0] = f"{NEVER}{said[0]}"
    return said


EARLIER_RUN: Final = "pods of an earlier run of"
"""Begins what is said of pods in the way of a group that has all its own."""


def too_few(total: object) -> str:
    """Say that a group waits for more of its pods; how many are there is the read model's to say.

    `total`: a number, or its place in a pattern.
    """
    return f"needs {total} pods; fewer are there"


THERE: Final = ("pods_gated", "pods_running", "pods_succeeded")
"""Counters of pods that are there of a group that was not let go: at their gate, running without
admission, or done."""


def exist(there: object, total: object, more: object) -> str:
    """Say of a group that waits for more of its pods how many are there; places in SQL, too."""
    return f"{there} of {total} pods exist; create {more} more"


def joined(said: str, message: str) -> str:
    """Return a message of Kueue's with plain words before it; as it is if there are none."""
    return f"{said}{KUEUES}{kueues(message)}" if said else message


def retold(said: str, message: str) -> str:
    """Return a message with other plain words before Kueue's; as it is if it has, or gets, none."""
    _, mark, of_kueue = message.partition(KUEUES)
    return joined(said, of_kueue) if said and mark else message


def more(message: str, said: str) -> str:
    """Return a message with more plain words, before Kueue's."""
    plain, mark, theirs = message.partition(KUEUES)
    return f"{plain}; {said}{mark}{theirs}"


def unparked(message: str) -> str:
    """Return why a decision was parked, as its outcome has it."""
    return message.removeprefix("parked: ")


def first(message: str) -> str:
    """Return the plain words of a message; all of it if no words of Kueue are marked in it."""
    return message.partition(KUEUES)[0]


def kueues(message: str) -> str:
    """Return Kueue's sentence; all of a message that has no plain words before it."""
    before, found, after = message.partition(KUEUES)
    return after if found else before
