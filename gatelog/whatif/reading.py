"""The log read: arrivals, and past results; and read once more for an alternative.

Invariant: the live database is read in one transaction and never written. Where rules run, their
conclusions have no effect.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime

from msgspec import Struct

from gatelog.replay.archiving import joined as joined_log
from gatelog.replay.archiving import live_position
from gatelog.replay.offline import open_source
from gatelog.replay.online import beginning, open_bus
from gatelog.shell.since import moment
from gatelog.whatif.following import Baseline, Follower, Opened, charge, told
from gatelog.whatif.history import Gathered
from gatelog.whatif.tallying import Counting, Tally
from podgroup.engine import drain_journal, step_by
from podgroup.log.events import SettingsRecorded
from podgroup.log.journal import At, Journal
from podgroup.model.policy import Policy
from podgroup.rules import VERSION
from podgroup.state.world import World
from projector.replay.fold import Beginning, Callbacks, fold
from projector.replay.log import Entry
from projector.storage.database import reading
from projector.storage.urls import database_url
from runtime.collector import collecting_rarely
from runtime.settings import Settings

Progress = Callable[[datetime, int], None]
TELL_EVERY = 500
"""Messages between two reports of progress."""


class Asked(Struct, frozen=True):
    """Which part of a log: `since` and `until` as they were given.

    `measured`: for a log of Kueue's decisions, on how many of the counted events gatelog's own
    decisions are measured beside a change; 0: on all.
    """

    since: str
    until: str
    label: str
    measured: int = 0


Opens = Callable[[], AbstractAsyncContextManager[Opened]]


class Past(Struct):
    """The contents of a log."""

    gathered: Gathered
    then: Tally
    policy: Policy
    mode: str
    cluster: str
    since: datetime
    end: datetime
    measured: datetime
    """The time by which `Asked.measured` counted events had come; else `end`."""
    part: Tally
    """The tally up to `measured`."""
    events: int
    unread: list[str]
    opens: Opens
    epoch: int = 1
    """The first epoch of the log, if an earlier begin was requested; 1: nothing was before."""
    groups: int = 0
    """How many groups came."""
    earlier: int | None = None
    """The oldest version of the rules that decided, if it is not today's; 0: unknown."""


async def read_file(where: str, settings: Settings, asked: Asked, progress: Progress) -> Past:
    """Read an export or an archive; spans are before it was written."""
    log = open_source(where, settings)
    header = log.header
    now = header.written_at or datetime.now(UTC)
    begin = Beginning(header.cluster, header.mode, header.policy, header.epoch)

    @asynccontextmanager
    async def opens() -> AsyncIterator[Opened]:
        yield Opened(open_source(where, settings), begin)

    past = await _read(Opened(log, begin), opens, asked, now, progress)
    past.unread = log.unread
    return past


async def read_log(settings: Settings, asked: Asked, progress: Progress) -> Past:
    """Read the log of the settings, archive included, up to the position of the read model."""
    with reading(database_url(settings)) as connection:
        at = live_position(connection, settings.cluster)

    @asynccontextmanager
    async def opens() -> AsyncIterator[Opened]:
        async with open_bus(settings) as bus:
            yield Opened(await joined_log(bus, settings, at), beginning(settings, at))

    async with opens() as opened:
        return await _read(opened, opens, asked, datetime.now(UTC), progress)


async def _read(
    opened: Opened, opens: Opens, asked: Asked, now: datetime, progress: Progress
) -> Past:
    until = moment("--until", asked.until, now) if asked.until else None
    since = moment("--since", asked.since, until or now)
    begin = opened.begin
    reads = _Reads(asked, since, progress)
    result = await fold(opened.log.entries(), begin, calls=Callbacks(reads.each), until=until)
    world, gathered = result.world, reads.gathered
    end = gathered.end or now
    gathered.workloads.finish(world, end)
    reads.counting.finish(world, end)
    measured = reads.measured
    return Past(
        gathered,
        reads.tally,
        world.policy,
        world.mode,
        begin.cluster,
        max(since, gathered.begin or since),
        end,
        measured or end,
        reads.tally if measured is None else reads.part,
        reads.events,
        [],
        opens,
        begin.epoch if gathered.begin is not None and since < gathered.begin else 1,
        result.groups,
        reads.earlier(begin),
    )


class _Reads:
    """Takes in the entries of a log."""

    def __init__(self, asked: Asked, since: datetime, progress: Progress) -> None:
        self.gathered = Gathered()
        self.tally = Tally(label=asked.label, starts={})
        self.counting = Counting(self.tally, since)
        self.part = Tally(label=asked.label, starts={}) if asked.measured else self.tally
        self.measured: datetime | None = None
        self.events = 0
        self._counting_part = Counting(self.part, since)
        self._asked = asked
        self._since = since
        self._progress = progress
        self._messages = self._early = 0
        self._rules: list[int] = []
        """Versions of the rules that decided."""

    def each(self, entry: Entry, world: World, journal: Journal) -> None:
        """Take in an entry."""
        self.gathered.observe(entry, world)
        charge(world, journal.groups)
        world.quotas.read()
        self.counting.each(world, journal.decisions)
        if self.part is not self.tally and self.measured is None:
            self._counting_part.each(world, journal.decisions)
        self._rules += [
            one.rules for one in entry.batch.events if isinstance(one, SettingsRecorded)
        ]
        self._messages += 1
        self.events += len(entry.batch.events)
        if entry.at < self._since:
            self._early = self.events
        elif self.measured is None and 0 < self._asked.measured <= self.events - self._early:
            self.measured = entry.at
            self._counting_part.finish(world, entry.at)
        if self._messages % TELL_EVERY == 0:
            self._progress(entry.at, self.events)

    def earlier(self, begin: Beginning) -> int | None:
        """Return the oldest version of the rules that decided, None if it is today's."""
        said = [*self._rules, *([begin.settings.rules] if begin.settings is not None else [])]
        oldest = min(said, default=0)
        return None if oldest == VERSION else oldest


async def baseline(past: Past, position: int) -> Baseline:
    """Return where today's rules conclude otherwise than is recorded, without a change.

    The rules run up to a position, and further if they differed by then: rules without a difference
    are taken to have none later.
    """
    found = Baseline()
    async with past.opens() as opened:
        world = opened.begin.world()
        with collecting_rarely():
            async for entry in opened.log.entries():
                if entry.at > past.end or (entry.position > position and not found.differing):
                    break
                found.position = entry.position
                _ask(found, entry, world)
                drain_journal(world)
    return found


def _ask(course: Baseline, entry: Entry, world: World) -> None:
    there = told(At(entry.position, entry.at), entry.recorded, entry.concluded)

    def applies(world: World, here: At) -> Follower:
        return Follower(world, here, there, course)

    recorded = bool(there.items)
    step_by(world, entry.position, entry.at, entry.batch, applies, recorded=recorded)
