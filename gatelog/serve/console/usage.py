"""The page of usage: what was used, held, wasted and waited for.

Invariant: amounts are those of `gatelog usage`.
"""

from collections.abc import Mapping, Sequence, Set
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import structs

from gatelog.readmodel import usage as sums
from gatelog.readmodel.moments import Asked
from gatelog.readmodel.rates import missing, unit_name
from gatelog.serve.api import finding_usage
from gatelog.serve.console import picture
from gatelog.serve.console.axis import Time
from gatelog.serve.console.rendering import Page, page
from gatelog.serve.console.view import DAYS, ROWS, PageView, read_days

_DIVIDED = {
    **{key: key for key in ("namespace", "localqueue", "queue", "flavor")},
    "team": f"{sums.LABEL}team",
    "user": f"{sums.LABEL}user",
}
"""Word of an address, and the key it means; `label:KEY` is a word, too."""
_DRAWN = 4
"""Resources that are drawn."""


def usage(asked: Asked, seen: PageView) -> Page:
    """Return resource-hours by a key, on the day of the moment or in the days up to it."""
    namespace = seen.query.get("namespace", "")
    day, days = seen.moment.date(), read_days(seen)
    by = seen.query.get("by", "").strip() or "namespace"
    since = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(days=days - 1)
    until = min(since + timedelta(days=days), seen.now)
    period = "hour" if days == 1 else "day"
    key = _DIVIDED.get(by, by)
    spent = finding_usage.spent_by(asked.model, key, since, until, namespace, period)
    shares, periods = spent.shares, spent.steps
    asked.note(f"usage by {by} and by {period}", spent.query, spent.given)
    title = f"Usage of the {DAYS[days]} to {day}" if days > 1 else f"Usage on {day}"
    rates = asked.model.rates
    keys = sorted({one.key for one in shares})
    listed = set(keys[seen.offset : seen.offset + ROWS])
    shown = _rows(shares, listed, priced=rates is not None)
    head = [by, "resource", *sums.COLUMNS]
    head += [f"cost {rates.currency}".rstrip()] if rates else []
    path, chosen = "/usage", {"namespace": namespace, "by": by}
    kept = {**chosen, "days": days if days > 1 else None}
    ranges = [
        (words, seen.link(path, **chosen, days=one if one > 1 else None), one == days)
        for one, words in DAYS.items()
    ]
    divisions = [
        (one, seen.link(path, **{**kept, "by": one}), by in (one, key))
        for one, key in _DIVIDED.items()
    ]
    body = {
        "ranges": ranges,
        "beside": _beside(seen, path, kept),
        "charts": _charts(periods, since, until, period),
        "divisions": divisions,
        "head": head,
        "rows": shown,
        "caption": f"{title}, by {by}",
        "left": len(keys) - seen.offset,
        "path": path,
        "kept": kept,
        "cost": _cost_note(rates is not None, spent.unpriced),
        "capped": sums.capped(shares),
    }
    data = {
        "day": day.isoformat(),
        "days": days,
        "by": by,
        "currency": rates.currency if rates else None,
        "usage": [_numbers(one, priced=rates is not None) for one in shares],
        period: [_numbers(one, priced=rates is not None) for one in periods],
    }
    return page(title, data, seen, "usage", **body)


def _beside(seen: PageView, path: str, kept: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what is chosen, and links to as much before and after it, "" for what is to come."""
    day, days = seen.moment.date(), read_days(seen)

    def other(to: date) -> str:
        at = {} if to >= seen.now.date() else {"at": f"{to}T23:59:59Z"}
        return path + "?" + urlencode({**at, **{k: v for k, v in kept.items() if v}})

    after = other(day + timedelta(days=days)) if day < seen.now.date() else ""
    return DAYS[days], other(day - timedelta(days=days)), after


def _rows(shares: Sequence[sums.Share], listed: Set[str], *, priced: bool) -> list[list[str]]:
    """Return a row for each share of keys, and where there are several one for all of each."""
    totals = sums.totals(shares)
    places = sums.decimals(
        sums.hours(one.resource, number) for one in totals for number in one.spent.columns.values()
    )
    return [
        [
            one.key or "–",
            f"{one.resource}, {unit_name(one.resource)}",
            *(
                f"{sums.hours(one.resource, number):,.{places}f}"
                for number in one.spent.columns.values()
            ),
            *([f"{sums.money(one.cost):,.2f}"] if priced else []),
        ]
        for one in [
            *(one for one in shares if one.key in listed),
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
    periods: Sequence[sums.Share], since: datetime, until: datetime, period: str
) -> list[Markup]:
    """Return a chart per resource: what was taken in each hour or day."""
    resources = list(dict.fromkeys(one.resource for one in periods))[:_DRAWN]
    step = timedelta(hours=1) if period == "hour" else timedelta(days=1)
    axis = Time(since, max(until, since + step))
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
