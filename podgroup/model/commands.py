"""Commands: the imperative payloads of decisions.

Theory. A command says exactly what the actuator writes and under which precondition; it never
leaves the actuator a choice. Every pod command names the uid, so it can do nothing to a successor
of the same name. What has to be known of a command without carrying it out is said here, once
(`About`).
Some are *internal*: they change what gatelog holds to be true and write nothing themselves; the
writes that follow are decisions of their own.

Invariant: carrying out a command twice has the effect of carrying it out once.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from podgroup.model.names import ADMISSION_GATED_BY
from podgroup.model.objects import (
    Assignment,
    CheckView,
    Condition,
    RequeueState,
    Toleration,
    WorkloadView,
)
from podgroup.model.reasons import Effect, effect_of
from podgroup.model.shortage import Preempted
from podgroup.model.standing import Standing
from podgroup.model.topology import NOTHING_ASKED, TopologyRequest


class Value(Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True):
    """Base of command parts."""


class ObjectRef(Value, frozen=True, kw_only=True):
    """An API object: a kind of `objects.Kind`, a name, and the uid it must have ("" if new)."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


class KubeEvent(Value, frozen=True, kw_only=True):
    """A Kubernetes Event to emit once the command has been applied; `on` None is its target."""

    type: str
    reason: str
    message: str
    on: ObjectRef | None = None


class PriorityRef(Value, frozen=True, kw_only=True):
    """spec.priorityClassRef of a Workload; `kind` is WorkloadPriorityClass or PriorityClass."""

    kind: str
    name: str


class PodSetSpec(Value, frozen=True, kw_only=True):
    """A podset to write: its template is filled in from the live pod `sample`.

    Where no pod is there yet `sample` is None and `template` is the declared pod spec as JSON text
    (KEP-976, groups of pods where the driver generates workers). In kueue mode the topology request
    is read from the live pod.
    """

    name: str
    count: int
    sample: ObjectRef | None = None
    requests: Mapping[str, int] = {}
    template: str = ""
    topology: TopologyRequest = NOTHING_ASKED


class Urgency(Enum):
    """In which mode of admission a command goes first, since it starts pods or frees quota."""

    ALWAYS = "always"
    BESIDE_KUEUE = "beside Kueue"
    """In kueue mode no pod starts before its Workload exists; in builtin mode that is a mirror."""
    NEVER = "never"
    """The command shows a state (conditions, status, Events), and can wait."""


class About(NamedTuple):
    """The properties of a command that are known without carrying it out.

    `kind` is what its target must be, "" for several; a pod is never written without its uid.
    `says` are the words of a story, with `{pods}` for names, "" where another line says it; `tone`
    is for colour: good, bad or none. A command that `may_end` its object takes our finalizer off.
    """

    kind: str = ""
    says: str = ""
    tone: str = ""
    urgency: Urgency = Urgency.NEVER
    internal: bool = False
    may_end: bool = False


class Command(Value, tag_field="action", frozen=True, kw_only=True):
    """Base of commands; `target` is the object written, `events` are emitted on success."""

    about: ClassVar[About]
    target: ObjectRef
    events: tuple[KubeEvent, ...] = ()

    @property
    def action(self) -> str:
        """The command's name on the wire."""
        return type(self).__name__

    @property
    def awaited(self) -> str:
        """The action whose effect the object shows once the command was carried out."""
        return type(self).__name__


class UngatePod(Command, tag="UngatePod", frozen=True, kw_only=True):
    """Remove `gates` and merge selector, tolerations, labels and annotations, in one patch.

    A key that is already there with another value is a conflict: rejected, nothing is written.
    Only annotations named in `replaces` give way. Labels and annotations that are not ours are
    written if a ready admission check of `workload` wants them.
    """

    about: ClassVar[About] = About("Pod", "ungate {pods}", "good", Urgency.ALWAYS)

    gates: tuple[str, ...]
    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    replaces: tuple[str, ...] = ()
    workload: str = ""


