"""The objects of group gatelog.io.

Theory. One definition makes the JSON and the OpenAPI document that `kubectl explain` shows: field
names and types are those of the Structs, descriptions their annotations. Fields that say nothing
are left out, times are RFC 3339 in UTC, amounts are Kubernetes quantities.

Invariant: objects are read only; a trial's spec alone has fields to set.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from gatelog.trial.answers import Answer

GROUP = "gatelog.io"
VERSION = "v1beta1"
API_VERSION = f"{GROUP}/{VERSION}"

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class Part(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of what objects are made of."""


class OwnerReference(Part, frozen=True, kw_only=True, omit_defaults=False):
    """Names an object that owns this one."""

    api_version: str
    kind: str
    name: str
    uid: str


class ObjectMeta(Part, frozen=True, kw_only=True):
    """Standard metadata: name, namespace, uid, labels, and when it was created."""

    name: Annotated[str, Meta(description="Name; a group's, or that of a single pod.")]
    namespace: Annotated[str, Meta(description="Namespace.")] = ""
    uid: Annotated[
        str, Meta(description="Identity of this life of the group; names repeat, uids do not.")
    ] = ""
    resource_version: Annotated[
        str, Meta(description="Position in the event log up to which this was folded.")
    ] = ""
    creation_timestamp: Annotated[Time | None, Meta(description="When gatelog saw it first.")] = (
        None
    )
    deletion_timestamp: Annotated[
        Time | None, Meta(description="When the last pod and the Workload were gone.")
    ] = None
    labels: Annotated[dict[str, str], Meta(description="Labels of the group's first pod.")] = {}
    owner_references: list[OwnerReference] = []


class Object(Part, frozen=True, kw_only=True, omit_defaults=False):
    """What every object has."""

    kind: Annotated[str, Meta(description="Kind of this object.")]
    api_version: Annotated[str, Meta(description="Group and version of this object.")]
    metadata: Annotated[ObjectMeta, Meta(description="Standard metadata.")]


class PodGroupSpec(Part, frozen=True, kw_only=True):
    """What the pods of the group ask for."""

    kind: Annotated[str, Meta(description="group, or single for a pod of its own.")] = ""
    queue: Annotated[str, Meta(description="LocalQueue that the pods name.")] = ""
    priority: Annotated[int, Meta(description="Priority used for queueing; higher goes first.")] = 0
    priority_class: Annotated[str, Meta(description="Priority class it comes from.")] = ""
    pods: Annotated[int, Meta(description="Declared number of pods.")] = 0


class Wait(Part, frozen=True, kw_only=True):
    """An interval in which the group waited for one reason."""

    reason: Annotated[str, Meta(description="What it waits for, one word.")] = ""
    message: Annotated[str, Meta(description="What it waits for, in words.")] = ""
    since: Annotated[Time | None, Meta(description="Since when.")] = None
    until: Annotated[Time | None, Meta(description="Until when; absent while it lasts.")] = None


class ExpectedStart(Part, frozen=True, kw_only=True):
    """When a group that waits is expected to start, as `gatelog forecast` found it."""

    message: Annotated[str, Meta(description="The same in words, as of now.")]
    time: Annotated[
        Time | None, Meta(description="When it starts; half of the times tried it did before.")
    ] = None
    earliest_time: Annotated[
        Time | None, Meta(description="One time in ten it started before.")
    ] = None
    latest_time: Annotated[Time | None, Meta(description="Nine times in ten it did before.")] = None
    never: Annotated[str, Meta(description="While what it does not start at all.")] = ""
    as_of: Annotated[Time | None, Meta(description="When the forecast was made.")] = None


class PodCounts(Part, frozen=True, kw_only=True, omit_defaults=False):
    """How many pods of the group are, or ever were, what."""

    seen: Annotated[int, Meta(description="Ever belonged.")] = 0
    gated: Annotated[int, Meta(description="Carry the scheduling gate now.")] = 0
    ungated: Annotated[int, Meta(description="Had the gate removed.")] = 0
    running: Annotated[int, Meta(description="In phase Running now.")] = 0
    succeeded: Annotated[int, Meta(description="Ever succeeded.")] = 0
    failed: Annotated[int, Meta(description="Ever failed.")] = 0
    excess: Annotated[int, Meta(description="Beyond the declared count, given up.")] = 0
    replaced: Annotated[int, Meta(description="Failed or lost, and replaced by another.")] = 0


