"""Groups that declare sets or roles instead of a total count: when and how they are composed.

KEP-976 story 3: composed as soon as every set without a template has its pods; the Workload has a
podset per set, so that pods that do not exist yet have quota. First draft of KEP-976: a declared
count composes after one pod, declared roles after one pod per role.

Quota is charged for the pod that represents a role, so larger pods of the role are a contradiction
like different counts (B1).

Invariant: a group's podsets depend on its pods, and not on the order in which they came.
"""

from podgroup.log.dialects import (
    OWNER,
    SETS,
    declared_owner,
    role_count,
    summary,
)
from podgroup.model.commands import PodSetSpec
from podgroup.model.names import (
    GROUP_OWNER,
    LEADER_WORKER_SET,
    MAX_INT32,
    MAX_ROLES,
    POD_GROUP_COUNT,
    POD_GROUP_ROLE,
    POD_GROUP_ROLE_COUNT,
    POD_GROUP_ROLES,
    POD_GROUP_SETS,
    STATEFUL_SET,
    is_dns_label,
)
from podgroup.model.wording import quantity
from podgroup.rules.helpers.conflicts import pair, unreadable
from podgroup.rules.helpers.context import Concluding, RuleContext, pod_ref
from podgroup.rules.helpers.order import active_key, start_key
from podgroup.state.facts import UNPLACED, wanted_counts
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.pod import Pod

Found = tuple[str, str] | None
"""(reason, message) of a fault; None: no fault."""


def undeclared(ctx: RuleContext, group: Group) -> Found:
    """Say that the number of pods is not declared yet, if the pods wait for a declaration."""
    members = ctx.members(group)
    first = members.first()
    if group.spec.dialect or any(members.totals) or first is None:
        return None
    if not ctx.pod(first).view.labels.get(POD_GROUP_ROLE):
        return None
    return (
        "WaitingForPods",
        f"'{group.name}' group waits for a pod that says what belongs to it "
        f"(annotation {POD_GROUP_SETS})",
    )


def incomplete(ctx: RuleContext, group: Group) -> Concluding[Found]:
    """Say why a group that declares its pods cannot be composed yet."""
    match group.spec.dialect:
        case "sets":
            return _sets(ctx, group)
        case "count":
            return (yield from _count(ctx, group))
        case "owner":
            return _owned(ctx, group)
        case _:
            return _roles(ctx, group)


def unfit(roles: dict[str, list[Pod]]) -> Found:
    """Name the first pod that requests more than the pod that represents its role, by age."""
    for name, pods in roles.items():
        if name.startswith(UNPLACED):
            continue
        sample = pods[0].view
        for pod in pods[1:]:
            for resource, amount in sorted(pod.view.requests.items()):
                known = sample.requests.get(resource, 0)
                if amount > known:
                    return (
                        "DifferentShapes",
                        f"pods '{sample.name}' and '{pod.view.name}' of role {name} ask for "
                        f"different amounts of {resource}: {quantity(resource, known)} and "
                        f"{quantity(resource, amount)}",
                    )
    return None


def pod_sets(ctx: RuleContext, group: Group, roles: dict[str, list[Pod]]) -> tuple[PodSetSpec, ...]:
    """Return the podsets of a complete group. `roles`: its active pods by role, oldest first."""
    if group.spec.dialect == SETS:
        return tuple(
            PodSetSpec(name=one.name, count=one.count, requests=one.requests, template=one.template)
            if one.template
            else _live(one.name, one.count, roles[one.name][0])
            for one in group.spec.sets
        )
    if group.spec.dialect == OWNER:
        counts = wanted_counts(ctx.world, group) or {}
        return tuple(
            _live(name, count, roles[name][0]) for name, count in sorted(counts.items()) if count
        )
    return tuple(
        _live(name, group.spec.declared_count or role_count(pods[0].view), pods[0])
        for name, pods in roles.items()
        if not name.startswith(UNPLACED)
    )


def placed(sets: tuple[PodSetSpec, ...], roles: dict[str, list[Pod]]) -> list[Pod]:
    """Return the pods that have places in these podsets, which own the Workload."""
    return [
        pod for one in sets for pod in sorted(roles.get(one.name, ()), key=active_key)[: one.count]
    ]


def _live(name: str, count: int, sample: Pod) -> PodSetSpec:
    requests = sample.view.requests
    return PodSetSpec(name=name, count=count, sample=pod_ref(sample), requests=requests)


def _sets(ctx: RuleContext, group: Group) -> Found:
    members = ctx.members(group)
    uid = members.declaring()
    if uid is not None and (bad := unreadable(ctx.pod(uid).view)) is not None:
        return bad
    missing = tuple(
        one
        for one in group.spec.sets
        if not one.template and members.count(Flag.ACTIVE, one.name) < one.count
    )
    if not missing and members.count(Flag.ACTIVE):
        return None
    return (
        "WaitingForPods",
        f"'{group.name}' group has fewer runnable pods than expected: it waits for those that are "
        f"created beforehand ({summary(missing or group.spec.sets)}); "
        f"label {POD_GROUP_ROLE} says of which set a pod is",
    )


