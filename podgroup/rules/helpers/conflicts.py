"""Pods of a group that contradict each other: about queue, dialect or size (B1).

Which of two pods is right cannot be known, so the group is Blocked and both are named: the first by
age and uid, and the first that differs from it. Failed pods do not count. The two are found by a
pass over the group and kept in `Members`, so that a further pod of a large Blocked group costs no
pass.

Invariant: pods that agree are never reported as differing, in whatever order they came.
"""

from collections.abc import Callable

from podgroup.log.dialects import (
    ANNOTATIONS,
    COUNT,
    OWNER,
    ROLES,
    SETS,
    TOTAL,
    declaration,
    declared,
    declared_owner,
    dialects,
    summary,
)
from podgroup.model.names import POD_GROUP_SETS, QUEUE_NAME
from podgroup.model.objects import PodView
from podgroup.rules.helpers.context import Concluding, RuleContext
from podgroup.rules.helpers.malformed import SHOWN, by_age
from podgroup.state.derived import Contradicted
from podgroup.state.group import Group
from podgroup.state.pod import Pod

_DIFFERENT = {
    TOTAL: "DifferentTotalCounts",
    COUNT: "DifferentTotalCounts",
    SETS: "DifferentSets",
    ROLES: "DifferentRoles",
    OWNER: "DifferentDialects",
}


def find_conflict(ctx: RuleContext, group: Group) -> Concluding[tuple[str, str] | None]:
    """Name two pods that contradict each other about queue, dialect or size (B1)."""
    members = ctx.members(group)
    if len(members.queues) > 1:
        return (yield from _values(ctx, group, "DifferentQueues", QUEUE_NAME))
    if len(members.totals) <= 1 and not any("\n" in key for key in members.totals):
        return None
    stated = {dialect for key in members.totals for dialect in dialects(key)}
    if len(stated) > 1:
        return (yield from _mixed(ctx, group))
    dialect = next(iter(stated))
    if dialect == TOTAL:
        return (yield from _values(ctx, group, _DIFFERENT[TOTAL], ANNOTATIONS[TOTAL]))
    if sum(bool(key) for key in members.totals) <= 1:
        return None
    if dialect == OWNER:
        return (yield from _of_others(ctx, group))
    if dialect != SETS:
        return (yield from _values(ctx, group, _DIFFERENT[dialect], ANNOTATIONS[dialect]))
    one, other = yield from pair(ctx, group, SETS, declaration, lambda pod: bool(pod.view.sets_key))
    # Sets that cannot be read contradict no others: their pod has to be mended.
    if (bad := unreadable(one.view) or unreadable(other.view)) is not None:
        return bad
    first, second = summary(one.view.sets), summary(other.view.sets)
    values = f"{first} and {second}" if first != second else f"{first}, with other templates"
    return (
        "DifferentSets",
        f"pods '{one.view.name}' and '{other.view.name}' have different '{POD_GROUP_SETS}' "
        f"values: {values}",
    )


def unreadable(view: PodView) -> tuple[str, str] | None:
    """Say where a pod's declared sets cannot be read, None if they can."""
    if not view.sets_problem:
        return None
    return "BadSets", f"pod {view.name}: annotation {POD_GROUP_SETS}: {view.sets_problem}"


def _mixed(ctx: RuleContext, group: Group) -> Concluding[tuple[str, str] | None]:
    one, other = yield from pair(
        ctx,
        group,
        "dialect",
        lambda view: str(dialects(declaration(view))),
        lambda pod: bool(declaration(pod.view)),
    )
    if one is other:
        return (
            "DifferentDialects",
            f"pod '{one.view.name}' states the size of its group in several dialects "
            f"({declared(one.view)}): one of them must stay",
        )
    return (
        "DifferentDialects",
        f"pods '{one.view.name}' and '{other.view.name}' state the size of their group in "
        f"different dialects: {declared(one.view)} and {declared(other.view)}",
    )


def _of_others(ctx: RuleContext, group: Group) -> Concluding[tuple[str, str] | None]:
    """Name two pods of different owners; replicas of an owner may differ in size for a while."""

    def of(view: PodView) -> str:
        found = declared_owner(declaration(view))
        return found.title if found is not None else declaration(view)

    one, other = yield from pair(ctx, group, OWNER, of, lambda pod: bool(declaration(pod.view)))
    if of(one.view) == of(other.view):
        return None
    return (
        "DifferentDialects",
        f"pods '{one.view.name}' and '{other.view.name}' of one group belong to different owners: "
        f"{of(one.view)} and {of(other.view)}",
    )


def _values(
    ctx: RuleContext, group: Group, reason: str, key: str
) -> Concluding[tuple[str, str] | None]:
    """Name the first pod, and the first pod with another value of a label or annotation."""

    def value(view: PodView) -> str:
        source = view.labels if key == QUEUE_NAME else view.annotations
        return source.get(key, "")

    def shown(pod: Pod) -> str:
        text = value(pod.view)
        return text if len(text) <= SHOWN else text[:SHOWN] + "..."

    # Total counts and queues are stated by every pod; elsewhere silence is no contradiction.
    every = key in (QUEUE_NAME, ANNOTATIONS[TOTAL])
    one, other = yield from pair(ctx, group, key, value, lambda pod: every or bool(value(pod.view)))
    return (
        reason,
        f"pods '{one.view.name}' and '{other.view.name}' have different '{key}' values: "
        f"{shown(one)} and {shown(other)}",
    )


def pair(
    ctx: RuleContext,
    group: Group,
    what: str,
    value: Callable[[PodView], str],
    counts: Callable[[Pod], bool],
) -> Concluding[tuple[Pod, Pod]]:
    """Return the first pod that counts, by age and uid, and the first that contradicts it.

    The answer is kept under the name `what`. `what` "" keeps none: for values beside labels and
    annotations, whose changes nothing reports.
    """
    members = ctx.members(group)
    known = members.pairs.get(what)
    if known is not None:
        one, other = ctx.pod(known[1]), ctx.pod(known[2])
        if _alive(one) and _alive(other):
            return one, other
    pods = [pod for pod in by_age(ctx, group) if _alive(pod) and counts(pod)]
    one = pods[0]
    other = next((pod for pod in pods if value(pod.view) != value(one.view)), one)
    if what and other is not one:
        yield Contradicted(group.id, what, one.view.uid, other.view.uid)
    return one, other


def _alive(pod: Pod) -> bool:
    return pod.view.phase != "Failed"
