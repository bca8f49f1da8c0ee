"""Records: conclusions of rules beside decisions, as values that are stored and folded.

Theory. An actuator carries out a decision; a record only states what is so from here on: why a
group waits, a timer that was set, a group that may be composed anew. Both are
conclusions and both are in the log, so a fold needs no rule and comes to the same state, whatever
rules, wording and settings there are by then.

Records travel as arrays, because there are several for each pod. Their tags are words of
the log: a record with another meaning needs another tag, a new field a default.

Invariant: `group` is the id of the record's group, "" if the record is about no group.
"""

from datetime import datetime

from msgspec import Struct

from podgroup.model.objects import Assignment
from podgroup.model.reasons import Effect
from podgroup.model.shortage import Shortage
from podgroup.model.standing import Standing


class Record(Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """Base of records."""

    group: str


class Explained(Record, frozen=True, tag="explained"):
    """The state of a group, and why; a field that is None did not change.

    `wait` is the reason of a wait that begins and ends the wait before; "": the wait ends and no
    other begins. Where a wait begins, reason and message are the wait's unless they are given.
    `effect` is what follows from a new reason, be it nothing; None: the reason did not change, or
    the log is from before this field.
    """

    state: str | None = None
    wait: str | None = None
    wait_message: str = ""
    blocked: bool = False
    reason: str | None = None
    message: str | None = None
    effect: Effect | None = None


class Pending(Record, frozen=True, tag="pending"):
    """Why the group cannot be composed or admitted; "" when nothing is in its way.

    `effect` is what follows from the reason, be it nothing; None: an older log.
    """

    reason: str
    message: str
    effect: Effect | None = None


class Kept(Record, frozen=True, tag="kept"):
    """Quota that is kept for the group until its `victims` have left; `assignments` None: no quota.

    `head`: the group is the head of a StrictFIFO ClusterQueue, and `assignments` are reserved for
    it per flavor while it waits; () makes it the head as a preemptor, as Kueue has it.

    `lost_to`: this other group took the claim over; `victims` wait until the group is admitted, or
    until the other group waits for no evictions any more.

    `until`: `victims` run until then, when their least run time is over.
    """

    cluster_queue: str = ""
    assignments: tuple[Assignment, ...] | None = None
    borrowing: int = 0
    victims: tuple[str, ...] = ()
    head: bool = False
    lost_to: str = ""
    until: datetime | None = None


class StartReserved(Record, frozen=True, tag="start_reserved"):
    """The group has a reserved start in these flavors; `assignments` None: no start.

    The start is to be by `by`, as worked out `at`. `by` None: after the end of what ran at that
    time, which has no bound. `rank` orders starts that are reserved at once.
    """

    cluster_queue: str = ""
    assignments: tuple[Assignment, ...] | None = None
    at: datetime | None = None
    by: datetime | None = None
    rank: int = 0


class ShortageChanged(Record, frozen=True, tag="lacking"):
    """Shortages of a group, or of its equal, in a ClusterQueue; empty: the shortage is over."""

    cluster_queue: str = ""
    shortages: tuple[Shortage, ...] = ()


class Timed(Record, frozen=True, tag="timed"):
    """The group's timer of a purpose falls due at `at`; None: the timer is gone."""

    purpose: str
    at: datetime | None = None


class Requeued(Record, frozen=True, tag="requeued"):
    """The group may queue again; `waited`: its back-off is over."""

    waited: bool = False


class Readied(Record, frozen=True, tag="readied"):
    """Whether the group was ready in this admission, and since when it is not ready."""

    ready: bool = False
    unready_at: datetime | None = None


class Shortened(Record, frozen=True, tag="short"):
    """(reason, message) of missing pods that have to be replaced; None: no pod is missing."""

    short: tuple[str, str] | None = None


class Peaked(Record, frozen=True, tag="peaked"):
    """Most places of a declared role that were taken at once."""

    role: str
    peak: int


class Wanted(Record, frozen=True, tag="wanted"):
    """(role, count) of roles that the owner wants larger than the group's quota; (): none."""

    roles: tuple[tuple[str, int], ...] = ()


class Reopened(Record, frozen=True, tag="reopened"):
    """The remaining pods of the group are composed anew, as a Workload of their own."""


class WorkloadBack(Record, frozen=True, tag="workload_back"):
    """A Workload of the group's name exists again, or is to be created again: it is not lost."""


class Released(Record, frozen=True, tag="released"):
    """The group's pods without our label were released."""


class ChecksReported(Record, frozen=True, tag="checks"):
    """The text on pending admission checks that was written to the group's pods."""

    text: str


class Reportable(Record, frozen=True, tag="reportable"):
    """At `at` users get a report of `key`, if it still holds; `key` None: of the group's wait."""

    key: str | None = None
    at: datetime | None = None


class Reported(Record, frozen=True, tag="reported"):
    """The group's reason was reported to its users."""


class RefusalReported(Record, frozen=True, tag="refusal"):
    """The API server's refusal of the group's Workload was reported."""


class RecountReported(Record, frozen=True, tag="recount"):
    """Users were informed that a changed total count has no effect."""


class PodRefused(Record, frozen=True, tag="pod_refused"):
    """The fault of an unreadable pod was written to the pod."""

    uid: str


class Used(Record, frozen=True, tag="used"):
    """The recent use of a LocalQueue (`namespace/name`), as of `at`; `group` is "".

    Decimal text per resource, in standard units; None: the use is forgotten.
    """

    queue: str = ""
    consumed: tuple[tuple[str, str], ...] | None = None
    at: datetime | None = None


class Parked(Record, frozen=True, tag="parked"):
    """The group is parked: its rules failed, or its next step would be illegal."""

    ordinal: int
    message: str
    name: str
    reason: str = "RulesFailed"


class Counted(Record, frozen=True, tag="counted"):
    """The standing of a queue or cohort whose status is not written; None: the object is gone."""

    kind: str
    namespace: str
    name: str
    standing: Standing | None = None
    uid: str = ""


class CountsTimed(Record, frozen=True, tag="counts_timed"):
    """When the standing of queues is to be reported again."""

    at: datetime


class StartsTimed(Record, frozen=True, tag="starts_timed"):
    """When some group may have waited too long; None: no group waits."""

    at: datetime | None = None


class AsOf(Record, frozen=True, tag="as_of"):
    """The records that follow have another time than their message: after a start."""

    at: datetime


class Renewed(Record, frozen=True, tag="renewed"):
    """Pods that came after the group's end begin a life of their own."""


class Retired(Record, frozen=True, tag="retired"):
    """Nothing is left of the group."""


AnyRecord = (
    Explained
    | Pending
    | Kept
    | StartReserved
    | ShortageChanged
    | Timed
    | Requeued
    | Readied
    | Shortened
    | Peaked
    | Wanted
    | Reopened
    | WorkloadBack
    | Released
    | ChecksReported
    | Reportable
    | Reported
    | RefusalReported
    | RecountReported
    | PodRefused
    | Used
    | Parked
    | Counted
    | CountsTimed
    | StartsTimed
    | AsOf
    | Renewed
    | Retired
)


class Concluded(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """The records of one message of the log, `number`ed along with its decisions.

    An integer among the records counts the decisions made at this place, so that records and
    decisions are applied in their order; decisions after the last record are not counted.
    """

    number: int
    as_of: int
    at: datetime
    records: tuple[AnyRecord | int, ...]
