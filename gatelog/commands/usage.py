"""`gatelog usage`: amounts used, held, wasted and waited for, by owner, and their cost.

Invariant: reads only; rows of one period add up to the same totals, however they are divided.
"""

import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from gatelog.shell import options
from gatelog.shell.errors import CommandFailed, UsageFailed

if TYPE_CHECKING:
    from gatelog.readmodel.model import ReadModel
    from gatelog.readmodel.rates import Rates
    from gatelog.readmodel.usage import Idle, Share
    from runtime.settings import Settings

EXAMPLES = """
gatelog usage --since 7d
gatelog usage --by label:team --since 2026-11-01 --until 2026-12-01 --rates rates.toml
gatelog usage --by queue --since 24h
gatelog usage -n team-a --by user --since yesterday
gatelog usage --used --since 7d
gatelog usage --failures --since 30d
gatelog usage --idle --rates rates.toml
gatelog usage --by hour --since 2d -o csv > usage.csv
"""


@dataclass(frozen=True)
class WhatOptions:
    """The kind of answer, and its division."""

    by: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="namespace, queue (ClusterQueue), localqueue, flavor, label:KEY, user, group, "
            "hour or day. Default: namespace.",
        ),
    ] = None
    used: Annotated[
        bool,
        typer.Option(
            "--used",
            help="By owner and shape: asked for and really used, the most unused first "
            "(ingest.measure_interval_s).",
        ),
    ] = False
    failures: Annotated[
        bool,
        typer.Option(
            "--failures",
            help="By owner and shape: OOM kills, evictions by nodes, other failures and restarts, "
            "with what was asked for at the time.",
        ),
    ] = False
    idle: Annotated[
        bool,
        typer.Option(
            "--idle",
            help="Groups that hold quota now and run nothing, since when, and what that has cost.",
        ),
    ] = False
    user_label: Annotated[
        str,
        typer.Option(
            metavar="LABEL",
            help="Label of pods that names their user: Kubernetes does not say who made a pod.",
        ),
    ] = "user"

    @property
    def shapes(self) -> bool:
        """Whether rows are by owner and shape."""
        return self.used or self.failures

    @property
    def key(self) -> str:
        """The key that divides sums."""
        by = self.by or "namespace"
        return f"label:{self.user_label}" if by == "user" else by


@dataclass(frozen=True)
class SpanOptions:
    """Of which time."""

    since: Annotated[
        str | None,
        typer.Option(metavar="TIME|SPAN", help="From: a time, or 7d, 12h, 30m ago. Default: 7d."),
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="TIME|SPAN", help="To: the same. Default: now.")
    ] = None

    def period(self, now: datetime) -> tuple[datetime, datetime]:
        """Return begin and end.

        Raises:
            UsageFailed: the end is not after the begin.
        """
        from gatelog.shell.since import moment

        since = self.since or "7d"
        end = now if self.until is None else moment("--until", self.until, now)
        begin = moment("--since", since, now)
        if begin >= end:
            raise UsageFailed(f"--since {since} is not before --until {self.until or 'now'}")
        return begin, max(begin, min(end, now))  # after the end of a copy nothing is known


@dataclass(frozen=True)
class FormOptions:
    """How the answer is printed."""

    output: Annotated[
        Literal["wide", "csv", "json", "yaml"] | None,
        typer.Option("--output", "-o", help="Form of the answer. Default: a table."),
    ] = None
    no_headers: options.NoHeaders = False


class _Sums(NamedTuple):
    """What was used, and the quota that was not, of a period; `rates`: what that costs."""

    by: str
    period: tuple[datetime, datetime]
    shares: "list[Share]"
    idle: "list[Idle]"
    rates: "Rates | None"
    notes: list[str]


