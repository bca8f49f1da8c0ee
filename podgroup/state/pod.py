"""A pod: its latest view, its past, and what was decided about it.

Theory. Much of a pod's past cannot be read from its view later, such as whether it was gated first,
or when it failed; so the past is kept here, and stored as it is.

Invariant: at most one decision about a pod is in flight.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from podgroup.model.commands import ENDING
from podgroup.model.ids import GroupID
from podgroup.model.names import ADMISSION_GATE, POD_FINALIZER
from podgroup.model.objects import PodView


class Expectation(Struct, frozen=True, gc=False):
    """A decision whose effect was not observed yet: no second decision for the target meanwhile.

    `place` is where a pod goes that the decision starts: the values of its topology's levels.
    `grace_s` is the grace period that a pod is to end with, None for its own.
    `version` is the pod's version at the decision; "": not kept.
    `result_version` is set by an applied outcome: the expectation ends when the object is known at
    that version, or earlier when its effect is seen.
    """

    decision: str
    action: str
    as_of: int
    at: datetime
    result_version: str = ""
    place: tuple[str, ...] = ()
    grace_s: int | None = None
    version: str = ""

    @property
    def may_end(self) -> bool:
        """The decision may end its object, whose last version then is a later version."""
        return self.action in ENDING


class OutOfSelector(Struct, frozen=True, gc=False):
    """A pod that may run was hidden from the watch: without its label, or gone.

    `since` is None once the pod has been seen again. `kept` is how often its label was put back,
    each time soon after the last time, which was decided at `kept_at`.
    """

    since: datetime | None = None
    kept: int = 0
    kept_at: datetime | None = None


class Terminating(Struct, frozen=True, gc=False):
    """A pod was asked to stop: `since` the log's time of the first delta that shows it.

    The pod must have ended at `due_at`, by the log's own time. `heard_at`: when its kubelet last
    wrote its status since. `absurd`: its grace period is longer than is believed. `long`: longer
    than pods of a preempted group have.
    """

    since: datetime
    due_at: datetime
    heard_at: datetime | None = None
    absurd: bool = False
    long: bool = False


class PodWait(Struct, frozen=True, gc=False):
    """What an ungated pod waits for (`model.podwaits`), since message `seq` of the log."""

    reason: str
    subject: str
    message: str
    seq: int
    at: datetime


class Measured(Struct, frozen=True, gc=False):
    """What a pod really used: sum and largest of `samples` samples, per resource."""

    samples: int
    total: Mapping[str, int]
    peak: Mapping[str, int]
    from_at: datetime
    to_at: datetime

    def mean(self) -> dict[str, int]:
        """Return the mean of the samples per resource, to the nearest unit."""
        n = self.samples
        return {resource: (2 * total + n) // (2 * n) for resource, total in self.total.items()}


class Pod(Struct, gc=False):
    """A pod that exists: its latest view and its past.

    `role` is fixed when the pod is first seen, because ungating changes the shape that is hashed.
    `opened` tells that our gate was seen and is gone. `failed_at` is the earliest sign of failure
    (container end, phase change in the log, deletion), by which replacement is ordered.
    """

    view: PodView
    group: GroupID
    role: str
    seen_seq: int
    first_gated: bool
    gate_added: dict[str, datetime] = {}
    opened: bool = False
    deleted_while_gated: bool = False
    """The pod's deletion was requested while it was gated: it never gets a node."""
    ungated_at: datetime | None = None
    scheduled_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    failed_at: datetime | None = None
    gone_at: datetime | None = None
    fate: str = ""
    exit_reason: str = ""
    expect: Expectation | None = None
    reported: tuple[str, str] | None = None
    """(reason, message) of the pod's condition gatelog.io/admitted."""
    refused_version: str = ""
    """Version of the pod at which the API server rejected a decision; a newer one is awaited."""
    refused: tuple[str, str] | None = None
    """(action, answer) of a refused write, until the API server accepts a write of this pod."""
    rejections: int = 0
    """How often in a row the write in `refused` was rejected: the next try comes later."""
    ungate_decided: bool = False
    ungated_elsewhere: bool = False
    """The actuator found the gate gone: another client removed it."""
    """We decided to ungate the pod."""
    larger: bool = False
    """The pod requests more than its role, for which quota is given."""
    hiding: OutOfSelector | None = None
    """How the pod lost its label while it may run, if it ever did."""
    measured: Measured | None = None
    terminating: Terminating | None = None
    """Since when the pod is being deleted, by the log's own time (`state.termination`)."""
    waits: PodWait | None = None
    """What keeps the ungated pod from running."""

    @property
    def gated(self) -> bool:
        """The pod has our gate."""
        return ADMISSION_GATE in self.view.gates

    @property
    def held(self) -> bool:
        """The pod has our finalizer."""
        return POD_FINALIZER in self.view.finalizers

    @property
    def terminated(self) -> bool:
        """The pod has ended: Succeeded or Failed."""
        return self.view.ended

    @property
    def deleting(self) -> bool:
        """The pod's deletion was requested."""
        return self.view.deleted_at is not None

    @property
    def hidden(self) -> bool:
        """The pod is hidden from the watch, and may run."""
        return self.hiding is not None and self.hiding.since is not None

    @property
    def kept(self) -> int:
        """How often the label of a hidden pod was put back, 0 if the pod is not hidden."""
        hiding = self.hiding
        return hiding.kept if hiding is not None and hiding.since is not None else 0

    @property
    def free(self) -> bool:
        """No decision about the pod is in flight, and none was rejected at its present version."""
        return self.expect is None and self.refused_version != self.view.resource_version
