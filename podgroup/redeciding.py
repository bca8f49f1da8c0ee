"""Deciding again: recorded conclusions take effect, differences of today's rules are reported.

Theory. The decisions and records of a message are known. A conclusion that today's rules make again
is applied as recorded; a conclusion that only today's rules make has no effect. A decision that
would be made differently (by another rule, for another reason, with another command) is reported on
both sides.

Invariant: after a message all its recorded conclusions have taken effect, once.
"""

from collections.abc import Mapping

from msgspec import Struct, structs

from podgroup.applying import Applier
from podgroup.fold.decisions import apply_decision
from podgroup.fold.records import apply_record
from podgroup.log.events import Decision
from podgroup.log.journal import At
from podgroup.log.records import AnyRecord, AsOf, Concluded, Explained, Pending
from podgroup.model.commands import AnyCommand, EvictGroup, FinalizePod
from podgroup.model.reasons import effect_of, replaces
from podgroup.model.wording import kueues
from podgroup.state.world import World


class Difference(Struct, frozen=True):
    """How deciding again differs from the recorded conclusions: made only now, made only then."""

    only_now: tuple[Decision, ...] = ()
    only_then: tuple[Decision, ...] = ()
    said_now: tuple[AnyRecord, ...] = ()
    said_then: tuple[AnyRecord, ...] = ()


def filled(decision: Decision) -> AnyCommand:
    """Return a command with the fields that an older log lacks, worked out from its words."""
    command = decision.command
    if isinstance(command, EvictGroup) and command.told is None:
        return structs.replace(command, told=command.effect)
    if isinstance(command, FinalizePod) and not command.replaced:
        return structs.replace(command, replaced=replaces(decision.rule))
    return command


def told(record: AnyRecord) -> AnyRecord:
    """Return a record with the fields that an older log lacks, worked out from its words."""
    if isinstance(record, Pending) and record.effect is None:
        return structs.replace(record, effect=effect_of(record.reason, kueues(record.message)))
    if isinstance(record, Explained) and record.effect is None:
        word = (record.wait or None) if record.reason is None else record.reason
        return record if word is None else structs.replace(record, effect=effect_of(word))
    return record


class ComparingApplier(Applier):
    """Applies recorded conclusions in place of the rules' conclusions.

    `recorded` are decisions by id; `concluded` has the records, None: there are none.
    """

    __slots__ = (
        "_instead",
        "_now",
        "_number",
        "_recorded",
        "_rest",
        "_said_now",
        "_said_then",
        "_then",
        "_told",
    )

    def __init__(
        self,
        world: World,
        here: At,
        recorded: Mapping[str, Decision],
        concluded: Concluded | None,
    ) -> None:
        super().__init__(world, here)
        self._recorded = dict(recorded)
        self._number = concluded.number if concluded is not None else 0
        records = concluded.records if concluded is not None else ()
        self._then = [r for r in records if not isinstance(r, int | AsOf)]
        self._told = [told(r) for r in self._then]
        self._now: list[Decision] = []
        self._instead: list[Decision] = []
        self._rest: list[Decision] = []
        self._said_now: list[AnyRecord] = []
        self._said_then: list[AnyRecord] = []

    def decision(self, decision: Decision) -> None:
        """Apply the recorded decision in place of `decision`; none, if none like it is recorded."""
        known = self._taken(decision)
        if known is None:
            self._now.append(decision)
            return
        same = (known.rule, known.reason, filled(known))
        if same != (decision.rule, decision.reason, decision.command):
            self._now.append(decision)
            self._instead.append(known)
        apply_decision(self.world, known)

    def _taken(self, decision: Decision) -> Decision | None:
        """Take out the recorded decision of the same id, else of the same action and target."""
        recorded = self._recorded
        if decision.id in recorded:
            return recorded.pop(decision.id)
        action, target = type(decision.command), decision.command.target
        for known in recorded.values():
            if type(known.command) is action and known.command.target == target:
                return recorded.pop(known.id)
        return None

    def record(self, record: AnyRecord) -> None:
        """Apply the recorded record in place of `record`; none, if none like it is recorded."""
        then = self._then
        if record in self._told:
            self._apply(self._told.index(record))
            return
        self._said_now.append(record)
        alike = [r for r in then if type(r) is type(record) and r.group == record.group]
        if alike:
            self._said_then.append(alike[0])
            self._apply(then.index(alike[0]))

    def _apply(self, place: int) -> None:
        del self._told[place]
        apply_record(self.world, self.ctx.here, self._then.pop(place))

    def close(self) -> None:
        """Apply the recorded conclusions that no rule makes any more; write no new records."""
        self._rest = sorted(self._recorded.values(), key=lambda decision: decision.number)
        for decision in self._rest:
            apply_decision(self.world, decision)
        for record in self._then:
            self._said_then.append(record)
            apply_record(self.world, self.ctx.here, record)
        meta = self.world.meta
        meta.decisions = max(meta.decisions, self._number)

    def difference(self) -> Difference:
        """Return the conclusions that only one side has."""
        return Difference(
            tuple(self._now),
            (*self._instead, *self._rest),
            tuple(self._said_now),
            tuple(self._said_then),
        )
