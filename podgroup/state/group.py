"""A group: one life of a pod group or single pod, in parts with one writer each.

Theory. Each `Part` is written by one module of `podgroup.fold.group` and read by all rules. The
parts are in memory alone: what is stored of a group is one flat record.

Invariant: what is not of a part never changes, but for roles, whose counters follow the pods, and
`parked`.
"""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field

from podgroup.log.records import Kept, StartReserved
from podgroup.model.commands import Admission
from podgroup.model.ids import GroupID, PodUID
from podgroup.model.objects import DeclaredSet, Since, WorkloadView
from podgroup.model.reasons import PLAIN, Effect, effect_of
from podgroup.model.shortage import Shortage
from podgroup.model.topology import NOTHING_ASKED, TopologyRequest
from podgroup.model.wording import kueues
from podgroup.state.pod import Expectation

SINGLE = "single"
GROUP = "group"


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


class Begin(Struct, frozen=True, gc=False):
    """Where in the log a group was given quota, and when its admission was complete."""

    seq: int
    at: datetime


class QuotaReservation(Struct, frozen=True, gc=False):
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
    first: Begin | None = None
    """From where on it is held in other sizes before this one."""

    @property
    def begin(self) -> Begin:
        """From where on it is held, in whatever size."""
        return self.first or Begin(seq=self.seq, at=self.admitted_at or self.at)


class Eviction(Struct, frozen=True, gc=False):
    """Why a group must stop, until it is admitted again."""

    reason: str
    message: str
    at: datetime
    preempted_by: str = ""
    policy: str = ""
    """By which policy it was preempted (`podgroup.model.names.PREEMPTED_…`)."""
    told: Effect | None = None
    """What follows from the reason, if the decision says so."""

    @property
    def effect(self) -> Effect:
        """What follows from the reason."""
        return self.told or effect_of(self.reason)


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


class QuotaShortage(Struct, frozen=True, gc=False):
    """What a group fell short of when it was tried, or an equal one, and since when it does."""

    cluster_queue: str
    shortages: tuple[Shortage, ...]
    from_at: datetime
    from_seq: int


class HeldStart(Struct, frozen=True, gc=False):
    """A start that is reserved for a group, and since when it is that one."""

    start: StartReserved
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
    """The declaration that `dialect` and the next five were taken from."""
    declarer_role: str = ""
    sets: tuple[DeclaredSet, ...] = ()
    declared_roles: int = 0
    declared_count: int = 0
    owner: str = ""
    """Kind and name of what its pods are of and whose size it follows (`StatefulSet/web`)."""
    fast: bool = False
    serving: bool = False
    prebuilt: str = ""

    @property
    def owner_kind(self) -> str:
        """Kind of `owner`, "" if there is none."""
        return self.owner.partition("/")[0]

    @property
    def owner_name(self) -> str:
        """Name of `owner`, "" if there is none."""
        return self.owner.partition("/")[2]


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
    wanted: tuple[tuple[str, int], ...] = ()
    """(role, count) of roles that its owner wants larger than the quota it holds is for."""
    wanted_at: datetime | None = None
    """Since when."""


class Mirror(Part):
    """Its Workload as last seen, and what is under way or refused of what is written to it."""

    name: str = field(default="", name="workload_name")
    workload: WorkloadView | None = None
    expect: Expectation | None = field(default=None, name="workload_expect")
    refused_version: str = field(default="", name="workload_refused_version")
    refused: str = field(default="", name="workload_refused")
    """What the API server said when it last would not create the Workload; "" once there is one."""
    too_large: bool = field(default=False, name="workload_too_large")
    """It said that the Workload is too large, which trying again does not change."""
    unwritten: tuple[str, str] | None = field(default=None, name="workload_unwritten")
    """(action, answer) of another write that was refused, until the Workload takes one."""
    refusals: int = field(default=0, name="workload_refusals")
    """How often in a row that happened: each time the next try comes later."""
    rejections: int = field(default=0, name="workload_rejections")
    """How often in a row the write in `unwritten` was refused."""
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

    holding: QuotaReservation | None = None
    admissions: int = 0
    executed_s: int = 0
    reason: tuple[str, str] = field(default=("", ""), name="queue_reason")
    """(reason, message) that quota admission last gave for not admitting it."""
    shortage: QuotaShortage | None = field(default=None, name="lack")
    kept: Kept | None = None
    """Quota that waits for it, until others have given it back."""
    start: HeldStart | None = field(default=None, name="reserved_start")
    """The start that is reserved for it."""
    held_in: str = ""
    """ClusterQueue that it held quota of last: what runs of it was started there."""
    told: Effect | None = field(default=None, name="queue_effect")
    """What follows from `reason`; None in rows from before it was kept."""

    @property
    def effect(self) -> Effect:
        """What follows from `reason`."""
        return self.told or effect_of(self.reason[0], kueues(self.reason[1]))


class Requeueing(Part):
    """Why it had to stop, and when and where it queues again."""

    queued_at: datetime | None = None
    evicted: Eviction | None = None
    requeued: bool = True
    timeouts: int = 0
    """Evictions for not being ready, since it was last activated."""
    requeue_at: datetime | None = None
    """End of the back-off after such an eviction."""
    preempted_for: tuple[str, ...] = field(default=(), name="beaten_by")
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
    told: Effect | None = field(default=None, name="explained_effect")
    """What follows from `reason`; None in rows from before it was kept."""

    @property
    def effect(self) -> Effect:
        """What follows from `reason`."""
        return self.told or (effect_of(self.reason) if self.reason else PLAIN)


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
    pods, and `parked`: under what it is parked, and why.
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
