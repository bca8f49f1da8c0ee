"""Advice: for each reason to wait, a sentence on what would end the wait.

Theory. A reason names what is missing; a user at three in the morning needs to know what would end
it and who can do that. The sentences are in `podgroup.model.reasons`; here they get the group's own
names and counts.

Invariant: pure.
"""

from gatelog.readmodel.rows import GroupRow
from podgroup.model.names import PENDING_MISCONFIGURED, WAITING_FOR_REPLACEMENT_PODS
from podgroup.model.reasons import effect_of, reason_of
from podgroup.model.wording import EARLIER_RUN, NOT_SELECTED, THERE, UNAVAILABLE, exist, too_few

_BY_MESSAGE = (
    (
        NOT_SELECTED,
        "that spec.namespaceSelector of ClusterQueue {cluster_queue} selects namespace "
        "{namespace}: without one it selects none, and an empty one ({{}}) selects all",
    ),
    (
        UNAVAILABLE,
        "that spec.resourceGroups of ClusterQueue {cluster_queue} has quota for that resource (or "
        "none is meant for it: queueing.exclude_resource_prefixes)",
    ),
)
"""Advice that the words of a wait allow, beyond that of its reason."""


_NO_QUEUE = (
    "label kueue.x-k8s.io/queue-name on the pods, with a LocalQueue of namespace {namespace} "
    "(kubectl get localqueues -n {namespace}), or that they are deleted"
)


def remedy(group: GroupRow) -> str:
    """Return what would end the present wait of a group."""
    if group.wait_reason == PENDING_MISCONFIGURED and not group.queue:
        return _worded(group, _NO_QUEUE)
    for said, advice in _BY_MESSAGE:
        if said in group.wait_message:
            return _worded(group, advice)
    return _filled(group, group.wait_reason)


def replacements(group: GroupRow) -> str:
    """Return who replaces pods that ended without success, and how."""
    return _filled(group, WAITING_FOR_REPLACEMENT_PODS)


def _filled(group: GroupRow, reason: str) -> str:
    return _worded(group, reason_of(reason).advice)


def _worded(group: GroupRow, advice: str) -> str:
    return advice.format(
        namespace=group.namespace,
        name=group.name,
        queue=group.queue,
        cluster_queue=group.cluster_queue,
        workload_name=group.workload_name,
        priority_class=group.priority_class or "that the pods name",
        missing_pods=_missing(group),
        parked=group.parked.partition(" ")[0] or "SEQ/ORD",
    )


def pods_exist(group: GroupRow) -> str:
    """Say of a group that has too few pods how many there are: `3 of 4 pods exist; create 1 more`.

    "" if it waits for something else, or for pods other than these many.
    """
    absent = _absent(group)
    if not absent:
        return ""
    return exist(group.total_count - absent, group.total_count, absent)


def _absent(group: GroupRow) -> int:
    """Return how many pods are to be created, 0 if the group does not wait for their number.

    Present pods are counted as in view v_why_pending (`THERE`).
    """
    waits = effect_of(group.wait_reason).short
    if not waits and not group.wait_message.startswith(too_few(group.total_count)):
        return 0
    there: int = sum(getattr(group, counter) for counter in THERE)
    return max(0, group.total_count - there)


def _missing(group: GroupRow) -> str:
    label = f"label kueue.x-k8s.io/pod-group-name={group.name}"
    if EARLIER_RUN in group.wait_message:
        return "that the pods of the earlier run have ended: kubectl delete pod ends them"
    if absent := _absent(group):
        pods = "pod" if absent == 1 else "pods"
        return (
            f"{absent} more {pods} with {label}; "
            f"{group.total_count - absent} of {group.total_count} are there"
        )
    return f"the pods that are named above ({label}); those that ended or are going do not count"
