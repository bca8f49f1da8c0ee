"""Reserved starts: who has waited too long, and by when each of them is to start.

Theory. A workload that has waited for `Configuration.longest_wait_s` is reserved a start in the
flavors that it gets first as what runs ends: `podgroup.admission.starts` works it out, and holds
others against it. Nothing is counted in the trees for it: what is free goes on being used by what
has ended before, or leaves the room that it needs.

All of that outlives a restart: `changed` says for whom it is to be written down anew.

Invariant: in a ClusterQueue a flavor is in one reserved start at most.
"""

import math

from podgroup.admission.cache.objects import Objects
from podgroup.admission.cache.wake_ups import WakeUps
from podgroup.admission.holding import usage_of
from podgroup.admission.model import FlavorResource, PodSetAssignment

NEVER = math.inf
"""When it is to be looked for who has waited too long, while none waits."""


class ReservedStart:
    """What a workload is to get, worked out `at`; it starts `by` then at the latest (seconds).

    `by` None: once what ran before `at` has ended, which has no bound. `soonest`: the same, as
    what runs has ended earlier since. What can be had by others at that moment is remembered by
    ClusterQueue in `spare`, as long as nothing else is `seen`. Of two in a tree the one of
    lower `rank` goes before.
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
        """The flavors that it keeps others out of."""
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
        """When one may have waited too long for whom no start is reserved (seconds)."""
        self.changed: set[str] = set()
        """For whom a start is reserved, or not any more, since this was read last."""
        self._objects = objects
        self._wake_ups = wake_ups

    def await_from(self, since: float) -> None:
        """Note that a workload waits that queues since a time."""
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
        """Reserve no start any more: the next one has its turn, and others may be tried again."""
        start = self.by_id.pop(id)
        self.changed.add(id)
        self.due_at = min(self.due_at, self._wake_ups.now)
        queue = self._objects.cluster_queues.get(start.queue)
        if queue is not None:
            queue.starts.discard(id)
            self._wake_ups.released.add(start.queue)
