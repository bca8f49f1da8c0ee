"""Rules that keep a Workload that exists in step with its pods, for as long as that is allowed.

    mismatch    the Workload has no place for any pod there is: running pods are stopped, the
                Workload is deleted and the group composed anew
    follow      queue, priority class and maximum execution time of the first pod; of a single pod
                that does without a Workload the class alone is kept anywhere

Kueue's API lets queue and execution time change only while no quota is reserved; the class may
change at any time once there is one. A serving group keeps its queue. A label that was taken away
changes nothing, and neither does a class that does not exist.

Invariant: one update at a time, and none for what the Workload says already.
"""

from podgroup.changes import WORKLOAD
from podgroup.commands import (
    ComposeGroup,
    FinalizeWorkload,
    PriorityRef,
    StopPod,
    UpdateWorkload,
)
from podgroup.decide.composing import max_execution_s
from podgroup.decide.context import (
    Deciding,
    group_ref,
    normal,
    pod_ref,
    workload_free,
    workload_ref,
)
from podgroup.decide.rule import Line, Rule
from podgroup.decide.sparing import spared
from podgroup.members import Flag
from podgroup.names import (
    EVENT_DELETED_WORKLOAD,
    EVENT_STOPPED,
    EVENT_UPDATED_WORKLOAD,
    REASON_NO_MATCHING_WORKLOAD,
)
from podgroup.objects import WorkloadView
from podgroup.view import Group, Pod

WORKLOAD_PRIORITY_CLASS = "WorkloadPriorityClass"
MISMATCH_MESSAGE = "No matching Workload; restoring pod templates according to existent Workload"


def following(d: Deciding, group: Group) -> None:
    """Run the rules of this module on a composed group."""
    workload = group.mirror.workload
    if not group.composition.done or group.ending.finish is not None or group.mirror.lost:
        return
    if not len(d.members(group)):
        return
    if workload is None:
        if spared(d.world, group):
            _rank(d, group)
        return
    if workload.deleted_at is not None:
        return
    if not group.spec.prebuilt and _mismatch(d, group, workload):
        _start_over(d, group, workload)
        return
    first = d.members(group).first()
    if first is not None and workload_free(group):
        _follow(d, group, workload, d.pod(first))


def _mismatch(d: Deciding, group: Group, workload: WorkloadView) -> bool:
    if group.single:
        return [pod_set.count for pod_set in workload.pod_sets] != [1]
    members = d.members(group)
    placed = sum(
        members.count(flag, pod_set.name)
        for pod_set in workload.pod_sets
        for flag in (Flag.ACTIVE, Flag.INACTIVE)
    )
    return not placed and bool(members.count(Flag.ACTIVE) + members.count(Flag.INACTIVE))


def _start_over(d: Deciding, group: Group, workload: WorkloadView) -> None:
    for uid in d.members(group).listed(Flag.STOPPABLE):
        pod = d.pod(uid)
        if pod.free and pod.opened:
            d.emit(
                group,
                "mismatch",
                REASON_NO_MATCHING_WORKLOAD,
                f"stop pod {pod.view.name}: {MISMATCH_MESSAGE}",
                StopPod(
                    target=pod_ref(pod),
                    reason=REASON_NO_MATCHING_WORKLOAD,
                    message=MISMATCH_MESSAGE,
                    events=normal(EVENT_STOPPED, MISMATCH_MESSAGE),
                ),
            )
    first = d.members(group).first()
    if first is None or not workload_free(group):
        return
    text = f"Deleted not matching Workload: {group.namespace}/{group.mirror.name}"
    d.emit(
        group,
        "mismatch",
        REASON_NO_MATCHING_WORKLOAD,
        f"Workload {workload.name} has no place for any pod of the group",
        FinalizeWorkload(
            target=workload_ref(group),
            delete=True,
            events=normal(EVENT_DELETED_WORKLOAD, text, pod_ref(d.pod(first))),
        ),
    )


def _follow(d: Deciding, group: Group, workload: WorkloadView, first: Pod) -> None:
    where = f"{group.namespace}/{group.mirror.name}"
    reserved = group.quota.holding is not None or bool(workload.cluster_queue)
    found = _new_class(d, group, workload, reserved)
    if found is not None:
        value, ref = found
        _update(
            d,
            group,
            first,
            f"Updated workload priority class: {where}",
            UpdateWorkload(target=workload_ref(group), priority=value, priority_ref=ref),
        )
        return
    if reserved:
        return
    if group.spec.queue and group.spec.queue != workload.queue:
        d.emit(
            group,
            "follow",
            "QueueChanged",
            f"the pods are for queue {group.spec.queue} now, the Workload is in {workload.queue}",
            UpdateWorkload(target=workload_ref(group), queue=group.spec.queue),
        )
        return
    wanted = max_execution_s(first)
    if not group.spec.prebuilt and wanted != workload.max_execution_s:
        _update(
            d,
            group,
            first,
            f"Updated not matching Workload for suspended job: {where}",
            UpdateWorkload(target=workload_ref(group), max_execution_s=wanted or 0),
        )


def _update(d: Deciding, group: Group, first: Pod, text: str, command: UpdateWorkload) -> None:
    events = normal(EVENT_UPDATED_WORKLOAD, text, pod_ref(first))
    command = UpdateWorkload(
        target=command.target,
        priority=command.priority,
        priority_ref=command.priority_ref,
        max_execution_s=command.max_execution_s,
        events=events,
    )
    d.emit(group, "follow", EVENT_UPDATED_WORKLOAD, text, command)


def _new_class(
    d: Deciding, group: Group, workload: WorkloadView, reserved: bool
) -> tuple[int, PriorityRef] | None:
    return _class_in_place_of(
        d, group, workload.priority_class_kind, workload.priority_class, reserved
    )


def _rank(d: Deciding, group: Group) -> None:
    """Follow the priority class of a single pod that does without a Workload."""
    kind, _, known = (group.composition.ranked_by or "").partition("/")
    found = _class_in_place_of(d, group, kind, known, group.quota.holding is not None)
    if found is None:
        return
    value, ref = found
    d.emit(
        group,
        "follow",
        "PriorityChanged",
        f"the pod is of {ref.kind} {ref.name} now, priority {value}",
        ComposeGroup(target=group_ref(group), priority=value, priority_ref=ref),
    )


def _class_in_place_of(
    d: Deciding, group: Group, kind: str, known_as: str, reserved: bool
) -> tuple[int, PriorityRef] | None:
    """Return the class that the pods name in place of what is known, None if it stays."""
    name = group.spec.priority_class
    if not name or name == known_as:
        return None
    if known_as and kind != WORKLOAD_PRIORITY_CLASS:
        return None
    if reserved and not known_as:
        return None
    known = d.world.workload_classes.get(name)
    if known is None:
        return None
    return known.value, PriorityRef(kind=WORKLOAD_PRIORITY_CLASS, name=known.name)


FOLLOW = Rule(
    run=following,
    reads=WORKLOAD,
    says=(
        Line(
            "mismatch",
            "the Workload has no place for any pod of the group",
            "stops running pods, deletes the Workload; the group is composed anew",
        ),
        Line(
            "follow",
            "queue, priority class or maximum execution time of the first pod changed",
            "changes the Workload, as far as the API allows",
        ),
    ),
)
