"""What it would take: for each reason to wait, the sentence that says what would end it.

Theory. A reason names what is missing; somebody at three in the morning wants to know what would
make it go away and who can do that. Reasons are those of the read model (docs of table `waits`);
one that is not known here is answered with the general advice.

Invariant: pure; sentences name the group's own queue, ClusterQueue and counts.
"""

from collections.abc import Callable

from gatelog.rows import GroupRow


def _pods(group: GroupRow) -> str:
    absent = group.total_count - (group.pods_seen - group.pods_excess - group.pods_replaced)
    label = f"label kueue.x-k8s.io/pod-group-name={group.name}"
    if absent <= 0:
        return f"pods that count: those there may have ended or be going ({label})"
    return (
        f"{absent} more {_plural(absent, 'pod')} with {label}; "
        f"{group.total_count - absent} of {group.total_count} are there"
    )


def replacements(group: GroupRow) -> str:
    """Return who makes up for pods that ended without success, and how."""
    return (
        f"whoever made the pods has to make new ones (same shape, label "
        f"kueue.x-k8s.io/pod-group-name={group.name}); gatelog never makes pods"
    )


def _quota(group: GroupRow) -> str:
    return (
        f"that others in ClusterQueue {group.cluster_queue} finish, or more quota, or a higher "
        "priority if the ClusterQueue preempts"
    )


def _key(group: GroupRow) -> str:
    return group.parked.partition(" ")[0] or "SEQ/ORD"


_REMEDIES: dict[str, Callable[[GroupRow], str]] = {
    "WaitingForPods": _pods,
    "WaitingForReplacementPods": replacements,
    "WaitingForQuota": _quota,
    "WaitingForPreemptedWorkloads": lambda g: (
        "that the groups that were told to stop end; it is first in line for what they free"
    ),
    "ExceedsMaxQuota": lambda g: (
        f"more nominal quota in ClusterQueue {g.cluster_queue} than it has in all, or smaller "
        "requests: waiting alone will not help"
    ),
    "NoMatchingFlavor": lambda g: (
        f"a ResourceFlavor in ClusterQueue {g.cluster_queue} that the pods' node selectors and "
        "tolerations allow"
    ),
    "LocalQueueNotFound": lambda g: (
        f"a LocalQueue {g.queue} in namespace {g.namespace}, or pods that name another one: "
        f"kubectl get localqueues -n {g.namespace}"
    ),
    "ClusterQueueNotFound": lambda g: (
        f"the ClusterQueue that LocalQueue {g.namespace}/{g.queue} points to"
    ),
    "ClusterQueueInactive": lambda g: (
        f"the ResourceFlavors that ClusterQueue {g.cluster_queue} names"
    ),
    "Misconfigured": lambda g: (
        f"a change of LocalQueue {g.namespace}/{g.queue} or its ClusterQueue by its administrator "
        "(a resource that no quota is meant for: queueing.exclude_resource_prefixes)"
    ),
    "OnHold": lambda g: "that stopPolicy of the queue is set back to None by its administrator",
    "Deactivated": lambda g: (
        f"spec.active: true on its Workload: kubectl patch workload -n {g.namespace} "
        f'{g.workload_name} --type merge -p \'{{"spec":{{"active":true}}}}\''
    ),
    "DifferentTotalCounts": lambda g: (
        "pods that agree on the annotation kueue.x-k8s.io/pod-group-total-count: delete those "
        "that are wrong and make them again"
    ),
    "BadTotalCount": lambda g: (
        "pods with a whole number from 1 to 2147483647 in kueue.x-k8s.io/pod-group-total-count"
    ),
    "BadGroupName": lambda g: (
        "pods with another group name: delete these and make them again while the webhook or "
        "policy is in place, which refuses such names"
    ),
    "BadRoleHash": lambda g: (
        "pods without the annotation kueue.x-k8s.io/role-hash, or with a valid one: delete those "
        "that are wrong and make them again"
    ),
    "BadPodIndex": lambda g: (
        "pods whose label kueue.x-k8s.io/pod-group-pod-index is a whole number below the total "
        "count: delete those that are wrong and make them again"
    ),
    "BadSets": lambda g: (
        "a kueue.x-k8s.io/pod-group-sets that can be read: the message says line and field; "
        "delete the pod that carries it and make it again (docs/dialects.md)"
    ),
    "BadDeclaration": lambda g: (
        "declarations that can be read: the message names pod and annotation; delete that pod "
        "and make it again (docs/dialects.md)"
    ),
    "DifferentDialects": lambda g: (
        "pods that declare their group in one way only: delete those of the other way and make "
        "them again (docs/dialects.md)"
    ),
    "DifferentSets": lambda g: (
        "one kueue.x-k8s.io/pod-group-sets in the group: delete the pods that contradict the "
        "first and make them again"
    ),
    "DifferentRoles": lambda g: (
        "pods that agree on roles and role counts: delete those that are wrong and make them again"
    ),
    "DifferentShapes": lambda g: (
        "pods of one role that ask for the same: delete those that differ, or give them a role "
        "(annotation kueue.x-k8s.io/role-hash) of their own"
    ),
    "DifferentLabels": lambda g: (
        "pods with the same value of every label in queueing.label_keys_to_copy: delete those "
        "that differ and make them again"
    ),
    "DifferentAnnotations": lambda g: (
        "pods with the same value of every annotation in queueing.annotation_keys_to_copy: delete "
        "those that differ and make them again"
    ),
    "PrebuiltWorkloadNotFound": lambda g: (
        f"the Workload {g.namespace}/{g.workload_name} that the pods name with "
        "kueue.x-k8s.io/prebuilt-workload-name; gatelog does not make it"
    ),
    "DifferentQueues": lambda g: (
        "pods that all name the same queue: delete the others and make them again"
    ),
    "TooManyRoles": lambda g: "fewer different shapes of pods in one group, or several groups",
    "WorkloadNameConflict": lambda g: (
        f"that the Workload {g.namespace}/{g.workload_name}, which is not ours, is deleted or the "
        "group gets another name"
    ),
    "WorkloadRefused": lambda g: (
        f"that the API server takes the Workload {g.namespace}/{g.workload_name}: the message says "
        "what it has against it (a quota of objects, a policy, a missing permission); it is tried "
        "again, after 30 s at first and every 30 min at last"
    ),
    "WorkloadPriorityClassNotFound": lambda g: (
        f"the WorkloadPriorityClass {g.priority_class or 'that the pods name'}"
    ),
    "RunningUnadmitted": lambda g: (
        "nothing: its pods run without quota because they had no gate when they were created; "
        "delete and make them again while the webhook or policy is in place"
    ),
    "Parked": lambda g: (
        "a person: something about it could not be understood and was set aside. Look: gatelog "
        f"parked show {_key(g)}; when the cause is mended: gatelog parked release {_key(g)}"
    ),
    "PendingEvaluation": lambda g: "a moment: it has not been looked at yet",
}


def remedy(group: GroupRow) -> str:
    """Return what would end the present wait of a group."""
    known = _REMEDIES.get(group.wait_reason)
    if known is not None:
        return known(group)
    return "what the message says; gatelog history shows how it came to this"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
