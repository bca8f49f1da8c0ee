"""Rule: the end of a group that has nothing more to do, or cannot go on, or can never start.

All pods succeeded, or no pod can go on (retriable-in-group=false). Or a start can never succeed:
the admission contradicts the pod (a node selector or label has another value already), or there is
not exactly one podset for the pod. Trying again cannot help: a gated pod's selector can only be
added to (KEP-3521), and only a person knows which value is right.

Invariant: gated pods of a group that failed to start stay gated, and are not deleted.
"""

from podgroup.log.events import Decision
from podgroup.model.commands import FinishGroup
from podgroup.model.names import FINISHED_FAILED, FINISHED_FAILED_TO_START, FINISHED_SUCCEEDED
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.state.changes import ALL_SUCCEEDED
from podgroup.state.group import Group
from podgroup.state.members import Flag


def start_failed(ctx: RuleContext, group: Group) -> Conclusions:
    """End a group whose pods cannot be started."""
    if group.ending.finish is not None:
        return ()
    why = group.ending.start_failed or _no_answer(ctx, group)
    if not why:
        return ()
    return (
        ctx.decision(
            group,
            "finish",
            FINISHED_FAILED_TO_START,
            why,
            FinishGroup(target=group_ref(group), reason=FINISHED_FAILED_TO_START, message=why),
        ),
    )


def _no_answer(ctx: RuleContext, group: Group) -> str:
    holding = group.quota.holding
    if holding is None or not holding.admitted or group.requeueing.evicted is not None:
        return ""
    answers = len(holding.admission.assignments)
    if not group.single or answers == 1 or not ctx.members(group).count(Flag.GATED):
        return ""
    return f"invalid podset infos: a single pod needs 1, the admission has {answers}"


def finish(ctx: RuleContext, group: Group) -> Conclusions:
    """End a group that has nothing more to do, or cannot go on."""
    if group.spec.serving or group.ending.finish is not None:
        return ()
    members = ctx.members(group)
    if group.single:
        if members.count(Flag.TERMINATED):
            pod = ctx.pod(next(iter(members.flags)))
            good = pod.view.phase == "Succeeded"
            why = pod.view.message or pod.exit_reason or f"Pod {pod.view.phase}"
            return (
                _end(
                    ctx,
                    group,
                    good,
                    group.requeueing.evicted.message
                    if group.requeueing.evicted and not good
                    else why,
                ),
            )
        return ()
    total = group.composition.total if group.composition.done else group.spec.total
    succeeded = members.count(Flag.SUCCEEDED)
    for role in group.roles.values():
        succeeded += role.succeeded_gone
    if total and succeeded >= total:
        return (_end(ctx, group, True, f"Pods succeeded: {succeeded}/{total}."),)
    if not members.count(Flag.UNRETRIABLE):
        return ()
    going = len(members) - members.count(Flag.TERMINATED) - members.count(Flag.EXCESS)
    if len(members) and not going:
        # B5: a group that cannot be retried and has failures has failed.
        failed = members.count(Flag.FAILED)
        lost = f", failed: {failed}" if failed else ""
        return (_end(ctx, group, not failed, f"Pods succeeded: {succeeded}/{total}{lost}."),)
    return ()


def _end(ctx: RuleContext, group: Group, good: bool, message: str) -> Decision:
    reason = FINISHED_SUCCEEDED if good else FINISHED_FAILED
    return ctx.decision(
        group,
        "finish",
        reason,
        message,
        FinishGroup(target=group_ref(group), reason=reason, message=message),
    )


START_FAILED = Rule(
    name="finish",
    run=start_failed,
    docs=(RuleDoc("finish", "what an admission brings contradicts a pod", "ends the group"),),
)


RULE = Rule(
    name="finish",
    run=finish,
    parked=True,
    reads=ALL_SUCCEEDED,
    docs=(
        RuleDoc(
            "finish",
            'all pods succeeded, or nothing runs and a pod has `retriable-in-group: "false"`',
            "ends the group",
        ),
    ),
)
