"""The page of preemptions: who had to go, for whom, what it cost and what it brought.

Invariant: read only; who sees one namespace only is shown no name of another.
"""

from collections.abc import Iterable
from datetime import timedelta

from gatelog.readmodel import moments
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.rates import hours_text
from gatelog.readmodel.timeline import plain
from gatelog.serve.console.html import Columns, Html, choices, h, listing
from gatelog.serve.console.parts import (
    DAYS,
    ROWS,
    Page,
    PageView,
    age,
    clock,
    group_link,
    page,
    queue_link,
    read_days,
    whens,
)

_ANOTHER = "another namespace"
_NONE = "none was preempted"


def preemption_table(rows: Iterable[moments.PreemptedRow], seen: PageView, mine: str = "") -> Html:
    """Return preemptions, newest first; `mine`: id of the group whose they are."""
    columns: Columns = {
        "when": lambda one: clock(one.issued_at),
        "had to go": lambda one: _group(seen, one.victim_namespace, one.victim, one.victim_id),
        "for": lambda one: _group(seen, one.preemptor_namespace, one.preemptor, one.preemptor_id),
        "of priority": "priority",
        "lost": lambda one: hours_text(one.lost_hours or {}) or "–",
        "brought": _brought,
        "why": lambda one: plain(one.message),
    }
    empty = "it preempted none and was not preempted" if mine else _NONE
    return listing(columns, rows, "Newest first, a hundred at most", empty)


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
    links = (
        (words, seen.link("/preemptions", namespace=namespace, days=one), one == days)
        for one, words in DAYS.items()
    )
    columns: Columns = {
        "had to go": lambda one: _side(one.victim_namespace, one.victim_queue, seen),
        "for": lambda one: _side(one.preemptor_namespace, one.preemptor_queue, seen),
        "times": lambda one: f"{one.preemptions:,}",
        "groups": lambda one: f"{one.victims:,}",
        "last": whens(seen, "last_at"),
    }
    return page(
        "Preemptions",
        {"days": days, "sums": sums, "preemptions": rows},
        choices("Range", links),
        listing(columns, sums, "By namespace and ClusterQueue, most often first", _NONE),
        [h("h2", "Each of them"), preemption_table(rows, seen)] if rows else None,
    )


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


def _group(seen: PageView, namespace: str, name: str, uid: str) -> Html:
    return group_link(seen, namespace, name, uid) if namespace else h("span", _ANOTHER)


def _side(namespace: str, queue: str, seen: PageView) -> Html:
    if not namespace:
        return h("span", _ANOTHER)
    return h("span", f"{namespace}, ", queue_link(seen, queue))
