"""Rule: a pod of a deleted Node must have ended by now, though no kubelet says so: it is released.

Until then the pod is charged, our finalizer keeps its object, and no other pod gets its place
(`Policy.deleted_node_timeout_s`). Without our finalizer the API server removes the pod at once.

Invariant: a group has a timer for its next look at such pods, or has none.
"""

from collections.abc import Iterator
from datetime import datetime

from podgroup.model.commands import FinalizePod
from podgroup.rules.helpers.context import Conclusions, RuleContext, pod_ref
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.rules.helpers.timing import fallen_due, given_up_at, look_by, timer_of
from podgroup.state.group import Group
from podgroup.state.members import Flag, Members
from podgroup.state.pod import Pod
from podgroup.state.termination import LOST_NODE, end_unseen


def lapse(ctx: RuleContext, group: Group) -> Conclusions:
    """Release pods of deleted Nodes that have had time enough to end."""
    policy, members = ctx.world.policy, ctx.members(group)
    if not policy.deleted_node_timeout_s or not members.count(Flag.DELETING):
        return
    if timer_of(ctx, group, LOST_NODE) is not None:
        return  # looked at lately: constant work per event
    ends = _ends(ctx, members)
    for pod in (yield from fallen_due(ctx, group, LOST_NODE, ends, look_by)):
        why = f"Node {pod.view.node} was deleted, and pod {pod.view.name} must have ended by now"
        yield ctx.decision(group, "lapse", "NodeDeleted", why, FinalizePod(target=pod_ref(pod)))


def _ends(ctx: RuleContext, members: Members) -> Iterator[tuple[Pod, datetime]]:
    """Yield the pods whose end no kubelet will report, and when each must have ended."""
    for pod in map(ctx.pod, members.listed(Flag.DELETING)):
        at = given_up_at(ctx, pod)
        if pod.held and not pod.terminated and at is not None and end_unseen(pod.view):
            yield pod, at


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
