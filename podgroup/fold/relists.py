"""Fold of relist frames: what a complete list did not contain is gone.

Theory. A watch that lost its place lists everything again. The frame in the log says when the list
began and when it was complete, so the fold can conclude a deletion that nobody saw (client-go calls
it DeletedFinalStateUnknown). Only the newest frame of a kind counts; one that never completes
concludes nothing. Until every kind has had one complete frame in this epoch nothing is decided,
because half a view would look like half of the pods being gone.

Invariant: after `RelistCompleted` the state holds exactly the objects the frame delivered.
"""

from podgroup.events import RelistCompleted, RelistStarted
from podgroup.fold.common import At, note, touch
from podgroup.fold.pods import pod_deleted
from podgroup.fold.queues import object_deleted
from podgroup.fold.workloads import workload_deleted
from podgroup.objects import WATCHED_KINDS, WorkloadView
from podgroup.state import Frame, World


def synced(world: World) -> bool:
    """Tell whether every kind was listed completely in this epoch."""
    return len(world.meta.synced) >= len(WATCHED_KINDS)


def relist_started(world: World, here: At, event: RelistStarted) -> None:
    """Open a frame; an unfinished one of the same kind is abandoned."""
    world.meta.frames[event.kind] = Frame(event.relist, here.position)
    note(world, here, "RelistStarted", reason=event.kind, message=event.reason)


def relist_completed(world: World, here: At, event: RelistCompleted) -> None:
    """Close a frame and infer the deletions it implies."""
    frame = world.meta.frames.get(event.kind)
    if frame is None or frame.relist != event.relist:
        return
    del world.meta.frames[event.kind]
    missing = _infer(world, here, event.kind, frame.seen)
    # Also when it is lower than what was seen: etcd was restored, and the watch goes on from here.
    world.meta.versions[event.kind] = event.resource_version
    if event.installed:
        world.meta.missing.discard(event.kind)
    else:
        world.meta.missing.add(event.kind)
    note(
        world,
        here,
        "RelistCompleted",
        reason=event.kind,
        message=f"{event.count} listed, {missing} gone unseen"
        if event.installed
        else "kind is not installed",
    )
    was = synced(world)
    world.meta.synced.add(event.kind)
    if not was and synced(world):
        for identity in world.groups:
            touch(world, identity)
        for queue in world.cluster_queues:
            world.quotas.dirty[queue] = None


def _infer(world: World, here: At, kind: str, seen: set[str]) -> int:
    if kind == "Pod":
        pods = [pod.view for uid, pod in world.pods.items() if uid not in seen]
        for view in pods:
            pod_deleted(world, here, view, inferred=True)
        return len(pods)
    if kind == "Workload":
        views: list[WorkloadView] = [v for v in world.workloads.values() if v.uid not in seen]
        views += [
            g.workload
            for g in world.groups.values()
            if g.workload is not None and g.workload.uid not in seen
        ]
        for workload in views:
            workload_deleted(world, here, workload)
        return len(views)
    stores = {
        "LocalQueue": world.local_queues,
        "ClusterQueue": world.cluster_queues,
        "ResourceFlavor": world.flavors,
        "WorkloadPriorityClass": world.workload_classes,
        "PriorityClass": world.classes,
        "Namespace": world.namespaces,
    }
    gone = [view for view in stores[kind].values() if view.uid not in seen]  # type: ignore[attr-defined] # six value types
    for view in gone:
        object_deleted(
            world, here, kind, view.namespace, view.name, view.uid, view.resource_version
        )
    return len(gone)
