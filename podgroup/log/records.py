"""Records: what rules conclude besides decisions, as values that are stored and folded.

Theory. A decision is carried out by an actuator; a record only says what is held to be true from
here on: why a group waits, a timer that was set, a group that may be composed anew. Both are
conclusions and both are in the log, so a fold needs no rule and comes to the same state, whatever
rules, wording and settings there are by then.

Records travel as arrays, because there are several of them for each pod. Their tags are words of
the log: a record with another meaning needs another tag, a new field a default.

Invariant: `group` is the id of the group it is about, "" if it is about none.
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
    """What a group is doing, and why; None is what it was before.

    `wait` is the reason of a wait that begins, which ends the one before; "": that one ends and
    none begins. Where one begins, reason and message are those of the wait unless they are said.
    `effect` is what follows from a reason that is another, be it nothing; None: no reason is, or
    the log is from before that was kept.
    """

    state: str | None = None
    wait: str | None = None
    wait_message: str = ""
    blocked: bool = False
    reason: str | None = None
    message: str | None = None
    effect: Effect | None = None


class Pending(Record, frozen=True, tag="pending"):
    """Why it cannot be composed or admitted; "" when nothing is in its way.

    `effect` is what follows from that, be it nothing; None: the log is from before that was kept.
    """

    reason: str
    message: str
    effect: Effect | None = None


class Kept(Record, frozen=True, tag="kept"):
    """Quota is kept for it until `victims`, who give way to it, have left; nothing is if None.

    `head`: it is kept for the first one of a StrictFIFO ClusterQueue, per flavor, while that waits;
    or, if it is none, a preemptor is to stay the first one, as Kueue has it.

    `lost_to`: that group took over what was kept; `victims` wait until this one is admitted, or
    that one waits for no evictions any more.

    `until`: `victims` go on running until then, when they have run for long enough.
    """

    cluster_queue: str = ""
    assignments: tuple[Assignment, ...] | None = None
    borrowing: int = 0
    victims: tuple[str, ...] = ()
    head: bool = False
    lost_to: str = ""
    until: datetime | None = None


class StartReserved(Record, frozen=True, tag="start_reserved"):
    """It is to start in these flavors by a time, worked out `at`; no start is reserved if None.

    `by` None: once what ran at that time has ended, which has no bound. `rank` orders those to
    whom starts are reserved at once.
    """

    cluster_queue: str = ""
    assignments: tuple[Assignment, ...] | None = None
    at: datetime | None = None
    by: datetime | None = None
    rank: int = 0


class ShortageChanged(Record, frozen=True, tag="lacking"):
    """What a group, or its equal, fell short of in a ClusterQueue; empty: the shortage is over."""

    cluster_queue: str = ""
    shortages: tuple[Shortage, ...] = ()


class Timed(Record, frozen=True, tag="timed"):
    """Its timer of a purpose falls due at `at`; None: there is none any more."""

    purpose: str
    at: datetime | None = None


class Requeued(Record, frozen=True, tag="requeued"):
    """It may queue again; `waited`: its back-off is over."""

    waited: bool = False


class Readied(Record, frozen=True, tag="readied"):
    """Whether it was ready in this admission, and since when it is not."""

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
    """(role, count) of roles that its owner wants larger than the quota it holds; (): no more."""

    roles: tuple[tuple[str, int], ...] = ()


class Reopened(Record, frozen=True, tag="reopened"):
    """What is left of it is composed anew, as a Workload of its own."""


class WorkloadBack(Record, frozen=True, tag="workload_back"):
    """A Workload of its name is there again, or is to be made again: it is not lost."""


class Released(Record, frozen=True, tag="released"):
    """The pods that left our hands were released."""


class ChecksReported(Record, frozen=True, tag="checks"):
    """What was written to its pods of pending admission checks."""

    text: str


class Reportable(Record, frozen=True, tag="reportable"):
    """There is something else to tell its users once it has held; None: the wait it is in."""

    key: str | None = None
    at: datetime | None = None


class Reported(Record, frozen=True, tag="reported"):
    """Its reason was reported to its users."""


class RefusalReported(Record, frozen=True, tag="refusal"):
    """What the API server has against its Workload was reported."""


class RecountReported(Record, frozen=True, tag="recount"):
    """It was reported that a changed total count is not obeyed."""


class PodRefused(Record, frozen=True, tag="pod_refused"):
    """What is wrong with an unreadable pod was written to it."""

    uid: str


class Used(Record, frozen=True, tag="used"):
    """What a LocalQueue (`namespace/name`) is remembered to have used, as of `at`; of no group.

    Decimal text per resource, in standard units; None: it is remembered no longer.
    """

    queue: str = ""
    consumed: tuple[tuple[str, str], ...] | None = None
    at: datetime | None = None


class Parked(Record, frozen=True, tag="parked"):
    """The rules failed for it, or it was to take an illegal step: it is parked."""

    ordinal: int
    message: str
    name: str
    reason: str = "RulesFailed"


class Counted(Record, frozen=True, tag="counted"):
    """The state of a queue or cohort whose status is not written; None: there is none any more."""

    kind: str
    namespace: str
    name: str
    standing: Standing | None = None
    uid: str = ""


class CountsTimed(Record, frozen=True, tag="counts_timed"):
    """When the standing of queues is to be reported again."""

    at: datetime


class StartsTimed(Record, frozen=True, tag="starts_timed"):
    """When some group may have waited too long; None: none waits."""

    at: datetime | None = None


class AsOf(Record, frozen=True, tag="as_of"):
    """What follows holds as of another time than that of the message: after a start."""

    at: datetime


class Renewed(Record, frozen=True, tag="renewed"):
    """Pods that came after its end begin a life of their own."""


class Retired(Record, frozen=True, tag="retired"):
    """Nothing is left of it."""


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

    A number among the records means that many decisions made there, so that all can be applied
    in their order; decisions after the last record are not counted.
    """

    number: int
    as_of: int
    at: datetime
    records: tuple[AnyRecord | int, ...]
