"""A ClusterQueue in the cache: its offer, its lines, quota that is kept, and shapes that failed.

Invariant: everything here but the offer and the lines can be forgotten at any time; it saves work,
or is Kueue's own memory, and holds no fact.
"""

from typing import NamedTuple

from podgroup.admission.assign import Offer
from podgroup.admission.cache.pending_queue import PendingQueue
from podgroup.admission.shape import Shape
from podgroup.admission.tree import Usage
from podgroup.model.objects import ClusterQueueView
from podgroup.model.shortage import Shortage


class Failure(NamedTuple):
    """Why a shape did not fit, its shortages, and since when the workload queues that was tried."""

    reason: str
    message: str
    since: float
    short: tuple[Shortage, ...] = ()


class CachedQueue:
    """A ClusterQueue. The comments name the part of the cache that changes each attribute."""

    __slots__ = (
        "active",
        "blocked",
        "claims",
        "failed",
        "generation",
        "head",
        "leaving",
        "lines",
        "offer",
        "preemptor",
        "reserved",
        "starts",
        "sticky",
        "usable",
    )

    def __init__(self, queue: ClusterQueueView, by_use: bool, usable: bool) -> None:
        # Objects
        self.offer = Offer(queue)
        self.usable = usable
        """Its amounts and checks can be used, and it is not being deleted."""
        self.active = True
        """It admits: it is usable and not stopped, and its flavors and their Topologies exist."""
        # QueueManager
        self.lines = PendingQueue(by_use)
        self.failed: dict[Shape, Failure] = {}
        """Shapes that did not fit since the last release."""
        # Reservations
        self.generation = 0
        """Grows when a workload leaves, or is entered anew, and when quotas change."""
        self.leaving = 0
        """How many workloads hold quota here and are being evicted."""
        # Claims
        self.claims: set[str] = set()
        """Workloads that have a claim."""
        self.preemptor = ""
        """The workload that preempted last."""
        self.sticky = False
        """The last preemptor goes before all others."""
        self.blocked = False
        """The head of a StrictFIFO queue waits, and no other workload passes it."""
        self.head = ""
        """The head for which the queue is blocked."""
        self.reserved: Usage = {}
        """Quota that is reserved for the head while the queue is blocked."""
        # Reserved starts
        self.starts: set[str] = set()
        """Workloads that have a reserved start."""

    def carry_over(self, old: "CachedQueue") -> None:
        """Take over the memory from before the ClusterQueue changed."""
        self.generation, self.leaving = old.generation, old.leaving
        self.claims = old.claims
        self.preemptor, self.sticky = old.preemptor, old.sticky
        self.starts = old.starts

    @property
    def spec(self) -> ClusterQueueView:
        """The ClusterQueue."""
        return self.offer.queue

    @property
    def first_of_all(self) -> bool:
        """Whether a reserved start goes before all others, and not only before its own priority.

        False where workloads preempt by priority, unless use over time decides.
        """
        return self.lines.by_use or self.spec.within_cluster_queue in ("", "Never")

    @property
    def strict(self) -> bool:
        """Whether no other workload passes the head."""
        return self.offer.queue.strategy == "StrictFIFO"
