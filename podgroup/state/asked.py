"""Requests for quota: groups of the state as values of admission.

A group holds what it is charged, so quota that finished pods gave back is free. Pods that run
without an admission are counted, and never asked to stop.

Invariant: nothing is changed; equal worlds give equal values.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import combinations
from typing import Any, Final

import msgspec

from podgroup.admission.cache.claims import KeptQuota
from podgroup.admission.cache.reserved_starts import ReservedStart
from podgroup.admission.holding import growth_id, usage_of
from podgroup.admission.matching import contradiction, unsuitable, untolerated
from podgroup.admission.model import (
    Configuration,
    Eviction,
    PodSet,
    PodSetAssignment,
    Requests,
    Reservation,
    UsageSharing,
    Workload,
)
from podgroup.admission.shape import asked as total_of
from podgroup.log.records import Kept, StartReserved
from podgroup.model.ids import GroupID, PodUID
from podgroup.model.least_run import read
from podgroup.model.names import (
    ACTIVE_NODES_NOT_LISTED,
    ACTIVE_TOPOLOGY_NOT_FOUND,
    ADMISSION_GATE,
    SINGLE_PODSET,
    STATEFUL_SET,
)
from podgroup.model.objects import (
    AdmissionCheckView,
    Assignment,
    ClusterQueueView,
    DeclaredSet,
    PodView,
    ResourceGroup,
)
from podgroup.model.policy import Policy, reserves_starts, weights_of
from podgroup.model.topology import HOSTNAME, TopologyAssignment, both
from podgroup.state.devices import (
    counting,
    device_resources,
    differing,
    paid_claims,
    uncounted,
)
from podgroup.state.facts import (
    beyond_admission,
    charged_claims,
    cluster_queue_of,
    grows,
    nodes_listed,
    place_of,
    places_left,
    priority_class_of,
    role_of,
    set_named,
    succeeded,
)
from podgroup.state.group import Group, QuotaReservation, Role
from podgroup.state.members import Flag
from podgroup.state.quota import Charge, FlavorResource
from podgroup.state.termination import grace_of
from podgroup.state.world import World

_NO_SHARED: Mapping[str, Requests] = {}


def configuration(policy: Policy) -> Configuration:
    """Return the operator's choices that Kueue keeps in its configuration."""
    strategies: Any = policy.fair_sharing or None
    sharing = None
    if policy.usage_half_life_s >= 0:
        sharing = UsageSharing(
            half_life_s=policy.usage_half_life_s,
            sampling_s=policy.usage_sampling_s,
            weights=weights_of(policy),
        )
    return Configuration(
        fair_strategies=strategies,
        usage_sharing=sharing,
        as_kueue=policy.compatibility == "kueue",
        least_run=(("", policy.least_run_s), *read(",".join(policy.least_run_by_reason))),
        longest_wait_s=policy.longest_wait_s if reserves_starts(policy) else 0,
    )


def unusable_checks(
    checks: Mapping[str, AdmissionCheckView], view: ClusterQueueView
) -> tuple[list[str], list[str]]:
    """Return which AdmissionChecks of a ClusterQueue are missing, and which are not active."""
    missing = [name for name in view.checks if name not in checks]
    idle = [name for name in view.checks if name in checks and checks[name].active[:1] != ("True",)]
    return missing, idle


def without_places(world: World, view: ClusterQueueView) -> list[tuple[str, str]]:
    """Return why flavors of a ClusterQueue that name a Topology cannot be used: reason, words."""
    named = dict.fromkeys(one.name for part in view.groups for one in part.flavors)
    found = [world.flavors[name] for name in named if name in world.flavors]
    why = []
    for flavor in (one for one in found if one.topology):
        if flavor.topology not in world.topologies:
            said = f'there is no Topology "{flavor.topology}" for TAS flavor "{flavor.name}"'
            why.append((ACTIVE_TOPOLOGY_NOT_FOUND, said))
        elif not nodes_listed(world):
            said = f'the nodes of TAS flavor "{flavor.name}" are not listed yet'
            why.append((ACTIVE_NODES_NOT_LISTED, said))
    return why


