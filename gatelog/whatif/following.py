"""Following the record: past conclusions take effect, and differences of today's rules are found.

Theory. The rules run on each message, and for a group that follows the record the recorded
conclusions take effect in place of the rules'. The rules run twice: on the past as it was, whose
differences are kept (`Baseline`: other settings, rules of an earlier version), and in an
alternative. A difference in both is not due to the alternative. At a difference in only one of them
the group leaves the record.

Only decisive fields count: quota, lives, priorities, timers, and the fields with which pods are
ungated or stopped. Reasons, conditions, Events and counts of queues may differ with the neighbours.

Invariant: for a group that follows, exactly the recorded conclusions of a message have taken effect
after it, in the recorded order.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from podgroup.applying import Applier
from podgroup.fold.decisions import apply_decision
from podgroup.fold.records import apply_record
from podgroup.log import records as r
from podgroup.log.events import Decision
from podgroup.log.journal import At
from podgroup.model import commands as c
from podgroup.model.ids import GroupID
from podgroup.rules.helpers.unadmitted import ran_unadmitted
from podgroup.state.asked import charge_of
from podgroup.state.world import World
from projector.replay.fold import Beginning
from projector.replay.log import Log

_SUBSTANCE: Final[dict[type, tuple[str, ...]]] = {
    c.AdmitGroup: ("cluster_queue", "assignments", "checks"),
    c.EvictGroup: ("reason", "preempted_by", "requeue_after_s"),
    c.ReleaseQuota: ("requeue",),
    c.FinishGroup: ("reason",),
    c.ResizeGroup: ("counts", "assignments"),
    c.ReplaceNodes: ("nodes", "assignments"),
    c.ComposeGroup: ("priority", "pod_sets"),
    c.CreateWorkload: ("queue", "priority", "pod_sets"),
    c.UpdateWorkload: ("queue", "priority", "pod_sets", "active", "max_execution_s"),
    c.FinalizeWorkload: ("delete",),
    c.UngatePod: ("gates", "node_selector", "tolerations"),
    c.StopPod: ("finalize", "grace_s"),
    c.DeletePod: ("grace_s",),
    c.FinalizePod: (),
    c.KeepPod: (),
}
"""Command -> its decisive fields. Commands that are not listed only report states."""
_SHOWN: Final = (
    r.Explained,
    r.Pending,
    r.ShortageChanged,
    r.ChecksReported,
    r.Reportable,
    r.Reported,
    r.RefusalReported,
    r.RecountReported,
    r.PodRefused,
    r.Counted,
    r.CountsTimed,
    r.StartsTimed,
    r.StartReserved,
    r.Kept,
    r.Used,
)
"""Records that show how things stand, or when that is to be shown."""
_REMEMBERED: Final = (
    r.Kept,
    r.Used,
    r.Counted,
    r.CountsTimed,
    r.StartsTimed,
    r.StartReserved,
)
"""Records of these kinds are about scheduler and queues, not about one group: once groups have left
the record they are the play's own.
"""

PATIENCE = 10_000
"""Decisions of a message that have no effect, after which the next has an effect: rules that wait
for the effect of their own decision would wait for ever.
"""

Conclusion = Decision | r.AnyRecord


class Opened(Struct, frozen=True):
    """A log, and the state with which it begins."""

    log: Log
    begin: Beginning


class Point(Struct, frozen=True):
    """The decisive part of a conclusion, and its group."""

    group: str
    what: str
    values: tuple[Any, ...] = ()


def point(one: Conclusion) -> Point | None:
    """Return the decisive part of a conclusion; None: it has none."""
    if not isinstance(one, Decision):
        return None if isinstance(one, _SHOWN) else Point(one.group, type(one).__name__, (one,))
    command = one.command
    names = _SUBSTANCE.get(type(command))
    if names is None:
        return None
    target = command.target
    values = (target.kind, target.uid, *(getattr(command, name) for name in names))
    return Point(one.group, command.action, values)


class Differing(Struct):
    """What today's rules conclude otherwise at a position than is recorded: only now, only then."""

    now: list[Point] = field(default_factory=list)
    then: list[Point] = field(default_factory=list)


class Told(Struct, frozen=True):
    """The recorded conclusions of a message, in order, each with the time as of which it holds."""

    items: tuple[tuple[Conclusion, At], ...] = ()
    number: int = 0
    """The highest number among these."""


NOTHING_TOLD = Told()


def told(here: At, recorded: Mapping[str, Decision], concluded: r.Concluded | None) -> Told:
    """Return the conclusions at a place; `here` may be its place in a play."""
    if not recorded and concluded is None:
        return NOTHING_TOLD
    return Told(
        tuple(_in_order(here, recorded, concluded)),
        concluded.number if concluded is not None else 0,
    )


def _in_order(
    here: At, recorded: Mapping[str, Decision], concluded: r.Concluded | None
) -> Iterator[tuple[Conclusion, At]]:
    made = iter(sorted(recorded.values(), key=lambda decision: decision.number))
    then = here
    for item in concluded.records if concluded is not None else ():
        if isinstance(item, int):
            for _, decision in zip(range(item), made, strict=False):
                yield _placed(decision, here), here
        elif isinstance(item, r.AsOf):
            then = At(here.position, item.at)
        else:
            yield item, then
    for decision in made:
        yield _placed(decision, here), here


def _placed(decision: Decision, here: At) -> Decision:
    return decision if decision.as_of == here.position else replace(decision, as_of=here.position)


