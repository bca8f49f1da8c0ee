"""The page of usage: resource hours used, held, wasted and waited for.

Invariant: amounts are those of `gatelog usage`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import structs

from gatelog.readmodel import usage as sums
from gatelog.readmodel.asked import Asked
from gatelog.readmodel.rates import Rates, missing, unit_name
from gatelog.serve.api import finding_usage
from gatelog.serve.console import picture
from gatelog.serve.console.axis import Time
from gatelog.serve.console.rendering import Page, page
from gatelog.serve.console.view import DAY, ROWS, PageView, Range, ordered

_DIVIDED = {
    **{key: key for key in ("namespace", "localqueue", "queue", "flavor")},
    "team": f"{sums.LABEL}team",
    "user": f"{sums.LABEL}user",
}
"""Word of an address, and the key it means; `label:KEY` is a word, too."""
_DRAWN = 4
"""Resources that are drawn."""


def usage(asked: Asked, seen: PageView) -> Page:
    """Return resource-hours by a key, in the range or on the day of the moment."""
    namespace = seen.query.get("namespace", "")
    by = seen.query.get("by", "").strip() or "namespace"
    chosen, day = seen.range, seen.moment.date()
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    window = chosen or Range(midnight, min(midnight + DAY, seen.now))
    since, until = window.since, window.until
    period = "hour" if until - since <= 2 * DAY else "day"
    key = _DIVIDED.get(by, by)
    spent = finding_usage.spent_by(asked.model, key, since, until, namespace, period)
    shares, periods = spent.shares, spent.steps
    asked.note(f"usage by {by} and by {period}", spent.query, spent.given)
    title = "Usage" if chosen else f"Usage on {day}"
    rates = asked.model.rates
    kept = {"namespace": namespace, "by": by}
    orders: dict[str, Callable[[sums.Share], Any]] = {
        by: lambda one: (one.key, one.resource),
        **{word: partial(_column, word) for word in sums.COLUMNS},
        **({_costs(rates): lambda one: one.cost} if rates else {}),
    }
    sorted_shares, sorts = ordered(seen, "/usage", shares, orders, **kept)
    keys = list(dict.fromkeys(one.key for one in sorted_shares))
    listed = set(keys[seen.offset : seen.offset + ROWS])
    rows = [one for one in sorted_shares if one.key in listed]
    body = {
        "window": window,
        "beside": None if chosen else _beside(seen, kept),
        "charts": _charts(periods, window, period, seen),
        "divisions": [
            (one, seen.link("/usage", **{**kept, "by": one}), by in (one, key))
            for one, key in _DIVIDED.items()
        ],
        "head": [by, "resource", *sums.COLUMNS, *([_costs(rates)] if rates else [])],
        "rows": _rows(shares, rows, priced=rates is not None),
        "sorts": sorts,
        "caption": f"{title}, by {by}",
        "left": len(keys) - seen.offset,
        "kept": {**kept, "sort": seen.query.get("sort")},
        "cost": _cost_note(rates is not None, spent.unpriced),
        "capped": sums.capped(shares),
        "link": lambda key: _groups(seen, by, key, namespace),
    }

    def data() -> dict[str, Any]:
        return {
            "day": day.isoformat(),
            "since": since,
            "until": until,
            "by": by,
            "currency": rates.currency if rates else None,
            "usage": [_numbers(one, priced=rates is not None) for one in shares],
            period: [_numbers(one, priced=rates is not None) for one in periods],
        }

    return page(title, data, seen, "usage", **body)


def _column(word: str, one: sums.Share) -> int:
    return one.spent.column(word)


def _costs(rates: Rates) -> str:
    return f"cost {rates.currency}".rstrip()


def _groups(seen: PageView, by: str, key: str, namespace: str) -> str:
    """Return the page of what a row adds up: its groups, worst waste first; "" for none."""
    if by == "group":
        return seen.link(f"/groups/{key}")
    if by == "namespace":
        return seen.link("/usage", namespace=key, by="group", sort="-wasted")
    if by == "queue" and seen.quota:
        return seen.link(f"/queues/{key}")
    label = _DIVIDED.get(by, by)
    if not label.startswith(sums.LABEL):
        return ""
    name = label.removeprefix(sums.LABEL)
    terms = f"{name}={key}" if key else f"!{name}"
    return seen.link("/groups", label=terms, namespace=namespace, sort="use", gone="1")


def _beside(seen: PageView, kept: Mapping[str, Any]) -> tuple[str, str]:
    """Return links to the day before and the day after, "" for a future day."""
    day = seen.moment.date()

    def other(to: date) -> str:
        at = {} if to >= seen.now.date() else {"at": f"{to}T23:59:59Z"}
        return "/usage?" + urlencode({**at, **{k: v for k, v in kept.items() if v}})

    return other(day - DAY), other(day + DAY) if day < seen.now.date() else ""


def _rows(
    shares: Sequence[sums.Share], listed: Sequence[sums.Share], *, priced: bool
) -> list[list[str]]:
    """Return a row for each share that is listed, and where there are several one for all."""
    totals = sums.totals(shares)
    places = sums.decimals(
        sums.hours(one.resource, number) for one in totals for number in one.spent.columns.values()
    )
    return [
        [
            one.key,
            f"{one.resource}, {unit_name(one.resource)}",
            *(
                f"{sums.hours(one.resource, number):,.{places}f}"
                for number in one.spent.columns.values()
            ),
            *([f"{sums.money(one.cost):,.2f}"] if priced else []),
        ]
        for one in [
            *listed,
            *(_all_of(one) for one in totals if len(shares) > 1),
        ]
    ]


def _numbers(one: sums.Share, *, priced: bool) -> dict[str, Any]:
    hours = {
        word: float(sums.hours(one.resource, number)) for word, number in one.spent.columns.items()
    }
    unit = {"key": one.key, "resource": one.resource, "unit": unit_name(one.resource)}
    return {**unit, **hours, "cost": float(sums.money(one.cost)) if priced else None}


def _charts(
    periods: Sequence[sums.Share], window: Range, period: str, seen: PageView
) -> list[Markup]:
    """Return a chart per resource: usage in each hour or day."""
    resources = list(dict.fromkeys(one.resource for one in periods))[:_DRAWN]
    step = timedelta(hours=1) if period == "hour" else DAY
    axis = Time(window.since, max(window.until, window.since + step), zone=seen.zone)
    charts = []
    for resource in resources:
        bars = [
            (datetime.fromisoformat(one.key), _taken(one))
            for one in periods
            if one.resource == resource
        ]
        words = f"{resource}, {unit_name(resource)} per {period}"
        charts.append(picture.spent(words, unit_name(resource), bars, axis, step))
    return [*charts, picture.spent_legend()] if charts else []


def _taken(one: sums.Share) -> dict[str, float]:
    classes = {"running": "running", "wasted": "failed", "held": "starting"}
    spent = one.spent.columns
    return {to: float(sums.hours(one.resource, spent[word])) for word, to in classes.items()}


def _all_of(one: sums.Share) -> sums.Share:
    return structs.replace(one, key="all")


def _cost_note(priced: bool, unpriced: Sequence[tuple[str, str]]) -> str:
    if not priced:
        return "What it cost is shown where rates are set (serve.rates_file)."
    if not unpriced:
        return "Cost is of all that was taken: what ran, and what was held without running."
    return f"There is {missing(unpriced)}."
