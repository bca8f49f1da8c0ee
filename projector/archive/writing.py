"""Writing the archive: new messages of the streams, as segments.

Theory. The archive ends at the position of the read model, as only up to there are decisions known
to be complete; decisions that are committed and not sent yet come from the database. Messages are
taken as they are: they are not decoded, only placed beside the decisions made after them. A run
begins after the last segment and needs no other state.

The streams drop their oldest messages while we read. A message that was read existed; that none was
skipped is proven when the stream still begins before the last message read. Messages wait in
memory, `PROVEN` at most, until then.

Invariant: a segment is put in the store whole, or not at all; positions missing between segments
are missing in the stream.
"""

import asyncio
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from podgroup.log import subjects
from podgroup.log.codec import (
    Conclusions,
    decode_batch,
    encode_concluded,
    encode_decision,
    split_conclusions,
)
from podgroup.log.events import Batch, Decision, SettingsRecorded
from projector.archive.archive_store import ArchiveStore
from projector.archive.segments import Span, folder_of, name_of, parse
from projector.archive.standing import Standing
from projector.replay.files import Covered, Export, FileLog, FileRefused, Header
from projector.storage.opening import policy_of
from runtime.jetstream import Bus, BusUnavailable, Message, Reader
from runtime.settings import Settings

WAIT_S = 5.0
"""Seconds without a message after which a stream is taken to be at its end."""
PROVEN = 500
"""Messages after which the stream is checked for dropped messages."""

_SETTINGS = b"settings_recorded."
"""Is in every message that says settings."""


class ArchiveDamaged(Exception):
    """A segment was changed; the message says which segment and what to do."""


class Archived(Struct):
    """The result of a run. `last` is the position up to which the log is archived; 0: nothing."""

    last: int = 0
    segments: list[str] = []
    messages: int = 0
    bytes: int = 0
    lost: list[Span] = []
    """Positions that the streams had dropped before they were archived."""


