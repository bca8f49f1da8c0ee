"""The page of preemptions: who had to go, for whom, what it cost and what it brought.

Invariant: read only; who sees one namespace only is shown no name of another.
"""

from datetime import timedelta

from gatelog.readmodel import moments
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.rates import hours_text
from gatelog.serve.console.rendering import Page, age, page
from gatelog.serve.console.view import DAYS, ROWS, PageView, read_days


def preemptions(asked: Asked, seen: PageView) -> Page:
    """Return who was preempted for whom in the days before the moment: sums, then each."""
    namespace, days = seen.query.get("namespace", ""), read_days(seen, 7)
    given = {
        "since": seen.moment - timedelta(days=days),
        "until": seen.moment,
        "group_id": "",
        "namespace": namespace,
        "own": "" if seen.quota else namespace,
        "limit": ROWS * 2,
    }
    sums = asked.rows("sums", moments.PreemptedSum, moments.PREEMPTED_SUMS, given)
    rows = asked.rows("preemptions", moments.PreemptedRow, moments.PREEMPTED, given)
    links = [
        (words, seen.link("/preemptions", namespace=namespace, days=one), one == days)
        for one, words in DAYS.items()
    ]
    data = {"days": days, "sums": sums, "preemptions": rows}
    shown = {"ranges": links, "sums": sums, "rows": rows, **CELLS}
    return page("Preemptions", data, seen, "preemptions", **shown)


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


def _brought(one: moments.PreemptedRow) -> str:
    """Say whether the preemptor was admitted, after how long, and for how long it ran."""
    words = _BROUGHT.get(one.brought or "", "–").format(ran=age(one.ran_seconds or 0))
    after = one.admitted_after_seconds
    return words if after is None else f"admitted after {age(after)}, {words}"


def _lost(one: moments.PreemptedRow) -> str:
    return hours_text(one.lost_hours or {})


CELLS = {"brought": _brought, "lost": _lost}
"""What `preempted.html` calls to say what a preemption cost and brought."""
