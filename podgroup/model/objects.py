"""Views: the parts of API objects that matter for admission, scheduling and diagnosis.

Theory. The log carries views, not objects: managedFields, environment values, commands and volumes
never enter it, so a message stays small and a leaked log leaks no secret. `ingest.translate` makes
views from watch items; everything after it knows views only.

Amounts of resources are integers: milli-units for `cpu`, whole units (bytes, devices) for all else,
rounded up. Times are aware UTC. Invariant: a view is a value and is never changed.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal, NamedTuple, cast

from msgspec import Meta

from podgroup.model.least_run import Times
from podgroup.model.limits import cut
from podgroup.model.meaning import Means, Shared, View, Write
from podgroup.model.names import (
    ADMISSION_GATED_BY,
    ADMITTED_CONDITION,
    MANAGED_LABEL,
    POD_FINALIZER,
    QUEUE_NAME,
)
from podgroup.model.policy import Asks, counts_devices
from podgroup.model.reasons import pull_failed
from podgroup.model.topology import NOTHING_ASKED, TopologyAssignment, TopologyRequest

Time = Annotated[datetime, Meta(tz=True)]
"""A moment, always with its offset: moments without an offset cannot be compared with others."""


SPELT_OUT = 16
"""Owners of a Workload up to which each is written out."""


class OwnerRef(View, frozen=True, kw_only=True):
    """An entry of metadata.ownerReferences."""

    kind: str
    name: str
    uid: str
    api_version: str = ""
    controller: bool = False


class Toleration(View, frozen=True, kw_only=True):
    """A toleration as the API server returns it."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    @property
    def excludes(self) -> bool:
        """As a taint: pods without a toleration are kept away."""
        return self.effect in ("NoSchedule", "NoExecute")


class Requirement(View, frozen=True, kw_only=True):
    """One expression of a label selector or node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeTerm(View, frozen=True, kw_only=True):
    """A term of required node affinity: expressions on node labels, all of which must hold."""

    expressions: tuple[Requirement, ...] = ()


class Selector(View, frozen=True, kw_only=True):
    """A metav1.LabelSelector; both parts empty matches everything."""

    labels: Mapping[str, str] = {}
    expressions: tuple[Requirement, ...] = ()


class Condition(View, frozen=True, kw_only=True):
    """A status condition; `at` is its last transition."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    at: Time | None = None


def to_write(kind: str, status: str, reason: str, message: str) -> Condition:
    """Return a condition that we write, with its texts cut as they will be read again."""
    return Condition(type=kind, status=status, reason=reason, message=cut(message))


class ContainerEnd(View, frozen=True, kw_only=True):
    """How a container of a pod last ended, and how often it was started again."""

    name: str
    exit_code: int = 0
    reason: str = ""
    finished_at: Time | None = None
    restarts: int = 0


BACK_OFF_PULLING: Final = "ImagePullBackOff"
PULL_FAILED: Final = "ErrImagePull"
CRASHING: Final = "CrashLoopBackOff"


class ContainerWait(View, frozen=True, kw_only=True):
    """Why a container of a pod does not run, beyond that the pod is being started.

    `image` is given where the reason is about the image.
    """

    name: str
    reason: str
    message: str = ""
    image: str = ""
    init: bool = False


class PodClaim(View, frozen=True, kw_only=True):
    """An entry of spec.resourceClaims: the name of a ResourceClaim or ResourceClaimTemplate."""

    name: str
    claim: str = ""
    template: str = ""


class DeclaredSet(View, frozen=True, kw_only=True):
    """One entry of annotation pod-group-sets: pods that a group says it will have (KEP-976).

    `requests` is what one pod of the set asks of a node. `template` is the pod spec as JSON text,
    less what has nothing to do with scheduling; "" means that the pods are created beforehand and
    speak for themselves. `role` is the role hash of the template. Selector, tolerations, terms and
    devices are the template's, as in `PodView`.
    """

    name: str
    count: int = 1
    requests: Mapping[str, int] = {}
    role: str = ""
    template: str = ""
    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    node_terms: tuple[NodeTerm, ...] = ()
    topology: TopologyRequest = NOTHING_ASKED
    resource_claims: tuple[PodClaim, ...] = ()
    device_requests: Mapping[str, int] = {}