class FinalizePod(Command, tag="FinalizePod", frozen=True, kw_only=True):
    """Remove our finalizer; others' finalizers stay. `replaced`: another pod has its place."""

    about: ClassVar[About] = About("Pod", "release {pods}", urgency=Urgency.ALWAYS, may_end=True)

    replaced: bool = False


class DeletePod(Command, tag="DeletePod", frozen=True, kw_only=True):
    """Remove our finalizer, then delete the pod (an excess pod).

    `grace_s` is the grace period in seconds; None leaves the period to the pod.
    """

    about: ClassVar[About] = About("Pod", "delete {pods}", "bad", Urgency.ALWAYS, may_end=True)

    grace_s: int | None = None


class StopPod(Command, tag="StopPod", frozen=True, kw_only=True):
    """Write condition TerminationTarget=True with reason and message, then delete the pod.

    With `finalize` our finalizer goes as well. `grace_s` is the grace period in seconds; None
    leaves the period to the pod. A deletion under way with a longer grace period is shortened.
    """

    about: ClassVar[About] = About("Pod", "stop {pods}", "bad", Urgency.ALWAYS)

    reason: str
    message: str
    finalize: bool = False
    grace_s: int | None = None

    @property
    def awaited(self) -> str:
        """With `finalize` the effect is complete once our finalizer is off as well."""
        return "DeletePod" if self.finalize else "StopPod"


class KeepPod(Command, tag="KeepPod", frozen=True, kw_only=True):
    """Put label kueue.x-k8s.io/managed back on a pod that runs, so that it stays in sight.

    Obsolete where the pod is gone, which becomes known by this outcome.
    """

    about: ClassVar[About] = About("Pod", "put the label back on {pods}", "bad")


class ReportPod(Command, tag="ReportPod", frozen=True, kw_only=True):
    """Write condition gatelog.io/admitted of a pod: why the pod waits, or that its wait is over.

    Nothing else of the pod changes, and nothing waits for this write.
    """

    about: ClassVar[About] = About("Pod", "say so on {pods}")

    status: str
    reason: str
    message: str


class Admission(Value, frozen=True, kw_only=True):
    """status.admission to mirror."""

    cluster_queue: str
    assignments: tuple[Assignment, ...]


class WriteWorkloadStatus(Command, tag="WriteWorkloadStatus", frozen=True, kw_only=True):
    """Merge into status: conditions by type, admission, reclaimable pods.

    `clear_admission` sets status.admission to null by merge patch, which is the only way that
    undoes an admission owned by another field manager. Guarded by the live resourceVersion and
    re-read on conflict. `checks` are the AdmissionChecks that the status is to list: new ones are
    Pending, others keep what their controllers said, unless `reset_checks` puts all to Pending.
    `requeue` is status.requeueState, none if nothing is in it.
    """

    about: ClassVar[About] = About("Workload")

    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    clear_admission: bool = False
    reclaimable: Mapping[str, int] | None = None
    executed_s: int | None = None
    checks: tuple[str, ...] | None = None
    reset_checks: bool = False
    requeue: RequeueState | None = None

    def on(self, view: WorkloadView) -> WorkloadView:
        """Return a Workload as this write leaves it, but for its version."""
        conditions = {c.type: c for c in (*view.conditions, *self.conditions)}
        changes: dict[str, Any] = {"conditions": tuple(conditions.values())}
        if self.admission is not None:
            changes["cluster_queue"] = self.admission.cluster_queue
            changes["assignments"] = self.admission.assignments
        if self.clear_admission:
            changes |= {"cluster_queue": "", "assignments": ()}
        if self.reclaimable is not None:
            changes["reclaimable"] = self.reclaimable
        if self.executed_s is not None:
            changes["executed_s"] = self.executed_s
        if self.requeue is not None:
            changes["requeue"] = self.requeue
        if self.checks is not None:
            known = {} if self.reset_checks else {check.name: check for check in view.checks}
            changes["checks"] = tuple(
                known.get(name, CheckView(name=name, state="Pending")) for name in self.checks
            )
        return replace(view, **changes)


