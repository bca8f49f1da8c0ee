"""Fold of how pods fail: containers that end badly, evictions by nodes, disruptions.

Theory. A pod says how each container last ended and why its node or the cluster put an end to it.
What it did not say before happened now, and is written down with what the pod asked for at the
time, because that may be changed later (`pods/resize`). Of an end that the condition tells first
and the phase afterwards the first is written down.

Invariant: nothing of the state changes here; what failed decides nothing by this.
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
    """Write down what ended badly since `before` (None: all that the pod tells)."""
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
    """Return what tells ends apart: each is reported at once, and once more after the restart.

    The second time it counts one restart more. Without a time all that is said tells them apart.
    """
    return (end.name, end.finished_at) if end.finished_at is not None else end


def _disruption(view: PodView) -> Condition | None:
    for condition in view.conditions:
        if condition.type == DISRUPTION and condition.status == "True":
            return condition
    return None


def _row(world: World, here: At, pod: Pod, end: ContainerEnd, message: str = "") -> None:
    """Write down an end of a container, or of the whole pod: that one has no name."""
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
