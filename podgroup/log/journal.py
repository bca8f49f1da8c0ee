"""The journal: what one message of the log changed, as values to be written.

Theory. The fold keeps state in memory and writes what it did in a journal: lines of history, waits
that opened or closed, admissions, gates, outcomes, parked events, decisions, and the ids of
everything whose row changed. The projector turns a journal into SQL; a test compares it; replay
compares two journals. A later entry replaces an earlier entry of the same key.

Invariant: `(seq, ord)` of notes is unique and grows; nothing here refers to a clock.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from podgroup.log.events import Decision
from podgroup.log.records import Concluded, StartReserved
from podgroup.model.objects import Assignment, NodeView, TopologyView
from podgroup.model.shortage import Preempted, Shortage
from podgroup.model.standing import Amount, Standing, StandingReport


class At(Struct, frozen=True, gc=False):
    """Where in the log we are: position of the message, and its timestamp (the only clock)."""

    position: int
    at: datetime


class Note(Struct, frozen=True, gc=False):
    """A line of history. `seq` is a position, `ord` counts the lines of that position from 0."""

    seq: int
    ord: int
    at: datetime
    kind: str
    reason: str = ""
    message: str = ""
    group: str = ""
    pod: str = ""
    cause: int | None = None
    decision: str = ""


class WaitRow(Struct, frozen=True, gc=False, kw_only=True):
    """An interval in which a group waited for one reason; `to_at` None while it lasts."""

    group: str
    reason: str
    message: str
    from_at: datetime
    from_seq: int
    to_at: datetime | None = None
    to_seq: int | None = None


class AdmissionRow(Struct, frozen=True, gc=False, kw_only=True):
    """The `number`-th admission of a group (from 1); `released_at` None while it lasts."""

    group: str
    number: int
    cluster_queue: str
    assignments: tuple[Assignment, ...]
    queued_at: datetime | None
    admitted_at: datetime
    admitted_seq: int
    released_at: datetime | None = None
    release_reason: str = ""
    decided_by: str = ""


class PlacementRow(Struct, frozen=True, gc=False, kw_only=True):
    """The places of a podset's pods, until `to_at` (None: still); `requests` is per pod."""

    group: str
    given: Assignment
    requests: Mapping[str, int]
    from_at: datetime
    from_seq: int
    to_at: datetime | None = None
    to_seq: int | None = None


class GateRow(Struct, frozen=True, gc=False):
    """A scheduling gate of a pod, ours or another controller's."""

    pod: str
    gate: str
    added_at: datetime
    removed_at: datetime | None = None
    removed_by: str = ""


class PodWaitRow(Struct, frozen=True, gc=False, kw_only=True):
    """What an ungated pod waited for, until `to_at` (None: it still waits, or the pod is gone)."""

    pod: str
    from_seq: int
    reason: str
    subject: str
    message: str
    from_at: datetime
    to_at: datetime | None = None
    to_seq: int | None = None


class OutcomeRow(Struct, frozen=True, gc=False):
    """One attempt at a decision."""

    decision: str
    delivery: int
    attempt: int
    status: str
    http_status: int
    message: str
    at: datetime
    seq: int


class ParkedRow(Struct, frozen=True, gc=False, kw_only=True):
    """A parked event or message: undecodable, a refused delta, or a fold that failed."""

    seq: int
    ord: int
    at: datetime
    reason: str
    message: str
    group: str = ""
    object: str = ""
    raw: bytes = b""


class FailureRow(Struct, frozen=True, gc=False, kw_only=True):
    """A container that failed, or ("") a pod that its node or the cluster ended.

    `requests` is what the pod requested then, `finished_at` the kubelet's time of the end.
    """

    pod: str
    container: str
    seq: int
    at: datetime
    group: str
    reason: str
    message: str = ""
    exit_code: int = 0
    restarts: int = 0
    finished_at: datetime | None = None
    node: str = ""
    requests: Mapping[str, int]


class QuotaRow(Struct, frozen=True, gc=False):
    """Nominal quota of a ClusterQueue from `seq` on: flavor -> resource -> amount; {}: none."""

    cluster_queue: str
    seq: int
    at: datetime
    nominal: dict[str, dict[str, int]]