def usable(world: World, view: ClusterQueueView) -> bool:
    """Tell whether a ClusterQueue's amounts and checks can be used, and it is not being deleted."""
    return not (view.problem or view.deleting or any(unusable_checks(world.checks, view)))


def workload(world: World, group: Group, *, asleep: bool = False) -> Workload:
    """Return a group as admission's Workload; `asleep`: the group requests no quota now."""
    roles = sorted((role for role in group.roles.values() if role.count), key=lambda r: r.name)
    counts = {role.name: role.count for role in roles}
    if group.quota.holding is None:  # pods that succeeded before an eviction need no quota again
        left = {role.name: places_left(world, group, role) for role in roles}
        counts = left if any(left.values()) else counts
        roles = [role for role in roles if counts[role.name]]
    pod_sets = tuple(_pod_set(world, group, role, counts[role.name]) for role in roles)
    return Workload(
        id=group.id,
        uid=group.id,
        namespace=group.namespace,
        queue=group.spec.queue,
        created=_seconds(group.requeueing.queued_at or group.created_at),
        priority=group.composition.priority,
        pod_sets=_sharing(world, group, pod_sets),
        evicted=eviction(group),
        waiting_until=None if asleep else 0,
        fixed=group.quota.holding is None,
        priority_class=priority_class_of(group),
        run_s=None if asleep else most_run_s(world, group),
    )


def most_run_s(world: World, group: Group) -> float | None:
    """Return how many seconds a group holds quota at most, from its admission; None: no bound.

    The sum of its maximum execution time, its pods' grace period, and `_SEEN_S`. None where no
    starts are reserved, which alone need the bound, and while admission checks are open, when the
    maximum execution time does not run.
    """
    workload = group.mirror.workload
    if workload is None or not workload.max_execution_s or world.mode == "kueue":
        return None
    if not reserves_starts(world.policy):
        return None
    queue = cluster_queue_of(world, group)
    if group.quota.holding is None and queue is not None and queue.checks:
        return None
    samples = (sample_of(world, group, role) for role in group.roles.values())
    graces = [one.termination_grace_s for one in samples if isinstance(one, PodView)]
    grace_s = max((grace_of(world.policy, seconds) for seconds in graces), default=0)
    return max(0, workload.max_execution_s - group.quota.executed_s) + grace_s + _SEEN_S


def ends_by(world: World, group: Group, holding: QuotaReservation) -> float | None:
    """Return by when a group that holds quota gives it back (seconds), None: no bound."""
    run_s = most_run_s(world, group) if holding.admitted else None
    return None if run_s is None else _seconds(holding.admitted_at or holding.at) + run_s


def growth(world: World, group: Group) -> Workload:
    """Return the request of a group that holds quota for fewer pods than their owner wants.

    Where the missing pods of a StatefulSet did not fit together, the group requests the next pod
    alone: each pod of a StatefulSet is of use by itself. A replica of a LeaderWorkerSet is whole.

    Further pods of a role go to the flavors of its present pods, and to their domain where the role
    requires one domain for all.
    """
    holding, since = group.quota.holding, group.composition.wanted_at
    admitted = holding.admission.assignments if holding is not None else ()
    given = {role_of(group, one.name): one for one in admitted}
    by_one = group.spec.owner_kind == STATEFUL_SET
    sets = []
    for name, count in group.composition.wanted:
        role, held = group.roles[name], given.get(name)
        missing = count - role.count
        if by_one and group.quota.reason[0] and group.quota.kept is None:
            missing = 1
        more = _pod_set(world, group, role, missing)
        if held is None:
            continue
        selector = dict(more.node_selector)
        if role.topology.required and held.place is not None and held.place.domains:
            levels, values = held.place.levels, held.place.domains[0].values
            selector |= {
                level: value
                for level, value in zip(levels, values, strict=False)
                if level == role.topology.required
            }
        sets.append(
            msgspec.structs.replace(
                more,
                flavors=tuple(sorted(held.flavors.items())),
                node_selector=tuple(sorted(selector.items())),
            )
        )
    return Workload(
        id=growth_id(group.id),
        uid=group.id,
        namespace=group.namespace,
        queue=group.spec.queue,
        created=_seconds(since or group.created_at),
        priority=group.composition.priority,
        pod_sets=tuple(sets),
    )


