"""A case as it is written down: JSON, one case a line, whole or in part.

Fields and words that are not known are refused: what is not played must not seem to agree.
"""

import gzip
import zlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from podgroup.admission.amounts import text
from podgroup.admission.model import (
    Configuration,
    Eviction,
    PodSet,
    PodSetAssignment,
    Reservation,
    Strategy,
    UsageSharing,
    Workload,
)
from podgroup.model.objects import (
    ClusterQueueView,
    CohortView,
    FlavorQuotas,
    FlavorView,
    LocalQueueView,
    NodeTerm,
    Quota,
    Requirement,
    ResourceGroup,
    Selector,
    Toleration,
)
from podgroup.model.quantities import amount
from podgroup.model.reasons import effect_of
from tests.support.offers import (
    EVERYWHERE,
    ClusterQueue,
    Cohort,
    Flavor,
    Fungibility,
    LocalQueue,
    Policy,
    Preemption,
)

Amount = int | float | str
Search = Literal["", "MayStopSearch", "TryNextFlavor"]
Stop = Literal["", "None", "Hold", "HoldAndDrain"]
GZIP = b"\x1f\x8b"


class CaseError(ValueError):
    """A line that is no case; the message names file, line and field."""


class _Case(Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    pass


class FairSharing(_Case):
    strategies: list[Strategy] | None = None


class UsageSharingOf(_Case):
    half_life: float = 0
    sampling: float = 300
    weights: dict[str, float] | None = None


class Config(_Case):
    start: int
    step: int = 10
    max_steps: int = 40
    fair_sharing: FairSharing | None = None
    admission_fair_sharing: UsageSharingOf | None = None
    eviction_delay: int = 0
    eviction_delays: dict[str, int] | None = None
    on_evict: Literal["requeue", "gone"] = "requeue"


class NamespaceOf(_Case):
    name: str
    labels: dict[str, str] | None = None


class TaintOf(_Case):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def read(self) -> Toleration:
        return Toleration(
            key=self.key, operator=self.operator, value=self.value, effect=self.effect
        )


class FlavorOf(_Case):
    name: str
    labels: dict[str, str] | None = None
    taints: list[TaintOf] | None = None
    tolerations: list[TaintOf] | None = None


class QuotaOf(_Case):
    nominal: Amount = 0
    borrowing_limit: Amount | None = None
    lending_limit: Amount | None = None


class FlavorQuotasOf(_Case):
    name: str
    quotas: dict[str, QuotaOf] | None = None


class ResourceGroupOf(_Case):
    resources: list[str]
    flavors: list[FlavorQuotasOf]

    def read(self) -> ResourceGroup:
        return ResourceGroup(
            covered=tuple(self.resources),
            flavors=tuple(
                FlavorQuotas(
                    name=flavor.name,
                    resources={
                        resource: Quota(
                            nominal=read_amount(resource, quota.nominal),
                            borrowing_limit=_limit(resource, quota.borrowing_limit),
                            lending_limit=_limit(resource, quota.lending_limit),
                        )
                        for resource, quota in (flavor.quotas or {}).items()
                    },
                )
                for flavor in self.flavors
            ),
        )


class CohortOf(_Case):
    name: str
    parent: str | None = None
    weight: Amount | None = None
    resource_groups: list[ResourceGroupOf] | None = None


class BorrowOf(_Case):
    policy: Policy = ""
    max_priority_threshold: int | None = None


class PreemptionOf(_Case):
    within_cluster_queue: Policy = ""
    reclaim_within_cohort: Policy = ""
    borrow_within_cohort: BorrowOf | None = None
    raw: bool = False


class FungibilityOf(_Case):
    when_can_borrow: Search = ""
    when_can_preempt: Search = ""
    preference: Literal["", "BorrowingOverPreemption", "PreemptionOverBorrowing"] | None = None


class ClusterQueueOf(_Case):
    name: str
    cohort: str | None = None
    strategy: Literal["", "BestEffortFIFO", "StrictFIFO"] = ""
    namespace_selector: dict[str, str] | None = None
    weight: Amount | None = None
    stop_policy: Stop | None = None
    admission_mode: (
        Literal["", "UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"] | None
    ) = None
    resource_groups: list[ResourceGroupOf] | None = None
    preemption: PreemptionOf | None = None
    flavor_fungibility: FungibilityOf | None = None


class LocalQueueOf(_Case):
    name: str
    namespace: str
    cluster_queue: str
    weight: Amount | None = None
    stop_policy: Stop | None = None
    consumed: dict[str, Amount] | None = None


class ExpressionOf(_Case):
    key: str
    op: str
    values: list[str] | None = None


class PodSetOf(_Case):
    name: str
    count: int
    requests: dict[str, Amount] | None = None
    node_selector: dict[str, str] | None = None
    affinity: list[list[ExpressionOf]] | None = None
    tolerations: list[TaintOf] | None = None


class HeldOf(_Case):
    name: str
    count: int
    flavors: dict[str, str] | None = None
    usage: dict[str, Amount] | None = None


class AdmissionOf(_Case):
    at: int
    cluster_queue: str
    pod_sets: list[HeldOf]


class EvictedOf(_Case):
    at: int
    reason: str


class WorkloadOf(_Case):
    name: str
    namespace: str
    queue: str
    created: int
    pod_sets: list[PodSetOf]
    uid: str | None = None
    priority: int = 0
    admission: AdmissionOf | None = None
    evicted: EvictedOf | None = None


class EventOf(_Case):
    step: int
    finish: list[str] | None = None
    delete: list[str] | None = None
    submit: list[WorkloadOf] | None = None


class Case(_Case):
    """A case. `id`, `class`, `seed` and `note` are for people."""

    config: Config
    cluster_queues: list[ClusterQueueOf]
    local_queues: list[LocalQueueOf]
    namespaces: list[NamespaceOf] | None = None
    flavors: list[FlavorOf] | None = None
    cohorts: list[CohortOf] | None = None
    workloads: list[WorkloadOf] | None = None
    events: list[EventOf] | None = None
    id: str = ""
    note: str = ""
    class_: str = msgspec.field(default="", name="class")
    seed: int = 0


class Outcome(Struct, rename="camel"):
    """What was recorded; its parts are compared as they are."""

    quiescent: bool
    period: int
    steps_run: int
    steps: list[dict[str, Any]]
    final: dict[str, Any]

    def whole(self) -> dict[str, Any]:
        """The outcome as `Play.run` returns one."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class _Line(Struct, forbid_unknown_fields=True):
    case: Case
    outcome: Outcome
    id: str = ""
    tags: list[str] = []
    deterministic: bool | None = None
    runs: Any = None


class Recorded(Struct):
    """A case with what Kueue made of it."""

    id: str
    tags: list[str]
    case: Case
    outcome: dict[str, Any]


def read(path: Path) -> Iterator[Recorded]:
    """Yield the cases of a file, gzipped or not.

    Raises:
        CaseError: a line is no case.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.peek(2)[:2] == GZIP
            for number, line in enumerate(gzip.GzipFile(fileobj=raw) if packed else raw, 1):
                if line.strip():
                    yield _read(f"{path}, line {number}", line)
    except (OSError, EOFError, zlib.error) as error:
        raise CaseError(f"{path}: {error}") from None


def _read(where: str, line: bytes) -> Recorded:
    try:
        found = msgspec.json.decode(line, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CaseError(f"{where}: {error}; see tests/oracle/README.md for the format") from None
    name = found.id or found.case.id or where
    return Recorded(name, found.tags, found.case, found.outcome.whole())


def read_amount(resource: str, value: Amount) -> int:
    """Return an amount as quota counts it."""
    return amount(resource, str(value))


def write_amount(resource: str, value: int) -> int | str:
    """Write an amount as outcomes have it: a number where the text is one."""
    shown = text(resource, value)
    return int(shown) if shown.lstrip("-").isdigit() else shown


def _limit(resource: str, value: Amount | None) -> int | None:
    return None if value is None else read_amount(resource, value)


def _weight(value: Amount | None) -> Fraction:
    return Fraction(1) if value is None else Fraction(amount("cpu", str(value)), 1000)


def configuration(case: Case) -> Configuration:
    """Return the configuration of a case."""
    fair, use = case.config.fair_sharing, case.config.admission_fair_sharing
    sharing = None
    if use is not None:
        weights = tuple((use.weights or {}).items())
        sharing = UsageSharing(half_life_s=use.half_life, sampling_s=use.sampling, weights=weights)
    strategies = None if fair is None else tuple(fair.strategies or ())
    return Configuration(fair_strategies=strategies, usage_sharing=sharing)


def cohort(one: CohortOf) -> CohortView:
    return Cohort(
        name=one.name,
        parent=one.parent or "",
        groups=tuple(group.read() for group in one.resource_groups or ()),
        weight=_weight(one.weight),
    )


def cluster_queue(one: ClusterQueueOf) -> ClusterQueueView:
    preemption = one.preemption or PreemptionOf()
    borrow = preemption.borrow_within_cohort or BorrowOf()
    fungibility = one.flavor_fungibility or FungibilityOf()
    absent: Policy = "" if preemption.raw else "Never"
    selector = one.namespace_selector
    return ClusterQueue(
        name=one.name,
        cohort=one.cohort or "",
        strategy=one.strategy or "BestEffortFIFO",
        namespaces=Selector(labels=selector) if selector else EVERYWHERE,
        groups=tuple(group.read() for group in one.resource_groups or ()),
        preemption=Preemption(
            within_cluster_queue=preemption.within_cluster_queue or absent,
            reclaim_within_cohort=preemption.reclaim_within_cohort or absent,
            borrow_within_cohort=borrow.policy or "Never",
            max_priority_threshold=borrow.max_priority_threshold,
        ),
        fungibility=Fungibility(
            when_can_borrow=fungibility.when_can_borrow or "MayStopSearch",
            when_can_preempt=fungibility.when_can_preempt or "TryNextFlavor",
            preference=fungibility.preference or "",
        ),
        weight=_weight(one.weight),
        stop_policy=one.stop_policy or "None",
        usage_based=one.admission_mode == "UsageBasedAdmissionFairSharing",
    )


def local_queue(one: LocalQueueOf) -> LocalQueueView:
    return LocalQueue(
        namespace=one.namespace,
        name=one.name,
        cluster_queue=one.cluster_queue,
        weight=_weight(one.weight),
        stop_policy=one.stop_policy or "None",
    )


def flavor(one: FlavorOf) -> FlavorView:
    return Flavor(
        name=one.name,
        labels=one.labels or {},
        taints=tuple(t.read() for t in one.taints or ()),
        tolerations=tuple(t.read() for t in one.tolerations or ()),
    )


def workload(one: WorkloadOf) -> Workload:
    return Workload(
        id=one.name,
        uid=one.uid or one.name,
        namespace=one.namespace,
        queue=one.queue,
        created=one.created,
        priority=one.priority,
        pod_sets=tuple(_pod_set(s) for s in one.pod_sets),
        evicted=None
        if one.evicted is None
        else Eviction(
            one.evicted.at, effect_of(one.evicted.reason), "evicted before the case began"
        ),
    )


def _pod_set(one: PodSetOf) -> PodSet:
    return PodSet(
        name=one.name,
        count=one.count,
        requests=tuple(sorted((r, read_amount(r, a)) for r, a in (one.requests or {}).items())),
        node_selector=tuple(sorted((one.node_selector or {}).items())),
        node_terms=tuple(
            NodeTerm(
                expressions=tuple(
                    Requirement(key=e.key, operator=e.op, values=tuple(e.values or ()))
                    for e in term
                )
            )
            for term in one.affinity or ()
        ),
        tolerations=tuple(t.read() for t in one.tolerations or ()),
    )


def reservation(one: AdmissionOf) -> Reservation:
    return Reservation(
        cluster_queue=one.cluster_queue,
        at=one.at,
        pod_sets=tuple(
            PodSetAssignment(
                name=held.name,
                count=held.count,
                flavors=held.flavors or {},
                usage={r: read_amount(r, a) for r, a in (held.usage or {}).items()},
            )
            for held in one.pod_sets
        ),
    )
