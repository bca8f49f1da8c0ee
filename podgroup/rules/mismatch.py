"""Rule: the Workload has no place for any pod that exists.

Running pods are stopped, the Workload is deleted and the group composed anew.

Invariant: a Workload that pods have brought along is never deleted.
"""

from podgroup.model.commands import FinalizeWorkload
from podgroup.model.names import EVENT_DELETED_WORKLOAD, REASON_NO_MATCHING_WORKLOAD
from podgroup.model.objects import WorkloadView
from podgroup.rules.helpers.context import (
    Conclusions,
    RuleContext,
    normal,
    pod_ref,
    workload_free,
    workload_ref,
)
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.stopping import stop_pod
from podgroup.state.changes import WORKLOAD
from podgroup.state.group import Group
from podgroup.state.members import Flag

MISMATCH_MESSAGE = "No matching Workload; restoring pod templates according to existent Workload"


def mismatch(ctx: RuleContext, group: Group) -> Conclusions:
    """Compose the group anew, with a Workload that has places for its pods."""
    workload = followed(ctx, group)
    if workload is not None and mismatched(ctx, group, workload):
        return _start_over(ctx, group, workload)
    return ()


def followed(ctx: RuleContext, group: Group) -> WorkloadView | None:
    """Return the Workload of a composed group that is to be kept in step with its pods."""
    workload = group.mirror.workload
    if not group.composition.done or group.ending.finish is not None or group.mirror.lost:
        return None
    if workload is None or workload.deleted_at is not None or not len(ctx.members(group)):
        return None
    return workload


def mismatched(ctx: RuleContext, group: Group, workload: WorkloadView) -> bool:
    """Tell whether a Workload has no place for any pod that exists."""
    if group.spec.prebuilt:
        return False
    if group.single:
        return [pod_set.count for pod_set in workload.pod_sets] != [1]
    pods = ctx.members(group).count
    for pod_set in workload.pod_sets:
        if pods(Flag.ACTIVE, pod_set.name) or pods(Flag.INACTIVE, pod_set.name):
            return False
    return bool(pods(Flag.ACTIVE) or pods(Flag.INACTIVE))


def _start_over(ctx: RuleContext, group: Group, workload: WorkloadView) -> Conclusions:
    for uid in ctx.members(group).listed(Flag.STOPPABLE):
        pod = ctx.pod(uid)
        if pod.opened:
            yield stop_pod(ctx, pod, "mismatch", REASON_NO_MATCHING_WORKLOAD, MISMATCH_MESSAGE)
    first = ctx.members(group).first()
    if first is None or not workload_free(group):
        return
    text = f"Deleted not matching Workload: {group.namespace}/{group.mirror.name}"
    yield ctx.decision(
        group,
        "mismatch",
        REASON_NO_MATCHING_WORKLOAD,
        f"Workload {workload.name} has no place for any pod of the group",
        FinalizeWorkload(
            target=workload_ref(group),
            delete=True,
            events=normal(EVENT_DELETED_WORKLOAD, text, pod_ref(ctx.pod(first))),
        ),
    )


RULE = Rule(
    name="mismatch",
    run=mismatch,
    reads=WORKLOAD,
    docs=(
        RuleDoc(
            "mismatch",
            "the Workload has no place for any pod of the group",
            "stops pods, deletes the Workload, composes the group anew",
        ),
    ),
)
