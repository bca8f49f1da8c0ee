"""The archive from the command line: writing new segments, and reading them with the stream.

Invariant: the streams and the database are only read.
"""

import asyncio
from collections.abc import Callable

import sqlalchemy as sa

from gatelog.shell.errors import CommandFailed, UsageFailed
from podgroup.log.subjects import DECISIONS, EVENTS, decisions
from projector.archive import parquet
from projector.archive.archive_store import open_archive_store
from projector.archive.reading import ArchivedLog, before_the_stream, segments_of
from projector.archive.segments import Span, folder_of
from projector.archive.standing import Standing, earliest, standing
from projector.archive.writing import Archived, Archiver, marks_of
from projector.replay.log import Log, StreamLog
from projector.storage.database import reading
from projector.storage.urls import database_url
from runtime.jetstream import Bus
from runtime.settings import Settings


async def archive(settings: Settings, bus: Bus, progress: Callable[[int], None]) -> Archived:
    """Write the messages since the last segment, and the tables if the settings say so.

    Raises:
        UsageFailed: the settings name no archive.
        CommandFailed: no projector has written for this cluster.
        ArchiveStoreUnavailable, ArchiveDamaged, BusError: see `Archiver.run`.
    """
    if not settings.archive.url:
        raise UsageFailed(
            "archive.url is not set: say where the archive is, e.g. --to /srv/gatelog-archive or "
            "--to s3://bucket/prefix"
        )
    store = open_archive_store(settings.archive.url)
    url = database_url(settings)
    with reading(url, parquet.TIMEOUT_S) as connection:
        at = live_position(connection, settings.cluster)

    def first_number(position: int) -> int | None:
        with reading(url, parquet.TIMEOUT_S) as connection:
            return earliest(connection, settings.cluster, position)

    done = await Archiver(bus, settings, store, first_number).run(at, progress)
    if settings.archive.parquet:
        with reading(url, parquet.TIMEOUT_S) as connection:
            parquet.write(connection, settings.cluster, store, prefix=parquet.FOLDER)
    return done


def live_position(connection: sa.Connection, cluster: str) -> Standing:
    """Return the position of the read model.

    Raises:
        CommandFailed: no projector has written for this cluster.
    """
    found = standing(connection, cluster)
    if found is None:
        raise CommandFailed(f"no checkpoint of cluster {cluster!r} in the database")
    return found


async def joined(bus: Bus, settings: Settings, at: Standing) -> Log:
    """Return the log of the present epoch up to a position, from archive and stream as one.

    Messages that the stream still has are not read from the archive.

    Raises:
        CommandFailed: the beginning is not in the stream, and there is no archive.
        LogIncomplete: the beginning is not in the archive either.
        ArchiveStoreUnavailable: the archive cannot be reached.
    """

    def stream(first: int) -> StreamLog:
        of, span = settings.cluster, (first, at.last - at.base)
        return StreamLog(bus, of, base=at.base, span=span, unsent=at.unsent)

    kept = await _kept_from(bus, settings, at.base)
    if kept <= at.first:
        return stream(at.first - at.base)
    if not settings.archive.url:
        raise CommandFailed(
            f"positions {at.first} to {kept - 1} are no longer in the stream: its limits (settings "
            "streams.*) dropped them, and a replay must start at the beginning of an epoch. The "
            "read model is not affected. If there is an archive, say where with --archive; to keep "
            "one from now on set archive.url (docs/install.md)"
        )
    store = await asyncio.to_thread(open_archive_store, settings.archive.url)
    segments = await segments_of(store, settings.cluster, at.epoch)
    chosen, wanted = before_the_stream(segments, at.first, min(kept, at.last + 1))
    folder = folder_of(settings.cluster)
    rest = stream(max(wanted, kept) - at.base) if wanted <= at.last else None
    return ArchivedLog(store, folder, chosen, span=Span(at.first, at.last), rest=rest)


async def _kept_from(bus: Bus, settings: Settings, base: int) -> int:
    """Return the first position from which on both streams have everything."""
    kept = (await bus.stream_state(EVENTS)).first_sequence + base
    if (await bus.stream_state(DECISIONS)).first_sequence > 1:
        subject = decisions(settings.cluster)
        oldest = await bus.at_or_after(DECISIONS, 1, subject)
        if oldest is not None:
            mark = marks_of(oldest.body)[0][0]
            if mark.number > 1:
                kept = max(kept, mark.as_of + 1)
    return kept
