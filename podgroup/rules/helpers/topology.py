"""Topology requests of pods, and the node selector with which a pod that has a place is started.

Pods past their gate are where their selector says; a pod being ungated is where the decision says.
Only pods that may run take places: a pod that ended has left its place.

Invariant: no place is given to more pods than it has room for.
"""

from collections.abc import Mapping, Sequence

from podgroup.admission.topology.ungating import GroupPod, OffsetError, Ranks, ungated
from podgroup.model.names import POD_INDEX
from podgroup.model.topology import ASKING, TopologyAssignment
from podgroup.rules.helpers.context import RuleContext
from podgroup.rules.helpers.malformed import SHOWN
from podgroup.state.asked import hosts_of
from podgroup.state.facts import nodes_listed
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod
from podgroup.state.world import World


def selectors_of(
    ctx: RuleContext, group: Group, role: str, place: TopologyAssignment, start: Sequence[Pod]
) -> dict[str, Mapping[str, str]]:
    """Return the node selector of each pod of `start` that can, by name; a pass over its role."""
    members = ctx.members(group)
    there = [*members.with_flags(Flag.LIVE, role), *members.with_flags(Flag.OPENING, role)]
    pods = [_seen(ctx.pod(uid), place, gated=False) for uid in there]
    pods += [_seen(pod, place, gated=True) for pod in start]
    each = ctx.world.policy.compatibility != "kueue"
    ranks = Ranks(index_label="" if group.single else POD_INDEX, each=each)
    failed = {host for host in hosts_of(place) if not _ready(ctx.world, host)}
    if group.mirror.workload is not None:
        failed.update(group.mirror.workload.unhealthy_nodes)
    try:
        found = ungated(place, group.roles[role].count, pods, ranks, failed)
    except OffsetError:
        return {}  # as Kueue, which starts no pod then
    return {
        name: {level: selector[level] for level in place.levels} for name, selector in found.items()
    }


def _ready(world: World, host: str) -> bool:
    node = world.nodes.get(host)
    return not nodes_listed(world) or (node is not None and node.ready)


def topology_problem(
    ctx: RuleContext, roles: Mapping[str, Sequence[Pod]]
) -> tuple[str, str] | None:
    """Return (reason, message) if pods of a role ask for different places, else None.

    In kueue mode None: Kueue takes the request of the first pod that it lists.
    """
    if ctx.world.mode == "kueue":
        return None
    for first, *others in roles.values():
        asked = _asked(first)
        unlike = [pod for pod in others if _asked(pod) != asked]
        for key, value in zip(ASKING, asked, strict=True) if unlike else ():
            other = next((pod for pod in unlike if pod.view.annotations.get(key) != value), None)
            if other is not None:
                values = (value, other.view.annotations.get(key))
                shown = " and ".join(text[:SHOWN] if text else "none" for text in values)
                return (
                    "DifferentTopologies",
                    f"pods '{first.view.name}' and '{other.view.name}' of one role have different "
                    f"'{key}' values: {shown}",
                )
    return None


def _asked(pod: Pod) -> tuple[str | None, ...]:
    return tuple(map(pod.view.annotations.get, ASKING))


def _seen(pod: Pod, place: TopologyAssignment, *, gated: bool) -> GroupPod:
    view = pod.view
    selector = view.node_selector
    if not gated and pod.expect is not None and pod.expect.place:
        selector = dict(zip(place.levels, pod.expect.place, strict=True))
    return GroupPod(
        name=view.name,
        labels=view.labels,
        annotations=view.annotations,
        node_selector=selector,
        gated=gated,
    )
