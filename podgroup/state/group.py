"""A group: one life of a pod group or single pod, in parts with one writer each.

Theory. One module of `podgroup.fold.group` writes each `Part`, and all rules read it. Parts exist
in memory alone: a group is stored as one flat record.

Invariant: fields outside of parts never change, but for `roles`, whose counters follow the pods,
and `parked`.
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

    Counters are of all pods ever: `succeeded_gone` are pods that succeeded and then left the API
    server; their success still counts and their place stays taken.

    In groups that declare their roles `need` is how many pods must exist before the group may
    start, and `peak` how many places were taken at once since then: a pod that was never created is
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
    """Where in the log a group's quota was reserved, and when its admission was complete."""

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
    """The pods ran already and bore the marks of a start, which other clients can write as well."""
    moved: Since | None = None
    """Since when the pods have other places than at their admission."""
    first: Begin | None = None
    """Since when quota is held, if the group's size has changed since."""

    @property
    def begin(self) -> Begin:
        """Since when quota is held, in whatever size."""
        return self.first or Begin(seq=self.seq, at=self.admitted_at or self.at)


class Eviction(Struct, frozen=True, gc=False):
    """Why a group must stop, until it is admitted again."""

    reason: str
    message: str
    at: datetime
    preempted_by: str = ""
    policy: str = ""
    """The policy of the preemption (`podgroup.model.names.PREEMPTED_…`)."""
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
    """Why a group waits now. `blocked`: only a person can end the wait."""

    reason: str
    message: str
    blocked: bool
    from_at: datetime
    from_seq: int


class QuotaShortage(Struct, frozen=True, gc=False):
    """The shortages of a group when it or an equal group was tried, and since when."""

    cluster_queue: str
    shortages: tuple[Shortage, ...]
    from_at: datetime
    from_seq: int


class HeldStart(Struct, frozen=True, gc=False):
    """The reserved start of a group, and since when it is this start."""

    start: StartReserved
    from_at: datetime
    from_seq: int


class Part(Struct, gc=False):
    """A part of a group, which one module of the fold writes and all others read.

    A stored group has no parts (`projector.writing.packing`): a field is stored under its `name`.
    """


class Spec(Part):
    """The declaration of the pods: of the first by creation time and uid, until composition."""

    queue: str = ""
    total: int = 0
    priority_class: str = ""
    dialect: str = ""
    """How the group declares its pods (`podgroup.log.dialects`); "" is the total count."""
    declared: str = ""
    """The declaration from which `dialect` and the next five fields were taken."""
    declarer_role: str = ""
    sets: tuple[DeclaredSet, ...] = ()
    declared_roles: int = 0
    declared_count: int = 0
    owner: str = ""
    """Kind and name of the pods' owner, whose size the group follows (`StatefulSet/web`)."""
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
    """What was fixed when the group was complete (and its roles' counts), and what is missing."""

    priority: int = 0
    done: bool = field(default=False, name="composed")
    total: int = field(default=0, name="composed_total")
    complete_at: datetime | None = None
    short: tuple[str, str] | None = None
    """(reason, message) while pods must be replaced."""
    was_short: bool = False
    ranked_by: str | None = None
    """Kind/name of the class that gave the priority, "" for none; None where a Workload says it."""
    wanted: tuple[tuple[str, int], ...] = ()
    """(role, count) of roles that the pods' owner wants larger than the quota held."""
    wanted_at: datetime | None = None
    """Since when."""


class Mirror(Part):
    """The group's Workload as last seen, and writes to it that are in flight or were refused."""

    name: str = field(default="", name="workload_name")
    workload: WorkloadView | None = None
    expect: Expectation | None = field(default=None, name="workload_expect")
    refused_version: str = field(default="", name="workload_refused_version")
    refused: str = field(default="", name="workload_refused")
    """The API server's last refusal to create the Workload; "" once the Workload exists."""
    too_large: bool = field(default=False, name="workload_too_large")
    """The refusal says that the Workload is too large, which trying again does not change."""
    unwritten: tuple[str, str] | None = field(default=None, name="workload_unwritten")
    """(action, answer) of another refused write, until a write of the Workload is accepted."""
    refusals: int = field(default=0, name="workload_refusals")
    """How often in a row creating was refused: each time the next try comes later."""
    rejections: int = field(default=0, name="workload_rejections")
    """How often in a row the write in `unwritten` was refused."""
    refusal_told: str = ""
    """The refusal that was last written to the group's first pod."""
    lost: bool = field(default=False, name="workload_lost")
    """The Workload disappeared (or is being deleted) while the group was not finished."""
    deactivating: bool = False
    """We deactivated the Workload, which its view does not show yet."""
    checks_told: str = ""
    """The messages of pending admission checks that were last written to the pods."""
    checks_stale: bool = False
    """The Workload's check states are of an earlier reservation, and are to be reset."""