def _held(finalizers: tuple[str, ...]) -> bool:
    """Return whether our finalizer is among these."""
    return POD_FINALIZER in finalizers


def _ours(labels: Mapping[str, str]) -> object:
    """Return whether the pod is ours at all.

    The fold forgets a pod that is not ours, and takes an event about an unknown pod only in the
    order of all pods.
    """
    return labels.get(MANAGED_LABEL), bool(labels.get(QUEUE_NAME))


def _gated_by(annotations: Mapping[str, str]) -> object:
    """Return who holds the admission back: a controller that is done expects the admission."""
    return annotations.get(ADMISSION_GATED_BY)


def _amounts(requests: Mapping[str, int]) -> object:
    """Return the requests without their order."""
    return tuple(sorted(requests.items()))


def _statuses(conditions: tuple[Condition, ...]) -> object:
    """Return types, statuses and reasons of conditions that others write."""
    return tuple((c.type, c.status, c.reason) for c in conditions if c.type != ADMITTED_CONDITION)


def _in_the_way(waiting: tuple[ContainerWait, ...]) -> object:
    """Return what containers wait for, without messages; a failed pull counts as backing off."""
    return tuple(
        (one.name, BACK_OFF_PULLING if pull_failed(one.reason) else one.reason) for one in waiting
    )


ENDED: Final = ("Succeeded", "Failed")
"""Phases of a pod whose containers have all ended."""


