"""What became of pods that were taken out of a group (`state.Departures`)."""

from podgroup.model.ids import PodUID
from podgroup.state.group import Group
from podgroup.state.pod import Pod


def disowned(group: Group, pod: Pod, *, gated: bool) -> None:
    """A pod is no longer ours, and our finalizer has to come off it."""
    group.departures.disowned += ((PodUID(pod.view.uid), pod.view.name, gated),)


def strayed(group: Group) -> None:
    """A pod was taken out of the group, and may live on."""
    group.departures.strayed = True


def left(group: Group, left: bool) -> None:
    """The group's only pod was taken out while gated, or (False) a pod came."""
    group.departures.left = left


def released(group: Group) -> None:
    """Our finalizers are off all disowned pods."""
    group.departures.disowned = ()
