"""What a pass decides, and why: values for the code that carries out, records or reports it.

Invariant: a verdict names everything by id and name; it holds nothing that changes later.
"""

from msgspec import Struct

from podgroup.admission.model import PodSetAssignment
from podgroup.model.shortage import Preempted, Shortage


class Target(Struct, frozen=True):
    """A workload that has to give way, and by which rule (`podgroup.model.names.PREEMPTED_…`)."""

    id: str
    reason: str


class Chosen(Struct, frozen=True):
    """The flavors looked at for a podset; `tried` is where the search stopped, -1 at its end."""

    name: str
    flavors: dict[str, str]
    tried: dict[str, int]


class HeadVerdict(Struct, frozen=True, kw_only=True):
    """What became of a workload that was looked at.

    `mode` is Fit, Preempt, NoFit, DeferredFit, or "" if it was not held against quota. `status` is
    ``assumed`` for admitted, ``skipped``, or "". `reason` and `message` are those of the condition
    QuotaReserved=False, "" if admitted. `order` is its place among the heads of its tree.

    `until` is when its targets have run for long enough, in seconds, and `waits_for` the one that
    has to run until then; 0: they have.
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
    """A workload has to give its quota back: for whom, by which rule, and how both sides stood."""

    id: str
    cluster_queue: str
    by_id: str
    by_uid: str
    reason: str
    message: str
    between: Preempted


class NodeFailureVerdict(Struct, frozen=True, kw_only=True):
    """Nodes failed that a workload has places on.

    `pod_sets` is what it has from now on, with other places: its quota stays what it was. None: it
    has to give its quota back, by reason `podgroup.model.names.EVICTED_NODE_FAILURES`; `message`
    says so, and `why` what was in the way of other places.
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
        """Whether any workload has more, less or something else from now on."""
        return bool(self.admitted or self.preempted or self.node_failures)