def waiter_id(group: Group) -> str:
    """Return the id by which a group waits for quota."""
    return growth_id(group.id) if grows(group) else group.id


def grown(group: Group, more: Iterable[PodSetAssignment]) -> tuple[Assignment, ...]:
    """Return the assignments of a group after its growth by `more`."""
    holding = group.quota.holding
    added = {one.name: one for one in more}
    held = holding.admission.assignments if holding is not None else ()
    return tuple(_with(one, added[one.name]) if one.name in added else one for one in held)


def _with(held: Assignment, more: PodSetAssignment) -> Assignment:
    usage = {name: amount + more.usage.get(name, 0) for name, amount in held.usage.items()}
    count, place = held.count + more.count, both(held.place, more.topology)
    return msgspec.structs.replace(held, usage=usage, count=count, place=place)


def eviction(group: Group) -> Eviction | None:
    """Return the eviction of a group that still holds quota, None if there is none."""
    evicted = group.requeueing.evicted
    if evicted is None or group.quota.holding is None:
        return None
    return Eviction(_seconds(evicted.at), evicted.effect, evicted.message)


def reservation(charge: Charge, given: Iterable[Assignment] = ()) -> Reservation:
    """Return a charge as a reservation, by flavor; podsets of `given` add their places."""
    placed = tuple(
        PodSetAssignment(name=one.name, count=one.count, flavors=one.flavors, topology=one.place)
        for one in given
        if one.place is not None
    )
    return Reservation(
        cluster_queue=charge.cluster_queue,
        at=_seconds(charge.at),
        pod_sets=per_flavor(charge.usage) + placed,
    )


def _sharing(world: World, group: Group, pod_sets: tuple[PodSet, ...]) -> tuple[PodSet, ...]:
    """Add the ResourceClaims that the group's pods share, if it pays, to the first podset."""
    if group.id not in world.sharing.claims or not pod_sets:
        return pod_sets
    amounts = paid_claims(world, group.id)
    shared = tuple((r, amounts[r]) for r in sorted(amounts) if counted(world, r))
    return (msgspec.structs.replace(pod_sets[0], shared=shared), *pod_sets[1:])


def shared_of(world: World, group: Group) -> dict[str, Requests]:
    """Return by podset what a group requests for the ResourceClaims that its pods share."""
    if group.id not in world.sharing.claims:
        return {}
    return {one.name: one.shared for one in workload(world, group).pod_sets if one.shared}


def charge_of(world: World, group: Group, holding: QuotaReservation) -> Charge:
    """Return the charge of a group that holds quota: succeeded pods are charged nothing.

    KEP-976 "Dynamically reclaiming Quota": a succeeded pod's share is free at once. Serving groups
    keep the share.

    Pods that run are charged even beyond the admission: pods above the count of their role (in a
    serving group terminating pods have given up their places), pods of a role without places, and
    resized pods.
    """
    usage: dict[tuple[str, str], int] = {}
    live = world.members[group.id].count
    for assignment in holding.admission.assignments:
        count = left = max(assignment.count, 1)
        if not group.spec.serving:
            # An admission after an eviction is for the pods alone that had not succeeded by then.
            role = group.roles.get(role_of(group, assignment.name))
            all_places = max(count, role.count if role is not None else 0)
            left = min(count, max(0, all_places - succeeded(world, group, assignment.name)))
        left = max(left, live(Flag.LIVE, role_of(group, assignment.name)))
        for resource, flavor in assignment.flavors.items():
            key = (flavor, resource)
            usage[key] = usage.get(key, 0) + assignment.each(resource) * left
    for key, amount in charged_claims(world, group, holding.admission).items():
        usage[key] = usage.get(key, 0) + amount
    for key, amount in beyond_admission(world, group, holding.admission).items():
        usage[key] = usage.get(key, 0) + amount
    return Charge(
        holding.admission.cluster_queue,
        usage,
        group.composition.priority,
        holding.at,
        local_queue=(group.namespace, group.spec.queue),
        holds=True,
        admitted=holding.admitted,
    )


