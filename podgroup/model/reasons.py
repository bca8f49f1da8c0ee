"""Reasons: every word that says why a group waits or what is reported on a pod, in one table.

Theory. A reason is a word for machines. Its entry says what it means, whether only a person can end
the wait (the group is Blocked then), by which Event users of Kueue know it, and what would end it.
Rules, command line and docs read the entry, so a new reason is one entry. In kueue mode Kueue gives
reasons of its own, which need not be in here.

Advice has fields in braces; `FIELDS` names them, and the code that shows it fills them in.

What follows from a reason is its `Effect`. Decisions, records and the state bear effects, so that
no decision hangs on a word; `effect_of` reads effects from words where a log, a stored row or
another controller has words alone. This module alone may do so (tests/core/test_words.py).

Invariant: every reason to wait that rules give in builtin mode is in the table.
"""

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from podgroup.model.names import (
    EVENT_ERR_WORKLOAD_COMPOSE,
    EVENT_PRIORITY_CLASS_NOT_FOUND,
    EVENT_WORKLOAD_NAME_CONFLICT,
    EVICTED_ADMISSION_CHECK,
    EVICTED_CHECK_REJECTED,
    EVICTED_CLUSTER_QUEUE_STOPPED,
    EVICTED_DEACTIVATED,
    EVICTED_DEACTIVATED_PREFIX,
    EVICTED_LOCAL_QUEUE_STOPPED,
    EVICTED_MAX_EXEC_TIME,
    EVICTED_NODE_FAILURES,
    EVICTED_PODS_READY_TIMEOUT,
    EVICTED_PREEMPTED,
    EVICTED_REQUEUING_LIMIT,
    FINISHED_SUCCEEDED,
    NOT_ADMITTED_CHECKS,
    NOT_ADMITTED_NO_RESERVATION,
    PENDING_DEACTIVATED,
    PENDING_EVALUATION,
    PENDING_EXCEEDS_MAX_QUOTA,
    PENDING_GATED,
    PENDING_LEAST_RUN_TIME,
    PENDING_MISCONFIGURED,
    PENDING_NO_MATCHING_FLAVOR,
    PENDING_ON_HOLD,
    PENDING_PREEMPTED_WORKLOADS,
    PENDING_SUSPENDED,
    PENDING_TOPOLOGY_FAILED,
    PENDING_WAITING_FOR_QUOTA,
    PENDING_WAITING_FOR_TOPOLOGY,
    READY_RECOVERED,
    READY_WAIT_FOR_RECOVERY,
    RULE_REPLACED,
    WAITING_FOR_REPLACEMENT_PODS,
)

WAITING_FOR_PODS: Final = "WaitingForPods"
WORKLOAD_REFUSED: Final = "WorkloadRefused"
WORKLOAD_TOO_LARGE: Final = "WorkloadTooLarge"
WRITE_REFUSED: Final = "WriteRefused"
UNMANAGED: Final = "Unmanaged"
RUNNING_UNADMITTED: Final = "RunningUnadmitted"
LARGER_THAN_ADMITTED: Final = "LargerThanAdmitted"
UNKNOWN_ROLE: Final = "UnknownRole"
LARGER_THAN_DECLARED: Final = "LargerThanDeclared"
WAITING_FOR_PLACE: Final = "WaitingForPlace"
GROUP_IS_OVER: Final = "GroupIsOver"
FLAVOR_NOT_FOUND: Final = "FlavorNotFound"
FLAVORS_AT_ODDS: Final = "FlavorsAtOdds"
PARKED: Final = "Parked"
PARKED_DECISION: Final = "DecisionParked"
DECISION_REFUSED: Final = "DecisionRefused"
CLUSTER_QUEUE_INACTIVE: Final = "ClusterQueueInactive"
POD_TOO_LARGE: Final = "PodTooLarge"
NAMESPACE_TOO_LARGE: Final = "NamespaceTooLarge"
CLAIM_NOT_FOUND: Final = "ResourceClaimNotFound"
DEVICES_NOT_COUNTED: Final = "DevicesNotCounted"
DEVICE_CLASS_NOT_MAPPED: Final = "DeviceClassNotMapped"

