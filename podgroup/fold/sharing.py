"""Fold of which groups name ResourceClaims that several pods may share, and which pay for them.

Invariant: `World.sharing` has the claims that pods of the state name and the ranks of groups that
hold quota; groups that a change of payer concerns are looked at again.
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
    """Enter the claims of a pod that joins a group."""
    if view.resource_claims and counting(world):
        for key in sorted(claims_named(view)):
            if world.sharing.name(key, group.id, 1):
                _paid_anew(world, key)
        holds(world, group)


def left(world: World, group: Group, view: PodView) -> None:
    """Take out the claims of a pod that leaves a group."""
    if view.resource_claims and counting(world):
        for key in sorted(claims_named(view)):
            if world.sharing.name(key, group.id, -1):
                _paid_anew(world, key)


def holds(world: World, group: Group) -> None:
    """Enter whether a group that names claims holds quota, and so may pay for them."""
    if group.id in world.sharing.claims or group.id in world.sharing.ranks:
        for key in world.sharing.hold(group.id, rank_of(group)):
            _paid_anew(world, key)


def ask_anew(world: World, identity: GroupID) -> None:
    """Have a group charged and looked at anew, since its devices may count otherwise."""
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
