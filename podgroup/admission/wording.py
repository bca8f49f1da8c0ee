"""Kueue's texts for people, word for word: messages of conditions, and requeue reasons.

Invariant: a message depends on its arguments alone.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from podgroup.model.names import (
    PREEMPTED_FAIR_SHARING,
    PREEMPTED_IN_CLUSTER_QUEUE,
    PREEMPTED_IN_COHORT,
    PREEMPTED_WHILE_BORROWING,
)
from podgroup.model.reasons import NO_LONGER_FITS, OVERLAP
from podgroup.model.wording import NOT_SELECTED

GENERIC: Final = ""
NAMESPACE_MISMATCH: Final = "NamespaceMismatch"
NO_FIT: Final = "NoFit"
NO_CANDIDATES: Final = "PreemptionNoCandidates"
PENDING_PREEMPTION: Final = "PendingPreemption"
PENDING_LEAST_RUN: Final = "PendingLeastRun"
"""Not Kueue's: the victims' least run time is not over yet."""
FAILED_AFTER_NOMINATION: Final = "FailedAfterNomination"

AT_ONCE: Final = frozenset({FAILED_AFTER_NOMINATION, PENDING_PREEMPTION, "PreemptionFailed"})
"""Requeue reasons after which a workload is tried again at once."""

ASSUMED: Final = "assumed"
SKIPPED: Final = "skipped"

DEFERRED: Final = f"{OVERLAP}, but will fit after these preemptions complete"
BYPASSED: Final = "Bypassed scheduling evaluation because an equivalent workload recently failed"
EVICTIONS_UNDER_WAY: Final = "Workload fits once evictions under way are complete"
KEPT_FOR_LONGER_WAIT: Final = "Workload would put off a start that is reserved for another one"

PLAINLY: Final = {
    OVERLAP: "groups that would give way for it give way for another one already",
    DEFERRED: "fits once groups that are being preempted have ended",
    EVICTIONS_UNDER_WAY: "fits once groups that are being preempted have ended",
    KEPT_FOR_LONGER_WAIT: "a group that has waited for longer is reserved a start, which this one "
    "would put off (queueing.longest_wait_s)",
    NO_LONGER_FITS: "another group took at the same moment what it needs",
    NOT_SELECTED: "its ClusterQueue takes no groups of this namespace",
}
"""The same in plain words, for people who do not know Kueue."""

PREEMPTION_WHY: Final = {
    PREEMPTED_IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    PREEMPTED_IN_COHORT: "reclamation within the cohort",
    PREEMPTED_FAIR_SHARING: "Fair Sharing within the cohort",
    PREEMPTED_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}


def preemption_why(policy: str) -> str:
    """Say by which policy a workload is preempted."""
    return PREEMPTION_WHY[policy]


def inactive(queue: str) -> str:
    """Say that a ClusterQueue admits nothing."""
    return f"ClusterQueue {queue} is inactive"


def no_namespace(namespace: str) -> str:
    """Say that a namespace does not exist."""
    return f'workload namespace "{namespace}" does not exist'


def pending_preemption(message: str, victims: int) -> str:
    """Add to a message how many workloads give way."""
    return f"{message}. Pending the preemption of {victims} workload(s)"


def postponed(message: str, victims: int, until: float) -> str:
    """Add to a message how many workloads give way, and from when on (seconds)."""
    at = datetime.fromtimestamp(until, UTC).isoformat(timespec="seconds")
    said = pending_preemption(message, victims) if victims else EVICTIONS_UNDER_WAY
    return f"{said}, not before {at}"


def gave_way(uid: str) -> str:
    """Say that a workload was preempted and is tried again after its preemptor."""
    return f"gave way to a workload (UID: {uid}), and is tried again once that one is in"


def lender_waits(queue: str) -> str:
    """Say that a workload goes first that would reclaim at once what the head would borrow."""
    return (
        f"would borrow quota that a workload waiting in ClusterQueue {queue} would reclaim at once"
    )


def no_other_places(nodes: Sequence[str]) -> str:
    """Say that pods of failed nodes have no place elsewhere."""
    listed = ",".join(nodes)
    return f"Workload was evicted as there was no replacement for unhealthy node(s): {listed}"


def several_failed(nodes: Sequence[str]) -> str:
    """Say that more than one node failed."""
    return (
        "Workload eviction triggered due to multiple TAS assigned node failures, including: "
        + ", ".join(nodes)
    )


def preempted(uid: str, owner_uid: str, reason: str, path: str, victim_path: str) -> str:
    """Say for which workload a workload was preempted, and why."""
    return (
        f"Preempted to accommodate a workload (UID: {uid or 'UNKNOWN'}, "
        f"JobUID: {owner_uid or 'UNKNOWN'}) due to {preemption_why(reason)}; "
        f"preemptor path: {path}; preemptee path: {victim_path}"
    )
