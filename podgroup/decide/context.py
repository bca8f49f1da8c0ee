"""The pen that rules write with: one decision at a time, numbered, explained, applied at once.

Theory. A rule looks at the state and may make decisions; each takes effect on the state before the
next rule looks, so that no two rules decide about the same target. Decisions made after one message
share its position as their cause.

Invariant: ids are unique, because a rule decides about a target at most once per message.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from podgroup.commands import AnyCommand, KubeEvent, ObjectRef, WriteWorkloadStatus
from podgroup.events import Decision
from podgroup.ids import GroupID, decision_id
from podgroup.journal import At
from podgroup.lifecycle import IllegalTransition
from podgroup.quota import Charge
from podgroup.records import AnyRecord, AsOf, Concluded, Parked, Pending
from podgroup.view import Group, Members, Pod, World

UNADMITTED_GRACE_S = 2
"""Seconds of grace for a pod that another client let past its gate."""
_AFTER_EVENTS = 1_000_000
"""Ordinals of what is parked while deciding: after those of all events of the message."""


class Writer(Protocol):
    """Applies what rules conclude to the state (`fold.writing`)."""

    def decision(self, decision: Decision, /) -> None:
        """Apply a decision."""

    def record(self, here: At, record: AnyRecord, /) -> None:
        """Apply a record."""

    def conclude(self, here: At, records: tuple[AnyRecord | int, ...], /) -> None:
        """Put the records of a message into the journal."""

    def look_again(self, group: GroupID, /) -> None:
        """Have all rules look at a group once more."""

    def wait(self, group: GroupID, /) -> None:
        """Let a group wait for quota, or have what it asks for looked at again."""

    def wait_no_longer(self, group: GroupID, /) -> None:
        """Let a group wait no longer, if it does."""

    def recall(self) -> None:
        """Have every waiting group looked at again."""

    def heard(self) -> None:
        """Nothing that admission asks for is news any more."""

    def announced(self) -> None:
        """No queue has to be looked at for what its condition says."""

    def counted(self, *, reported: bool) -> None:
        """Take notice that it was seen which queues moved, and whether they were reported."""

    def remember(self, lineup: Any, /) -> None:
        """Keep what admission remembers between messages; None: it is to be made anew."""

    def recharge(self, group: GroupID, /) -> None:
        """Charge a group what it holds."""

    def charge(self, group: GroupID, charge: Charge | None, source: object = None, /) -> None:
        """Charge a group for what runs of it without an admission, as worked out from `source`."""

    def contradict(self, group: GroupID, what: str, first: str, second: str, /) -> None:
        """Keep which two pods of a group contradict each other."""


class Deciding:
    """Decides after one message: `here` is its place and time.

    With `recorded` (decisions made at this place before, by id) nothing new takes effect: a
    decision that is recorded is applied as recorded, one that is not is kept in `extra`. One that
    would be made differently, by another rule, for another reason or with another command, is in
    `extra` too, and what is recorded of it, which takes effect, in `instead`. The same holds of the
    records in `concluded` (`said_now`, `said_then`).
    """

    __slots__ = (
        "_at",
        "_made_since",
        "_records",
        "_then",
        "concluded",
        "extra",
        "here",
        "instead",
        "recorded",
        "said_now",
        "said_then",
        "world",
        "write",
    )

    def __init__(
        self,
        world: World,
        here: At,
        write: Writer,
        recorded: Mapping[str, Decision] | None = None,
        concluded: Concluded | None = None,
    ) -> None:
        self.world = world
        self.here = here
        self.write = write
        self.recorded = None if recorded is None else dict(recorded)
        self.extra: list[Decision] = []
        self.instead: list[Decision] = []
        self._records: list[AnyRecord | int] = []
        self._made_since = 0
        self._at = here.at
        self._then: list[AnyRecord] | None = None
        if recorded is not None:
            records = concluded.records if concluded is not None else ()
            self._then = [r for r in records if not isinstance(r, int | AsOf)]
        self.said_now: list[AnyRecord] = []
        self.said_then: list[AnyRecord] = []
        self.concluded = False
        """Something that other rules may read was concluded since the caller looked."""

    def emit(
        self, group: Group, rule: str, reason: str, message: str, command: AnyCommand
    ) -> Decision:
        """Make a decision: `reason` is a word for machines, `message` a sentence for people."""
        return self._make(group.id, group.namespace, group.name, rule, reason, message, command)

    def emit_apart(self, rule: str, reason: str, message: str, command: AnyCommand) -> Decision:
        """Make a decision about an object that belongs to no group known here."""
        target = command.target
        no_group = GroupID("")
        return self._make(no_group, target.namespace, target.name, rule, reason, message, command)

    def _make(
        self,
        identity: GroupID,
        namespace: str,
        title: str,
        rule: str,
        reason: str,
        message: str,
        command: AnyCommand,
    ) -> Decision:
        target, here, world = command.target, self.here, self.world
        name = f"{target.kind}/{target.namespace}/{target.name}/{target.uid}"
        decision = Decision(
            id=decision_id(here.position, identity, rule, name),  # type: ignore[arg-type] # a position is an int on the wire
            number=world.meta.decisions + 1,
            as_of=here.position,
            at=here.at,
            group=identity,
            namespace=namespace,
            name=title,
            rule=rule,
            reason=reason,
            message=message,
            command=command,
        )
        self.concluded |= not isinstance(command, WriteWorkloadStatus)
        if self.recorded is None:
            self.write.decision(decision)
            self._made_since += 1
            return decision
        known = self._recorded(decision)
        if known is None:
            self.extra.append(decision)
            return decision
        if (known.rule, known.reason, known.command) != (rule, reason, command):
            self.extra.append(decision)
            self.instead.append(known)
        self.write.decision(known)
        return known

    def _recorded(self, decision: Decision) -> Decision | None:
        """Take out what is recorded of a decision: that id, else the same done by another rule."""
        recorded = self.recorded or {}
        if decision.id in recorded:
            return recorded.pop(decision.id)
        action, target = type(decision.command), decision.command.target
        for known in recorded.values():
            if type(known.command) is action and known.command.target == target:
                return recorded.pop(known.id)
        return None

    def record(self, record: AnyRecord) -> None:
        """Conclude something that no actuator carries out: it holds from here on."""
        self.concluded = True
        if self._then is not None:
            self._hold_against(record)
            return
        self.write.record(self.here, record)
        if self.here.at != self._at:
            self._at = self.here.at
            self._records.append(AsOf("", self._at))
        if self._made_since:
            self._records.append(self._made_since)
            self._made_since = 0
        self._records.append(record)

    def _hold_against(self, record: AnyRecord) -> None:
        """Apply what is recorded in place of `record`; nothing, if nothing like it is."""
        then = self._then or []
        if record in then:
            then.remove(record)
            self.write.record(self.here, record)
            return
        self.said_now.append(record)
        alike = [r for r in then if type(r) is type(record) and r.group == record.group]
        if alike:
            then.remove(alike[0])
            self.said_then.append(alike[0])
            self.write.record(self.here, alike[0])

    def conclude(self) -> None:
        """Put the records of this message into the journal, under a number of their own."""
        if self._records:
            self.write.conclude(self.here, tuple(self._records))

    def pending(self, group: Group, reason: str, message: str) -> None:
        """Conclude why a group is neither composed nor admitted, if that is new."""
        if group.quota.reason != (reason, message):
            self.record(Pending(group.id, reason, message))

    def park(self, group: Group, error: Exception) -> None:
        """Stop deciding for a group that the rules cannot deal with, and say so in the open."""
        illegal = isinstance(error, IllegalTransition)
        what = "" if illegal else f"the rules failed: {type(error).__name__}: "
        self.record(
            Parked(
                group.id,
                _AFTER_EVENTS + self.world.note_ord,
                f"{what}{error}",
                f"{group.kind} {group.namespace}/{group.name}",
                "IllegalTransition" if illegal else "RulesFailed",
            )
        )

    def apply_rest(self) -> list[Decision]:
        """Apply the recorded decisions that no rule makes any more; return them."""
        rest = sorted((self.recorded or {}).values(), key=lambda decision: decision.number)
        for decision in rest:
            self.write.decision(decision)
        for record in self._then or ():
            self.said_then.append(record)
            self.write.record(self.here, record)
        self._then = None if self._then is None else []
        return rest

    def members(self, group: Group) -> Members:
        """Return the index of the group's pods."""
        return self.world.members[group.id]

    def pod(self, uid: str) -> Pod:
        """Return a live pod."""
        return self.world.pods[uid]


