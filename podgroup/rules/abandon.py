"""Rule: every pod of an admitted group was deleted, and none came back for long: the group ends.

Deleting the pods of a group is how a user ends it by hand. The group keeps its quota as long as
replacements may come (`Policy.deleted_group_timeout_s`): a controller creates them within seconds,
a person may take longer. A serving group is left alone, since its pods go and come by its nature.

Kueue keeps such a group for good, and so does this rule with Kueue's decisions (`compatibility`).

Invariant: a group lives on while a pod may run, is gated, or failed without being deleted.
"""

from datetime import datetime, timedelta

from podgroup.model.commands import FinishGroup
from podgroup.model.names import FINISHED_FAILED
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.places import deserted, ends_deserted
from podgroup.rules.helpers.readiness import admitted
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.helpers.timing import is_over, no_wake
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod

DESERTED = "deserted"


def abandon(ctx: RuleContext, group: Group) -> Conclusions:
    """End a group whose pods were all deleted long enough ago."""
    if not ends_deserted(ctx.world.policy):
        return ()
    if admitted(group) is None or not deserted(ctx, group):
        return no_wake(ctx, group, DESERTED)
    return _abandon(ctx, group)


def _abandon(ctx: RuleContext, group: Group) -> Conclusions:
    members, kept_s = ctx.members(group), ctx.world.policy.deleted_group_timeout_s
    last = max(_ended_at(ctx.pod(uid)) for uid in members.flags)
    if not (yield from is_over(ctx, group, DESERTED, last + timedelta(seconds=kept_s))):
        return
    good = members.count(Flag.SUCCEEDED) + sum(r.succeeded_gone for r in group.roles.values())
    message = (
        f"Pods succeeded: {good}/{group.composition.total or group.spec.total}. All others were "
        f"deleted, and none came back within {kept_s} s (queueing.deleted_group_timeout_s)."
    )
    command = FinishGroup(target=group_ref(group), reason=FINISHED_FAILED, message=message)
    yield ctx.decision(group, "abandon", FINISHED_FAILED, message, command)


def _ended_at(pod: Pod) -> datetime:
    """Return when a pod had been deleted and had ended."""
    known = (pod.terminating.since if pod.terminating else pod.view.deleted_at, pod.ended_at)
    return max(filter(None, known), default=pod.view.created_at)


RULE = Rule(
    name="abandon",
    run=abandon,
    mode=BUILTIN,
    docs=(
        RuleDoc(
            "abandon",
            "all pods of an admitted group were deleted, and none came back for "
            "`queueing.deleted_group_timeout_s`",
            "ends the group",
        ),
    ),
)
