"""Rule: a pod is past the gate without an admission, and is stopped.

A pod is stopped if the log has seen its gate. A pod that never had the gate runs on and is reported
(B17), unless an operator wants it stopped (`Policy.stop_unadmitted`). A pod that we ungated runs on
while Kueue has yet to decide about a Workload that was created again (`helpers.lost_workload`). A
pod that we did not ungate has `UNADMITTED_GRACE_S` to end, whatever its own grace period.

Invariant: no pod of a group that holds quota is stopped here.
"""

from podgroup.model.names import REASON_NOT_ADMITTED
from podgroup.rules.helpers.context import UNADMITTED_GRACE_S, Conclusions, RuleContext, short_grace
from podgroup.rules.helpers.lost_workload import precedes
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.rules.helpers.stopping import stop_pod
from podgroup.rules.helpers.timing import may_run
from podgroup.state.facts import started_before
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod

NOT_ADMITTED_MESSAGE = "Not admitted by cluster queue"


def unadmit(ctx: RuleContext, group: Group) -> Conclusions:
    """Stop running pods of a group without quota."""
    if group.requeueing.evicted is not None or group.quota.holding is not None:
        return ()
    if group.ending.finish is not None or group.mirror.lost:
        return ()
    count = ctx.members(group).count
    return _unadmit(ctx, group) if count(Flag.STOPPABLE) or count(Flag.DELETING) else ()


def _unadmit(ctx: RuleContext, group: Group) -> Conclusions:
    members = ctx.members(group)
    started = [ctx.pod(uid) for uid in members.listed(Flag.STOPPABLE)]
    # A pod that we did not ungate gets no quota soon, and may be deleted with a long grace period.
    known = group.composition.done and not _about_to_be_held(group)
    going = [ctx.pod(uid) for uid in members.listed(Flag.DELETING)]
    unwanted = bool(started) and _unwanted(ctx, group)
    for pod in [*started, *(pod for pod in going if _lingers(ctx, pod))]:
        if (
            (pod.opened or (unwanted and not pod.ungate_decided))
            and pod.free
            and (known or not pod.ungate_decided)
            and not precedes(ctx, group, pod)
        ):
            grace_s = short_grace(pod)
            yield stop_pod(ctx, pod, "unadmit", REASON_NOT_ADMITTED, NOT_ADMITTED_MESSAGE, grace_s)


def _unwanted(ctx: RuleContext, group: Group) -> bool:
    """Tell whether pods that never had the gate are to be stopped: no admission started them."""
    wanted = ctx.world.policy.stop_unadmitted and bool(group.spec.queue)
    return wanted and not started_before(ctx.world, group)


def _lingers(ctx: RuleContext, pod: Pod) -> bool:
    """Tell whether a pod that we did not ungate has a longer grace period than it should."""
    grace_s = pod.view.grace_s
    return may_run(ctx, pod) and not pod.ungate_decided and (grace_s or 0) > UNADMITTED_GRACE_S


def _about_to_be_held(group: Group) -> bool:
    # kueue mode: before the Workload was read back it cannot say that it is not admitted.
    return group.mirror.workload is None


RULE = Rule(
    name="unadmit",
    run=unadmit,
    parked=True,
    docs=(RuleDoc("unadmit", "a pod is past the gate without an admission", "stops it"),),
)
