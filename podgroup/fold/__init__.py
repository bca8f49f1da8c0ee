"""fold: (world, event) -> world changed, one step of the reduction of the log to state.

Theory. Every fact is folded exactly once in effect: a delta that is not newer than the known object
is dropped, so duplicates, batches cut differently after a crash and overlapping relists do no harm.
The fold never decides; it marks the groups that changed, with what changed (`world.dirty_groups`),
and writes notes of what happened into the journal.

Invariant: an event folded twice is an event folded once.
"""

from collections.abc import Callable
from typing import Any

from podgroup.fold.claims import object_applied, object_deleted
from podgroup.fold.deciding import settings_recorded
from podgroup.fold.measuring import pod_measured
from podgroup.fold.nodes import nodes_taken
from podgroup.fold.operations import operator_acted
from podgroup.fold.outcomes import outcome_recorded, timer_fired
from podgroup.fold.pods import pod_deleted, pod_seen
from podgroup.fold.refusals import decision_refused, delta_refused
from podgroup.fold.relists import (
    relist_completed,
    relist_started,
    synced,
    unlisted,
    watch_progressed,
)
from podgroup.fold.restoring import cluster_restored
from podgroup.fold.workloads import workload_applied, workload_deleted
from podgroup.log.events import (
    ClusterRestored,
    DecisionRefused,
    DeltaRefused,
    Event,
    NodesTaken,
    ObjectApplied,
    ObjectDeleted,
    OperatorActed,
    OutcomeRecorded,
    PodApplied,
    PodDeleted,
    PodMeasured,
    RelistCompleted,
    RelistStarted,
    SettingsRecorded,
    TimerFired,
    WatchProgressed,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.log.journal import At
from podgroup.state.world import World

__all__ = ["FOLDS", "synced", "unlisted"]

FOLDS: dict[type[Event], Callable[[World, At, Any, int], object]] = {
    PodApplied: pod_seen,
    PodDeleted: lambda world, here, event, _: pod_deleted(
        world, here, event.pod, filtered=event.filtered
    ),
    PodMeasured: lambda world, here, event, _: pod_measured(world, event),
    WorkloadApplied: lambda world, here, event, _: workload_applied(
        world, here, event.workload, event.relist
    ),
    WorkloadDeleted: lambda world, here, event, _: workload_deleted(world, here, event.workload),
    ObjectApplied: lambda world, here, event, _: object_applied(world, here, event),
    ObjectDeleted: lambda world, here, event, _: object_deleted(world, here, event),
    NodesTaken: lambda world, here, event, _: nodes_taken(world, event),
    RelistStarted: lambda world, here, event, _: relist_started(world, here, event),
    RelistCompleted: lambda world, here, event, _: relist_completed(world, here, event),
    WatchProgressed: lambda world, _, event, __: watch_progressed(world, event),
    ClusterRestored: lambda world, here, event, _: cluster_restored(world, here, event),
    OutcomeRecorded: outcome_recorded,
    TimerFired: lambda world, here, event, _: timer_fired(world, here, event),
    DeltaRefused: delta_refused,
    DecisionRefused: decision_refused,
    OperatorActed: lambda world, here, event, _: operator_acted(world, here, event),
    SettingsRecorded: lambda world, here, event, _: settings_recorded(world, here, event),
}
"""The fold of each event; a test compares the table with all events."""
