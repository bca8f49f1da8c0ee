"""Archiving at intervals beside the projection, and how far the archive is behind.

Theory. A run is due when `archive.every_s` have passed, or when about a segment's worth of bytes
has come since: a burst must not be dropped by the stream before the hour is over. A failed run is
logged, counted and tried again at the next look; the projection never waits for it.

Two distances matter to an operator: how much is not archived yet (lag), and how much the stream may
still drop before it drops messages that are not archived (headroom).

Invariant: no failure here ends the projection.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from podgroup.log import subjects
from projector.archive import parquet
from projector.archive.archive_store import ArchiveStoreUnavailable, open_archive_store
from projector.archive.standing import Standing, earliest, standing
from projector.archive.writing import Archived, ArchiveDamaged, Archiver
from projector.storage.database import DatabaseError, database_url, reading
from runtime.background import background
from runtime.jetstream import Bus, BusError, StreamState
from runtime.log import get_logger
from runtime.metrics import Metrics
from runtime.settings import Settings

LOOK_S = 30.0
"""Seconds between looks at whether a run is due."""

log = get_logger("archive")


class Behind:
    """How far the archive is behind, in messages of the stream; read at every scrape."""

    def __init__(self) -> None:
        self.lag = 0
        self.headroom = 0
        self.at: float | None = None
        """Time of day of the last run that went well, None before the first."""

    def looked(self, archived: int, at: Standing, stream: StreamState) -> None:
        """Take note of the position up to which everything is archived."""
        self.lag = max(0, at.last - max(archived, at.first - 1))
        self.headroom = archived + 1 - (stream.first_sequence + at.base)

    def seconds(self) -> float:
        """Return how long ago the last run went well; 0 before the first."""
        return 0.0 if self.at is None else max(0.0, time.time() - self.at)


class ArchiveMetrics:
    """The archive's families among the process's metrics."""

    def __init__(self, metrics: Metrics, behind: Behind) -> None:
        metrics.read(
            "gatelog_archive_lag_messages",
            "Sequence numbers committed and not archived.",
            read=lambda: {(): behind.lag},
        )
        metrics.read(
            "gatelog_archive_headroom_messages",
            "Sequence numbers that the stream may drop before it drops unarchived ones.",
            read=lambda: {(): behind.headroom},
        )
        metrics.read(
            "gatelog_archive_last_success_age_seconds",
            "Since all that was committed was archived; 0 at first.",
            read=lambda: {(): behind.seconds()},
        )
        self.segments = metrics.counter("gatelog_archive_segments_total", "Segments written.")
        self.bytes = metrics.counter(
            "gatelog_archive_written_bytes_total", "Bytes of segments written."
        )
        self.failures = metrics.counter("gatelog_archive_failures_total", "Runs that failed.")
        self.lost = metrics.counter(
            "gatelog_archive_lost_messages_total",
            "Sequence numbers that were dropped unarchived.",
        )


class Keeper:
    """Runs an archiver when a run is due."""

    def __init__(self, settings: Settings, bus: Bus, metrics: Metrics) -> None:
        self._settings = settings
        self._bus = bus
        self._archiver: Archiver | None = None
        self._archived = 0
        self._due_at = 0.0
        self.behind = Behind()
        self._metrics = ArchiveMetrics(metrics, self.behind)

    async def run(self) -> None:
        """Look, and archive when it is due, for ever."""
        while True:
            try:
                await self.archive_if_due()
            except (BusError, ArchiveStoreUnavailable, ArchiveDamaged, DatabaseError) as error:
                self._metrics.failures().inc()
                log.error("archive_failed", message=str(error))
            except SQLAlchemyError as error:
                self._metrics.failures().inc()
                log.error("archive_failed", message=str(getattr(error, "orig", None) or error))
            await asyncio.sleep(LOOK_S)

    async def archive_if_due(self) -> Archived | None:
        """Archive if a run is due; returns its result, None if none was due.

        Raises:
            BusError, ArchiveStoreUnavailable, ArchiveDamaged, DatabaseError, SQLAlchemyError
        """
        settings = self._settings
        at = await asyncio.to_thread(self._standing)
        if at is None:
            return None
        stream = await self._bus.stream_state(subjects.EVENTS)
        if self._archived:
            self.behind.looked(self._archived, at, stream)
        worth = self.behind.lag * stream.bytes / max(1, stream.messages)
        if time.monotonic() < self._due_at and worth < settings.archive.segment_bytes:
            return None
        if self._archiver is None:
            store = await asyncio.to_thread(open_archive_store, settings.archive.url)
            self._archiver = Archiver(self._bus, settings, store, self._earliest)
        done = await self._archiver.run(at)
        if settings.archive.parquet:
            await asyncio.to_thread(self._tables)
        self._due_at = time.monotonic() + settings.archive.every_s
        self._archived = done.last
        self.behind.at = time.time()
        self.behind.looked(done.last, at, await self._bus.stream_state(subjects.EVENTS))
        self._report(done)
        return done

    def _report(self, done: Archived) -> None:
        self._metrics.segments().inc(len(done.segments))
        self._metrics.bytes().inc(done.bytes)
        for span in done.lost:
            self._metrics.lost().inc(span.last - span.first + 1)
            log.error(
                "archive_gap",
                message=f"{span} were dropped by the streams before they were archived: archive "
                "more often, or raise streams.max_age_s, max_bytes or decisions_max_bytes",
            )
        if done.segments:
            log.info("archived", position=done.last, messages=done.messages, bytes=done.bytes)

    def _tables(self) -> None:
        """Write the new rows of the tables; the read model may have been replaced meanwhile."""
        store = open_archive_store(self._settings.archive.url)
        with self._reading() as connection:
            done = parquet.write(connection, self._settings.cluster, store, prefix=parquet.FOLDER)
        log.info("tables_archived", rows=done.rows, files=done.files, bytes=done.bytes)

    def _standing(self) -> Standing | None:
        with self._reading() as connection:
            return standing(connection, self._settings.cluster)

    def _earliest(self, position: int) -> int | None:
        with self._reading() as connection:
            return earliest(connection, self._settings.cluster, position)

    def _reading(self) -> AbstractContextManager[Connection]:
        """Connect anew for every look: a rebuilt read model may have replaced the last."""
        return reading(database_url(self._settings), parquet.TIMEOUT_S)


@asynccontextmanager
async def archiving(settings: Settings, bus: Bus, metrics: Metrics) -> AsyncIterator[None]:
    """Keep the archive of the settings while the context is open; without a URL do nothing."""
    if not settings.archive.url or not settings.archive.every_s:
        yield
        return
    async with background(Keeper(settings, bus, metrics).run()):
        yield
