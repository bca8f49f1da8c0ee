"""Reasons: every word that says why a group waits or what is reported on a pod, in one table.

Theory. A reason is a word for machines; beside it stand what it means, whether only a person can
end it (the group is Blocked then), the Event that users of Kueue know it by, and what would end it.
Rules, command line and docs read it here, so a new reason is one entry. In kueue mode Kueue says
reasons of its own, which need not be in here.

Advice has fields in braces; `FIELDS` names them, and the code that shows it fills them in.

Invariant: every reason to wait that rules give in builtin mode is in the table.
"""

from typing import Final

from msgspec import Struct

from podgroup.names import (
    EVENT_ERR_WORKLOAD_COMPOSE,
    EVENT_PRIORITY_CLASS_NOT_FOUND,
    EVENT_WORKLOAD_NAME_CONFLICT,
    EVICTED_CHECK_REJECTED,
    EVICTED_CLUSTER_QUEUE_STOPPED,
    EVICTED_LOCAL_QUEUE_STOPPED,
    EVICTED_MAX_EXEC_TIME,
    EVICTED_PODS_READY_TIMEOUT,
    EVICTED_PREEMPTED,
    EVICTED_REQUEUING_LIMIT,
    NOT_ADMITTED_CHECKS,
    PENDING_DEACTIVATED,
    PENDING_EVALUATION,
    PENDING_EXCEEDS_MAX_QUOTA,
    PENDING_MISCONFIGURED,
    PENDING_NO_MATCHING_FLAVOR,
    PENDING_ON_HOLD,
    PENDING_PREEMPTED_WORKLOADS,
    PENDING_WAITING_FOR_QUOTA,
    WAITING_FOR_REPLACEMENT_PODS,
)

WAITING_FOR_PODS: Final = "WaitingForPods"
WORKLOAD_REFUSED: Final = "WorkloadRefused"
UNMANAGED: Final = "Unmanaged"
LARGER_THAN_ADMITTED: Final = "LargerThanAdmitted"
UNKNOWN_ROLE: Final = "UnknownRole"
LARGER_THAN_DECLARED: Final = "LargerThanDeclared"
WAITING_FOR_PLACE: Final = "WaitingForPlace"
GROUP_IS_OVER: Final = "GroupIsOver"
FLAVOR_NOT_FOUND: Final = "FlavorNotFound"
PARKED: Final = "Parked"

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

    `blocked`: only a person can end it. `event` is the name of its Event, "" if that is the word
    itself. `waits`: it is a reason to wait; others are written to pods, or beside an admission.
    `warns`: its Event is a Warning though neither `blocked` nor `event` says so.
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
        """Name of the Event that tells it."""
        return self.event or self.word

    @property
    def serious(self) -> bool:
        """Whether its Event is a Warning."""
        return self.blocked or self.warns or bool(self.event)


def _bad(word: str, says: str, advice: str) -> Reason:
    """Return the reason of a group that cannot be composed as its pods are."""
    return Reason(
        word=word, says=says, advice=advice, blocked=True, event=EVENT_ERR_WORKLOAD_COMPOSE
    )


def _blocked(word: str, says: str, advice: str, event: str = "") -> Reason:
    return Reason(word=word, says=says, advice=advice, blocked=True, event=event)


def _waits(word: str, says: str, advice: str) -> Reason:
    return Reason(word=word, says=says, advice=advice)


def _on_pods(word: str, says: str, advice: str, *, warns: bool = True) -> Reason:
    return Reason(word=word, says=says, advice=advice, waits=False, warns=warns)