class PodView(View, frozen=True, kw_only=True):
    """A pod, as far as queueing and diagnosis care; each field with what it `Means`.

    `labels` are complete; `annotations` only those under kueue.x-k8s.io/. `requests` is what the
    pod takes of a node, as kube-scheduler adds it up: while the pod is resized in place the larger
    of request and grant. `role` is the role-hash annotation, or without it the hash computed from
    the pod (`role_annotated` says which). `writer` is the field manager of the latest write that
    was no status write, as managedFields have it, and `written_at` its time (whole seconds).

    Annotation pod-group-sets is not among `annotations`: its declaration is in `sets`, its fault in
    `sets_problem`, and `sets_key` ("" without the annotation) is the same for the same declaration,
    however it is written.

    `grace_s` is the grace period of the pod's deletion, `termination_grace_s` the period in its
    spec, in seconds (68 years at most).

    `devices`: the pod requests devices by `resource_claims` (DRA). `generated_claims` are pairs: an
    entry of these, and the claim that was made for the entry from its template. `device_requests`
    is what devices change in `requests`, which includes the change: more of one resource, less of
    another by which containers request a DeviceClass. The fold alone sets it, while it counts
    devices (`podgroup.state.devices`).
    `unread` says of each field over its bound that it is left out, and why. `too_large` names
    fields that are left out because the pod would take too much memory, `crowded` those left out
    because the pods of its namespace do. Such a pod starts no group. `scheduling_group` is the
    PodGroup of Kubernetes that its spec names (KEP-4671).
    """

    uid: Annotated[str, Means()]
    namespace: Annotated[str, Means(shared=Shared.VALUE)]
    name: Annotated[str, Means(read=True)]
    resource_version: Annotated[str, Means(by=Write.ANY)]
    created_at: Annotated[Time, Means(read=True, shared=Shared.TIME)]
    deleted_at: Annotated[Time | None, Means(at_once=True, by=Write.METADATA)] = None
    grace_s: Annotated[int | None, Means(at_once=True, by=Write.METADATA)] = None
    termination_grace_s: Annotated[int, Means(shared=Shared.VALUE)] = 30
    labels: Annotated[
        Mapping[str, str],
        Means(at_once=_ours, read=True, by=Write.METADATA, shared=Shared.MAP),
    ] = {}
    annotations: Annotated[
        Mapping[str, str],
        Means(at_once=_gated_by, read=True, by=Write.METADATA, shared=Shared.MAP),
    ] = {}
    finalizers: Annotated[
        tuple[str, ...], Means(at_once=_held, by=Write.METADATA, shared=Shared.VALUE)
    ] = ()
    owners: Annotated[tuple[OwnerRef, ...], Means(shared=Shared.VALUE)] = ()
    gates: Annotated[
        tuple[str, ...], Means(at_once=True, read=True, by=Write.METADATA, shared=Shared.VALUE)
    ] = ()
    writer: Annotated[str, Means(by=Write.METADATA, shared=Shared.VALUE)] = ""
    written_at: Annotated[Time | None, Means(by=Write.METADATA)] = None
    role: Annotated[str, Means(read=True, shared=Shared.VALUE)] = ""
    role_annotated: Annotated[bool, Means(read=True)] = False
    requests: Annotated[
        Mapping[str, int], Means(at_once=_amounts, read=True, shared=Shared.MAP)
    ] = {}
    qos: Annotated[str, Means(shared=Shared.VALUE)] = ""
    priority: Annotated[int | None, Means()] = None
    priority_class: Annotated[str, Means(read=True, shared=Shared.VALUE)] = ""
    node_selector: Annotated[Mapping[str, str], Means(read=True, shared=Shared.MAP)] = {}
    tolerations: Annotated[tuple[Toleration, ...], Means(read=True, shared=Shared.VALUE)] = ()
    node_terms: Annotated[tuple[NodeTerm, ...], Means(read=True, shared=Shared.VALUE)] = ()
    scheduler: Annotated[str, Means(shared=Shared.VALUE)] = ""
    node: Annotated[str, Means(at_once=True, by=Write.STATUS, shared=Shared.VALUE)] = ""
    phase: Annotated[str, Means(at_once=True, by=Write.STATUS, shared=Shared.VALUE)] = ""
    reason: Annotated[str, Means(at_once=True, by=Write.STATUS)] = ""
    message: Annotated[str, Means(by=Write.STATUS)] = ""
    started_at: Annotated[Time | None, Means(at_once=True, by=Write.STATUS)] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Means(at_once=_statuses, by=Write.STATUS, shared=Shared.CONDITIONS),
    ] = ()
    ends: Annotated[tuple[ContainerEnd, ...], Means(at_once=True, by=Write.STATUS)] = ()
    waiting: Annotated[tuple[ContainerWait, ...], Means(at_once=_in_the_way, by=Write.STATUS)] = ()
    sets: Annotated[tuple[DeclaredSet, ...], Means()] = ()
    sets_key: Annotated[str, Means(read=True)] = ""
    sets_problem: Annotated[str, Means(read=True)] = ""
    unread: Annotated[tuple[str, ...], Means(at_once=True, read=True)] = ()
    devices: Annotated[bool, Means(read=True)] = False
    too_large: Annotated[str, Means(read=True)] = ""
    crowded: Annotated[str, Means(read=True)] = ""
    scheduling_group: Annotated[str, Means(read=True, shared=Shared.VALUE)] = ""
    resource_claims: Annotated[tuple[PodClaim, ...], Means(read=True, shared=Shared.VALUE)] = ()
    generated_claims: Annotated[
        tuple[tuple[str, str], ...],
        Means(at_once=True, read=True, by=Write.STATUS, shared=Shared.VALUE),
    ] = ()
    device_requests: Annotated[Mapping[str, int], Means(read=True, shared=Shared.MAP)] = {}

    @property
    def ended(self) -> bool:
        """Each container has ended: phase Succeeded or Failed."""
        return self.phase in ENDED


class PodSetView(View, frozen=True, kw_only=True):
    """A podset of a Workload: `requests` per pod."""

    name: str
    count: int = 1
    requests: Mapping[str, int] = {}
    topology: TopologyRequest = NOTHING_ASKED


class PodSetUpdate(View, frozen=True, kw_only=True):
    """What a ready admission check wants merged into the pods of one podset."""

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class CheckView(View, frozen=True, kw_only=True):
    """State of one admission check of a Workload."""

    name: str
    state: str
    message: str = ""
    updates: tuple[PodSetUpdate, ...] = ()
    requeue_after_s: int = 0
    """How long its group stays out of the queue after Retry."""


