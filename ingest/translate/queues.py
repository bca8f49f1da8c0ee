"""Queue objects, priority classes and namespaces become their views.

v1beta1 and v1beta2 of Kueue's queues differ in names only: `cohort` became `cohortName`,
`admissionChecks` (names) gave way to `admissionChecksStrategy`, and the fungibility answers
`Borrow` and `Preempt` became `MayStopSearch`. The view speaks v1beta2.

An unusable amount or word does not make the rest of an object unreadable: the view names the fault,
the amount counts as 0, and the word as the default.

Invariant: an absent setting becomes the default that Kueue's API documents, so that no code after
this has to know defaults; no amount in a view is below zero.
"""

from msgspec import field

from ingest.translate.fields import (
    ConditionWire,
    MetaWire,
    ObjectWire,
    RequirementWire,
    TolerationWire,
    Wire,
    because,
    conditions,
    requirements,
    tolerations,
)
from podgroup.model import least_run, objects
from podgroup.model.limits import cut
from podgroup.model.names import ACTIVE, LEAST_RUN_ANNOTATION, MAX_INT32, WORKLOAD_FINALIZER
from podgroup.model.quantities import QuantityError, amount, capped, parse

_Quantity = str | int
_POLICIES = ("Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any")
_PREFERENCES = ("", "BorrowingOverPreemption", "PreemptionOverBorrowing")
_STOP_SEARCH = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


class _FairSharing(Wire, frozen=True):
    weight: _Quantity | None = None


class _LocalQueueSpec(Wire, frozen=True):
    cluster_queue: str = ""
    stop_policy: str | None = None
    fair_sharing: _FairSharing | None = None


class _Status(Wire, frozen=True):
    conditions: tuple[ConditionWire, ...] | None = None


class LocalQueueWire(ObjectWire, frozen=True):
    """kueue.x-k8s.io LocalQueue."""

    spec: _LocalQueueSpec = _LocalQueueSpec()
    status: _Status = _Status()


class _SetSpec(Wire, frozen=True):
    replicas: int | None = None


class StatefulSetWire(ObjectWire, frozen=True):
    """apps/v1 StatefulSet, as far as it says how many pods it wants."""

    spec: _SetSpec = _SetSpec()


class _ResourceQuota(Wire, frozen=True):
    name: str
    nominal_quota: _Quantity
    borrowing_limit: _Quantity | None = None
    lending_limit: _Quantity | None = None


class _FlavorQuotas(Wire, frozen=True):
    name: str
    resources: tuple[_ResourceQuota, ...] = ()


class _ResourceGroup(Wire, frozen=True):
    covered_resources: tuple[str, ...] = ()
    flavors: tuple[_FlavorQuotas, ...] = ()


