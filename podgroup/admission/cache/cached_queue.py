"""A ClusterQueue as it is remembered: what it offers, who waits, what is kept and what failed.

Invariant: what is remembered here beside the offer and the lines can be forgotten at any time; it
saves work, or is Kueue's own memory, and holds no fact.
"""

from typing import NamedTuple

from podgroup.admission.assign import Offer
from podgroup.admission.cache.pending_queue import PendingQueue
from podgroup.admission.shape import Shape
from podgroup.admission.tree import Usage
from podgroup.model.objects import ClusterQueueView
from podgroup.model.shortage import Shortage


class Failure(NamedTuple):
    """Why a shape did not fit, of what it fell short, and since when the one queues that was
    looked at.
    """

    reason: str
    message: str
    since: float
    short: tuple[Shortage, ...] = ()


class CachedQueue:
    """One ClusterQueue. Each attribute is changed by one part of the cache, as noted."""

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
        """All that it asks for besides flavors is there."""
        self.active = True
        """It admits: not stopped, all its flavors exist."""
        # QueueManager
        self.lines = PendingQueue(by_use)
        self.failed: dict[Shape, Failure] = {}
        """Shapes that did not fit since the last release."""
        # Reservations
        self.generation = 0
        """Rises when a workload leaves, or is written anew, and when quotas change."""
        self.leaving = 0
        """How many workloads hold quota here and are being evicted."""
        # Claims
        self.claims: set[str] = set()
        """Who waits for evictions with quota kept for it."""
        self.preemptor = ""
        """Who last had others preempted."""
        self.sticky = False
        """That one goes before all others."""
        self.blocked = False
        """The head of a StrictFIFO queue waits; no other passes."""
        self.head = ""
        """For whom the queue is blocked."""
        self.reserved: Usage = {}
        """What is kept from others while the queue is blocked."""
        # Reserved starts
        self.starts: set[str] = set()
        """Who has a reserved start."""

    def carry_over(self, old: "CachedQueue") -> None:
        """Go on from what was remembered before the ClusterQueue changed."""
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
        """Whether who is reserved a start goes before all others, not of its priority alone.

        Who has a higher priority goes before where it preempts, unless use over time decides.
        """
        return self.lines.by_use or self.spec.within_cluster_queue in ("", "Never")

    @property
    def strict(self) -> bool:
        """Whether no other passes the head."""
        return self.offer.queue.strategy == "StrictFIFO"
