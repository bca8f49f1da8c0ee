"""What a pod went through: its gates, where it ran, how it ended.

Theory. For a known pod that is the difference from the view before, at the log's time. For a new
pod (there is no view before) it is everything so far, at the times of its status.

Invariant: only the pod and the counts of its role change.
"""

from datetime import datetime, timedelta
from typing import Final

from podgroup.fold import sentences as say
from podgroup.fold.common import note
from podgroup.log.journal import At, GateRow
from podgroup.model.interning import intern_times
from podgroup.model.names import ADMISSION_GATE, FIELD_MANAGER
from podgroup.model.objects import ENDED, PodView
from podgroup.state.group import Group
from podgroup.state.pod import Pod
from podgroup.state.world import World

_SKEW: Final = timedelta(days=1)
"""How much clocks may differ."""


def write_gate(
    world: World,
    pod: Pod,
    gate: str,
    added_at: datetime,
    removed_at: datetime | None = None,
    by: str = "",
) -> None:
    """Write down a gate of a pod: when it came and went, and who removed it."""
    if pod.gate_added.get(gate) is not added_at:
        pod.gate_added = intern_times({**pod.gate_added, gate: added_at})
    uid = pod.view.uid
    world.journal.gates[(uid, gate)] = GateRow(uid, gate, added_at, removed_at, by)


def gates_removed(world: World, here: At, group: Group, pod: Pod, before: PodView) -> None:
    """Write down which gates are gone, and who removed them."""
    view = pod.view
    for gate in before.gates:
        if gate in view.gates:
            continue
        added_at = pod.gate_added.get(gate, view.created_at)
        # managedFields name clients that own fields, and none that gave fields up: a client that
        # removed a gate and wrote nothing else left no trace. Then the writer stays "", which is
        # better than the writer before.
        traced = (view.writer, view.written_at) != (before.writer, before.written_at)
        by = view.writer if traced else ""
        if traced and not by and pod.ungate_decided and not pod.ungated_elsewhere:
            by = FIELD_MANAGER  # the writer cleared managedFields, as the actuator does
        write_gate(world, pod, gate, added_at, here.at, by)
        note(world, here, "GateRemoved", group.id, view.uid, gate, say.removed_by(by))
        if gate == ADMISSION_GATE:
            pod.opened = True
            pod.ungated_at = here.at
            group.roles[pod.role].ungated += 1


def ungated_elsewhere(world: World, here: At, uid: str) -> None:
    """Take back that gatelog removed the gate of a pod: its actuator found the gate gone."""
    pod = world.pods.get(uid)
    if pod is None or pod.ungated_elsewhere:
        return
    pod.ungated_elsewhere = True
    world.journal.pods.add(uid)
    if pod.ungated_at is not None and ADMISSION_GATE not in pod.view.gates:
        added_at = pod.gate_added.get(ADMISSION_GATE, pod.view.created_at)
        write_gate(world, pod, ADMISSION_GATE, added_at, pod.ungated_at)
        note(world, here, "GateRemoved", pod.group, uid, ADMISSION_GATE, say.REMOVED_ELSEWHERE)


def progress(world: World, here: At, group: Group, pod: Pod) -> None:
    """Note all that a new pod has been through already."""
    scheduled(world, here, group, pod, None)
    phased(world, here, group, pod, None)
    deletion_requested(world, here, group, pod, None)


def scheduled(world: World, here: At, group: Group, pod: Pod, before: PodView | None) -> None:
    """Note that a pod has a node."""
    view = pod.view
    if view.node and (before is None or not before.node):
        at = _condition_at(view, "PodScheduled") if before is None else None
        pod.scheduled_at = at or here.at
        note(world, here, "PodScheduled", group.id, view.uid, "", say.scheduled_on(view.node))


def phased(world: World, here: At, group: Group, pod: Pod, before: PodView | None) -> None:
    """Note that a pod runs, or how it ended."""
    view = pod.view
    running, ended = view.phase == "Running", view.phase in ENDED
    if running or (ended and pod.started_at is None):
        told = view.started_at if before is None else None
        pod.started_at = here.at if told is None else _believed(here, view, told)
    if running:
        note(world, here, "PodRunning", group.id, view.uid)
    elif ended:
        _ended(world, here, group, pod)


def deletion_requested(
    world: World, here: At, group: Group, pod: Pod, before: PodView | None
) -> None:
    """Note that a pod's deletion was requested."""
    view = pod.view
    if view.deleted_at is not None and (before is None or before.deleted_at is None):
        asked_at = max(min(view.deleted_at, here.at), min(view.created_at, here.at))
        pod.failed_at = _earliest(pod.failed_at, asked_at)
        note(world, here, "PodDeletionRequested", group.id, view.uid)


def _ended(world: World, here: At, group: Group, pod: Pod) -> None:
    view, role = pod.view, group.roles[pod.role]
    ends = []
    for end in view.ends:
        if end.finished_at is not None:
            ends.append(_believed(here, view, end.finished_at))
    pod.ended_at = max(ends) if ends else here.at
    pod.exit_reason = view.reason or _exit_reason(view)
    if view.phase == "Succeeded":
        role.succeeded += 1
        note(world, here, "PodSucceeded", group.id, view.uid)
        return
    role.failed += 1
    pod.failed_at = _earliest(pod.failed_at, min(ends) if ends else here.at)
    note(world, here, "PodFailed", group.id, view.uid, pod.exit_reason, view.message)


def _believed(here: At, view: PodView, at: datetime) -> datetime:
    """Return an object's own time; the log's, where it is more than a day off what can be."""
    created = min(view.created_at, here.at)
    least = created - _SKEW if created.year > 1 else created  # year 1 is the earliest
    most = here.at + _SKEW
    return at if least <= at <= most else here.at


def _earliest(known: datetime | None, other: datetime) -> datetime:
    return other if known is None else min(known, other)


def _condition_at(view: PodView, kind: str) -> datetime | None:
    return next((c.at for c in view.conditions if c.type == kind and c.status == "True"), None)


def _exit_reason(view: PodView) -> str:
    """Return why a pod ended: the reason of its first container that failed."""
    for end in view.ends:
        if end.exit_code:
            return end.reason or say.exit_code(end.exit_code)
    return ""
