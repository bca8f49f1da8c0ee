"""Rows of the read model as people are shown them.

Invariant: fields are named as the columns they come from; times are aware and in UTC.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from podgroup.model.shortage import COHORT, NOMINAL

if TYPE_CHECKING:
    from podgroup.model.objects import QueueObject
    from podgroup.state.group import Role
    from podgroup.state.meta import Meta


def pods_there(there: int, declared: int, seen: int) -> str:
    """Return pods that run or have succeeded, of those declared, or else of those seen."""
    return f"{there}/{declared or seen}"


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    """One life of a group, as in table `groups`."""

    id: str
    namespace: str
    name: str
    kind: str
    queue: str
    cluster_queue: str
    priority: int
    priority_class: str
    total_count: int
    state: str
    reason: str
    message: str
    workload_name: str
    pods_seen: int
    pods_gated: int
    pods_ungated: int
    pods_running: int
    pods_succeeded: int
    pods_failed: int
    pods_excess: int
    pods_replaced: int
    wait_reason: str
    wait_message: str
    wait_since: datetime | None
    parked: str
    created_at: datetime
    complete_at: datetime | None
    queued_at: datetime | None
    admitted_at: datetime | None
    finished_at: datetime | None
    gone_at: datetime | None
    as_of_seq: int
    ended: str = ""
    """How it ended: a word of `projector.schema.ended`; "" while it has not."""

    @property
    def standing(self) -> str:
        """Its state, or how it ended: what lists show."""
        return self.ended or self.state

    @property
    def title(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def pods(self) -> str:
        """How many of its pods are there."""
        there = self.pods_running + self.pods_succeeded
        return pods_there(there, self.total_count, self.pods_seen)

    @property
    def without_workload(self) -> bool:
        """Whether it is a single pod that does without a Workload."""
        return self.complete_at is not None and not self.workload_name


class PendingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group that is not admitted, as in view `v_why_pending`."""

    namespace: str
    name: str
    kind: str
    state: str
    stage: str
    queue: str
    cluster_queue: str
    position: int | None
    """From 1; None: the group does not wait for quota."""
    priority: int
    reason: str
    message: str
    since: datetime | None
    id: str = ""
    """Of the group, "" where it is not asked for."""


class ExpectedRow(msgspec.Struct, frozen=True):
    """When a group is expected to start, as in view `v_expected_starts`."""

    expected_at: datetime | None
    earliest_at: datetime | None
    latest_at: datetime | None
    never: str
    position: int | None
    as_of: datetime
    unknown: str = ""
    """Why there is no estimate; nothing of the kind is in the view."""


class MadeRow(msgspec.Struct, frozen=True):
    """The latest forecast: when it was made, and of how many ends it was drawn (`runs`).

    Before the first: since when forecasts are made, and None.
    """

    at: datetime
    runs: int | None


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A ClusterQueue or LocalQueue, and how many groups wait in it and hold its quota."""

    kind: str
    namespace: str
    name: str
    pending: int
    admitted: int
    oldest: datetime | None
    """Since when the longest waiting group has queued."""
    nominal: dict[str, dict[str, int]] = {}
    """Its own quota, by flavor and resource."""
    drained_at: datetime | None = None
    """When the last waiting group starts, as far as estimated; None: not all are."""
    held: dict[str, dict[str, int]] = {}
    """Quota of a ClusterQueue that is held, by flavor and resource."""
    unadmitted: dict[str, dict[str, int]] = {}
    """Amounts of pods that run in the queue without an admission, in the same way."""
    wait_half_s: float | None = None
    """Seconds that half of the groups that waited for a ClusterQueue in the last 7 days waited at
    most, current waits included; None: none waited, or it was not queried.
    """
    wait_most_s: float | None = None
    """The same for 9 in 10."""


class WaitRow(msgspec.Struct, frozen=True):
    """A wait that is over or goes on (`to_at` None)."""

    reason: str
    message: str
    from_at: datetime
    to_at: datetime | None


class HolderRow(msgspec.Struct, frozen=True):
    """A group that holds quota of a ClusterQueue; amounts by flavor and resource.

    One that runs without having been admitted holds some of no flavor, since `admitted_at`.
    """

    namespace: str
    name: str
    state: str
    priority: int
    admitted_at: datetime
    resources: dict[str, dict[str, int]]
    beyond: str = ""
    """The group's message where it takes more than it was given; "" otherwise."""
    ending_at: datetime | None = None
    """By when the first of its pods that are being deleted must end."""


class UnadmittedRow(msgspec.Struct, frozen=True):
    """A pod that runs without having been admitted, and its group; amounts by resource."""

    namespace: str
    name: str
    state: str
    priority: int
    since: datetime
    resources: dict[str, int]


