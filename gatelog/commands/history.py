"""`gatelog history NS/NAME`: what happened to a group, when, and why - from SQL.

Invariant: reads only; the statement of `--sql` gives the same rows.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gatelog.shell import options
from gatelog.shell.errors import FAILED, UsageFailed
from gatelog.terminal import completing
from gatelog.terminal.printing import document

if TYPE_CHECKING:
    from rich.console import Console

    from gatelog.readmodel.rows import GroupRow

EARLIER = 5
"""Earlier lives that are named below the newest."""

EXAMPLES = """
gatelog history team-a/train
gatelog history team-a/train --all --utc
gatelog history train -n team-a --follow
gatelog history team-a/train-worker-3 --json | jq '.[0].entries[].kind'
"""

Title = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE/NAME", help="Group or pod.", autocompletion=completing.groups
    ),
]


@dataclass(frozen=True)
class StoryOptions:
    """How much of a story is shown, and how."""

    every: Annotated[
        bool, typer.Option("--all", help="All lives of the name, newest first; not the last only.")
    ] = False
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL statement instead of running it.")
    ] = False
    full: Annotated[
        bool, typer.Option("--full", help="Every row: notes, decisions, waits, failed attempts.")
    ] = False
    utc: Annotated[
        bool, typer.Option("--utc", help="Date and milliseconds (UTC) in every line.")
    ] = False


class _Life(NamedTuple):
    """A life of a group, and all that its story is made of."""

    group: "GroupRow"
    missing: Any
    settings: Any
    entries: Any


def history(
    answer: options.OutputOptions,
    where: options.ReadModelOptions,
    story: StoryOptions,
    title: Title,
    namespace: options.Namespace = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", "--watch", "-w", help="Go on showing it until it is over."),
    ] = False,
) -> int | None:
    """The story of a pod group or single pod: what happened, when, and why (which rule decided, in
    words). NAME may also be a pod's name.
    """
    from gatelog.readmodel.gaps import missing
    from gatelog.readmodel.inforce import of_group
    from gatelog.readmodel.statements.story import ENTRIES
    from gatelog.terminal import console, lookup

    output = answer.form
    if follow and (story.every or output is not None or story.sql):
        raise UsageFailed("--follow goes with none of --all, -o, --json and --sql")
    namespace, name = lookup.titled(title, namespace or "")
    settings = where.settings(search=True)
    if not story.sql:
        lookup.say_where(settings, output)
    out = console.console()
    with lookup.open_model(settings) as model:
        lives = model.groups(namespace, name)
        if not lives:
            lookup.say_not_found(model, namespace, name)
            return FAILED
        chosen = lives if story.every else lives[:1]
        if story.sql:
            for group in chosen:
                given = {"group_id": group.id, "own_only": 0}
                out.print(model.statement(ENTRIES, given), soft_wrap=True)
            return None
        found = [
            _Life(group, missing(model, group), of_group(model, group), model.entries(group.id))
            for group in chosen
        ]
        pruned, now = model.pruned(), model.clock()
    if output is not None:
        sys.stdout.write(document([life._asdict() for life in found], output))
        return None
    for number, life in enumerate(found):
        if number:
            out.print()
        _show(out, life, pruned, story, now)
    if len(lives) > len(chosen):
        _name_earlier(out, lives, now)
    if follow:
        from gatelog.terminal.following import follow_group

        with lookup.open_model(settings) as model:
            rows = found[0].entries
            follow_group(model, lives[0], rows, out, full=story.full, absolute=story.utc)
    return None


def _show(
    out: "Console", life: _Life, pruned: datetime | None, story: StoryOptions, now: datetime
) -> None:
    from gatelog.readmodel import timeline
    from gatelog.readmodel.inforce import briefly
    from gatelog.readmodel.waitbars import bars
    from gatelog.terminal import console

    group, rows, by = life.group, life.entries, life.settings
    out.print(console.heading(group))
    start = rows[0].at if rows else group.created_at
    out.print(f"[{console.QUIET}]from {start:%Y-%m-%d %H:%M:%S} UTC, {_until(group, now)}[/]")
    if pruned is not None and group.created_at < pruned:
        gone = f"history before {pruned:%Y-%m-%d} 00:00 UTC was pruned"
        out.print(f"[{console.QUIET}]{gone}[/]")
    if life.missing:
        out.print(console.missing(life.missing))
    if by and briefly(by[0]):
        out.print(f"[{console.QUIET}]decided by {briefly(by[0])} (all: gatelog epochs)[/]")
    lines = timeline.raw(rows) if story.full else timeline.story_lines(rows)
    changed = [
        timeline.StoryLine(at=one.at, what="settings changed", why=one.changes())
        for one in by[1:]
        if one.at is not None
    ]
    if changed:
        lines = sorted((*lines, *changed), key=lambda line: line.at)
    out.print(console.timeline(lines, start, absolute=story.utc))
    waited = bars(rows, start, now, console.WAIT)
    if waited is not None:
        out.print()
        out.print(waited)


def _name_earlier(out: "Console", lives: "Sequence[GroupRow]", now: datetime) -> None:
    from gatelog.terminal import console

    more = len(lives) - 1
    word = "life" if more == 1 else "lives"
    out.print(f"\n[{console.QUIET}]{more} earlier {word} of this name: add --all[/]")
    for group in lives[1 : 1 + EARLIER]:
        out.print(f"[{console.QUIET}]  {_earlier(group, now)}[/]")


def _earlier(group: Any, now: datetime) -> str:
    said = ("", group.state, group.standing)
    reason = "" if group.reason in said else f" ({group.reason})"
    pods = "1 pod" if group.pods_seen == 1 else f"{group.pods_seen} pods"
    ended = f"{group.standing}{reason}, {pods}, {_until(group, now)}"
    return f"{group.created_at:%Y-%m-%d %H:%M:%S} UTC  {ended}"


def _until(group: Any, now: datetime) -> str:
    from gatelog.readmodel.timeline import duration

    end = group.gone_at or group.finished_at
    if end is None:
        return f"going on for {duration((now - group.created_at).total_seconds())}"
    took = duration((end - group.created_at).total_seconds())
    return f"{'gone' if group.gone_at else 'over'} after {took}"