class PodsWaiting(Part, frozen=True, kw_only=True, omit_defaults=False):
    """Pods that were let go and do not run."""

    reason: Annotated[
        str, Meta(description="What most of them wait for: ImagePullBackOff, Unschedulable, ...")
    ]
    pods: Annotated[int, Meta(description="How many do not run.")]


class PodGroupStatus(Part, frozen=True, kw_only=True):
    """State of the group."""

    state: Annotated[
        str,
        Meta(
            description="Composing, Queued, Blocked, Admitted, Running, Finishing, Finished, "
            "Evicted or Gone."
        ),
    ] = ""
    ended: Annotated[
        str,
        Meta(description="How it ended: Succeeded, Failed, Preempted, Evicted or Deleted."),
    ] = ""
    reason: Annotated[str, Meta(description="Why it is in this state, one word.")] = ""
    message: Annotated[str, Meta(description="Why it is in this state, in words.")] = ""
    cluster_queue: Annotated[
        str, Meta(description="ClusterQueue that admitted it, or the one behind its LocalQueue.")
    ] = ""
    workload: Annotated[str, Meta(description="Name of its Workload.")] = ""
    waiting: Annotated[Wait | None, Meta(description="What it waits for now.")] = None
    expected_start: Annotated[
        ExpectedStart | None, Meta(description="When it starts; absent: no forecast knows it.")
    ] = None
    pods: Annotated[PodCounts, Meta(description="Pods by what became of them.")] = PodCounts()
    pods_waiting: Annotated[
        PodsWaiting | None, Meta(description="Why pods do not run that were let go.")
    ] = None
    parked: Annotated[
        str, Meta(description="Why nothing is decided for it until an operator releases it.")
    ] = ""
    complete_time: Annotated[Time | None, Meta(description="When its pods were all there.")] = None
    queued_time: Annotated[Time | None, Meta(description="Since when it has queued.")] = None
    admitted_time: Annotated[Time | None, Meta(description="Latest admission.")] = None
    finished_time: Annotated[Time | None, Meta(description="When it was over.")] = None


class PodGroup(Object, frozen=True, kw_only=True):
    """A life of a group of pods, or of a single pod, that queues by scheduling gates."""

    spec: Annotated[PodGroupSpec, Meta(description="What its pods ask for.")]
    status: Annotated[PodGroupStatus, Meta(description="Its state.")]


class HistoryEntry(Part, frozen=True, kw_only=True):
    """One thing that happened to the group."""

    time: Annotated[Time, Meta(description="When, by the clock of the event log.")]
    source: Annotated[str, Meta(description="history, wait, decision, outcome or failure.")] = ""
    kind: Annotated[str, Meta(description="What happened, one word.")] = ""
    reason: Annotated[str, Meta(description="Why, one word.")] = ""
    message: Annotated[str, Meta(description="What happened, or why, in words.")] = ""
    pod: Annotated[str, Meta(description="Pod concerned; absent: the group.")] = ""
    rule: Annotated[str, Meta(description="Rule that decided it.")] = ""
    status: Annotated[str, Meta(description="What came of the decision.")] = ""
    decision: Annotated[str, Meta(description="Decision it belongs to.")] = ""
    until: Annotated[Time | None, Meta(description="End of a wait; absent while it lasts.")] = None
    position: Annotated[int, Meta(description="Position in the event log.")] = 0
    order: Annotated[int, Meta(description="Order within the position.")] = 0


class PodGroupHistory(Object, frozen=True, kw_only=True):
    """Everything that happened to a group or pod, in order of the event log."""

    entries: Annotated[list[HistoryEntry], Meta(description="Oldest first.")]


class ExplanationLine(Part, frozen=True, kw_only=True, omit_defaults=False):
    """A word, and what it says of the group; no word: what the one before says goes on."""

    label: Annotated[str, Meta(description="waits for, it takes, short of, held by, ...")]
    text: Annotated[str, Meta(description="A sentence.")]


