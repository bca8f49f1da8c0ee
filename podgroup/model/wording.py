"""Why something waits, in plain words: what it needs, what is free where, by whose limit.

Theory. People who know Kueue search for its sentences, others do not understand them. So a message
says what is so in plain words first, then `KUEUES`, then Kueue's own sentence. Lists and stories
show the first part alone.

Invariant: pure, and a message is never taken for plain words twice (`joined`).
"""

from typing import Final

from podgroup.model.quantities import CPU, MAX_INT64, format_amount
from podgroup.model.shortage import BORROWING, LENDING, Shortage

KUEUES: Final = " — "
"""Comes between our words and Kueue's."""


def shown(resource: str, amount: int) -> str:
    """Return an amount for people: cpu is kept in thousandths, memory in bytes."""
    if amount >= MAX_INT64:
        return "any amount"
    return f"{amount / 1000:g}" if resource == CPU else format_amount(resource, amount)


def needs(short: Shortage) -> str:
    """Say what is needed, what is free of it and where, and which limit keeps it from more."""
    asked, free = (shown(short.resource, n) for n in (short.requested, short.available))
    place = f"{'Cohort' if short.cohort else 'ClusterQueue'} {short.node}"
    if short.ever:
        said = f"asks for {asked} {short.resource}; {place} can never have more than {free}"
    else:
        are = "is" if free == "1" else "are"
        said = f"needs {asked} {short.resource}; {free} {are} free in {place}"
    without = shown(short.resource, short.without)
    match short.limit:
        case str(limit) if limit == BORROWING:
            why = f": it may not borrow more; without borrowing limits it could have {without}"
        case str(limit) if limit == LENDING:
            why = f": {short.lender} keeps what it does not use; if all was lent, {without}"
        case _:
            why = ""
    return f"{said} (flavor {short.flavor}){why}"


def joined(said: str, message: str) -> str:
    """Return a message of Kueue's with plain words before it; as it is if there are none."""
    return f"{said}{KUEUES}{kueues(message)}" if said else message


def first(message: str) -> str:
    """Return the plain words of a message; all of it if no words of Kueue are marked in it."""
    return message.partition(KUEUES)[0]


def kueues(message: str) -> str:
    """Return Kueue's sentence; all of a message that has no plain words before it."""
    before, found, after = message.partition(KUEUES)
    return after if found else before