SCALE_UP_PENDING: Final = "ScaleUpPending"

KEPT_AT_GATE: Final = (
    UNKNOWN_ROLE,
    LARGER_THAN_DECLARED,
    WAITING_FOR_PLACE,
    FLAVOR_NOT_FOUND,
    SCALE_UP_PENDING,
)
"""Why a pod stays gated though its group is admitted."""

FIELDS: Final = {
    "namespace": "NAMESPACE",
    "name": "GROUP",
    "queue": "QUEUE",
    "cluster_queue": "CLUSTERQUEUE",
    "workload_name": "WORKLOAD",
    "priority_class": "CLASS",
    "missing_pods": "the pods that are missing",
    "parked": "SEQ/ORD",
}
"""Fields of an advice, with what the docs show in their place."""

OTHERWISE: Final = "what the message says; gatelog history shows how it came to this"
"""Advice for a reason that is not in the table."""


class Reason(Struct, frozen=True, kw_only=True):
    """A reason: what it `says`, and which `advice` answers it.

    `blocked`: only a person can end the wait. `event` is the name of its Event, "" if that is the
    word itself. `waits`: a reason to wait; others are written to pods, or beside an admission.
    `warns`: its Event is a Warning, which `blocked` and `event` do not say.
    """

    word: str
    says: str
    advice: str
    blocked: bool = False
    event: str = ""
    waits: bool = True
    warns: bool = False

    @property
    def event_name(self) -> str:
        """Name of the Event of this reason."""
        return self.event or self.word

    @property
    def serious(self) -> bool:
        """Whether its Event is a Warning."""
        return self.blocked or self.warns or bool(self.event)


RECREATE: Final = "; delete wrong pods and create them again"
"""End of the advice on pods that contradict their group; the docs have it once for all."""


def _bad(word: str, says: str, advice: str) -> Reason:
    """Return the reason of a group whose pods, as they are, make no group."""
    event = EVENT_ERR_WORKLOAD_COMPOSE
    return Reason(word=word, says=says, advice=advice + RECREATE, blocked=True, event=event)


def _blocked(word: str, says: str, advice: str, event: str = "") -> Reason:
    return Reason(word=word, says=says, advice=advice, blocked=True, event=event)


def _waits(word: str, says: str, advice: str) -> Reason:
    return Reason(word=word, says=says, advice=advice)


def _on_pods(word: str, says: str, advice: str, *, warns: bool = True) -> Reason:
    return Reason(word=word, says=says, advice=advice, waits=False, warns=warns)


