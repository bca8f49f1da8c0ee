"""The one way from rules to the state: what they conclude, applied by the fold.

Theory. Decisions and records are stored, and every replay folds them again. What else rules work
out follows from state and settings: who waits for quota, what runs is charged without an admission,
which pods contradict each other, what admission remembers. It is entered here too and never stored,
because a replay has no use for it.

Invariant: code that holds nothing but this and read-only types changes the state in no other way.
"""

from typing import Any

from podgroup.changes import EVERYTHING
from podgroup.events import Decision
from podgroup.fold.decisions import apply_decision
from podgroup.fold.records import apply_record
from podgroup.fold.workloads import recharge
from podgroup.ids import GroupID
from podgroup.journal import At
from podgroup.quota import Charge, places
from podgroup.records import AnyRecord, Concluded
from podgroup.state import World


class Writing:
    """Applies conclusions to a world (`decide.context.Writer`)."""

    __slots__ = ("_world",)

    def __init__(self, world: World) -> None:
        self._world = world

    def decision(self, decision: Decision) -> None:
        """Apply a decision."""
        apply_decision(self._world, decision)

    def record(self, here: At, record: AnyRecord) -> None:
        """Apply a record."""
        apply_record(self._world, here, record)

    def conclude(self, here: At, records: tuple[AnyRecord | int, ...]) -> None:
        """Put the records of a message into the journal, under a number of their own."""
        world = self._world
        world.meta.decisions += 1
        number = world.meta.decisions
        concluded = Concluded(number=number, as_of=here.position, at=here.at, records=records)
        world.journal.concluded.append(concluded)

    def look_again(self, group: GroupID) -> None:
        """Have all rules look at a group once more."""
        self._world.touched[group] = EVERYTHING

    def wait(self, group: GroupID) -> None:
        """Let a group wait for quota, or have what it asks for looked at again."""
        world = self._world
        known = world.groups[group]
        local = world.local_queues[known.namespace, known.spec.queue]
        where = places((known.namespace, known.spec.queue), local.cluster_queue)
        world.quotas.enqueue(group, where)

    def wait_no_longer(self, group: GroupID) -> None:
        """Let a group wait no longer, if it does."""
        self._world.quotas.dequeue(group)

    def recall(self) -> None:
        """Have every waiting group looked at again."""
        self._world.quotas.recall()

    def heard(self) -> None:
        """Nothing that admission asks for is news any more."""
        self._world.quotas.reported()

    def announced(self) -> None:
        """No queue has to be looked at for what its condition says."""
        self._world.unannounced.clear()

    def counted(self, *, reported: bool) -> None:
        """Take notice that it was seen which queues moved, and whether they were reported."""
        self._world.quotas.counted(reported=reported)

    def remember(self, lineup: Any) -> None:
        """Keep what admission remembers between messages; None: it is to be made anew."""
        self._world.lineup = lineup

    def recharge(self, group: GroupID) -> None:
        """Charge a group what it holds."""
        recharge(self._world, self._world.groups[group])

    def charge(self, group: GroupID, charge: Charge | None, source: object = None) -> None:
        """Charge a group for what runs of it without an admission, as worked out from `source`."""
        world = self._world
        if source is not None:
            world.members[group].charged_for = source
        if charge is None:
            world.quotas.discharge(group)
        else:
            world.quotas.charge(group, charge)

    def contradict(self, group: GroupID, what: str, first: str, second: str) -> None:
        """Keep which two pods of a group contradict each other (`Members.contradict`)."""
        self._world.members[group].contradict(what, first, second)
