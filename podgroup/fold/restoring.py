"""Fold of a cluster that went back: etcd was restored from a backup, or it is another cluster.

Theory. The API server is the truth about pods; the log is the truth about decisions. From
`ClusterRestored` on versions begin again: listed objects are believed, whatever their version, and
objects that a complete list lacks are gone. Nothing is decided before every kind was listed.

A group whose pods and Workload are as the log has them keeps its life, its quota and its decisions
in flight. A group that the cluster contradicts (a gate is back, an end or a deletion never
happened, a pod came back or never was) is *undone*: the log knows a future of it that will not
come. Its life ends and its pods begin another life, as for a gatelog that sees them first: an
admission in its Workload's status is taken over where pods run under it, and everything else is
decided anew.

Invariant: once every kind was listed no group is undone, and no group holds quota by a decision
whose effect the cluster has lost.
"""

from podgroup.fold import sentences as say
from podgroup.fold.common import index, note
from podgroup.fold.group import departures, mirror
from podgroup.fold.lives import retire
from podgroup.fold.pods import renew
from podgroup.fold.reservations import release
from podgroup.fold.workloads import claim, disbelieve, unlink
from podgroup.log.events import ClusterRestored
from podgroup.log.journal import At
from podgroup.model.ids import GroupID
from podgroup.state.facts import KUEUE
from podgroup.state.group import Group
from podgroup.state.world import World

RESTORED = "ClusterRestored"


def cluster_restored(world: World, here: At, event: ClusterRestored) -> None:
    """Begin another incarnation: forget which versions were seen, and have everything listed."""
    meta = world.meta
    meta.incarnation = event.incarnation
    meta.rewound = {*meta.versions, *meta.synced}
    meta.versions.clear()
    meta.synced.clear()
    meta.frames.clear()
    meta.restored_seq, meta.restored_at = here.position, here.at
    note(world, here, RESTORED, reason=event.incarnation, message=event.reason)


def settle(world: World, here: At) -> None:
    """Begin undone groups anew, since every kind was listed."""
    undone, world.meta.undone = sorted(world.meta.undone), set()
    for identity in undone:
        group = world.groups.get(GroupID(identity))
        if group is not None:
            _begin_anew(world, here, group)
    if world.mode != KUEUE:
        disbelieve(world, here, since=world.meta.restored_seq)


def _begin_anew(world: World, here: At, group: Group) -> None:
    members = world.members[group.id]
    uids = list(members.flags)
    hidden = {uid: world.pods[uid].hiding for uid in uids if world.pods[uid].hidden}
    key = (group.namespace, group.mirror.name)
    _give_up_workload(world, group)
    release(world, here, group, RESTORED)
    departures.released(group)
    renew(world, here, group, say.RESTORED)
    retire(world, here, group.id)
    for uid in uids:
        if uid in hidden:
            pod = world.pods[uid]
            pod.hiding = hidden[uid]
            index(world, world.groups[pod.group], pod)
        claim(world, here, uid)
    heir = world.by_workload.get(key)
    for uid in list(world.members[heir].flags) if heir in world.members else ():
        claim(world, here, uid)  # its pods are back already, in a life that waited for the name


def _give_up_workload(world: World, group: Group) -> None:
    """Set a group's Workload aside, for the life to which it belongs."""
    view = group.mirror.workload
    if view is not None:
        key = (view.namespace, view.name)
        world.workloads[key] = view
        world.journal.objects.add(("Workload", *key))
    mirror.lost(group, False)
    unlink(world, group)
