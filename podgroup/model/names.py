"""Names that gatelog shares with Kueue's pod integration, and names derived from a pod.

Two controllers can only take turns on a cluster when they mean the same thing by the same
word: each must recognise a pod that the other gated. Every label, annotation, gate,
finalizer, condition and reason that crosses the API is therefore written down once, here,
and nowhere else in the code as a literal.

Invariant: each constant equals the text Kueue's API uses (``kueue.x-k8s.io/...``, KEP-976
and its first draft for the two group dialects that Kueue never built); the functions are
total and depend on their arguments alone.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

from podgroup.model.limits import LABEL_VALUE, OBJECT_NAME, truncate

PREFIX: Final[str] = "kueue.x-k8s.io/"

# -- labels on pods --------------------------------------------------------------------------
QUEUE_NAME: Final[str] = "kueue.x-k8s.io/queue-name"
MANAGED_LABEL: Final[str] = "kueue.x-k8s.io/managed"
MANAGED_VALUE: Final[str] = "true"
PRIORITY_CLASS: Final[str] = "kueue.x-k8s.io/priority-class"
MAX_EXEC_SECONDS: Final[str] = "kueue.x-k8s.io/max-exec-time-seconds"
POD_INDEX: Final[str] = "kueue.x-k8s.io/pod-group-pod-index"
PODSET_LABEL: Final[str] = "kueue.x-k8s.io/podset"
LOCAL_QUEUE_LABEL: Final[str] = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_LABEL: Final[str] = "kueue.x-k8s.io/cluster-queue-name"
DEFAULT_QUEUE: Final[str] = "default"
DEFAULT_PRIORITY_CLASS: Final[str] = "default"

# -- label or annotation (a non-empty annotation wins) ----------------------------------------
GROUP_NAME: Final[str] = "kueue.x-k8s.io/pod-group-name"
PREBUILT_WORKLOAD: Final[str] = "kueue.x-k8s.io/prebuilt-workload-name"
NAMED_BY_ANNOTATION: Final[tuple[str, ...]] = (GROUP_NAME, PREBUILT_WORKLOAD)

# -- annotations on pods -----------------------------------------------------------------------
GROUP_TOTAL_COUNT: Final[str] = "kueue.x-k8s.io/pod-group-total-count"
FAST_ADMISSION: Final[str] = "kueue.x-k8s.io/pod-group-fast-admission"
SERVING: Final[str] = "kueue.x-k8s.io/pod-group-serving"
ROLE_HASH: Final[str] = "kueue.x-k8s.io/role-hash"
RETRIABLE_IN_GROUP: Final[str] = "kueue.x-k8s.io/retriable-in-group"
SUSPENDING_PARENT: Final[str] = "kueue.x-k8s.io/pod-suspending-parent"
POD_INDEX_LABEL: Final[str] = "kueue.x-k8s.io/pod-group-pod-index-label"
POD_INDEX_OFFSET: Final[str] = "kueue.x-k8s.io/pod-index-offset"
ADMISSION_GATED_BY: Final[str] = "kueue.x-k8s.io/admission-gated-by"
ELASTIC_JOB: Final[str] = "kueue.x-k8s.io/elastic-job"
WORKLOAD_ANNOTATION: Final[str] = "kueue.x-k8s.io/workload"
SLICE_NAME: Final[str] = "kueue.x-k8s.io/workload-slice-name"  # elastic Workloads only
PROVREQ_PREFIX: Final[str] = "provreq.kueue.x-k8s.io/"

# -- topology annotations on pods ----------------------------------------------------------
TOPOLOGY_REQUIRED: Final[str] = "kueue.x-k8s.io/podset-required-topology"
TOPOLOGY_PREFERRED: Final[str] = "kueue.x-k8s.io/podset-preferred-topology"
TOPOLOGY_UNCONSTRAINED: Final[str] = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE_REQUIRED: Final[str] = "kueue.x-k8s.io/podset-slice-required-topology"
SLICE_SIZE: Final[str] = "kueue.x-k8s.io/podset-slice-size"
SLICE_CONSTRAINTS: Final[str] = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
PODSET_GROUP_NAME: Final[str] = "kueue.x-k8s.io/podset-group-name"

# -- group dialects described by KEP-976 (story 3) and its first draft -------------------------
POD_GROUP_SETS: Final[str] = "kueue.x-k8s.io/pod-group-sets"  # annotation, YAML or JSON
POD_GROUP_ROLE: Final[str] = "kueue.x-k8s.io/pod-group-role"  # label
POD_GROUP_COUNT: Final[str] = "kueue.x-k8s.io/pod-group-count"  # annotation
POD_GROUP_ROLES: Final[str] = "kueue.x-k8s.io/pod-group-roles"  # annotation
POD_GROUP_ROLE_COUNT: Final[str] = "kueue.x-k8s.io/pod-group-role-count"  # annotation

# -- pods of a StatefulSet or LeaderWorkerSet, which are one group -----------------------------
GROUP_OWNER: Final[str] = "gatelog.io/pod-group-owner"  # annotation, written at creation
LWS_NAME: Final[str] = "leaderworkerset.sigs.k8s.io/name"  # label
LWS_SIZE: Final[str] = "leaderworkerset.sigs.k8s.io/size"  # annotation
LWS_LEADER: Final[str] = "leaderworkerset.sigs.k8s.io/leader-name"  # annotation of workers
STATEFUL_SET: Final[str] = "StatefulSet"
LEADER_WORKER_SET: Final[str] = "LeaderWorkerSet"
LEADER_ROLE: Final[str] = "leader"
WORKER_ROLE: Final[str] = "worker"

FIELD_MANAGER: Final[str] = "gatelog"
"""Our name in managedFields."""

# -- finalizers and scheduling gates -----------------------------------------------------------
POD_FINALIZER: Final[str] = "kueue.x-k8s.io/managed"
WORKLOAD_FINALIZER: Final[str] = "kueue.x-k8s.io/resource-in-use"
ADMISSION_GATE: Final[str] = "kueue.x-k8s.io/admission"
TOPOLOGY_GATE: Final[str] = "kueue.x-k8s.io/topology"
ELASTIC_JOB_GATE: Final[str] = "kueue.x-k8s.io/elastic-job"

# -- on Workloads ------------------------------------------------------------------------------
IS_GROUP_WORKLOAD: Final[str] = "kueue.x-k8s.io/is-group-workload"  # annotation
JOB_UID: Final[str] = "kueue.x-k8s.io/job-uid"  # label, single pods only
SINGLE_PODSET: Final[str] = "main"
MAX_ROLES: Final[int] = 18
MAX_OWNERS: Final[int] = 1000
"""Owner references written to one Workload at most (B16): about 170 bytes each in 1.5 MiB."""

TEMPLATE: Final[str] = "gatelog.io/template"  # annotation on Workloads
TRIMMED: Final[str] = "trimmed"
"""Annotation of a Workload too large otherwise: env, args, volumes lack, which do not count."""

# -- pod conditions ----------------------------------------------------------------------------
TERMINATION_TARGET: Final[str] = "TerminationTarget"
ADMITTED_CONDITION: Final[str] = "gatelog.io/admitted"
REASON_EVICTED_PREFIX: Final[str] = "WorkloadEvictedDueTo"
REASON_UNSCHEDULABLE: Final[str] = "UnschedulableOnAssignedNode"
REASON_NOT_ADMITTED: Final[str] = "NotAdmitted"
REASON_WORKLOAD_DELETED: Final[str] = "WorkloadDeleted"
REASON_NO_MATCHING_WORKLOAD: Final[str] = "NoMatchingWorkload"

# -- Workload condition types ------------------------------------------------------------------
QUOTA_RESERVED: Final[str] = "QuotaReserved"
ADMITTED: Final[str] = "Admitted"
EVICTED: Final[str] = "Evicted"
PREEMPTED: Final[str] = "Preempted"
REQUEUED: Final[str] = "Requeued"
PODS_READY: Final[str] = "PodsReady"
FINISHED: Final[str] = "Finished"
WAITING_FOR_REPLACEMENT_PODS: Final[str] = "WaitingForReplacementPods"

ACTIVE: Final[str] = "Active"  # of a ClusterQueue or LocalQueue

# -- why a person stopped or resumed something: annotations of queues and Workloads ------------
REASON_ANNOTATION: Final[str] = "gatelog.io/reason"
REASON_BY_ANNOTATION: Final[str] = "gatelog.io/reason-by"

# -- how long groups run before they give way: annotation of WorkloadPriorityClasses -------------
LEAST_RUN_ANNOTATION: Final[str] = "gatelog.io/least-run-s"

# -- reasons of Active -------------------------------------------------------------------------
ACTIVE_READY: Final[str] = "Ready"
ACTIVE_STOPPED: Final[str] = "Stopped"
ACTIVE_TERMINATING: Final[str] = "Terminating"
ACTIVE_INVALID_FIELD: Final[str] = "InvalidField"
ACTIVE_FLAVOR_NOT_FOUND: Final[str] = "FlavorNotFound"
ACTIVE_TOPOLOGY_NOT_FOUND: Final[str] = "TopologyNotFound"
ACTIVE_NODES_NOT_LISTED: Final[str] = "NodesNotListed"
ACTIVE_CHECK_NOT_FOUND: Final[str] = "AdmissionCheckNotFound"
ACTIVE_CHECK_INACTIVE: Final[str] = "AdmissionCheckInactive"
ACTIVE_COHORT_CYCLE: Final[str] = "CohortCycle"
ACTIVE_COHORTS_TOO_DEEP: Final[str] = "CohortsTooDeep"
ACTIVE_NO_CLUSTER_QUEUE: Final[str] = "ClusterQueueDoesNotExist"
ACTIVE_CLUSTER_QUEUE_IS_NOT: Final[str] = "ClusterQueueIsInactive"

# -- reasons of Finished -----------------------------------------------------------------------
FINISHED_SUCCEEDED: Final[str] = "Succeeded"
FINISHED_FAILED: Final[str] = "Failed"
FINISHED_OUT_OF_SYNC: Final[str] = "OutOfSync"
FINISHED_OWNER_NOT_FOUND: Final[str] = "OwnerNotFound"
FINISHED_FAILED_TO_START: Final[str] = "FailedToStart"

# -- why a reserved start ended, beside ADMITTED -----------------------------------------------
START_LEFT: Final[str] = "Left"
"""The group that had the start ended."""
START_WITHDRAWN: Final[str] = "Withdrawn"
"""The group does not fit any more, or is not in its ClusterQueue."""
START_WORKED_OUT_ANEW: Final[str] = "WorkedOutAnew"
"""Another start of the group took its place."""

# -- reasons of Evicted ------------------------------------------------------------------------
EVICTED_PREEMPTED: Final[str] = "Preempted"
EVICTED_PODS_READY_TIMEOUT: Final[str] = "PodsReadyTimeout"
EVICTED_ADMISSION_CHECK: Final[str] = "AdmissionCheck"
EVICTED_CLUSTER_QUEUE_STOPPED: Final[str] = "ClusterQueueStopped"
EVICTED_LOCAL_QUEUE_STOPPED: Final[str] = "LocalQueueStopped"
EVICTED_NODE_FAILURES: Final[str] = "NodeFailures"
REACTIVATED: Final[str] = "Reactivated"  # reason of Requeued=True
EVICTED_DEACTIVATED: Final[str] = "Deactivated"  # also the prefix of DeactivatedDueTo...
EVICTED_DEACTIVATED_PREFIX: Final[str] = "DeactivatedDueTo"  # by a rule, not by a person
EVICTED_REQUEUING_LIMIT: Final[str] = "DeactivatedDueToRequeuingLimitExceeded"
EVICTED_MAX_EXEC_TIME: Final[str] = "DeactivatedDueToMaximumExecutionTimeExceeded"
EVICTED_CHECK_REJECTED: Final[str] = "DeactivatedDueToAdmissionCheck"

# -- reasons of Preempted ----------------------------------------------------------------------
PREEMPTED_IN_CLUSTER_QUEUE: Final[str] = "InClusterQueue"
PREEMPTED_IN_COHORT: Final[str] = "InCohortReclamation"
PREEMPTED_FAIR_SHARING: Final[str] = "InCohortFairSharing"
PREEMPTED_WHILE_BORROWING: Final[str] = "InCohortReclaimWhileBorrowing"

# -- reasons of QuotaReserved=False ------------------------------------------------------------
PENDING_NO_MATCHING_FLAVOR: Final[str] = "NoMatchingFlavor"
PENDING_WAITING_FOR_QUOTA: Final[str] = "WaitingForQuota"
PENDING_EXCEEDS_MAX_QUOTA: Final[str] = "ExceedsMaxQuota"
PENDING_TOPOLOGY_FAILED: Final[str] = "TopologyPlacementFailed"
PENDING_WAITING_FOR_TOPOLOGY: Final[str] = "WaitingForTopology"  # Kueue: WaitingForQuota
PENDING_PREEMPTED_WORKLOADS: Final[str] = "WaitingForPreemptedWorkloads"
PENDING_LEAST_RUN_TIME: Final[str] = "WaitingForLeastRunTime"
PENDING_MISCONFIGURED: Final[str] = "Misconfigured"
PENDING_SUSPENDED: Final[str] = "Suspended"
PENDING_EVALUATION: Final[str] = "PendingEvaluation"
PENDING_ON_HOLD: Final[str] = "OnHold"
PENDING_DEACTIVATED: Final[str] = "Deactivated"
PENDING_GATED: Final[str] = "AdmissionGated"  # by annotation admission-gated-by

# -- reasons of Admitted=False -----------------------------------------------------------------
NOT_ADMITTED_NO_RESERVATION: Final[str] = "NoReservation"
NOT_ADMITTED_CHECKS: Final[str] = "UnsatisfiedAdmissionChecks"

# -- reasons of Requeued -----------------------------------------------------------------------
REQUEUED_BACKOFF_FINISHED: Final[str] = "BackoffFinished"

# -- reasons of PodsReady and WaitingForReplacementPods ----------------------------------------
READY_WAIT_FOR_START: Final[str] = "WaitForStart"
READY_WAIT_FOR_RECOVERY: Final[str] = "WaitForRecovery"
READY_STARTED: Final[str] = "Started"
READY_RECOVERED: Final[str] = "Recovered"
REPLACEMENT_PODS_READY: Final[str] = "PodsReady"

# -- event reasons on pods and Workloads -------------------------------------------------------
EVENT_CREATED_WORKLOAD: Final[str] = "CreatedWorkload"
EVENT_UPDATED_WORKLOAD: Final[str] = "UpdatedWorkload"
EVENT_DELETED_WORKLOAD: Final[str] = "DeletedWorkload"
EVENT_STARTED: Final[str] = "Started"
EVENT_STOPPED: Final[str] = "Stopped"
EVENT_FINISHED_WORKLOAD: Final[str] = "FinishedWorkload"
EVENT_DELETED: Final[str] = "Deleted"
EVENT_EXCESS_POD_DELETED: Final[str] = "ExcessPodDeleted"
EVENT_UPDATED_ADMISSION_CHECK: Final[str] = "UpdatedAdmissionCheck"
EVENT_ERR_WORKLOAD_COMPOSE: Final[str] = "ErrWorkloadCompose"
EVENT_WORKLOAD_NAME_CONFLICT: Final[str] = "WorkloadNameConflict"
EVENT_PRIORITY_CLASS_NOT_FOUND: Final[str] = "WorkloadPriorityClassNotFound"
EVENT_OWNER_REFERENCES_ADDED: Final[str] = "OwnerReferencesAdded"
EVENT_CHECK_REJECTED: Final[str] = "AdmissionCheckRejected"
EVENT_MAX_EXEC_TIME: Final[str] = "MaximumExecutionTimeExceeded"

# -- limits of the API -------------------------------------------------------------------------
MOST_ABOVE: Final[int] = 100
"""Cohorts above a cohort; what is nested deeper admits nothing. Kueue has no bound."""
MAX_ENTRIES: Final[int] = 500
"""Labels, annotations, tolerations, or keys of its nodeSelector that a queued pod may have, each:
loops over them stay short."""
MAX_RESOURCES: Final[int] = 100
"""Resources that a container may ask for."""
MAX_SELECTING: Final[int] = 2000
"""Expressions and values in the required node affinity of a pod, all together."""
NAME_HASH_LENGTH: Final[int] = 5
MAX_INT32: Final[int] = 2**31 - 1
"""Largest count of a podset and largest number of seconds of a Workload: both are int32."""

_INTEGER: Final[re.Pattern[str]] = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_LABEL: Final = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_DNS1123_LABEL: Final[re.Pattern[str]] = re.compile(_LABEL)
_DNS1123_SUBDOMAIN: Final[re.Pattern[str]] = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")


def integer(text: str) -> int | None:
    """``text`` as an integer the way Go reads one (at most 19 digits), None when it is none."""
    return int(text) if _INTEGER.fullmatch(text) else None


def is_dns_label(text: str) -> bool:
    """Whether ``text`` can name a podset: a DNS-1123 label."""
    return len(text) <= LABEL_VALUE and bool(_DNS1123_LABEL.fullmatch(text))


def is_dns_subdomain(text: str) -> bool:
    """Whether ``text`` can name an object: a DNS-1123 subdomain."""
    return len(text) <= OBJECT_NAME and bool(_DNS1123_SUBDOMAIN.fullmatch(text))


def annotation_or_label(
    key: str, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
) -> str:
    """Value of ``key``: a non-empty annotation wins over a label; ``""`` when neither is set.

    Kueue reads group and prebuilt names this way (gate WorkloadIdentifierAnnotations, on by
    default), so that names longer than a label value (63 characters) are possible.
    """
    return (annotations or {}).get(key) or (labels or {}).get(key, "")


def group_name(labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None) -> str:
    """Name of the group a pod belongs to, ``""`` for a single pod (KEP-976)."""
    return annotation_or_label(GROUP_NAME, labels, annotations)


def prebuilt_name(labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None) -> str:
    """Name of the prebuilt Workload a pod refers to, ``""`` for none."""
    return annotation_or_label(PREBUILT_WORKLOAD, labels, annotations)


def admission_gates(text: str) -> tuple[str, ...]:
    """Return the names in a value of annotation admission-gated-by, in their order.

    Kueue takes blanks off around each name; any text but "" holds its group back, so a text without
    names gives the name "" (KEP-6915 of Kueue).
    """
    return tuple([part.strip() for part in text.split(",")]) if text else ()


def workload_name(pod_name: str, pod_uid: str, *, max_bytes: int = OBJECT_NAME) -> str:
    """Name of the Workload of a single pod, as Kueue's job framework derives it.

    ``pod-<pod name>-<5 hex>``, where the hex digits begin the SHA-1 of kind, API group (empty
    for core), name and uid, each on its own line. A pod recreated under the same name has
    another uid and so another Workload. The prefix gives way when the name would be longer
    than ``max_bytes`` (63 with Kueue's gate ShortWorkloadNames).

    Raises:
        ValueError: ``max_bytes`` leaves no room for the hash.
    """
    # SHA-1 here tells names apart; nothing is protected by it.
    seed = f"Pod\n\n{pod_name}\n{pod_uid}".encode()
    digest = hashlib.sha1(seed, usedforsecurity=False).hexdigest()[:NAME_HASH_LENGTH]
    return f"{truncate('pod-' + pod_name, max_bytes - NAME_HASH_LENGTH - 1)}-{digest}"


RULE_REPLACED: Final[str] = "replace"
"""The rule that releases a pod whose place another has: the fold counts the pod as replaced."""
