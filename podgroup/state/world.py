"""State: what is known of pods, groups, Workloads, queues and the log's position.

Theory. `Pod`, `Group` and `Meta` are what a projector writes into its `state` columns and reads
back when it starts. Everything else in `World` is an index derived from them (see `members` and
`quota`), rebuilt on load and never stored, so it cannot disagree with what is stored.

State changes in place: copying a group of 5,000 pods for each of its events would make the cost of
an event grow with its group. It is changed by `fold` alone, and the result depends only on the
state and the event, which is all that "pure" has to mean here.

Invariant: a live pod belongs to exactly one group, `world.groups[pod.group]`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from podgroup.log.events import SettingsRecorded
from podgroup.log.journal import Journal
from podgroup.log.records import Kept, Used
from podgroup.model.commands import ENDING, Admission
from podgroup.model.ids import GroupID, PodUID
from podgroup.model.names import ADMISSION_GATE, POD_FINALIZER
from podgroup.model.objects import (
    QUEUE_KINDS,
    AdmissionCheckView,
    ClusterQueueView,
    CohortView,
    DeclaredSet,
    FlavorView,
    LocalQueueView,
    NamespaceView,
    NodeView,
    PodView,
    PriorityClassView,
    Since,
    TopologyView,
    WorkloadPriorityClassView,
    WorkloadView,
)
from podgroup.model.policy import Policy
from podgroup.model.shortage import Shortage
from podgroup.model.standing import StandingReport
from podgroup.model.topology import NOTHING_ASKED, TopologyRequest
from podgroup.state.members import Members
from podgroup.state.quota import QueueKey, Quotas

SINGLE = "single"
GROUP = "group"


class Expectation(Struct, frozen=True, gc=False):
    """A decision made and not yet observed: no second one for the same target meanwhile.

    `place` is where a pod goes that it lets start: the values of the levels of its topology.
    `result_version` is set by an applied outcome: the expectation ends when the object is known at
    that version, or earlier when its effect is seen.
    """

    decision: str
    action: str
    as_of: int
    at: datetime
    result_version: str = ""
    place: tuple[str, ...] = ()

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
    rejections: int = 0
    """How many writes in a row were rejected: each time the next try comes later."""
    ungate_decided: bool = False
    """We decided that it may start: it is past its gate by our leave."""
    larger: bool = False
    """It asks for more than its role, for which quota is given."""
    hiding: OutOfSelector | None = None
    """How it lost its label while it may run, if it ever did."""
    measured: Measured | None = None

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
        return self.view.phase in ("Succeeded", "Failed")

    @property
    def deleting(self) -> bool:
        """Someone asked for its deletion."""
        return self.view.deleted_at is not None

    @property
    def hidden(self) -> bool:
        """It is out of the watch's sight, and may run."""
        return self.hiding is not None and self.hiding.since is not None

    @property
    def free(self) -> bool:
        """No decision about it is in flight, and none was rejected at this version of it."""
        return self.expect is None and self.refused_version != self.view.resource_version


class Role(Struct, gc=False):
    """A role of a group. `count` is 0 until the group is composed.

    Counters are of pods ever: `succeeded_gone` are pods that succeeded and then left the API
    server; their success still counts and their place stays taken.

    In groups that declare their roles `need` is how many pods must be there before the group may
    start, and `peak` how many places were taken at once since it did: what was never created is
    not missing.
    """

    name: str
    count: int = 0
    need: int = 0
    peak: int = 0
    requests: Mapping[str, int] = {}
    topology: TopologyRequest = NOTHING_ASKED
    sample: PodUID = PodUID("")
    seen: int = 0
    ungated: int = 0
    succeeded: int = 0
    failed: int = 0
    excess: int = 0
    replaced: int = 0
    succeeded_gone: int = 0


class Holding(Struct, frozen=True, gc=False):
    """Quota held by a group: the `number`-th admission of its life."""

    number: int
    admission: Admission
    queued_at: datetime | None
    at: datetime
    seq: int
    admitted: bool = True
    """False while admission checks are not through: quota is reserved, and nothing starts."""
    decided_by: str = ""
    admitted_at: datetime | None = None
    """When the checks were through, if there were any; `at` is when quota was reserved."""
    taken_over: bool = False
    """Its pods ran already and bore the marks of a start, which others can write as well."""
    moved: Since | None = None
    """From where on pods have other places than they were given first."""


