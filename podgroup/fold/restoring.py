"""Fold of a cluster that went back: etcd was restored from a backup, or it is another cluster.

Theory. The API server is the truth about pods; the log is the truth about decisions. From
`ClusterRestored` on versions begin again: what is listed is believed, whatever its version, and
what a complete list does not show is gone. Nothing is decided before every kind was listed.

A group whose pods and Workload are as the log has them keeps its life, its quota and what was
decided and not carried out yet. One that the cluster contradicts (a gate is back, an end or a
deletion never happened, a pod came back or never was) is *undone*: what the log knows of it is a
future that will not come. Its life ends and its pods begin another one, as they would for a
gatelog that sees them first, so an admission that its Workload tells of is taken over where pods
run under it, and all others are decided anew.

Invariant: once every kind was listed no group is undone, and none holds quota by a decision whose
effect the cluster has lost.
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
    """Every kind was listed: let what is undone begin anew."""
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
        claim(world, here, uid)  # its pods are back already, in a life that had to wait for it


def _give_up_workload(world: World, group: Group) -> None:
    """Set its Workload aside, for the life that it belongs to."""
    view = group.mirror.workload
    if view is not None:
        key = (view.namespace, view.name)
        world.workloads[key] = view
        world.journal.objects.add(("Workload", *key))
    mirror.lost(group, False)
    unlink(world, group)
