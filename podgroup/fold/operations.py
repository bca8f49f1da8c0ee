"""Operations: what a person, or a deployment on its own behalf, did to gatelog.

Invariant: a released entry goes on as if it had not been parked; a discarded entry stays undone.
"""

from podgroup.fold import sentences as say
from podgroup.fold.common import note, unpark
from podgroup.fold.outcomes import try_again
from podgroup.log.events import OperatorActed
from podgroup.log.journal import At
from podgroup.model.ids import GroupID
from podgroup.state.group import Group
from podgroup.state.world import World


def operator_acted(world: World, here: At, event: OperatorActed) -> None:
    """Fold an operation: the groups, decisions and refusals that it names go on, or stay as is."""
    released: list[Group] = []
    if event.action in ("release", "discard"):
        released = unpark(world, event.target)
        for key, place in list(world.meta.given_up.items()):
            if place == event.target:
                del world.meta.given_up[key]
                group = world.groups.get(GroupID(key.partition(": ")[0]))
                if event.action == "release" and group is not None:
                    try_again(world, here, group)
                    released.append(group)
        for refusal in world.meta.refused.values():
            # A pod whose fault is still the same is parked once more.
            if refusal.parked == event.target or "/" not in event.target:
                refusal.parked = ""
    note(
        world,
        here,
        "OperatorActed",
        group=released[0].id if released else "",
        reason=event.action,
        message=say.acted(event.target, event.by, event.message),
    )
