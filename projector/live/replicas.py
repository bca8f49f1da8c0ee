"""Replicas: the heartbeats of all replicas of all parts, on their way to table `replicas`.

Theory. Replicas of all parts publish heartbeats on NATS (`runtime.heartbeat`); the leading
projector stores them, at once after a change, else every few beats. A replica that ended in order
is forgotten at once, a replica that fell silent after a while, so that its silence is seen first.

Invariant: a write is tried once and never waited for: the next beat brings what a failed write
lacks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from runtime.heartbeat import LOOK_S, Heartbeat, decode

FORGET: Final = timedelta(minutes=3)
"""How long a replica that fell silent is remembered."""
REFRESH_S: Final = 10.0
"""Seconds between two writes without a change."""
MOST: Final = 200
"""Replicas that are remembered at most: accounts that may publish heartbeats may invent some."""


class Replica(Struct, frozen=True):
    """A replica of a part: its problem, "" for none, and when it was heard last.

    `since` is when the problem began, or ended.
    """

    part: str
    instance: str
    problem: str
    leads: bool
    since: datetime
    heard_at: datetime


class Replicas:
    """The last heartbeat of each replica."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._known: dict[tuple[str, str], Replica] = {}
        self._written: frozenset[tuple[str, str, bool, bool]] = frozenset()
        self._written_at: datetime | None = None

    def hear(self, body: bytes) -> None:
        """Take note of a message, if it is a heartbeat."""
        if (beat := decode(body)) is not None:
            self.note(beat)

    def note(self, beat: Heartbeat) -> None:
        """Take note of a heartbeat."""
        key, now = (beat.part, beat.instance), datetime.now(UTC)
        known = self._known.get(key)
        if beat.ends:
            self._known.pop(key, None)
        elif known is not None and bool(known.problem) == bool(beat.problem):
            # The words may change each time, as counts do: it is the same problem.
            self._known[key] = replace(known, problem=beat.problem, leads=beat.leads, heard_at=now)
        elif known is not None or len(self._known) < MOST:
            self._known[key] = Replica(*key, beat.problem, beat.leads, now, now)

    def due(self, now: datetime) -> list[Replica] | None:
        """Return all that are known if they are to be written now, else None."""
        for key, one in list(self._known.items()):
            if now - one.heard_at > FORGET:
                del self._known[key]
        said = frozenset(
            (one.part, one.instance, bool(one.problem), one.leads) for one in self._known.values()
        )
        fresh = self._written_at is not None and now - self._written_at < timedelta(
            seconds=REFRESH_S
        )
        if fresh and said == self._written:
            return None
        self._written, self._written_at = said, now
        return sorted(self._known.values(), key=lambda one: (one.part, one.instance))

    async def write_regularly(self, write: Callable[[list[Replica]], Awaitable[None]]) -> None:
        """Write replicas at intervals until cancelled."""
        while True:
            rows = self.due(datetime.now(UTC))
            if rows is not None:
                await write(rows)
            await asyncio.sleep(min(LOOK_S, self._every_s))
