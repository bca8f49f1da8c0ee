"""`gatelog try -f FILE`: would these pods start now, and what would make them?

Invariant: nothing is written anywhere.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatelog.shell import options
from gatelog.shell.errors import CommandFailed, UsageFailed

if TYPE_CHECKING:
    from datetime import datetime

    from gatelog.trial.answers import Answer
    from podgroup.state.world import World
    from runtime.settings import Settings

EXAMPLES = """
gatelog try -f job.yaml -n team-a
kubectl create deployment x --image x --dry-run=client -o yaml | gatelog try -f - -n team-a
gatelog try -f job.yaml --at 2026-11-22T10:00:00Z
gatelog try -f job.yaml -o json
"""


@dataclass(frozen=True)
class TrialOptions:
    """The manifest to try, and its moment."""

    filename: Annotated[
        Path | None,
        typer.Option(
            "--filename",
            "-f",
            metavar="FILE",
            help="Manifest of pods, or of what makes them: Jobs, Deployments, sets; - is stdin.",
            allow_dash=True,
        ),
    ] = None
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", metavar="NS", help="Namespace of objects that name none."
        ),
    ] = "default"
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME|SPAN", help="As of a past moment, by the log. Default: now."),
    ] = None
    budget: Annotated[
        str,
        typer.Option(
            metavar="1s",
            help="Processor time that an estimate of the start may take; 0s: none is made.",
        ),
    ] = ""


def try_(
    given: TrialOptions,
    answer: options.OutputOptions,
    where: options.ReadModelOptions,
) -> int | None:
    """Would it start? Pods that are not made yet, put before the admission webhook and admission as
    they are now: refused with the field that is wrong; or started at once, in which flavor and
    place; or what is short, who would give way, when it is expected to start and what would make it
    start at once. Nothing is written. Exit code 0: it starts (or is not queued), 1: it waits,
    2: it is refused.
    """
    from gatelog.terminal import lookup, printing
    from gatelog.trial.answers import EXIT_CODES
    from gatelog.trial.commandline import print_answer, read_text

    text = read_text(str(given.filename or ""))
    settings = where.settings(search=True)
    lookup.say_where(settings, answer.form)
    with lookup.open_model(settings) as model:
        lookup.say_standstill(model, settings)
    found = _answer(given, text, settings)
    if answer.form is not None:
        sys.stdout.write(printing.document(found, answer.form))
    else:
        print_answer(found)
    return EXIT_CODES.get(found.verdict)


def _answer(given: TrialOptions, text: str, settings: "Settings") -> "Answer":
    """Try a text in the world of now, or of the moment that was named."""
    from datetime import UTC, datetime

    from gatelog.trial.starting import BUDGET_S, by_plays
    from gatelog.trial.trying import Asked, NotKnown, tried
    from projector.storage.urls import database_url
    from projector.upkeep import migrate

    url = database_url(settings)
    migrate.check(url)
    world, now = _world(url, given.at, settings)
    budget_s = _seconds(given.budget) if given.budget else BUDGET_S
    if world is None:
        raise CommandFailed("no projector has written to this read model yet: nothing can be tried")
    starts = None
    if budget_s and given.at is None:
        starts = by_plays(url, settings.forecast.label, budget_s)
    asked = Asked(text=text, namespace=given.namespace, at=now or datetime.now(UTC))
    try:
        return tried(world, asked, settings, starts)
    except NotKnown as error:
        raise CommandFailed(str(error)) from None


def _world(
    url: str, at: str | None, settings: "Settings"
) -> "tuple[World | None, datetime | None]":
    """Return the world of now, or of a moment and that moment."""
    from gatelog.trial.state import decidable, world_of

    if at is None:
        return world_of(url, settings.cluster), None
    import asyncio

    from gatelog.replay.online import world_at
    from gatelog.shell.since import moment
    from gatelog.terminal.lookup import clock

    now = clock(settings)
    then = min(moment("--at", at, now), now)
    return decidable(asyncio.run(world_at(settings, then)).world), then


def _seconds(text: str) -> float:
    from gatelog.shell.since import span

    found = span(text)
    if found is None or found.total_seconds() > 600:
        raise UsageFailed(f"--budget {text}: give a span like 1s, 600s at most")
    return found.total_seconds()