class Assignment(View, frozen=True, kw_only=True):
    """What quota admission gave one podset: resource -> flavor; usage is for all its pods.

    `place` is where the pods go; `topology`: they get places, now or later. `shared` is the part of
    `usage` that the pods have in common: ResourceClaims that they share.
    """

    name: str
    flavors: Mapping[str, str] = {}
    usage: Mapping[str, int] = {}
    count: int = 0
    topology: bool = False
    place: TopologyAssignment | None = None
    shared: Mapping[str, int] = {}

    def each(self, resource: str) -> int:
        """Return how much of a resource one pod is given."""
        own = self.usage.get(resource, 0) - self.shared.get(resource, 0)
        return own // max(self.count, 1)


class RequeueState(View, frozen=True, kw_only=True):
    """status.requeueState: how often it was not ready in time, and the end of its back-off."""

    count: int = 0
    at: Time | None = None


NOT_REQUEUED = RequeueState()
"""The requeue state of a Workload without status.requeueState."""


class WorkloadView(View, frozen=True, kw_only=True):
    """A kueue.x-k8s.io Workload (v1beta1 and v1beta2 read alike).

    A group of a thousand pods has a thousand owners, in each delta of its Workload. Where owners
    are many, plain pods that do not control the Workload are in `owner_pods` instead of `owners`
    (`split_owners`): their uids, smallest first, joined by commas.
    """

    uid: str
    namespace: str
    name: str
    resource_version: str
    created_at: Time
    deleted_at: Time | None = None
    generation: int = 0
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owners: tuple[OwnerRef, ...] = ()
    owner_pods: str = ""
    active: bool = True
    because: str = ""
    """Why a person stopped or resumed the Workload, as in `LocalQueueView`."""
    queue: str = ""
    priority: int | None = None
    priority_class: str = ""
    priority_class_kind: str = ""
    max_execution_s: int | None = None
    pod_sets: tuple[PodSetView, ...] = ()
    conditions: tuple[Condition, ...] = ()
    cluster_queue: str = ""
    assignments: tuple[Assignment, ...] = ()
    checks: tuple[CheckView, ...] = ()
    reclaimable: Mapping[str, int] = {}
    executed_s: int = 0
    requeue: RequeueState = NOT_REQUEUED
    unhealthy_nodes: tuple[str, ...] = ()
    """Nodes that failed under its pods, until Kueue has given them other places (kueue mode)."""
    problem: str = ""
    """Path and fault of the first wrong amount or count, which counts as 0."""

    @property
    def owner_uids(self) -> list[str]:
        """Uids of all owners, from `owners` and `owner_pods`."""
        found = [owner.uid for owner in self.owners]
        return found + self.owner_pods.split(",") if self.owner_pods else found


def split_owners(owners: Sequence[OwnerRef]) -> tuple[tuple[OwnerRef, ...], str]:
    """Return `owners` and `owner_pods` of a Workload with these owners."""
    if len(owners) <= SPELT_OUT:
        return tuple(owners), ""
    pods: list[str] = []
    others: list[OwnerRef] = []
    for owner in owners:
        if owner.kind == "Pod" and not owner.controller and owner.uid and "," not in owner.uid:
            pods.append(owner.uid)
        else:
            others.append(owner)
    return tuple(others), ",".join(sorted(pods))


WHOLE = 10**9
"""A weight of 1: weights of fair sharing are in thousandths of millionths."""


class LocalQueueView(View, tag_field="kind", tag="LocalQueue", frozen=True, kw_only=True):
    """A LocalQueue: the name users put on pods, and the ClusterQueue behind it."""

    uid: str
    namespace: str
    name: str
    resource_version: str
    cluster_queue: str
    stop_policy: str = "None"
    because: str = ""
    """Why a person stopped or resumed the queue, and who (annotations gatelog.io/reason, -by)."""
    weight_nano: int = WHOLE
    problem: str = ""
    """Path and fault of the first field that is wrong; "" if all can be used. A wrong quota or
    limit counts as 0, a wrong weight as 1, a wrong word as the default."""
    active: tuple[str, ...] = ()
    """Status, reason and message of its condition Active; () without the condition."""
    unread: tuple[str, ...] = ()
    """Paths below spec that a person wrote and gatelog does not read."""


