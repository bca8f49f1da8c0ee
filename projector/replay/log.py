"""The log to replay: messages in order, each with the decisions recorded at its place.

Theory. EVENTS and DECISIONS are two streams. Decisions are numbered without gaps, and by number
their places (`as_of`) never go back, so one pass over both merges them. In their stream decisions
are in order but for those that a leader of several servers lost on their way: these are stored
behind later ones, by a publisher's window at most. So a decision ahead of its number waits, and
memory does not grow with the log. A decision that was sent again has a number that was seen.
Decisions that are committed and not published yet (`unsent`) are taken from the database.

The ends of the streams are looked up before they are read, and silence is no end: servers that
elect a leader are silent for seconds, and a log cut short would make a read model that lacks the
rest.

Invariant: a message comes with exactly the decisions made after it was folded, and all come or the
reading fails.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from podgroup.folding import replay
from podgroup.log import subjects
from podgroup.log.codec import Conclusions, decode_batch, decode_conclusions
from podgroup.log.events import Batch, Decision
from podgroup.log.records import Concluded
from podgroup.state.world import World
from projector.replay import fetching
from projector.replay.fetching import Fetched
from projector.writing.parked_rows import Settled, keep_raw, settled
from runtime.jetstream import Bus, Message, Reader

AHEAD = 20_000
"""Decisions that may wait for a lower number; beyond that the lower number is not in the stream."""


class Entry(Struct, frozen=True):
    """One message of the log at its position, with the decisions recorded there, by id."""

    position: int
    at: datetime
    batch: Batch
    recorded: Mapping[str, Decision]
    concluded: Concluded | None = None
    """The records made there; None: none."""

    def apply(self, world: World) -> list[Settled]:
        """Fold the message and its conclusions; return the parked events that it settles.

        Events parked on the way keep their bytes.
        """
        before = len(world.journal.parked)
        replay(world, self.position, self.at, self.batch, self.recorded, self.concluded)
        keep_raw(world.journal.parked, before, self.batch)
        return settled(self.batch, self.at)


class Log(Protocol):
    """A source of entries: the streams, an export, an archive."""

    def entries(self) -> AsyncIterator[Entry]:
        """Yield every message, in order."""


class StreamLog:
    """The log in NATS, first to last of `span` (stream sequences); position = sequence + base.

    `unsent` are decisions, by number, that may not have reached their stream yet; without
    `published` they are all there are, and the stream of decisions is not read.
    """

    def __init__(
        self,
        bus: Bus,
        cluster: str,
        *,
        base: int = 0,
        span: tuple[int, int],
        unsent: Iterable[Conclusions] = (),
        published: bool = True,
    ) -> None:
        self._bus = bus
        self._cluster = cluster
        self._base = base
        self._first, self._last = span
        self._unsent = tuple(unsent)
        self._published = published
        self.exhausted = False
        """No conclusion is recorded behind the entry that was given last."""

    async def entries(self) -> AsyncGenerator[Entry]:
        """Yield every message up to `last`.

        Raises:
            BusUnavailable, StreamMissing: the log cannot be read.
        """
        mine = subjects.events_of(self._cluster)
        newest = await self._bus.last(subjects.EVENTS, mine)
        end = min(self._last, newest.sequence if newest is not None else 0)
        subject = subjects.decisions(self._cluster)
        newest = await self._bus.last(subjects.DECISIONS, subject) if self._published else None
        last = newest.sequence if newest is not None else 0
        decisions = _Decisions(
            await fetching.read(self._bus, subjects.DECISIONS, subject, 1, last),
            self._bus,
            last,
            self._unsent,
        )
        reader = await fetching.read(self._bus, subjects.EVENTS, mine, self._first, end)
        try:
            while self._first <= end:
                messages = await fetching.following(reader, self._bus, end)
                if not messages:
                    return
                for message in messages:
                    if message.sequence > end:
                        return
                    position = message.sequence + self._base
                    batch = decode_batch(message.body, subjects.source_of(message.subject))
                    concluded = await decisions.at(position)
                    self.exhausted = decisions.exhausted
                    yield Entry(position, message.at, batch, *concluded)
                    if message.sequence == end:
                        return
        finally:
            await reader.close()
            await decisions.close()


class _Decisions:
    """The stream DECISIONS up to sequence `last`, read alongside, and then `unsent`."""

    def __init__(
        self, reader: Reader | Fetched, bus: Bus, last: int, unsent: tuple[Conclusions, ...]
    ) -> None:
        self._reader = reader
        self._bus = bus
        self._last = last
        self._unsent = unsent
        self._waiting: list[Conclusions] = []
        self._number = 0
        self._ahead: dict[int, Conclusions] = {}
        self._over = False

    async def at(self, position: int) -> tuple[dict[str, Decision], Concluded | None]:
        """Return the conclusions at `position`; positions must be requested in order."""
        found: dict[str, Decision] = {}
        said: Concluded | None = None
        while True:
            if not self._waiting and not await self._more():
                return found, said
            while self._waiting:
                one = self._waiting[-1]
                if one.as_of > position:
                    return found, said
                self._waiting.pop()
                if one.as_of != position:
                    continue
                if isinstance(one, Decision):
                    found[one.id] = one
                else:
                    said = one

    @property
    def exhausted(self) -> bool:
        """Whether all conclusions were taken."""
        return self._over and not self._waiting

    async def _more(self) -> bool:
        if self._over:
            return False
        new, over = await self._published()
        if over:
            new += [d for d in self._unsent if d.number > self._number]
            self._over = True
        self._waiting = new[::-1]
        return True

    async def _published(self) -> tuple[list[Conclusions], bool]:
        """Return the next decisions of the stream, and whether the stream ended."""
        new: list[Conclusions] = []
        messages: list[Message] = []
        if self._last:
            messages = await fetching.following(self._reader, self._bus, self._last)
        over = not messages or messages[-1].sequence >= self._last
        for message in messages:
            # The actuator has parked decisions that cannot be read; later decisions show that.
            for decision in decode_conclusions(message.body):
                if decision.number > self._number:
                    self._ahead[decision.number] = decision
        self._in_order(new)
        while self._ahead and (over or len(self._ahead) > AHEAD):
            # Below it nothing will come: the stream begins here, or has lost its oldest.
            self._number = min(self._ahead) - 1
            self._in_order(new)
        return new, over

    def _in_order(self, new: list[Conclusions]) -> None:
        while (decision := self._ahead.pop(self._number + 1, None)) is not None:
            self._number += 1
            new.append(decision)

    async def close(self) -> None:
        """Release the stream."""
        await self._reader.close()