class EpochRow(Struct, frozen=True, gc=False, kw_only=True):
    """A beginning of the log: position = stream sequence + `base` from here on.

    `lost_from`/`lost_to` are the positions that may be missing before it (None: none known).
    """

    number: int
    base: int
    at: datetime | None
    reason: str
    stream_created_at: datetime | None = None
    lost_from: int | None = None
    lost_to: int | None = None


class UsageRow(Struct, frozen=True, gc=False, kw_only=True):
    """Usage of a resource in a queue or cohort, until `to_at` (None: still)."""

    kind: str
    namespace: str
    name: str
    amount: Amount
    standing: Standing
    from_at: datetime
    from_seq: int
    to_at: datetime | None = None
    to_seq: int | None = None


class ShortageRow(Struct, frozen=True, gc=False, kw_only=True):
    """A shortage of a waiting group, until `to_at` (None: still)."""

    group: str
    cluster_queue: str
    shortage: Shortage
    from_at: datetime
    from_seq: int
    to_at: datetime | None = None
    to_seq: int | None = None


class StartRow(Struct, frozen=True, gc=False, kw_only=True):
    """A reserved start, until `to_at` (None: still); `ended` says why it ended."""

    group: str
    start: StartReserved
    queued_at: datetime | None
    from_at: datetime
    from_seq: int
    to_at: datetime | None = None
    to_seq: int | None = None
    ended: str = ""


class PreemptionRow(Struct, frozen=True, gc=False, kw_only=True):
    """A preemption: (namespace, name, priority) of victim and preemptor, as they were then."""

    seq: int
    at: datetime
    decision: str
    victim: str
    victim_was: tuple[str, str, int]
    preemptor: str
    preemptor_was: tuple[str, str, int]
    between: Preempted
    assignments: tuple[Assignment, ...]
    """The quota that the victim held."""


class Journal(Struct, kw_only=True):
    """Everything that changed since the journal was taken last, in order."""

    notes: list[Note] = field(default_factory=list)
    waits: dict[tuple[str, int], WaitRow] = field(default_factory=dict)
    admissions: dict[tuple[str, int], AdmissionRow] = field(default_factory=dict)
    placements: dict[tuple[str, int, str], PlacementRow] = field(default_factory=dict)
    """By group, position and podset."""
    gates: dict[tuple[str, str], GateRow] = field(default_factory=dict)
    pod_waits: dict[tuple[str, int], PodWaitRow] = field(default_factory=dict)
    """By pod and position."""
    outcomes: list[OutcomeRow] = field(default_factory=list)
    parked: list[ParkedRow] = field(default_factory=list)
    failures: dict[tuple[str, str, int], FailureRow] = field(default_factory=dict)
    quotas: dict[tuple[str, int], QuotaRow] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    concluded: list[Concluded] = field(default_factory=list)
    """Records of rules, one entry per message of the log."""
    usage: dict[tuple[str, str, str, str, str, int], UsageRow] = field(default_factory=dict)
    """By kind, namespace, name, flavor, resource and position."""
    standings: dict[tuple[str, str, str], StandingReport] = field(default_factory=dict)
    """Standings of queues and cohorts, by kind, namespace and name."""
    shortages: dict[tuple[str, int, str, str], ShortageRow] = field(default_factory=dict)
    """By group, position, flavor and resource."""
    starts: dict[tuple[str, int], StartRow] = field(default_factory=dict)
    """By group and position."""
    places: dict[tuple[str, str, int], tuple[NodeView | TopologyView, At | None]] = field(
        default_factory=dict
    )
    """Former Nodes and Topologies, by kind, name and position, and until when they were so."""
    preemptions: list[PreemptionRow] = field(default_factory=list)
    pods: set[str] = field(default_factory=set)
    """Pods whose row changed and that are still in the state."""
    groups: set[str] = field(default_factory=set)
    """Groups whose row (or whose roles' rows) changed and that are still in the state."""
    objects: set[tuple[str, str, str]] = field(default_factory=set)
    """(kind, namespace, name) of queue objects, namespaces and unlinked Workloads that changed."""
