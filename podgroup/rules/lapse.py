"""Rule: a pod of a deleted Node must have ended by now, though no kubelet says so: it is released.

Until then it is charged, its finalizer keeps its object, and no other pod gets its place
(`Policy.deleted_node_timeout_s`). Without our finalizer the API server forgets it at once.

Invariant: a group has a timer for its next look at such pods, or has none.
"""

from podgroup.model.commands import FinalizePod
from podgroup.rules.helpers.context import Conclusions, RuleContext, pod_ref
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.helpers.timing import look_by, no_wake, timer_of
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.termination import LOST_NODE, end_unseen, lost_at


def lapse(ctx: RuleContext, group: Group) -> Conclusions:
    """Release pods of deleted Nodes that have had time enough to end."""
    wish = timer_of(ctx, group, LOST_NODE)
    policy, members = ctx.world.policy, ctx.members(group)
    if wish is None and not (policy.deleted_node_timeout_s and members.count(Flag.DELETING)):
        return
    if wish is not None and wish.due_at > ctx.here.at:
        return  # looked at lately: constant work per event
    coming = []
    for pod in map(ctx.pod, members.listed(Flag.DELETING)):
        at = lost_at(ctx.world, pod, ctx.here.at)
        if not pod.held or pod.terminated or at is None or not end_unseen(pod.view):
            continue
        if at > ctx.here.at:
            coming.append(at)
            continue
        why = f"Node {pod.view.node} was deleted, and pod {pod.view.name} must have ended by now"
        yield ctx.decision(group, "lapse", "NodeDeleted", why, FinalizePod(target=pod_ref(pod)))
    if coming:
        yield from look_by(ctx, group, LOST_NODE, min(coming))
    else:
        yield from no_wake(ctx, group, LOST_NODE)


RULE = Rule(
    name="lapse",
    run=lapse,
    mode=BUILTIN,
    docs=(
        RuleDoc(
            "lapse",
            "a pod's Node was deleted, and its grace period and "
            "`queueing.deleted_node_timeout_s` are over",
            "releases the pod",
        ),
    ),
)
