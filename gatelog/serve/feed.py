"""Changes for watches: one query to the database a second, for any number of watches.

Theory. A watch is sent the lives of groups whose rows were written after a position of the log.
While there are watches, one task reads the checkpoints and, when they moved, the rows written
since; it keeps the last changes, and every watch filters them. A watch that begins before the kept
changes makes one query of its own.

A version of a watch is a position of the log.

Invariant: without watches there are no queries; the kept changes are bounded.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gatelog.readmodel import statements
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rows import LifeRow, PositionRow
from gatelog.serve.questions import Busy, Questions
from runtime.log import get_logger

POLL_S = 1.0
KEPT = 5000
AT_ONCE = 2000

log = get_logger("serve")


class TooOld(Exception):
    """More has changed since that version than was kept: list again."""


def position(model: ReadModel) -> int:
    """Return how far the log is folded, 0 before the first commit."""
    return next((row.seq for row in model.rows(PositionRow, statements.position.POSITION, {})), 0)


def changed(model: ReadModel, after: int) -> list[LifeRow]:
    """Return lives written behind a position, by position.

    Raises:
        TooOld: there are too many.
    """
    given = {"after": after, "limit": AT_ONCE + 1}
    rows = list(model.rows(LifeRow, statements.groups.CHANGED, given))
    if len(rows) > AT_ONCE:
        raise TooOld(f"more than {AT_ONCE} groups changed since: list again")
    return rows


class Feed:
    """Changes for all watches. Used within one event loop."""

    def __init__(self, questions: Questions, poll_s: float = POLL_S) -> None:
        self._questions = questions
        self._poll_s = poll_s
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._moved = asyncio.Condition()
        self._kept: deque[tuple[int, LifeRow]] = deque(maxlen=KEPT)
        self._floor = 0
        self.version = 0

    @asynccontextmanager
    async def watching(self, version: int | None) -> AsyncIterator[AsyncIterator[list[LifeRow]]]:
        """Yield what changes behind a version (None: from now on), batch by batch.

        An empty batch comes when nothing has changed for a while, so that a watch can look up.

        Raises:
            TooOld: that version is too far back.
            Busy: the database does not answer.
        """
        async with self._starting:  # two concurrent watches must start one task
            if self._task is None:
                self.version = self._floor = await self._questions.run(position)
                self._kept.clear()
                self._task = asyncio.create_task(self._follow())
            self._watchers += 1
        try:
            begin = self.version if version is None else version
            missed: list[LifeRow] = []
            if begin < self._floor:
                missed, begin = await self._missed(begin)
            yield self._batches(begin, missed)
        finally:
            self._watchers -= 1
            if self._watchers == 0 and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _missed(self, begin: int) -> tuple[list[LifeRow], int]:
        upto = self.version
        return await self._questions.run(lambda model: changed(model, begin)), upto

    async def _batches(self, begin: int, missed: list[LifeRow]) -> AsyncIterator[list[LifeRow]]:
        if missed:
            yield missed
        while True:
            await self._behind(begin)
            if self.version == begin:
                yield []
                continue
            if begin < self._floor:
                raise TooOld("too much changed at once: list again")
            rows = [row for at, row in self._kept if at > begin]
            begin = self.version
            yield rows

    async def _behind(self, version: int) -> None:
        """Wait until something lies behind a version, or for a while."""
        try:
            async with self._moved, asyncio.timeout(10 * self._poll_s):
                await self._moved.wait_for(lambda: self.version > version)
        except TimeoutError:
            pass

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._poll_s)
            try:
                await self._poll()
            except Busy as error:
                log.warning("watch_waits", problem=str(error))
            except Exception:  # watches would wait for ever
                log.exception("watch_failed")

    async def _poll(self) -> None:
        now = await self._questions.run(position)
        if now == self.version:
            return
        before = self.version
        try:
            found = await self._questions.run(lambda model: changed(model, before))
        except TooOld:
            self._kept.clear()
            self._floor = now
        else:
            if len(self._kept) + len(found) > KEPT:
                self._kept.clear()
                self._floor = self.version
            self._kept.extend((now, row) for row in found)
        async with self._moved:
            self.version = now
            self._moved.notify_all()
