"""Wake-ups: in which ClusterQueues pending workloads are due for a try, and since when.

Theory. Tries are noted by tree: a *release* in a tree (a holder left, an object changed) lets all
inadmissible workloads of the tree be tried again; an admission or a new workload does not. A
workload whose back-off is over is due by itself.

Invariant: a name in `released` or `due` costs a look at that ClusterQueue, and nothing else.
"""

import heapq
from collections.abc import Iterator

from podgroup.admission.cache.objects import Objects
from podgroup.admission.holding import PendingWorkload
from podgroup.admission.model import Configuration


class WakeUps:
    """ClusterQueues and workloads that are due, at `now` (seconds)."""

    def __init__(self, objects: Objects, configuration: Configuration) -> None:
        self.now = 0.0
        self.released: set[str] = set()
        """ClusterQueues in which quota became free since the last `try_released`."""
        self.due: set[str] = set()
        """ClusterQueues in which a workload may be due for a try."""
        self._objects = objects
        self._as_kueue = configuration.as_kueue
        self._back_offs: list[tuple[float, str, PendingWorkload]] = []

    def begin(self, now: float) -> None:
        """Set the time of the events that are entered next."""
        self.now = max(self.now, now)

    def on_release(self, local_queue: tuple[str, str], queue: str) -> None:
        """Note that quota was given back which came through a LocalQueue."""
        objects = self._objects
        heard = not self._as_kueue or objects.queue_of(local_queue) is not None  # Q9
        if heard and queue in objects.cluster_queues:
            self.released.add(queue)

    def release_all(self) -> None:
        """Let every pending workload be tried again, as if quota was given back everywhere."""
        self.released.update(self._objects.cluster_queues)

    def back_off(self, waiter: PendingWorkload) -> None:
        """Wake a workload when its back-off is over, if the back-off has an end."""
        if waiter.waiting_until is not None:
            heapq.heappush(self._back_offs, (waiter.waiting_until, waiter.id, waiter))

    def woken(self) -> Iterator[PendingWorkload]:
        """Yield workloads whose back-off is over."""
        while self._back_offs and self._back_offs[0][0] <= self.now:
            yield heapq.heappop(self._back_offs)[2]