class Archiver:
    """Writes segments; made anew for every run, or kept for all runs.

    `earliest` returns the lowest number that a conclusion made at a position or later can have,
    None if the read model has no such conclusion (`standing.earliest`).
    """

    def __init__(
        self,
        bus: Bus,
        settings: Settings,
        store: ArchiveStore,
        earliest: Callable[[int], int | None],
    ) -> None:
        self._bus = bus
        self._earliest = earliest
        self._settings = settings
        self._store = store
        self._folder = folder_of(settings.cluster)
        self._end: tuple[int, Covered] | None = None
        """Epoch and cover of the last segment, once it was read."""
        self._settings_there: SettingsRecorded | None = None
        """The settings in force at its end."""

    async def run(
        self, standing: Standing, progress: Callable[[int], None] = lambda _: None
    ) -> Archived:
        """Archive everything up to the position of the read model.

        Raises:
            ArchiveStoreUnavailable, BusError: archive or log cannot be used now; run again later.
            ArchiveDamaged: the last segment cannot be read.
        """
        done = Archived()
        end = await self._last_segment(standing)
        wanted = end.last + 1 if end is not None else standing.first
        decided = end.decided if end is not None else None
        done.last = wanted - 1 if end is not None else 0
        while wanted <= standing.last:
            kept = await self._kept_from(standing, wanted, decided)
            if kept > wanted:
                done.lost.append(Span(wanted, min(kept - 1, standing.last)))
                wanted, decided, self._settings_there = kept, None, None
                continue
            covered = await self._segment(standing, wanted, decided, done, progress)
            if covered is None:
                continue  # the stream dropped its beginning just now: look again at what it has
            wanted, decided, done.last = covered.last + 1, covered.decided, covered.last
        return done

    async def _last_segment(self, standing: Standing) -> Covered | None:
        """Return what the newest segment of the epoch covers, after reading it to its end."""
        names = await asyncio.to_thread(self._store.names, self._folder)
        known = [one for one in map(parse, names) if one is not None]
        mine = [one for one in known if one.epoch == standing.epoch]
        if not mine:
            return None
        newest = max(mine, key=lambda one: one.last)
        if self._end is not None and (self._end[0], self._end[1].last) == (
            newest.epoch,
            newest.last,
        ):
            return self._end[1]
        created = (await self._bus.stream_state(subjects.EVENTS)).created
        covered = await asyncio.to_thread(self._read_through, newest.name, created)
        self._end = (newest.epoch, covered)
        return covered

    def _read_through(self, name: str, created: datetime) -> Covered:
        why, covered = "", None
        with self._store.fetched(self._folder, name) as path:
            try:
                log = FileLog(path)
                theirs = log.header.stream_created_at
                if theirs is not None and theirs != created:
                    raise ArchiveDamaged(
                        f"{self._store.url}/{self._folder}/{name}: is of another stream of this "
                        f"name, made {theirs:%Y-%m-%d %H:%M:%S} UTC; this one was made "
                        f"{created:%Y-%m-%d %H:%M:%S}. Archive to another place, or move that one "
                        "away: as one log they would make no sense"
                    )
                self._settings_there = asyncio.run(_drain(log))
                why, covered = "; ".join(log.unread), log.covered
            except FileRefused as error:
                why = str(error).partition(": ")[2]
        if why or covered is None:
            raise ArchiveDamaged(
                f"{self._store.url}/{self._folder}/{name}: {why or 'is an export, no segment'}. "
                "Move it away; what it held is written again as long as the stream has it"
            )
        return covered

    async def _kept_from(self, standing: Standing, wanted: int, decided: int | None) -> int:
        """Return the first position from `wanted` on that can be archived completely."""
        state = await self._bus.stream_state(subjects.EVENTS)
        kept = max(wanted, state.first_sequence + standing.base)
        first = await self._first_decision(kept)
        if first is None:
            return kept
        oldest = await self._bus.at_or_after(subjects.DECISIONS, 1, self._decisions())
        assert oldest is not None  # there is a later one
        if first.sequence > oldest.sequence:
            return kept  # an older one is there, so none of these was dropped
        mark = marks_of(first.body)[0][0]
        if mark.as_of < kept or mark.number == 1 or (decided and mark.number == decided + 1):
            return kept
        earliest = await asyncio.to_thread(self._earliest, kept)
        return kept if earliest is None or earliest >= mark.number else mark.as_of + 1

    async def _segment(
        self,
        standing: Standing,
        first: int,
        decided: int | None,
        done: Archived,
        progress: Callable[[int], None],
    ) -> Covered | None:
        """Write one segment from `first` on; None if the stream dropped its beginning meanwhile."""
        settings = self._settings
        header = Header(
            cluster=settings.cluster,
            mode=standing.mode,
            policy=policy_of(settings.queueing),
            epoch=standing.epoch,
            base=standing.base,
            last=standing.last,
            written_at=datetime.now(UTC),
            settings=self._settings_at(standing, first),
        )
        created = (await self._bus.stream_state(subjects.EVENTS)).created
        header = msgspec.structs.replace(header, stream_created_at=created)
        decisions = _Decisions(self._bus, self._decisions(), standing.unsent)
        by = header.settings
        with tempfile.TemporaryDirectory(prefix="gatelog-archive-") as home:
            path = Path(home) / "segment"
            last = first - 1
            try:
                await decisions.open(await self._first_decision(first))
                with Export(path, header) as out:
                    async with aclosing(self._messages(standing, first)) as proven:
                        async for last, message in proven:
                            if message is not None:
                                made = await decisions.at(last)
                                source = subjects.source_of(message.subject)
                                out.add_raw(last, message.at, message.body, made, source)
                                if _SETTINGS in message.body:
                                    by = _said_in(decode_batch(message.body, source)) or by
                            progress(last)
                            if out.size >= settings.archive.segment_bytes:
                                break
                    out.covered = Covered(first, last, decisions.number or decided or 0)
            finally:
                await decisions.close()
            if last < first:
                return None
            name = name_of(settings.cluster, standing.epoch, Span(first, last))
            await asyncio.to_thread(self._store.put, path, self._folder, name)
            done.bytes += path.stat().st_size
        done.segments.append(name)
        done.messages += out.messages
        self._end, self._settings_there = (standing.epoch, out.covered), by
        return out.covered

    def _settings_at(self, standing: Standing, first: int) -> SettingsRecorded | None:
        """Return the settings in force where a segment begins, as far as it is known."""
        if first == standing.first:
            return None  # the log has them there
        return standing.settings if first > standing.settled else self._settings_there

    async def _messages(
        self, standing: Standing, first: int
    ) -> AsyncGenerator[tuple[int, Message | None], None]:
        """Yield positions up to which no message is missing, with the message there.

        The last position is that of the read model; None: its message was another cluster's.
        """
        last, needed = standing.last - standing.base, first - standing.base
        reader = self._bus.read(
            subjects.EVENTS,
            subjects.events_of(self._settings.cluster),
            needed,
            batch=PROVEN,
        )
        try:
            while True:
                found = await reader.next(WAIT_S)
                if not found and not self._bus.connected:
                    raise BusUnavailable(f"NATS went away: {self._bus.last_error}")
                mine = [message for message in found if message.sequence <= last]
                state = await self._bus.stream_state(subjects.EVENTS)
                if state.first_sequence > needed:
                    return  # it may have dropped some of these before we came to them
                over = not found or len(mine) < len(found) or mine[-1].sequence == last
                for message in mine:
                    yield message.sequence + standing.base, message
                    needed = message.sequence + 1
                if over:
                    if needed <= last:
                        yield standing.last, None
                    return
        finally:
            await reader.close()

    def _decisions(self) -> str:
        return subjects.decisions(self._settings.cluster)

    async def _first_decision(self, position: int) -> Message | None:
        """Return the first message with a decision made at `position` or later, by bisection.

        Places grow but where decisions were sent again, and repetitions are sent in order up to the
        newest: so the messages from the found one on hold all wanted decisions.
        """
        newest = await self._bus.last(subjects.DECISIONS, self._decisions())
        if newest is None or _latest(newest.body) < position:
            return None
        found, low, high = newest, 1, newest.sequence
        while low < high:
            middle = (low + high) // 2
            message = await self._bus.at_or_after(subjects.DECISIONS, middle, self._decisions())
            if message is None or _latest(message.body) >= position:
                if message is not None:
                    found = message
                high = middle
            else:
                low = message.sequence + 1
        return found