class Eviction(Struct, frozen=True, gc=False):
    """Why a group must stop, until it is admitted again."""

    reason: str
    message: str
    at: datetime
    preempted_by: str = ""


class Finish(Struct, frozen=True, gc=False):
    """The end of a group. `written` once the Workload says Finished."""

    reason: str
    message: str
    at: datetime
    written: bool = False


class Wait(Struct, frozen=True, gc=False):
    """The reason a group waits for now. `blocked`: nothing but a person can help."""

    reason: str
    message: str
    blocked: bool
    from_at: datetime
    from_seq: int


class Lack(Struct, frozen=True, gc=False):
    """What a group fell short of when it was tried, or an equal one, and since when it does."""

    cluster_queue: str
    shortages: tuple[Shortage, ...]
    from_at: datetime
    from_seq: int


class Part(Struct, gc=False):
    """A part of a group, which one module of the fold writes and all others read.

    What is stored of a group knows of no parts (`projector.writing.packing`): a field's `name` is
    what it is stored under.
    """


class Spec(Part):
    """What its pods ask for: the first by creation time and uid, as long as it is not composed."""

    queue: str = ""
    total: int = 0
    priority_class: str = ""
    dialect: str = ""
    """How it declares its pods (`podgroup.log.dialects`); "" is the total count."""
    declared: str = ""
    """The declaration that `dialect` and the next four were taken from."""
    declarer_role: str = ""
    sets: tuple[DeclaredSet, ...] = ()
    declared_roles: int = 0
    declared_count: int = 0
    fast: bool = False
    serving: bool = False
    prebuilt: str = ""


class Composition(Part):
    """What was fixed when it was complete (with the counts of its roles), and what is missing."""

    priority: int = 0
    done: bool = field(default=False, name="composed")
    total: int = field(default=0, name="composed_total")
    complete_at: datetime | None = None
    short: tuple[str, str] | None = None
    """(reason, message) while pods are missing that must be replaced."""
    was_short: bool = False
    ranked_by: str | None = None
    """Kind/name of the class that gave the priority, "" for none, where no Workload says it."""


class Mirror(Part):
    """Its Workload as last seen, and what is under way or refused of what is written to it."""

    name: str = field(default="", name="workload_name")
    workload: WorkloadView | None = None
    expect: Expectation | None = field(default=None, name="workload_expect")
    refused_version: str = field(default="", name="workload_refused_version")
    refused: str = field(default="", name="workload_refused")
    """What the API server said when it last would not create the Workload; "" once there is one."""
    refusals: int = field(default=0, name="workload_refusals")
    """How often in a row that happened: each time the next try comes later."""
    rejections: int = field(default=0, name="workload_rejections")
    """The same of other writes of it."""
    refusal_told: str = ""
    """What of that was written to the group's first pod."""
    lost: bool = field(default=False, name="workload_lost")
    """The Workload disappeared (or is being deleted) while the group was not finished."""
    deactivating: bool = False
    """Its Workload was deactivated by us, which is not visible on it yet."""
    checks_told: str = ""
    """Messages of pending admission checks that were written to the pods last."""
    checks_stale: bool = False
    """What its Workload says of checks is of an earlier reservation, and to be reset."""


class HeldQuota(Part):
    """What it holds of quota, held before, and reported about having none."""

    holding: Holding | None = None
    admissions: int = 0
    executed_s: int = 0
    reason: tuple[str, str] = field(default=("", ""), name="queue_reason")
    """(reason, message) that quota admission last gave for not admitting it."""
    lack: Lack | None = None
    kept: Kept | None = None
    """Quota that waits for it, until others have given it back."""
    held_in: str = ""
    """ClusterQueue that it held quota of last: what runs of it was started there."""


class Requeueing(Part):
    """Why it had to stop, and when and where it queues again."""

    queued_at: datetime | None = None
    evicted: Eviction | None = None
    requeued: bool = True
    timeouts: int = 0
    """Evictions for not being ready, since it was last activated."""
    requeue_at: datetime | None = None
    """End of the back-off after such an eviction."""
    beaten_by: tuple[str, ...] = ()
    """Groups that it was preempted for, ever: it never preempts them."""


