"""What became of pods that were taken out of a group (`state.Departures`)."""

from podgroup.model.ids import PodUID
from podgroup.state.group import Group
from podgroup.state.pod import Pod


def disowned(group: Group, pod: Pod, *, gated: bool) -> None:
    """A pod is no longer ours, and our finalizer has to come off."""
    group.departures.disowned += ((PodUID(pod.view.uid), pod.view.name, gated),)


def strayed(group: Group) -> None:
    """A pod was taken out that may live on."""
    group.departures.strayed = True


def left(group: Group, left: bool) -> None:
    """Its only pod was taken out at its gate, or another one came."""
    group.departures.left = left


def released(group: Group) -> None:
    """Our finalizers are off."""
    group.departures.disowned = ()