def per_flavor(usage: Mapping[FlavorResource, int]) -> tuple[PodSetAssignment, ...]:
    """Return amounts as if each flavor were a podset."""
    found: dict[str, dict[str, int]] = {}
    for (name, resource), amount in usage.items():
        found.setdefault(name, {})[resource] = amount
    return tuple(
        PodSetAssignment(name=name, count=1, flavors=dict.fromkeys(each, name), usage=each)
        for name, each in sorted(found.items())
    )


def assignments(
    pod_sets: Iterable[PodSetAssignment], shared: Mapping[str, Requests] = _NO_SHARED
) -> tuple[Assignment, ...]:
    """Return podset assignments as the log has them; `shared` is what `shared_of` returns."""
    return tuple(
        Assignment(
            name=one.name,
            flavors=dict(sorted(one.flavors.items())),
            usage={resource: one.usage[resource] for resource in sorted(one.usage)},
            count=one.count,
            place=one.topology,
            shared=dict(shared.get(one.name, ())),
        )
        for one in pod_sets
    )


def kept_record(group: GroupID, kept: KeptQuota | None) -> Kept:
    """Return the quota that is kept for a group as the log has it; `kept` None: no quota is."""
    if kept is None:
        return Kept(group)
    given = assignments(kept.pod_sets or per_flavor(kept.usage))
    until = moment(kept.until) if kept.until else None
    return Kept(
        group, kept.queue, given, kept.borrowing, kept.victims, kept.head, kept.lost_to, until
    )


def kept_quota(record: Kept) -> KeptQuota:
    """Return the quota that the log says is kept for a group: the inverse of `kept_record`."""
    pod_sets = _given(record.assignments or ())
    return KeptQuota(
        record.cluster_queue,
        () if record.head else pod_sets,
        usage_of(pod_sets) if record.head else {},
        record.borrowing,
        record.victims,
        record.head,
        record.lost_to,
        0.0 if record.until is None else _seconds(record.until),
    )


def _given(assignments: Iterable[Assignment]) -> tuple[PodSetAssignment, ...]:
    return tuple(
        PodSetAssignment(
            name=one.name,
            count=one.count,
            flavors=one.flavors,
            usage=one.usage,
            topology=one.place,
        )
        for one in assignments
    )


def start_record(group: GroupID, start: ReservedStart | None) -> StartReserved:
    """Return the reserved start of a group as the log has it; `start` None: no start."""
    if start is None:
        return StartReserved(group)
    by = None if start.by is None else moment(start.by)
    given = assignments(start.pod_sets)
    return StartReserved(group, start.queue, given, moment(start.at), by, start.rank)


def reserved_start(record: StartReserved) -> ReservedStart:
    """Return the start that the log says is reserved: the inverse of `start_record`."""
    assert record.at is not None
    by = None if record.by is None else _seconds(record.by)
    given, at = _given(record.assignments or ()), _seconds(record.at)
    return ReservedStart(record.group, record.cluster_queue, given, at, by, record.rank)


def moment(seconds: float) -> datetime:
    """Return a time of admission, in seconds, as the log has it."""
    return datetime.fromtimestamp(seconds, UTC)