def charge(world: World, touched: Iterable[str]) -> None:
    """Charge groups on which no rule was asked, in either mode, as the rules do.

    What succeeded pods gave back, and what runs without an admission, follows from the state and is
    in no log; fold alone charges an admission whole until its end.
    """
    quotas = world.quotas
    for identity in touched:
        group = world.groups.get(GroupID(identity))
        if group is None:
            continue
        holding = group.quota.holding
        if holding is not None:
            quotas.charge(identity, charge_of(world, group, holding))
        elif (charge := ran_unadmitted(world, group)) is not None:
            quotas.charge(identity, charge)
        else:
            quotas.discharge(identity)


class Course(Protocol):
    """Decides which groups follow the record, and what to do about a difference."""

    apart: bool
    """Some group has left the record."""

    def follows(self, group: str) -> bool:
        """Return whether a group follows the record."""

    def leaves(self, now: Conclusion | None, then: Conclusion | None) -> bool:
        """Take note that a conclusion differs from the recorded one; return whether the group
        leaves.
        """

    def carries_out(self, decision: Decision) -> bool:
        """Return whether a decision about no group is the play's own."""


class Follower(Applier):
    """Applies recorded conclusions for groups that follow, and new conclusions for others.

    `own` are the decisions that were concluded here and took effect.
    """

    __slots__ = ("_course", "_decided", "_done", "_in_vain", "_said", "_told", "own")

    def __init__(self, world: World, here: At, told: Told, course: Course) -> None:
        super().__init__(world, here)
        self._course = course
        self._told = told
        self._decided: dict[tuple[type, c.ObjectRef], list[int]] = defaultdict(list)
        self._said: dict[str, list[int]] = defaultdict(list)
        self._done: set[int] = set()
        self._in_vain = 0
        self.own: list[Decision] = []
        for number, (one, _) in enumerate(told.items):
            if isinstance(one, Decision):
                self._decided[type(one.command), one.command.target].append(number)
            else:
                self._said[one.group].append(number)

    def decision(self, decision: Decision) -> None:
        """Let a decision take effect, or the recorded conclusion in its place, if there is one."""
        group, course = decision.group, self._course
        if group and not course.follows(group):
            self._own(decision)
            return
        open_ = self._decided.get((type(decision.command), decision.command.target))
        known = self._told.items[open_[0]][0] if open_ else None
        if _other(decision, known) and course.leaves(decision, known):
            self._own(decision)
        elif open_:
            # A group that is admitted, evicted and admitted again has one decision in the log for
            # both.
            self._apply(open_.pop(0) if len(open_) > 1 else open_[0])
        elif self._again(decision) or (not group and course.carries_out(decision)):
            self._own(decision)

    def _again(self, decision: Decision) -> bool:
        """Return whether rules go round in circles because a decision has no effect here."""
        self._in_vain += 1
        return self._in_vain > PATIENCE and point(decision) is not None

    def _own(self, decision: Decision) -> None:
        super().decision(decision)
        self.own.append(decision)

    def record(self, record: r.AnyRecord) -> None:
        """Let a record take effect, or the recorded conclusion in its place, if there is one."""
        group, course = record.group, self._course
        if group and not course.follows(group):
            super().record(record)
            return
        if course.apart and isinstance(record, _REMEMBERED):
            super().record(record)
            return
        known = self._alike(record)
        then = self._told.items[known][0] if known is not None else None
        if _other(record, then) and course.leaves(record, then):
            super().record(record)
        elif known is not None:
            self._said[group].remove(known)
            self._apply(known)

    def _alike(self, record: r.AnyRecord) -> int | None:
        """Return the number of the recorded conclusion in place of a record, None for none."""
        found = None
        for number in self._said.get(record.group, ()):
            then = self._told.items[number][0]
            if then == record:
                return number
            if found is None and type(then) is type(record) and _about(then) == _about(record):
                found = number
        return found

    def _apply(self, number: int) -> None:
        self._done.add(number)
        one, at = self._told.items[number]
        if isinstance(one, Decision):
            if self._course.apart:  # the play's own have taken numbers of the log
                one = replace(one, number=self.world.meta.decisions + 1)
            apply_decision(self.world, one)
        else:
            apply_record(self.world, at, one)

    def close(self) -> None:
        """Apply recorded conclusions that were not drawn, except of groups that leave here."""
        course, world = self._course, self.world
        unasked: set[str] = set()
        for number, (one, _) in enumerate(self._told.items):
            if number in self._done:
                continue
            if course.apart and isinstance(one, _REMEMBERED):
                continue
            if one.group:
                if not course.follows(one.group):
                    continue
                if point(one) is not None and course.leaves(None, one):
                    continue
            elif course.apart:
                continue
            self._apply(number)
            unasked.add(one.group)
        charge(world, unasked)
        world.dirty_groups.clear()
        world.meta.decisions = max(world.meta.decisions, self._told.number)
        super().close()


def _other(now: Conclusion, then: Conclusion | None) -> bool:
    """Return whether one conclusion decides otherwise than the other."""
    mine = point(now)
    return mine is not None and (then is None or mine != point(then))


def _about(record: Any) -> tuple[Any, ...]:
    """Return the fields in which records of a kind and group differ."""
    return tuple(getattr(record, name, None) for name in ("purpose", "role", "kind", "name"))


class Baseline:
    """The past as it was: all follow, and what today's rules conclude otherwise is kept."""

    apart = False

    def __init__(self) -> None:
        self.differing: dict[int, Differing] = {}
        """By position."""
        self.position = 0

    def follows(self, group: str) -> bool:
        """Return that it does."""
        return True

    def leaves(self, now: Conclusion | None, then: Conclusion | None) -> bool:
        """Keep the difference; no group leaves."""
        here = self.differing.setdefault(self.position, Differing())
        for one, points in ((now, here.now), (then, here.then)):
            if one is not None and (found := point(one)) is not None:
                points.append(found)
        return False

    def carries_out(self, decision: Decision) -> bool:
        """Return that it does nothing of its own."""
        return False
