"""Rules about ends: deletion, loss of the Workload, finish, release of what we hold.

Rules, in this order; a pod claimed by one is in flight for the next:

1. orphan      a single pod is being deleted and does not run (any more): its Workload is finished,
               both are released at once
2. discard     a pod of a group was deleted while it was gated: it never ran and never will, it is
               released at once (B2), also where the deletion overtook its ungating
3. dissolve    the Workload is being deleted or was: stop the pods, release them and the Workload.
               One that is gone from under pods that run is made again instead (`takeover`)
4. finish      everything succeeded, or nothing can go on (retriable-in-group=false): the group ends
5. release     the group has ended: all pods and the Workload lose our finalizers

Invariant: a finalizer of ours comes off only when nothing about the pod is still to be counted, and
it runs no more.
"""

from podgroup.changes import ALL_SUCCEEDED
from podgroup.commands import (
    DeletePod,
    FinalizePod,
    FinalizeWorkload,
    FinishGroup,
    ReleaseQuota,
    StopPod,
)
from podgroup.decide.context import (
    Deciding,
    group_ref,
    normal,
    pod_ref,
    short_grace,
    workload_free,
    workload_ref,
)
from podgroup.decide.rule import Line, Rule
from podgroup.decide.starting import yield_quota
from podgroup.decide.takeover import stands
from podgroup.decide.timing import may_run, still_running
from podgroup.members import Flag
from podgroup.names import (
    EVENT_EXCESS_POD_DELETED,
    EVENT_FINISHED_WORKLOAD,
    EVENT_STOPPED,
    FINISHED_FAILED,
    FINISHED_OWNER_NOT_FOUND,
    FINISHED_SUCCEEDED,
    MAX_OWNERS,
    REASON_NO_MATCHING_WORKLOAD,
    REASON_WORKLOAD_DELETED,
    WORKLOAD_FINALIZER,
)
from podgroup.records import Reopened, WorkloadBack
from podgroup.view import Group, Pod

ORPHAN_MESSAGE = "The workload's owner no longer exists"


def leaving(d: Deciding, group: Group) -> None:
    """Let pods go that are deleted or beyond the count: no later rule finds a use for them."""
    if group.single:
        yield_quota(d, group)  # before its end, which is what an eviction of it comes to
        _orphan(d, group)
    else:
        _discard(d, group)
    _excess_again(d, group)


def finalize(d: Deciding, group: Group, pod: Pod, rule: str, reason: str, message: str) -> None:
    """Decide that a pod loses our finalizer, if it has it and nothing is in flight.

    One that may run keeps it until it has ended, or its kubelet does not answer any more. (Not in
    kueue mode, where the books are Kueue's, and so is the custom.)
    """
    if d.world.mode != "kueue" and may_run(d, pod):
        return
    if pod.held and pod.free:
        d.emit(group, rule, reason, message, FinalizePod(target=pod_ref(pod)))


def _orphan(d: Deciding, group: Group) -> None:
    if group.ending.finish is not None:
        return
    members = d.members(group)
    deleting = members.count(Flag.DELETING)
    gone = not len(members) and group.mirror.workload is not None
    if not deleting and not gone:
        return
    if group.departures.left:
        _withdraw(d, group)
        return
    if deleting and still_running(d, group):
        return  # it runs on until it has ended, with what it holds
    workload = group.mirror.workload
    if group.requeueing.evicted and d.world.mode == "kueue" and workload and workload.cluster_queue:
        return  # its quota is given back first (`mirroring`): Kueue asks what is to become of it
    if members.count(Flag.TERMINATED):
        return  # finished rather than orphaned: the finish rule says how it ended
    d.emit(
        group,
        "orphan",
        FINISHED_OWNER_NOT_FOUND,
        "the pod is being deleted" if deleting else "the pod is gone",
        FinishGroup(
            target=group_ref(group), reason=FINISHED_OWNER_NOT_FOUND, message=ORPHAN_MESSAGE
        ),
    )


