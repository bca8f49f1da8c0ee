"""`gatelog replay --rebuild`: a new read model beside the one in force, then in its place.

    1  fold the log up to the position of the read model in force, while the projector runs on
    2  add rows that the log lacks, and fold new messages until that takes no time
    3  check that a projector can start from it
    4  take the checkpoint, so that the projector waits; fold the rest; put it in place

Theory. In steps 2 and 4, decisions are taken from the read model in force, which has them before
their stream does. The fold is that of a replay: past conclusions take effect, and no rule runs; so
the new read model has the same decisions with the same numbers.

Invariant: the new read model covers the log up to exactly the checkpoint in force.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from gatelog.replay.archiving import joined, live_position
from gatelog.replay.online import beginning, open_bus
from gatelog.shell.errors import CommandFailed
from podgroup.log.subjects import EVENTS
from projector.archive.standing import Standing
from projector.replay import carry
from projector.replay.compare import CACHE_KIB
from projector.replay.fetching import is_far
from projector.replay.fold import Callbacks, Result, fold
from projector.replay.log import StreamLog
from projector.replay.new_model import NewModel, open_new_model, replaced, taken
from projector.replay.sink import Sink
from projector.storage.database import DatabaseError, StillRead, database_url, reader
from projector.storage.loading import load_conclusions
from projector.storage.store import SqlStore
from projector.upkeep import migrate
from projector.writing.checkpoint import Checkpoint
from projector.writing.packing import pack_meta, unpack_meta
from runtime.jetstream import Bus
from runtime.settings import Settings

SOON_S = 0.3
"""The projector is asked to wait once the missing messages were folded in this many seconds."""
ROUNDS = 20
"""Rounds of catching up before the projector is asked to wait in any case."""
TRIES, PAUSE_S = 30, 1.0
"""How often, and with which pauses, a switch-over is tried while queries run."""


class Progress(Protocol):
    """Called with how far it is."""

    def expect(self, first: int, last: int) -> None:
        """Positions `first` to `last` are to be folded."""

    def say(self, what: str) -> None:
        """Something else than folding takes a while now."""

    def __call__(self, position: int, events: int) -> None:
        """Everything up to `position` is folded, `events` events in all."""


class Report(Struct, kw_only=True):
    """The result of a rebuild."""

    messages: int
    events: int
    rows: int
    waited_s: float
    """Seconds for which the projector had to wait."""
    position: int
    left_over: str


async def rebuild(
    settings: Settings,
    progress: Progress,
    *,
    from_epoch: bool = False,
    apart: bool | None = None,
    tries: int = TRIES,
) -> Report:
    """Make the read model of a cluster anew from the log and switch over to it.

    `apart`: a process of its own writes; None: for a long log. `tries`: how often a switch-over is
    tried while queries run, a second apart.

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
            if apart is None:
                apart = await is_far(bus, EVENTS, at.last - at.first + 1)
            model = await asyncio.to_thread(open_new_model, url, cluster)
            sink = Sink(model.url, cluster, at.mode, draft=model.draft, apart=apart)
            try:
                begin = replace(beginning(settings, at), position=at.first - 1)
                result = Result(begin.world())
                calls = Callbacks(progress=lambda position: progress(position, result.events))
                progress.expect(begin.position, at.last)
                await fold(log.entries(), result, sink=sink, calls=calls)
                progress.say("switching over")
                return await _Switch(settings, live, bus, (model, sink, result), at).over(tries)
            finally:
                sink.drop()
                await asyncio.to_thread(model.close)


