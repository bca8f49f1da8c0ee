"""Rule: the Workload that the pods name (label or annotation prebuilt-workload-name) does not fit.

Another client created the Workload; the pods fill its places and own it. We never create it: while
it is missing the group waits, and pods past the gate are stopped unless the group was admitted. A
Workload that has fewer places than there are pods, or lacks a role, is finished as OutOfSync before
anything starts.

Invariant: the spec of a prebuilt Workload is never written.
"""

from podgroup.model.commands import FinishGroup
from podgroup.model.names import FINISHED_OUT_OF_SYNC, REASON_NO_MATCHING_WORKLOAD
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.lost_workload import still_admitted
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.stopping import stop_pod
from podgroup.state.devices import bare
from podgroup.state.group import Group
from podgroup.state.members import Flag

OUT_OF_SYNC_MESSAGE = "The prebuilt workload is out of sync with its user job"


MISSING_MESSAGE = "missing workload"


def prebuilt(ctx: RuleContext, group: Group) -> Conclusions:
    """Run the rules of this module on a group with a prebuilt Workload."""
    if not group.spec.prebuilt or group.ending.finish is not None or not len(ctx.members(group)):
        return ()
    return _prebuilt(ctx, group)


def _prebuilt(ctx: RuleContext, group: Group) -> Conclusions:
    workload = group.mirror.workload
    if workload is None:
        if not still_admitted(ctx, group):
            yield from _stop(ctx, group)
        return
    if workload.deleted_at is not None or not group.composition.done:
        return
    if not group.quota.admissions and _out_of_sync(ctx, group):
        yield from _stop(ctx, group)
        yield ctx.decision(
            group,
            "prebuilt",
            FINISHED_OUT_OF_SYNC,
            f"Workload {workload.name} has no place for every pod of the group",
            FinishGroup(
                target=group_ref(group), reason=FINISHED_OUT_OF_SYNC, message=OUT_OF_SYNC_MESSAGE
            ),
        )


def _out_of_sync(ctx: RuleContext, group: Group) -> bool:
    workload = group.mirror.workload
    assert workload is not None
    if group.single:
        first = ctx.members(group).first()
        requests = bare(ctx.pod(first).view) if first is not None else {}
        return [(p.count, p.requests) for p in workload.pod_sets] != [(1, requests)]
    members = ctx.members(group)
    return any(members.count(Flag.ACTIVE, name) > role.count for name, role in group.roles.items())


def _stop(ctx: RuleContext, group: Group) -> Conclusions:
    for uid in ctx.members(group).listed(Flag.STOPPABLE):
        pod = ctx.pod(uid)
        if pod.opened:
            yield stop_pod(ctx, pod, "prebuilt", REASON_NO_MATCHING_WORKLOAD, MISSING_MESSAGE)


RULE = Rule(
    name="prebuilt",
    run=prebuilt,
    docs=(
        RuleDoc(
            "prebuilt",
            "the Workload that the pods name is missing or too small",
            "stops ungated pods; ends the group as OutOfSync",
        ),
    ),
)
