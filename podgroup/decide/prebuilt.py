"""Rules for groups that bring their Workload along (label or annotation prebuilt-workload-name).

Another client made the Workload; the pods fill its places and own it. It is never made by us: while
it is missing the group waits, and pods that are past the gate are stopped, but for those of a group
that was admitted (`takeover`). One that has fewer
places than there are pods, or lacks a role, is finished as OutOfSync before anything starts.

Invariant: nothing of a prebuilt Workload's spec is ever written.
"""

from podgroup.commands import FinishGroup, StopPod, UpdateWorkload
from podgroup.decide.context import (
    Deciding,
    group_ref,
    normal,
    pod_ref,
    workload_free,
    workload_ref,
)
from podgroup.decide.rule import Line, Rule
from podgroup.decide.takeover import stands
from podgroup.members import Flag
from podgroup.names import (
    EVENT_STOPPED,
    FINISHED_OUT_OF_SYNC,
    JOB_UID,
    REASON_NO_MATCHING_WORKLOAD,
)
from podgroup.view import Group

OUT_OF_SYNC_MESSAGE = "The prebuilt workload is out of sync with its user job"
MISSING_MESSAGE = "missing workload"


def prebuilding(d: Deciding, group: Group) -> None:
    """Run the rules of this module on a group with a prebuilt Workload."""
    if not group.spec.prebuilt or group.ending.finish is not None or not len(d.members(group)):
        return
    workload = group.mirror.workload
    if workload is None:
        if not stands(d, group):
            _stop(d, group)
        return
    if workload.deleted_at is not None or not group.composition.done:
        return
    if not group.quota.admissions and _out_of_sync(d, group):
        _stop(d, group)
        d.emit(
            group,
            "prebuilt",
            FINISHED_OUT_OF_SYNC,
            f"Workload {workload.name} has no place for every pod of the group",
            FinishGroup(
                target=group_ref(group), reason=FINISHED_OUT_OF_SYNC, message=OUT_OF_SYNC_MESSAGE
            ),
        )
    elif group.single:
        _own(d, group)


def _out_of_sync(d: Deciding, group: Group) -> bool:
    workload = group.mirror.workload
    assert workload is not None
    if group.single:
        first = d.members(group).first()
        requests = d.pod(first).view.requests if first is not None else {}
        return [(p.count, p.requests) for p in workload.pod_sets] != [(1, requests)]
    members = d.members(group)
    return any(members.count(Flag.ACTIVE, name) > role.count for name, role in group.roles.items())


def _own(d: Deciding, group: Group) -> None:
    first = d.members(group).first()
    workload = group.mirror.workload
    if first is None or workload is None or not workload_free(group):
        return
    if first in workload.owner_uids:
        return
    pod = d.pod(first)
    d.emit(
        group,
        "own",
        "OwnerReferencesAdded",
        f"pod {pod.view.name} controls the Workload made for it",
        UpdateWorkload(
            target=workload_ref(group),
            add_owners=(pod_ref(pod),),
            controller=True,
            labels={JOB_UID: pod.view.uid},
        ),
    )


def _stop(d: Deciding, group: Group) -> None:
    for uid in d.members(group).listed(Flag.STOPPABLE):
        pod = d.pod(uid)
        if pod.free and pod.opened:
            d.emit(
                group,
                "prebuilt",
                REASON_NO_MATCHING_WORKLOAD,
                f"stop pod {pod.view.name}: {MISSING_MESSAGE}",
                StopPod(
                    target=pod_ref(pod),
                    reason=REASON_NO_MATCHING_WORKLOAD,
                    message=MISSING_MESSAGE,
                    events=normal(EVENT_STOPPED, MISSING_MESSAGE),
                ),
            )


PREBUILT = Rule(
    run=prebuilding,
    says=(
        Line(
            "prebuilt",
            "the Workload that the pods name is missing, or has no place for all of them",
            "stops pods that are past the gate; ends the group as OutOfSync",
        ),
    ),
)
