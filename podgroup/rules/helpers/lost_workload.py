"""Pods that run under an admission whose Workload is gone or was created again.

A Workload that is being deleted is a user's wish to stop the group (`dissolve`). A Workload that is
gone without a deletion in the log was removed with its kind, or by an interrupted removal of
gatelog: no user asked to stop the pods. Where this log knows the admission it stays valid, and the
Workload is created again (`compose`).

Invariant: nothing is changed here.
"""

from podgroup.rules.helpers.context import RuleContext
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod


def still_admitted(ctx: RuleContext, group: Group) -> bool:
    """Tell whether a group without its Workload is admitted and has running pods."""
    holding = group.quota.holding
    if group.mirror.workload is not None or group.requeueing.evicted is not None:
        return False
    return holding is not None and holding.admitted and bool(ctx.members(group).count(Flag.LIVE))


def precedes(ctx: RuleContext, group: Group, pod: Pod) -> bool:
    """Tell whether a pod was started before its Workload was created again (kueue mode).

    Kueue has yet to decide about the new Workload. Once Kueue evicts it, the pod is stopped as
    usual.
    """
    workload, since = group.mirror.workload, pod.ungated_at
    if workload is None or ctx.world.mode != "kueue" or not pod.ungate_decided or since is None:
        return False
    return since < workload.created_at