class Readiness(Part):
    """Whether enough of its pods are ready."""

    ready: bool = False
    unready_at: datetime | None = None
    """Since when it holds quota and is not ready."""


class Explained(Part):
    """What is said of it: its state, and what it waits for."""

    wait: Wait | None = None
    state: str = ""
    reason: str = ""
    message: str = ""


class Reporting(Part):
    """What was reported to its users, or is yet to be."""

    recounted: tuple[PodUID, str, str] | None = None
    """(pod, old, new) of a total count that was changed after composition, until it is reported."""
    key: str = field(default="", name="report_key")
    """What there is to tell users about; a timer tells it once it has held for 5 s."""
    due: bool = field(default=False, name="report_due")
    pods: int = field(default=0, name="reported")
    """Pods whose condition says that they wait."""


class Departures(Part):
    """What became of pods that were taken out of it."""

    disowned: tuple[tuple[PodUID, str, bool], ...] = ()
    """(uid, name, gated) of pods that were taken out of our hands, until we release them."""
    left: bool = False
    """Its only pod was taken out of our hands at its gate, and may be given back."""
    strayed: bool = False
    """A pod was taken out of it that may live on, and own the Workload."""


class Ending(Part):
    """How it ended, or why it has to."""

    finish: Finish | None = None
    start_failed: str = ""
    """Why a pod can never start with what its admission gives it: the group ends over that."""
    finished_at: datetime | None = None
    gone_at: datetime | None = None
    cluster_queue: str = ""
    """The one it was in when it ended: its LocalQueue may be deleted or lead elsewhere since."""


class Group(Struct, gc=False):
    """One life of a pod group, or of a single pod.

    What is not of a part is its identity, which never changes, its roles, whose counters follow its
    pods, and `parked`: under what it stands still, and why.
    """

    id: GroupID
    namespace: str
    name: str
    kind: str
    created_at: datetime
    created_seq: int
    roles: dict[str, Role] = {}
    parked: str = ""
    spec: Spec = field(default_factory=Spec)
    composition: Composition = field(default_factory=Composition)
    mirror: Mirror = field(default_factory=Mirror)
    quota: HeldQuota = field(default_factory=HeldQuota)
    requeueing: Requeueing = field(default_factory=Requeueing)
    readiness: Readiness = field(default_factory=Readiness)
    explained: Explained = field(default_factory=Explained)
    reporting: Reporting = field(default_factory=Reporting)
    departures: Departures = field(default_factory=Departures)
    ending: Ending = field(default_factory=Ending)

    @property
    def single(self) -> bool:
        """It is one pod without a group name."""
        return self.kind == SINGLE


class Frame(Struct):
    """A relist under way. `seen` is not stored: a restarted projector re-reads it from the log."""

    relist: str
    started_seq: int
    seen: set[str] = field(default_factory=set)


class Timer(Struct, frozen=True):
    """A timer the fold asked for; it fires as an event."""

    due_at: datetime
    group: str
    purpose: str


class Refusal(Struct):
    """A pod that cannot be read: what is wrong with it, and whether it was reported."""

    namespace: str
    name: str
    message: str
    told: bool = False
    parked: str = ""
    """Under which `seq/ord` that was parked; "" when there is none to settle."""


class Meta(Struct):
    """What is known of the log itself. Stored with the checkpoint."""

    position: int = 0
    at: datetime | None = None
    """Timestamp of the message at `position`."""
    epoch: int = 1
    decisions: int = 0
    versions: dict[str, str] = {}
    """Highest resource version seen per kind: an older delta is a duplicate."""
    synced: set[str] = field(default_factory=set)
    """Kinds that had one complete relist in this epoch."""
    missing: set[str] = field(default_factory=set)
    """Kinds that are not installed."""
    frames: dict[str, Frame] = {}
    timers: dict[str, Timer] = {}
    refused: dict[str, Refusal] = {}
    """Pods that cannot be read, by uid: the latest few."""
    untold: int = 0
    """How many of them were not reported yet."""
    given_up: dict[str, str] = {}
    """Decisions that were parked, the latest few: `group: why` -> `seq/ord` it is listed under."""
    settings: SettingsRecorded | None = None
    """By what is decided, as the log says; None: it does not say (yet)."""
    unsettled: bool = False
    """The log is about to say it, and nothing is decided before."""
    decided_in: int = 0
    """Epoch of the last decision."""
    used: dict[str, Used] = {}
    """What LocalQueues used lately, where they share by that: `namespace/name` -> the record."""
    counted_at: datetime | None = None
    """When the standing of queues was last reported."""