class _Switch:
    """Steps 2 to 4."""

    def __init__(
        self,
        settings: Settings,
        live: sa.Engine,
        bus: Bus,
        made: tuple[NewModel, Sink, Result],
        at: Standing,
    ) -> None:
        self._cluster = settings.cluster
        self._live = live
        self._bus = bus
        self._model, self._sink, self._result = made
        self._at = at
        self._waited_s = 0.0

    async def over(self, tries: int) -> Report:
        await asyncio.to_thread(self._sink.written)
        await asyncio.to_thread(self._model.complete, self._at.first - 1)
        await self._catch_up()
        await asyncio.to_thread(self._see_that_it_loads)
        for attempt in range(tries):
            try:
                await self._switch()
                break
            except StillRead as error:
                if attempt == tries - 1:
                    raise DatabaseError(
                        f"{error}: a transaction has read the tables of {self._cluster!r} all the "
                        "time (pg_stat_activity), so nothing was put in place; run it again"
                    ) from None
            await asyncio.sleep(PAUSE_S)
            await self._catch_up()
        result = self._result
        return Report(
            messages=result.messages,
            events=result.events,
            rows=self._sink.rows,
            waited_s=self._waited_s,
            position=self._position,
            left_over=self._model.left_over,
        )

    @property
    def _position(self) -> int:
        return self._result.world.meta.position

    async def _catch_up(self) -> None:
        for _ in range(ROUNDS):
            began = time.monotonic()
            await self._follow(self._live_position())
            if time.monotonic() - began < SOON_S:
                return

    def _see_that_it_loads(self) -> None:
        """Check that a projector can start from the new read model, and finds the folded state.

        Raises:
            DatabaseError: it does not, which is a fault of gatelog's.
        """
        store = SqlStore(self._model.url, self._cluster, draft=self._model.draft)
        try:
            loaded, world = store.load(), self._result.world
        finally:
            store.close()
        found = (0, 0, 0)
        if loaded is not None:
            found = (loaded.checkpoint.seq, len(loaded.groups), len(loaded.pods))
        folded = (self._position, len(world.groups), len(world.pods))
        if found != folded:
            raise DatabaseError(
                f"the new read model has position, groups and pods {found}, and {folded} were "
                "folded: nothing was put in place; report this, with `gatelog replay --verify`"
            )

    async def _switch(self) -> None:
        began = time.monotonic()
        try:
            with taken(self._model) as old:
                if old is None:
                    raise CommandFailed("the read model lost its checkpoint during the rebuild")
                # Of another epoch nothing can be folded; `_last` says so.
                if old.epoch == self._at.epoch and old.base == self._at.base:
                    await self._follow(old.seq)
                new = self._last(old)
                await asyncio.to_thread(self._model.put_in_place, old, new)
        finally:
            self._waited_s += time.monotonic() - began

    def _last(self, old: Checkpoint) -> Checkpoint:
        """Return the checkpoint with which it takes the place of the read model in force."""
        world = self._result.world
        if (old.seq, old.epoch, old.mode) != (self._position, world.meta.epoch, world.mode):
            raise DatabaseError(
                f"the read model in force is at position {old.seq} of epoch {old.epoch} "
                f"({old.mode}), the new one at {self._position} of {world.meta.epoch} "
                f"({world.mode}): the log changed during the rebuild, so nothing was put in place; "
                "run it again"
            )
        # Numbers must go on from those in force, whatever was recorded: the stream of decisions has
        # them.
        known = unpack_meta(old.folded).decisions
        world.meta.decisions = max(world.meta.decisions, known)
        return replaced(old, pack_meta(world.meta))

    def _live_position(self) -> int:
        """Return the position of the read model in force."""
        with self._live.connect() as connection:
            now = live_position(connection, self._cluster)
        return now.last if now.epoch == self._at.epoch else self._position

    async def _follow(self, position: int) -> None:
        if position <= self._position:
            return
        made = self._result.world.meta.decisions
        with self._live.connect() as connection:
            decisions = load_conclusions(connection, self._cluster, made)
        base = self._at.base
        log = StreamLog(
            self._bus,
            self._cluster,
            base=base,
            span=(self._position - base + 1, position - base),
            unsent=decisions,
            published=False,
        )
        await fold(log.entries(), self._result, sink=self._sink)
        await asyncio.to_thread(self._sink.written)


@contextmanager
def _asking(url: str) -> Iterator[sa.Engine]:
    engine = reader(url)
    if engine.dialect.name == "sqlite":
        # One pass over all of history: a large cache would be of no use.
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
    """Refuse to lose what only the read model in force knows, unless forced.

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
        connection.scalar(sa.text(carry.count_kept(table)), values)
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
