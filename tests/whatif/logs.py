"""A log as a live gatelog would have written it, made of a play: what follows is known of it."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path

from gatelog.whatif.arrivals import Later, Scenario, Source
from gatelog.whatif.objects import read_objects, with_namespaces
from gatelog.whatif.playing import Heard, Play
from gatelog.whatif.trace import Trace
from podgroup.engine import drain_journal
from podgroup.log import events as e
from podgroup.model.commands import StopPod, UngatePod
from podgroup.model.objects import QueueObject
from podgroup.model.policy import Policy
from projector.replay.files import Export, Header
from projector.replay.log import Entry
from tests.support.toy import Toy


def log_of_toy(toy: Toy, to: Path) -> None:
    """Write the messages of a toy cluster and what was concluded on each as an export."""
    decided: dict[int, dict[str, e.Decision]] = {}
    for one in toy.decisions:
        decided.setdefault(one.as_of, {})[one.id] = one
    concluded = {one.as_of: one for one in toy.concluded}
    header = Header(cluster="test", mode="builtin", policy=toy.world.policy)
    with Export(to, header) as export:
        for position, at, batch in toy.messages:
            recorded = decided.get(position, {})
            export.add(Entry(position, at, batch, recorded, concluded.get(position)))


class _Kept(Play):
    """Keeps every message with what was concluded on it."""

    def __init__(self, export: Export, scenario: Scenario):
        heard = Heard(
            lambda world, decisions: None, lambda world, events: None, lambda at, events: None
        )
        super().__init__(scenario, heard, cluster="past")
        self._export = export

    def _step(self, said: list[e.Event]) -> list[e.Decision]:
        made = super()._step(said)
        world = self.world
        position, at = world.meta.position, world.at
        assert at is not None
        concluded = world.journal.concluded[-1:]
        batch = e.Batch(source="watch", events=tuple(said))
        recorded = {one.id: one for one in made}
        self._export.add(Entry(position, at, batch, recorded, concluded[0] if concluded else None))
        drain_journal(world)
        return made


class _Late(_Kept):
    """Takes gates off, and stops pods, later than that was decided, as a busy actuator does.

    `lags_s` are taken in turn.
    """

    def __init__(self, export: Export, scenario: Scenario, lags_s: Sequence[float]):
        super().__init__(export, scenario)
        self._lags = cycle(timedelta(seconds=one) for one in lags_s)
        self._lag = any(lags_s)
        self._open: dict[str, e.Decision] = {}

    def _step(self, said: list[e.Event]) -> list[e.Decision]:
        made = super()._step(said)
        if not self._lag:
            return made
        late = [one for one in made if isinstance(one.command, UngatePod | StopPod)]
        for one in late:
            self._open[one.id] = one
            self._due.add(self._cluster.now + next(self._lags), (_CARRY_OUT, one.id))
        return [one for one in made if one.id not in self._open]

    def _happen(self, what: int, uid: str) -> None:
        if what == _CARRY_OUT:
            self._cluster.carry_out(self._open.pop(uid))
        else:
            super()._happen(what, uid)


_CARRY_OUT = -1


def log_of(
    trace: Path | Trace,
    objects: Path,
    to: Path,
    policy: Policy | None = None,
    lags_s: Sequence[float] = (0.0,),
) -> int:
    """Write what comes of a trace as an export; returns how many events it has.

    With `lags_s` pods are let in and stopped so long after it was decided, in turn.
    """
    jobs = trace if isinstance(trace, Trace) else Trace(trace)
    found = read_objects([objects])
    found = with_namespaces(found + jobs.classes(found), jobs.namespaces)
    return write_log(jobs, found, to, jobs.begin, policy=policy or Policy(), lags_s=lags_s)


def write_log(
    source: Source,
    objects: list[QueueObject],
    to: Path,
    begin: datetime,
    *,
    policy: Policy,
    later: Iterable[Later] = (),
    lags_s: Sequence[float] = (0.0,),
) -> int:
    """Write what comes of arrivals as an export; returns how many events it has."""
    header = Header(cluster="past", mode="builtin", policy=policy)
    with Export(to, header) as export:
        scenario = Scenario(source=source, objects=objects, later=later, begin=begin, policy=policy)
        kept = _Late(export, scenario, lags_s)
        kept.run()
        return kept.events
