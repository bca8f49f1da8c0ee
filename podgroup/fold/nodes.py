"""Fold of nodes and Topologies: where places are, and since when each is as it is.

Theory. Nodes matter for places alone, so they are known while a ResourceFlavor names a Topology,
and forgotten with the last such flavor; ingest watches by the same rule. A node does not state what
pods take of it: ingest sums that up, in an event of its own (`NodesTaken`), so either may change
without the other.

Invariant: each interval in which a node or Topology did not change is one row, open while it lasts.
"""

from typing import TypeVar

from msgspec.structs import replace

from podgroup.log.events import NodesTaken
from podgroup.log.journal import At
from podgroup.model.objects import NodeView, Since, TopologyView, kind_of
from podgroup.state.facts import asks_for_nodes
from podgroup.state.world import World

V = TypeVar("V", bound=NodeView | TopologyView)


def carried(world: World, here: At, known: NodeView | TopologyView | None, view: V) -> V:
    """Return a view with the fields that the wire lacks; have rows written if it changed."""
    if known is not None and known.uid == view.uid:
        view = replace(view, since=known.since)
        if isinstance(known, NodeView):
            view = replace(view, taken=known.taken)
        if replace(view, resource_version=known.resource_version) == known:
            return view
    if known is not None:
        written(world, known, here)
    view = replace(view, since=Since(seq=here.position, at=here.at))
    written(world, view)
    return view


def written(world: World, view: NodeView | TopologyView, until: At | None = None) -> None:
    """Have the row of a node or Topology written, which is so or was so `until` then."""
    world.journal.places[kind_of(view), view.name, view.since.seq] = (view, until)


def nodes_taken(world: World, event: NodesTaken) -> None:
    """Fold what pods that others placed take of nodes."""
    for name, taken in event.taken.items():
        known = world.nodes.get(name)
        if known is None or known.taken == taken:
            continue
        world.nodes[name] = replace(known, taken=taken)
        written(world, world.nodes[name])
        _changed(world, name)


def _changed(world: World, name: str) -> None:
    world.journal.objects.add(("Node", "", name))
    world.quotas.objects["Node", "", name] = None


def forget_unasked(world: World, here: At) -> None:
    """Forget all nodes once no flavor names a Topology."""
    if asks_for_nodes(world) or not (world.nodes or "Node" in world.meta.synced):
        return
    for name, view in world.nodes.items():
        written(world, view, here)
        _changed(world, name)
    world.nodes.clear()
    world.meta.synced.discard("Node")
    world.meta.frames.pop("Node", None)
