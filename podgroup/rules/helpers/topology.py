"""What pods ask of the topology, and which node selector one is started with that has a place.

Pods that are past their gate are where their selector says; one whose gate is being taken off is
where the decision says. Only pods that may run take places: those that ended have left theirs.

Invariant: no place is given to more pods than it was given for.
"""

from collections.abc import Iterable, Mapping, Sequence

from podgroup.admission.matching import untolerated
from podgroup.admission.topology.ungating import GroupPod, OffsetError, Ranks, ungated
from podgroup.model.ids import PodUID
from podgroup.model.names import POD_INDEX
from podgroup.model.topology import ASKING, HOSTNAME, TopologyAssignment
from podgroup.rules.helpers.context import RuleContext
from podgroup.rules.helpers.malformed import SHOWN
from podgroup.rules.helpers.snapshot import sample_of
from podgroup.state.facts import nodes_listed, role_of
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod
from podgroup.state.world import World


def selectors_of(
    ctx: RuleContext, group: Group, role: str, place: TopologyAssignment, start: Sequence[Pod]
) -> dict[str, Mapping[str, str]]:
    """Return the node selector for each pod that can `start`, by name; a pass over its role."""
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
        return {}  # Kueue starts none
    return {
        name: {level: selector[level] for level in place.levels} for name, selector in found.items()
    }


def hosts_of(place: TopologyAssignment | None) -> set[str]:
    """Return the nodes that pods have places on; none where hostname is no level."""
    if place is None or place.levels[-1] != HOSTNAME:
        return set()
    return {domain.values[-1] for domain in place.domains}


def _ready(world: World, host: str) -> bool:
    node = world.nodes.get(host)
    return not nodes_listed(world) or (node is not None and node.ready)


def failed_nodes(world: World, group: Group, unwell: Iterable[str]) -> list[str]:
    """Return which of the nodes failed that a group has places on: none of its pods runs there.

    A node that is gone failed in any case, a tainted one unless the pods tolerate that for ever.
    A pod that is being started for a node is waited for, so that it can be stopped.
    """
    members = world.members[group.id]
    suspects = set(_suspects(world, group, unwell))
    if not suspects:
        return []
    for uid in members.flags:
        pod = world.pods[PodUID(uid)]
        if group.single and pod.view.node:
            return []  # a single pod that was bound is never moved
        if pod.expect is not None and pod.expect.place:
            suspects.discard(pod.expect.place[-1])  # its gate may be off by now
        elif members.flags[uid] & Flag.LIVE and not pod.deleting and pod.view.node in world.nodes:
            suspects.discard(pod.view.node)
    return sorted(suspects)


def _suspects(world: World, group: Group, unwell: Iterable[str]) -> set[str]:
    """Return the nodes on which pods that have a place there cannot start, or not for long."""
    holding, nodes = group.quota.holding, world.nodes
    tainted = {host for host in unwell if holding and host in nodes and nodes[host].ready}
    found = {host for host in unwell if host not in tainted}
    for given in holding.admission.assignments if holding is not None and tainted else ():
        role, hosts = group.roles.get(role_of(group, given.name)), tainted & hosts_of(given.place)
        if role is None or not hosts:
            continue
        shown = sample_of(world, group, role)
        tolerations = list(shown.tolerations if shown is not None else ())
        for name in dict.fromkeys(given.flavors.values()):
            if name in world.flavors:
                tolerations += world.flavors[name].tolerations
        lasting = tuple(one for one in tolerations if one.seconds is None)
        found.update(host for host in hosts if untolerated(nodes[host].taints, lasting))
    return found


def topology_problem(
    ctx: RuleContext, roles: Mapping[str, Sequence[Pod]]
) -> tuple[str, str] | None:
    """Return (reason, message) if pods of a role ask for different places, else None.

    Kueue takes what the first says that it lists.
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
