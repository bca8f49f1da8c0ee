"""The decisive part of a pod: fields that must be known soon, and the stage of its life.

Invariant: pure; equal digests mean that no field changed that admission, accounting or diagnosis
depends on (`Means.at_once`).
"""

from typing import Final, NamedTuple

from podgroup.log.events import DeltaRefused, PodApplied, PodDeleted
from podgroup.model.meaning import compiled, declared
from podgroup.model.names import POD_FINALIZER
from podgroup.model.objects import PodView

OfPod = PodApplied | PodDeleted | DeltaRefused


class Known(NamedTuple):
    """The state of a pod in the log: its decisive part, and the stage of its life."""

    decisive: int
    stage: int
    away: bool = False
    """The pod has left our selector, and may come back."""


_UNREADABLE: Final = Known(0, 0)


def uid_of(event: OfPod) -> str:
    """Return the uid of the pod."""
    return event.uid if isinstance(event, DeltaRefused) else event.pod.uid


def namespace_of(event: OfPod) -> str:
    """Return the namespace of the pod."""
    return event.namespace if isinstance(event, DeltaRefused) else event.pod.namespace


def known_of(event: OfPod) -> Known:
    """Return the state of a pod in the log after an event.

    The stage counts steps that happen once: the end, the request for deletion, the deletion.
    """
    if isinstance(event, DeltaRefused):
        return _UNREADABLE
    pod = event.pod
    stage = pod.ended + (pod.deleted_at is not None)
    if isinstance(event, PodApplied):
        return Known(_decisive(pod), stage)
    # A pod with a finalizer whose deletion was not requested still exists.
    away = pod.deleted_at is None and POD_FINALIZER in pod.finalizers
    return Known(0, stage if away else stage + 1, away)


_AT_ONCE: Final = {name: one.at_once for name, one in declared(PodView).items() if one.at_once}
_PARTS: Final = (f"pod.{n}" if part is True else f"{n}(pod.{n})" for n, part in _AT_ONCE.items())
_parts = compiled("pod", f"({', '.join(_PARTS)})", **_AT_ONCE)


def _decisive(pod: PodView) -> int:
    """Return a digest of the fields of a pod that must be known at once."""
    return hash(_parts(pod))
