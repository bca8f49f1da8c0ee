"""The sentences that the fold itself writes into history, frozen as the first kept log has them.

Theory. Nearly every text of a history row was in the log before: a rule's, a user's, the API
server's. These few are made while a log is folded, so a log of last year gets today's words. They
are part of the log's format for that reason: a changed sentence would change rows of old logs
(`tests/golden/test_sentences.py` holds each to the letter). A new event gets a new sentence here.

Invariant: a sentence depends on its arguments alone.
"""

from datetime import datetime
from typing import Final

from podgroup.model.names import MANAGED_LABEL

HIDDEN: Final = f"label {MANAGED_LABEL} was removed from a pod that runs, or the pod is gone"
FOUND_AGAIN: Final = "it is in sight again"
UNLABELLED: Final = f"label {MANAGED_LABEL} was removed"
GONE_BY_WRITE: Final = "found out by a write: no watch saw it go"
GONE_BY_RELIST: Final = "inferred from a relist: no watch saw it go"
GROUP_NAME_CHANGED: Final = "group name changed"
GROUP_OVER: Final = "its group was over"
RESTORED: Final = "the cluster was restored from a backup"
GATED: Final = "gated"
NOT_GATED: Final = "not gated"
LEFT_BEHIND: Final = "left behind"
LEFT_OUT: Final = "left out"
NOT_INSTALLED: Final = "kind is not installed"
AN_OPERATOR: Final = "an operator"
REMOVED_ELSEWHERE: Final = "by another client: it was gone before gatelog's write"
START_FAILED: Final = "pod and admission contradict each other"


def pod_seen(pod: str, role: str) -> str:
    """A pod joined its group in a role."""
    return f"pod {pod}, role {role}"


def removed_by(writer: str) -> str:
    """A gate was removed; the writer is "" where the object has no trace of the writer."""
    return f"by {writer}" if writer else ""


def scheduled_on(node: str) -> str:
    """A pod was bound."""
    return f"on node {node}"


def exit_code(code: int) -> str:
    """A container ended without a reason."""
    return f"exit code {code}"


def state_was(state: str) -> str:
    """The state before; "" if there was none."""
    return f"was {state}" if state else ""


def resized(pod: str, sizes: str) -> str:
    """The requests of a pod changed."""
    return f"pod {pod}: {sizes}"


def became(what: str, old: str, new: str) -> str:
    """An amount of a resource changed."""
    return f"{what} {old} became {new}"


def recounted(pod: str, old: str, new: str, total: int) -> str:
    """A size was declared anew after composition."""
    return f"pod {pod}: {old} became {new}; the group stays at {total}"


def counts(roles: list[tuple[int, str]]) -> str:
    """The counts of an adopted group's roles."""
    return ", ".join(f"{count} x {name}" for count, name in roles)


def start_reserved(queue: str, by: datetime | None) -> str:
    """A group that has waited too long is to start by a time; None: without a bound."""
    when = (
        "once what runs has ended" if by is None else f"by {by:%Y-%m-%d %H:%M:%S} UTC at the latest"
    )
    return f"in ClusterQueue {queue}, {when}"


def workload(name: str) -> str:
    """A Workload came or went."""
    return f"Workload {name}"


def workload_refused(name: str, why: str) -> str:
    """A Workload could not be created."""
    return f'Workload "{name}" could not be created: {why}'


def answered(http_status: int) -> str:
    """The API server refused without a message."""
    return f"the API server answered {http_status}"


def reserved_in(cluster_queue: str, checks: list[str]) -> str:
    """Quota is reserved until the checks agree."""
    return f"in ClusterQueue {cluster_queue}, for admission checks: {', '.join(checks)}"


def resized_to(counts: list[tuple[str, int, int]]) -> str:
    """Roles have another number of places: role, before, now."""
    return ", ".join(f"{role}: {before} became {now}" for role, before, now in counts)


def admitted_in(cluster_queue: str) -> str:
    """A group was admitted."""
    return f"in ClusterQueue {cluster_queue}"


def listed(count: int, missing: int) -> str:
    """A relist ended."""
    return f"{count} listed, {missing} gone unseen"


def acted(target: str, by: str, message: str) -> str:
    """An operator released or discarded a parked entry."""
    return f"{target} by {by or AN_OPERATOR}: {message}"


def unreadable(field: str, message: str) -> str:
    """A field of an object could not be read."""
    return f"{field}: {message}"


def object_unreadable(kind: str, namespace: str, name: str, message: str) -> str:
    """An object could not be read."""
    return f"{kind} {namespace}/{name}: {message}"


def object_refused(kind: str, namespace: str, name: str) -> str:
    """Which object a parked delta was about."""
    return f"{kind} {namespace}/{name}"


def decision_parked(decision: str, message: str) -> str:
    """Which message of DECISIONS a parked decision was in."""
    return f"decision {decision}, message {message} of DECISIONS"


def decisions_message(sequence: int) -> str:
    """A message of DECISIONS that the actuators refuse."""
    return f"message {sequence} of DECISIONS"


def decision_refused(subject: str, reason: str, others: int) -> str:
    """Why the actuators refuse a message, and how many other messages they refused."""
    return f"{subject}: {reason}" + (f" ({others} others like it since the last)" if others else "")


def namespace_full(namespace: str, most_mib: int) -> str:
    """The larger pods of a namespace have no room left, and a pod is kept without some fields."""
    return (
        f"the large pods of namespace {namespace} take the {most_mib} MiB of memory that gatelog "
        "gives a namespace (queueing.namespace_memory_mib): affinity, tolerations, node selector, "
        "other labels and owners of this pod are read once others of them are gone"
    )


def queue_stopped(kind: str, place: str, because: str) -> str:
    """A person stopped, resumed or created a queue, and said why."""
    return f"{kind} {place}: {because}"
