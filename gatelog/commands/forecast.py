"""`gatelog forecast`: the expected starts of waiting groups.

Invariant: writes only the tables of estimates, and with --tell an annotation of Workloads; with
--dry-run nothing.
"""

import asyncio
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatelog.shell import options
from gatelog.shell.errors import UsageFailed

if TYPE_CHECKING:
    from gatelog.forecast.estimates import Made
    from gatelog.terminal.printing import Column, Output
    from runtime.settings import Settings

EXAMPLES = """
gatelog forecast
gatelog forecast -n team-a --dry-run
gatelog forecast --every 60s
gatelog forecast --every 60s --tell
gatelog forecast --every 5m --set health.port=9104
gatelog forecast -o json
"""

_MOST = 1000
"""Groups that are listed."""


@dataclass(frozen=True)
class RunOptions:
    """How often a forecast is made, from which data, and for whom."""

    every: Annotated[
        str | None,
        typer.Option(
            metavar="60s",
            help="Go on, and make one so often; /metrics is served at health.port. Default: once.",
        ),
    ] = None
    tell: Annotated[
        bool,
        typer.Option(
            "--tell",
            help="With --every: write what is new to Workloads, for kubectl get workloads.",
        ),
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show, and keep nothing: reads only.")
    ] = False
    label: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="Label of pods that tells runtimes apart. Default: forecast.label."
        ),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="20s",
            help="Processor time that it may take, for up to 60 plays. Default: forecast.budget_s.",
        ),
    ] = None


def forecast(
    scope: options.ScopeOptions,
    answer: options.TableOptions,
    where: options.ReadModelOptions,
    given: RunOptions,
) -> None:
    """When each group starts that waits: the present state is played forward many times, with how
    long groups of the same queue, label and shape have run, and with others coming as they lately
    came. Estimates are kept in SQL (`v_expected_starts`), with what came true of each.
    """
    from gatelog.terminal import lookup

    wanted_s = None if given.budget is None else _seconds("--budget", given.budget, 0.1, 3600)
    every_s = None if given.every is None else _seconds("--every", given.every, 1, 86_400)
    if every_s is not None and given.dry_run:
        raise UsageFailed("--every keeps estimates: leave --dry-run out")
    if every_s is None and given.tell:
        raise UsageFailed("--tell goes with --every: what is written has to be kept true")
    settings = where.settings(search=True)
    budget_s = settings.forecast.budget_s if wanted_s is None else wanted_s
    label = settings.forecast.label if given.label is None else given.label
    if every_s is not None:
        _again(settings, label, every_s, budget_s, tell=given.tell)
        return
    now = lookup.clock(settings)
    lookup.say_where(settings, answer.form)
    found = _made(settings, now, label, budget_s, keep=not given.dry_run, began_s=0.0)
    _print(found, now, scope.name, answer.form, headers=not answer.no_headers)


def _seconds(option: str, text: str, least: float, most: float) -> float:
    from gatelog.shell.since import span

    found = span(text)
    seconds = found.total_seconds() if found is not None else -1.0
    if not least <= seconds <= most:
        raise UsageFailed(f"{option} {text}: give a span like 60s or 5m, {least:g} s to {most:g} s")
    return seconds


def _made(
    settings: "Settings", now: datetime, label: str, budget_s: float, *, keep: bool, began_s: float
) -> "Made | None":
    """Make a forecast with the rest of its processor time, which began at `began_s`."""
    from sqlalchemy.exc import SQLAlchemyError

    from gatelog.forecast import refreshing
    from gatelog.shell.errors import CommandFailed
    from projector.storage.database import shown
    from projector.storage.urls import database_url
    from projector.upkeep import migrate

    url = database_url(settings)
    migrate.check(url)
    run = refreshing.refresh if keep else refreshing.make
    effort = refreshing.Effort.left(budget_s, began_s)
    try:
        return run(url, settings.cluster, now, label=label, effort=effort)
    except SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise CommandFailed(f"{shown(url)}: {said} (--dry-run writes nothing)") from error


