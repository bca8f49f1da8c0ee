"""What a rule reads, and what it yields: conclusions, one after the other.

Theory. A rule changes nothing. It looks at the state and yields conclusions. Each conclusion is
applied before the rule goes on (`podgroup.applying`): the rest of this rule and the next rules see
it, and no two rules decide about the same target. Decisions after a message share its position as
their cause.

Invariant: ids are unique, because a rule decides about a target at most once per message.
"""

from collections.abc import Generator, Iterable
from typing import TypeVar

from podgroup.log.events import Decision
from podgroup.log.journal import At
from podgroup.log.records import AnyRecord, Parked, Pending
from podgroup.model.commands import AnyCommand, KubeEvent, ObjectRef
from podgroup.model.ids import GroupID, decision_id
from podgroup.model.lifecycle import IllegalTransition
from podgroup.model.reasons import effect_of
from podgroup.model.wording import kueues
from podgroup.state.derived import AnyDerived
from podgroup.state.group import Group
from podgroup.state.members import Members
from podgroup.state.pod import Pod
from podgroup.state.world import World

UNADMITTED_GRACE_S = 2
"""Seconds of grace for a pod that another client ungated."""
_AFTER_EVENTS = 1_000_000
"""Ordinals of entries that are parked while deciding: after all events of the message."""

_T = TypeVar("_T")
Conclusion = Decision | AnyRecord | AnyDerived
"""A conclusion: a decision for an actuator, a record, or what can be worked out again."""
Conclusions = Iterable[Conclusion]
"""What a rule yields."""
Concluding = Generator[Conclusion, None, _T]
"""A function that returns an answer, and may yield conclusions on the way."""


class RuleContext:
    """The state after a message, and `here`: its place and time. A context changes nothing."""

    __slots__ = ("here", "world")

    def __init__(self, world: World, here: At) -> None:
        self.world = world
        self.here = here

    def decision(
        self, group: Group, rule: str, reason: str, message: str, command: AnyCommand
    ) -> Decision:
        """Return a decision: `reason` is a word for machines, `message` a sentence for people."""
        return self._made((group.id, group.namespace, group.name), rule, reason, message, command)

    def decision_apart(self, rule: str, reason: str, message: str, command: AnyCommand) -> Decision:
        """Return a decision about an object that belongs to no group known here."""
        target = command.target
        of = GroupID(""), target.namespace, target.name
        return self._made(of, rule, reason, message, command)

    def _made(
        self,
        of: tuple[GroupID, str, str],
        rule: str,
        reason: str,
        message: str,
        command: AnyCommand,
    ) -> Decision:
        target, here, world = command.target, self.here, self.world
        group, namespace, title = of
        name = f"{target.kind}/{target.namespace}/{target.name}/{target.uid}"
        return Decision(
            id=decision_id(here.position, group, rule, name),  # type: ignore[arg-type] # a position is an int on the wire
            number=world.meta.decisions + 1,
            as_of=here.position,
            at=here.at,
            group=group,
            namespace=namespace,
            name=title,
            rule=rule,
            reason=reason,
            message=message,
            command=command,
        )

    def pending(self, group: Group, reason: str, message: str) -> Conclusions:
        """Conclude why a group is neither composed nor admitted, if the reason is new."""
        if group.quota.reason != (reason, message):
            return (Pending(group.id, reason, message, effect_of(reason, kueues(message))),)
        return ()

    def parked(self, group: Group, error: Exception) -> Parked:
        """Conclude that a group for which rules failed is parked."""
        illegal = isinstance(error, IllegalTransition)
        what = "" if illegal else f"the rules failed: {type(error).__name__}: "
        return Parked(
            group.id,
            _AFTER_EVENTS + self.world.note_ord,
            f"{what}{error}",
            f"{group.kind} {group.namespace}/{group.name}",
            "IllegalTransition" if illegal else "RulesFailed",
        )

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

    A pod that we did not ungate needs no grace period: with its own it could run for a year.
    """
    return UNADMITTED_GRACE_S if (pod.opened or pod.gated) and not pod.ungate_decided else None


def workload_ref(group: Group) -> ObjectRef:
    """Return the reference to the group's Workload; uid "" while it does not exist."""
    uid = group.mirror.workload.uid if group.mirror.workload is not None else ""
    return ObjectRef(kind="Workload", namespace=group.namespace, name=group.mirror.name, uid=uid)


def group_ref(group: Group) -> ObjectRef:
    """Return the target of commands that write nothing."""
    return ObjectRef(kind="Group", namespace=group.namespace, name=group.name, uid=group.id)


def normal(reason: str, message: str, on: ObjectRef | None = None) -> tuple[KubeEvent, ...]:
    """Return a Normal Kubernetes Event, as commands carry them."""
    return (KubeEvent(type="Normal", reason=reason, message=message, on=on),)


def workload_free(group: Group) -> bool:
    """Tell whether the Workload may be written: none in flight, none rejected at its version."""
    if group.mirror.expect is not None:
        return False
    if group.mirror.workload is None:
        return not group.mirror.refused_version
    return group.mirror.refused_version != group.mirror.workload.resource_version
