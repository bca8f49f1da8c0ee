"""Who is pending: the rows of a queue, and how old its forecast is.

Invariant: positions and stages are those of `gatelog.readmodel.moments`.
"""

from msgspec import structs

from gatelog.readmodel import moments
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.past import Past
from gatelog.readmodel.shared import as_of_now, by_group
from gatelog.readmodel.starts import FIRST, OFF
from gatelog.serve.console.rendering import age
from gatelog.serve.console.view import PageView


def who_waits(
    asked: Asked, seen: PageView, queue: str, limit: int, offset: int, namespace: str = ""
) -> list[moments.WaitingRow]:
    """Return who is pending in a ClusterQueue ("": in all), in its order."""
    given = {"queue": queue, "namespace": namespace, "limit": limit, "offset": offset}
    query = moments.WAITING_AT if seen.at else moments.WAITING_NOW
    rows = asked.rows("who waits", moments.WaitingRow, query, {**given, "at": seen.moment})
    there = Past(asked.model, seen.at) if seen.at else asked.model
    short = by_group(there.shortages(namespace)) if rows else {}
    return [
        structs.replace(
            row,
            message=as_of_now(row.reason, row.message, short.get((row.namespace, row.name), ())),
        )
        for row in rows
    ]


def forecast_line(asked: Asked, seen: PageView) -> str:
    """Say how old expected starts are."""
    given = {"at": seen.moment, "limit": 1}
    (found,) = asked.rows("forecast", moments.ForecastRow, moments.FORECAST, given)
    if found.at is None:
        return OFF.capitalize() + "."
    if not found.seq:
        return FIRST.capitalize() + "."
    ago = age((seen.moment - found.at).total_seconds())
    return (
        f"Starts are of a forecast made {ago} ago; nine times in ten a start is within its range."
    )
