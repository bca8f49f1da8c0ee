"""Whether a flavor suits pods, and whether a selector selects labels.

Theory. A flavor represents nodes with its labels and taints. The pods, or tolerations that the
flavor itself adds, must tolerate its taints. Node selector and required affinity are evaluated as
on a node that has exactly the flavor's labels, without expressions on other labels. A term that is
left without any expression makes the whole affinity void.

Invariant: a flavor without labels and taints suits all pods.
"""

from collections.abc import Iterable, Mapping, Sequence

from podgroup.admission.model import PodSet
from podgroup.model.names import integer
from podgroup.model.objects import FlavorView, Requirement, Selector, Toleration


def unsuitable(flavor: FlavorView, pod_set: PodSet) -> str:
    """Say why pods cannot use a flavor; "" if they can."""
    tolerations = (*pod_set.tolerations, *flavor.tolerations)
    taint = untolerated(flavor.taints, tolerations)
    if taint is not None:
        shown = f"{{{taint.key} {taint.value} {taint.effect} <nil>}}"
        return f"untolerated taint {shown} in flavor {flavor.name}"
    return "" if _affine(flavor.node_labels, pod_set) else f"flavor {flavor.name} {NO_AFFINITY}"


def contradiction(one: FlavorView, other: FlavorView) -> str:
    """Say why no node belongs to both flavors; "" if a node may."""
    for key in sorted(one.node_labels.keys() & other.node_labels.keys()):
        if one.node_labels[key] != other.node_labels[key]:
            return (
                f"flavor {other.name} wants nodes with {key}={other.node_labels[key]}, "
                f"flavor {one.name} of the same pods {key}={one.node_labels[key]}"
            )
    return ""


NO_AFFINITY = "doesn't match node affinity"


def selects(selector: Selector | None, labels: Mapping[str, str]) -> bool:
    """Tell whether a label selector selects an object with `labels`."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.labels.items()) and all(
        satisfies(labels, expression) for expression in selector.expressions
    )


def satisfies(labels: Mapping[str, str], requirement: Requirement) -> bool:
    """Evaluate an expression on labels; a malformed expression matches nothing."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            have, bound = integer(value or ""), integer("".join(requirement.values[:1]))
            if have is None or bound is None:
                return False
            return have > bound if requirement.operator == "Gt" else have < bound
        case _:
            return False


def untolerated(
    taints: Iterable[Toleration], tolerations: Sequence[Toleration]
) -> Toleration | None:
    """Return the first taint that keeps pods away, None if they tolerate all such taints."""
    return next((one for one in taints if one.excludes and not tolerated(one, tolerations)), None)


def tolerated(taint: Toleration, tolerations: Iterable[Toleration]) -> bool:
    """Tell whether a taint is tolerated by any of the tolerations."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.operator == "Exists":
            if not toleration.key or toleration.key == taint.key:
                return True
        elif toleration.key == taint.key and toleration.value == taint.value:
            return True
    return False


def _affine(labels: Mapping[str, str], pod_set: PodSet) -> bool:
    if not labels:
        return True
    if any(key in labels and labels[key] != value for key, value in pod_set.node_selector):
        return False
    terms = []
    for term in pod_set.node_terms:
        known = [e for e in term.expressions if e.key in labels]
        if not known:
            return True
        terms.append(known)
    return not terms or any(all(satisfies(labels, e) for e in term) for term in terms)