_AGAIN = "delete those that are wrong and make them again"

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
        "pods ended without success, and their places are to be filled before it is admitted again",
        "whoever made the pods has to make new ones (same shape, label "
        "kueue.x-k8s.io/pod-group-name={name}); gatelog never makes pods",
    ),
    _bad(
        "BadTotalCount",
        "the total count is no number that can be used",
        "pods with a whole number from 1 to 2147483647 in kueue.x-k8s.io/pod-group-total-count",
    ),
    _bad(
        "BadGroupName",
        "no Workload can have the group's name",
        "pods with another group name: delete these and make them again while the webhook or "
        "policy is in place, which refuses such names",
    ),
    _bad(
        "BadRoleHash",
        "a role hash that cannot be used",
        "pods without the annotation kueue.x-k8s.io/role-hash, or with a valid one: " + _AGAIN,
    ),
    _bad(
        "BadPodIndex",
        "a pod index that is no number below the total count",
        "pods whose label kueue.x-k8s.io/pod-group-pod-index is a whole number below the total "
        "count: " + _AGAIN,
    ),
    _bad(
        "BadSets",
        "the declaration of sets cannot be read",
        "a kueue.x-k8s.io/pod-group-sets that can be read: the message says line and field; "
        "delete the pod that carries it and make it again (docs/dialects.md)",
    ),
    _bad(
        "BadDeclaration",
        "a declaration of the group cannot be read",
        "declarations that can be read: the message names pod and annotation; delete that pod "
        "and make it again (docs/dialects.md)",
    ),
    _bad(
        "DifferentTotalCounts",
        "pods disagree on the total count",
        "pods that agree on the annotation kueue.x-k8s.io/pod-group-total-count: " + _AGAIN,
    ),
    _bad(
        "DifferentQueues",
        "pods name different queues",
        "pods that all name the same queue: delete the others and make them again",
    ),
    _bad(
        "DifferentLabels",
        "pods disagree on a label that is to be copied",
        "pods with the same value of every label in queueing.label_keys_to_copy: delete those "
        "that differ and make them again",
    ),
    _bad(
        "DifferentAnnotations",
        "pods disagree on an annotation that is to be copied",
        "pods with the same value of every annotation in queueing.annotation_keys_to_copy: delete "
        "those that differ and make them again",
    ),
    _bad(
        "DifferentDialects",
        "pods declare their group in different ways",
        "pods that declare their group in one way only: delete those of the other way and make "
        "them again (docs/dialects.md)",
    ),
    _bad(
        "DifferentSets",
        "pods declare different sets",
        "one kueue.x-k8s.io/pod-group-sets in the group: delete the pods that contradict the "
        "first and make them again",
    ),
    _bad(
        "DifferentRoles",
        "pods disagree on roles or their counts",
        "pods that agree on roles and role counts: " + _AGAIN,
    ),
    _bad(
        "DifferentShapes",
        "pods of one role ask for different things",
        "pods of one role that ask for the same: delete those that differ, or give them a role "
        "(annotation kueue.x-k8s.io/role-hash) of their own",
    ),
    _bad(
        "TooManyRoles",
        "more than 18 different shapes of pods",
        "fewer different shapes of pods in one group, or several groups",
    ),
    _blocked(
        "RunningUnadmitted",
        "its pods run without ever having been at a gate",
        "nothing: its pods run without quota because they had no gate when they were created; "
        "delete and make them again while the webhook or policy is in place",
    ),
    # -- its Workload -------------------------------------------------------------------------
    _blocked(
        "PrebuiltWorkloadNotFound",
        "the Workload that the pods name is not there, or is another group's",
        "the Workload {namespace}/{workload_name} that the pods name with "
        "kueue.x-k8s.io/prebuilt-workload-name; gatelog does not make it",
    ),
    _blocked(
        "WorkloadNameConflict",
        "a Workload of that name is somebody else's",
        "that the Workload {namespace}/{workload_name}, which is not ours, is deleted or the "
        "group gets another name",
        EVENT_WORKLOAD_NAME_CONFLICT,
    ),
    _blocked(
        WORKLOAD_REFUSED,
        "the API server does not take the Workload",
        "that the API server takes the Workload {namespace}/{workload_name}: the message says "
        "what it has against it (a quota of objects, a policy, a missing permission); it is tried "
        "again, after 30 s at first and every 30 min at last",
    ),
    _blocked(
        "WorkloadPriorityClassNotFound",
        "the priority class that the pods name is not there",
        "the WorkloadPriorityClass {priority_class}",
        EVENT_PRIORITY_CLASS_NOT_FOUND,
    ),
    _waits(
        PENDING_DEACTIVATED,
        "spec.active of its Workload is false",
        "spec.active: true on its Workload: kubectl patch workload -n {namespace} "
        '{workload_name} --type merge -p \'{{"spec":{{"active":true}}}}\'',
    ),
    # -- its queue ----------------------------------------------------------------------------
    _blocked(
        "LocalQueueNotFound",
        "there is no such LocalQueue in the namespace",
        "a LocalQueue {queue} in namespace {namespace}, or pods that name another one: "
        "kubectl get localqueues -n {namespace}",
    ),
    _blocked(
        "ClusterQueueNotFound",
        "the LocalQueue points to a ClusterQueue that is not there",
        "the ClusterQueue that LocalQueue {namespace}/{queue} points to",
    ),
    _blocked(
        "ClusterQueueInactive",
        "the ClusterQueue cannot admit anything",
        "the ResourceFlavors that ClusterQueue {cluster_queue} names, and AdmissionChecks that "
        "are active; if it is being deleted, another queue",
    ),
    _blocked(
        PENDING_MISCONFIGURED,
        "the queue does not take such a group",
        "a change of LocalQueue {namespace}/{queue} or its ClusterQueue by its administrator "
        "(a resource that no quota is meant for: queueing.exclude_resource_prefixes)",
    ),
    _waits(
        PENDING_ON_HOLD,
        "its queue is stopped",
        "that stopPolicy of the queue is set back to None by its administrator",
    ),
    _waits(
        NOT_ADMITTED_CHECKS,
        "its quota is reserved, and not all admission checks agree yet",
        "that the controllers of the AdmissionChecks it names say Ready in status.admissionChecks "
        "of Workload {namespace}/{workload_name}",
    ),
    # -- quota --------------------------------------------------------------------------------
    _waits(
        PENDING_WAITING_FOR_QUOTA,
        "others have the quota it needs, or are before it in line",
        "that others in ClusterQueue {cluster_queue} finish, or more quota, or a higher "
        "priority if the ClusterQueue preempts",
    ),
    _waits(
        PENDING_PREEMPTED_WORKLOADS,
        "groups were told to stop for it and have not ended yet",
        "that the groups that were told to stop end; it is first in line for what they free",
    ),
    _blocked(
        PENDING_EXCEEDS_MAX_QUOTA,
        "it asks for more than there is at all",
        "a larger quota of ClusterQueue {cluster_queue} (its administrator gives it), or smaller "
        "requests: waiting alone will not help",
    ),
    _blocked(
        PENDING_NO_MATCHING_FLAVOR,
        "no flavor of the queue suits its pods",
        "a ResourceFlavor in ClusterQueue {cluster_queue} that the pods' node selectors and "
        "tolerations allow",
    ),
    _waits(
        PENDING_EVALUATION,
        "it has not been looked at yet",
        "a moment: it has not been looked at yet",
    ),
    # -- evicted, and not queued again yet ----------------------------------------------------
    _waits(
        EVICTED_PREEMPTED,
        "it gave way to another group, and still stops",
        "that its pods stop; it is queued again then",
    ),
    _waits(
        EVICTED_PODS_READY_TIMEOUT,
        "its pods were not ready in time",
        "that its back-off ends; gatelog history says since when and how often. What keeps pods "
        "from being ready is in kubectl describe pod",
    ),
    _waits(
        EVICTED_CLUSTER_QUEUE_STOPPED,
        "its ClusterQueue was drained",
        "that stopPolicy of ClusterQueue {cluster_queue} is set back to None by its administrator",
    ),
    _waits(
        EVICTED_LOCAL_QUEUE_STOPPED,
        "its LocalQueue was drained",
        "that stopPolicy of LocalQueue {namespace}/{queue} is set back to None by its "
        "administrator",
    ),
    *(
        _waits(
            word,
            says,
            "spec.active: true on its Workload, once the cause is mended: kubectl patch workload "
            '-n {namespace} {workload_name} --type merge -p \'{{"spec":{{"active":true}}}}\'',
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
        "something about it could not be understood and was parked",
        "a person: something about it could not be understood and was parked. Look: gatelog "
        "parked show {parked}; when the cause is mended: gatelog parked release {parked}",
    ),
    # -- written to pods, and beside an admission ------------------------------------------------
    _on_pods(
        UNKNOWN_ROLE,
        "a gated pod of an admitted group: the group has no such role; which roles it has",
        "a pod of one of those roles instead of it",
    ),
    _on_pods(
        LARGER_THAN_DECLARED,
        "a gated pod of an admitted group: it asks for more than its group has declared",
        "a pod that asks for no more than is declared instead of it",
    ),
    _on_pods(
        WAITING_FOR_PLACE,
        "a gated pod of an admitted group: all places of its role are taken",
        "that a pod of its role ends or is deleted",
        warns=False,
    ),
    _on_pods(
        FLAVOR_NOT_FOUND,
        "a gated pod of an admitted group: the flavor it was admitted with is not there",
        "the ResourceFlavor that the message names",
        warns=False,
    ),
    _on_pods(
        GROUP_IS_OVER,
        "a gated pod of a group that has ended: how it ended, that the pod never starts or what "
        "has to go before it is queued as a new group",
        "what the message says",
    ),
    _on_pods(
        UNMANAGED,
        "a pod lost the label kueue.x-k8s.io/managed: a gated one is let go of, until the label is "
        "put back or somebody else takes the gate off; of a running one the label is put back",
        "whoever takes the label off to leave it",
    ),
    _on_pods(
        "LabelPutBack",
        "a pod that runs lost the label kueue.x-k8s.io/managed: it is put back, and the pod is "
        "charged until it has ended",
        "whoever takes the label off to leave it",
    ),
    _on_pods(
        "PodRefused",
        "a pod cannot be read: which field, and what is wrong with it; it is left alone, or "
        "treated as it was last read",
        "a field that can be read",
    ),
    _on_pods(
        "TotalCountChanged",
        "the pod that was changed: a declared size is not obeyed once the group is complete",
        "the size that it had, or a new group",
    ),
    _on_pods(
        LARGER_THAN_ADMITTED,
        "pods of an admitted group were resized beyond what it was given, which is charged too",
        "a smaller size, or nothing: the quota is charged as it is used",
    ),
)
"""The table; docs/concepts.md has it."""

_BY_WORD: Final = {reason.word: reason for reason in REASONS}


def reason_of(word: str) -> Reason:
    """Return what is known of a reason; one that is not in the table is a plain wait."""
    return _BY_WORD.get(word) or Reason(word=word, says="", advice=OTHERWISE)


def blocks(word: str) -> bool:
    """Tell whether only a person can end a wait for this reason."""
    known = _BY_WORD.get(word)
    return known is not None and known.blocked
