"""Who is pending: the table of a queue, and how old its forecast is.

Invariant: positions and stages are those of `gatelog.readmodel.moments`.
"""

from collections.abc import Sequence

from gatelog.readmodel import moments
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.starts import sentence
from gatelog.readmodel.timeline import plain
from gatelog.serve.console.html import Columns, Html, listing
from gatelog.serve.console.parts import ROWS, PageView, age, group_link, whens


def who_waits(
    asked: Asked, seen: PageView, queue: str, limit: int, offset: int, namespace: str = ""
) -> list[moments.WaitingRow]:
    """Return who is pending in a ClusterQueue ("": in all), in its order."""
    given = {"queue": queue, "namespace": namespace, "limit": limit, "offset": offset}
    query = moments.WAITING_AT if seen.at else moments.WAITING_NOW
    return asked.rows("who waits", moments.WaitingRow, query, {**given, "at": seen.moment})


def line_table(waiting: Sequence[moments.WaitingRow], seen: PageView) -> Html:
    """Return who is pending, first those that have a position in the ClusterQueue."""
    columns: Columns = {
        "position": "position",
        "group": lambda one: group_link(seen, one.namespace, one.name, one.id),
        "start": lambda one: _start(one, seen),
        "stage": "stage",
        "reason": "reason",
        "since": whens(seen, "since"),
        "why": lambda one: plain(one.message),
        "LocalQueue": "queue",
        "priority": "priority",
    }
    order = "In the order of the queue"
    if seen.at:
        order = "By priority and time; what use or a preemption put first then is not kept"
    return listing(columns, waiting[:ROWS], order, "nothing is pending")


def forecast_line(asked: Asked, seen: PageView) -> str:
    """Say how old expected starts are."""
    given = {"at": seen.moment, "limit": 1}
    (found,) = asked.rows("forecast", moments.ForecastRow, moments.FORECAST, given)
    if found.at is None:
        return "No forecast was made, so no start is known: an operator runs gatelog forecast."
    ago = age((seen.moment - found.at).total_seconds())
    return (
        f"Starts are of a forecast made {ago} ago; nine times in ten a start is within its range."
    )


def _start(one: moments.WaitingRow, seen: PageView) -> str:
    if one.never is None:
        return "–"
    return sentence(one.expected_at, one.latest_at, one.never, seen.moment)
