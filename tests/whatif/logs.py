"""A log as a live gatelog would have written it, made of a play: what follows is known of it."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from gatelog.whatif.arrivals import Source
from gatelog.whatif.objects import read_objects, with_namespaces
from gatelog.whatif.playing import Heard, Later, Play
from gatelog.whatif.trace import Trace
from podgroup import events as e
from podgroup.engine import take
from podgroup.objects import QueueObject
from podgroup.policy import Policy
from projector.replay.files import Export, Header
from projector.replay.log import Entry


class _Kept(Play):
    """Keeps every message with what was concluded on it."""

    def __init__(self, export: Export, source: Source, objects: list[QueueObject], **given: Any):
        heard = Heard(
            lambda world, decisions: None, lambda world, events: None, lambda at, events: None
        )
        super().__init__(source, objects, heard, cluster="past", **given)
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
        take(world)
        return made


def log_of(trace: Path, objects: Path, to: Path, policy: Policy | None = None) -> int:
    """Write what comes of a trace as an export; returns how many events it has."""
    jobs = Trace(trace)
    found = read_objects([objects])
    found = with_namespaces(found + jobs.classes(found), jobs.namespaces)
    return write_log(jobs, found, to, jobs.begin, policy=policy or Policy())


def write_log(
    source: Source,
    objects: list[QueueObject],
    to: Path,
    begin: datetime,
    *,
    policy: Policy,
    later: Iterable[Later] = (),
) -> int:
    """Write what comes of arrivals as an export; returns how many events it has."""
    header = Header(cluster="past", mode="builtin", policy=policy)
    with Export(to, header) as export:
        kept = _Kept(export, source, objects, policy=policy, later=later)
        kept.run(begin)
        return kept.events