def usage(
    where: options.ReadModelOptions,
    what: WhatOptions,
    span: SpanOptions,
    form: FormOptions,
    namespace: options.Namespace = None,
    rates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What an hour costs (TOML, docs/usage.md).")
    ] = None,
) -> None:
    """Resource-hours asked for while pods ran, held while they did not (admitted and not started,
    terminating, a group that is not whole), wasted (attempts that failed, were preempted or
    evicted) and waited for, with what they cost, and apart from that what ran without an admission;
    by queue or flavor also the quota that was idle. Or, by owner and shape: what was really used,
    and what failed. docs/usage.md says what is counted how.
    """
    from gatelog.terminal import lookup

    if namespace and (what.idle or what.shapes):
        raise UsageFailed("-n goes without --idle, --used and --failures")
    if what.idle:
        if what.shapes or what.by is not None:
            raise UsageFailed("--idle goes without --used, --failures and --by")
        if span.since is not None or span.until is not None:
            raise UsageFailed("--idle goes without --since and --until: it is about now")
        settings = where.settings(search=True)
        lookup.say_where(settings, form.output)
        _idle_holders(settings, rates, lookup.clock(settings), form)
        return
    if what.shapes:
        if (what.used and what.failures) or rates is not None or what.by is not None:
            raise UsageFailed("--used and --failures go without each other, --by and --rates")
    known = None if what.shapes else _known(what, rates)
    settings = where.settings(search=True)
    period = span.period(lookup.clock(settings))
    lookup.say_where(settings, form.output)
    if what.shapes:
        _shapes(settings, period, form, used=what.used)
        return
    _print(_sums(settings, what, period, known, namespace or ""), form)


def _known(what: WhatOptions, rates: Path | None) -> "Rates | None":
    """Return the rates, having seen that they and the key can be used.

    Raises:
        UsageFailed: they cannot.
    """
    from gatelog.readmodel import rates as prices
    from gatelog.readmodel import usage as sums
    from projector.schema.dialect import SQLITE

    sums.key_expression(what.key, SQLITE)
    return None if rates is None else prices.read(rates)


def _sums(
    settings: "Settings",
    what: WhatOptions,
    period: tuple[datetime, datetime],
    known: "Rates | None",
    namespace: str,
) -> _Sums:
    """Return the sums of a period, divided as is wanted."""
    from gatelog.readmodel import rates as prices
    from gatelog.readmodel import usage as sums
    from gatelog.terminal import lookup
    from projector.schema.dialect import home

    by, key, (begin, end) = what.by or "namespace", what.key, period
    given: dict[str, Any] = {"since": begin, "until": end, "limit": sums.MOST_ROWS}
    given["cut"] = sums.first_cut(by, begin, end)
    if namespace:
        given["namespace"] = namespace
    if key.startswith(sums.LABEL):
        given["key"] = key.removeprefix(sums.LABEL)
    with lookup.open_model(settings) as model:
        dialect = home(model.dialect)
        found = model.dicts(sums.query(key, dialect, one_namespace=bool(namespace)), given)
        unused = []
        if by in ("queue", "flavor") and not namespace:  # quota is of no namespace
            unused = sums.idle(model.dicts(sums.quota_query(dialect), given))
        notes = _notes(model, begin)
    if len(found) == sums.MOST_ROWS:
        raise CommandFailed(f"--by {by} gives more than {sums.MOST_ROWS} sums: ask for less time")
    shares, unpriced = sums.added_up(found, known)
    if unpriced and known is not None:
        notes.append(f"--rates has {prices.missing(unpriced)}")
    notes += sums.capped(shares)
    return _Sums(by, period, shares, unused, known, notes)


def _print(found: _Sums, form: FormOptions) -> None:
    if form.output in ("json", "yaml"):
        _document(found, form.output)
        return
    for note in found.notes:
        sys.stderr.write(f"gatelog: {note}\n")
    if form.output == "csv":
        _csv(found, headers=not form.no_headers)
    else:
        _table(found, wide=form.output == "wide", headers=not form.no_headers)


