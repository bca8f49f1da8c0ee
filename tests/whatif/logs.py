"""A log as a live gatelog would have written it, made of a play: what follows is known of it."""

from pathlib import Path

from gatelog.whatif.objects import read_objects, with_namespaces
from gatelog.whatif.playing import Heard, Play
from gatelog.whatif.trace import Trace
from podgroup import events as e
from podgroup.engine import take
from podgroup.policy import Policy
from projector.replay.files import Export, Header
from projector.replay.log import Entry


class _Kept(Play):
    """Keeps every message with what was concluded on it."""

    def __init__(self, export: Export, trace: Trace, objects: Path, policy: Policy) -> None:
        found = read_objects([objects])
        found = with_namespaces(found + trace.classes(found), trace.namespaces)
        heard = Heard(
            lambda world, decisions: None, lambda world, events: None, lambda at, events: None
        )
        super().__init__(trace, found, heard, cluster="past", policy=policy)
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
    policy = policy or Policy()
    header = Header(cluster="past", mode="builtin", policy=policy)
    jobs = Trace(trace)
    with Export(to, header) as export:
        kept = _Kept(export, jobs, objects, policy)
        kept.run(jobs.begin)
        return kept.events