def usable_flavor(world: World, resources: ResourceGroup, shape: PodSet) -> str:
    """Return the first flavor of a resource group that pods may use, "" if none."""
    known = (world.flavors.get(quotas.name) for quotas in resources.flavors)
    return next((f.name for f in known if f is not None and not unsuitable(f, shape)), "")


def at_odds(world: World, assignment: Assignment) -> str:
    """Name two flavors of an assignment whose labels no node can have together; "" if all agree.

    Kueue lets one flavor's labels win. So does gatelog where `compatibility` is "kueue".
    """
    if world.mode == "kueue" or world.policy.compatibility == "kueue":
        return ""
    names = sorted(set(assignment.flavors.values()))
    known = [world.flavors[name] for name in names if name in world.flavors]
    return next((said for pair in combinations(known, 2) if (said := contradiction(*pair))), "")


def first_flavors(
    world: World, group: Group, queue: ClusterQueueView
) -> tuple[Assignment, ...] | None:
    """Return the assignments of a group in the first flavors that suit it, free or not.

    None if the ClusterQueue lacks a flavor for one of the requested resources.
    """
    found = []
    for one in workload(world, group).pod_sets:
        asked = {name: amount for name, amount in total_of(one).items() if amount}
        flavors: dict[str, str] = {}
        for resources in queue.groups:
            if "pods" in resources.covered:
                asked["pods"] = one.count
            mine = [name for name in resources.covered if name in asked]
            name = usable_flavor(world, resources, one) if mine else ""
            if name:
                flavors.update(dict.fromkeys(mine, name))
        if asked.keys() != flavors.keys():
            return None
        usage = {name: asked[name] for name in sorted(flavors)}
        found.append(
            Assignment(
                name=one.name,
                flavors=flavors,
                usage=usage,
                count=one.count,
                shared=dict(one.shared),
            )
        )
    return tuple(found)


def taken(charge: Charge) -> dict[FlavorResource, int]:
    """Return the usage of a charge, without amounts of 0."""
    return {key: amount for key, amount in charge.usage.items() if amount}


def counted(world: World, resource: str) -> bool:
    """Tell whether a resource counts against quota; an operator may exclude it."""
    return not resource.startswith(world.policy.exclude_resource_prefixes)


def sample_of(world: World, group: Group, role: Role) -> PodView | DeclaredSet | None:
    """Return the declared set or pod that shows the shape of a role's pods; None without either."""
    declared = set_named(group, role.name)
    if declared is not None and declared.template:
        return declared
    pod = world.pods.get(role.sample)
    if pod is not None and pod.role == role.name:
        return pod.view
    uid = next(world.members[group.id].with_flags(0, role.name), None)
    return world.pods[uid].view if uid is not None else None


def devices_unknown(world: World, group: Group) -> tuple[str, str] | None:
    """Say why the number of devices that a group requests is unknown: reason and sentence."""
    if not counting(world):
        return None
    for name in sorted(group.roles):
        shown = sample_of(world, group, group.roles[name]) if group.roles[name].count else None
        why = uncounted(world, group.namespace, shown) if shown is not None else None
        if why is not None:
            return why
    return None


def claims_differ(world: World, group: Group) -> str:
    """Say where a ResourceClaim differs from its template's present state, if that is charged.

    Checked are the first pod of a waiting group, and the first larger pod of an admitted group.
    """
    if not counting(world):
        return ""
    members = world.members[group.id]
    if group.quota.holding is not None:
        larger = members.listed(Flag.LARGER)
        return differing(world, world.pods[PodUID(larger[0])].view) if larger else ""
    first = members.first()
    view = world.pods[first].view if first is not None else None
    return differing(world, view) if view is not None and ADMISSION_GATE in view.gates else ""


def shaped_like(shown: PodView | DeclaredSet | None, name: str, count: int = 1) -> PodSet:
    """Return pods of the shape of `shown`, without requests."""
    return PodSet(
        name=name,
        count=count,
        node_selector=() if shown is None else tuple(sorted(shown.node_selector.items())),
        node_terms=() if shown is None else shown.node_terms,
        tolerations=() if shown is None else shown.tolerations,
    )