def pod_ref(pod: Pod) -> ObjectRef:
    """Return the reference by which commands name a pod."""
    view = pod.view
    return ObjectRef(kind="Pod", namespace=view.namespace, name=view.name, uid=view.uid)


def short_grace(pod: Pod) -> int | None:
    """Return the grace period in seconds for a pod that has no admission, None for its own.

    One that was seen at its gate and never let in has nothing to wind up: with its own it could run
    for a year.
    """
    return UNADMITTED_GRACE_S if (pod.opened or pod.gated) and not pod.let_in else None


def workload_ref(group: Group) -> ObjectRef:
    """Return the reference to the group's Workload; uid "" while it does not exist."""
    uid = group.mirror.workload.uid if group.mirror.workload is not None else ""
    return ObjectRef(kind="Workload", namespace=group.namespace, name=group.mirror.name, uid=uid)


def group_ref(group: Group) -> ObjectRef:
    """Return the target of records, which write nothing."""
    return ObjectRef(kind="Group", namespace=group.namespace, name=group.name, uid=group.id)


def normal(reason: str, message: str, on: ObjectRef | None = None) -> tuple[KubeEvent, ...]:
    """Return one Normal Kubernetes Event, as commands carry them."""
    return (KubeEvent(type="Normal", reason=reason, message=message, on=on),)


def workload_free(group: Group) -> bool:
    """Tell whether the Workload may be written: nothing in flight, nothing rejected as it is."""
    if group.mirror.expect is not None:
        return False
    if group.mirror.workload is None:
        return not group.mirror.refused_version
    return group.mirror.refused_version != group.mirror.workload.resource_version
