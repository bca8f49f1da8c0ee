"""The actions of `gatelog replay` on a log: verify, decide again, go back in time, or step through.

Invariant: the live database is read in one transaction and never written.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa

from gatelog.replay.archiving import joined, live_position
from gatelog.replay.differing import ignore
from gatelog.replay.steps import Step, Stepper
from gatelog.shell import statedir
from gatelog.shell.errors import CommandFailed
from gatelog.shell.whereabouts import read_model_at
from projector import tables
from projector.archive.standing import Standing
from projector.replay.compare import TableResult, compare, digested
from projector.replay.digests import Digests
from projector.replay.fold import Beginning, Callbacks, Difference, Redeciding, Result, fold
from projector.replay.new_model import fill
from projector.replay.sink import Sink
from projector.replay.vouching import introduce, listed_all
from projector.storage.database import reading, writer
from projector.storage.opening import policy_of
from projector.storage.urls import DatabaseError, database_url
from projector.upkeep import migrate
from runtime.embedded import EmbeddedNats, running
from runtime.jetstream import Bus, connect
from runtime.settings import NatsSettings, Settings

_CONNECT_S = 15.0
Progress = Callable[[int], None]


@asynccontextmanager
async def open_bus(settings: Settings) -> AsyncIterator[Bus]:
    """Connect to the log: nats.url, or the embedded server of the state directory.

    An embedded server that is not running is started for the time being, on the same store.
    """
    own: EmbeddedNats | None = None
    nats: NatsSettings = settings.nats
    if not nats.url:
        store = statedir.of(settings).nats
        found = running(store)
        if found is None:
            if not store.exists():
                raise CommandFailed(f"no log in {store}: give nats.url or another --state-dir")
            own = EmbeddedNats(store)
            await own.start()
            found = own.settings()
        nats = found
    try:
        bus = await connect(nats, "gatelog-replay", deadline_s=_CONNECT_S)
        try:
            yield bus
        finally:
            await bus.close()
    finally:
        if own is not None:
            await own.stop()


def beginning(settings: Settings, at: Standing) -> Beginning:
    """Return where a fold of the log of the present epoch begins."""
    policy = policy_of(settings.queueing)
    return Beginning(settings.cluster, at.mode, policy, at.epoch, at.base)


async def verify(settings: Settings, progress: Progress) -> tuple[Result, list[TableResult]]:
    """Fold the log into a fresh database beside the live one and compare row by row."""
    with tempfile.TemporaryDirectory(prefix="gatelog-replay-") as folder:
        url = f"sqlite:///{folder}/replay.sqlite3"
        migrate.make_tables(url)
        # One transaction: the rows compared are those of the checkpoint.
        with reading(database_url(settings)) as connection:
            at = live_position(connection, settings.cluster)
            async with open_bus(settings) as bus:
                log = await joined(bus, settings, at)
                calls = Callbacks(differs=ignore, progress=progress)
                begins = beginning(settings, at)
                async with digesting(connection, settings.cluster, at) as known:
                    with Sink(url, settings.cluster, at.mode) as sink:
                        result = await fold(log.entries(), begins, sink=sink, calls=calls)
            found = await asyncio.to_thread(
                held_against, connection, url, settings.cluster, at, known
            )
    return result, found


@asynccontextmanager
async def digesting(
    live: sa.Connection, cluster: str, at: Standing
) -> AsyncIterator[dict[str, Digests]]:
    """Let the server of a live read model digest it meanwhile; the digests are there at the end.

    The connection is the thread's until then. An error ends what the server is doing for it.
    """
    known: dict[str, Digests] = {}
    if live.dialect.name != "postgresql" or at.epoch > 1:
        yield known
        return
    raw: Any = live.connection.driver_connection
    with ThreadPoolExecutor(1) as beside:
        work = beside.submit(digested, live, cluster)
        try:
            yield known
            found = await asyncio.wrap_future(work)
            known |= found
        except BaseException:
            while not work.done():
                with suppress(Exception):  # the first error is to be raised
                    raw.cancel_safe(timeout=5)
                wait([work], 0.1)
            raise


def held_against(
    live: sa.Connection,
    url: str,
    cluster: str,
    at: Standing,
    known: dict[str, Digests],
) -> list[TableResult]:
    """Compare the live read model, row by row, with what a replay has written to `url`.

    `known` is what `digesting` gave.
    """
    floor = 0
    if at.epoch > 1:
        copy = writer(url)
        with copy.begin() as connection:
            listed_at = listed_all(connection, cluster)
            floor = at.last if listed_at is None else listed_at
            introduce(live, connection, cluster, floor)
        copy.dispose()
    with reading(url) as other:
        return compare(live, other, cluster, floor, known)


async def redecide(
    settings: Settings, progress: Progress, differs: Callable[[Difference], None]
) -> Result:
    """Let today's rules decide on the log; recorded decisions keep taking effect."""
    calls = Callbacks(differs=differs, progress=progress)
    return await _folded(settings, calls, Redeciding(policy_of(settings.queueing)))


def written_to(target: str | None, cluster: str, mode: str) -> AbstractContextManager[Sink | None]:
    """Return a sink for a read model at an empty place; None: no sink is wanted.

    Raises:
        CommandFailed: the place has a read model already, which is not touched.
    """
    if target is None:
        return nullcontext()
    # Without such a file or table the sink makes it, or reports the error.
    with suppress(DatabaseError, sa.exc.SQLAlchemyError), reading(target) as connection:
        known = sa.inspect(connection).has_table(tables.checkpoints.name)
        if known and connection.execute(sa.select(tables.checkpoints.c.seq)).first():
            raise CommandFailed(
                f"{read_model_at(target)} holds a read model already, and what is written "
                "here needs an empty database: name another one, or remove it first"
            )
    return fill(target, cluster, mode)


async def as_of(
    settings: Settings, moment: int | datetime, target: str, progress: Progress
) -> Result:
    """Write the read model as it was at a position or time to an empty database."""
    with reading(database_url(settings)) as connection:
        at = live_position(connection, settings.cluster)
    if isinstance(moment, int):
        at = msgspec.structs.replace(at, last=min(at.last, moment))
    until = moment if isinstance(moment, datetime) else None
    with written_to(target, settings.cluster, at.mode) as sink:
        async with open_bus(settings) as bus:
            log = await joined(bus, settings, at)
            calls = Callbacks(differs=ignore, progress=progress)
            begins = beginning(settings, at)
            return await fold(log.entries(), begins, sink=sink, calls=calls, until=until)


async def world_at(settings: Settings, moment: datetime) -> Result:
    """Return the state as it was at a time; nothing is written.

    Raises:
        CommandFailed: there is no log.
    """
    with reading(database_url(settings)) as connection:
        at = live_position(connection, settings.cluster)
    async with open_bus(settings) as bus:
        log = await joined(bus, settings, at)
        return await fold(log.entries(), beginning(settings, at), until=moment)


async def steps(settings: Settings, namespace: str, name: str, progress: Progress) -> list[Step]:
    """Return every step of a group's lives in the log."""
    stepper = Stepper(namespace, name)
    await _folded(settings, Callbacks(stepper.observe, ignore, progress))
    return stepper.steps


async def _folded(
    settings: Settings, calls: Callbacks, redecide: Redeciding | None = None
) -> Result:
    with reading(database_url(settings)) as connection:
        at = live_position(connection, settings.cluster)
    async with open_bus(settings) as bus:
        log = await joined(bus, settings, at)
        return await fold(log.entries(), beginning(settings, at), calls=calls, redecide=redecide)
