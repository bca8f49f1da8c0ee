"""One play from its arrivals to its tally, and its read model if one is wanted.

Invariant: of a play that is not written down nothing is kept but the tally and what is alive.
"""

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct, structs

from gatelog.replay.online import make_empty
from gatelog.shell.errors import CommandFailed
from gatelog.whatif.arrivals import Scenario
from gatelog.whatif.playing import Heard, Play, PlayFailed
from gatelog.whatif.tallying import Counting, Tally, charge
from podgroup.engine import drain_journal
from podgroup.log.events import Decision
from podgroup.model.policy import Policy
from podgroup.state.world import World
from projector.replay.fold import BATCH_EVENTS, Sink
from runtime.collector import collecting_rarely

CLUSTER = "what-if"
REPORTS_S = 60
"""How often queues report what they hold in a play that is written down."""
FORGET_EVENTS = 1_000
"""Events after which the journal of a play that is not written down is dropped."""


def sink_of(target: str | None, cluster: str = CLUSTER) -> Sink | None:
    """Return what writes to an empty database, None if none is named.

    Raises:
        CommandFailed: there is a read model in it already.
    """
    if target is None:
        return None
    make_empty(target)
    return Sink(target, cluster, 0, "builtin")


class Counted(Struct, frozen=True, kw_only=True):
    """What is counted of it: what happens before `since` takes place, and is not."""

    since: datetime | None = None
    label: str = "team"
    starts: bool = False


ALL = Counted()


class _Charged:
    """Groups that messages touched since the last batch; each message charges its own alone."""

    def __init__(self) -> None:
        self._groups: set[str] = set()

    def charge(self, world: World) -> None:
        """Charge what one message touched, and take it out of the journal."""
        charge(world, world.journal.groups)
        self._groups |= world.journal.groups
        world.journal.groups = set()

    def give_back(self, world: World) -> None:
        """Put into the journal what is to be written."""
        world.journal.groups |= self._groups & world.groups.keys()
        self._groups.clear()


def play(
    scenario: Scenario,
    counted: Counted = ALL,
    *,
    sink: Sink | None = None,
    cluster: str = CLUSTER,
    progress: Callable[[datetime, int], None] = lambda at, events: None,
) -> tuple[Tally, int]:
    """Return what came of it and how many events were folded.

    Raises:
        CommandFailed: decisions follow decisions without end.
    """
    tally = Tally(label=counted.label, starts={} if counted.starts else None)
    counting = Counting(tally, counted.since)
    written = 0
    kueue = scenario.mode == "kueue"
    charged = _Charged()

    def each(world: World, decisions: list[Decision]) -> None:
        if kueue:
            charged.charge(world)
        counting.each(world, decisions)

    def pause(world: World, events: int) -> None:
        nonlocal written
        if events - written < (FORGET_EVENTS if sink is None else BATCH_EVENTS):
            return
        written = events
        charged.give_back(world)
        if sink is None:
            drain_journal(world)
        else:
            assert world.at is not None
            sink.write(world, world.at, [])

    # Table `usage` is made of what is reported of queues; no other status is read here.
    reports_s = 0 if sink is None else REPORTS_S
    policy = structs.replace(scenario.policy or Policy(), status_interval_s=reports_s)
    run = Play(
        structs.replace(scenario, policy=policy), Heard(each, pause, progress), cluster=cluster
    )
    with collecting_rarely():
        try:
            last = run.run()
        except PlayFailed as error:
            raise CommandFailed(str(error)) from None
    # What is compared covers the same time, whatever is left at its end.
    end = scenario.until or last
    counting.finish(run.world, end)
    if sink is not None:
        charged.give_back(run.world)
        sink.write(run.world, end, [])
        sink.close()
    return tally, run.events
