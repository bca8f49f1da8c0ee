"""Fold of the waits of ungated pods: an interval for each reason, one after the other.

Invariant: no decision depends on it; at most one interval of a pod is open, of which the message
alone changes.
"""

from msgspec.structs import replace

from podgroup.log.journal import At, PodWaitRow
from podgroup.model.objects import PodView
from podgroup.model.podwaits import pod_reason
from podgroup.state.group import Group
from podgroup.state.pod import Pod, PodWait
from podgroup.state.world import World


def pod_waits(world: World, here: At, group: Group, pod: Pod, before: PodView | None) -> None:
    """Write down what a pod waits for, if that changed."""
    found, known = pod_reason(pod.view), pod.waits
    if found is None and known is None:
        return
    if found is not None and known is not None and found[:2] == (known.reason, known.subject):
        # Without a message the message of the last attempt stays.
        if found.message and found.message != known.message:
            pod.waits = replace(known, message=found.message)
            _write(world, pod, pod.waits)
        return
    end_pod_wait(world, here, pod)
    if found is not None:
        pod.waits = PodWait(*found, here.position, here.at)
        _write(world, pod, pod.waits)


def end_pod_wait(world: World, here: At, pod: Pod) -> None:
    """End a pod's wait, if it has one."""
    if pod.waits is not None:
        _write(world, pod, pod.waits, here)
        pod.waits = None


def _write(world: World, pod: Pod, waits: PodWait, until: At | None = None) -> None:
    world.journal.pod_waits[pod.view.uid, waits.seq] = PodWaitRow(
        pod=pod.view.uid,
        from_seq=waits.seq,
        reason=waits.reason,
        subject=waits.subject,
        message=waits.message,
        from_at=waits.at,
        to_at=None if until is None else max(waits.at, until.at),
        to_seq=None if until is None else until.position,
    )