class ShortRow(msgspec.Struct, frozen=True):
    """A shortage of a group, as in table `shortages`."""

    cluster_queue: str
    kind: str
    name: str
    flavor: str
    resource: str
    requested: int
    available: int
    limited_by: str
    without_limit: int
    lender: str
    ever: bool
    from_at: datetime
    room: int | None = None
    """The free amount where it is short, at the moment of the query; None: not known."""

    @property
    def room_known(self) -> bool:
        """Whether `room` is known, or the limit is another than quota."""
        return self.room is not None or self.limited_by not in (COHORT, NOMINAL)

    @property
    def free(self) -> int:
        """The amount that it could have at the moment, or at its last try if `room` is unknown."""
        return self.available if self.ever or self.room is None else max(0, self.room)


class ShortageRow(ShortRow, frozen=True, kw_only=True):
    """A shortage with the name of its group."""

    group_id: str


class PoolRow(msgspec.Struct, frozen=True):
    """A ClusterQueue or Cohort of the tree that a group waits in, and its state now."""

    kind: str
    name: str
    flavor: str
    resource: str
    nominal: int
    quota: int
    reserved: int
    borrowed: int
    spare: int
    unadmitted: int


class BorrowerRow(msgspec.Struct, frozen=True):
    """A group that holds quota of a ClusterQueue that borrows; amounts by flavor and resource."""

    cluster_queue: str
    namespace: str
    name: str
    priority: int
    resources: dict[str, dict[str, int]]


class CheckpointRow(msgspec.Struct, frozen=True):
    """Where a projector is. `folded` is its private record of the log: ask `meta`."""

    seq: int
    base: int
    epoch: int
    mode: str
    at: datetime | None
    written_at: datetime
    published: int
    folded: bytes

    @property
    def stream_seq(self) -> int:
        """Sequence in the stream EVENTS up to which it has folded."""
        return self.seq - self.base

    @property
    def meta(self) -> "Meta":
        """The projector's state about the whole log: listed kinds, settings."""
        from projector.writing.packing import unpack_meta

        return unpack_meta(self.folded)


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group in a list: its state, its admissions and how many decisions it took."""

    id: str
    namespace: str
    name: str
    kind: str
    state: str
    reason: str
    total_count: int
    pods_seen: int
    pods_excess: int
    pods_replaced: int
    created_at: datetime
    finished_at: datetime | None
    admissions: int
    first_admitted_at: datetime | None
    decisions: int

    @property
    def waited_s(self) -> float | None:
        """Seconds from when it was first seen to its first admission; None: there was none."""
        if self.first_admitted_at is None:
            return None
        return (self.first_admitted_at - self.created_at).total_seconds()


class ChangeRow(msgspec.Struct, frozen=True):
    """A group that entered a state; reason and message are those of its state by now."""

    seq: int
    ord: int
    at: datetime
    namespace: str
    name: str
    state: str
    state_now: str
    reason: str
    message: str

    @property
    def why(self) -> str:
        """Why it is in this state, "" when it has gone on since."""
        if self.state != self.state_now:
            return ""
        known = self.reason and self.reason not in self.message
        return f"{self.reason}: {self.message}" if known else self.message


class UnstartedRow(msgspec.Struct, frozen=True):
    """A pod that is at its gate in a group that is over."""

    name: str
    created_at: datetime


class KeptRow(msgspec.Struct, frozen=True):
    """A pod that stays at its gate whatever its group waits for, and the reason."""

    name: str
    reason: str
    message: str


class EndingRow(msgspec.Struct, frozen=True):
    """A bound pod that is being deleted and, as far as is known, has not ended."""

    name: str
    node: str
    deleted_at: datetime


class CauseRow(msgspec.Struct, frozen=True):
    """A cause of an admission; `says_to_own`: the text for users of its own namespace alone."""

    number: int
    seq: int
    at: datetime
    cause: str
    namespace: str
    name: str
    says: str
    says_to_own: str


class GivingWayRow(msgspec.Struct, frozen=True):
    """A preempted group whose pods are being deleted, and when the last must have ended."""

    namespace: str
    name: str
    group_id: str
    pods: int
    ending_at: datetime


class UnreplacedRow(msgspec.Struct, frozen=True):
    """A pod that failed and has no replacement."""

    name: str
    ended_at: datetime
    exit_reason: str


class ParkedCount(msgspec.Struct, frozen=True):
    """Parked events: how many, how many of them stop their group, when the newest came."""

    kept: int
    standing: int
    newest_at: datetime | None


class ParkedOfRow(msgspec.Struct, frozen=True):
    """An object that was refused, and the fault (the field and why)."""

    object: str
    message: str


class RepeatedRow(msgspec.Struct, frozen=True):
    """A write of a group that was tried several times without effect.

    `status`, `http_status` and `said` are of the last try.
    """

    namespace: str
    name: str
    state: str
    action: str
    target: str
    times: int
    since: datetime
    last_at: datetime
    status: str
    http_status: int
    said: str


class HeldUpRow(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted group whose pods are still at their gate, as in view `v_held_up`.

    `tries` counts failed tries; `last_at`, `http_status` and `said` are of the last answer.
    """

    namespace: str
    name: str
    kind: str
    state: str
    queue: str
    cluster_queue: str
    priority: int
    pods: int
    since: datetime
    decided: int
    decided_at: datetime | None
    tries: int
    last_at: datetime | None
    http_status: int
    said: str


