"""Segments and stream as one log.

Theory. Messages that the stream still has are read from the stream, earlier messages from segments.
Both may hold the same positions, segments may overlap as well: each position is given out once.
Where neither has a wanted position there is no log to read, and the error names the positions and
says where they went.

Invariant: positions grow, and every position between the first and the last that is given out was
on a segment or in the stream.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack

import msgspec

from projector.archive.archive_store import ArchiveStore
from projector.archive.segments import Segment, Span, chain, folder_of, gaps, parse
from projector.archive.writing import ArchiveDamaged
from projector.replay.files import FileLog, FileRefused, Header
from projector.replay.log import Entry, Log


class LogIncomplete(Exception):
    """Neither stream nor archive has the wanted positions; the message names them and says what to
    do.
    """


class ArchivedLog:
    """Entries of `span`: of `segments` as far as they reach, then of `rest`.

    `rest` begins where the segments end. With `lenient` what cannot be read is noted in `unread`
    and passed over; without, it is an ArchiveDamaged.
    """

    def __init__(
        self,
        store: ArchiveStore,
        folder: str,
        segments: Sequence[Segment],
        *,
        span: Span,
        rest: Log | None = None,
        lenient: bool = False,
    ) -> None:
        self.store = store
        self.segments = tuple(segments)
        self.unread: list[str] = []
        self.lines = 0
        self._folder = folder
        self._first, self._last = span.first, span.last
        self._rest = rest
        self._lenient = lenient

    async def entries(self) -> AsyncIterator[Entry]:
        """Yield every message, in order.

        Raises:
            ArchiveStoreUnavailable: the archive cannot be reached.
            ArchiveDamaged: a segment was changed (unless lenient).
        """
        wanted = self._first
        for segment in self.segments:
            with ExitStack() as stack:
                fetched = self.store.fetched(self._folder, segment.name)
                path = await asyncio.to_thread(stack.enter_context, fetched)
                try:
                    log = FileLog(path)
                except FileRefused as error:
                    self._damaged(segment, str(error).partition(": ")[2])
                    continue
                async for entry in log.entries():
                    if entry.position > self._last:
                        return
                    if entry.position >= wanted:
                        yield entry
                        wanted = entry.position + 1
                self.lines += log.lines
                held = log.covered
                if held is not None and (held.first, held.last) != (segment.first, segment.last):
                    span = Span(held.first, held.last)
                    self._damaged(segment, f"it holds {span}, not what its name says")
                for text in log.unread:
                    self._damaged(segment, text)
            wanted = max(wanted, segment.last + 1)
        if self._rest is not None:
            async for entry in self._rest.entries():
                if entry.position >= wanted:
                    yield entry

    def _damaged(self, segment: Segment, text: str) -> None:
        if not self._lenient:
            raise ArchiveDamaged(
                f"{self.store.url}/{self._folder}/{segment.name}: {text}. Restore it from a copy; "
                f"`gatelog import` of that file keeps what can be read"
            )
        self.unread.append(f"{segment.name}: {text}")


async def segments_of(store: ArchiveStore, cluster: str, epoch: int) -> list[Segment]:
    """Return the segments of an epoch, sorted.

    Raises:
        ArchiveStoreUnavailable: the archive cannot be reached.
    """
    names = await asyncio.to_thread(store.names, folder_of(cluster))
    known = [one for one in map(parse, names) if one is not None]
    return sorted(one for one in known if one.epoch == epoch)


def before_the_stream(
    segments: Sequence[Segment], first: int, kept: int
) -> tuple[list[Segment], int]:
    """Return the segments that cover positions from `first` to below `kept`, and the next position.

    `kept` is the first position that the stream still has.

    Raises:
        LogIncomplete: the segments do not cover them.
    """
    older = [one for one in segments if one.first < kept]
    chosen, wanted = chain(older, first)
    if wanted < kept:
        holes = [gap for gap in gaps(segments, first) if gap.first < kept]
        missing = holes or [Span(wanted, kept - 1)]
        raise LogIncomplete(
            f"{', '.join(map(str, missing))} are neither in the stream, which begins at position "
            f"{kept}, nor in the archive: they expired before they were archived. A replay needs "
            "the log from the beginning of an epoch, so it cannot pass them"
        )
    return chosen, wanted


class WholeArchive(ArchivedLog):
    """The newest epoch of an archive as a log of its own, from its first segment on.

    What cannot be read is noted in `unread`. `header` is that of the first segment.
    """

    def __init__(self, store: ArchiveStore, cluster: str) -> None:
        """List the segments.

        Raises:
            LogIncomplete: there is no segment of this cluster, or positions are missing.
            ArchiveStoreUnavailable, ArchiveDamaged: the archive cannot be read.
        """
        folder = folder_of(cluster)
        known = sorted(one for one in map(parse, store.names(folder)) if one is not None)
        if not known:
            raise LogIncomplete(
                f"{store.url}: no segments of cluster {cluster} (folder {folder}); "
                "--cluster names another"
            )
        epoch = [one for one in known if one.epoch == known[-1].epoch]
        first = epoch[0].first
        if holes := gaps(epoch, first):
            raise LogIncomplete(
                f"{store.url}/{folder}: {', '.join(map(str, holes))} are missing between its "
                "segments: they expired before they were archived, or a file was removed. A single "
                "segment can be read as a FILE of its own"
            )
        chosen, wanted = chain(epoch, first)
        super().__init__(store, folder, chosen, span=Span(first, wanted - 1), lenient=True)
        self.header = msgspec.structs.replace(_header(store, folder, chosen[0]), last=wanted - 1)
        if first > 1 and epoch[0].epoch == 1:
            self.unread.append(f"{Span(1, first - 1)} were never archived: the log begins later")


def _header(store: ArchiveStore, folder: str, segment: Segment) -> Header:
    with store.fetched(folder, segment.name) as path:
        try:
            return FileLog(path).header
        except FileRefused as error:
            raise ArchiveDamaged(f"{error}. Restore it from a copy, or move it away") from None