REASONS: Final = (
    # -- pods of the group --------------------------------------------------------------------
    Reason(
        word=WAITING_FOR_PODS,
        says="fewer pods are there than the group has",
        advice="{missing_pods}",
        event=EVENT_ERR_WORKLOAD_COMPOSE,
    ),
    _waits(
        WAITING_FOR_REPLACEMENT_PODS,
        "pods ended without success and must be replaced before it is admitted again",
        "new pods of the same shape with label kueue.x-k8s.io/pod-group-name={name}, which gatelog "
        "never makes; or, to end the group: kubectl -n {namespace} delete workload {workload_name}",
    ),
    _bad(
        "BadTotalCount",
        "the total count is no number that can be used",
        "pods with a whole number from 1 to 2147483647 in kueue.x-k8s.io/pod-group-total-count",
    ),
    _bad(
        "UnreadPodGroup",
        "a PodGroup of Kubernetes (spec.schedulingGroup), which gatelog does not read",
        "pods with label kueue.x-k8s.io/pod-group-name and annotation "
        "kueue.x-k8s.io/pod-group-total-count, or without spec.schedulingGroup",
    ),
    _bad(
        "StatefulSetNotFound",
        "the StatefulSet that the pods are of is not known, and says how many they are",
        "that StatefulSet in namespace {namespace}; where it is there, ingest lacks the right to "
        "list StatefulSets, or queueing.owned_groups",
    ),
    _bad(
        "BadGroupName",
        "no Workload can have the group's name",
        "pods with another group name",
    ),
    _bad(
        "BadRoleHash",
        "a role hash that cannot be used",
        "pods without the annotation kueue.x-k8s.io/role-hash, or with a valid one",
    ),
    _bad(
        "BadPodIndex",
        "a pod index that is no number below the total count",
        "pods whose label kueue.x-k8s.io/pod-group-pod-index is below the total count",
    ),
    _bad(
        "BadSets",
        "the declaration of sets cannot be read",
        "a valid kueue.x-k8s.io/pod-group-sets: the message has line and field (docs/dialects.md)",
    ),
    _bad(
        "BadDeclaration",
        "a declaration of the group cannot be read",
        "valid declarations: the message has pod and annotation (docs/dialects.md)",
    ),
    _bad(
        "DifferentTotalCounts",
        "pods disagree on the total count",
        "pods with one value of annotation kueue.x-k8s.io/pod-group-total-count",
    ),
    _bad(
        "DifferentQueues",
        "pods name different queues",
        "pods that name one queue",
    ),
    _bad(
        "DifferentLabels",
        "pods disagree on a label to copy",
        "pods with one value of every label in queueing.label_keys_to_copy",
    ),
    _bad(
        "DifferentAnnotations",
        "pods disagree on an annotation to copy",
        "pods with one value of every annotation in queueing.annotation_keys_to_copy",
    ),
    _bad(
        "DifferentTopologies",
        "pods of a role ask for different places",
        "pods of a role with the same topology annotations",
    ),
    _bad(
        "DifferentDialects",
        "pods declare their group in different dialects",
        "pods that declare their group in one dialect (docs/dialects.md)",
    ),
    _bad(
        "DifferentSets",
        "pods declare different sets",
        "one kueue.x-k8s.io/pod-group-sets in the group",
    ),
    _bad(
        "DifferentRoles",
        "pods disagree on roles or their counts",
        "pods that agree on roles and role counts",
    ),
    _bad(
        "DifferentShapes",
        "pods of one role ask for different things",
        "pods of one role with equal requests, or another role (annotation "
        "kueue.x-k8s.io/role-hash) for those that differ",
    ),
    _bad(
        "TooManyRoles",
        "more than 18 different shapes of pods",
        "fewer shapes of pods, or several groups",
    ),
    _bad(
        POD_TOO_LARGE,
        "a pod takes too much memory to be read",
        "pods with less in the fields that the message names",
    ),
    _blocked(
        NAMESPACE_TOO_LARGE,
        "the pods of its namespace take too much memory for another large pod to be read",
        "that large pods of namespace {namespace} end or are deleted, or pods with less in the "
        "fields that the message names",
    ),
    _blocked(
        RUNNING_UNADMITTED,
        "its pods run, and never had a gate",
        "nothing: its pods run without quota; delete them and create them again",
    ),
    # -- its Workload -------------------------------------------------------------------------
    _blocked(
        "PrebuiltWorkloadNotFound",
        "the Workload that the pods name is missing, or another group's",
        "the Workload {namespace}/{workload_name} that the pods name with "
        "kueue.x-k8s.io/prebuilt-workload-name",
    ),
    _blocked(
        "BadWorkload",
        "the Workload that the pods name asks for an amount that cannot be",
        "Workload {namespace}/{workload_name} with the field that the message names put right, or "
        "made anew",
    ),
    _blocked(
        "WorkloadNameConflict",
        "another client owns a Workload of that name",
        "the deletion of Workload {namespace}/{workload_name}, or another name of the group",
        EVENT_WORKLOAD_NAME_CONFLICT,
    ),
    _blocked(
        WORKLOAD_REFUSED,
        "the API server refuses the Workload",
        "that the API server accepts the Workload {namespace}/{workload_name}: the message has "
        "its answer; it is tried again every minute",
    ),
    _blocked(
        WORKLOAD_TOO_LARGE,
        "the Workload is too large for the API server or etcd",
        "smaller pods: what the message names belongs in a ConfigMap, a Secret or a volume; delete "
        "the pods and create them again",
    ),
    _blocked(
        WRITE_REFUSED,
        "the API server refuses what gatelog has to write to a pod or the Workload",
        "that the API server takes the write: the message has its answer, which names a right that "
        "the actuator lacks, a policy or webhook, or a change that another one makes on each "
        "update (kubectl get mutatingadmissionpolicies,mutatingwebhookconfigurations); it is tried "
        "again by itself",
    ),
    _blocked(
        "WorkloadPriorityClassNotFound",
        "the priority class that the pods name is missing",
        "the WorkloadPriorityClass {priority_class}",
        EVENT_PRIORITY_CLASS_NOT_FOUND,
    ),
    _waits(
        PENDING_DEACTIVATED,
        "spec.active of its Workload is false",
        "spec.active: true on its Workload: gatelog resume group {namespace}/{name}, or kubectl "
        "patch workload -n {namespace} {workload_name} --type merge -p "
        '\'{{"spec":{{"active":true}}}}\'',
    ),
    # -- its devices --------------------------------------------------------------------------
    _waits(
        CLAIM_NOT_FOUND,
        "a ResourceClaim or ResourceClaimTemplate that the pods name is missing",
        "the ResourceClaim or ResourceClaimTemplate that the message names, in namespace "
        "{namespace}",
    ),
    _blocked(
        DEVICES_NOT_COUNTED,
        "a ResourceClaim asks for devices in a way that gives no number of them",
        "a ResourceClaimTemplate or ResourceClaim whose requests have exactly.deviceClassName and "
        "exactly.count: the message has the field; it is immutable, so delete it and make it anew",
    ),
    _blocked(
        DEVICE_CLASS_NOT_MAPPED,
        "a ResourceClaim asks for devices of a class that no quota counts",
        "the DeviceClass that the message names in queueing.device_classes, or devices of a class "
        "that is there",
    ),
    # -- its queue ----------------------------------------------------------------------------
    _blocked(
        "LocalQueueNotFound",
        "the namespace has no such LocalQueue",
        "a LocalQueue {queue}, or pods that name another one: kubectl get localqueues -n "
        "{namespace}",
    ),
    _blocked(
        "ClusterQueueNotFound",
        "the LocalQueue names a ClusterQueue that is missing",
        "the ClusterQueue that LocalQueue {namespace}/{queue} names",
    ),
    _blocked(
        CLUSTER_QUEUE_INACTIVE,
        "the ClusterQueue cannot admit anything",
        "the ResourceFlavors (and their Topologies) and active AdmissionChecks that ClusterQueue "
        "{cluster_queue} names; "
        "another queue, if it is being deleted",
    ),
    _blocked(
        PENDING_MISCONFIGURED,
        "the queue does not take such a group",
        "a change of LocalQueue {namespace}/{queue} or its ClusterQueue "
        "(queueing.exclude_resource_prefixes leaves resources out)",
    ),
    _waits(
        PENDING_ON_HOLD,
        "its queue is stopped",
        "stopPolicy None of the queue",
    ),
    _waits(
        PENDING_GATED,
        "another controller holds its admission back",
        "that those who are named take their names off annotation "
        "kueue.x-k8s.io/admission-gated-by of the pods; if one is gone for good, take its name off "
        "by hand",
    ),
    _waits(
        NOT_ADMITTED_CHECKS,
        "its quota is reserved, and admission checks are open",
        "Ready of each check in status.admissionChecks of Workload {namespace}/{workload_name}",
    ),
    # -- quota --------------------------------------------------------------------------------
    _waits(
        PENDING_WAITING_FOR_QUOTA,
        "others have the quota it needs, or are before it in the queue",
        "that others in ClusterQueue {cluster_queue} finish, more quota, or a higher priority if "
        "it preempts",
    ),
    _waits(
        PENDING_WAITING_FOR_TOPOLOGY,
        "there is quota for it, and others have the nodes that its pods would need",
        "that others on these nodes end, more nodes, or a wider level",
    ),
    _waits(
        PENDING_PREEMPTED_WORKLOADS,
        "groups that were preempted for it have not ended yet",
        "that the preempted groups end; what they free is kept for it",
    ),
    _waits(
        PENDING_LEAST_RUN_TIME,
        "groups that are to give way for it have not run for their least time yet",
        "that they have run for queueing.least_run_s, or for annotation gatelog.io/least-run-s of "
        "their WorkloadPriorityClass; what else is free for it is kept for it",
    ),
    _blocked(
        PENDING_EXCEEDS_MAX_QUOTA,
        "it asks for more than the queue can ever have",
        "a larger quota of ClusterQueue {cluster_queue}, or smaller requests",
    ),
    _waits(
        PENDING_TOPOLOGY_FAILED,
        "no nodes that lie as close together as it asks have room for its pods",
        "larger or more nodes in one domain of that level, a wider level, or fewer pods",
    ),
    _blocked(
        PENDING_NO_MATCHING_FLAVOR,
        "no flavor of the queue suits its pods",
        "a ResourceFlavor in ClusterQueue {cluster_queue} that the pods' node selectors and "
        "tolerations allow",
    ),
    _waits(
        PENDING_EVALUATION,
        "it was not evaluated yet",
        "a moment",
    ),
    # -- evicted, and not queued again yet ----------------------------------------------------
    _waits(
        EVICTED_PREEMPTED,
        "it was preempted, and still stops",
        "that its pods stop; then it is queued again",
    ),
    _waits(
        EVICTED_PODS_READY_TIMEOUT,
        "its pods were not ready in time",
        "that its back-off ends; kubectl describe pod has the cause",
    ),
    _waits(
        EVICTED_CLUSTER_QUEUE_STOPPED,
        "its ClusterQueue was drained",
        "stopPolicy None of ClusterQueue {cluster_queue}",
    ),
    _waits(
        EVICTED_LOCAL_QUEUE_STOPPED,
        "its LocalQueue was drained",
        "stopPolicy None of LocalQueue {namespace}/{queue}",
    ),
    *(
        _waits(
            word,
            says,
            "gatelog resume group {namespace}/{name}, once the cause is mended",
        )
        for word, says in (
            (EVICTED_REQUEUING_LIMIT, "it was not ready in time as often as the limit allows"),
            (EVICTED_MAX_EXEC_TIME, "its maximum execution time is used up"),
            (EVICTED_CHECK_REJECTED, "an admission check rejected it"),
        )
    ),
    # -- gatelog ------------------------------------------------------------------------------
    _blocked(
        PARKED,
        "an event or decision of it was parked",
        "gatelog parked show {parked}; when the cause is mended, gatelog parked release {parked}",
    ),
    # -- written to pods, and beside an admission ------------------------------------------------
    _on_pods(
        UNKNOWN_ROLE,
        "the admitted group has no such role as this pod's",
        "a pod of one of its roles: this one never starts, and counts for none",
    ),
    _on_pods(
        LARGER_THAN_DECLARED,
        "the pod asks for more than its admitted group has declared",
        "a pod that asks for no more",
    ),
    _on_pods(
        WAITING_FOR_PLACE,
        "all places of the pod's role are taken",
        "that a pod of its role ends or is deleted",
        warns=False,
    ),
    _on_pods(
        SCALE_UP_PENDING,
        "the owner of an admitted group's pods wants more than it has quota for",
        "quota for those that are more, or a smaller size of their owner; the others run on",
        warns=False,
    ),
    _on_pods(
        FLAVOR_NOT_FOUND,
        "the flavor of the admission is missing",
        "the ResourceFlavor that the message names",
        warns=False,
    ),
    _on_pods(
        FLAVORS_AT_ODDS,
        "no node can be of all flavors of the admission: their labels were changed since",
        "nodeLabels of the ResourceFlavors that the message names which one node can have",
    ),
    _on_pods(
        GROUP_IS_OVER,
        "the pod's group has ended",
        "what the message says",
    ),
    _on_pods(
        UNMANAGED,
        "a pod lost the label kueue.x-k8s.io/managed: a gated one leaves its group, a running one "
        "gets it back",
        "the client that removes the label to stop",
    ),
    _on_pods(
        "LabelPutBack",
        "a running pod lost that label; it is put back, and the pod stays charged",
        "the client that removes the label to stop",
    ),
    _on_pods(
        "PodRefused",
        "a field of the pod cannot be read; the last readable state counts",
        "a field that can be read",
    ),
    _on_pods(
        "TotalCountChanged",
        "a size was changed after the group was complete, without effect",
        "the size that it had, or a new group",
    ),
    _on_pods(
        LARGER_THAN_ADMITTED,
        "pods were resized beyond their admission; the excess is charged too",
        "a smaller size, or nothing",
    ),
)
"""The table; docs/concepts.md has it."""

