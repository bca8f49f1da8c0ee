"""Applying conclusions of rules: one conclusion after the other, before the rule goes on.

Theory. Rules yield conclusions, which change the state through this module alone. Live, a decision
takes effect and waits in the journal for its actuator; a record takes effect and is written with
its message; a derived conclusion takes effect alone. Deciding again applies otherwise
(`redeciding`).

Invariant: records and the decisions between them are written in the order in which they were made.
"""

from podgroup.fold.decisions import apply_decision
from podgroup.fold.deriving import apply_derived
from podgroup.fold.records import apply_record
from podgroup.log.events import Decision
from podgroup.log.journal import At
from podgroup.log.records import AnyRecord, AsOf, Concluded
from podgroup.model.commands import SILENCING
from podgroup.rules.helpers.context import Conclusion, Conclusions, RuleContext
from podgroup.state.derived import Derived
from podgroup.state.world import World


class Applier:
    """Applies the conclusions after one message."""

    __slots__ = ("_at", "_made_since", "_records", "concluded", "ctx", "world")

    def __init__(self, world: World, here: At) -> None:
        self.world = world
        self.ctx = RuleContext(world, here)
        self.concluded = False
        """A conclusion that other rules may read was applied since the caller reset this."""
        self._records: list[AnyRecord | int] = []
        self._made_since = 0
        self._at = here.at

    def run(self, conclusions: Conclusions) -> None:
        """Apply conclusions, each before the next is asked for."""
        for conclusion in conclusions:
            self.apply(conclusion)

    def apply(self, conclusion: Conclusion) -> None:
        """Apply a conclusion."""
        if isinstance(conclusion, Decision):
            if type(conclusion.command) not in SILENCING:
                self.concluded = True
            self.decision(conclusion)
        elif isinstance(conclusion, Derived):
            apply_derived(self.world, conclusion)
        else:
            self.concluded = True
            self.record(conclusion)

    def decision(self, decision: Decision) -> None:
        """Apply a decision."""
        apply_decision(self.world, decision)
        self._made_since += 1

    def record(self, record: AnyRecord) -> None:
        """Apply a record, which no actuator carries out."""
        here = self.ctx.here
        apply_record(self.world, here, record)
        if here.at != self._at:
            self._at = here.at
            self._records.append(AsOf("", self._at))
        if self._made_since:
            self._records.append(self._made_since)
            self._made_since = 0
        self._records.append(record)

    def close(self) -> None:
        """Put the records of this message into the journal, under a number of their own."""
        if not self._records:
            return
        meta, here = self.world.meta, self.ctx.here
        meta.decisions += 1
        records = tuple(self._records)
        concluded = Concluded(
            number=meta.decisions, as_of=here.position, at=here.at, records=records
        )
        self.world.journal.concluded.append(concluded)
