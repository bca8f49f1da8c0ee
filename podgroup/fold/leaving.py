"""Pods that leave: their group, our management, the watch, or the cluster.

Theory. A pod that may run stays in its group until it has ended or is gone: its usage is charged
there. A pod that a watch with a label selector no longer shows may be gone or without the label: it
is *hidden* then, and stays as it was until either is known.

Invariant: a pod that left is counted nowhere, and its row is written once more.
"""

from datetime import timedelta

from msgspec.structs import replace as replace_fields

from podgroup.fold import sentences as say
from podgroup.fold.common import LOST, end_expectation, index, mark, note
from podgroup.fold.group import departures, reporting
from podgroup.fold.lives import lead, retire, retry_workload
from podgroup.fold.podwaits import end_pod_wait
from podgroup.fold.sharing import left
from podgroup.fold.weighing import lighten
from podgroup.log.journal import At
from podgroup.model.ids import GroupID, PodUID
from podgroup.model.objects import PodView
from podgroup.model.topology import HOSTNAME
from podgroup.state.changes import EVERYTHING, of_leaving
from podgroup.state.facts import KEEP, unwell
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import OutOfSelector, Pod
from podgroup.state.termination import GRACE
from podgroup.state.world import World

QUIET = timedelta(minutes=10)
"""Time without a loss after which the loss of a pod's label counts as the first."""

FEW = 16
"""Live pods of a group up to which each end has the others looked at."""


def hide(world: World, here: At, group: Group, pod: Pod, view: PodView) -> None:
    """A pod that may run is hidden from the watch: it is kept as it was until it is found."""
    if view.resource_version != pod.view.resource_version:
        pod.view = replace_fields(pod.view, resource_version=view.resource_version)
    hiding = pod.hiding or OutOfSelector()
    peace = hiding.kept_at is not None and here.at - hiding.kept_at > QUIET
    kept = 0 if peace else hiding.kept
    pod.hiding = OutOfSelector(here.at, kept, hiding.kept_at)
    note(world, here, "PodHidden", group.id, view.uid, "Unmanaged", say.HIDDEN)
    end_expectation(world, group, pod, indexed=False)  # the effect would never be seen
    index(world, group, pod)
    if not kept:
        world.meta.timers.pop(keep_timer(group.id), None)  # the pod need not wait for the others
    mark(world, group.id)


def gone(world: World, here: At, group: Group, pod: Pod) -> None:
    """A hidden pod turned out to be gone."""
    flags = world.members[group.id].flags[pod.view.uid]
    pod.gone_at = here.at
    pod.fate = pod.fate or LOST
    note(world, here, "PodGone", group.id, pod.view.uid, pod.fate, say.GONE_BY_WRITE)
    end_expectation(world, group, pod, indexed=False)
    forget(world, here, group, pod, flags)
    mark(world, group.id)


def keep_timer(identity: GroupID) -> str:
    """Return the name of the timer after which labels of a group's pods are put back."""
    return f"{KEEP}/{identity}/"


def disown(world: World, here: At, group: Group, pod: Pod) -> None:
    """A pod exists and is no longer ours to manage: it lost the managed label."""
    uid = pod.view.uid
    if pod.held:
        departures.disowned(group, pod, gated=pod.gated)
    departures.left(group, group.single and pod.gated)
    departures.strayed(group)
    pod.gone_at = here.at
    pod.fate = pod.fate or LOST
    note(world, here, "PodLeft", group.id, uid, "Unmanaged", say.UNLABELLED)
    end_expectation(world, group, pod, indexed=False)
    forget(world, here, group, pod, world.members[group.id].flags[uid])
    mark(world, group.id)


def look_at_places(world: World, group: Group, view: PodView) -> None:
    """Have a group's places looked at where one of its pods changes on a node that is unwell."""
    node = view.node or view.node_selector.get(HOSTNAME, "")
    if node and group.quota.holding is not None and unwell(world, node):
        world.quotas.news[group.id] = None


def leave(world: World, here: At, group: Group, pod: Pod, why: str) -> None:
    """Take a pod that exists out of a group."""
    note(world, here, "PodLeft", group=group.id, pod=pod.view.uid, reason=why)
    end_expectation(world, group, pod)
    end_pod_wait(world, here, pod)
    departures.strayed(group)
    if pod.reported is not None:
        reporting.conditions(group, -1)
    uid = PodUID(pod.view.uid)
    world.members[group.id].drop(uid)
    del world.pods[uid]
    left(world, group, pod.view)
    # The pod's row must go too, or a restart finds a pod of a group that may have ended.
    pod.gone_at = here.at
    world.gone_pods[uid] = pod
    world.journal.pods.discard(uid)
    lead(world, group)
    mark(world, group.id)
    retire(world, here, group.id)


def one_ended(world: World, group: Group) -> None:
    """Have the remaining pods that must end looked at, if few of a group's pods may still run.

    The group's timer was set for the pod with the longest grace period, which may have ended now.
    """
    timers = world.meta.timers
    if timers and world.members[group.id].count(Flag.LIVE) <= FEW:
        timers.pop(f"{GRACE}/{group.id}/", None)


def forget(world: World, here: At, group: Group, pod: Pod, flags: int) -> None:
    """Forget a pod that is gone; `flags` are its flags before and with its last delta."""
    end_pod_wait(world, here, pod)
    uid = PodUID(pod.view.uid)
    world.members[group.id].drop(uid)
    if flags & Flag.LIVE:
        one_ended(world, group)
    if pod.reported is not None:
        reporting.conditions(group, -1)
    del world.pods[uid]
    left(world, group, pod.view)
    world.gone_pods[uid] = pod
    world.journal.pods.discard(uid)
    lighten(world, pod.view)
    led = lead(world, group)
    retry_workload(group)
    mark(world, group.id, EVERYTHING if led else of_leaving(world, group, flags))
    if world.nodes:
        look_at_places(world, group, pod.view)
