"""The counts that a journal adds to the metrics: of pods, groups and decisions.

Theory. The fold writes what happened into a journal, and one pure function counts the journal.
KEP-976 "Metrics" asks for pods gated, ungated and rejected; the other names are Kueue's with our
prefix (kueue_admission_wait_time_seconds, kueue_evicted_workloads_total,
kueue_pod_scheduling_gate_removal_seconds), groups in place of Workloads. Everything is counted by
the ClusterQueue that admitted the group, or else the ClusterQueue of its LocalQueue.

Invariant: the sum over batches does not depend on how the log was batched, as long as the queues of
a group stay the same.
"""

from collections import Counter
from datetime import datetime
from typing import Final

from msgspec import Struct, field

from podgroup.folding import PendingWrites
from podgroup.log.journal import AdmissionRow
from podgroup.model.ids import GroupID
from podgroup.model.names import ADMISSION_GATE
from podgroup.state.facts import cluster_queue_name
from podgroup.state.group import Group
from podgroup.state.world import World

POD_GATED: Final = "gatelog_pods_gated_total"
POD_UNGATED: Final = "gatelog_pods_ungated_total"
POD_REJECTED: Final = "gatelog_pods_rejected_total"
ADMITTED: Final = "gatelog_admitted_groups_total"
EVICTED: Final = "gatelog_evicted_groups_total"
FINISHED: Final = "gatelog_finished_groups_total"
WAITED: Final = "gatelog_admission_wait_time_seconds"
UNGATE_TOOK: Final = "gatelog_pod_scheduling_gate_removal_seconds"
DECISIONS: Final = "gatelog_decisions_total"
PARKED: Final = "gatelog_projector_parked_total"

ADOPTED: Final = "Adopted"
"""Reason of a GroupAdmitted note for an admission that stood before we came."""

Key = tuple[str, tuple[str, ...]]
"""A series: name of the family, label values."""


class Increments(Struct):
    """The increments of a journal: amounts for counters, observations in seconds for histograms."""

    counts: Counter[Key] = field(default_factory=Counter)
    times: list[tuple[Key, float]] = field(default_factory=list)


def increments(taken: PendingWrites, world: World) -> Increments:
    """Return the counts that a journal adds; `world` is the state at its end."""
    found = Increments()
    counts, where = found.counts, _Where(taken, world)
    for note in taken.journal.notes:
        match note.kind:
            case "PodSeen" if note.reason == "gated":
                counts[POD_GATED, (where.queue(note.group),)] += 1
            case "GateRemoved" if note.reason == ADMISSION_GATE:
                queue = where.queue(note.group)
                counts[POD_UNGATED, (queue,)] += 1
                since = where.admitted_at(note.group, note.at)
                if since is not None:
                    found.times.append(((UNGATE_TOOK, (queue,)), _seconds(since, note.at)))
            case "PodGone" if note.reason == "excess":
                counts[POD_REJECTED, (where.queue(note.group),)] += 1
            case "GroupAdmitted" if note.reason != ADOPTED:
                queue = where.queue(note.group)
                counts[ADMITTED, (queue,)] += 1
                queued_at = where.queued_at(note.group, note.seq)
                if queued_at is not None:
                    found.times.append(((WAITED, (queue,)), _seconds(queued_at, note.at)))
            case "GroupEvicted":
                counts[EVICTED, (where.queue(note.group), note.reason)] += 1
            case "GroupFinished":
                counts[FINISHED, (where.queue(note.group), note.reason)] += 1
            case _:
                pass
    for decision in taken.journal.decisions:
        counts[DECISIONS, (decision.rule, decision.command.action)] += 1
    for parked in taken.journal.parked:
        counts[PARKED, (parked.reason,)] += 1
    return found


class _Where:
    """Looks up what notes leave out; each group once per batch."""

    def __init__(self, taken: PendingWrites, world: World) -> None:
        self._world = world
        self._gone = taken.gone_groups
        self._rows: dict[str, list[AdmissionRow]] = {}
        for row in taken.journal.admissions.values():
            self._rows.setdefault(row.group, []).append(row)
        self._queues: dict[str, str] = {}

    def queue(self, identity: str) -> str:
        """Return the ClusterQueue that the group was admitted by, or else that its queue names."""
        found = self._queues.get(identity)
        if found is None:
            found = self._queues[identity] = self._find_queue(identity)
        return found

    def _find_queue(self, identity: str) -> str:
        if rows := self._rows.get(identity):
            return rows[-1].cluster_queue
        group = self._group(identity)
        return cluster_queue_name(self._world, group) if group is not None else ""

    def _group(self, identity: str) -> Group | None:
        live = self._world.groups.get(GroupID(identity))
        return live if live is not None else self._gone.get(GroupID(identity))

    def admitted_at(self, identity: str, by: datetime) -> datetime | None:
        """Return when the group was last admitted as of `by`."""
        times = [row.admitted_at for row in self._rows.get(identity, ())]
        group = self._group(identity)
        if group is not None and group.quota.holding is not None:
            times.append(group.quota.holding.at)
        return max((at for at in times if at <= by), default=None)

    def queued_at(self, identity: str, seq: int) -> datetime | None:
        """Return since when the group had waited that was admitted at position `seq`."""
        for row in self._rows.get(identity, ()):
            if row.admitted_seq == seq:
                return row.queued_at
        return None


def _seconds(start: datetime, end: datetime) -> float:
    # Timestamps of objects are the API server's, those of messages the log's.
    return max(0.0, (end - start).total_seconds())
