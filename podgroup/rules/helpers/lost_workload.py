"""Pods that run under an admission whose Workload is gone or was made again.

A Workload that is being deleted is a user's wish to stop the group (`dissolve`). One that is gone
without having been seen to go was swept away with its kind, or by a removal of gatelog that was
interrupted: no user asked that what runs should stop. Where this log knows the admission it stays
good, and the Workload is made again (`compose`).

Invariant: nothing is changed here.
"""

from podgroup.rules.helpers.context import RuleContext
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod


def still_admitted(ctx: RuleContext, group: Group) -> bool:
    """Tell whether a group whose Workload is gone was admitted and has pods that run."""
    holding = group.quota.holding
    if group.mirror.workload is not None or group.requeueing.evicted is not None:
        return False
    return holding is not None and holding.admitted and bool(ctx.members(group).count(Flag.LIVE))


def precedes(ctx: RuleContext, group: Group, pod: Pod) -> bool:
    """Tell whether a pod was started before its Workload was made again (kueue mode).

    Kueue has yet to decide about that one. Once it evicts it, the pod is stopped like others.
    """
    workload, since = group.mirror.workload, pod.ungated_at
    if workload is None or ctx.world.mode != "kueue" or not pod.ungate_decided or since is None:
        return False
    return since < workload.created_at
