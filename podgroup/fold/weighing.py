"""Fold of the weight of pods: the memory of a namespace's larger pods, and pods without room.

Theory. Most pods weigh nothing (`podgroup.model.weight`). Others count against their namespace
(`Policy.namespace_memory_mib`); a pod for which there is no room is kept without the fields that
users can make large, and its group waits (reason NamespaceTooLarge). Once others have gone, the
first pods without room are reported on anew: that writes to the pod, so the watch shows it again.

Invariant: the weights of a namespace never exceed its bound.
"""

from hashlib import blake2b
from typing import Final

import msgspec
from msgspec.structs import replace

from podgroup.fold import sentences as say
from podgroup.fold.common import index, mark
from podgroup.fold.group import reporting
from podgroup.model.ids import PodUID
from podgroup.model.keys import is_ours
from podgroup.model.objects import PodView
from podgroup.model.weight import SHAPE, own_weight, shape_weight
from podgroup.state.pod import Pod
from podgroup.state.weights import Part, Weights
from podgroup.state.world import World

MIB: Final = 1024 * 1024
AGAIN: Final = 10
"""Pods without room that are reported on anew when another pod has gone."""
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def within(world: World, view: PodView) -> PodView:
    """Return a pod's view as far as its namespace has room for it, and count its weight."""
    table = world.weights.get(view.namespace)
    heavy = own_weight(view) or shape_weight(view)
    if table is None:
        if not heavy:
            return view
        table = world.weights[view.namespace] = Weights()
    _take_out(table, view.uid)
    if heavy:
        view = _put(world, table, view)
    if not table.own and not table.crowded:
        del world.weights[view.namespace]
    return view


def recalled(world: World, pod: Pod) -> None:
    """Count a pod that was read from a database."""
    view = pod.view
    if view.crowded:
        world.weights.setdefault(view.namespace, Weights()).crowded[view.uid] = None
    elif own_weight(view) or shape_weight(view):
        pod.view = _put(world, world.weights.setdefault(view.namespace, Weights()), view)


def lighten(world: World, view: PodView) -> None:
    """Take out a pod that is gone, and look at pods without room again."""
    table = world.weights.get(view.namespace)
    if table is None:
        return
    freed = _take_out(table, view.uid)
    for uid in list(table.crowded)[:AGAIN] if freed else ():
        pod = world.pods.get(PodUID(uid))
        if pod is None:
            del table.crowded[uid]
            continue
        table.crowded[uid] = table.crowded.pop(uid)  # next time other pods come first
        _report_anew(world, pod)
    if not table.own and not table.crowded:
        del world.weights[view.namespace]


def _take_out(table: Weights, uid: str) -> bool:
    """Take a pod out of the table; tell whether it weighed anything."""
    table.crowded.pop(uid, None)
    known = table.own.pop(uid, None)
    if known is None:
        return False
    size, digest = known
    table.total -= size
    part = table.parts.get(digest)
    if part is None:
        return True
    part.pods -= 1
    if not part.pods:
        table.total -= part.size
        del table.parts[digest]
    return True


def _put(world: World, table: Weights, view: PodView) -> PodView:
    """Count a pod that is in no table, or cut its view where there is no room."""
    own, common, digest, part = own_weight(view), shape_weight(view), b"", None
    shape = {name: getattr(view, name) for name in SHAPE} if common else {}
    if common:
        digest = blake2b(_encode(shape), digest_size=16).digest()
        part = table.parts.get(digest)
    more = own if part is not None else own + common
    most = world.policy.namespace_memory_mib
    if most and table.total + more > most * MIB:
        table.crowded[view.uid] = None
        return _cut(view, most)
    if common and part is None:
        part = table.parts[digest] = Part(0, common, shape)
    if part is not None:
        part.pods += 1
    table.total += more
    table.own[view.uid] = (own, digest)
    return replace(view, **part.values) if part is not None else view


def _cut(view: PodView, most: int) -> PodView:
    ours = {key: text for key, text in view.labels.items() if is_ours(key)}
    return replace(
        view,
        labels=ours,
        owners=view.owners[:1],
        conditions=view.conditions[:16],
        ends=view.ends[:16],
        waiting=view.waiting[:16],
        tolerations=(),
        node_terms=(),
        node_selector={},
        sets=(),
        resource_claims=(),
        crowded=say.namespace_full(view.namespace, most),
    )


def _report_anew(world: World, pod: Pod) -> None:
    group = world.groups[pod.group]
    if pod.reported is not None:
        pod.reported = None
        reporting.conditions(group, -1)
        index(world, group, pod)
    reporting.forgotten(group)
    mark(world, group.id)
