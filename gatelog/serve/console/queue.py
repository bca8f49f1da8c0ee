"""The page of one ClusterQueue: quota over time, waiting groups, and holders.

Invariant: the end of its chart equals the numbers of its table.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup

from gatelog.readmodel import quota, statements
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.statements.holders import HoldingRow, TakenBackRow
from gatelog.serve.api import finding_queues, params
from gatelog.serve.api.status import Refused
from gatelog.serve.console import picture
from gatelog.serve.console.axis import Time
from gatelog.serve.console.rendering import Page, age, page
from gatelog.serve.console.view import ROWS, PageView
from gatelog.serve.console.waiting import forecast_line, who_waits
from gatelog.serve.console.window import fitting

_MOST_MARKS = 2000


def queue(asked: Asked, seen: PageView, name: str) -> Page:
    """Return one ClusterQueue: waiting groups, holders, and usage over the window."""
    named = finding_queues.queue_objects(asked.model, "ClusterQueue", "", name, limit=1)
    if not named:
        raise Refused(404, f"there is no ClusterQueue {name}")
    (found,) = named
    given = {"queue": name, "at": seen.moment, "limit": ROWS + 1, "offset": seen.offset}
    waiting = who_waits(asked, seen, name, ROWS + 1, seen.offset)
    forecast = forecast_line(asked, seen)
    held = statements.holders.HOLDING[asked.model.dialect]
    holding = asked.rows("who holds", HoldingRow, held, given)
    window = fitting(asked, seen)
    since, until = window.since, window.until
    series = _over_time(asked, name, since, until)
    axis = Time(since, until, seen.moment, past=seen.at is not None, zone=seen.zone)
    marks = _taken_back(asked, seen, {**given, "since": since, "until": until})
    stood = asked.model.quota("ClusterQueue", name=name, at=seen.at, note=asked.note)
    usage = finding_queues.cluster_queue(found, (), stood)
    root = stood[0].root if stood and stood[0].root else usage.cohort
    path = f"/queues/{name}"
    shown = {
        "heading": f"ClusterQueue {name}",
        "path": path,
        "charts": _charts(series[:8], axis, marks),
        "root": root,
        "forecast": forecast if waiting else "",
        "idle": [] if seen.at else asked.model.idle(queue=name, limit=ROWS),
        "length": max(len(waiting), len(holding)),
    }
    data = {
        "name": name,
        "usage": usage.usage,
        "overTime": {
            "since": since,
            "until": until,
            "steps": quota.STEPS,
            "series": series,
        },
        "waiting": waiting[:ROWS],
        "holding": holding[:ROWS],
    }
    rows = {"waiting": waiting[:ROWS], "holding": holding[:ROWS]}
    return page(f"Queue {name}", data, seen, "queue", usage=usage, **rows, **shown)


def _taken_back(asked: Asked, seen: PageView, given: Mapping[str, Any]) -> list[picture.Mark]:
    """Return marks for admissions that were taken back; each leads to its group."""
    given = {**given, "limit": _MOST_MARKS}
    return [
        picture.Mark(
            one.at,
            f"{one.reason} {one.namespace}/{one.name}",
            seen.link(f"/groups/{one.namespace}/{one.name}", life=one.id),
        )
        for one in asked.rows("taken back", TakenBackRow, statements.holders.TAKEN_BACK, given)
    ]


def _charts(
    series: Sequence[quota.Series], axis: Time, marks: Sequence[picture.Mark]
) -> list[Markup]:
    """Draw quota held over time, a chart for each flavor and resource."""
    step = age(axis.seconds / quota.STEPS)
    begin, end = (f"{at.astimezone(axis.zone):%Y-%m-%d %H:%M}" for at in (axis.begin, axis.end))
    times = f"held from {begin} to {end}, as it stood every {step}"
    drawn = [
        picture.usage(f"{one.resource} ({one.flavor}): {times}", one, axis, marks) for one in series
    ]
    return [*drawn, picture.usage_legend()] if drawn else []


def _over_time(asked: Asked, name: str, since: datetime, until: datetime) -> list[quota.Series]:
    """Return what a queue held, borrowed and lent over a window."""
    given = {**quota.window(since, until), "name": name, "limit": params.MOST_ROWS}
    query = quota.OVER_TIME[asked.model.dialect]
    return quota.over_time(name, asked.rows("quota over time", quota.StepRow, query, given))
