"""A finding: the object of a check, its verdict, and what to do about it.

Invariant: a finding that is not ok says what to do.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Verdict = Literal["ok", "warn", "fail", "skip"]


class Finding(Struct, frozen=True):
    """`area`: settings, database, replicas, log, cluster, leases, deployments or queues.

    Verdict `skip`: the check could not run.
    """

    area: str
    what: str
    verdict: Verdict
    detail: str
    remedy: str = ""


def ok(area: str, what: str, detail: str) -> Finding:
    """Return the finding of a check that passed."""
    return Finding(area, what, "ok", detail)


def warn(area: str, what: str, detail: str, remedy: str) -> Finding:
    """Return the finding of a check that passed with a warning for a person."""
    return Finding(area, what, "warn", detail, remedy)


def fail(area: str, what: str, detail: str, remedy: str) -> Finding:
    """Return the finding of a check that failed."""
    return Finding(area, what, "fail", detail, remedy)


def skip(area: str, what: str, detail: str) -> Finding:
    """Return the finding of a check that cannot run because of an earlier finding."""
    return Finding(area, what, "skip", detail)


def some(said: Sequence[str], most: int) -> str:
    """Return the first of what was found, in a line, and how many more there are."""
    more = f"; and {len(said) - most} more" if len(said) > most else ""
    return "; ".join(said[:most]) + more
