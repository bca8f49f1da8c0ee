"""Flavor assignment: which flavor each podset of a group gets in a ClusterQueue, or why none.

Per podset (by name) and resource group: the resources of the group that the podset requests must
all come from one flavor. Flavors are tried in the ClusterQueue's order; skipped are those with
taints the pods do not tolerate and those whose labels contradict the pods' node selector or
required affinity (only label keys that flavors of the resource group use count). The first flavor
that fits wins; else the first that would fit if others made room; else the reason says why.

Amounts are the integers of `objects`; quota is nominal, without borrowing.
Invariant: a fit never takes usage above a nominal quota.
"""

from collections import Counter
from collections.abc import Container, Mapping
from typing import Literal

from msgspec import Struct

from podgroup.fold.placing import set_named
from podgroup.names import (
    PENDING_EXCEEDS_MAX_QUOTA,
    PENDING_MISCONFIGURED,
    PENDING_NO_MATCHING_FLAVOR,
    PENDING_WAITING_FOR_QUOTA,
    SINGLE_PODSET,
    integer,
)
from podgroup.objects import (
    Assignment,
    ClusterQueueView,
    DeclaredSet,
    FlavorView,
    NodeTerm,
    PodView,
    Requirement,
    ResourceGroup,
    Toleration,
)
from podgroup.quantities import format_amount
from podgroup.quota import FlavorResource
from podgroup.state import Group, Role, World

Mode = Literal["fit", "preempt", "none"]


class Fit(Struct, frozen=True):
    """The answer for one group: assignments and usage when `mode` is not "none", else why not."""

    mode: Mode
    assignments: tuple[Assignment, ...] = ()
    usage: dict[FlavorResource, int] = {}
    reason: str = ""
    message: str = ""


class _Try(Struct, frozen=True):
    mode: Mode
    flavor: str = ""
    reason: str = ""
    message: str = ""


def assign(
    world: World,
    queue: ClusterQueueView,
    group: Group,
    used: Mapping[FlavorResource, int],
    hopeless: Container[str] = (),
) -> Fit:
    """Assign flavors to a composed group on top of `used`.

    In `hopeless` flavors nobody can make room: they are taken only where there is room.
    """
    mode: Mode = "fit"
    usage: Counter[FlavorResource] = Counter()
    assignments: list[Assignment] = []
    reason, message = "", ""
    for role in _wanted(group):
        flavors: dict[str, str] = {}
        amounts = {r: n * role.count for r, n in role.requests.items() if counted(world, r)}
        name = SINGLE_PODSET if group.single else role.name.lower()
        if any("pods" in g.covered for g in queue.groups):
            amounts["pods"] = role.count
        uncovered = [r for r in sorted(amounts) if amounts[r] and not _covered(queue, r)]
        if uncovered:
            return Fit(
                "none",
                reason=PENDING_MISCONFIGURED,
                message=f"couldn't assign flavors to pod set {name}: resource {uncovered[0]} "
                f"unavailable in ClusterQueue {queue.name}",
            )
        sample = sample_of(world, group, role)
        for resources in queue.groups:
            asked = {r: amounts[r] for r in resources.covered if r in amounts}
            if not asked:
                continue
            found = _try_flavors(world, resources, asked, sample, used, usage, name, hopeless)
            if found.mode == "none":
                return Fit("none", reason=found.reason, message=found.message)
            if found.mode == "preempt":
                mode, reason, message = "preempt", found.reason, found.message
            for resource, amount in asked.items():
                flavors[resource] = found.flavor
                usage[(found.flavor, resource)] += amount
        assignments.append(
            Assignment(
                name=name,
                flavors=flavors,
                usage={r: amounts[r] for r in sorted(flavors)},
                count=role.count,
            )
        )
    return Fit(mode, tuple(assignments), dict(usage), reason, message)


def _wanted(group: Group) -> list[Role]:
    return sorted((r for r in group.roles.values() if r.count), key=lambda r: r.name)


def counted(world: World, resource: str) -> bool:
    """Tell whether a resource is held against quota, or an operator has excluded it."""
    return not resource.startswith(world.policy.exclude_resource_prefixes)


def _covered(queue: ClusterQueueView, resource: str) -> bool:
    return any(resource in g.covered for g in queue.groups)


def sample_of(world: World, group: Group, role: Role) -> PodView | DeclaredSet | None:
    """Return what shows the shape of a role's pods; None while there is nothing."""
    declared = set_named(group, role.name)
    if declared is not None and declared.template:
        return declared
    pod = world.pods.get(role.sample)
    if pod is not None and pod.role == role.name:
        return pod.view
    members = world.members[group.id]
    uid = next((u for u in members.flags if members.roles[u] == role.name), None)
    return world.pods[uid].view if uid is not None else None