def _withdraw(d: Deciding, group: Group) -> None:
    """The pod waits, and not in our hands: without a Workload it can be queued anew one day."""
    if workload_free(group):
        d.emit(
            group,
            "disown",
            "Unmanaged",
            "the pod is no longer managed",
            FinalizeWorkload(target=workload_ref(group), delete=True),
        )


def _discard(d: Deciding, group: Group) -> None:
    members = d.members(group)
    if members.count(Flag.INACTIVE) <= members.count(Flag.FAILED):
        return  # no pod was deleted before it had a node
    for uid in members.listed(Flag.DELETING):
        pod = d.pod(uid)
        if pod.view.node or pod.terminated or not (pod.doomed or pod.gated):
            continue  # deleted past the gate: it has a place until another pod takes it
        reason = "DeletedBeforeScheduled" if pod.opened else "DeletedWhileGated"
        finalize(d, group, pod, "discard", reason, "deleted before it was ever started")


def _excess_again(d: Deciding, group: Group) -> None:
    """An excess pod whose deletion was rejected is tried again when it has changed."""
    for uid in d.members(group).listed(Flag.EXCESS):
        pod = d.pod(uid)
        if pod.free and (pod.held or not pod.deleting):
            delete_excess(d, group, pod, "left over after a rejected attempt")


def delete_excess(d: Deciding, group: Group, pod: Pod, why: str) -> None:
    """Decide that a pod is beyond the count and goes."""
    d.emit(
        group,
        "excess",
        "ExcessPod",
        f"pod {pod.view.name}: {why}",
        DeletePod(
            target=pod_ref(pod),
            grace_s=short_grace(pod),
            events=normal(EVENT_EXCESS_POD_DELETED, "Excess pod deleted"),
        ),
    )


def dissolving(d: Deciding, group: Group) -> None:
    """Stop a group whose Workload is going or gone."""
    if not group.mirror.lost or group.ending.finish is not None or not group.composition.done:
        return
    members = d.members(group)
    workload = group.mirror.workload
    back = workload is not None and workload.deleted_at is None
    if back or stands(d, group):
        d.record(WorkloadBack(group.id))
        return
    deleting = workload is not None
    reason = REASON_WORKLOAD_DELETED if deleting else REASON_NO_MATCHING_WORKLOAD
    message = "Workload is deleted" if deleting else "Missing Workload; unable to restore pods"
    flags = (Flag.STOPPABLE, Flag.GATED, Flag.HELD) if deleting else (Flag.STOPPABLE,)
    for uid in dict.fromkeys(uid for flag in flags for uid in members.listed(flag)):
        pod = d.pod(uid)
        if not pod.free or (pod.deleting and not pod.held):
            continue
        if pod.deleting:
            finalize(d, group, pod, "dissolve", reason, f"{message}: pod is already going")
            continue
        d.emit(
            group,
            "dissolve",
            reason,
            f"{message}: stop pod {pod.view.name}",
            StopPod(
                target=pod_ref(pod),
                reason=reason,
                message=message,
                finalize=deleting and (d.world.mode == "kueue" or not may_run(d, pod)),
                events=normal(EVENT_STOPPED, message),
            ),
        )
    if members.count(Flag.OPENING):
        return  # a gate that is being removed may be off by now: stop that pod first
    if group.quota.holding is not None:
        d.emit(
            group,
            "dissolve",
            reason,
            "the Workload is gone and its quota with it",
            ReleaseQuota(target=group_ref(group), reason=reason, message=message, requeue=True),
        )
    if deleting:
        _release_workload(d, group, reason)
    elif not members.count(Flag.STOPPABLE):
        d.record(Reopened(group.id))


