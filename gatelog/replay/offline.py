"""Replay without NATS: of an export, a segment of an archive, or a whole archive.

Theory. All of them are logs (`projector.replay.log.Log`) that carry the settings of their
decisions, so all commands for the streams work with them. Unreadable lines are listed and stop
nothing; a command that folds such a log shows `unread` afterwards.

Invariant: only an empty database that was named for it is written.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from gatelog.replay.archiving import live_position
from gatelog.replay.online import digesting, held_against, written_to
from gatelog.replay.steps import Stepper
from gatelog.shell.errors import CommandFailed, UsageFailed
from projector.archive.archive_store import open_archive_store
from projector.archive.reading import WholeArchive
from projector.replay.compare import TableResult
from projector.replay.files import FileLog, FileRefused, Header
from projector.replay.fold import Beginning, Callbacks, Difference, Redeciding, Result, fold
from projector.replay.log import Entry, Log
from projector.storage.database import reading
from projector.storage.urls import database_url
from projector.upkeep import migrate
from runtime.settings import Settings


class Source(Log, Protocol):
    """A log that needs no server. `unread` and `lines` are complete when it was read to its end."""

    header: Header
    unread: list[str]
    lines: int


def open_source(where: str, settings: Settings) -> Source:
    """Return what a path or URL names as a log.

    Raises:
        UsageFailed: the path does not exist.
        CommandFailed: the file is an export that this gatelog cannot read.
        LogIncomplete, ArchiveStoreUnavailable, ArchiveDamaged: an archive that cannot be read.
    """
    path = Path(where).expanduser()
    if "://" in where or path.is_dir():
        return WholeArchive(open_archive_store(where), settings.cluster)
    if not path.exists():
        raise UsageFailed(f"{where}: no such file")
    try:
        return FileLog(path)
    except FileRefused as error:
        raise CommandFailed(str(error)) from None


async def folded(
    log: Source,
    target: str | None,
    stepper: Stepper | None = None,
    moment: int | datetime | None = None,
    differs: Callable[[Difference], None] | None = None,
) -> Result:
    """Fold a log, up to `moment` if given, into the empty database `target` if given.

    `differs` is called for every place where today's rules would decide otherwise; None: they are
    not asked.
    """
    header = log.header
    with written_to(target, header.cluster, header.mode) as sink:
        return await fold(
            log.entries() if moment is None else _up_to(log, moment),
            beginning(header),
            sink=sink,
            calls=Callbacks(stepper.observe if stepper is not None else None, differs),
            redecide=Redeciding() if differs is not None else None,
        )


def beginning(header: Header) -> Beginning:
    """Return where a fold of a file begins."""
    of = header.cluster, header.mode, header.policy, header.epoch, header.base, header.settings
    return Beginning(*of)


async def verify(log: Source, settings: Settings) -> tuple[Result, list[TableResult]]:
    """Fold a log into a fresh database and compare that of the settings with it, row by row.

    Raises:
        CommandFailed: that database is of something else, or of more than is in the log.
    """
    url, header = database_url(settings), log.header
    with reading(url) as connection:
        migrate.check(url)
        at = live_position(connection, header.cluster)
        reached_live = at.last
        if (at.epoch, at.mode) != (header.epoch, header.mode):
            raise CommandFailed(
                f"the database is of epoch {at.epoch}, mode {at.mode}, the file of epoch "
                f"{header.epoch}, mode {header.mode}: they are not of the same log"
            )
        with tempfile.TemporaryDirectory(prefix="gatelog-replay-") as folder:
            again = f"sqlite:///{folder}/replay.sqlite3"
            async with digesting(connection, header.cluster, at) as known:
                result = await folded(log, again, moment=reached_live)
            reached = result.world.meta.position
            if reached < reached_live and not log.unread:
                raise CommandFailed(
                    f"the database is at position {reached_live}, the file ends at {reached}: "
                    "export again, or compare a database made from this file (gatelog import)"
                )
            found = await asyncio.to_thread(
                held_against, connection, again, header.cluster, at, known
            )
    return result, found


async def _up_to(log: Log, moment: int | datetime) -> AsyncIterator[Entry]:
    async for entry in log.entries():
        if entry.position > moment if isinstance(moment, int) else entry.at > moment:
            return
        yield entry
