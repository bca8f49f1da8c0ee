"""Verdicts of a pass, and why: values for the code that carries out, records or reports them.

Invariant: a verdict names everything by id and name, and its values never change.
"""

from msgspec import Struct

from podgroup.admission.model import PodSetAssignment
from podgroup.model.shortage import Preempted, Shortage


class Target(Struct, frozen=True):
    """A victim, and the policy of its preemption (`podgroup.model.names.PREEMPTED_…`)."""

    id: str
    reason: str


class Chosen(Struct, frozen=True):
    """The flavors looked at for a podset; `tried` is where the search stopped, -1 at its end."""

    name: str
    flavors: dict[str, str]
    tried: dict[str, int]


class HeadVerdict(Struct, frozen=True, kw_only=True):
    """The verdict on a head.

    `mode` is Fit, Preempt, NoFit, DeferredFit, or "" if the head was not compared with quota.
    `status` is ``assumed`` for admitted, ``skipped``, or "". `reason` and `message` are those of
    the condition QuotaReserved=False, "" if admitted. `order` is its place among the heads of its
    tree.

    `until` is when the least run time of its targets is over, in seconds, and `waits_for` the
    target that runs until then; 0: it is over.
    """

    id: str
    cluster_queue: str
    mode: str = ""
    borrowing: int = 0
    status: str = ""
    reason: str = ""
    message: str = ""
    requeue: str = ""
    preemptor: bool = False
    order: int | None = None
    until: float = 0.0
    waits_for: str = ""
    pod_sets: tuple[Chosen, ...] = ()
    targets: tuple[Target, ...] = ()
    shortages: tuple[Shortage, ...] = ()


class AdmissionVerdict(Struct, frozen=True, kw_only=True):
    """A workload has quota now."""

    id: str
    cluster_queue: str
    pod_sets: tuple[PodSetAssignment, ...] = ()
    borrowing: int = 0


class PreemptionVerdict(Struct, frozen=True, kw_only=True):
    """A workload is preempted: for which workload, by which policy, and both sides' state."""

    id: str
    cluster_queue: str
    by_id: str
    by_uid: str
    reason: str
    message: str
    between: Preempted


class NodeFailureVerdict(Struct, frozen=True, kw_only=True):
    """Nodes failed that a workload has places on.

    `pod_sets` is its assignment from now on, with other places and the same quota. None: it has to
    give its quota back, by reason `podgroup.model.names.EVICTED_NODE_FAILURES`; `message` says so,
    and `why` why there are no other places.
    """

    id: str
    cluster_queue: str
    nodes: tuple[str, ...]
    pod_sets: tuple[PodSetAssignment, ...] | None = None
    message: str = ""
    why: str = ""


class Verdicts(Struct, frozen=True, kw_only=True):
    """Everything one pass decided, in the order in which it was decided."""

    heads: tuple[HeadVerdict, ...] = ()
    admitted: tuple[AdmissionVerdict, ...] = ()
    preempted: tuple[PreemptionVerdict, ...] = ()
    node_failures: tuple[NodeFailureVerdict, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether nothing was looked at."""
        return not (self.heads or self.node_failures)

    @property
    def changing(self) -> bool:
        """Whether the quota or the places of any workload change."""
        return bool(self.admitted or self.preempted or self.node_failures)
