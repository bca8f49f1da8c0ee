"""The page of preemptions: preempted groups, their preemptors, cost and benefit.

Invariant: read only; a user with rights to one namespace sees no name of another.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from gatelog.readmodel import statements
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.rates import hours_text
from gatelog.readmodel.statements.preempted import PreemptedRow, PreemptedSum
from gatelog.serve.console.rendering import Page, age, page
from gatelog.serve.console.view import ROWS, PageView, Range, ordered

_WEEK = timedelta(days=7)


def preemptions(asked: Asked, seen: PageView) -> Page:
    """Return the preemptions of the range (a week by default): sums, then each."""
    namespace = seen.query.get("namespace", "")
    window = seen.window(_WEEK)
    sums, rows = preempted(asked, seen, window, namespace)
    listed, sorts = ordered(seen, "/preemptions", sums, _ORDERS, namespace=namespace)
    data = {"since": window.since, "until": window.until, "sums": sums, "preemptions": rows}
    shown = {"sums": listed, "sorts": sorts, "rows": rows, "window": window, **CELLS}
    return page("Preemptions", data, seen, "preemptions", **shown)


def preempted(
    asked: Asked, seen: PageView, window: Range, namespace: str
) -> tuple[list[PreemptedSum], list[PreemptedRow]]:
    """Return what preemptions of a range add up to, and the newest of them."""
    given = {
        "since": window.since,
        "until": window.until,
        "group_id": "",
        "namespace": namespace,
        "own": "" if seen.quota else namespace,
        "limit": ROWS * 2,
    }
    sums = asked.rows("sums", PreemptedSum, statements.preempted.PREEMPTED_SUMS, given)
    return sums, asked.rows("preemptions", PreemptedRow, statements.preempted.PREEMPTED, given)


_ORDERS: dict[str, Callable[[PreemptedSum], Any]] = {
    "preempted": lambda one: (one.victim_namespace, one.victim_queue),
    "for": lambda one: (one.preemptor_namespace, one.preemptor_queue),
    "times": lambda one: one.preemptions,
    "groups": lambda one: one.victims,
    "last": lambda one: one.last_at,
}
_BROUGHT = {
    "Running": "has run {ran}",
    "Ran": "ran {ran}",
    "Preempted": "preempted itself, ran {ran}",
    "PreemptedAtOnce": "preempted itself at once",
    "NeverRan": "never ran",
    "Admitted": "runs nothing yet",
    "Waiting": "waits still",
    "NeverAdmitted": "never admitted",
}


def _brought(one: PreemptedRow) -> str:
    """Say whether the preemptor was admitted, after how long, and for how long it ran."""
    words = _BROUGHT.get(one.brought or "", "–").format(ran=age(one.ran_seconds or 0))
    after = one.admitted_after_seconds
    return words if after is None else f"admitted after {age(after)}, {words}"


def _lost(one: PreemptedRow) -> str:
    return hours_text(one.lost_hours or {})


CELLS = {"brought": _brought, "lost": _lost}
"""Functions that the page's template calls for the cost and benefit of a preemption."""