class CreateWorkload(Command, tag="CreateWorkload", frozen=True, kw_only=True):
    """Create the Workload of a group or single pod.

    `controller` makes the only owner the controlling one (single pods). At most
    `names.MAX_OWNERS` owner references are written, since each costs bytes of a 1.5 MiB object.
    Without `topology` no podset requests a topology, whatever its pods say. `status` is written in
    the same request where the API server takes a new object's status, else in a second request.
    With `trim` the templates of a Workload that is too large may lack what is not counted.
    """

    about: ClassVar[About] = About("Workload", "write the Workload", urgency=Urgency.BESIDE_KUEUE)

    queue: str
    pod_sets: tuple[PodSetSpec, ...]
    owners: tuple[ObjectRef, ...]
    controller: bool = False
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    priority: int = 0
    priority_ref: PriorityRef | None = None
    max_execution_s: int | None = None
    topology: bool = True
    status: WriteWorkloadStatus | None = None
    trim: bool = False


class UpdateWorkload(Command, tag="UpdateWorkload", frozen=True, kw_only=True):
    """Change metadata or spec of a Workload; None leaves a field alone.

    `controller` makes the added owner the controlling one. `max_execution_s` 0 takes the bound
    away, `gated_by` "" the annotation admission-gated-by.
    """

    about: ClassVar[About] = About("Workload", urgency=Urgency.BESIDE_KUEUE)

    add_owners: tuple[ObjectRef, ...] = ()
    controller: bool = False
    labels: Mapping[str, str] = {}
    active: bool | None = None
    max_execution_s: int | None = None
    queue: str | None = None
    pod_sets: tuple[PodSetSpec, ...] | None = None
    priority: int | None = None
    priority_ref: PriorityRef | None = None
    gated_by: str | None = None

    def annotated(self, before: Mapping[str, str]) -> Mapping[str, str]:
        """Return the annotations of a Workload as this write leaves them; none is added."""
        if self.gated_by is None or ADMISSION_GATED_BY not in before:
            return before
        after = {**before, ADMISSION_GATED_BY: self.gated_by}
        return {key: text for key, text in after.items() if text or key != ADMISSION_GATED_BY}


class FinalizeWorkload(Command, tag="FinalizeWorkload", frozen=True, kw_only=True):
    """Remove our finalizer from a Workload; with `delete` delete the Workload too."""

    about: ClassVar[About] = About("Workload", urgency=Urgency.BESIDE_KUEUE, may_end=True)

    delete: bool = False

    @property
    def awaited(self) -> str:
        """With `delete` the deletion is the effect, and not that our finalizer is off."""
        return "DeleteWorkload" if self.delete else "FinalizeWorkload"


class WriteQueueStatus(Command, tag="WriteQueueStatus", frozen=True, kw_only=True):
    """Merge a condition into the status of a ClusterQueue, Cohort or LocalQueue."""

    about: ClassVar[About] = About()

    condition: Condition


class MarkInUse(Command, tag="MarkInUse", frozen=True, kw_only=True):
    """Put the finalizer of objects in use on a queue, flavor or check; with `off` take it off.

    An object that is being deleted gets no finalizer: the API server refuses that.
    """

    about: ClassVar[About] = About()

    off: bool = False


class ReportQueue(Command, tag="ReportQueue", frozen=True, kw_only=True):
    """Write counts and usage into the status of a ClusterQueue, Cohort or LocalQueue.

    `fair_sharing`: the share as well. Of a Cohort nothing else is written.
    """

    about: ClassVar[About] = About()

    standing: Standing
    fair_sharing: bool = False


class EmitEvent(Command, tag="EmitEvent", frozen=True, kw_only=True):
    """Write nothing but the Kubernetes Events in `events`."""

    about: ClassVar[About] = About()