_BY_WORD: Final = {reason.word: reason for reason in REASONS}


def reason_of(word: str) -> Reason:
    """Return the entry of a reason; a reason that is not in the table is a plain wait."""
    return _BY_WORD.get(word) or Reason(word=word, says="", advice=OTHERWISE)


def blocks(word: str) -> bool:
    """Tell whether only a person can end a wait for this reason."""
    known = _BY_WORD.get(word)
    return known is not None and known.blocked


class Effect(Struct, frozen=True, omit_defaults=True, gc=False, kw_only=True):
    """What follows from a reason: what is read to decide, in place of its word."""

    deactivates: bool = False
    """The group stays out of the queue until spec.active of its Workload is true again."""
    by_rule: bool = False
    """A rule deactivated the group, no person."""
    backs_off: bool = False
    """The group is held back, twice as long each time."""
    rechecks: bool = False
    """An admission check wants the group to try again."""
    preempts: bool = False
    """Another group is to have its quota."""
    requeues: bool = False
    """In kueue mode the group queues again as soon as it has given its quota back."""
    gathers: bool = False
    """Pods of the group are missing that were never there."""
    tried: bool = False
    """Quota admission tried the group, and it did not fit."""
    hopeless: bool = False
    """Quota that becomes free does not end the wait."""
    passing: bool = False
    """The group is tried again at once: what is in its way is about to go."""
    yields: bool = False
    """The group waits for preempted groups to end."""
    refused: bool = False
    """The API server refuses a write of ours."""
    short: bool = False
    """Pods must be replaced."""
    larger: bool = False
    """Pods take more than their admission gave them: a Warning, once."""
    inactive: bool = False
    """Its ClusterQueue admits nothing."""
    postponed: bool = False
    """Its victims run on for their least run time; the message says until when."""
    grows: bool = False
    """The admitted pods go on, and more pods of the group wait for quota."""


