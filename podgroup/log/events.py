"""Events: immutable facts in the log, in the past tense.

A message of the log is a `Batch`: one or more events in order. An event's place is (position of
its message, ordinal in the batch). Tags carry a version; a new field needs a default, a changed
meaning needs a new tag and an upcast in `codec`. Unknown tags are parked, never skipped.

`relist` on a delta names the frame it was listed in. Between `RelistStarted` and `RelistCompleted`
of one kind, an object that the frame lacks is gone: the fold infers its deletion.

Schema history: 2026-11 first version of everything (v1); `WorkloadView.owner_pods` (new field);
`DecisionRefused`, `SettingsRecorded` (new events); `PodDeleted.filtered`,
`RelistCompleted.filtered`, `RelistStarted.by_settings`, `OutcomeRecorded.parked`,
`ContainerEnd.restarts` (new fields); `PodMeasured`, `NodesTaken` (new events); `ClusterRestored`
(new event), `Batch.incarnation` and `Batch.cluster_uid` (new fields).
Invariant: an event never changes once published, and equal deltas of one incarnation have equal
message ids.
"""

from collections.abc import Mapping

from msgspec import Struct

from podgroup.log.outcomes import Status
from podgroup.model.commands import AnyCommand
from podgroup.model.objects import Kind, PodView, QueueObject, Time, WorkloadView
from podgroup.model.policy import Policy


class EventBase(Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True, tag_field="type"):
    """Base of events."""


class PodApplied(EventBase, tag="pod_applied.v1", frozen=True, kw_only=True):
    """A pod was created or changed (or was found by a relist)."""

    pod: PodView
    relist: str = ""


class PodDeleted(EventBase, tag="pod_deleted.v1", frozen=True, kw_only=True):
    """A pod is gone; `pod` is its last state.

    `filtered`: the watch has a label selector, so the pod may still exist, without the label; `pod`
    is then its last state with the label.
    """

    pod: PodView
    filtered: bool = False


class PodMeasured(EventBase, tag="pod_measured.v1", frozen=True, kw_only=True):
    """What a pod really used since the last such event, added up over samples of the metrics API.

    `total` is the sum over `samples` samples, `peak` the largest of them, per resource in the units
    of requests (cpu in thousandths, others in whole units); `from_at` and `to_at` are the times
    of the first and the last sample.
    """

    namespace: str
    uid: str
    from_at: Time
    to_at: Time
    samples: int
    total: Mapping[str, int]
    peak: Mapping[str, int]


class WorkloadApplied(EventBase, tag="workload_applied.v1", frozen=True, kw_only=True):
    """A Workload was created or changed."""

    workload: WorkloadView
    relist: str = ""


class WorkloadDeleted(EventBase, tag="workload_deleted.v1", frozen=True, kw_only=True):
    """A Workload is gone; `workload` is its last state."""

    workload: WorkloadView


class ObjectApplied(EventBase, tag="object_applied.v1", frozen=True, kw_only=True):
    """A queue object, priority class or namespace was created or changed."""

    object: QueueObject
    relist: str = ""


