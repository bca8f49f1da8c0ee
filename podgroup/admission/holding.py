"""Workloads that wait and workloads that hold quota, as the scheduler remembers them.

Theory. A `PendingWorkload` is in some queue; an `AdmittedWorkload` has a reservation, from its
admission until its eviction is complete or it ends. Both are kept between passes and are few words
each, since there are many.

Invariant: a workload is pending or admitted, never both.
"""

from collections.abc import Iterable

from podgroup.admission.model import (
    Eviction,
    FlavorResource,
    PodSetAssignment,
    Reservation,
    Workload,
)
from podgroup.admission.shape import Shape
from podgroup.admission.topology.places import given
from podgroup.model.shortage import Shortage


class Resumption:
    """Where the search for flavors stopped: per podset and resource the flavor's place."""

    __slots__ = ("cycle", "generation", "shape", "tried")

    def __init__(
        self, tried: list[dict[str, int]], generation: int, cycle: int, shape: Shape
    ) -> None:
        self.tried = tried
        self.generation = generation
        self.cycle = cycle
        self.shape = shape

    @property
    def unfinished(self) -> bool:
        """Whether flavors are left that the search did not reach."""
        return any(index != -1 for indices in self.tried for index in indices.values())


class PendingWorkload:
    """A workload that waits.

    `place`, `serial`, `apart` and `selected` (the queue selects its namespace) belong to its line.
    """

    __slots__ = (
        "apart",
        "created",
        "evicted",
        "id",
        "invalid",
        "last",
        "message",
        "namespace",
        "owner_uid",
        "place",
        "priority_class",
        "queue",
        "reason",
        "selected",
        "serial",
        "shape",
        "short",
        "since",
        "uid",
        "waiting_until",
    )

    def __init__(self, workload: Workload, shape: Shape, requeue_by: str) -> None:
        self.id = workload.id
        self.uid = workload.uid
        self.owner_uid = workload.owner_uid
        self.namespace = workload.namespace
        self.queue = workload.queue
        self.created = workload.created
        self.evicted = workload.evicted
        self.waiting_until = workload.waiting_until
        self.invalid = workload.invalid
        self.priority_class = workload.priority_class
        self.shape = shape
        self.since = queued_since(workload.created, workload.evicted, requeue_by)
        self.last: Resumption | None = None
        self.apart = ""
        self.selected = True
        self.reason = ""
        self.message = ""
        self.short: tuple[Shortage, ...] = ()
        self.place: object = None
        self.serial = 0

    def __lt__(self, other: "PendingWorkload") -> bool:
        """In heaps only, where a waiter that left and came back equals its former entry."""
        return False

    def alike(self, other: "PendingWorkload") -> bool:
        """Tell whether another waiter was submitted with equal fields."""
        return (
            self.shape is other.shape
            and self.local_queue == other.local_queue
            and (self.evicted, self.waiting_until, self.invalid, self.created)
            == (other.evicted, other.waiting_until, other.invalid, other.created)
        )

    def workload(self) -> Workload:
        """Return the workload as it is entered when it is admitted."""
        return Workload(
            id=self.id,
            uid=self.uid,
            namespace=self.namespace,
            queue=self.queue,
            created=self.created,
            priority=self.priority,
            pod_sets=self.shape.pod_sets,
            owner_uid=self.owner_uid,
            priority_class=self.priority_class,
            run_s=self.run_s,
        )

    @property
    def run_s(self) -> float | None:
        """For how many seconds at most the workload holds quota once admitted; None: no bound."""
        return self.shape.run_s

    @property
    def priority(self) -> int:
        """Priority, higher first."""
        return self.shape.priority

    @property
    def local_queue(self) -> tuple[str, str]:
        """Namespace and name of the LocalQueue."""
        return self.namespace, self.queue


class AdmittedWorkload:
    """A workload that holds quota."""

    __slots__ = (
        "at",
        "began",
        "cluster_queue",
        "evicted",
        "given",
        "id",
        "keys",
        "priority",
        "priority_class",
        "reservation",
        "since",
        "usage",
        "workload",
    )

    def __init__(self, workload: Workload, reservation: Reservation, requeue_by: str) -> None:
        self.id = workload.id
        self.workload = workload
        self.priority = workload.priority
        self.cluster_queue = reservation.cluster_queue
        self.at = reservation.at
        self.began: float | None = None
        """When the workload was admitted, in seconds; None: not yet, or in the present pass."""
        self.priority_class = workload.priority_class
        """Its WorkloadPriorityClass, by name."""
        self.reservation = reservation
        self.given = given(workload.pod_sets, reservation.pod_sets)
        self.evicted = workload.evicted
        self.since = queued_since(workload.created, workload.evicted, requeue_by)
        self.usage = usage_of(reservation.pod_sets)
        self.keys: set[FlavorResource] = {
            (flavor, resource)
            for pod_set in reservation.pod_sets
            for resource, flavor in pod_set.flavors.items()
        }

    @property
    def uid(self) -> str:
        """The workload's uid."""
        return self.workload.uid

    @property
    def local_queue(self) -> tuple[str, str]:
        """Namespace and name of the LocalQueue."""
        return self.workload.namespace, self.workload.queue


def unadmitted_id(id: str) -> str:
    """Return the id of the entry for pods that run of a workload which is not admitted."""
    return f"{id}/running"


_MORE = "/more"


def growth_id(id: str) -> str:
    """Return the id by which a workload waits for more quota than it holds."""
    return f"{id}{_MORE}"


def grown_id(id: str) -> str:
    """Return the id of the workload that grows; of any other workload its own id."""
    return id.removesuffix(_MORE)


def usage_of(pod_sets: Iterable[PodSetAssignment]) -> dict[FlavorResource, int]:
    """Return the sum of what podsets were given, without amounts of 0."""
    usage: dict[FlavorResource, int] = {}
    for pod_set in pod_sets:
        for resource, flavor in pod_set.flavors.items():
            amount = pod_set.usage.get(resource, 0)
            if amount:
                usage[flavor, resource] = usage.get((flavor, resource), 0) + amount
    return usage


def queued_since(created: float, evicted: Eviction | None, requeue_by: str) -> float:
    """Return the time that orders a workload in its queue; most evictions do not change it."""
    if evicted is None:
        return created
    if evicted.effect.rechecks:
        return evicted.at
    if evicted.effect.backs_off and requeue_by == "Eviction":
        return evicted.at
    return created