PLAIN: Final = Effect()
"""The effect of a word from which nothing follows."""
OVERLAP: Final = "Workload has overlapping preemption targets with another workload"
NO_LONGER_FITS: Final = "Workload no longer fits after processing another workload"
_NO_PLACE: Final = 'topology "'
_PASSING: Final = frozenset({OVERLAP, NO_LONGER_FITS})
"""Messages of Kueue after which a workload is tried again at once, whatever the reason."""
_DEACTIVATES: Final = Effect(deactivates=True)
BY_RULE: Final = Effect(deactivates=True, by_rule=True)
"""The effect of each deactivation by a rule, whatever its word."""
_EFFECTS: Final = {
    EVICTED_PREEMPTED: Effect(preempts=True, requeues=True),
    EVICTED_NODE_FAILURES: Effect(requeues=True),
    EVICTED_PODS_READY_TIMEOUT: Effect(backs_off=True),
    EVICTED_ADMISSION_CHECK: Effect(rechecks=True),
    WAITING_FOR_PODS: Effect(gathers=True),
    WAITING_FOR_REPLACEMENT_PODS: Effect(short=True),
    WRITE_REFUSED: Effect(refused=True),
    LARGER_THAN_ADMITTED: Effect(larger=True),
    SCALE_UP_PENDING: Effect(grows=True),
    CLUSTER_QUEUE_INACTIVE: Effect(inactive=True),
    PENDING_WAITING_FOR_QUOTA: Effect(tried=True),
    PENDING_WAITING_FOR_TOPOLOGY: Effect(tried=True),
    PENDING_PREEMPTED_WORKLOADS: Effect(tried=True, passing=True, yields=True),
    PENDING_LEAST_RUN_TIME: Effect(tried=True, postponed=True),
    PENDING_EXCEEDS_MAX_QUOTA: Effect(tried=True, hopeless=True),
    PENDING_NO_MATCHING_FLAVOR: Effect(tried=True, hopeless=True),
    PENDING_TOPOLOGY_FAILED: Effect(tried=True, hopeless=True),
    PENDING_MISCONFIGURED: Effect(hopeless=True),
    PENDING_SUSPENDED: Effect(hopeless=True),
}
"""What follows from words. `effect_of` knows the words that begin with Deactivated; from all others
nothing follows."""