class ObjectDeleted(EventBase, tag="object_deleted.v1", frozen=True, kw_only=True):
    """A queue object, priority class or namespace is gone."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    resource_version: str


class NodesTaken(EventBase, tag="nodes_taken.v1", frozen=True, kw_only=True):
    """What pods that are placed by others take of nodes, as of `at`: node -> resource -> amount.

    Sums of the requests of pods that are bound and not over, in the units of requests, and one of
    `pods` for each. The event leaves nodes that it does not name as they were.
    """

    at: Time
    taken: Mapping[str, Mapping[str, int]]


class RelistStarted(EventBase, tag="relist_started.v1", frozen=True, kw_only=True):
    """A complete LIST of `kind` begins; `reason` says why (start, 410 gone, stream recreated).

    `by_settings`: decisions wait until the log has the settings. False in logs from before settings
    were recorded.
    """

    kind: Kind
    relist: str
    reason: str = ""
    by_settings: bool = False


class RelistCompleted(EventBase, tag="relist_completed.v1", frozen=True, kw_only=True):
    """The LIST is complete as of `resource_version`; `installed` False: the kind is not installed.

    `filtered`: the LIST has a label selector, so objects that are not in it may still exist.
    """

    kind: Kind
    relist: str
    resource_version: str
    count: int = 0
    installed: bool = True
    filtered: bool = False


class WatchProgressed(EventBase, tag="watch_progressed.v1", frozen=True, kw_only=True):
    """A bookmark worth keeping: nothing of `kind` happened up to `resource_version`."""

    kind: Kind
    resource_version: str


class ClusterRestored(EventBase, tag="cluster_restored.v1", frozen=True, kw_only=True):
    """The API server's history is not the log's: etcd was restored, or the cluster is another.

    From here on resource versions are of `incarnation`, and may be lower than before; a complete
    list of every kind follows. `cluster_uid` is the uid of namespace kube-system and `was_uid` its
    uid before, `resource_version` the quorum's version now and `was_version` the highest version
    that the log knew; each is "" if it is not known. `kind` is the kind that showed it.
    """

    incarnation: str
    reason: str
    cluster_uid: str = ""
    was_uid: str = ""
    kind: str = ""
    resource_version: str = ""
    was_version: str = ""


class DeltaRefused(EventBase, tag="delta_refused.v1", frozen=True, kw_only=True):
    """A watch item that could not be read: ingest refused it, with the field's path.

    `unlabelled`: no watch shows the pod, which bears our gate or finalizer and lacks our label.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    resource_version: str
    field: str
    message: str
    group: str = ""
    unlabelled: bool = False


class TimerFired(EventBase, tag="timer_fired.v1", frozen=True, kw_only=True):
    """A timer asked for by the fold fell due."""

    timer: str
    due_at: Time


class OutcomeRecorded(EventBase, tag="outcome_recorded.v1", frozen=True, kw_only=True):
    """What became of one attempt at a decision.

    `delivery` counts deliveries of the decision's message, `attempt` tries within it (both from 1).
    `uid` and `resource_version` are the written object's after the write. `parked` is the place in
    DECISIONS (`sequence/place`) of a decision that was parked because it cannot be read or carried
    out, else "". `unchanged`: the object was as commanded before any write of this decision.
    """

    decision: str
    group: str
    status: Status
    delivery: int = 1
    attempt: int = 1
    http_status: int = 0
    message: str = ""
    uid: str = ""
    resource_version: str = ""
    by: str = ""
    parked: str = ""
    unchanged: bool = False


class DecisionRefused(EventBase, tag="decision_refused.v1", frozen=True, kw_only=True):
    """A message of DECISIONS was parked as no decision of ours: nothing in it is believed.

    `sequence` is its place in the stream, `raw` its beginning. `others` counts messages that were
    refused since the last such event and have no event of their own.
    """

    sequence: int
    subject: str
    reason: str
    raw: str = ""
    others: int = 0
    by: str = ""


class OperatorActed(EventBase, tag="operator_acted.v1", frozen=True, kw_only=True):
    """A person did something to gatelog: `release` or `discard` a parked message, `relist`."""

    action: str
    target: str
    by: str = ""
    message: str = ""


class SettingsRecorded(EventBase, tag="settings_recorded.v1", frozen=True, kw_only=True):
    """The settings of all decisions from here on: a projector publishes them when they changed.

    `kinds` have to be listed before the first decision. `gatelog` is the version of the release,
    `rules` the version of its rules (`rules.VERSION`).
    """

    mode: str
    policy: Policy
    kinds: tuple[str, ...]
    gatelog: str = ""
    rules: int = 0


Event = (
    PodApplied
    | PodDeleted
    | PodMeasured
    | WorkloadApplied
    | WorkloadDeleted
    | ObjectApplied
    | ObjectDeleted
    | NodesTaken
    | RelistStarted
    | RelistCompleted
    | WatchProgressed
    | ClusterRestored
    | DeltaRefused
    | TimerFired
    | OutcomeRecorded
    | DecisionRefused
    | OperatorActed
    | SettingsRecorded
)