class Quota(View, frozen=True, kw_only=True):
    """Quota of one resource in one flavor, in the integer amounts of this module."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


class FlavorQuotas(View, frozen=True, kw_only=True):
    """Quotas of one flavor in a resource group, by resource."""

    name: str
    resources: Mapping[str, Quota] = {}


class ResourceGroup(View, frozen=True, kw_only=True):
    """Resources that must come from one flavor together; flavors in order of preference."""

    covered: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


class CohortView(View, tag_field="kind", tag="Cohort", frozen=True, kw_only=True):
    """A Cohort: quota that the ClusterQueues below it share; `parent` "" is a root."""

    uid: str
    name: str
    resource_version: str
    namespace: str = ""
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    weight_nano: int = WHOLE
    problem: str = ""
    """As in `LocalQueueView`."""
    active: tuple[str, ...] = ()
    """As in `LocalQueueView`."""
    unread: tuple[str, ...] = ()
    """As in `LocalQueueView`."""


class ClusterQueueView(View, tag_field="kind", tag="ClusterQueue", frozen=True, kw_only=True):
    """A ClusterQueue. `namespaces` None selects no namespace, an empty selector all of them.

    `usage_based`: its LocalQueues share by what they used (admissionScope).
    """

    uid: str
    name: str
    resource_version: str
    namespace: str = ""
    strategy: str = "BestEffortFIFO"
    namespaces: Selector | None = None
    groups: tuple[ResourceGroup, ...] = ()
    within_cluster_queue: str = "Never"
    reclaim_within_cohort: str = "Never"
    borrow_within_cohort: str = "Never"
    max_priority_threshold: int | None = None
    when_can_preempt: str = "TryNextFlavor"
    when_can_borrow: str = "MayStopSearch"
    preference: str = ""
    cohort: str = ""
    stop_policy: str = "None"
    because: str = ""
    """As in `LocalQueueView`."""
    checks: tuple[str, ...] = ()
    check_flavors: Mapping[str, tuple[str, ...]] = {}
    """Checks that are for some flavors only, by name."""
    weight_nano: int = WHOLE
    problem: str = ""
    """As in `LocalQueueView`."""
    usage_based: bool = False
    active: tuple[str, ...] = ()
    """As in `LocalQueueView`."""
    unread: tuple[str, ...] = ()
    """As in `LocalQueueView`."""
    marked: bool = False
    """The queue has the finalizer of objects in use."""
    marking: str = ""
    """Decision in flight that puts the finalizer on or takes it off; never on the wire."""
    deleting: bool = False
    """Its deletion was requested."""


class FlavorView(View, tag_field="kind", tag="ResourceFlavor", frozen=True, kw_only=True):
    """A ResourceFlavor: labels and tolerations that its pods are given."""

    uid: str
    name: str
    resource_version: str
    namespace: str = ""
    node_labels: Mapping[str, str] = {}
    taints: tuple[Toleration, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""
    """The Topology that its nodes are in; "" if none."""
    marked: bool = False
    """As in `ClusterQueueView`."""
    marking: str = ""
    deleting: bool = False


class Since(View, frozen=True, kw_only=True):
    """A place in the log: the position of a message, and its timestamp."""

    seq: int = 0
    at: Time | None = None


NOT_SINCE = Since()
"""The value of a view that comes from the wire."""


class TopologyView(View, tag_field="kind", tag="Topology", frozen=True, kw_only=True):
    """A Topology: the label keys of its levels, outermost first."""

    uid: str
    name: str
    resource_version: str
    namespace: str = ""
    levels: tuple[str, ...] = ()
    since: Since = NOT_SINCE
    """As in `NodeView`."""


class NodeView(View, tag_field="kind", tag="Node", frozen=True, kw_only=True):
    """A node, as far as places depend on it; known while a ResourceFlavor names a Topology.

    `ready`: its condition Ready is True. `reporting`: the condition is False, which the kubelet
    writes, so the kubelet answers; the node controller writes Unknown when the kubelet no longer
    renews its Lease. `taken` is what pods take of the node that others placed: the sum of their
    requests, and one of `pods` for each; an event of the node itself leaves `taken` as it was
    (`NodesTaken`). `unread` says of each label over the bound that it is left out.
    """

    name: str
    uid: str = ""
    resource_version: str = ""
    namespace: str = ""
    labels: Mapping[str, str] = {}
    taints: tuple[Toleration, ...] = ()
    allocatable: Mapping[str, int] = {}
    taken: Mapping[str, int] = {}
    ready: bool = True
    reporting: bool = False
    unschedulable: bool = False
    unread: tuple[str, ...] = ()
    since: Since = NOT_SINCE
    """The place in the log of the node's last change; never on the wire."""

    def has_labels(self, labels: Mapping[str, str], keys: Iterable[str]) -> bool:
        """Whether the node has a flavor's labels, and the keys of its levels with any value."""
        return labels.items() <= self.labels.items() and all(key in self.labels for key in keys)


