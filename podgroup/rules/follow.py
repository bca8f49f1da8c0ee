"""Rule: the Workload is kept in step with its pods, for as long as that is allowed.

Queue, priority class and maximum execution time are those of the first pod. For a single pod
without a Workload the class alone is kept, with the group.

Kueue's API lets queue and execution time change only while no quota is reserved; the class may
change at any time once there is a class. Names in annotation admission-gated-by can only be taken
off. A serving group keeps its queue. A label that was removed changes nothing; so does a class that
does not exist.

Invariant: one update at a time, and only where the Workload differs.
"""

from msgspec.structs import replace

from podgroup.log.events import Decision
from podgroup.model.commands import ComposeGroup, PriorityRef, UpdateWorkload
from podgroup.model.names import ADMISSION_GATED_BY, EVENT_UPDATED_WORKLOAD, admission_gates
from podgroup.model.objects import WorkloadView
from podgroup.rules.helpers.context import (
    Conclusions,
    RuleContext,
    group_ref,
    normal,
    pod_ref,
    workload_free,
    workload_ref,
)
from podgroup.rules.helpers.gating import gated_by
from podgroup.rules.helpers.leading import max_execution_s
from podgroup.rules.helpers.no_workload import without_workload
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.mismatch import followed, mismatched
from podgroup.state.changes import WORKLOAD
from podgroup.state.group import Group
from podgroup.state.pod import Pod

WORKLOAD_PRIORITY_CLASS = "WorkloadPriorityClass"


def follow(ctx: RuleContext, group: Group) -> Conclusions:
    """Update the Workload as the first pod says."""
    workload = followed(ctx, group)
    if workload is not None:
        reserved = group.quota.holding is not None or bool(workload.cluster_queue)
        found = _new_class(ctx, group, workload, reserved)
        if workload.annotations.get(ADMISSION_GATED_BY) and not group.spec.prebuilt:
            left = _left(ctx, group, workload)
            if left is not None and workload_free(group) and not mismatched(ctx, group, workload):
                return _gated(ctx, group, left)
        if reserved and found is None:
            return ()  # mostly: the class did not change
        first = ctx.members(group).first()
        if first is None or not workload_free(group) or mismatched(ctx, group, workload):
            return ()
        return _follow(ctx, group, workload, ctx.pod(first), found)
    ends = group.ending.finish is not None or group.mirror.lost
    if group.mirror.workload is None and group.composition.done and not ends:
        if len(ctx.members(group)) and without_workload(ctx.world, group):
            return _rank(ctx, group)
    return ()


def _follow(
    ctx: RuleContext,
    group: Group,
    workload: WorkloadView,
    first: Pod,
    found: tuple[int, PriorityRef] | None,
) -> Conclusions:
    """Follow the class that was `found`, else queue and execution time: no quota is reserved."""
    where = f"{group.namespace}/{group.mirror.name}"
    if found is not None:
        value, ref = found
        yield _update(
            ctx,
            group,
            first,
            f"Updated workload priority class: {where}",
            UpdateWorkload(target=workload_ref(group), priority=value, priority_ref=ref),
        )
        return
    if group.spec.queue and group.spec.queue != workload.queue:
        yield ctx.decision(
            group,
            "follow",
            "QueueChanged",
            f"the pods are for queue {group.spec.queue} now, the Workload is in {workload.queue}",
            UpdateWorkload(target=workload_ref(group), queue=group.spec.queue),
        )
        return
    wanted = max_execution_s(first)
    if not group.spec.prebuilt and wanted != workload.max_execution_s:
        yield _update(
            ctx,
            group,
            first,
            f"Updated not matching Workload for suspended job: {where}",
            UpdateWorkload(target=workload_ref(group), max_execution_s=wanted or 0),
        )


def _left(ctx: RuleContext, group: Group, workload: WorkloadView) -> str | None:
    """Return the gating controllers of the Workload that pods still name; None: no change."""
    known = workload.annotations[ADMISSION_GATED_BY]
    pods = gated_by(ctx.world, group)
    named = set(admission_gates(pods))
    left = ",".join(name for name in admission_gates(known) if name in named)
    return None if known in (left, pods) else left


def _gated(ctx: RuleContext, group: Group, left: str) -> Conclusions:
    first = ctx.members(group).first()
    if first is not None:
        command = UpdateWorkload(target=workload_ref(group), gated_by=left)
        text = f'Updated workload AdmissionGatedBy to "{left}"'
        yield _update(ctx, group, ctx.pod(first), text, command)


def _update(
    ctx: RuleContext, group: Group, first: Pod, text: str, command: UpdateWorkload
) -> Decision:
    command = replace(command, events=normal(EVENT_UPDATED_WORKLOAD, text, pod_ref(first)))
    return ctx.decision(group, "follow", EVENT_UPDATED_WORKLOAD, text, command)


def _new_class(
    ctx: RuleContext, group: Group, workload: WorkloadView, reserved: bool
) -> tuple[int, PriorityRef] | None:
    return _class_in_place_of(
        ctx, group, workload.priority_class_kind, workload.priority_class, reserved
    )


def _rank(ctx: RuleContext, group: Group) -> Conclusions:
    """Follow the priority class of a single pod that has no Workload."""
    kind, _, known = (group.composition.ranked_by or "").partition("/")
    found = _class_in_place_of(ctx, group, kind, known, group.quota.holding is not None)
    if found is None:
        return
    value, ref = found
    yield ctx.decision(
        group,
        "follow",
        "PriorityChanged",
        f"the pod is of {ref.kind} {ref.name} now, priority {value}",
        ComposeGroup(target=group_ref(group), priority=value, priority_ref=ref),
    )


def _class_in_place_of(
    ctx: RuleContext, group: Group, kind: str, known_as: str, reserved: bool
) -> tuple[int, PriorityRef] | None:
    """Return the class that the pods name in place of the known class, None if that stays."""
    name = group.spec.priority_class
    if not name or name == known_as:
        return None
    if known_as and kind != WORKLOAD_PRIORITY_CLASS:
        return None
    if reserved and not known_as:
        return None
    known = ctx.world.workload_classes.get(name)
    if known is None:
        return None
    return known.value, PriorityRef(kind=WORKLOAD_PRIORITY_CLASS, name=known.name)


RULE = Rule(
    name="follow",
    run=follow,
    reads=WORKLOAD,
    docs=(
        RuleDoc(
            "follow",
            "queue, priority or time limit of the first pod changed, or fewer gate its admission",
            "changes the Workload",
        ),
    ),
)