class ComposeGroup(Command, tag="ComposeGroup", frozen=True, kw_only=True):
    """Internal: roles, counts and priority are fixed, in place of a Workload that would say so.

    `pod_sets` None: only the priority changes.
    """

    about: ClassVar[About] = About(says="priority changed", internal=True)

    priority: int
    priority_ref: PriorityRef | None = None
    pod_sets: tuple[PodSetSpec, ...] | None = None


class AdmitGroup(Command, tag="AdmitGroup", frozen=True, kw_only=True):
    """Internal: the group holds this quota from now on (builtin mode).

    With `checks` the quota is reserved until these AdmissionChecks agree; the same command without
    `checks` follows then.
    """

    about: ClassVar[About] = About(internal=True)

    cluster_queue: str
    assignments: tuple[Assignment, ...]
    checks: tuple[str, ...] = ()


class ResizeGroup(Command, tag="ResizeGroup", frozen=True, kw_only=True):
    """Internal: the owner of the pods wants other counts of places per role from now on.

    `assignments` is the quota that the group holds for them; None for a group without quota.
    """

    about: ClassVar[About] = About(says="resized", internal=True)

    counts: Mapping[str, int]
    assignments: tuple[Assignment, ...] | None = None


class ReplaceNodes(Command, tag="ReplaceNodes", frozen=True, kw_only=True):
    """Internal: `nodes` failed, and the group's pods have places on other nodes instead."""

    about: ClassVar[About] = About(says="given other nodes", internal=True)

    nodes: tuple[str, ...]
    assignments: tuple[Assignment, ...]


class EvictGroup(Command, tag="EvictGroup", frozen=True, kw_only=True):
    """Internal: the group must stop. `preempted_by` is the group id of a preemptor.

    With `requeue_after_s` the group stays out of the queue for so many seconds. `preemption` is the
    state of victim and preemptor; None for other evictions, and in logs from before this field.
    `told` is what follows from the reason; None in older logs, which have the word alone.
    """

    about: ClassVar[About] = About(says="evicted", tone="bad", internal=True)

    reason: str
    message: str
    preempted_by: str = ""
    requeue_after_s: int = 0
    preemption: Preempted | None = None
    told: Effect | None = field(default=None, name="effect")

    @property
    def effect(self) -> Effect:
        """What follows from the reason."""
        return self.told or effect_of(self.reason)


class ReleaseQuota(Command, tag="ReleaseQuota", frozen=True, kw_only=True):
    """Internal: the group no longer holds quota; `requeue` says whether it queues again."""

    about: ClassVar[About] = About(says="quota released", internal=True)

    reason: str
    message: str
    requeue: bool = False


class FinishGroup(Command, tag="FinishGroup", frozen=True, kw_only=True):
    """Internal: the group is over. `reason` is the Finished reason (Succeeded, Failed, ...)."""

    about: ClassVar[About] = About(says="finished", tone="good", internal=True)

    reason: str
    message: str


Write = (
    UngatePod
    | FinalizePod
    | DeletePod
    | StopPod
    | KeepPod
    | ReportPod
    | CreateWorkload
    | UpdateWorkload
    | WriteWorkloadStatus
    | FinalizeWorkload
    | WriteQueueStatus
    | MarkInUse
    | ReportQueue
    | EmitEvent
)
Internal = (
    ComposeGroup | AdmitGroup | ResizeGroup | ReplaceNodes | EvictGroup | ReleaseQuota | FinishGroup
)
AnyCommand = Write | Internal

COMMANDS: Final[Mapping[str, type[Command]]] = {
    kind.__name__: kind for kind in get_args(AnyCommand)
}
"""Every command by its name on the wire."""
INTERNAL: Final = tuple(kind for kind in COMMANDS.values() if kind.about.internal)
SILENCING: Final = (WriteWorkloadStatus, FinalizeWorkload)
"""Commands that change only that a write of the Workload is in flight: no rule reads that."""
ENDING: Final = frozenset({"DeleteWorkload", *(n for n, c in COMMANDS.items() if c.about.may_end)})
"""Commands that may end their object: they take our finalizer off, or delete the object."""