class PodGroupReasons(Object, frozen=True, kw_only=True):
    """What a group waits for, and what it waited for before, one reason after the other."""

    waits: Annotated[list[Wait], Meta(description="Newest first.")]
    explanation: Annotated[
        list[ExplanationLine],
        Meta(description="Why it is where it is and what it takes, in words; empty in lists."),
    ] = []


class Admission(Part, frozen=True, kw_only=True):
    """One admission: from when to when the group held quota."""

    number: Annotated[int, Meta(description="Counts the admissions of the group from 1.")]
    cluster_queue: Annotated[str, Meta(description="ClusterQueue whose quota it held.")] = ""
    queued_time: Annotated[Time | None, Meta(description="Since when it had queued.")] = None
    admitted_time: Annotated[Time | None, Meta(description="When it was admitted.")] = None
    released_time: Annotated[
        Time | None, Meta(description="When the quota was given back; absent: it is held.")
    ] = None
    release_reason: Annotated[str, Meta(description="Why it was given back.")] = ""
    decided_by: Annotated[str, Meta(description="Decision that admitted it, or kueue.")] = ""
    flavors: Annotated[dict[str, dict[str, str]], Meta(description="Role, resource, flavor.")] = {}
    resources: Annotated[
        dict[str, dict[str, str]], Meta(description="Flavor, resource, amount held.")
    ] = {}


class PodGroupAdmissions(Object, frozen=True, kw_only=True):
    """When a group held quota, of which queue, and why it gave it back."""

    admissions: Annotated[list[Admission], Meta(description="Newest first.")]


class Position(Part, frozen=True, kw_only=True, omit_defaults=False):
    """A position in the order of a queue; 1 is next."""

    cluster_queue: Annotated[str, Meta(description="ClusterQueue it waits in.")]
    local_queue: Annotated[str, Meta(description="LocalQueue it came through.")]
    priority: Annotated[int, Meta(description="Priority; higher goes first.")]
    position_in_cluster_queue: Annotated[
        int, Meta(description="Position in the ClusterQueue, from 1.")
    ]
    position_in_local_queue: Annotated[int, Meta(description="Position in the LocalQueue, from 1.")]
    queued_time: Annotated[Time | None, Meta(description="Since when it has queued.")]
    waiting: Annotated[Wait | None, Meta(description="What it waits for.")]
    expected_start: Annotated[
        ExpectedStart | None, Meta(description="When it starts; null: no forecast knows it.")
    ] = None


class PodGroupPosition(Object, frozen=True, kw_only=True):
    """Position of a waiting group in its queue."""

    position: Annotated[Position, Meta(description="Its position.")]


class FlavorUsage(Part, frozen=True, kw_only=True):
    """One resource of one flavor, as Kubernetes quantities.

    A quota without limit says so in a word, an amount too large to be counted begins with "≥".
    """

    flavor: Annotated[str, Meta(description="ResourceFlavor.")]
    resource: Annotated[str, Meta(description="Resource, such as cpu.")]
    nominal: Annotated[str, Meta(description="Nominal quota of the ClusterQueue.")] = ""
    held: Annotated[str, Meta(description="Held now, as admission counts it.")] = "0"
    borrowed: Annotated[str, Meta(description="What of that is taken from the cohort.")] = ""
    unadmitted: Annotated[
        str, Meta(description="Apart from that, what runs and was never admitted.")
    ] = ""
    idle: Annotated[str, Meta(description="Nominal quota that this queue does not hold.")] = ""
    lent: Annotated[
        str, Meta(description="What of the idle quota others of the cohort hold; its share of it.")
    ] = ""


class QueueCounts(Part, frozen=True, kw_only=True, omit_defaults=False):
    """Groups of a queue, and what they hold."""

    pending: Annotated[int, Meta(description="Groups that wait: the sum of what follows.")] = 0
    composing: Annotated[int, Meta(description="Of these, pods are missing.")] = 0
    queued: Annotated[int, Meta(description="They wait for quota, at a position.")] = 0
    checks: Annotated[int, Meta(description="They hold quota and wait for admission checks.")] = 0
    stopped: Annotated[int, Meta(description="Queue stopped, or Workload deactivated.")] = 0
    blocked: Annotated[int, Meta(description="Only a person can end their wait.")] = 0
    evicted: Annotated[int, Meta(description="They stop, or wait to be queued again.")] = 0
    admitted: Annotated[int, Meta(description="Groups that are admitted: not pending.")] = 0
    oldest: Annotated[
        Time | None, Meta(description="Since when the oldest that waits for quota queues.")
    ] = None


