"""`gatelog replay`: fold the log again and compare it with the read model, or look into it.

Invariant: exit code 0 without differences, 1 with them; nothing live is written.
"""

import asyncio
import sys
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gatelog.shell import options
from gatelog.shell.errors import FAILED, UsageFailed
from gatelog.shell.screen import Screen
from gatelog.shell.since import instant
from gatelog.shell.visible import raw
from gatelog.terminal.progress import ProgressReport
from runtime.settings import Settings

if TYPE_CHECKING:
    from gatelog.replay.differing import DifferencePrinter
    from projector.replay.compare import TableResult
    from projector.replay.fold import Result

EXAMPLES = """
gatelog replay --verify
gatelog replay --rebuild
gatelog replay --redecide
gatelog replay --at 2026-11-21T03:00:00Z --to then.sqlite3
gatelog replay --group team-a/train
gatelog replay export.jsonl.gz --redecide
gatelog replay export.jsonl.gz --verify --db copy.sqlite3
gatelog replay s3://backups/gatelog --cluster prod --to prod.sqlite3
"""


@dataclass(frozen=True)
class TaskOptions:
    """The tasks on the log; one of them, or none with FILE."""

    verify: Annotated[
        bool, typer.Option("--verify", help="Compare the read model with the log, row by row.")
    ] = False
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the read model anew and switch over to it.")
    ] = False
    from_epoch: Annotated[
        bool,
        typer.Option("--from-epoch", help="Rebuild what the log has, if its past is gone."),
    ] = False
    redecide: Annotated[
        bool, typer.Option("--redecide", help="Show what today's rules would decide differently.")
    ] = False
    at: Annotated[
        str | None, typer.Option(metavar="SEQ|TIME", help="The read model as it was then.")
    ] = None
    group: Annotated[
        str | None, typer.Option(metavar="NS/NAME", help="Every step of one group.")
    ] = None

    def check(self, file: str | None, to: str | None) -> None:
        """Refuse options that exclude each other.

        Raises:
            UsageFailed: they exclude each other.
        """
        chosen = sum(
            (self.verify, self.rebuild, self.redecide, self.at is not None, bool(self.group))
        )
        if chosen > 1 or not (chosen or file):
            raise UsageFailed(
                "choose one of FILE, --verify, --rebuild, --redecide, --at or --group"
            )
        if file and self.rebuild:
            raise UsageFailed("--rebuild is of the log itself: leave FILE out")
        if file and self.verify and to:
            raise UsageFailed("--verify writes nothing: name the database to compare with --db")
        if self.from_epoch and not self.rebuild:
            raise UsageFailed("--from-epoch goes with --rebuild")


def replay(
    task: TaskOptions,
    where: options.ReadModelOptions,
    file: Annotated[
        str | None,
        typer.Argument(help="An export, or an archive (a directory or URL)."),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="URL|FILE", help="Empty database to write to.")
    ] = None,
    archive: options.Archive = None,
) -> int | None:
    """Fold the log again: check the read model row by row (--verify), make it anew while the
    projector runs (--rebuild), see what today's rules would have decided (--redecide), have the
    read model as it was (--at), go through a group event by event (--group), or do so with an
    export or an archive (FILE), without NATS.
    """
    task.check(file, to)
    db = where.db
    if file and not task.verify:
        where = replace(where, db=None)
    settings = options.with_archive(where.settings(), archive)
    target = options.database_option(to or (db if file else None))
    console = Screen(file=raw(sys.stderr))
    if task.group:
        return _steps(settings, file, task.group, console)
    if file and task.verify:
        return _verify_file(settings, file)
    if file:
        moment = _moment(task.at) if task.at is not None else None
        return of_file(settings, file, target, redecide=task.redecide, moment=moment)
    if task.at is not None:
        return _as_of(settings, task.at, target, console)
    if task.rebuild:
        _rebuild(settings, console, from_epoch=task.from_epoch)
        return None
    return _verify(settings, console) if task.verify else _redecide(settings, console)


def _verify(settings: Settings, console: Console) -> int | None:
    from gatelog.replay import online

    with ProgressReport("folding the log", console) as shown:
        result, tables = asyncio.run(online.verify(settings, shown.position))
    return _compared(result, tables)


def _verify_file(settings: Settings, file: str) -> int | None:
    from gatelog.replay import offline

    log = offline.open_source(file, settings)
    result, tables = asyncio.run(offline.verify(log, settings))
    _unread(file, log.unread)
    return _compared(result, tables) or (FAILED if log.unread else None)


def _compared(result: "Result", tables: "list[TableResult]") -> int | None:
    wrong = 0
    for table in tables:
        wrong += table.different
        verdict = "equal" if not table.different else f"{table.different} DIFFERENT"
        if table.unvouched:
            verdict += f", {table.unvouched} more cannot be verified"
        print(f"{table.table:<12} {table.rows:>10} rows  {verdict}")
        for example in table.examples:
            print(f"    {example}")
    print(f"{result.messages} messages, {result.events} events folded")
    _unvouched(tables, result.world.meta.epoch)
    return FAILED if wrong else None


