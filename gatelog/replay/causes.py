"""What let a group in, read from the message after which it got its quota.

Theory. As view `v_admission_causes` has it, in the same ranks and words; here the message itself is
at hand, so objects that changed are named where the view can only say that some did.

Invariant: reads only; a test holds it against the view.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from podgroup.log.events import Batch, ObjectApplied, ObjectDeleted
from podgroup.log.journal import AdmissionRow, Journal, Note
from podgroup.model.ids import GroupID
from podgroup.model.objects import Assignment
from podgroup.model.reasons import ends_by_room, runs_unadmitted
from podgroup.model.wording import shown
from podgroup.state.group import Group, QuotaReservation
from podgroup.state.world import World
from projector.schema import cause_views as words

Nominal = dict[str, dict[str, dict[str, int]]]
"""Of ClusterQueues: flavor -> resource -> nominal quota."""


class _Mine(NamedTuple):
    """The admitted group, and the quota that it took."""

    group: str
    cluster_queue: str
    flavors: set[str]
    seq: int


class Message(Struct, frozen=True):
    """A message, its changes, and the nominal quotas before it."""

    batch: Batch
    world: World
    journal: Journal
    nominal: Nominal

    def causes(self, group: Group, holding: QuotaReservation, position: int) -> list[str]:
        """Return the causes of an admission in this message; sentences, sorted."""
        if holding.seq != position:
            return [words.AGREED]
        flavors = _flavors(holding.admission.assignments)
        mine = _Mine(group.id, holding.admission.cluster_queue, flavors, position)
        for rank in (self._room, self._over, self._line):
            if found := sorted(set(rank(mine))):
                return found
        named = sorted({f"{kind} {name}" for kind, name in self._objects()})
        return [f"{', '.join(named)} changed" if named else words.OBJECTS]

    def _room(self, mine: _Mine) -> Iterator[str]:
        for note in self.journal.notes:
            if note.group == mine.group and note.kind == "GroupComplete":
                yield words.CAME
        back = {note.group for note in self._others(mine, words.BACK)}
        for row in self.journal.admissions.values():
            if row.group in back and row.released_at is not None and self._meets(mine, row):
                why = f" ({row.release_reason})" if row.release_reason else ""
                yield f"group {self._name(row.group)} {words.GAVE_BACK}{why}"
        changed = {note.group for note in self._others(mine, {"StateChanged"})}
        for wait in self.journal.waits.values():
            over = wait.to_seq is not None and runs_unadmitted(wait.reason)
            if over and wait.group in changed and self._same_tree(mine, self._queue(wait.group)):
                yield f"group {self._name(wait.group)} {words.RAN_UNADMITTED}"
        yield from self._raised(mine)

    def _raised(self, mine: _Mine) -> Iterator[str]:
        for quota in self.journal.quotas.values():
            was = self.nominal.get(quota.cluster_queue, {})
            for flavor, amounts in quota.nominal.items():
                for resource, amount in amounts.items():
                    before = was.get(flavor, {}).get(resource, 0)
                    meets = flavor in mine.flavors and self._same_tree(mine, quota.cluster_queue)
                    if amount > before and meets:
                        yield (
                            f"quota of ClusterQueue {quota.cluster_queue}: {resource} of {flavor} "
                            f"{shown(resource, before)} → {shown(resource, amount)}"
                        )

    def _over(self, mine: _Mine) -> Iterator[str]:
        for note in self._others(mine, words.PODS):
            group = self._group(note.group)
            held = None if group is None else group.quota.holding
            if held is not None and self._same_tree(mine, held.admission.cluster_queue):
                yield f"pods of group {self._name(note.group)} ended"
        for wait in self.journal.waits.values():
            ended = wait.group == mine.group and wait.to_seq == mine.seq
            if ended and not ends_by_room(wait.reason):
                yield f"{words.WAIT_OVER}{wait.message}"

    def _line(self, mine: _Mine) -> Iterator[str]:
        let_in = {note.group for note in self._others(mine, {"GroupAdmitted"})}
        for note in self._others(mine, {"StateChanged", "GroupGone"}):
            if self._queue(note.group) == mine.cluster_queue:
                how = words.BEFORE_IT if note.group in let_in else words.LEFT_QUEUE
                yield f"group {self._name(note.group)} {how}"

    def _objects(self) -> Iterator[tuple[str, str]]:
        for event in self.batch.events:
            if isinstance(event, ObjectApplied):
                yield type(event.object).__name__.removesuffix("View"), event.object.name
            elif isinstance(event, ObjectDeleted):
                yield event.kind, event.name

    def _others(self, mine: _Mine, kinds: frozenset[str] | set[str]) -> Iterator[Note]:
        for note in self.journal.notes:
            if note.kind in kinds and note.group not in ("", mine.group):
                yield note

    def _group(self, identity: str) -> Group | None:
        of = GroupID(identity)
        return self.world.groups.get(of) or self.world.gone_groups.get(of)

    def _name(self, identity: str) -> str:
        group = self._group(identity)
        return identity if group is None else f"{group.namespace}/{group.name}"

    def _queue(self, identity: str) -> str:
        group = self._group(identity)
        if group is None:
            return ""
        local = self.world.local_queues.get((group.namespace, group.spec.queue))
        return "" if local is None else local.cluster_queue

    def _meets(self, mine: _Mine, other: AdmissionRow) -> bool:
        same = self._same_tree(mine, other.cluster_queue)
        return same and bool(mine.flavors & _flavors(other.assignments))

    def _same_tree(self, mine: _Mine, queue: str) -> bool:
        roots = {self._root(name) for name in (mine.cluster_queue, queue)}
        return queue == mine.cluster_queue or (len(roots) == 1 and roots != {""})

    def _root(self, queue: str) -> str:
        found = self.world.cluster_queues.get(queue)
        name, way = "" if found is None else found.cohort, set[str]()
        while name not in way:
            way.add(name)
            cohort = self.world.cohorts.get(name)
            if cohort is None or not cohort.parent:
                return name
            name = cohort.parent
        return ""


def _flavors(assignments: Iterable[Assignment]) -> set[str]:
    return {flavor for given in assignments for flavor in given.flavors.values()}