SAID_BY: dict[str, frozenset[type[EventBase]]] = {
    "watch": frozenset(
        (
            PodApplied,
            PodDeleted,
            PodMeasured,
            WorkloadApplied,
            WorkloadDeleted,
            ObjectApplied,
            ObjectDeleted,
            NodesTaken,
            RelistStarted,
            RelistCompleted,
            WatchProgressed,
            ClusterRestored,
            DeltaRefused,
        )
    ),
    "actuator": frozenset((OutcomeRecorded, DecisionRefused)),
    "projector": frozenset((TimerFired, OutcomeRecorded, OperatorActed, SettingsRecorded)),
    "operator": frozenset((OperatorActed,)),
}
"""Source of `subjects.Source` -> the events that it may publish."""


class Undecodable(Struct, frozen=True, gc=False, kw_only=True):
    """An event of a batch that cannot be decoded: to be parked as it is."""

    error: str
    raw: bytes


STRANGE = "from another: "
"""Begins the error of an `Undecodable` event that could be decoded but not come from its source."""


class Batch(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One message of EVENTS.

    `positions` (ingest only) is the resource version per kind up to which the watch has been
    published once this message is stored: where a restarted ingester resumes. The versions are of
    the cluster whose namespace kube-system has `cluster_uid` ("": a log from before this field),
    and of its `incarnation`, which changes when versions begin again ("" for the first).
    """

    source: str
    events: tuple[Event | Undecodable, ...]
    positions: Mapping[str, str] = {}
    incarnation: str = ""
    cluster_uid: str = ""


class Decision(Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True):
    """A recorded choice: which rule, why in words, and the command that follows.

    `as_of` is the position of the message after which the rule decided, `number` counts the
    decisions of a cluster from 1. `reason` is a CamelCase word for machines, `message` a sentence
    for people.
    """

    id: str
    number: int
    as_of: int
    at: Time
    group: str
    namespace: str
    name: str
    rule: str
    reason: str
    message: str
    command: AnyCommand


def event_id(event: Event) -> str:
    """Return the id from which message ids are derived: `uid/resourceVersion/type` for a delta.

    The id is unique in one incarnation: after a restore of etcd resource versions come again
    (`codec.message_id`).
    """
    match event:
        case PodApplied(pod=p, relist=r):
            return f"{p.uid}/{p.resource_version}/applied{'/' + r if r else ''}"
        case PodDeleted(pod=p):
            return f"{p.uid}/{p.resource_version}/deleted"
        case PodMeasured():
            return f"{event.uid}/{event.to_at.isoformat()}/measured"
        case WorkloadApplied(workload=w, relist=r):
            return f"{w.uid}/{w.resource_version}/applied{'/' + r if r else ''}"
        case WorkloadDeleted(workload=w):
            return f"{w.uid}/{w.resource_version}/deleted"
        case ObjectApplied(object=o, relist=r):
            return f"{o.uid}/{o.resource_version}/applied{'/' + r if r else ''}"
        case ObjectDeleted():
            return f"{event.uid}/{event.resource_version}/deleted"
        case NodesTaken():
            return f"{min(event.taken, default='')}/{event.at.isoformat()}/taken"
        case RelistStarted():
            return f"{event.relist}/{event.kind}/started"
        case RelistCompleted():
            return f"{event.relist}/{event.kind}/completed"
        case WatchProgressed():
            return f"{event.kind}/{event.resource_version}/progressed"
        case ClusterRestored():
            return f"restored/{event.incarnation}"
        case DeltaRefused():
            return f"{event.uid}/{event.resource_version}/refused"
        case TimerFired():
            return f"timer/{event.timer}/{event.due_at.isoformat()}"
        case OutcomeRecorded():
            return f"{event.decision}/{event.delivery}/{event.attempt}/{event.status}"
        case DecisionRefused():
            return f"refused/{event.subject}/{event.sequence}/{event.by}"
        case OperatorActed():
            return f"operator/{event.action}/{event.target}"
        case SettingsRecorded():
            return f"settings/{event}"
