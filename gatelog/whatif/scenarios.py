"""One play from its arrivals, or from a log, to its tally, and optionally its read model.

Invariant: a play without a read model keeps only the tally and live objects.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime

from msgspec import Struct, structs

from gatelog.replay import online
from gatelog.shell.errors import CommandFailed
from gatelog.whatif.alternative import Alternative, Changed, Recorded
from gatelog.whatif.arrivals import Scenario
from gatelog.whatif.following import Opened
from gatelog.whatif.playing import Heard, Play, PlayFailed
from gatelog.whatif.tallying import Counting, Tally
from podgroup.engine import drain_journal
from podgroup.log.events import Decision
from podgroup.model.policy import Policy
from podgroup.state.world import World
from projector.replay.fold import BATCH_EVENTS
from projector.replay.sink import Sink
from runtime.collector import collecting_rarely

CLUSTER = "what-if"
REPORTS_S = 1
"""Seconds between two reports of queues in a play with a read model."""
FORGET_EVENTS = 1_000
"""Events after which the journal of a play without a read model is dropped."""


def written_to(target: str | None) -> AbstractContextManager[Sink | None]:
    """Return what writes a play to an empty database; errors as of `online.written_to`."""
    return online.written_to(target, CLUSTER, "builtin")


class Counted(Struct, frozen=True, kw_only=True):
    """The counted part: events before `since` take place, and are not counted."""

    since: datetime | None = None
    label: str = "team"
    starts: bool = False


ALL = Counted()
Progress = Callable[[datetime, int], None]


class _Counter:
    """Counts a play into `tally`, and writes its read model if there is a sink."""

    def __init__(self, counted: Counted, sink: Sink | None, progress: Progress) -> None:
        self.tally = Tally(label=counted.label, starts={} if counted.starts else None)
        self.heard = Heard(self._each, self._pause, progress)
        self._counting = Counting(self.tally, counted.since)
        self._sink = sink
        self._written = 0

    def _each(self, world: World, decisions: list[Decision]) -> None:
        self._counting.each(world, decisions)

    def _pause(self, world: World, events: int) -> None:
        if events - self._written < (FORGET_EVENTS if self._sink is None else BATCH_EVENTS):
            return
        self._written = events
        if self._sink is None:
            drain_journal(world)
        else:
            assert world.at is not None
            self._sink.write(world, world.at, [])

    def finish(self, world: World, end: datetime) -> Tally:
        """Count, and write, up to the end."""
        self._counting.finish(world, end)
        if self._sink is not None:
            self._sink.write(world, end, [])
        return self.tally


def play(
    scenario: Scenario,
    counted: Counted = ALL,
    *,
    sink: Sink | None = None,
    cluster: str = CLUSTER,
    progress: Progress = lambda at, events: None,
) -> tuple[Tally, int]:
    """Return the tally and how many events were folded.

    Raises:
        CommandFailed: decisions follow decisions without end.
    """
    counter = _Counter(counted, sink, progress)
    # Table `usage` is made from reports of queues; no other status is read here.
    reports_s = 0 if sink is None else REPORTS_S
    policy = structs.replace(scenario.policy or Policy(), status_interval_s=reports_s)
    run = Play(structs.replace(scenario, policy=policy), counter.heard, cluster=cluster)
    with collecting_rarely():
        try:
            last = run.run()
        except PlayFailed as error:
            raise CommandFailed(str(error)) from None
    # Tallies of a comparison cover the same time, whatever is left at its end.
    return counter.finish(run.world, scenario.until or last), run.events


async def follow(
    opened: Opened,
    past: Recorded,
    changed: Changed,
    counted: Counted,
    *,
    sink: Sink | None = None,
    progress: Progress = lambda at, events: None,
) -> tuple[Tally, Alternative]:
    """Return the tally of a log with a change, and its play.

    The play ends where it would need rules that were not run (`Alternative.unasked`).

    Raises:
        CommandFailed: decisions follow decisions without end.
    """
    counter = _Counter(counted, sink, progress)
    begin = structs.replace(opened.begin, cluster=CLUSTER)
    if sink is not None:
        changed = structs.replace(changed, reports_s=REPORTS_S)
    play = Alternative(begin.world(), past, changed, counter.heard)
    with collecting_rarely():
        try:
            async for entry in opened.log.entries():
                if entry.at > past.end:
                    break
                play.take(entry)
                if play.unasked is not None:
                    return counter.tally, play
            play.finish(past.end)
        except PlayFailed as error:
            raise CommandFailed(str(error)) from None
    return counter.finish(play.world, past.end), play
