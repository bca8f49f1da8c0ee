"""Kueue's sentence on why a group waits for quota, with plain words before it.

Theory. Admission answers in Kueue's words, which tests compare with Kueue's own decisions. A
message for people says first what the group needs, what is free where, and how many groups give way
for it (`podgroup.model.wording`).

Invariant: the plain words follow from the arguments alone.
"""

import re
from collections.abc import Sequence

from podgroup.admission.wording import BYPASSED, PLAINLY
from podgroup.model.names import PENDING_NO_MATCHING_FLAVOR
from podgroup.model.shortage import Shortage
from podgroup.model.topology import NOTHING_ASKED, level_name
from podgroup.model.wording import NEVER, RAISED_BY, UNAVAILABLE, joined, kueues, short_of
from podgroup.state.facts import pods_of, role_of
from podgroup.state.group import Group
from podgroup.state.world import World

_POD_SET = re.compile(r"pod set (\S+):")
_UNAVAILABLE = re.compile(rf"resource (\S+) {UNAVAILABLE}")
_APART = re.compile(r"flavor \S+ wants nodes with \S+, flavor \S+ of the same pods \S+=[^,;\s]*")
_UNUSED = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")
_MOST = re.compile(
    r"insufficient quota for (\S+) in flavor (\S+), previously considered podsets requests "
    r"\((\S+)\) \+ current podset request \((\S+)\) > maximum capacity \((\S+)\)"
)
_NO_ROOM = re.compile(
    r"pod set (\S+): .*?topology \"[^\"]*\" (?:allows to fit only (\d+) out of (\d+)|"
    r"doesn't allow to fit any of (\d+)) "
)
_NO_NODES = "no topology domains at level"
_NO_NODE_HAS = (
    "no node that is ready and not cordoned has the labels of its flavors and their topologies"
)
_NO_LEVEL = "does not contain the requested level"
_NO_TOPOLOGY = "does not support TopologyAwareScheduling"
_ADDED_BY = "administrators of ClusterQueues may add one"
_APART_BY = "administrators of ResourceFlavors may give both the same nodes"
_AN_EQUAL_ONE = "one that asks for the same did not fit a moment ago"


def plainly(
    world: World,
    group: Group,
    why: tuple[str, str],
    shortages: Sequence[Shortage] = (),
    victims: int = 0,
) -> tuple[str, str]:
    """Return reason and message, plain words first; `victims`: how many groups give way."""
    reason, message = why[0], kueues(why[1])
    said = PLAINLY.get(message, "")
    if not said and reason == PENDING_NO_MATCHING_FLAVOR:
        said = _unsuitable(world, group, message)
    if not said:
        said = "; ".join(short_of(reason, shortages))
    if not said:
        said = "; ".join(_no_room(world, group, message))
    if not said and message == BYPASSED:
        said = _AN_EQUAL_ONE
    if victims:
        give = "1 group gives" if victims == 1 else f"{victims} groups give"
        said = f"{said}; {give} way for it and must end first" if said else ""
    return reason, joined(said, message)


def kueue_plainly(message: str) -> str:
    """Return a message of Kueue's own, with plain words first if it is about quota."""
    said = [
        f"short of {more} {what} (flavor {flavor})"
        for what, flavor, more in _UNUSED.findall(message)
    ]
    never = "" if said else NEVER
    for what, flavor, before, asked, most in _MOST.findall(message):
        also = "" if before == "0" else f" besides the {before} of its other pods"
        said.append(
            f"needs {asked} {what}{also}; the queue can have {most} at most (flavor {flavor}): "
            f"its quota, which {RAISED_BY}"
        )
    plain = "; ".join(dict.fromkeys(said))
    return joined(never + plain if plain else "", message)


def _no_room(world: World, group: Group, message: str) -> list[str]:
    """Say how many of the pods have places in the topology that they request."""
    said = []
    if _NO_NODES in message:
        said.append(_NO_NODE_HAS)
    for name, some, out_of, none in _NO_ROOM.findall(message):
        role = group.roles.get(role_of(group, name))
        asked = role.topology if role is not None else NOTHING_ASKED
        room, number = int(some or 0), int(out_of or none)
        if asked.slices:
            layer = asked.slices[0]
            what = f"{number} times {layer.size} pods, each in one {level_name(layer.topology)}"
            said.append(f"needs {what}; there is room for {room}")
            continue
        pods = pods_of(world, group, name, number)
        if asked.required:
            level = level_name(asked.required)
            said.append(f"needs {pods} in one {level}; the best {level} has room for {room}")
        else:
            said.append(f"needs {pods}; all nodes of its flavors together have room for {room}")
    return said


def _unsuitable(world: World, group: Group, message: str) -> str:
    """Name the pods that no flavor suits, or the resource that has no quota."""
    if _NO_LEVEL in message:
        return f"{NEVER}no flavor's topology has the level that its pods ask for"
    if _NO_TOPOLOGY in message:
        return f"{NEVER}its pods ask for a topology, and no flavor of its ClusterQueue has one"
    apart = "; ".join(dict.fromkeys(_APART.findall(message)))
    if apart:
        return f"{NEVER}{apart}; {_APART_BY}"
    absent = ", ".join(dict.fromkeys(_UNAVAILABLE.findall(message)))
    if absent:
        return f"{NEVER}its ClusterQueue has no quota for {absent}; {_ADDED_BY}"
    whose = [one for name in _POD_SET.findall(message) if (one := pods_of(world, group, name))]
    pods = " nor its ".join(whose) or "pods"
    return f"{NEVER}no flavor of its ClusterQueue suits its {pods}; {_ADDED_BY}"