def _try_flavors(
    world: World,
    resources: ResourceGroup,
    asked: Mapping[str, int],
    sample: PodView | DeclaredSet | None,
    used: Mapping[FlavorResource, int],
    mine: Mapping[FlavorResource, int],
    pod_set: str,
    hopeless: Container[str],
) -> _Try:
    keys = {
        key
        for quota in resources.flavors
        for key in (world.flavors[quota.name].node_labels if quota.name in world.flavors else {})
    }
    best: _Try | None = None
    why: list[str] = []
    reason = PENDING_NO_MATCHING_FLAVOR
    for quotas in resources.flavors:
        flavor = world.flavors.get(quotas.name)
        if flavor is None:
            why.append(f"flavor {quotas.name} not found")
            continue
        obstacle = _obstacle(flavor, sample, keys)
        if obstacle:
            why.append(obstacle)
            continue
        short: list[str] = []
        never = False
        for resource, amount in asked.items():
            quota = quotas.resources.get(resource)
            nominal = quota.nominal if quota is not None else 0
            key = (quotas.name, resource)
            own = mine.get(key, 0) + amount
            if own > nominal:
                never = True
                short.append(
                    f"insufficient quota for {resource} in flavor {quotas.name}, request > maximum "
                    f"capacity ({format_amount(resource, own)} > "
                    f"{format_amount(resource, nominal)})"
                )
            elif own + used.get(key, 0) > nominal:
                # Stable wording: what is free changes all the time, the reason does not.
                short.append(
                    f"insufficient unused quota for {resource} in flavor {quotas.name} "
                    f"({format_amount(resource, own)} wanted, "
                    f"{format_amount(resource, nominal)} in all)"
                )
        if not short:
            return _Try("fit", quotas.name)
        why += short
        if never:
            if reason == PENDING_NO_MATCHING_FLAVOR:
                reason = PENDING_EXCEEDS_MAX_QUOTA
            continue
        reason = PENDING_WAITING_FOR_QUOTA
        if best is None and quotas.name not in hopeless:
            best = _Try("preempt", quotas.name, PENDING_WAITING_FOR_QUOTA)
    message = f"couldn't assign flavors to pod set {pod_set}: {', '.join(why)}"
    if best is not None:
        return _Try("preempt", best.flavor, best.reason, message)
    return _Try("none", reason=reason, message=message)


def usable_flavor(world: World, resources: ResourceGroup, pod: PodView) -> str:
    """Return the first flavor of a resource group that the pod's shape may use, "" if none."""
    known = [world.flavors[q.name] for q in resources.flavors if q.name in world.flavors]
    keys = {key for flavor in known for key in flavor.node_labels}
    return next((f.name for f in known if not _obstacle(f, pod, keys)), "")


def _obstacle(flavor: FlavorView, sample: PodView | DeclaredSet | None, keys: set[str]) -> str:
    """Say why pods like `sample` cannot use a flavor; "" if they can."""
    if sample is None:
        return ""
    tolerations = (*sample.tolerations, *flavor.tolerations)
    for taint in flavor.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
            return f"untolerated taint {taint.key}={taint.value}:{taint.effect} in flavor " + (
                flavor.name
            )
    for key, value in sample.node_selector.items():
        if key in keys and flavor.node_labels.get(key) != value:
            return f"flavor {flavor.name} doesn't match node selector {key}={value}"
    terms = [term for term in sample.node_terms if term.expressions]
    if terms and not any(_term_matches(term, flavor.node_labels, keys) for term in terms):
        return f"flavor {flavor.name} doesn't match node affinity"
    return ""


def tolerates(toleration: Toleration, taint: Toleration) -> bool:
    """Tell whether a toleration covers a taint (Kubernetes: empty key with Exists covers all)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    return toleration.key == taint.key and toleration.value == taint.value


def _term_matches(term: NodeTerm, labels: Mapping[str, str], keys: set[str]) -> bool:
    return all(matches(e, labels) for e in term.expressions if e.key in keys)


def matches(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Evaluate one selector expression on labels, as label and node selectors mean it."""
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
            # The API server takes any text here; a bound that is no integer matches nothing.
            have, bound = integer(value or ""), integer("".join(requirement.values[:1]))
            if have is None or bound is None:
                return False
            return have > bound if requirement.operator == "Gt" else have < bound
        case _:
            return False
