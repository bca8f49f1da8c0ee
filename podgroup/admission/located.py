"""Places in a plan: what a workload's podsets get once flavors are found, and what that changes.

Theory. Flavors are chosen by quota alone. Then the podsets that request a topology, or all podsets
where every flavor has a topology, are placed on the flavor they got. A podset that fits by quota
and has no place needs preemption, if it would have a place on nodes where no workload holds
anything; else it cannot fit. Kueue calls the former a lack of quota, and does not mention places
where quota is short as well.

Invariant: a plan that fits has a place for every podset that needs one.
"""

from collections.abc import Callable, Sequence

from podgroup.admission.model import PodSet
from podgroup.admission.plan import Mode, Plan, SetPlan
from podgroup.admission.topology.placement import Placed
from podgroup.admission.topology.places import Places
from podgroup.model.names import PENDING_TOPOLOGY_FAILED, PENDING_WAITING_FOR_TOPOLOGY

Wanted = Sequence[tuple[PodSet, str]]
"""Podsets to be placed, each with its flavor."""


def wanted(plan: Plan, pod_sets: Sequence[PodSet], every: bool) -> tuple[Wanted, Plan]:
    """Return the podsets to be placed, and the plan, which cannot fit if a podset has no flavor."""
    found: list[tuple[PodSet, str]] = []
    if plan.mode is Mode.NO_FIT:
        return found, plan
    for pod_set, one in zip(pod_sets, plan.sets, strict=False):
        if not pod_set.count or not (every or pod_set.topology.explicit):
            continue
        flavors = sorted({choice.flavor for choice in one.choices.values()})
        if len(flavors) != 1:
            why = f"more than one TAS flavor assigned: {', '.join(flavors)}"
            return (), _refused(plan, one.name, why if flavors else "no TAS flavor assigned")
        found.append((pod_set, flavors[0]))
    return found, plan


def located(places: Places, plan: Plan, asked: Wanted, better: bool) -> Plan:
    """Return the plan with places, or with the mode that follows from the lack of places."""
    if not asked or plan.mode is Mode.NO_FIT:
        return plan
    reason = ""
    lacking: Sequence[str] = ()
    if plan.mode is Mode.FIT:
        placed = places.place(asked)
        if placed.fits:
            plan.places = placed.places
            return plan
        plan, lacking = _with_reason(plan, placed), placed.refused
        reason = PENDING_WAITING_FOR_TOPOLOGY if better else ""
    empty = places.place(asked, empty=True)
    if not empty.fits:
        if better and not lacking:
            plan = _with_reason(plan, empty)
        reason, lacking = PENDING_TOPOLOGY_FAILED, empty.refused
    names = {pod_set.name for pod_set, _ in asked}
    mode = Mode.PREEMPT if empty.fits else Mode.NO_FIT
    changed = _each(plan, lambda one: _rated(one, mode) if one.name in names else one, reason)
    changed.mode, changed.lacking = mode, lacking
    changed.places = empty.places
    return changed


def _each(plan: Plan, change: Callable[[SetPlan], SetPlan], reason: str) -> Plan:
    return Plan([change(one) for one in plan.sets], plan.usage, reason, plan.shortages)


def _rated(one: SetPlan, mode: Mode) -> SetPlan:
    choices = {name: choice._replace(mode=mode) for name, choice in one.choices.items()}
    return one._replace(choices=choices)


def _with_reason(plan: Plan, placed: Placed) -> Plan:
    name = placed.refused[0]
    return _each(
        plan,
        lambda one: (
            one._replace(reasons=[*one.reasons, placed.reason]) if one.name == name else one
        ),
        plan.reason,
    )


def _refused(plan: Plan, name: str, why: str) -> Plan:
    placed = Placed({}, (name,), why)
    found = _with_reason(plan, placed)
    found.mode, found.reason, found.lacking = Mode.NO_FIT, PENDING_TOPOLOGY_FAILED, (name,)
    return found
