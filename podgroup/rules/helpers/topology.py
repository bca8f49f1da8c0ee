"""What pods ask of the topology, and which node selector one is started with that has a place.

Pods that are past their gate are where their selector says; one whose gate is being taken off is
where the decision says. Only pods that may run take places: those that ended have left theirs.

Invariant: no place is given to more pods than it was given for.
"""

from collections.abc import Mapping, Sequence

from podgroup.admission.topology.ungating import GroupPod, OffsetError, Ranks, ungated
from podgroup.model.names import POD_INDEX
from podgroup.model.topology import ASKING, TopologyAssignment
from podgroup.rules.helpers.context import RuleContext
from podgroup.rules.helpers.malformed import SHOWN
from podgroup.state.members import Flag
from podgroup.state.world import Group, Pod


def selectors_of(
    ctx: RuleContext, group: Group, role: str, place: TopologyAssignment, start: Sequence[Pod]
) -> dict[str, Mapping[str, str]]:
    """Return the node selector for each pod that can `start`, by name; a pass over its role."""
    members = ctx.members(group)
    there = [*members.with_flags(Flag.LIVE, role), *members.with_flags(Flag.OPENING, role)]
    pods = [_seen(ctx.pod(uid), place, gated=False) for uid in there]
    pods += [_seen(pod, place, gated=True) for pod in start]
    ranks = Ranks() if group.single else Ranks(index_label=POD_INDEX)
    count = group.roles[role].count
    try:
        found = ungated(place, count, pods, ranks)
    except OffsetError:  # it would keep the group from starting for ever
        found = ungated(place, count, pods, Ranks())
    return {
        name: {level: selector[level] for level in place.levels} for name, selector in found.items()
    }


def topology_problem(
    ctx: RuleContext, roles: Mapping[str, Sequence[Pod]]
) -> tuple[str, str] | None:
    """Return (reason, message) if pods of a role ask for different places, else None.

    Kueue takes what the first says that it lists.
    """
    if ctx.world.mode == "kueue":
        return None
    for first, *others in roles.values():
        said = first.view.annotations
        for key in ASKING:
            value = said.get(key)
            other = next((pod for pod in others if pod.view.annotations.get(key) != value), None)
            if other is not None:
                values = (value, other.view.annotations.get(key))
                shown = " and ".join(text[:SHOWN] if text else "none" for text in values)
                return (
                    "DifferentTopologies",
                    f"pods '{first.view.name}' and '{other.view.name}' of one role have different "
                    f"'{key}' values: {shown}",
                )
    return None


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