class QueueUsage(Object, frozen=True, kw_only=True):
    """A LocalQueue: who waits and what its groups hold."""

    cluster_queue: Annotated[str, Meta(description="ClusterQueue behind it.")]
    groups: Annotated[QueueCounts, Meta(description="Groups by what they do.")]
    usage: Annotated[list[FlavorUsage], Meta(description="What its groups hold.")]


class QueueWaits(Part, frozen=True, kw_only=True, omit_defaults=False):
    """How long groups waited for quota that were admitted in the last seven days, or wait yet."""

    waits: Annotated[int, Meta(description="How many waits are counted.")]
    still: Annotated[int, Meta(description="How many of them go on.")]
    p50_seconds: Annotated[float, Meta(description="Half of them took no longer.")]
    p90_seconds: Annotated[float, Meta(description="Nine in ten took no longer.")]
    longest_seconds: Annotated[float, Meta(description="The longest.")]


class ClusterQueueUsage(Object, frozen=True, kw_only=True):
    """A ClusterQueue: quota, what is used, borrowed and idle, and who waits."""

    cohort: Annotated[str, Meta(description="Cohort it borrows in.")]
    strategy: Annotated[str, Meta(description="BestEffortFIFO or StrictFIFO.")]
    groups: Annotated[QueueCounts, Meta(description="Groups by what they do.")]
    usage: Annotated[list[FlavorUsage], Meta(description="Quota by flavor and resource.")]
    waits: Annotated[
        QueueWaits | None, Meta(description="How long groups waited; absent: none did.")
    ] = None


class ResourceHours(Part, frozen=True, kw_only=True, omit_defaults=False):
    """How much of a resource pods asked for, in hours times cores, GiB, or how many it was."""

    resource: Annotated[str, Meta(description="Resource; cpu is counted in cores.")]
    running: Annotated[float, Meta(description="While they ran, but for what was wasted.")]
    pods: Annotated[int, Meta(description="Pods that ran.")]
    held: Annotated[
        float, Meta(description="Held and not run: starting, ending, groups not whole.")
    ] = 0
    wasted: Annotated[
        float, Meta(description="Ran and came to nothing: failed, preempted, evicted.")
    ] = 0
    waited: Annotated[float, Meta(description="Asked for at the gate; nothing is taken.")] = 0
    unadmitted: Annotated[
        float, Meta(description="Taken without an admission; in no other number, and free.")
    ] = 0
    capped: Annotated[
        bool, Meta(description="A pod asked for more than any node has, and counts as the most.")
    ] = False
    cost: Annotated[
        float | None, Meta(description="What was taken cost; null: no rates are given.")
    ] = None


class NamespaceUsage(Object, frozen=True, kw_only=True):
    """What the pods of a namespace used on a day (UTC), which is its name."""

    usage: Annotated[list[ResourceHours], Meta(description="By resource.")]
    currency: Annotated[str, Meta(description="Of the cost; empty: no rates are given.")] = ""


class ListMeta(Part, frozen=True, kw_only=True):
    """Standard metadata of a list."""

    resource_version: str = ""
    continue_: str = ""


def listed(kind: str, items: list[Any], version: str, going_on: str) -> dict[str, Any]:
    """Return a list of objects as JSON-ready values."""
    meta: dict[str, Any] = {"resourceVersion": version}
    if going_on:
        meta["continue"] = going_on
    return {"kind": f"{kind}List", "apiVersion": API_VERSION, "metadata": meta, "items": items}


class PodGroupTrialSpec(Part, frozen=True, kw_only=True):
    """What is tried."""

    manifest: Annotated[
        str,
        Meta(
            description="YAML or JSON of Pods, Jobs, Deployments or sets, in several documents or "
            "a List; objects that name no namespace are of the trial's."
        ),
    ] = ""


class PodGroupTrial(Object, frozen=True, kw_only=True):
    """Would these pods start now? It is created to be answered, and kept nowhere."""

    spec: Annotated[PodGroupTrialSpec, Meta(description="What is tried.")]
    status: Annotated[Answer | None, Meta(description="What would become of it.")] = None
