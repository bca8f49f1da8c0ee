"""Which group a Workload's name belongs to: one group at a time.

Theory. A group's Workload bears the group's name, a single pod's Workload a name made of the pod's
name and uid; but pods may name another Workload (`prebuilt-workload-name`), even another group's.
The first group keeps the name, and events of the Workload concern that group alone. Others wait
until the name is free. A group whose own name it is takes it from a group without a Workload.

Invariant: a name belongs to at most one group, whatever pods say, and a group that has a Workload
keeps its name as long as it lives.
"""

from podgroup.fold.common import mark
from podgroup.model.ids import GroupID
from podgroup.state.group import Group
from podgroup.state.world import World


def claim_name(world: World, group: Group) -> None:
    """Give a group the name of its Workload, or have the group wait for the name."""
    key = (group.namespace, group.mirror.name)
    holder = world.groups.get(world.by_workload.get(key, GroupID("")))
    if holder is not None and holder.id != group.id:
        if group.spec.prebuilt or holder.mirror.workload is not None:
            world.rivals.setdefault(key, {})[group.id] = None
            return
        world.rivals.setdefault(key, {})[holder.id] = None
    world.by_workload[key] = group.id


def give_up_name(world: World, group: Group) -> None:
    """Give the name of a group's Workload to the next group by id that waits for it."""
    key = (group.namespace, group.mirror.name)
    rivals = world.rivals.get(key, {})
    rivals.pop(group.id, None)
    if world.by_workload.get(key) == group.id:
        del world.by_workload[key]
        if rivals:
            heir = min(rivals)
            del rivals[heir]
            world.by_workload[key] = heir
            mark(world, heir)
    if not rivals:
        world.rivals.pop(key, None)
