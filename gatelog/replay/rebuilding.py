"""`gatelog replay --rebuild`: a new read model beside the live one, then in its place.

    1  fold the log up to the position of the live read model, while the projector runs on
    2  fold what has come meanwhile, again and again, until that is little
    3  take the checkpoint, so that the projector waits; fold the rest; put the rows in place

Theory. Step 3 is the only one that touches the live read model, and it is one transaction. The
decisions of what comes in steps 2 and 3 are taken from the live read model, where they are before
they are in their stream.

Invariant: who is stopped at any moment leaves the old read model as it was, or the new one whole.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from gatelog.replay.archiving import joined, live_position
from gatelog.replay.online import beginning, open_bus
from gatelog.shell.errors import CommandFailed
from podgroup.log.subjects import EVENTS
from projector.archive.standing import Standing
from projector.replay import merging
from projector.replay.compare import CACHE_KIB
from projector.replay.fetching import is_far
from projector.replay.log import StreamLog
from projector.replay.rebuild import Progress, Rebuild
from projector.replay.stage import Stage
from projector.replay.staging import open_stage
from projector.storage.database import reader
from projector.storage.loading import load_conclusions
from projector.storage.urls import database_url
from projector.upkeep import migrate
from projector.writing.checkpoint import Checkpoint
from runtime.jetstream import Bus
from runtime.settings import Settings

NEAR_MESSAGES = 500
"""The projector is asked to wait when no more messages than this are missing."""
ROUNDS = 20
"""Rounds of catching up before it is asked all the same."""


class Report(Struct, kw_only=True):
    """What a rebuild came to."""

    messages: int
    events: int
    rows: int
    changed: int
    """Rows of the live read model that were deleted, and rows that were inserted."""
    waited_s: float
    """Seconds for which the projector had to wait."""
    position: int
    left_over: str


async def rebuild(settings: Settings, progress: Progress, *, from_epoch: bool = False) -> Report:
    """Make the read model of a cluster anew from the log and switch over to it.

    Raises:
        CommandFailed: the log is not complete and `from_epoch` does not help or is not set.
        DatabaseError: the schema is another, or a rebuild is at work already.
    """
    url, cluster = database_url(settings), settings.cluster
    migrate.check(url)
    with _asking(url) as live:
        with live.connect() as connection:
            at = live_position(connection, cluster)
            _complete(connection, at, settings, from_epoch=from_epoch)
        async with open_bus(settings) as bus:
            log = await joined(bus, settings, at)
            far = await is_far(bus, EVENTS, at.last - at.first + 1)
            stage = await asyncio.to_thread(open_stage, url, cluster, apart=far)
            try:
                begin = replace(beginning(settings, at), position=at.first - 1)
                work = Rebuild(stage, begin, progress)
                progress.expect(work.position, at.last)
                await work.fold(log.entries())
                progress.say("switching over")
                return await _Switch(settings, live, bus, stage, work, at).over()
            finally:
                await asyncio.to_thread(stage.close)


class _Switch:
    """Steps 2 and 3."""

    def __init__(
        self,
        settings: Settings,
        live: sa.Engine,
        bus: Bus,
        stage: Stage,
        work: Rebuild,
        at: Standing,
    ) -> None:
        self._settings = settings
        self._live = live
        self._bus = bus
        self._stage = stage
        self._work = work
        self._at = at

    async def over(self) -> Report:
        await asyncio.to_thread(self._stage.prepare)
        for _ in range(ROUNDS):
            there = self._live_position()
            if there - self._work.position <= NEAR_MESSAGES:
                break
            await self._follow(there)
        began = time.monotonic()
        old = await asyncio.to_thread(self._stage.checkpoint)
        try:
            if old is None:
                raise CommandFailed("the live read model lost its checkpoint during the rebuild")
            changed = await self._finish(old)
        except BaseException:
            await asyncio.to_thread(self._stage.undo)
            raise
        work = self._work
        return Report(
            messages=work.messages,
            events=work.events,
            rows=work.rows,
            changed=changed,
            waited_s=time.monotonic() - began,
            position=work.position,
            left_over=self._stage.left_over,
        )

    async def _finish(self, old: Checkpoint) -> int:
        # Of another epoch nothing can be folded; `finish` says so.
        if old.epoch == self._at.epoch and old.base == self._at.base:
            await self._follow(old.seq)
        return await asyncio.to_thread(self._work.finish, old)

    def _live_position(self) -> int:
        """Return the position of the live read model."""
        with self._live.connect() as connection:
            now = live_position(connection, self._settings.cluster)
        return now.last if now.epoch == self._at.epoch else self._work.position

    async def _follow(self, position: int) -> None:
        if position <= self._work.position:
            return
        of = self._settings.cluster
        made = self._work.world.meta.decisions
        with self._live.connect() as connection:
            decisions = load_conclusions(connection, of, made)
        base = self._at.base
        log = StreamLog(
            self._bus,
            of,
            base=base,
            span=(self._work.position - base + 1, position - base),
            unsent=decisions,
            published=False,
        )
        await self._work.fold(log.entries())


@contextmanager
def _asking(url: str) -> Iterator[sa.Engine]:
    engine = reader(url)
    if engine.dialect.name == "sqlite":
        # It looks through all of history once, and what it then holds it never needs again.
        sa.event.listen(engine, "connect", _with_small_cache)
    try:
        yield engine
    finally:
        engine.dispose()


def _with_small_cache(connection: Any, _: object) -> None:
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}").close()


def _complete(
    connection: sa.Connection, at: Standing, settings: Settings, *, from_epoch: bool
) -> None:
    """Refuse to lose what only the live read model knows, unless forced.

    Raises:
        CommandFailed: the present epoch is not the first.
    """
    if from_epoch or at.epoch == 1:
        return
    begin = at.first - 1
    values: dict[str, Any] = {
        "cluster": settings.cluster,
        "floor": begin,
    }
    groups, lines = (
        connection.scalar(sa.text(merging.count_kept(table)), values)
        for table in ("groups", "history")
    )
    cut = connection.scalar(
        sa.text(
            "SELECT count(*) FROM groups WHERE cluster = :cluster AND shard = 0 "
            "AND created_seq <= :floor AND (gone_at IS NULL OR as_of_seq > :floor)"
        ),
        values,
    )
    raise CommandFailed(
        f"the log begins with epoch {at.epoch}, at position {begin + 1}: what was before is in the "
        f"read model only. --from-epoch rebuilds from there: {groups} groups that were over by "
        f"then and {lines} lines of history stay as they are; {cut} groups that were not over get "
        "rows of what the log still says of them, and lose their earlier waits and admissions"
    )
