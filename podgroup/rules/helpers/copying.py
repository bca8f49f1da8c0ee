"""Checks of a group before composition, beyond its counts: pod index and copied keys.

    pod index  label pod-group-pod-index of the first pod is a whole number below the total
    copies     labels and annotations an operator chose go from the pods to the Workload (`Policy`);
               pods of a group must not contradict each other, a pod may lack them

Invariant: whether a group passes depends on its pods, and not on the order in which they came.
"""

from collections.abc import Callable, Mapping

from podgroup.model.names import POD_INDEX, integer
from podgroup.model.objects import PodView
from podgroup.rules.helpers.context import RuleContext
from podgroup.rules.helpers.malformed import by_age
from podgroup.state.group import Group

SHOWN = 100
"""Characters of a value that are shown."""


def index_problem(ctx: RuleContext, group: Group) -> tuple[str, str] | None:
    """Return (reason, message) if the first pod's index is no index of the group, else None."""
    first = ctx.members(group).first()
    if group.single or first is None:
        return None
    pod = ctx.pod(first)
    text = pod.view.labels.get(POD_INDEX)
    if text is None:
        return None
    found = integer(text)
    if found is not None and 0 <= found < group.spec.total and text[0] not in "+-":
        return None
    return (
        "BadPodIndex",
        f"pod {pod.view.name}: label {POD_INDEX} is {text[:60]!r}, it must be a whole number from "
        f"0 to {group.spec.total - 1}",
    )


def copied_labels(ctx: RuleContext, group: Group) -> dict[str, str]:
    """Return the labels that go from the pods to the Workload; the oldest pod's value counts."""
    return _copied(ctx, group, ctx.world.policy.label_keys_to_copy, _labels)


def copied_annotations(ctx: RuleContext, group: Group) -> dict[str, str]:
    """Return the annotations that go from the pods to the Workload."""
    return _copied(ctx, group, ctx.world.policy.annotation_keys_to_copy, _annotations)


def copy_problem(ctx: RuleContext, group: Group) -> tuple[str, str] | None:
    """Return (reason, message) if pods differ in keys that are to be copied, else None."""
    policy = ctx.world.policy
    if group.single:
        return None
    message = _clash(ctx, group, policy.label_keys_to_copy, _labels)
    if message:
        return "DifferentLabels", message
    message = _clash(ctx, group, policy.annotation_keys_to_copy, _annotations)
    return ("DifferentAnnotations", message) if message else None


ValuesOf = Callable[[PodView], Mapping[str, str]]


def _labels(view: PodView) -> Mapping[str, str]:
    return view.labels


def _annotations(view: PodView) -> Mapping[str, str]:
    return view.annotations


def _copied(
    ctx: RuleContext, group: Group, keys: tuple[str, ...], values_of: ValuesOf
) -> dict[str, str]:
    found: dict[str, str] = {}
    for pod in by_age(ctx, group) if keys else ():
        values = values_of(pod.view)
        for key in keys:
            if key in values:
                found.setdefault(key, values[key])
    return found


def _clash(ctx: RuleContext, group: Group, keys: tuple[str, ...], values_of: ValuesOf) -> str:
    seen: dict[str, tuple[str, str]] = {}
    for pod in by_age(ctx, group) if keys else ():
        for key in keys:
            value = values_of(pod.view).get(key)
            if value is None:
                continue
            name, other = seen.setdefault(key, (pod.view.name, value))
            if other != value:
                return (
                    f"pods '{name}' and '{pod.view.name}' have different '{key}' values: "
                    f"{other[:SHOWN]} and {value[:SHOWN]}"
                )
    return ""