def _idle_holders(
    settings: "Settings",
    rates: Path | None,
    now: datetime,
    form: FormOptions,
) -> None:
    """Print groups that hold quota and run nothing, and their cost."""
    from gatelog.commands import shapes as printed
    from gatelog.readmodel import rates as prices
    from gatelog.readmodel import usage as sums
    from gatelog.terminal import lookup

    known = None if rates is None else prices.read(rates)
    with lookup.open_model(settings) as model:
        rows = model.dicts(sums.IDLE_HOLDERS, {"limit": sums.MOST_ROWS})
    found, unpriced = sums.idle_holders(rows, known)
    begin = min((row["since"] for row in found), default=now)
    notes = [] if found else ["no group holds quota and runs nothing"]
    if unpriced:
        notes.append(f"{rates} has {prices.missing(unpriced)}")
    headers = not form.no_headers
    printed.show(found, printed.HOLDERS, form.output, (begin, now), notes, headers=headers)


def _shapes(
    settings: "Settings",
    period: tuple[datetime, datetime],
    form: FormOptions,
    *,
    used: bool,
) -> None:
    """Print the findings by owner and shape."""
    from gatelog.commands import shapes as printed
    from gatelog.readmodel import shapes
    from gatelog.readmodel.usage import MOST_ROWS
    from gatelog.terminal import lookup
    from projector.schema.dialect import home

    begin, end = period
    with lookup.open_model(settings) as model:
        dialect = home(model.dialect)
        query = shapes.used_query(dialect) if used else shapes.failures_query(dialect)
        found = model.dicts(query, {"since": begin, "until": end, "limit": MOST_ROWS})
        notes = _notes(model, begin)
    if len(found) == MOST_ROWS:
        raise CommandFailed(f"that are more than {MOST_ROWS} rows: ask for less time")
    if used and not found:
        notes.append(
            "nothing was measured then: ingest samples what pods really use where "
            "ingest.measure_interval_s is set and the cluster has a metrics API (gatelog doctor)"
        )
    columns = printed.USED if used else printed.FAILURES
    rows = [shapes.used(row) if used else shapes.failure(row) for row in found]
    printed.show(rows, columns, form.output, period, notes, headers=not form.no_headers)


def _notes(model: "ReadModel", begin: datetime) -> list[str]:
    """What an answer lacks."""
    before = model.pruned()
    if before is not None and before > begin:
        return [f"groups and pods that were gone before {before:%Y-%m-%d} were pruned: not counted"]
    return []


def _values(share: "Share") -> "dict[str, Any]":
    from gatelog.readmodel.rates import unit_name
    from gatelog.readmodel.usage import HOLDS, WASTES, hours, money

    spent = share.spent
    parts = {f"held_{why}": spent.held.get(why, 0) for why in HOLDS}
    parts |= {f"wasted_{why}": spent.wasted.get(why, 0) for why in WASTES}
    amounts = {**spent.columns, "taken": spent.taken, **parts}
    return {
        "key": share.key,
        "resource": share.resource,
        "unit": unit_name(share.resource),
        **{name: hours(share.resource, amount) for name, amount in amounts.items()},
        "cost": money(share.cost),
        "cost_of_held": money(share.cost_of_held),
        "cost_of_wasted": money(share.cost_of_wasted),
    }


def _idle_values(one: "Idle", rates: "Rates | None") -> "dict[str, Any]":
    from gatelog.readmodel.rates import unit_name
    from gatelog.readmodel.usage import hours, money
    from podgroup.model.wording import UNLIMITED

    cost = {} if rates is None else {"cost_of_idle": money(one.cost(rates))}

    return {
        "cluster_queue": one.cluster_queue,
        "flavor": one.flavor,
        "resource": one.resource,
        "unit": unit_name(one.resource),
        "quota": UNLIMITED if one.unlimited else hours(one.resource, one.quota),
        "taken": hours(one.resource, one.taken),
        "idle": UNLIMITED if one.unlimited else hours(one.resource, one.idle),
        "reserved": hours(one.resource, one.reserved),
        **cost,
    }