Key = tuple[str, str]


class World(Struct):
    """Everything known of one cluster (or one shard of it)."""

    cluster: str
    mode: str = "builtin"
    policy: Policy = Policy()
    meta: Meta = field(default_factory=Meta)
    pods: dict[str, Pod] = field(default_factory=dict)
    groups: dict[GroupID, Group] = field(default_factory=dict)
    members: dict[GroupID, Members] = field(default_factory=dict)
    lives: dict[tuple[str, str, str], GroupID] = field(default_factory=dict)
    """(kind, namespace, name) -> the life that is going on; a single pod's name is its own."""
    by_workload: dict[Key, GroupID] = field(default_factory=dict)
    """Name of a Workload -> the one group that it is for (`fold.naming`)."""
    rivals: dict[Key, dict[GroupID, None]] = field(default_factory=dict)
    """Groups that name it too, and wait for the name to be free."""
    workloads: dict[Key, WorkloadView] = field(default_factory=dict)
    """Workloads that belong to no group known here."""
    local_queues: dict[Key, LocalQueueView] = field(default_factory=dict)
    cluster_queues: dict[str, ClusterQueueView] = field(default_factory=dict)
    cohorts: dict[str, CohortView] = field(default_factory=dict)
    flavors: dict[str, FlavorView] = field(default_factory=dict)
    topologies: dict[str, TopologyView] = field(default_factory=dict)
    nodes: dict[str, NodeView] = field(default_factory=dict)
    """Nodes, while a flavor names a Topology."""
    checks: dict[str, AdmissionCheckView] = field(default_factory=dict)
    workload_classes: dict[str, WorkloadPriorityClassView] = field(default_factory=dict)
    classes: dict[str, PriorityClassView] = field(default_factory=dict)
    namespaces: dict[str, NamespaceView] = field(default_factory=dict)
    quotas: Quotas = field(default_factory=Quotas)
    scheduler_mirror: Any = None
    """What admission remembers of all this between messages (`scheduler_mirror`): it can be made
    from the rest at any time, and is never stored."""
    unannounced: dict[QueueKey, None] = field(default_factory=dict)
    """Queues whose condition Active may have to say something else; a start looks at all."""
    marks: dict[str, QueueKey] = field(default_factory=dict)
    """Decision in flight about the finalizer of what is in use -> the object."""
    ending: dict[str, None] = field(default_factory=dict)
    """ClusterQueues that are being deleted."""
    standings: dict[QueueKey, StandingReport] = field(default_factory=dict)
    """How queues and cohorts stood when last reported."""
    journal: Journal = field(default_factory=Journal)
    gone_pods: dict[str, Pod] = field(default_factory=dict)
    """Pods that left the state since the last journal was taken: their last row is still due."""
    gone_groups: dict[GroupID, Group] = field(default_factory=dict)
    expecting: dict[str, tuple[GroupID, str]] = field(default_factory=dict)
    """Decision in flight -> its group and pod ("" for the Workload)."""
    loaded: bool = False
    """It was read from a database, and queue order is still to be worked out."""
    dirty_groups: dict[GroupID, int] = field(default_factory=dict)
    """Groups to decide on after this message, in order of first touch -> what of them changed
    (`podgroup.state.changes`)."""
    track_changes: bool = True
    """Rules will look at what is touched; off, no rule asks what of it changed."""
    evaluate_all: bool = False
    """All rules are due whatever happened. Must make no difference, and costs several times more;
    set when recorded decisions turn out to be other than ours, so that each is reported."""
    at: datetime | None = None
    note_ord: int = 0

    def objects_of(self, kind: str) -> dict[Any, Any]:
        """Return the queue objects of a kind by key (`QueueKind.key`)."""
        found: dict[Any, Any] = getattr(self, QUEUE_KINDS[kind].store)
        return found
