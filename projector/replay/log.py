"""What is replayed: messages of the log in order, each with the decisions recorded at its place.

Theory. EVENTS and DECISIONS are two streams, both in order: decisions by number, and their places
(`as_of`) never go back. One pass over both merges them with a single decision of look-ahead, so
memory does not grow with the log. A decision that was sent again has a number that was seen.

Invariant: a message comes with exactly the decisions made after it was folded.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime

import msgspec
from msgspec import Struct

from podgroup import subjects
from podgroup.codec import decode_batch, decode_decision
from podgroup.events import Batch, Decision
from podgroup.runtime.jetstream import Bus, Message, Reader

WAIT_S = 5.0
"""Seconds without a message after which a stream is taken to be at its end."""


class Entry(Struct, frozen=True):
    """One message of the log at its position, with the decisions recorded there, by id."""

    position: int
    at: datetime
    batch: Batch
    recorded: Mapping[str, Decision]


class StreamLog:
    """The log in NATS, from `first` to `last` (stream sequences); position = sequence + base."""

    def __init__(
        self, bus: Bus, cluster: str, shard: int, *, base: int = 0, first: int = 1, last: int
    ) -> None:
        self._bus = bus
        self._cluster = cluster
        self._shard = shard
        self._base = base
        self._first = first
        self._last = last

    async def entries(self) -> AsyncIterator[Entry]:
        """Yield every message up to `last`.

        Raises:
            BusUnavailable, StreamMissing: the log cannot be read.
        """
        decisions = _Decisions(self._bus, self._cluster, self._shard)
        reader = self._bus.read(
            subjects.EVENTS, subjects.events_of(self._cluster, self._shard), self._first
        )
        try:
            while messages := await self._next(reader):
                for message in messages:
                    if message.sequence > self._last:
                        return
                    position = message.sequence + self._base
                    yield Entry(
                        position,
                        message.at,
                        decode_batch(message.body),
                        await decisions.at(position),
                    )
                    if message.sequence == self._last:
                        return
        finally:
            await reader.close()
            await decisions.close()

    async def _next(self, reader: Reader) -> list[Message]:
        return await reader.next(WAIT_S)


class _Decisions:
    """The stream DECISIONS, read alongside."""

    def __init__(self, bus: Bus, cluster: str, shard: int) -> None:
        self._reader = bus.read(subjects.DECISIONS, subjects.decisions(cluster, shard), 1)
        self._waiting: list[Decision] = []
        self._number = 0
        self._over = False

    async def at(self, position: int) -> dict[str, Decision]:
        """Return the decisions recorded at `position`; positions are asked in order."""
        found: dict[str, Decision] = {}
        while True:
            if not self._waiting and not await self._more():
                return found
            while self._waiting:
                decision = self._waiting[-1]
                if decision.as_of > position:
                    return found
                self._waiting.pop()
                if decision.as_of == position:
                    found[decision.id] = decision

    async def _more(self) -> bool:
        if self._over:
            return False
        messages = await self._reader.next(WAIT_S)
        if not messages:
            self._over = True
            return False
        new: list[Decision] = []
        for message in messages:
            try:
                decision = decode_decision(message.body)
            except msgspec.MsgspecError:
                continue  # parked by the actuator; the difference shows in what it decided
            if decision.number > self._number:
                self._number = decision.number
                new.append(decision)
        self._waiting = new[::-1]
        return True

    async def close(self) -> None:
        """Let go of the stream."""
        await self._reader.close()