def finishing(d: Deciding, group: Group) -> None:
    """End a group that has nothing more to do, or cannot go on."""
    if group.spec.serving or group.ending.finish is not None:
        return
    members = d.members(group)
    if group.single:
        if members.count(Flag.TERMINATED):
            pod = d.pod(next(iter(members.flags)))
            good = pod.view.phase == "Succeeded"
            why = pod.view.message or pod.exit_reason or f"Pod {pod.view.phase}"
            _end(
                d,
                group,
                good,
                group.requeueing.evicted.message if group.requeueing.evicted and not good else why,
            )
        return
    total = group.composition.total if group.composition.done else group.spec.total
    succeeded = members.count(Flag.SUCCEEDED)
    for role in group.roles.values():
        succeeded += role.succeeded_gone
    if total and succeeded >= total:
        _end(d, group, True, f"Pods succeeded: {succeeded}/{total}.")
        return
    if not members.count(Flag.UNRETRIABLE):
        return
    going = len(members) - members.count(Flag.TERMINATED) - members.count(Flag.EXCESS)
    if len(members) and not going:
        # B5: a group that cannot be retried and has failures has failed.
        failed = members.count(Flag.FAILED)
        lost = f", failed: {failed}" if failed else ""
        _end(d, group, not failed, f"Pods succeeded: {succeeded}/{total}{lost}.")


def _end(d: Deciding, group: Group, good: bool, message: str) -> None:
    reason = FINISHED_SUCCEEDED if good else FINISHED_FAILED
    d.emit(
        group,
        "finish",
        reason,
        message,
        FinishGroup(target=group_ref(group), reason=reason, message=message),
    )


def releasing(d: Deciding, group: Group) -> None:
    """Release the pods of a finished group; the Workload last, once it says Finished."""
    finish = group.ending.finish
    if finish is None:
        return
    held = d.members(group).listed(Flag.HELD)
    if held:
        message = f"the group is over: {finish.message}"
        for uid in held:
            finalize(d, group, d.pod(uid), "release", finish.reason, message)
    workload = group.mirror.workload
    if workload is not None and (finish.written or workload.deleted_at is not None):
        _release_workload(d, group, finish.reason)


def _release_workload(d: Deciding, group: Group, reason: str) -> None:
    workload = group.mirror.workload
    if workload is None or WORKLOAD_FINALIZER not in workload.finalizers:
        return
    if not workload_free(group):
        return
    text = f"Workload '{group.namespace}/{group.mirror.name}' is declared finished"
    first = d.members(group).first()
    event = normal(EVENT_FINISHED_WORKLOAD, text, pod_ref(d.pod(first))) if first else ()
    d.emit(
        group,
        "release",
        reason,
        "nothing is left to account for",
        FinalizeWorkload(
            target=workload_ref(group), events=event if group.ending.finish is not None else ()
        ),
    )


def sweep(d: Deciding, group: Group) -> None:
    """Release the Workload of a group none of whose pods is left.

    Its owner references point at nothing any more, so garbage collection deletes it as soon as our
    finalizer is off. It is deleted by us where that need not come: in groups too big for complete
    owner references (B16), and where a pod that owns it was taken out of the group and lives on.
    """
    workload = group.mirror.workload
    if len(d.members(group)) or workload is None or not workload_free(group):
        return
    if group.single and not (group.ending.finish is not None and group.ending.finish.written):
        return
    lasts = group.composition.total > MAX_OWNERS or group.departures.strayed
    if WORKLOAD_FINALIZER in workload.finalizers or (lasts and workload.deleted_at is None):
        d.emit(
            group,
            "sweep",
            "NoPodsLeft",
            "no pod of the group is left",
            FinalizeWorkload(target=workload_ref(group), delete=lasts),
        )


LEAVE = Rule(
    run=leaving,
    says=(
        Line("orphan", "a single pod is being deleted", "finishes its Workload, releases both"),
        Line(
            "discard",
            "a pod of a group was deleted while it was gated",
            "releases it at once: it never ran",
        ),
    ),
)
DISSOLVE = Rule(
    run=dissolving,
    says=(
        Line(
            "dissolve",
            "the Workload is being deleted, or was",
            "stops the pods, gives the quota back",
        ),
    ),
)
FINISH = Rule(
    run=finishing,
    reads=ALL_SUCCEEDED,
    says=(
        Line(
            "finish",
            'all pods succeeded, or nothing runs and a pod has `retriable-in-group: "false"`',
            "ends the group",
        ),
    ),
)
RELEASE = Rule(
    run=releasing,
    says=(Line("release", "the group is over", "takes our finalizers off pods and Workload"),),
)
SWEEP = Rule(
    run=sweep,
    says=(Line("sweep", "no pod of the group is left", "releases the Workload"),),
)