class AdmissionCheckView(View, tag_field="kind", tag="AdmissionCheck", frozen=True, kw_only=True):
    """An AdmissionCheck: a condition beside quota, which another controller decides."""

    uid: str
    name: str
    resource_version: str
    namespace: str = ""
    controller: str = ""
    active: tuple[str, ...] = ()
    """As in `LocalQueueView`; its controller writes it."""
    marked: bool = False
    """As in `ClusterQueueView`."""
    marking: str = ""
    deleting: bool = False


class WorkloadPriorityClassView(
    View, tag_field="kind", tag="WorkloadPriorityClass", frozen=True, kw_only=True
):
    """A WorkloadPriorityClass: a priority for queueing only.

    `least_run` is how long its groups run before they give way; `problem` says why the annotation
    of that time cannot be read, "" if it can.
    """

    uid: str
    name: str
    resource_version: str
    value: int
    namespace: str = ""
    least_run: Times = ()
    problem: str = ""


class PriorityClassView(View, tag_field="kind", tag="PriorityClass", frozen=True, kw_only=True):
    """A scheduling.k8s.io PriorityClass."""

    uid: str
    name: str
    resource_version: str
    value: int
    global_default: bool = False
    namespace: str = ""


class NamespaceView(View, tag_field="kind", tag="Namespace", frozen=True, kw_only=True):
    """A namespace and its labels."""

    uid: str
    name: str
    resource_version: str
    labels: Mapping[str, str] = {}
    namespace: str = ""
    deleted_at: Time | None = None


class StatefulSetView(View, tag_field="kind", tag="StatefulSet", frozen=True, kw_only=True):
    """A StatefulSet: how many pods it wants; known while `queueing.owned_groups` names any kind.

    The StatefulSet of a LeaderWorkerSet's leaders has the same name, and one pod for each replica.
    """

    uid: str
    namespace: str
    name: str
    resource_version: str
    replicas: int = 1


class ResourceClaimView(View, tag_field="kind", tag="ResourceClaim", frozen=True, kw_only=True):
    """A ResourceClaim. `devices` is how many devices it requests, by DeviceClass.

    Requests with admin access count nothing. `pod` is the uid of the pod for which the claim was
    made from a template. `problem` is path and fault of the first request that names no number of
    devices; of such a request the allocated devices count.
    """

    uid: str
    namespace: str
    name: str
    resource_version: str
    devices: Mapping[str, int] = {}
    problem: str = ""
    pod: str = ""


class ResourceClaimTemplateView(
    View, tag_field="kind", tag="ResourceClaimTemplate", frozen=True, kw_only=True
):
    """A ResourceClaimTemplate: what each ResourceClaim made from it asks for."""

    uid: str
    namespace: str
    name: str
    resource_version: str
    devices: Mapping[str, int] = {}
    """As in `ResourceClaimView`."""
    problem: str = ""
    """As in `ResourceClaimView`."""


class DeviceClassView(View, tag_field="kind", tag="DeviceClass", frozen=True, kw_only=True):
    """A DeviceClass. `extended_resource` is the resource by which containers may ask for it."""

    uid: str
    name: str
    resource_version: str
    created_at: Time
    namespace: str = ""
    extended_resource: str = ""


QueueObject = (
    LocalQueueView
    | ClusterQueueView
    | CohortView
    | FlavorView
    | TopologyView
    | NodeView
    | AdmissionCheckView
    | WorkloadPriorityClassView
    | PriorityClassView
    | NamespaceView
    | ResourceClaimView
    | ResourceClaimTemplateView
    | DeviceClassView
    | StatefulSetView
)


