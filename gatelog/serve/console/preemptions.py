"""The page of preemptions: who had to go, and for whom.

Invariant: read only; who sees one namespace only is shown no name of another.
"""

from collections.abc import Iterable
from datetime import timedelta

from gatelog.readmodel import moments
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.timeline import plain
from gatelog.serve.console.html import Html, h, table
from gatelog.serve.console.parts import (
    ROWS,
    Page,
    Seen,
    clock,
    group_link,
    queue_link,
    read_days,
    when,
)

_ANOTHER = "another namespace"
_NONE = "none was preempted"


def preemption_table(rows: Iterable[moments.PreemptedRow], seen: Seen, mine: str = "") -> Html:
    """Return preemptions, newest first; `mine`: id of the group whose they are."""
    shown = [
        [
            clock(one.issued_at),
            _group(seen, one.victim_namespace, one.victim, one.victim_id),
            _group(seen, one.preemptor_namespace, one.preemptor, one.preemptor_id),
            str(one.priority),
            plain(one.message),
        ]
        for one in rows
    ]
    empty = "it preempted none and was not preempted" if mine else _NONE
    return table(
        ["when", "had to go", "for", "of priority", "why"],
        shown,
        "Newest first, a hundred at most",
        empty,
    )


def preemptions(asked: Asked, seen: Seen) -> Page:
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
        h(
            "li",
            h(
                "a",
                words,
                href=seen.link("/preemptions", namespace=namespace, days=one),
                aria_current="true" if one == days else None,
            ),
        )
        for one, words in ((1, "day"), (7, "week"), (30, "month"))
    ]
    body = [
        h("h1", "Preemptions"),
        h("ul", links, class_="choices", aria_label="Range"),
        table(
            ["had to go", "for", "times", "groups", "last"],
            [
                [
                    _side(one.victim_namespace, one.victim_queue, seen),
                    _side(one.preemptor_namespace, one.preemptor_queue, seen),
                    f"{one.preemptions:,}",
                    f"{one.victims:,}",
                    when(one.last_at, seen),
                ]
                for one in sums
            ],
            "By namespace and ClusterQueue, most often first",
            _NONE,
        ),
        [h("h2", "Each of them"), preemption_table(rows, seen)] if rows else None,
    ]
    data = {"days": days, "sums": sums, "preemptions": rows}
    return Page(title="Preemptions", data=data, body=h("div", body))


def _group(seen: Seen, namespace: str, name: str, uid: str) -> Html:
    return group_link(seen, namespace, name, uid) if namespace else h("span", _ANOTHER)


def _side(namespace: str, queue: str, seen: Seen) -> Html:
    if not namespace:
        return h("span", _ANOTHER)
    return h("span", f"{namespace}, ", queue_link(seen, queue))
