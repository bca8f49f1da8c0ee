"""Fold a log into a world of its own and, if wanted, its rows into a `sink`.

Theory. Past conclusions are in the log and are applied; no rule runs. Rules run only to decide
again (`_redecided`): their different conclusions are reported and have no effect.

Invariant: a fold never decides anew.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from podgroup.folding import drain_journal, new_world
from podgroup.log.events import Decision, SettingsRecorded
from podgroup.log.journal import Journal
from podgroup.log.records import AnyRecord
from podgroup.model.ids import GroupID
from podgroup.model.policy import Policy
from podgroup.state.group import Group
from podgroup.state.world import World
from projector.replay.log import Entry
from projector.replay.sink import Sink
from projector.writing.parked_rows import Settled, keep_raw, settled
from runtime.collector import collecting_rarely

BATCH_EVENTS = 20_000
"""Events per transaction: a message may have one or hundreds."""


class Beginning(Struct, frozen=True):
    """Where a fold begins: with an empty world, at a position of an epoch.

    `mode` and `policy` hold until the log has the settings of its decisions; `settings` has them
    for a log whose beginning is elsewhere.
    """

    cluster: str
    mode: str
    policy: Policy | None = None
    epoch: int = 1
    position: int = 0
    settings: SettingsRecorded | None = None

    def world(self) -> World:
        """Return the world at the beginning."""
        world = new_world(self.cluster, self.mode, self.policy)
        world.meta.epoch, world.meta.position = self.epoch, self.position
        if (said := self.settings) is not None:
            world.meta.settings = said
            world.mode, world.policy = said.mode, said.policy
        return world


class Redeciding(Struct, frozen=True):
    """Today's rules run as well: by the settings in the log, or by those of `by`."""

    by: Policy | None = None


class Difference(Struct, frozen=True):
    """Conclusions of one place that were drawn only then, or would be drawn only now.

    `titles`: NAMESPACE/NAME of groups that conclusions name by id.
    """

    position: int
    then: tuple[Decision, ...]
    now: tuple[Decision, ...]
    said_then: tuple[AnyRecord, ...] = ()
    said_now: tuple[AnyRecord, ...] = ()
    titles: Mapping[str, str] = {}


class Callbacks(Struct, frozen=True):
    """Callbacks while a log is folded.

    `each` sees every entry with the world and the journal after it (and takes nothing from them);
    `differs` is given differences, which are kept otherwise; `progress` is given positions.
    """

    each: Callable[[Entry, World, Journal], None] | None = None
    differs: Callable[[Difference], None] | None = None
    progress: Callable[[int], None] | None = None


QUIET = Callbacks()


class Result(Struct):
    """The result of a replay."""

    world: World
    messages: int = 0
    events: int = 0
    groups: int = 0
    pods: int = 0
    differences: list[Difference] = []
    """Differences that were not reported as they came."""


async def fold(
    entries: AsyncIterator[Entry],
    begin: "Beginning | Result",
    *,
    sink: Sink | None = None,
    calls: Callbacks = QUIET,
    until: datetime | None = None,
    redecide: Redeciding | None = None,
) -> Result:
    """Fold `entries` from an empty world, and end before the first that is later than `until`.

    Or go on where an earlier fold ended: its result comes to more.
    """
    result = begin if isinstance(begin, Result) else Result(begin.world())
    tell = calls.differs or result.differences.append
    with collecting_rarely():
        folds = Entry.apply if redecide is None else _redecided(tell, redecide.by)
        await _fold(entries, result, sink, folds, calls, until)
    return result


async def _fold(
    entries: AsyncIterator[Entry],
    result: Result,
    sink: Sink | None,
    folds: Callable[[Entry, World], list[Settled]],
    calls: Callbacks,
    until: datetime | None,
) -> None:
    each, progress = calls.each, calls.progress
    world, pending = result.world, 0
    done: list[Settled] = []
    at = datetime.now(UTC)
    async for entry in entries:
        if until is not None and entry.at > until:
            break
        done += folds(entry, world)
        at = entry.at
        result.messages += 1
        result.events += len(entry.batch.events)
        pending += len(entry.batch.events)
        if each is not None:
            each(entry, world, world.journal)
        if each is not None or pending >= BATCH_EVENTS:
            pending = 0
            _hand_over(result, at, sink, done)
            done = []
            if progress is not None:
                progress(entry.position)
    _hand_over(result, at, sink, done)


def _redecided(
    differs: Callable[[Difference], None], by: Policy | None
) -> Callable[[Entry, World], list[Settled]]:
    """Return a fold of an entry that also runs today's rules."""
    from podgroup.engine import Then, step

    def fold_one(entry: Entry, world: World) -> list[Settled]:
        then = Then(entry.recorded, entry.concluded, by)
        before = len(world.journal.parked)
        found = step(world, entry.position, entry.at, entry.batch, then)
        keep_raw(world.journal.parked, before, entry.batch)
        if found.only_now or found.only_then or found.said_now or found.said_then:
            drawn = (found.only_then, found.only_now, found.said_then, found.said_now)
            titles = {str(one): _title(world.groups[one]) for one in _groups(drawn, world)}
            differs(Difference(entry.position, *drawn, titles))
        return settled(entry.batch, entry.at)

    return fold_one


def _title(group: Group) -> str:
    return f"{group.namespace}/{group.name}"


def _groups(value: object, world: World) -> Iterator[GroupID]:
    """Yield ids of groups that a value has in it."""
    match value:
        case str() if GroupID(value) in world.groups:
            yield GroupID(value)
        case tuple() | list():
            for one in value:
                yield from _groups(one, world)
        case Struct():
            yield from _groups(msgspec.structs.astuple(value), world)
        case _:
            pass


def _hand_over(result: Result, at: datetime, sink: Sink | None, done: list[Settled]) -> None:
    world = result.world
    kinds = [note.kind for note in world.journal.notes]
    result.groups += kinds.count("GroupSeen")
    result.pods += kinds.count("PodSeen")
    if sink is not None:
        sink.write(world, at, done)
    else:
        drain_journal(world)
