"""The page of one ClusterQueue: quota over time, who waits, who holds.

Invariant: the end of its chart is what its table says.
"""

from collections.abc import Sequence
from datetime import datetime

from gatelog.readmodel import moments, quota
from gatelog.readmodel.moments import Asked
from gatelog.serve.api import finding_queues, params
from gatelog.serve.api import objects as o
from gatelog.serve.api.status import Refused
from gatelog.serve.console import picture
from gatelog.serve.console.html import Columns, Html, h, listing
from gatelog.serve.console.parts import (
    ROWS,
    Page,
    PageView,
    age,
    group_link,
    held_text,
    page,
    pager,
    when,
    whens,
)
from gatelog.serve.console.waiting import forecast_line, line_table, who_waits
from gatelog.serve.console.window import fitting, others


def queue(asked: Asked, seen: PageView, name: str) -> Page:
    """Return one ClusterQueue: who waits, who holds, and what was held in the last day."""
    named = finding_queues.queue_objects(asked.model, "ClusterQueue", "", name, limit=1)
    if not named:
        raise Refused(404, f"there is no ClusterQueue {name}")
    (found,) = named
    given = {"queue": name, "at": seen.moment, "limit": ROWS + 1, "offset": seen.offset}
    waiting = who_waits(asked, seen, name, ROWS + 1, seen.offset)
    stuck = [one for one in waiting[:ROWS] if not one.position]
    forecast = forecast_line(asked, seen)
    holding = asked.rows("who holds", moments.HoldingRow, moments.HOLDING, given)
    window = fitting(asked, seen)
    since, until = window.since, window.until
    series = _over_time(asked, name, since, until)
    stood = asked.model.quota("ClusterQueue", name=name, at=seen.at, note=asked.note)
    usage = finding_queues.cluster_queue(found, (), stood)
    root = stood[0].root if stood and stood[0].root else usage.cohort
    path = f"/queues/{name}"
    body = [
        h(
            "p",
            usage.strategy,
            [", cohort ", h("a", usage.cohort, href=seen.link(f"/cohorts/{root}"))]
            if usage.cohort
            else None,
            class_="quiet",
        ),
        _quota(usage, seen),
        h("h2", "Held over time"),
        others(seen, path, window),
        _charts(series[:8], since, until),
        h("h2", "Who waits, in order"),
        h("p", forecast, class_="quiet") if waiting else None,
        line_table([one for one in waiting[:ROWS] if one.position], seen),
        h("h2", "Stuck: no quota would start them") if stuck else None,
        line_table(stuck, seen) if stuck else None,
        pager(seen, path, max(len(waiting), len(holding)), hours=seen.query.get("hours")),
        _idle(asked, seen, name),
        h("h2", "Who holds"),
        _holders(holding[:ROWS], seen),
    ]
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
    return page(f"Queue {name}", data, body, heading=f"ClusterQueue {name}")


def _charts(series: Sequence[quota.Series], since: datetime, until: datetime) -> list[Html] | Html:
    """Draw what was held over time, a chart for each flavor and resource."""
    if not series:
        return h("p", "nothing", class_="quiet")
    step = age((until - since).total_seconds() / quota.STEPS)
    times = (
        f"held from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC, as it stood every {step}"
    )
    drawn = [
        picture.usage(f"{one.resource} ({one.flavor}): {times}", one, since, until)
        for one in series
    ]
    return [*drawn, picture.usage_legend()]


def _quota(usage: o.ClusterQueueUsage, seen: PageView) -> Html:
    columns: Columns = {
        "flavor and resource": lambda one: f"{one.resource} of {one.flavor}",
        "quota": "nominal",
        "held": "held",
        "borrowed": lambda one: one.borrowed or "0",
        "unadmitted": lambda one: one.unadmitted or "0",
        "idle": lambda one: one.idle or "0",
        "lent": lambda one: one.lent or "0",
    }
    return listing(columns, usage.usage, "Quota at the time" if seen.at else "Quota", "no quota")


def _holders(holding: Sequence[moments.HoldingRow], seen: PageView) -> Html:
    columns: Columns = {
        "group": lambda one: group_link(seen, one.namespace, one.name, one.id),
        "priority": "priority",
        "since": whens(seen, "admitted_at"),
        "runs": lambda one: _runs(one, seen),
        "holds": lambda one: held_text(one.resources),
    }
    return listing(columns, holding, "Oldest admission first")


def _runs(one: moments.HoldingRow, seen: PageView) -> Html:
    """Say how many of a holder's pods run, or since when none does."""
    if one.nothing_since is None:
        return h("span", f"{one.running:,} pods" if one.running > 1 else "1 pod", class_="num")
    return h("span", h("b", "nothing"), ", since ", when(one.nothing_since, seen))


def _idle(asked: Asked, seen: PageView, queue: str) -> Html | None:
    """Return who holds quota and runs nothing, as it is now."""
    rows = [] if seen.at else asked.model.idle(queue=queue, limit=ROWS)
    if not rows:
        return None
    columns: Columns = {
        "group": lambda one: group_link(seen, one.namespace, one.name),
        "since": whens(seen, "since"),
        "why": "message",
    }
    return h("div", h("h2", "Holds quota, runs nothing"), listing(columns, rows, "Longest first"))


def _over_time(asked: Asked, name: str, since: datetime, until: datetime) -> list[quota.Series]:
    """Return what a queue held, borrowed and lent over a window."""
    given = {**quota.window(since, until), "name": name, "limit": params.MOST_ROWS}
    query = quota.OVER_TIME[asked.model.dialect]
    return quota.over_time(name, asked.rows("quota over time", quota.StepRow, query, given))