class _Selector(Wire, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[RequirementWire, ...] | None = None


class _Borrowing(Wire, frozen=True):
    policy: str = ""
    max_priority_threshold: int | None = None


class _Preemption(Wire, frozen=True):
    within_cluster_queue: str = ""
    reclaim_within_cohort: str = ""
    borrow_within_cohort: _Borrowing | None = None


class _Fungibility(Wire, frozen=True):
    when_can_borrow: str = ""
    when_can_preempt: str = ""
    preference: str | None = None


class _CheckRule(Wire, frozen=True):
    name: str
    on_flavors: tuple[str, ...] | None = None


class _CheckStrategy(Wire, frozen=True):
    admission_checks: tuple[_CheckRule, ...] | None = None


class _AdmissionScope(Wire, frozen=True):
    admission_mode: str = ""


class _ClusterQueueSpec(Wire, frozen=True):
    queueing_strategy: str = ""
    namespace_selector: _Selector | None = None
    resource_groups: tuple[_ResourceGroup, ...] | None = None
    preemption: _Preemption | None = None
    flavor_fungibility: _Fungibility | None = None
    cohort_name: str = ""
    cohort: str = ""
    stop_policy: str | None = None
    admission_checks_strategy: _CheckStrategy | None = None
    admission_checks: tuple[str, ...] | None = None
    fair_sharing: _FairSharing | None = None
    admission_scope: _AdmissionScope | None = None


class _CohortSpec(Wire, frozen=True):
    parent_name: str = ""
    resource_groups: tuple[_ResourceGroup, ...] | None = None
    fair_sharing: _FairSharing | None = None


class CohortWire(ObjectWire, frozen=True):
    """kueue.x-k8s.io Cohort, v1beta1 and v1beta2."""

    spec: _CohortSpec = _CohortSpec()
    status: _Status = _Status()


class ClusterQueueWire(ObjectWire, frozen=True):
    """kueue.x-k8s.io ClusterQueue, v1beta1 and v1beta2."""

    spec: _ClusterQueueSpec = _ClusterQueueSpec()
    status: _Status = _Status()


class _CheckSpec(Wire, frozen=True):
    controller_name: str = ""


class AdmissionCheckWire(ObjectWire, frozen=True):
    """kueue.x-k8s.io AdmissionCheck, v1beta1 and v1beta2."""

    spec: _CheckSpec = _CheckSpec()
    status: _Status = _Status()


class _FlavorSpec(Wire, frozen=True):
    node_labels: dict[str, str] | None = None
    node_taints: tuple[TolerationWire, ...] | None = None
    tolerations: tuple[TolerationWire, ...] | None = None
    topology_name: str | None = None


class FlavorWire(ObjectWire, frozen=True):
    """kueue.x-k8s.io ResourceFlavor."""

    spec: _FlavorSpec = _FlavorSpec()


class _Level(Wire, frozen=True):
    node_label: str = ""


class _TopologySpec(Wire, frozen=True):
    levels: tuple[_Level, ...] | None = None


class TopologyWire(ObjectWire, frozen=True):
    """kueue.x-k8s.io Topology, v1beta1 and v1beta2."""

    spec: _TopologySpec = _TopologySpec()


class PriorityWire(ObjectWire, frozen=True):
    """WorkloadPriorityClass or scheduling.k8s.io/v1 PriorityClass. Absent means 0 in the latter."""

    value: int = 0
    global_default: bool = field(default=False)


class NamespaceWire(ObjectWire, frozen=True):
    """core/v1 Namespace."""


def _marked(meta: MetaWire) -> bool:
    return WORKLOAD_FINALIZER in (meta.finalizers or ())


def local_queue_view(wire: LocalQueueWire) -> objects.LocalQueueView:
    """Return the view of a LocalQueue."""
    meta, reader = wire.metadata, _Reader()
    return objects.LocalQueueView(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        cluster_queue=wire.spec.cluster_queue,
        stop_policy=reader.stop_policy(wire.spec.stop_policy),
        because=because(meta.annotations),
        weight_nano=reader.weight(wire.spec.fair_sharing),
        problem=reader.problem,
        active=_active(wire.status),
    )


def cohort_view(wire: CohortWire) -> objects.CohortView:
    """Return the view of a Cohort."""
    meta, spec, reader = wire.metadata, wire.spec, _Reader()
    return objects.CohortView(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.resource_version,
        parent=spec.parent_name,
        groups=reader.groups(spec.resource_groups),
        weight_nano=reader.weight(spec.fair_sharing),
        problem=reader.problem,
        active=_active(wire.status),
    )


def cluster_queue_view(wire: ClusterQueueWire) -> objects.ClusterQueueView:
    """Return the view of a ClusterQueue."""
    meta, spec, reader = wire.metadata, wire.spec, _Reader()
    preemption = spec.preemption or _Preemption()
    borrowing = preemption.borrow_within_cohort or _Borrowing()
    scope = spec.admission_scope or _AdmissionScope()
    fungibility = spec.flavor_fungibility or _Fungibility()
    borrow, preempt = fungibility.when_can_borrow, fungibility.when_can_preempt
    strategy = spec.admission_checks_strategy or _CheckStrategy()
    rules = strategy.admission_checks or ()
    checks = [rule.name for rule in rules]
    return objects.ClusterQueueView(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.resource_version,
        strategy=reader.choice(
            "queueingStrategy", spec.queueing_strategy, ("BestEffortFIFO", "StrictFIFO")
        ),
        namespaces=_selector(spec.namespace_selector),
        groups=reader.groups(spec.resource_groups),
        within_cluster_queue=reader.choice(
            "preemption.withinClusterQueue", preemption.within_cluster_queue, _POLICIES
        ),
        reclaim_within_cohort=reader.choice(
            "preemption.reclaimWithinCohort", preemption.reclaim_within_cohort, _POLICIES
        ),
        borrow_within_cohort=reader.choice(
            "preemption.borrowWithinCohort.policy", borrowing.policy, _POLICIES
        ),
        max_priority_threshold=borrowing.max_priority_threshold,
        when_can_preempt=reader.choice(
            "flavorFungibility.whenCanPreempt",
            _STOP_SEARCH.get(preempt, preempt),
            ("TryNextFlavor", "MayStopSearch"),
        ),
        when_can_borrow=reader.choice(
            "flavorFungibility.whenCanBorrow",
            _STOP_SEARCH.get(borrow, borrow),
            ("MayStopSearch", "TryNextFlavor"),
        ),
        preference=reader.choice(
            "flavorFungibility.preference", fungibility.preference, _PREFERENCES
        ),
        cohort=spec.cohort_name or spec.cohort,
        stop_policy=reader.stop_policy(spec.stop_policy),
        because=because(meta.annotations),
        checks=tuple(dict.fromkeys((*checks, *(spec.admission_checks or ())))),
        check_flavors={rule.name: rule.on_flavors for rule in rules if rule.on_flavors},
        weight_nano=reader.weight(spec.fair_sharing),
        problem=reader.problem,
        usage_based=scope.admission_mode == "UsageBasedAdmissionFairSharing",
        active=_active(wire.status),
        marked=_marked(meta),
        deleting=meta.deletion_timestamp is not None,
    )


def _active(status: _Status) -> tuple[str, ...]:
    for found in conditions(status.conditions):
        if found.type == ACTIVE:
            return (found.status, found.reason, found.message)
    return ()


def admission_check_view(wire: AdmissionCheckWire) -> objects.AdmissionCheckView:
    """Return the view of an AdmissionCheck."""
    meta = wire.metadata
    return objects.AdmissionCheckView(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.resource_version,
        controller=wire.spec.controller_name,
        active=_active(wire.status),
        marked=_marked(meta),
        deleting=meta.deletion_timestamp is not None,
    )


def flavor_view(wire: FlavorWire) -> objects.FlavorView:
    """Return the view of a ResourceFlavor."""
    meta, spec = wire.metadata, wire.spec
    return objects.FlavorView(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.resource_version,
        node_labels=spec.node_labels or {},
        taints=tolerations(spec.node_taints),
        tolerations=tolerations(spec.tolerations),
        topology=spec.topology_name or "",
        marked=_marked(meta),
        deleting=meta.deletion_timestamp is not None,
    )


def topology_view(wire: TopologyWire) -> objects.TopologyView:
    """Return the view of a Topology."""
    meta = wire.metadata
    return objects.TopologyView(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.resource_version,
        levels=tuple(level.node_label for level in wire.spec.levels or ()),
    )


def workload_priority_class_view(wire: PriorityWire) -> objects.WorkloadPriorityClassView:
    """Return the view of a WorkloadPriorityClass."""
    meta, problem = wire.metadata, ""
    times: least_run.Times = ()
    try:
        times = least_run.read((meta.annotations or {}).get(LEAST_RUN_ANNOTATION, ""))
    except ValueError as error:
        problem = cut(f"metadata.annotations[{LEAST_RUN_ANNOTATION}]: {error}")
    return objects.WorkloadPriorityClassView(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.resource_version,
        value=wire.value,
        least_run=times,
        problem=problem,
    )


def priority_class_view(wire: PriorityWire) -> objects.PriorityClassView:
    """Return the view of a PriorityClass."""
    meta = wire.metadata
    return objects.PriorityClassView(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.resource_version,
        value=wire.value,
        global_default=wire.global_default,
    )


def namespace_view(wire: NamespaceWire) -> objects.NamespaceView:
    """Return the view of a namespace."""
    meta = wire.metadata
    return objects.NamespaceView(
        uid=meta.uid,
        name=meta.name,
        resource_version=meta.resource_version,
        labels=meta.labels or {},
        deleted_at=meta.deletion_timestamp,
    )


def stateful_set_view(wire: StatefulSetWire) -> objects.StatefulSetView:
    """Return the view of a StatefulSet, which wants one pod where it does not say how many."""
    meta, replicas = wire.metadata, wire.spec.replicas
    return objects.StatefulSetView(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        resource_version=meta.resource_version,
        replicas=1 if replicas is None else max(0, min(replicas, MAX_INT32)),
    )


def _selector(found: _Selector | None) -> objects.Selector | None:
    if found is None:
        return None
    return objects.Selector(
        labels=found.match_labels or {}, expressions=requirements(found.match_expressions)
    )


class _Reader:
    """Reads amounts and words of one object; `problem` is path and fault of the first bad one."""

    def __init__(self) -> None:
        self.problem = ""

    def groups(self, found: tuple[_ResourceGroup, ...] | None) -> tuple[objects.ResourceGroup, ...]:
        """Return resource groups."""
        return tuple(
            objects.ResourceGroup(
                covered=group.covered_resources,
                flavors=tuple(
                    self._flavor(f"spec.resourceGroups[{index}].flavors[{one.name}]", one)
                    for one in group.flavors
                ),
            )
            for index, group in enumerate(found or ())
        )

    def _flavor(self, path: str, found: _FlavorQuotas) -> objects.FlavorQuotas:
        resources = {
            quota.name: self._quota(f"{path}.resources[{quota.name}]", quota)
            for quota in found.resources
        }
        return objects.FlavorQuotas(name=found.name, resources=resources)

    def _quota(self, path: str, found: _ResourceQuota) -> objects.Quota:
        return objects.Quota(
            nominal=self._amount(f"{path}.nominalQuota", found.name, found.nominal_quota) or 0,
            borrowing_limit=self._amount(
                f"{path}.borrowingLimit", found.name, found.borrowing_limit
            ),
            lending_limit=self._amount(f"{path}.lendingLimit", found.name, found.lending_limit),
        )

    def _amount(self, path: str, resource: str, text: _Quantity | None) -> int | None:
        try:
            return None if text is None else amount(resource, str(text))
        except QuantityError as error:
            self._wrong(path, str(error))
            return 0

    def weight(self, found: _FairSharing | None) -> int:
        """Return a weight in thousandths of millionths."""
        text = found.weight if found is not None else None
        if text is None:
            return objects.WHOLE
        try:
            weight = parse(str(text))
        except QuantityError as error:
            self._wrong("spec.fairSharing.weight", str(error))
            return objects.WHOLE
        nano = int(weight * objects.WHOLE)
        if weight < 0 or (weight and nano <= 1):
            self._wrong(
                "spec.fairSharing.weight", f"{str(text)[:40]!r} is neither 0 nor above 1e-9"
            )
            return objects.WHOLE
        return capped(nano)

    def choice(self, path: str, text: str | None, known: tuple[str, ...]) -> str:
        """Return a known word, the first for a missing and for any other word."""
        if not text or text in known:
            return text or known[0]
        self._wrong(f"spec.{path}", f"{text[:40]!r} is none of {', '.join(known)}")
        return known[0]

    def stop_policy(self, text: str | None) -> str:
        """Return a stop policy; any unknown policy counts as Hold."""
        found = self.choice("stopPolicy", text, ("None", "Hold", "HoldAndDrain"))
        return found if found == (text or "None") else "Hold"

    def _wrong(self, path: str, message: str) -> None:
        self.problem = self.problem or f"{path}: {message}"