def _document(sums: _Sums, output: Literal["json", "yaml"]) -> None:
    from gatelog.readmodel.usage import totals
    from gatelog.terminal.printing import document

    def row(share: "Share") -> dict[str, Any]:
        values = _values(share)
        if sums.rates is None:
            values = {name: v for name, v in values.items() if not name.startswith("cost")}
        return {name: _number(value) for name, value in values.items()}

    found = {
        "by": sums.by,
        "since": sums.period[0],
        "until": sums.period[1],
        "currency": None if sums.rates is None else sums.rates.currency,
        "rows": [row(share) for share in sums.shares],
        "total": [row(share) for share in totals(sums.shares)],
        "quota": [
            {name: _number(v) for name, v in _idle_values(one, sums.rates).items()}
            for one in sums.idle
        ],
        "notes": sums.notes,
    }
    sys.stdout.write(document(found, output))


def _number(value: Any) -> Any:
    return value if isinstance(value, str) else float(value)


def _csv(found: _Sums, *, headers: bool) -> None:
    """Print a row per key and resource; by queue and flavor also quota that was not taken."""
    from gatelog.readmodel.usage import Share
    from gatelog.terminal.printing import separated

    by, rates = found.by, found.rates
    quota: dict[tuple[str, str], dict[str, Any]] = {}
    for one in found.idle:
        key = (one.cluster_queue if by == "queue" else one.flavor, one.resource)
        values, sums = _idle_values(one, rates), quota.setdefault(key, {})
        for name in ("quota", "idle", "reserved", "cost_of_idle"):
            more, known_yet = values.get(name, 0), sums.get(name, 0)
            words = [one for one in (more, known_yet) if isinstance(one, str)]
            sums[name] = words[0] if words else known_yet + more
    known = {(share.key, share.resource): share for share in found.shares}
    none = (
        {"quota": 0, "idle": 0, "reserved": 0, "cost_of_idle": 0}
        if by in ("queue", "flavor")
        else {}
    )
    rows = [
        _values(known.get(key) or Share(key=key[0], resource=key[1])) | none | quota.get(key, {})
        for key in sorted(known.keys() | quota.keys())
    ]
    heads = [[by if name == "key" else name for name in rows[0]]] if rows and headers else []
    separated([*heads, *(row.values() for row in rows)], sys.stdout)


def _table(found: _Sums, *, wide: bool, headers: bool) -> None:
    from gatelog.readmodel.usage import COLUMNS, HOLDS, WASTES, decimals, totals
    from gatelog.terminal.printing import table

    rates, shown = found.rates, [*COLUMNS]
    sums = totals(found.shares)
    places = decimals(_values(one)[name] for one in sums for name in COLUMNS)
    if wide:
        shown += [f"held_{why}" for why in HOLDS] + [f"wasted_{why}" for why in WASTES]
    currency = "" if rates is None else rates.currency
    costs = [] if rates is None else ["cost", "cost_of_held", "cost_of_wasted"]
    heads = [
        found.by.upper(),
        "RESOURCE",
        "UNIT",
        *(name.replace("_", " ").upper() for name in shown),
    ]
    heads += [f"{name.replace('_', ' ').upper()} {currency}".rstrip() for name in costs]

    def cells(share: "Share", key: str) -> list[str]:
        values = _values(share)
        amounts = [f"{values[name]:.{places}f}" for name in shown]
        prices = [f"{values[name]:.2f}" for name in costs]
        return [key, share.resource, str(values["unit"]), *amounts, *prices]

    rows = [cells(share, share.key or "(none)") for share in found.shares]
    rows += [cells(share, "(all)") for share in sums]
    table(heads, rows, headers=headers, out=sys.stdout)
    if found.idle:
        sys.stdout.write("\n")
        heads = ["QUEUE", "FLAVOR", "RESOURCE", "UNIT", "QUOTA", "TAKEN", "IDLE", "RESERVED"]
        heads += [f"COST OF IDLE {currency}".rstrip()] if rates is not None else []
        lines = [
            [
                str(v) if isinstance(v, str) else f"{v:.2f}"
                for v in _idle_values(one, rates).values()
            ]
            for one in found.idle
        ]
        table(heads, lines, headers=headers, out=sys.stdout)