def effect_of(word: str, message: str = "") -> Effect:
    """Read from a reason, and from Kueue's own sentence beside it, what follows from them.

    Records bear the effect even where nothing follows (`PLAIN`): a word that gets an effect in a
    later release changes nothing that was recorded.
    """
    found = _EFFECTS.get(word)
    if found is None:
        if not word.startswith(EVICTED_DEACTIVATED):
            found = PLAIN
        else:
            found = BY_RULE if word.startswith(EVICTED_DEACTIVATED_PREFIX) else _DEACTIVATES
    return replace(found, passing=True) if message and message in _PASSING else found


def replaces(rule: str) -> bool:
    """Read from a rule's name that a pod was replaced: for logs before `FinalizePod.replaced`."""
    return rule == RULE_REPLACED


def recovers(word: str) -> bool:
    """Read from a condition PodsReady that pods were ready once and then were not."""
    return word in (READY_WAIT_FOR_RECOVERY, READY_RECOVERED)


def unreserved(word: str) -> bool:
    """Read from a condition Admitted that no quota is reserved: QuotaReserved says why."""
    return word == NOT_ADMITTED_NO_RESERVATION


def over_topology(message: str) -> bool:
    """Read from Kueue's sentence on a wait that pods have no places."""
    return _NO_PLACE in message


