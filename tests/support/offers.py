"""What quota is made of, written as short as a test needs it: views without uid and version.

Weights are fractions; a ClusterQueue selects every namespace, and its policies come together.
"""

from fractions import Fraction
from typing import Any, Literal, NamedTuple

from podgroup.model.objects import (
    WHOLE,
    ClusterQueueView,
    CohortView,
    FlavorView,
    LocalQueueView,
    NamespaceView,
    Selector,
    TopologyView,
)

Policy = Literal["", "Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"]
EVERYWHERE = Selector()
_PLAIN: dict[str, Any] = {"uid": "", "resource_version": ""}


class Preemption(NamedTuple):
    """Whom the workloads of a ClusterQueue may preempt."""

    within_cluster_queue: Policy = "Never"
    reclaim_within_cohort: Policy = "Never"
    borrow_within_cohort: Policy = "Never"
    max_priority_threshold: int | None = None


class Fungibility(NamedTuple):
    """When a ClusterQueue's search for a flavor goes on although one was found."""

    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    preference: Literal["", "BorrowingOverPreemption", "PreemptionOverBorrowing"] = ""


_NO_PREEMPTION, _ANY_FLAVOR = Preemption(), Fungibility()


def Flavor(*, labels: dict[str, str] | None = None, **more: Any) -> FlavorView:
    """Return a ResourceFlavor."""
    return FlavorView(node_labels=labels or {}, **_PLAIN, **more)


def Topology(**more: Any) -> TopologyView:
    """Return a Topology."""
    return TopologyView(**_PLAIN, **more)


def Namespace(**more: Any) -> NamespaceView:
    """Return a namespace."""
    return NamespaceView(**_PLAIN, **more)


def Cohort(*, weight: Fraction = Fraction(1), **more: Any) -> CohortView:
    """Return a Cohort."""
    return CohortView(weight_nano=_nano(weight), **_PLAIN, **more)


def LocalQueue(*, weight: Fraction = Fraction(1), **more: Any) -> LocalQueueView:
    """Return a LocalQueue."""
    return LocalQueueView(weight_nano=_nano(weight), **_PLAIN, **more)


def ClusterQueue(
    *,
    preemption: Preemption = _NO_PREEMPTION,
    fungibility: Fungibility = _ANY_FLAVOR,
    weight: Fraction = Fraction(1),
    namespaces: Selector | None = EVERYWHERE,
    **more: Any,
) -> ClusterQueueView:
    """Return a ClusterQueue."""
    return ClusterQueueView(
        namespaces=namespaces,
        weight_nano=_nano(weight),
        **preemption._asdict(),
        **fungibility._asdict(),
        **_PLAIN,
        **more,
    )


def _nano(weight: Fraction) -> int:
    nano = weight * WHOLE
    assert nano.denominator == 1, f"weight {weight} is no whole number of nanos"
    return int(nano)