ObjectKey = str | tuple[str, str]
"""A name, or a namespace and a name."""


class QueueKind(NamedTuple):
    """A kind of queue object: its view, its scope, and its field of the world, if it has one."""

    view: type[QueueObject]
    store: str = ""
    namespaced: bool = False

    def key(self, namespace: str, name: str) -> ObjectKey:
        """Return the key of an object in its store."""
        return (namespace, name) if self.namespaced else name


QUEUE_KINDS: Final[Mapping[str, QueueKind]] = {
    "Namespace": QueueKind(NamespaceView, "namespaces"),
    "PriorityClass": QueueKind(PriorityClassView, "classes"),
    "WorkloadPriorityClass": QueueKind(WorkloadPriorityClassView, "workload_classes"),
    "ResourceFlavor": QueueKind(FlavorView, "flavors"),
    "Topology": QueueKind(TopologyView, "topologies"),
    "Node": QueueKind(NodeView, "nodes"),
    "Cohort": QueueKind(CohortView, "cohorts"),
    "AdmissionCheck": QueueKind(AdmissionCheckView, "checks"),
    "ClusterQueue": QueueKind(ClusterQueueView, "cluster_queues"),
    "LocalQueue": QueueKind(LocalQueueView, "local_queues", namespaced=True),
    "DeviceClass": QueueKind(DeviceClassView, "device_classes"),
    "ResourceClaimTemplate": QueueKind(
        ResourceClaimTemplateView, "claim_templates", namespaced=True
    ),
    "ResourceClaim": QueueKind(ResourceClaimView, "resource_claims", namespaced=True),
    "StatefulSet": QueueKind(StatefulSetView, "stateful_sets", namespaced=True),
}
"""What is known of each kind of queue object, in the order in which they are listed first."""


Marked = ClusterQueueView | FlavorView | AdmissionCheckView
"""Objects that may not be deleted while they are in use: they carry a finalizer."""
MARKED_KINDS = ("ClusterQueue", "ResourceFlavor", "AdmissionCheck")
MARK_TIMER = "mark"
"""Purpose of the timer after which a refused mark is tried again."""


def mark_timer(kind: str, name: str) -> str:
    """Return the name of that timer."""
    return f"{MARK_TIMER}/{kind}/{name}"


Kind = Literal[
    "Pod",
    "Workload",
    "LocalQueue",
    "ClusterQueue",
    "ResourceFlavor",
    "WorkloadPriorityClass",
    "PriorityClass",
    "Namespace",
    "Cohort",
    "AdmissionCheck",
    "Topology",
    "Node",
    "DeviceClass",
    "ResourceClaimTemplate",
    "ResourceClaim",
    "StatefulSet",
]

DEVICE_KINDS: tuple[Kind, ...] = ("DeviceClass", "ResourceClaimTemplate", "ResourceClaim")
"""The kinds that say what devices pods ask for; they are watched while devices are counted."""

SOMETIMES: Final = ("Node", "StatefulSet", *DEVICE_KINDS)
"""Kinds that are watched while something asks for them: a flavor, a setting."""

WATCHED_KINDS: tuple[Kind, ...] = (
    *cast("tuple[Kind, ...]", tuple(kind for kind in QUEUE_KINDS if kind not in SOMETIMES)),
    "Workload",
    "Pod",
)
"""The kinds that are always watched, in the order in which they are listed first."""


def kinds_watched(mode: str, asks: Asks) -> tuple[Kind, ...]:
    """Return the kinds that are watched, and have to be listed before the first decision."""
    sets: tuple[Kind, ...] = ("StatefulSet",) if asks.owned_groups else ()
    devices = DEVICE_KINDS if counts_devices(mode, asks) else ()
    return (*sets, *devices, *WATCHED_KINDS)


FIRST_KINDS: frozenset[str] = frozenset(WATCHED_KINDS) - {"Cohort", "AdmissionCheck", "Topology"}
"""Kinds that were listed before the first decision in logs that do not name them."""


def kind_of(view: QueueObject) -> str:
    """Return the kind of a queue object: its tag on the wire."""
    return str(view.__struct_config__.tag)