QUOTA_WAITS: Final = (
    *(word for word, effect in _EFFECTS.items() if effect.tried),
    PENDING_EVALUATION,
)
"""Words of waits that end by free quota or places, or by an attempt: no other change ends them."""


def lacks_quota(word: str) -> bool:
    """Read from the reason of a wait that quota which becomes free ends the wait."""
    return word == PENDING_WAITING_FOR_QUOTA


def ends_by_room(word: str) -> bool:
    """Read from the reason of a wait that free quota or places end the wait, or an attempt."""
    return word in QUOTA_WAITS


def held_back(word: str) -> bool:
    """Read from the reason of a wait that it goes on whatever quota becomes free."""
    return word in (PENDING_GATED, PENDING_ON_HOLD, PENDING_SUSPENDED, PENDING_DEACTIVATED)


def runs_unadmitted(word: str) -> bool:
    """Read from the reason of a wait that the pods run, and never had a gate."""
    return word == RUNNING_UNADMITTED


def succeeded(word: str) -> bool:
    """Read from the reason of an end that the group succeeded."""
    return word == FINISHED_SUCCEEDED


def parks_decision(word: str) -> bool:
    """Read from a parked row that an actuator could not carry out the decision."""
    return word == PARKED_DECISION


def parked_by_actuator(word: str) -> bool:
    """Read from a parked row that an actuator sent it to PARKED, before the log had its event."""
    return word in (PARKED_DECISION, DECISION_REFUSED)


def collected(word: str) -> bool:
    """Read from a pod's condition DisruptionTarget that the pod garbage collector ended it."""
    return word == "DeletionByPodGC"


def out_of_memory(word: str) -> bool:
    """Read from the end of a container that the kernel killed it for its memory."""
    return word == "OOMKilled"


def infeasible(word: str) -> bool:
    """Read from a pod's condition PodResizePending that its node can never grant the resize."""
    return word == "Infeasible"


def pull_failed(word: str) -> bool:
    """Read from a container's waiting reason that its image could not be pulled just now."""
    return word == "ErrImagePull"
