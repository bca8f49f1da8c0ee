"""Checks of what a group is composed from beyond its counts: pod index and copied labels.

    pod index      label pod-group-pod-index of the first pod is a whole number below the total
    copied labels  keys an operator chose go from the pods to the Workload (`Policy`); pods of one
                   group must not contradict each other, a pod may be without

Invariant: whether a group passes depends on its pods alone, not on the order they came in.
"""

from podgroup.decide.context import Deciding
from podgroup.decide.malformed import by_age
from podgroup.names import POD_INDEX, integer
from podgroup.state import Group


def index_problem(d: Deciding, group: Group) -> tuple[str, str] | None:
    """Return (reason, message) if the first pod's index is none, else None."""
    first = d.members(group).first()
    if group.single or first is None:
        return None
    pod = d.pod(first)
    text = pod.view.labels.get(POD_INDEX)
    if text is None:
        return None
    found = integer(text)
    if found is not None and 0 <= found < group.total and text[0] not in "+-":
        return None
    return (
        "BadPodIndex",
        f"pod {pod.view.name}: label {POD_INDEX} is {text[:60]!r}, it must be a whole number from "
        f"0 to {group.total - 1}",
    )


def copied_labels(d: Deciding, group: Group) -> dict[str, str]:
    """Return the labels that go from the pods to the Workload; of several values the oldest's."""
    keys = d.world.policy.label_keys_to_copy
    if not keys:
        return {}
    found: dict[str, str] = {}
    for pod in by_age(d, group):
        for key in keys:
            if key in pod.view.labels:
                found.setdefault(key, pod.view.labels[key])
    return found


def label_problem(d: Deciding, group: Group) -> tuple[str, str] | None:
    """Return (reason, message) if pods differ in a label that is to be copied, else None."""
    keys = d.world.policy.label_keys_to_copy
    if group.single or not keys:
        return None
    seen: dict[str, tuple[str, str]] = {}
    for pod in by_age(d, group):
        for key in keys:
            value = pod.view.labels.get(key)
            if value is None:
                continue
            name, other = seen.setdefault(key, (pod.view.name, value))
            if other != value:
                return (
                    "DifferentLabels",
                    f"pods '{name}' and '{pod.view.name}' have different '{key}' values: "
                    f"{other} and {value}",
                )
    return None
