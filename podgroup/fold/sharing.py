"""Fold of who names ResourceClaims that several pods may share, and who pays for them.

Invariant: `World.sharing` is what live pods name and groups hold; whom another payer concerns is
looked at again.
"""

from podgroup.fold.common import mark
from podgroup.model.ids import GroupID
from podgroup.model.objects import PodView
from podgroup.state.asked import charge_of
from podgroup.state.devices import claims_named, counting, rank_of
from podgroup.state.group import Group
from podgroup.state.sharing import Key
from podgroup.state.world import World


def joined(world: World, group: Group, view: PodView) -> None:
    """Let a pod that joins a group name its claims."""
    if view.resource_claims and counting(world):
        for key in sorted(claims_named(view)):
            if world.sharing.name(key, group.id, 1):
                _paid_anew(world, key)
        holds(world, group)


def left(world: World, group: Group, view: PodView) -> None:
    """Let the claims of a pod that leaves a group be named by one pod less."""
    if view.resource_claims and counting(world):
        for key in sorted(claims_named(view)):
            if world.sharing.name(key, group.id, -1):
                _paid_anew(world, key)


def holds(world: World, group: Group) -> None:
    """Let a group pay for the claims that it names, or not, as it holds quota or does not."""
    if group.id in world.sharing.claims or group.id in world.sharing.ranks:
        for key in world.sharing.hold(group.id, rank_of(group)):
            _paid_anew(world, key)


def ask_anew(world: World, identity: GroupID) -> None:
    """Have a group charged and looked at anew whose devices may count otherwise."""
    group = world.groups.get(identity)
    if group is None:
        return
    if group.quota.holding is not None:
        world.quotas.charge(identity, charge_of(world, group, group.quota.holding))
    elif identity in world.quotas.waiting:
        world.quotas.news[identity] = None
    mark(world, identity)


def _paid_anew(world: World, key: Key) -> None:
    for identity in sorted(world.sharing.naming(key)):
        ask_anew(world, identity)
