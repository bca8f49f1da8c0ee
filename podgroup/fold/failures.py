"""Fold of how pods fail: containers that fail, evictions by nodes, disruptions.

Theory. A pod says how each container last ended and why its node or the cluster ended it.
An end that the pod did not have before happened now, and is written down with the pod's requests at
the time, because they may change later (`pods/resize`). Where a condition shows an end first and
the phase shows it afterwards, the first is written down.

Invariant: the state does not change here, so no decision depends on failures.
"""

from msgspec.structs import replace

from podgroup.fold import sentences as say
from podgroup.log.journal import At, FailureRow
from podgroup.model.objects import Condition, ContainerEnd, PodView
from podgroup.model.reasons import out_of_memory
from podgroup.state.group import Group
from podgroup.state.pod import Pod
from podgroup.state.termination import DISRUPTION
from podgroup.state.world import World


def failures(world: World, here: At, group: Group, pod: Pod, before: PodView | None) -> None:
    """Write down what failed since `before` (None: all failures that the pod shows)."""
    view = pod.view
    known = {_same(end) for end in before.ends} if view.ends and before is not None else set()
    for end in view.ends:
        if _same(end) not in known and (end.exit_code or out_of_memory(end.reason)):
            reason = end.reason or say.exit_code(end.exit_code)
            _row(world, here, pod, replace(end, reason=reason))
    if before is not None and _disruption(before) is not None:
        return
    disruption = _disruption(view)
    if view.phase == "Failed" and view.reason and (before is None or not before.reason):
        _row(world, here, pod, ContainerEnd(name="", reason=view.reason), view.message)
    elif disruption is not None:
        end = ContainerEnd(name="", reason=disruption.reason)
        _row(world, here, pod, end, disruption.message)


def _same(end: ContainerEnd) -> object:
    """Return what identifies an end: each is reported at once, and again after the restart.

    The second report has one restart more. An end without a time is identified by all its fields.
    """
    return (end.name, end.finished_at) if end.finished_at is not None else end


def _disruption(view: PodView) -> Condition | None:
    for condition in view.conditions:
        if condition.type == DISRUPTION and condition.status == "True":
            return condition
    return None


def _row(world: World, here: At, pod: Pod, end: ContainerEnd, message: str = "") -> None:
    """Write down the end of a container, or, without a name, of the whole pod."""
    world.journal.failures[pod.view.uid, end.name, here.position] = FailureRow(
        pod=pod.view.uid,
        container=end.name,
        seq=here.position,
        at=here.at,
        group=pod.group,
        reason=end.reason,
        message=message,
        exit_code=end.exit_code,
        restarts=end.restarts,
        finished_at=end.finished_at,
        node=pod.view.node,
        requests=pod.view.requests,
    )