def _unvouched(tables: "list[TableResult]", epoch: int) -> None:
    groups = next(table for table in tables if table.table == "groups")
    if not groups.unvouched:
        return
    over = groups.unvouched - groups.alive
    print(
        f"cannot be verified, because the log before epoch {epoch} is lost (table epochs): "
        f"{groups.unvouched} groups that began before everything was listed again, {over} of them "
        "gone by now"
    )
    if groups.named:
        more = groups.alive - len(groups.named)
        print(f"    {', '.join(groups.named)}{f' and {more} more' if more else ''}")


def _rebuild(settings: Settings, console: Console, *, from_epoch: bool) -> None:
    from gatelog.replay import rebuilding

    with ProgressReport("rebuild", console) as shown:
        report = asyncio.run(rebuilding.rebuild(settings, shown, from_epoch=from_epoch))
    if report.left_over:
        sys.stderr.write(
            f"gatelog: removed what a rebuild that was cut short left: {report.left_over}\n"
        )
    print(
        f"{report.messages} messages, {report.events} events folded, {report.rows} rows written\n"
        f"switched over at position {report.position}; the projector waited {report.waited_s:.1f} s"
    )


def _redecide(settings: Settings, console: Console) -> int | None:
    from gatelog.replay import online
    from gatelog.replay.differing import DifferencePrinter

    printer = DifferencePrinter()
    with ProgressReport("deciding again", console) as shown:
        result = asyncio.run(online.redecide(settings, shown.position, printer))
    return _differences(result, printer)


def _differences(result: "Result", printer: "DifferencePrinter") -> int | None:
    print(f"{result.messages} messages decided again: {printer.count or 'no'} decisions differ")
    return FAILED if printer.count else None


def _as_of(settings: Settings, at: str, target: str | None, console: Console) -> int | None:
    from gatelog.replay import online

    if target is None:
        raise UsageFailed("--at needs --to: an empty database to write to, e.g. --to then.sqlite3")
    with ProgressReport("folding the log", console) as shown:
        result = asyncio.run(online.as_of(settings, _moment(at), target, shown.position))
    print(f"the read model as of seq {result.world.meta.position} is in {target}")
    return None


def _moment(text: str) -> int | datetime:
    return int(text) if text.isdecimal() else instant("--at", text, "a position or a")


def of_file(
    settings: Settings,
    file: str,
    target: str | None,
    *,
    redecide: bool = False,
    moment: int | datetime | None = None,
) -> int | None:
    """Fold a file and print the result; 1 if some of it could not be read, or differs."""
    from gatelog.replay import offline
    from gatelog.replay.differing import DifferencePrinter

    log = offline.open_source(file, settings)
    if moment is not None and target is None:
        raise UsageFailed("--at needs --to: an empty database to write to, e.g. --to then.sqlite3")
    printer = DifferencePrinter()
    result = asyncio.run(
        offline.folded(log, target, moment=moment, differs=printer if redecide else None)
    )
    _unread(file, log.unread)
    if (held := getattr(log, "covered", None)) is not None and held.first > 1:
        sys.stderr.write(
            f"gatelog: {file} is one segment of an archive, of positions {held.first} to "
            f"{held.last}: what was before is not in it. The whole archive is its directory or "
            "URL\n"
        )
    if log.header.unknown:
        sys.stderr.write(
            f"gatelog: {file} has only {log.header.selection}: {log.header.unknown} events that "
            "could not be decoded and name no group are not in it, so something may be missing\n"
        )
    if redecide:
        if log.header.selection:
            sys.stderr.write(
                f"gatelog: {file} has only {log.header.selection}: what others held is not in it, "
                "so decisions about quota may differ\n"
            )
        return _differences(result, printer) or (FAILED if log.unread else None)
    where = f", rows in {target}" if target else "; --to FILE keeps the rows"
    print(
        f"{result.events} events of {log.lines} lines folded: {result.groups} groups and "
        f"{result.pods} pods seen{where}"
    )
    return FAILED if log.unread else None


def _unread(file: str, unread: list[str]) -> None:
    for text in unread:
        sys.stderr.write(f"gatelog: {file}: {text}\n")


def _steps(settings: Settings, file: str | None, group: str, console: Console) -> int | None:
    from gatelog.replay import offline, online
    from gatelog.replay.steps import Stepper, screen, text
    from gatelog.terminal.console import console as terminal
    from gatelog.terminal.lookup import parse_title

    namespace, name = parse_title(group)
    if file is not None:
        stepper = Stepper(namespace, name)
        log = offline.open_source(file, settings)
        asyncio.run(offline.folded(log, None, stepper))
        _unread(file, log.unread)
        found, damaged = stepper.steps, bool(log.unread)
    else:
        with ProgressReport("folding the log", console) as shown:
            found = asyncio.run(online.steps(settings, namespace, name, shown.position))
        damaged = False
    if not found:
        sys.stderr.write(f"gatelog: the log says nothing of {group}\n")
        return FAILED
    out = terminal()
    for number, one in enumerate(found, 1):
        if out.is_terminal:
            out.print(screen(one, number, len(found), found[number - 2] if number > 1 else None))
        else:
            print(text(one, number, len(found)))
    return FAILED if damaged else None