class ReplicaRow(msgspec.Struct, frozen=True):
    """The health of a replica of a part; `problem` is "" when it can do its work.

    `leads`: it holds the Lease of its part.
    """

    part: str
    instance: str
    problem: str
    leads: bool
    since: datetime
    heard_at: datetime


class StandingRow(msgspec.Struct, frozen=True):
    """A group that has not moved on; `parked` says why, where that is known."""

    namespace: str
    name: str
    state: str
    since: datetime | None
    parked: str


class SayingRow(msgspec.Struct, frozen=True):
    """A group with one of a few reasons, and its message."""

    namespace: str
    name: str
    kind: str
    state: str
    reason: str
    message: str
    workload_name: str


class LifeRow(GroupRow, frozen=True, kw_only=True):
    """One life of a group, the labels of its first pod, and its position if it waits for quota."""

    created_seq: int
    labels: Any = None
    position: int = 0
    local_position: int = 0
    expected_at: datetime | None = None
    earliest_at: datetime | None = None
    latest_at: datetime | None = None
    never: str | None = None
    """Of an estimate: the condition under which it does not start; None: there is no estimate."""
    forecast_at: datetime | None = None
    pods_not_running: str | None = None
    """How many of its pods were ungated and do not run, and what most of them wait for."""

    @property
    def not_running(self) -> tuple[int, str] | None:
        """Pods that were let go and do not run, and what most of them wait for."""
        if self.pods_not_running is None:
            return None
        pods, _, reason = self.pods_not_running.partition(" ")
        return int(pods), reason

    def label_texts(self) -> dict[str, str]:
        """Labels by key; SQLite keeps a document as text."""
        found = msgspec.json.decode(self.labels) if isinstance(self.labels, str) else self.labels
        return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


class LineRow(msgspec.Struct, frozen=True, kw_only=True):
    """A group in line."""

    id: str
    namespace: str
    name: str
    queue: str
    cluster_queue: str
    priority: int
    workload_name: str
    created_at: datetime
    complete_at: datetime | None
    queued_at: datetime | None
    position: int
    local_position: int


class ObjectRow(msgspec.Struct, frozen=True):
    """A queue object; `folded` is the projector's private record of it: ask `view`."""

    namespace: str
    name: str
    uid: str
    folded: bytes | None

    @property
    def view(self) -> "QueueObject | None":
        """The object, None if there is none that can be read."""
        from projector.writing.packing import unpack_object

        if self.folded is None:
            return None
        try:
            return unpack_object(self.folded)
        except msgspec.MsgspecError:
            return None


class RolesRow(msgspec.Struct, frozen=True):
    """A group as the projector remembers it while it lives; `folded` is private: ask `roles`."""

    folded: bytes | None

    @property
    def roles(self) -> "list[Role]":
        """The roles that have pods, with what those ask of places; none of a group that is gone."""
        from projector.writing.packing import unpack_group

        if self.folded is None:
            return []
        return [role for role in unpack_group(self.folded).roles.values() if role.count]


class CountRow(msgspec.Struct, frozen=True):
    """How many groups of a LocalQueue are in a stage of `podgroup.model.lifecycle`, or admitted."""

    cluster_queue: str
    namespace: str
    queue: str
    stage: str
    groups: int
    oldest: datetime | None


class AdmissionRow(msgspec.Struct, frozen=True):
    """One admission of a group; `flavors` and `resources` are documents."""

    number: int
    cluster_queue: str
    flavors: Any
    resources: Any
    queued_at: datetime | None
    admitted_at: datetime
    released_at: datetime | None
    release_reason: str
    decided_by: str


class PositionRow(msgspec.Struct, frozen=True):
    """How far the log is folded."""

    seq: int
    written_at: datetime
