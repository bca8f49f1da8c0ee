"""Reserved starts: workloads that have waited too long, and by when each of them is to start.

Theory. A start is reserved for a workload that has waited for `Configuration.longest_wait_s`, in
the flavors that it gets first as running workloads end: `podgroup.admission.starts` works the start
out, and holds other workloads against it. The trees count nothing for a reserved start: free quota
stays in use by workloads that end before it, or leave the quota that it needs.

All of that outlives a restart: `changed` names the workloads whose record is to be written anew.

Invariant: in a ClusterQueue a flavor is in one reserved start at most.
"""

import math

from podgroup.admission.cache.objects import Objects
from podgroup.admission.cache.wake_ups import WakeUps
from podgroup.admission.holding import usage_of
from podgroup.admission.model import FlavorResource, PodSetAssignment

NEVER = math.inf
"""The time of the next look for workloads that have waited too long, while none waits."""


class ReservedStart:
    """The flavors that a workload is to get, as worked out `at`, and `by` when (seconds).

    `by` None: after the end of all that ran before `at`, which has no bound. `soonest`: that time
    as of now, since workloads have ended earlier. `spare` remembers, by ClusterQueue, the quota
    that others can have at that time, as long as `seen` stays the same. In a tree the start of
    lower `rank` goes first.
    """

    __slots__ = ("at", "by", "id", "pod_sets", "queue", "rank", "seen", "soonest", "spare", "usage")

    def __init__(
        self,
        id: str,
        queue: str,
        pod_sets: tuple[PodSetAssignment, ...],
        at: float,
        by: float | None,
        rank: int = 0,
    ) -> None:
        self.id = id
        self.queue = queue
        self.pod_sets = pod_sets
        self.at = at
        self.by = by
        self.soonest = by
        self.rank = rank
        self.usage = usage_of(pod_sets)
        self.seen: object = None
        self.spare: dict[str, dict[FlavorResource, int]] = {}

    @property
    def flavors(self) -> set[str]:
        """The flavors of the start, which it keeps from others."""
        return {flavor for one in self.pod_sets for flavor in one.flavors.values()}

    @property
    def flavors_by_set(self) -> list[dict[str, str]]:
        """The flavors of each podset by resource."""
        return [dict(one.flavors) for one in self.pod_sets]


class ReservedStarts:
    """Reserved starts by workload, in the order in which they were reserved."""

    def __init__(self, objects: Objects, wake_ups: WakeUps, longest_wait_s: float) -> None:
        self.longest_wait_s = longest_wait_s
        self.by_id: dict[str, ReservedStart] = {}
        self.due_at = NEVER
        """When a workload without a reserved start may have waited too long (seconds)."""
        self.changed: set[str] = set()
        """Workloads whose reserved start has changed since this was read last."""
        self._objects = objects
        self._wake_ups = wake_ups

    def await_from(self, since: float) -> None:
        """Note that a workload waits which queues since a time."""
        if self.longest_wait_s:  # Q23
            self.due_at = min(self.due_at, since + self.longest_wait_s)

    def reserve(self, start: ReservedStart) -> None:
        """Reserve a start, or the same workload's start anew; others may be tried again."""
        before = self.by_id.get(start.id)
        last = max((one.rank for one in self.by_id.values()), default=0)
        start.rank = last + 1 if before is None else before.rank
        self.by_id[start.id] = start
        self._objects.cluster_queues[start.queue].starts.add(start.id)
        self.changed.add(start.id)
        self._wake_ups.released.add(start.queue)

    def end(self, id: str) -> None:
        """End a reserved start: the next workload has its turn, and others may be tried again."""
        start = self.by_id.pop(id)
        self.changed.add(id)
        self.due_at = min(self.due_at, self._wake_ups.now)
        queue = self._objects.cluster_queues.get(start.queue)
        if queue is not None:
            queue.starts.discard(id)
            self._wake_ups.released.add(start.queue)
