"""Rule: pods run since before this log began, and their Workload is gone: they are taken over.

The log does not have their admission (it was lost, or removed with gatelog), but the pods bear the
marks of a start and were never seen gated: they are composed as they run, and their usage is
charged as an admission, if the ClusterQueue has flavors for them. Where it has none, or where pods
of the group are missing or request what no node has, the pods run on and are charged without an
admission (`charge`).

In kueue mode the new Workload requests quota of Kueue, and the pods run meanwhile.

Invariant: no pod is stopped here, and no pod that was seen gated is admitted here.
"""

from podgroup.model.commands import AdmitGroup
from podgroup.model.quantities import beyond_any_node
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.rule import BUILTIN, Rule, RuleDoc
from podgroup.state.asked import first_flavors
from podgroup.state.facts import cluster_queue_of, runs_since_before
from podgroup.state.group import Group


def take_over(ctx: RuleContext, group: Group) -> Conclusions:
    """Admit a group with the usage of its pods, which run since before the log (builtin mode)."""
    if (
        group.quota.holding is not None
        or group.quota.admissions
        or group.requeueing.evicted is not None
    ):
        return ()
    if not group.composition.done or group.ending.finish is not None or group.mirror.lost:
        return ()
    if not runs_since_before(ctx.world, group):
        return ()
    if any(beyond_any_node(role.requests) for role in group.roles.values()):
        return ()
    queue = cluster_queue_of(ctx.world, group)
    if queue is None:
        return ()
    sets = first_flavors(ctx.world, group, queue)
    if not sets:
        return ()
    return (
        ctx.decision(
            group,
            "takeover",
            "TakenOver",
            f"its pods run since before this log began: charged to ClusterQueue {queue.name}",
            AdmitGroup(target=group_ref(group), cluster_queue=queue.name, assignments=sets),
        ),
    )


RULE = Rule(
    name="takeover",
    run=take_over,
    mode=BUILTIN,
    docs=(
        RuleDoc(
            "takeover",
            "pods run since before the log began, without a Workload",
            "charges them as an admission",
        ),
    ),
)