class Mark(Struct):
    """Number and place of a decision."""

    number: int
    as_of: int


def marks_of(message: bytes) -> list[tuple[Mark, bytes]]:
    """Return the decisions in a message of DECISIONS; an unreadable decision has no place."""
    found = []
    for body in split_conclusions(message):
        try:
            found.append((msgspec.json.decode(body, type=Mark), body))
        except msgspec.MsgspecError:
            found.append((Mark(0, 0), body))
    return found


def _latest(message: bytes) -> int:
    """Return the greatest place of a decision in a message."""
    return max(mark.as_of for mark, _ in marks_of(message))


class _Decisions:
    """DECISIONS from a message on, as they are, and then the decisions that were not sent yet."""

    def __init__(self, bus: Bus, subject: str, unsent: tuple[Conclusions, ...]) -> None:
        self._bus = bus
        self._subject = subject
        self._unsent = unsent
        self._waiting: deque[tuple[Mark, bytes]] = deque()
        self._reader: Reader | None = None
        self._last = 0
        self._seen = 0
        self.number = 0
        """Of the last decision that was given out."""

    async def open(self, first: Message | None) -> None:
        """Begin at `first`; None: the stream has none that is wanted."""
        newest = await self._bus.last(subjects.DECISIONS, self._subject)
        if first is not None and newest is not None:
            self._last = newest.sequence
            self._reader = self._bus.read(subjects.DECISIONS, self._subject, first.sequence)

    async def at(self, position: int) -> list[bytes]:
        """Return the decisions made at `position`; positions are asked in order."""
        found: list[bytes] = []
        while self._waiting or await self._more():
            while self._waiting:
                mark, body = self._waiting[0]
                if mark.as_of > position:
                    return found
                self._waiting.popleft()
                if mark.as_of == position:
                    found.append(body)
                    self.number = mark.number
        return found

    async def _more(self) -> bool:
        if self._reader is not None:
            messages = await self._reader.next(WAIT_S)
            if not messages and not self._bus.connected:
                raise BusUnavailable(f"NATS went away: {self._bus.last_error}")
            for message in messages:
                self._gather(marks_of(message.body))
            if not messages or messages[-1].sequence >= self._last:
                await self.close()
            return True
        unsent, self._unsent = self._unsent, ()
        self._gather((Mark(d.number, d.as_of), _body(d)) for d in unsent)
        return bool(unsent)

    def _gather(self, found: Iterable[tuple[Mark, bytes]]) -> None:
        for mark, body in found:
            if mark.number > self._seen:  # a decision that was sent again was seen
                self._seen = mark.number
                self._waiting.append((mark, body))

    async def close(self) -> None:
        """Release the stream."""
        if self._reader is not None:
            await self._reader.close()
            self._reader = None


def _body(one: Conclusions) -> bytes:
    return encode_decision(one) if isinstance(one, Decision) else encode_concluded(one)


async def _drain(log: FileLog) -> SettingsRecorded | None:
    """Read a segment to its end; returns the settings in force there."""
    by = log.header.settings
    async for entry in log.entries():
        by = _said_in(entry.batch) or by
    return by


def _said_in(batch: Batch) -> SettingsRecorded | None:
    """Return the settings in a message, None without any."""
    said = [event for event in batch.events if isinstance(event, SettingsRecorded)]
    return said[-1] if said else None
