"""Fold of relist frames: an object that a complete list lacks is gone.

Theory. A watch that lost its place lists everything again. The frame in the log says when the list
began and when it was complete, so the fold can infer a deletion that no watch saw (client-go
calls it DeletedFinalStateUnknown). Only the newest frame of a kind counts; from a frame that never
completes nothing follows. Decisions begin when every kind has had one complete frame in this epoch,
because half a list would look like half of the pods being gone.

A list with a label selector does not show a pod that runs and has lost the label. A pod that may
run and is not in the list is therefore hidden, and not gone (`fold.leaving`).

Invariant: after `RelistCompleted` the state holds the objects the frame delivered, and hidden pods.
"""

from collections.abc import Collection

from podgroup.fold import sentences as say
from podgroup.fold.claims import object_deleted
from podgroup.fold.common import end_expectation, mark, note, see_version
from podgroup.fold.pods import pod_deleted
from podgroup.fold.queues import places_known
from podgroup.fold.restoring import settle
from podgroup.fold.workloads import unlink, workload_deleted
from podgroup.log.events import ObjectDeleted, RelistCompleted, RelistStarted, WatchProgressed
from podgroup.log.journal import At
from podgroup.model.ids import newer
from podgroup.model.objects import FIRST_KINDS, Kind, WorkloadView
from podgroup.state.facts import asks_for_nodes
from podgroup.state.meta import Frame, Meta
from podgroup.state.pod import Expectation
from podgroup.state.world import World


def synced(world: World) -> bool:
    """Tell whether decisions may be made in this epoch.

    Every needed kind was listed completely; the log says which kinds are needed, whatever this
    release watches.
    """
    meta = world.meta
    return not meta.unsettled and meta.synced.issuperset(_needed(meta))  # asked for each message


def unlisted(world: World) -> frozenset[str]:
    """Return the kinds that have to be listed before anything is decided, and were not yet."""
    return frozenset(_needed(world.meta)).difference(world.meta.synced)


def _needed(meta: Meta) -> Collection[str]:
    return FIRST_KINDS if meta.settings is None else meta.settings.kinds


def relist_started(world: World, here: At, event: RelistStarted) -> None:
    """Open a frame; an unfinished frame of the same kind is abandoned."""
    meta = world.meta
    if event.kind == "Node" and not asks_for_nodes(world):
        return
    meta.frames[event.kind] = Frame(event.relist, here.position)
    if event.by_settings and meta.settings is None and meta.decided_in != meta.epoch:
        meta.unsettled = True
    note(world, here, "RelistStarted", reason=event.kind, message=event.reason)


def relist_completed(world: World, here: At, event: RelistCompleted) -> None:
    """Close a frame and infer the deletions it implies."""
    frame = world.meta.frames.get(event.kind)
    if frame is None or frame.relist != event.relist:
        return
    del world.meta.frames[event.kind]
    if event.kind == "Workload" and not event.installed:
        _unserved(world)
    missing = _infer(world, here, event.kind, frame.seen, event.filtered)
    _settle_written(world, event.kind, event.resource_version)
    # Also a lower version than before: etcd was restored, and the watch goes on from here.
    world.meta.versions[event.kind] = event.resource_version
    world.meta.rewound.discard(event.kind)
    if event.installed:
        if event.kind == "Workload" and event.kind in world.meta.missing:
            # Groups that became complete meanwhile get their Workloads now.
            for identity in sorted(world.groups):
                mark(world, identity)
        world.meta.missing.discard(event.kind)
    else:
        world.meta.missing.add(event.kind)
    note(
        world,
        here,
        "RelistCompleted",
        reason=event.kind,
        message=say.listed(event.count, missing) if event.installed else say.NOT_INSTALLED,
    )
    was, listed = synced(world), event.kind in world.meta.synced
    world.meta.synced.add(event.kind)
    if event.kind == "Node" and not listed:
        places_known(world)
    if not was and synced(world):
        settle(world, here)
        for identity in sorted(world.groups):
            mark(world, identity)
        world.quotas.recall()


def _unserved(world: World) -> None:
    """Forget the Workloads of running groups when the kind is not served (any more).

    Nothing is stopped: no user deleted these Workloads.
    """
    for group in world.groups.values():
        if group.mirror.workload is None or group.mirror.lost or group.ending.finish is not None:
            continue
        unlink(world, group)


def _settle_written(world: World, kind: str, version: str) -> None:
    """End the expectations of writes that this list contains, seen or not.

    An object written and deleted while no watch was there never shows the version of the write.
    Where versions went back (etcd was restored), the writes after the backup have not happened.
    """
    if kind not in ("Pod", "Workload"):
        return
    restored = kind in world.meta.rewound or newer(world.meta.versions.get(kind, ""), version)

    def over(expectation: Expectation | None) -> bool:
        if expectation is None or not expectation.result_version:
            return False
        # A removed finalizer may have been the end of the object, which has a later version.
        return restored or (
            not expectation.may_end and not newer(expectation.result_version, version)
        )

    if kind == "Workload":
        for group in sorted(world.groups.values(), key=lambda g: g.id):
            if over(group.mirror.expect):
                end_expectation(world, group, None)
        return
    for pod in list(world.pods.values()):
        if over(pod.expect):
            end_expectation(world, world.groups[pod.group], pod)


def _infer(world: World, here: At, kind: Kind, seen: set[str], filtered: bool) -> int:
    undone = world.meta.undone if kind in world.meta.rewound else None
    if kind == "Pod":
        pods = [world.pods[uid].view for uid in sorted(world.pods) if uid not in seen]
        for view in pods:
            pod = world.pods[view.uid]
            unseen = filtered
            if undone is not None and not pod.hidden:
                undone.add(pod.group)
                # A pod that never lost its label in the log had the label in the backup too.
                unseen = filtered and pod.hiding is not None
            pod_deleted(world, here, view, inferred=True, filtered=unseen)
        return len(pods)
    if kind == "Workload":
        views: list[WorkloadView] = [v for v in world.workloads.values() if v.uid not in seen]
        views += [
            g.mirror.workload
            for g in world.groups.values()
            if g.mirror.workload is not None and g.mirror.workload.uid not in seen
        ]
        for workload in views:
            identity = world.by_workload.get((workload.namespace, workload.name))
            group = world.groups.get(identity) if identity is not None else None
            if undone is not None and group is not None and group.mirror.workload is workload:
                # The restored cluster never had the Workload: no user deleted it.
                undone.add(group.id)
                unlink(world, group)
            else:
                workload_deleted(world, here, workload)
        return len(views)
    gone = [known for known in world.objects_of(kind).values() if known.uid not in seen]
    for known in gone:
        event = ObjectDeleted(
            kind=kind,
            namespace=known.namespace,
            name=known.name,
            uid=known.uid,
            resource_version=known.resource_version,
        )
        object_deleted(world, here, event)
    return len(gone)


def watch_progressed(world: World, event: WatchProgressed) -> None:
    """Remember how far a watch has come, even without an event of the kind."""
    see_version(world, event.kind, event.resource_version)
