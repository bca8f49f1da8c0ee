"""A pod: the latest view of it, what its past was, and what was decided about it.

Theory. Much of a pod's past cannot be seen on it later, such as whether it was gated first, or
when it failed; so it is kept here, and stored as it is.

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
    """A decision made and not yet observed: no second one for the same target meanwhile.

    `place` is where a pod goes that it lets start: the values of the levels of its topology.
    `grace_s` is the grace period that a pod is to end with, None for its own.
    `version` is the pod's when it was decided; "": not kept.
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
        """It may be the end of the object, whose version then is a later one."""
        return self.action in ENDING


class OutOfSelector(Struct, frozen=True, gc=False):
    """A pod that may run was out of the watch's sight: without its label, or gone.

    `since` is None once it has been seen again. `kept` is how often its label was put back, each
    time soon after the last, which was decided at `kept_at`.
    """

    since: datetime | None = None
    kept: int = 0
    kept_at: datetime | None = None


class Terminating(Struct, frozen=True, gc=False):
    """A pod was asked to stop: `since` then, as the log saw it first.

    It must have ended at `due_at`, by the log's own time. `heard_at`: when its kubelet last wrote
    its status since. `absurd`: it was given longer than is believed of a grace period. `long`:
    longer than pods of a preempted group have.
    """

    since: datetime
    due_at: datetime
    heard_at: datetime | None = None
    absurd: bool = False
    long: bool = False


class PodWait(Struct, frozen=True, gc=False):
    """What a pod that was let go waits for (`model.podwaits`), since message `seq` of the log."""

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
    """A pod that exists: the latest view of it and what its past was.

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
    """Its deletion was asked for while it was gated: it never gets a node."""
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
    """(reason, message) that its condition says now."""
    refused_version: str = ""
    """Version of the pod at which the API server rejected a decision: wait for a newer one."""
    refused: tuple[str, str] | None = None
    """(action, answer) of a write that the API server refused, until it takes one of this pod."""
    rejections: int = 0
    """How often in a row the write in `refused` was rejected: the next try comes later."""
    ungate_decided: bool = False
    """We decided that it may start: it is past its gate by our leave."""
    larger: bool = False
    """It asks for more than its role, for which quota is given."""
    hiding: OutOfSelector | None = None
    """How it lost its label while it may run, if it ever did."""
    measured: Measured | None = None
    terminating: Terminating | None = None
    """Since when it is being deleted, by the log's own time (`state.termination`)."""
    waits: PodWait | None = None
    """What keeps it from running though it was let go."""

    @property
    def gated(self) -> bool:
        """Our gate is on it."""
        return ADMISSION_GATE in self.view.gates

    @property
    def held(self) -> bool:
        """Our finalizer is on it."""
        return POD_FINALIZER in self.view.finalizers

    @property
    def terminated(self) -> bool:
        """It has ended: Succeeded or Failed."""
        return self.view.ended

    @property
    def deleting(self) -> bool:
        """Someone asked for its deletion."""
        return self.view.deleted_at is not None

    @property
    def hidden(self) -> bool:
        """It is out of the watch's sight, and may run."""
        return self.hiding is not None and self.hiding.since is not None

    @property
    def kept(self) -> int:
        """How often it was put back into sight, 0 if it is in sight."""
        hiding = self.hiding
        return hiding.kept if hiding is not None and hiding.since is not None else 0

    @property
    def free(self) -> bool:
        """No decision about it is in flight, and none was rejected at this version of it."""
        return self.expect is None and self.refused_version != self.view.resource_version
