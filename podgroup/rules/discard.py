"""Rule: a pod that was deleted need not be counted: it was gated, or is of a serving group.

A gated pod never ran and never will, so it is released at once (B2), also where the deletion
overtook its ungating. A pod of a serving group is released once it no longer runs: the controller
of its successor may need the same name, as a StatefulSet does, and has to wait until the old object
is gone (B3; kubernetes-sigs/kueue #13830).

Invariant: in a group that is not serving, a pod that was deleted past its gate has a place until
another pod takes it.
"""

from podgroup.rules.helpers.context import Conclusions, RuleContext
from podgroup.rules.helpers.releasing import finalize
from podgroup.rules.helpers.rule import Rule, RuleDoc
from podgroup.state.group import Group
from podgroup.state.members import Flag

_OVER = "it is being deleted and runs no more; its successor may need its name"


def discard(ctx: RuleContext, group: Group) -> Conclusions:
    """Release pods that were deleted before they could run."""
    if group.single:
        return ()
    members = ctx.members(group)
    if group.spec.serving:
        return _let_go(ctx, group) if members.count(Flag.DELETING) else ()
    if members.count(Flag.INACTIVE) <= members.count(Flag.FAILED):
        return ()  # no pod was deleted before it had a node
    return _discard(ctx, group)


def _discard(ctx: RuleContext, group: Group) -> Conclusions:
    for uid in ctx.members(group).listed(Flag.DELETING):
        pod = ctx.pod(uid)
        if pod.view.node or pod.terminated or not (pod.deleted_while_gated or pod.gated):
            continue  # a pod deleted past its gate has a place until another pod takes it
        reason = "DeletedBeforeScheduled" if pod.opened else "DeletedWhileGated"
        yield from finalize(
            ctx, group, pod, "discard", reason, "deleted before it was ever started"
        )


def _let_go(ctx: RuleContext, group: Group) -> Conclusions:
    flags = ctx.members(group).flags
    for uid in ctx.members(group).listed(Flag.DELETING):
        if not flags[uid] & Flag.LIVE:
            yield from finalize(ctx, group, ctx.pod(uid), "discard", "DeletedAndOver", _OVER)


RULE = Rule(
    name="discard",
    run=discard,
    parked=True,
    docs=(
        RuleDoc(
            "discard",
            "a pod of a group was deleted while it was gated",
            "releases it",
        ),
        RuleDoc(
            "discard",
            "a pod of a serving group was deleted and runs no more",
            "releases it, so that its successor can have its name",
        ),
    ),
)
