"""A head: the workload that a ClusterQueue brings into a pass, and the verdict on it.

Invariant: a head without a plan was not compared with quota.
"""

from podgroup.admission.assign import Offer
from podgroup.admission.holding import PendingWorkload
from podgroup.admission.plan import MODE_NAMES, Mode, Plan
from podgroup.admission.tree import Node
from podgroup.admission.verdicts import Chosen, HeadVerdict, Target
from podgroup.admission.victims import Victim
from podgroup.admission.wording import ASSUMED, GENERIC


class Head:
    """A workload in a pass."""

    __slots__ = (
        "deferred",
        "message",
        "node",
        "offer",
        "order",
        "plan",
        "preemptor",
        "reason",
        "requeue",
        "reserved",
        "status",
        "targets",
        "until",
        "waiter",
        "waits_for",
    )

    def __init__(
        self,
        waiter: PendingWorkload,
        offer: Offer,
        node: Node,
        preemptor: bool,
        *,
        reserved: bool = False,
    ) -> None:
        self.waiter = waiter
        self.offer = offer
        self.node = node
        self.preemptor = preemptor
        self.reserved = reserved
        """The workload has a reserved start."""
        self.plan: Plan | None = None
        self.deferred = False
        """The head fits once evictions that were decided before are complete."""
        self.targets: list[Victim] = []
        self.until = 0.0
        """When the least run time of all targets is over, in seconds; 0: it is over."""
        self.waits_for = ""
        """The target that has to run until then."""
        self.status = ""
        self.reason = ""
        self.message = ""
        self.requeue = GENERIC
        self.order: int | None = None

    @property
    def planned(self) -> Plan:
        """The plan of a head that has one."""
        assert self.plan is not None
        return self.plan

    @property
    def mode(self) -> Mode | None:
        """How well the head fits; None if it was not compared with quota."""
        if self.plan is None:
            return None
        return Mode.DEFERRED if self.deferred else self.plan.mode

    def rejected(self, reason: str, message: str, requeue: str = GENERIC) -> None:
        """Note why the head is not admitted."""
        self.reason, self.message, self.requeue = reason, message, requeue

    def verdict(self) -> HeadVerdict:
        """Return the verdict on the head."""
        mode = self.mode
        shown = self.plan.sets if self.plan is not None and mode is not Mode.NO_FIT else ()
        return HeadVerdict(
            id=self.waiter.id,
            cluster_queue=self.node.name,
            mode="" if mode is None else MODE_NAMES[mode],
            borrowing=0 if self.plan is None else self.plan.borrowing,
            status=self.status,
            reason=self.reason,
            message=self.message,
            requeue="" if self.status == ASSUMED else self.requeue,
            preemptor=self.preemptor,
            order=self.order,
            until=self.until,
            waits_for=self.waits_for,
            pod_sets=tuple(
                Chosen(
                    one.name,
                    {r: choice.flavor for r, choice in one.choices.items()},
                    {r: choice.tried for r, choice in one.choices.items()},
                )
                for one in shown
            ),
            targets=tuple(
                Target(victim.holding.id, victim.reason)
                for victim in sorted(self.targets, key=lambda v: v.holding.id)
            ),
            shortages=() if self.plan is None or self.status == ASSUMED else self.plan.shortages,
        )