class HeldQuota(Part):
    """The quota that the group holds or held, and why it waits for quota."""

    holding: QuotaReservation | None = None
    admissions: int = 0
    executed_s: int = 0
    reason: tuple[str, str] = field(default=("", ""), name="queue_reason")
    """(reason, message) of the last time that quota admission did not admit the group."""
    shortage: QuotaShortage | None = field(default=None, name="lack")
    kept: Kept | None = None
    """Quota that is kept for the group, until its victims have given it back."""
    start: HeldStart | None = field(default=None, name="reserved_start")
    """The group's reserved start."""
    held_in: str = ""
    """ClusterQueue of the quota that the group held last, where its running pods were started."""
    told: Effect | None = field(default=None, name="queue_effect")
    """What follows from `reason`; None in rows from before this field."""

    @property
    def effect(self) -> Effect:
        """What follows from `reason`."""
        return self.told or effect_of(self.reason[0], kueues(self.reason[1]))


class Requeueing(Part):
    """Why the group had to stop, and when it queues again."""

    queued_at: datetime | None = None
    evicted: Eviction | None = None
    requeued: bool = True
    timeouts: int = 0
    """Evictions for not being ready, since the group was last activated."""
    requeue_at: datetime | None = None
    """End of the back-off after such an eviction."""
    preempted_for: tuple[str, ...] = field(default=(), name="beaten_by")
    """Groups for which the group was ever preempted: it never preempts them."""


class Readiness(Part):
    """Whether enough of the group's pods are ready."""

    ready: bool = False
    unready_at: datetime | None = None
    """Since when the group holds quota and is not ready."""


class Explained(Part):
    """The group's state, and why it waits."""

    wait: Wait | None = None
    state: str = ""
    reason: str = ""
    message: str = ""
    told: Effect | None = field(default=None, name="explained_effect")
    """What follows from `reason`; None in rows from before this field."""

    @property
    def effect(self) -> Effect:
        """What follows from `reason`."""
        return self.told or (effect_of(self.reason) if self.reason else PLAIN)


class Reporting(Part):
    """What was reported to the group's users, or is yet to be."""

    recounted: tuple[PodUID, str, str] | None = None
    """(pod, old, new) of a total count that was changed after composition, until it is reported."""
    key: str = field(default="", name="report_key")
    """What there is to report to users; a timer has it reported once it has held for 5 s."""
    due: bool = field(default=False, name="report_due")
    pods: int = field(default=0, name="reported")
    """Pods whose condition says that they wait."""


class Departures(Part):
    """What became of pods that were taken out of the group."""

    disowned: tuple[tuple[PodUID, str, bool], ...] = ()
    """(uid, name, gated) of pods that lost our label, until we release them."""
    left: bool = False
    """The group's only pod lost our label while gated, and may get it back."""
    strayed: bool = False
    """A pod was taken out of the group that may live on, and own the Workload."""


class Ending(Part):
    """How the group ended, or why it has to end."""

    finish: Finish | None = None
    start_failed: str = ""
    """Why a pod can never start with what its admission gives it, for which the group ends."""
    finished_at: datetime | None = None
    gone_at: datetime | None = None
    cluster_queue: str = ""
    """The ClusterQueue at the group's end: its LocalQueue may be deleted or changed since."""


class Group(Struct, gc=False):
    """One life of a pod group, or of a single pod.

    Outside of parts are its identity, which never changes, its roles, whose counters follow the
    pods, and `parked`: under what the group is parked, and why.
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
        """The group is one pod without a group name."""
        return self.kind == SINGLE