def _print(
    found: "Made | None",
    now: datetime,
    namespace: str,
    output: "Output | None",
    *,
    headers: bool,
) -> None:
    from gatelog.terminal import printing

    rows = [
        row
        for row in (rows_of(found, now) if found is not None else [])
        if namespace in ("", row["namespace"])
    ]
    if not rows and output not in ("json", "yaml"):
        sys.stderr.write(f"nothing waits{f' in namespace {namespace}' if namespace else ''}\n")
        return
    printing.show(
        rows[:_MOST],
        _columns(now),
        output,
        names=lambda row: f"{row['namespace']}/{row['name']}",
        headers=headers,
    )
    if len(rows) > _MOST:
        sys.stderr.write(f"gatelog: more than {_MOST} wait; name a namespace\n")


def rows_of(made: "Made", now: datetime) -> list[dict[str, Any]]:
    """Return estimates as they are shown, times as times."""
    from gatelog.readmodel.starts import sentence
    from podgroup.model.ids import GroupID
    from podgroup.state.facts import cluster_queue_name

    def at(seconds: float | None) -> datetime | None:
        return None if seconds is None else made.at + timedelta(seconds=seconds)

    rows = []
    for one in made.forecast.estimates:
        group = made.world.groups[GroupID(one.group)]
        rows.append(
            {
                "namespace": group.namespace,
                "name": group.name,
                "cluster_queue": cluster_queue_name(made.world, group),
                "position": one.position,
                "expected_at": at(one.expected_s),
                "earliest_at": at(one.earliest_s),
                "latest_at": at(one.latest_s),
                "never": one.never,
                "unknown": one.unknown,
                "said": one.unknown
                or sentence(at(one.expected_s), at(one.latest_s), one.never, now),
                "plays": made.forecast.plays,
            }
        )
    return rows


def _columns(now: datetime) -> "list[Column[dict[str, Any]]]":
    from gatelog.terminal.printing import Column

    return [
        Column("CLUSTERQUEUE", lambda row: str(row["cluster_queue"])),
        Column("PLACE", lambda row: str(row["position"] or "-")),
        Column("NAMESPACE", lambda row: str(row["namespace"])),
        Column("NAME", lambda row: str(row["name"])),
        Column("EXPECTED", lambda row: str(row["said"])),
    ]


def _again(
    settings: "Settings", label: str, every_s: float, budget_s: float, *, tell: bool
) -> None:
    from contextlib import AsyncExitStack

    from gatelog.forecast import metering
    from gatelog.forecast.telling import WorkloadAnnotator
    from gatelog.shell.narrator import Narrator
    from gatelog.shell.runner import run
    from runtime import kube
    from runtime.health import Checks, serve_health
    from runtime.metrics import of

    narrator = Narrator(settings.log, "forecast", verbose=False)

    async def main(stop: asyncio.Event) -> None:
        checks = Checks()
        meters = metering.Meters(of(checks, settings))
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(serve_health(settings.health, checks))
            teller = None
            if tell:
                client = await kube.connect(settings.kubernetes, part="forecast")
                stack.push_async_callback(client.close)
                teller = WorkloadAnnotator(client)
            narrator.info("started", f"a forecast every {every_s:g} s; Ctrl-C stops it")
            while not stop.is_set():
                now = datetime.now(UTC)
                began_s = time.process_time()
                found = await asyncio.to_thread(
                    _made, settings, now, label, budget_s, keep=True, began_s=began_s
                )
                if found is not None:
                    meters.show(metering.readings(found))
                groups = len(found.forecast.estimates) if found is not None else 0
                given = found.given if found is not None else 0
                narrator.info(
                    "forecast", f"{groups} groups wait, {given} new estimates", groups=groups
                )
                if teller is not None and found is not None:
                    written, refused = await teller.write(found)
                    if written or refused:
                        said = f"estimates written to {written} Workloads, {refused} refused"
                        narrator.info("estimates_written", said, written=written, refused=refused)
                passed = (datetime.now(UTC) - now).total_seconds()
                try:
                    async with asyncio.timeout(max(0.1, every_s - passed)):
                        await stop.wait()
                except TimeoutError:
                    continue

    run(main)
