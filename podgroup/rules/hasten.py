"""Rule: a pod is being deleted with an absurd grace period: it gets the longest that is believed.

The API server adds a time and seconds unchecked, and so does a kubelet: with 300 years, it may
never stop the containers. A shorter grace period in a second deletion mends both.

Invariant: no grace period grows.
"""

from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.helpers.stopping import stop_pod
from podgroup.state.group import Group
from podgroup.state.members import Flag

REASON = "GracePeriodTooLong"


def hasten(ctx: RuleContext, group: Group) -> Conclusions:
    """Shorten absurd grace periods of pods that may run."""
    members = ctx.members(group)
    return _hasten(ctx, group) if Flag.ABSURD in members.sets else ()


def _hasten(ctx: RuleContext, group: Group) -> Conclusions:
    members, most_s = ctx.members(group), ctx.world.policy.termination_grace_max_s
    for uid in members.listed(Flag.ABSURD):
        pod = ctx.pod(uid)
        if members.flags[uid] & Flag.LIVE:
            why = (
                f"it was deleted with a grace period of {pod.view.grace_s} s, and has {most_s} s "
                "(queueing.termination_grace_max_s)"
            )
            yield stop_pod(ctx, pod, "hasten", REASON, why, most_s)


RULE = Rule(
    name="hasten",
    run=hasten,
    mode=BUILTIN,
    parked=True,
    docs=(
        RuleDoc(
            "hasten",
            "builtin: a pod is deleted with more grace than `queueing.termination_grace_max_s`",
            "deletes it with that",
        ),
    ),
)
