"""A new read model from the log: fold what was recorded, and stage what comes of it.

Theory. The same fold as in a replay: what was concluded then takes effect, and no rule is asked. So
the new read model is at the position of the live one, with the same decisions under the same
numbers, and the projector that loads it goes on as it would after a restart.

Invariant: `finish` puts the new rows in place if and only if they cover the log up to the live
checkpoint exactly.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from podgroup.folding import drain_journal
from projector.replay.finals import Finals
from projector.replay.fold import Beginning
from projector.replay.log import Entry
from projector.replay.stage import Stage, replaced
from projector.storage.database import DatabaseError
from projector.writing.checkpoint import Checkpoint
from projector.writing.packing import pack_meta, unpack_meta
from projector.writing.parked_rows import Settled
from runtime.collector import collecting_rarely

BATCH_EVENTS = 10_000
"""Events per transaction of the stage; rows of two such are held, as they are and packed."""
TELL_EVERY = 2000
"""Events between two words about progress."""


class Progress(Protocol):
    """Called with how far it is."""

    def expect(self, first: int, last: int) -> None:
        """Positions `first` to `last` are to be folded."""

    def say(self, what: str) -> None:
        """Something else than folding takes a while now."""

    def __call__(self, position: int, events: int) -> None:
        """Everything up to `position` is folded, `events` events in all."""


class Rebuild:
    """Folds entries into a stage, from an empty world at the beginning of an epoch."""

    def __init__(
        self,
        stage: Stage,
        begin: Beginning,
        progress: Progress,
    ) -> None:
        self.world = begin.world()
        self.messages = 0
        self.events = 0
        self.rows = 0
        self._floor = begin.position
        self._stage = stage
        self._finals = Finals()
        self._progress = progress
        self._settled: list[Settled] = []
        self._pending = 0
        self._tell_at = TELL_EVERY
        self._writing: asyncio.Future[None] | None = None

    @property
    def position(self) -> int:
        """Position up to which the log is folded."""
        return self.world.meta.position

    async def fold(self, entries: AsyncIterator[Entry]) -> None:
        """Fold entries that follow those before; afterwards their rows are in the stage."""
        try:
            with collecting_rarely():
                async for entry in entries:
                    self._fold(entry)
                    if self._pending >= BATCH_EVENTS:
                        await self._hand_over()
                    if self.events >= self._tell_at:
                        self._tell_at = self.events + TELL_EVERY
                        self._progress(entry.position, self.events)
            await self._hand_over()
        finally:
            await self._written()
        self._progress(self.position, self.events)

    def _fold(self, entry: Entry) -> None:
        self._settled += entry.apply(self.world)
        self.messages += 1
        self.events += len(entry.batch.events)
        self._pending += len(entry.batch.events)

    async def _hand_over(self) -> None:
        """Give rows to the thread that writes them while the fold goes on; one batch at a time."""
        rows = self._finals.pick(self.world, drain_journal(self.world))
        rows.settled, self._settled, self._pending = self._settled, [], 0
        self.rows += sum(map(len, rows.tables.values()))
        await self._written()
        loop = asyncio.get_running_loop()
        self._writing = loop.run_in_executor(None, self._stage.append, rows)

    async def _written(self) -> None:
        """Wait until everything that was given out is in the stage."""
        writing, self._writing = self._writing, None
        if writing is not None:
            await writing

    def finish(self, old: Checkpoint) -> int:
        """Put the new rows in place of the live ones; returns how many rows that changed.

        `old` is the live checkpoint, which the stage has taken.

        Raises:
            DatabaseError: the new read model does not end where the live one does.
        """
        world = self.world
        if (old.seq, old.epoch, old.mode) != (self.position, world.meta.epoch, world.mode):
            raise DatabaseError(
                f"the live read model is at position {old.seq} of epoch {old.epoch} ({old.mode}), "
                f"the new one at {self.position} of {world.meta.epoch} ({world.mode}): the log "
                "changed during the rebuild, so nothing was put in place; run it again"
            )
        # Numbers must go on where the live ones stand, whatever was recorded: the stream of
        # decisions knows them.
        known = unpack_meta(old.folded).decisions
        world.meta.decisions = max(world.meta.decisions, known)
        rest = self._finals.open_rows(world)
        self.rows += sum(map(len, rest.tables.values()))
        self._stage.append(rest)
        new = replaced(old, pack_meta(world.meta))
        return self._stage.merge(old, new, self._floor, loose=self._finals.loose)