def hosts_of(place: TopologyAssignment | None) -> set[str]:
    """Return the nodes of an assignment's places; none where hostname is no level."""
    if place is None or place.levels[-1] != HOSTNAME:
        return set()
    return {domain.values[-1] for domain in place.domains}


def failed_nodes(world: World, group: Group, unwell: Iterable[str]) -> list[str]:
    """Return the failed nodes among a group's places: nodes on which none of its pods runs.

    A node that is gone has failed; a tainted node has, unless the pods tolerate the taint for ever.
    A node has not failed while a pod is being started for it, so that the pod can be stopped.
    """
    members = world.members[group.id]
    suspects = set(_suspects(world, group, unwell))
    if not suspects:
        return []
    for uid in members.flags:
        pod = world.pods[PodUID(uid)]
        if group.single and pod.view.node:
            return []  # a single pod that was bound is never moved
        if pod.expect is not None and pod.expect.place:
            suspects.discard(pod.expect.place[-1])  # its gate may be off by now
        elif members.flags[uid] & Flag.LIVE and not pod.deleting and pod.view.node in world.nodes:
            suspects.discard(pod.view.node)
    return sorted(suspects)


def _suspects(world: World, group: Group, unwell: Iterable[str]) -> set[str]:
    """Return the nodes on which pods with a place there cannot start, or cannot stay."""
    holding, nodes = group.quota.holding, world.nodes
    tainted = {host for host in unwell if holding and host in nodes and nodes[host].ready}
    found = {host for host in unwell if host not in tainted}
    for given in holding.admission.assignments if holding is not None and tainted else ():
        role, hosts = group.roles.get(role_of(group, given.name)), tainted & hosts_of(given.place)
        if role is None or not hosts:
            continue
        shown = sample_of(world, group, role)
        tolerations = list(shown.tolerations if shown is not None else ())
        for name in dict.fromkeys(given.flavors.values()):
            if name in world.flavors:
                tolerations += world.flavors[name].tolerations
        lasting = tuple(one for one in tolerations if one.seconds is None)
        found.update(host for host in hosts if untolerated(nodes[host].taints, lasting))
    return found


def _pod_set(world: World, group: Group, role: Role, count: int) -> PodSet:
    name = SINGLE_PODSET if group.single else role.name.lower()
    shape = shaped_like(sample_of(world, group, role), name, count)
    given = _merged(world, group, role)
    return msgspec.structs.replace(
        asking(world, shape, role.requests),
        topology=role.topology,
        node_selector=tuple(one for one in shape.node_selector if one[0] not in given),
    )


def asking(world: World, shape: PodSet, requests: Mapping[str, int]) -> PodSet:
    """Return pods of a shape with these requests each, as far as they count against quota."""
    amounts = tuple(sorted((r, n) for r, n in requests.items() if counted(world, r)))
    devices = device_resources(world)
    if not devices:
        return msgspec.structs.replace(shape, requests=amounts)
    return msgspec.structs.replace(
        shape,
        requests=tuple(one for one in amounts if one[0] not in devices),
        devices=tuple(one for one in amounts if one[0] in devices),
    )


def _merged(world: World, group: Group, role: Role) -> set[str]:
    """Return the keys of a role's node selector that its admission added, for place and flavors.

    With them the role's pods would fit their present place alone, and find no other.
    """
    place = place_of(group, role.name)
    if place is None or group.quota.holding is None:
        return set()
    flavors = {f for one in group.quota.holding.admission.assignments for f in one.flavors.values()}
    known = (world.flavors[name].node_labels for name in flavors if name in world.flavors)
    return {*place.levels, *(key for labels in known for key in labels)}


_SEEN_S: Final = 15
"""Seconds until the log has the end of pods that must end: watch, actuator and kubelet."""


def _seconds(at: datetime) -> float:
    return at.timestamp()