def _count(ctx: RuleContext, group: Group) -> Concluding[Found]:
    members = ctx.members(group)
    if group.spec.declared_count < 1:
        return _bad(ctx, group, POD_GROUP_COUNT, f"an integer from 1 to {MAX_INT32}")
    if not members.count(Flag.ACTIVE):
        return "WaitingForPods", f"'{group.name}' group waits for its first runnable pod"
    shapes = [name for name in group.roles if members.count(Flag.ACTIVE, name)]
    if len(shapes) <= 1:
        return None
    one, other = yield from pair(ctx, group, "", lambda view: view.role, lambda pod: True)
    return (
        "DifferentShapes",
        f"pods '{one.view.name}' and '{other.view.name}' have different shapes, and "
        f"'{POD_GROUP_COUNT}' knows one: a group of several roles states '{POD_GROUP_ROLES}'",
    )


def _roles(ctx: RuleContext, group: Group) -> Found:
    members = ctx.members(group)
    if group.spec.declared_roles < 1:
        return _bad(ctx, group, POD_GROUP_ROLES, f"an integer from 1 to {MAX_ROLES}")
    there = [name for name in group.roles if members.count(Flag.ACTIVE, name)]
    for name in there:
        if name.startswith(UNPLACED) or not is_dns_label(name):
            pod = ctx.pod(next(members.with_flags(Flag.ACTIVE, name)))
            value = pod.view.labels.get(POD_GROUP_ROLE)
            return (
                "BadDeclaration",
                f"pod {pod.view.name}: label {POD_GROUP_ROLE} is {value!r}, it must name the role: "
                "lower case letters, digits and '-', at most 63 characters",
            )
    if len(there) < group.spec.declared_roles:
        return (
            "WaitingForPods",
            f"'{group.name}' group waits for a pod "
            f"of each of its {group.spec.declared_roles} roles",
        )
    if len(there) > group.spec.declared_roles:
        return (
            "DifferentRoles",
            f"the group declares {group.spec.declared_roles} roles, its pods are of "
            f"{len(there)}: {', '.join(sorted(there)[: MAX_ROLES + 1])}",
        )
    return _role_counts(ctx, group, there)


def _owned(ctx: RuleContext, group: Group) -> Found:
    """Say why an owner's pods cannot be composed yet: one pod of each role is enough.

    A StatefulSet creates its pods one after the other, so its first pod has to represent all.
    """
    of = declared_owner(group.spec.declared)
    if of is None:
        wanted = f"{STATEFUL_SET}/NAME or {LEADER_WORKER_SET}/NAME/SIZE"
        return _bad(ctx, group, GROUP_OWNER, wanted)
    counts, members = wanted_counts(ctx.world, group), ctx.members(group)
    if counts is None:
        return (
            "StatefulSetNotFound",
            f"{of.title}, which the pods are of, is not known: it says how many they are",
        )
    there = [name for name in group.roles if members.count(Flag.ACTIVE, name)]
    for name in there:
        if name not in counts:
            pod = ctx.pod(next(members.with_flags(Flag.ACTIVE, name)))
            value = pod.view.labels.get(POD_GROUP_ROLE)
            return (
                "BadDeclaration",
                f"pod {pod.view.name}: label {POD_GROUP_ROLE} is {value!r}, a pod of a {of.kind} "
                f"is {' or '.join(sorted(counts))}",
            )
    if not sum(counts.values()):
        return "WaitingForPods", f"{of.title} is scaled to 0: its pods are going"
    missing = [name for name, count in sorted(counts.items()) if count and name not in there]
    if missing:
        roles = " and ".join(missing)
        return "WaitingForPods", f"{of.title}: the replica waits for its first {roles}"
    return None


def _role_counts(ctx: RuleContext, group: Group, roles: list[str]) -> Found:
    for name in sorted(roles):
        uids = ctx.members(group).with_flags(Flag.ACTIVE, name)
        pods = sorted((ctx.pod(uid) for uid in uids), key=start_key)
        for pod in pods:
            if not role_count(pod.view):
                value = pod.view.annotations.get(POD_GROUP_ROLE_COUNT)
                return (
                    "BadDeclaration",
                    f"pod {pod.view.name}: annotation {POD_GROUP_ROLE_COUNT} is {value!r}, it must "
                    f"be an integer from 1 to {MAX_INT32}",
                )
        other = next((p for p in pods if role_count(p.view) != role_count(pods[0].view)), None)
        if other is not None:
            return (
                "DifferentRoles",
                f"pods '{pods[0].view.name}' and '{other.view.name}' of role {name} have different "
                f"'{POD_GROUP_ROLE_COUNT}' values: {role_count(pods[0].view)} and "
                f"{role_count(other.view)}",
            )
    return None


def _bad(ctx: RuleContext, group: Group, key: str, wanted: str) -> Found:
    uid = ctx.members(group).declaring()
    view = ctx.pod(uid).view if uid is not None else None
    value = view.annotations.get(key) if view is not None else None
    name = view.name if view is not None else "?"
    return "BadDeclaration", f"pod {name}: annotation {key} is {value!r}, it must be {wanted}"
