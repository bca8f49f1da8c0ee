"""The log read once: what came, and what came of it then.

Invariant: the live database is read in one transaction and never written; no rule is asked.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct

from gatelog.replay.archiving import joined, live_position
from gatelog.replay.offline import open_source
from gatelog.replay.online import beginning, open_bus
from gatelog.shell.since import moment
from gatelog.whatif.history import Gathered
from gatelog.whatif.tallying import Counting, Tally, charge
from podgroup.log.journal import Journal
from podgroup.model.policy import Policy
from podgroup.state.world import World
from projector.replay.fold import Beginning, Callbacks, fold
from projector.replay.log import Entry, Log
from projector.storage.database import database_url, reading
from runtime.settings import Settings

Progress = Callable[[datetime, int], None]
TELL_EVERY = 500
"""Messages between two reports of progress."""


class Asked(Struct, frozen=True):
    """Which part of a log: `since` and `until` as they were given.

    `measured` is on how many events, of those that count, a play as it was is measured beside one
    that is changed; 0: on all.
    """

    since: str
    until: str
    label: str
    measured: int = 0


class Past(Struct):
    """What a log said."""

    gathered: Gathered
    then: Tally
    policy: Policy
    mode: str
    cluster: str
    since: datetime
    end: datetime
    measured: datetime
    """Until when there are as many events that count as were asked for; else `end`."""
    part: Tally
    """What came up to then."""
    events: int
    unread: list[str]
    epoch: int = 1
    """That which the log begins with, if more was asked for; 1: nothing was before."""


async def read_file(where: str, settings: Settings, asked: Asked, progress: Progress) -> Past:
    """Read an export or an archive; spans are before it was written."""
    log = open_source(where, settings)
    header = log.header
    now = header.written_at or datetime.now(UTC)
    begin = Beginning(header.cluster, header.mode, header.policy, header.epoch)
    past = await _read(log, begin, asked, now, progress)
    past.unread = log.unread
    return past


async def read_log(settings: Settings, asked: Asked, progress: Progress) -> Past:
    """Read the log of the settings, archive included, up to the position of the read model."""
    with reading(database_url(settings)) as connection:
        at = live_position(connection, settings.cluster, settings.projector.shard)
    async with open_bus(settings) as bus:
        log = await joined(bus, settings, at)
        return await _read(log, beginning(settings, at), asked, datetime.now(UTC), progress)


async def _read(
    log: Log, begin: Beginning, asked: Asked, now: datetime, progress: Progress
) -> Past:
    until = moment("--until", asked.until, now) if asked.until else None
    since = moment("--since", asked.since, until or now)
    tally = Tally(label=asked.label, starts={})
    counting = Counting(tally, since)
    part = Tally(label=asked.label, starts={}) if asked.measured else tally
    counting_part = Counting(part, since)
    gathered = Gathered()
    messages = events = early = 0
    measured: datetime | None = None

    def each(entry: Entry, world: World, journal: Journal) -> None:
        nonlocal messages, events, early, measured
        gathered.observe(entry, world)
        charge(world, journal.groups)
        counting.each(world, journal.decisions)
        if part is not tally and measured is None:
            counting_part.each(world, journal.decisions)
        messages += 1
        events += len(entry.batch.events)
        if entry.at < since:
            early = events
        elif measured is None and 0 < asked.measured <= events - early:
            measured = entry.at
            counting_part.finish(world, measured)
        if messages % TELL_EVERY == 0:
            progress(entry.at, events)

    result = await fold(log.entries(), begin, calls=Callbacks(each), until=until)
    world = result.world
    end = gathered.end or now
    gathered.workloads.finish(world, end)
    counting.finish(world, end)
    return Past(
        gathered,
        tally,
        world.policy,
        world.mode,
        begin.cluster,
        max(since, gathered.begin or since),
        end,
        measured or end,
        tally if measured is None else part,
        events,
        [],
        begin.epoch if gathered.begin is not None and since < gathered.begin else 1,
    )
