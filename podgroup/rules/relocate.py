"""Rule: nodes failed that a group has places on; its pods get other places, or it is evicted.

Rule `admit` runs it, by its verdicts. A pod that was started for a failed node and not bound yet
would wait for ever, so it is stopped, and its replacement gets the new place.

Invariant: pods that run are left where they are, unless the group is evicted.
"""

from msgspec.structs import replace

from podgroup.admission.verdicts import NodeFailureVerdict
from podgroup.model.commands import ReplaceNodes
from podgroup.model.names import EVICTED_NODE_FAILURES, REASON_UNSCHEDULABLE
from podgroup.model.topology import HOSTNAME
from podgroup.model.wording import joined
from podgroup.rules.helpers.context import Conclusions, RuleContext, group_ref
from podgroup.rules.helpers.evicting import evict_group
from podgroup.rules.helpers.rule import RuleDoc
from podgroup.rules.helpers.stopping import stop_pod
from podgroup.state.group import Group
from podgroup.state.members import Flag


def relocate(ctx: RuleContext, group: Group, verdict: NodeFailureVerdict) -> Conclusions:
    """Give a group the places of a verdict, or evict it."""
    holding, failed = group.quota.holding, ", ".join(verdict.nodes)
    if holding is None:
        return
    if verdict.pod_sets is None:
        why = f"no other nodes have room for its pods of failed nodes: {failed}"
        message = joined(
            why, f"{verdict.message}: {verdict.why}" if verdict.why else verdict.message
        )
        yield evict_group(ctx, group, "relocate", EVICTED_NODE_FAILURES, message)
        return
    places = {one.name: one.topology for one in verdict.pod_sets if one.topology is not None}
    assignments = tuple(
        replace(one, place=places.get(one.name, one.place)) for one in holding.admission.assignments
    )
    yield ctx.decision(
        group,
        "relocate",
        EVICTED_NODE_FAILURES,
        f"nodes failed: {failed}; its pods get other places, those that run stay",
        ReplaceNodes(target=group_ref(group), nodes=verdict.nodes, assignments=assignments),
    )
    for uid in [*ctx.members(group).with_flags(Flag.STOPPABLE)]:
        pod = ctx.pod(uid)
        node = pod.view.node_selector.get(HOSTNAME, "")
        if not pod.view.node and node in verdict.nodes and pod.free:
            why = f"node {node} failed before the pod was bound to it"
            yield stop_pod(ctx, pod, "relocate", REASON_UNSCHEDULABLE, why)


DOC = RuleDoc(
    "relocate",
    "nodes failed that it has places on",
    "gives its pods other places, or evicts it if there are none",
)
