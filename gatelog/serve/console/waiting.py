"""Pending groups: the rows of a queue, and the age of its forecast.

Invariant: positions and stages are those of `gatelog.readmodel.statements.waiting`.
"""

from gatelog.readmodel import statements
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.past import Past
from gatelog.readmodel.shared import as_of_now
from gatelog.readmodel.starts import FIRST, OFF
from gatelog.readmodel.statements.starts import ForecastRow
from gatelog.readmodel.statements.waiting import WaitingRow
from gatelog.serve.console.rendering import age
from gatelog.serve.console.view import PageView


def who_waits(
    asked: Asked, seen: PageView, queue: str, limit: int, offset: int, namespace: str = ""
) -> list[WaitingRow]:
    """Return the pending groups of a ClusterQueue ("": of all), in the order of the queue."""
    given = {"queue": queue, "namespace": namespace, "limit": limit, "offset": offset}
    query = statements.waiting.WAITING_AT if seen.at else statements.waiting.WAITING_NOW
    rows = asked.rows("who waits", WaitingRow, query, {**given, "at": seen.moment})
    there = Past(asked.model, seen.at) if seen.at else asked.model
    return as_of_now(rows, there.shortages(row.id for row in rows))


def forecast_line(asked: Asked, seen: PageView) -> str:
    """Say how old expected starts are."""
    given = {"at": seen.moment, "limit": 1}
    (found,) = asked.rows("forecast", ForecastRow, statements.starts.FORECAST, given)
    if found.at is None:
        return OFF.capitalize() + "."
    if not found.seq:
        return FIRST.capitalize() + "."
    ago = age((seen.moment - found.at).total_seconds())
    return (
        f"Starts are of a forecast made {ago} ago; nine times in ten a start is within its range."
    )
