"""Facts that follow from the state: what fold and rules both ask of groups, pods and Workloads.

Invariant: asking changes nothing.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final

from podgroup.model.commands import Admission
from podgroup.model.ids import PodUID
from podgroup.model.names import (
    ADMISSION_GATE,
    LEADER_ROLE,
    LEADER_WORKER_SET,
    POD_GROUP_ROLE,
    PODSET_LABEL,
    SINGLE_PODSET,
    STATEFUL_SET,
    WORKER_ROLE,
)
from podgroup.model.objects import (
    QUEUE_KINDS,
    WHOLE,
    Assignment,
    ClusterQueueView,
    Condition,
    DeclaredSet,
    LocalQueueView,
    PodView,
    QueueObject,
    StatefulSetView,
    WorkloadView,
)
from podgroup.model.policy import weights_of
from podgroup.model.standing import weighted_use
from podgroup.model.topology import TopologyAssignment
from podgroup.state.devices import paid_claims
from podgroup.state.group import Group, QuotaReservation, Role
from podgroup.state.members import Flag
from podgroup.state.pod import Pod
from podgroup.state.world import World

KUEUE: Final = "kueue"
"""`decided_by` of an admission that Kueue decided."""
UNPLACED: Final = "?"
"""Begins the roles of pods without a place; such a role never has a count."""
_HASH: Final = re.compile("[0-9a-f]{8}")
"""A role whose name is its hash."""
KEEP: Final = "keep"
"""Purpose of the timer after which a pod without its label is looked at."""


def local_queue_of(world: World, group: Group) -> LocalQueueView | None:
    """Return the LocalQueue that a group names, None if it does not exist."""
    return world.local_queues.get((group.namespace, group.spec.queue))


def asks_for_nodes(world: World) -> bool:
    """Tell whether nodes have to be known: a flavor names a Topology."""
    return any(flavor.topology for flavor in world.flavors.values())


def nodes_listed(world: World) -> bool:
    """Tell whether all nodes are known."""
    return "Node" in world.meta.synced


def cluster_queue_of(world: World, group: Group) -> ClusterQueueView | None:
    """Return the ClusterQueue of a group's LocalQueue, None if it does not exist."""
    local = local_queue_of(world, group)
    return world.cluster_queues.get(local.cluster_queue) if local is not None else None


def cluster_queue_name(world: World, group: Group) -> str:
    """Return the name of the ClusterQueue whose quota a group holds, else of its LocalQueue's.

    A group that is over keeps the ClusterQueue that it ended in: its rows are the same whether its
    LocalQueue is deleted in the same batch of the log or in a later batch. "" without a LocalQueue.
    """
    if group.quota.holding is not None:
        return group.quota.holding.admission.cluster_queue
    if group.ending.finish is not None or group.ending.gone_at is not None:
        return group.ending.cluster_queue
    local = local_queue_of(world, group)
    return local.cluster_queue if local is not None else ""


def shares_by_use(world: World, queue: ClusterQueueView) -> bool:
    """Tell whether a ClusterQueue orders groups by the recent use of their LocalQueues."""
    return world.policy.usage_half_life_s >= 0 and queue.usage_based


def priority_class_of(group: Group) -> str:
    """Return the WorkloadPriorityClass that gave a composed group its priority, "" if none did."""
    ranked_by, workload = group.composition.ranked_by, group.mirror.workload
    if ranked_by is None and workload is None:
        return group.spec.priority_class  # its Workload is about to be created
    kind, _, name = (ranked_by or "").partition("/")
    if ranked_by is None and workload is not None:
        kind, name = workload.priority_class_kind, workload.priority_class
    return name if kind == "WorkloadPriorityClass" else ""


def used_lately(world: World, local: LocalQueueView) -> float:
    """Return the recent use of a LocalQueue as one number, as `admission.cache.ledger` has it."""
    used = world.meta.used.get(f"{local.namespace}/{local.name}")
    consumed = dict(used.consumed or ()) if used is not None else {}
    return weighted_use(
        {resource: Decimal(amount) for resource, amount in consumed.items()},
        dict(weights_of(world.policy)),
        local.weight_nano / WHOLE,
    )


def find_object(world: World, key: tuple[str, str, str]) -> QueueObject | WorkloadView | None:
    """Return the view of a queue object, namespace or unlinked Workload, or None."""
    kind, namespace, name = key
    if kind == "Workload":
        return world.workloads.get((namespace, name))
    if kind not in QUEUE_KINDS:
        raise ValueError(f"journal names an object of unknown kind {kind!r}: {namespace}/{name}")
    return world.objects_of(kind).get(QUEUE_KINDS[kind].key(namespace, name))


def condition(workload: WorkloadView | None, kind: str) -> Condition | None:
    """Return the condition of a type, if the Workload has it."""
    if workload is None:
        return None
    return next((c for c in workload.conditions if c.type == kind), None)


def is_true(workload: WorkloadView | None, kind: str) -> bool:
    """Tell whether a Workload has a condition and its status is True."""
    found = condition(workload, kind)
    return found is not None and found.status == "True"


def _bears_marks(pod: Pod) -> bool:
    """Tell whether a pod was started under an admission that the log does not have."""
    return PODSET_LABEL in pod.view.labels and not pod.first_gated and not pod.opened


def started_before(world: World, group: Group) -> bool:
    """Tell whether all pods of a group that are past their gate bear the marks of a start."""
    live = world.members[group.id].with_flags(Flag.LIVE)
    return all(_bears_marks(world.pods[PodUID(uid)]) for uid in live)


def runs_since_before(world: World, group: Group) -> bool:
    """Tell whether a group has pods past their gate, all with the marks of a start."""
    return bool(world.members[group.id].count(Flag.LIVE)) and started_before(world, group)


def role_of(group: Group, pod_set: str) -> str:
    """Return the role of a podset: the same name, but for the `main` of a single pod."""
    return next(iter(group.roles), pod_set) if group.single else pod_set


def readiness_shown(world: World) -> str:
    """Return when condition PodsReady is written: "on", "off" or "auto" (`Policy`)."""
    how = world.policy.wait_for_pods_ready
    if how == "auto" and world.mode != KUEUE:
        return "on" if world.policy.pods_ready_timeout_s else "off"
    return how


def unwell(world: World, node: str) -> bool:
    """Tell whether a node is gone, not ready or tainted, so that pods may have to leave it."""
    known = world.nodes.get(node)
    if known is None or not known.ready:
        return True
    return any(taint.excludes for taint in known.taints)


def place_of(group: Group, role: str) -> TopologyAssignment | None:
    """Return the places that admission gave the pods of a role; None if it gave no places."""
    holding = group.quota.holding
    for given in holding.admission.assignments if holding is not None else ():
        if given.place is not None and role_of(group, given.name) == role:
            return given.place
    return None


def pods_of(world: World, group: Group, pod_set: str, count: int = 0, sample: str = "") -> str:
    """Name the pods of a podset as their author would: without a hash.

    By their role's name, else by the role's sample, its first pod that was seen:
    `4 pods like train-0`.
    """
    pods = f"{count} pod{'' if count == 1 else 's'}" if count else "pods"
    role = group.roles.get(role_of(group, pod_set))
    if role is None or group.single:
        return pods
    pod = world.pods.get(PodUID(sample) or role.sample)
    name = given_name(role.name, pod.view if pod is not None else None)
    if name:
        return f"{pods} of role {name}"
    return f"{pods} like {pod.view.name}" if pod is not None else pods


def given_name(role: str, view: PodView | None) -> str:
    """Return the name that people gave a role, "" if its name is a hash."""
    label = view.labels.get(POD_GROUP_ROLE, "") if view is not None else ""
    return label or ("" if _HASH.fullmatch(role) else role)


def ran_s(holding: QuotaReservation, now: datetime) -> int:
    """Return how long an admission has lasted, in seconds; 0 for a mere reservation."""
    begin = holding.admitted_at or holding.at
    lasts = holding.admitted or holding.decided_by == KUEUE
    return max(0, int((now - begin).total_seconds())) if lasts else 0


def succeeded(world: World, group: Group, pod_set: str) -> int:
    """Return how many pods of a podset succeeded; pods that have left count."""
    name = role_of(group, pod_set)
    role = group.roles.get(name)
    gone = role.succeeded_gone if role is not None else 0
    return world.members[group.id].count(Flag.SUCCEEDED, name) + gone


def places_left(world: World, group: Group, role: Role) -> int:
    """Return how many places of a role still need quota: places of succeeded pods need none.

    KEP-976 "Dynamically reclaiming Quota". Serving groups and single pods keep all their places.
    """
    if group.single or group.spec.serving:
        return role.count
    done = world.members[group.id].count(Flag.SUCCEEDED, role.name) + role.succeeded_gone
    return max(0, role.count - done)


def beyond_admission(
    world: World, group: Group, admission: Admission
) -> dict[tuple[str, str], int]:
    """Return what live pods take above their place's share; pods without a place have no share."""
    members = world.members[group.id]
    given = {role_of(group, a.name): a for a in admission.assignments}
    if Flag.LARGER not in members.sets and given.keys() >= group.roles.keys():
        return {}
    uids = [uid for uid in members.listed(Flag.LARGER) if members.flags[uid] & Flag.LIVE]
    for name in group.roles:
        if name not in given and members.count(Flag.LIVE, name):
            uids += members.with_flags(Flag.LIVE, name)
    if not uids:
        return {}
    found: dict[tuple[str, str], int] = {}
    queue = world.cluster_queues.get(admission.cluster_queue)
    for uid in dict.fromkeys(uids):
        assignment = given.get(world.pods[uid].role)
        requests = world.pods[uid].view.requests
        for resource, amount in {**requests, "pods": 1}.items():
            share = 0
            if assignment is not None:
                share = 1 if resource == "pods" else assignment.each(resource)
            flavor = _flavor_for(queue, assignment, resource)
            excluded = resource.startswith(world.policy.exclude_resource_prefixes)
            if amount > share and flavor and (resource == "pods" or not excluded):
                key = (flavor, resource)
                found[key] = found.get(key, 0) + amount - share
    return found


def charged_claims(world: World, group: Group, admission: Admission) -> dict[tuple[str, str], int]:
    """Return what a group is charged for ResourceClaims that its pods share, by flavor.

    The devices of its admission, even if a claim was deleted since; more devices where the group
    pays for more now; none where other groups pay for all claims that it names.
    """
    given = [one for one in admission.assignments if one.shared]
    named = list(world.sharing.claims_of(group.id))
    if not named and not given:
        return {}
    if named and all(world.sharing.payer(key) != group.id for key in named):
        return {}
    bearer = given[0] if given else next(iter(admission.assignments), None)
    queue = world.cluster_queues.get(admission.cluster_queue)
    found: dict[tuple[str, str], int] = {}
    for amounts in (paid_claims(world, group.id), *(one.shared for one in given)):
        for resource, amount in amounts.items():
            flavor = _flavor_for(queue, bearer, resource)
            if flavor and not resource.startswith(world.policy.exclude_resource_prefixes):
                key = (flavor, resource)
                found[key] = max(amount, found.get(key, 0))
    return found


def larger_claims(world: World, group: Group, admission: Admission) -> dict[tuple[str, str], int]:
    """Return what shared claims hold above the admission, by flavor."""
    given: dict[tuple[str, str], int] = {}
    for one in admission.assignments:
        for resource, amount in one.shared.items():
            given[one.flavors.get(resource, ""), resource] = amount
    if not given:
        return {}
    now = charged_claims(world, group, admission)
    return {key: now[key] - given[key] for key in given if now.get(key, 0) > given[key]}


def _flavor_for(
    queue: ClusterQueueView | None, assignment: Assignment | None, resource: str
) -> str:
    """Return the flavor in which a resource is charged, "" if the queue does not cover it.

    The flavor assigned to the resource, else to another of its resource group, else the first.
    """
    chosen = assignment.flavors if assignment is not None else {}
    if resource in chosen:
        return chosen[resource]
    for resources in queue.groups if queue is not None else ():
        if resource in resources.covered:
            known = (chosen[other] for other in resources.covered if other in chosen)
            first = resources.flavors[0].name if resources.flavors else ""
            return next(known, first)
    return ""


def unknown_flavor(world: World, assignment: Assignment) -> str:
    """Return a flavor of an assignment that does not exist (yet), so its labels are unknown."""
    return next((f for f in assignment.flavors.values() if f not in world.flavors), "")


def set_named(group: Group, name: str) -> DeclaredSet | None:
    """Return a declared set by its name."""
    return next((one for one in group.spec.sets if one.name == name), None)


def set_of(world: World, group: Group) -> StatefulSetView | None:
    """Return the StatefulSet of a group's pods, or of the leaders of its LeaderWorkerSet."""
    name = group.spec.owner_name
    return world.stateful_sets.get((group.namespace, name)) if name else None


def wanted_counts(world: World, group: Group) -> dict[str, int] | None:
    """Return how many pods of each role the owner of a group's pods wants; None: not known yet.

    A StatefulSet states its replicas. The pods of a LeaderWorkerSet state their replica's size.
    """
    kind = group.spec.owner_kind
    if kind == LEADER_WORKER_SET:
        workers = group.spec.declared_count - 1
        return {LEADER_ROLE: 1, WORKER_ROLE: workers} if workers else {LEADER_ROLE: 1}
    found = set_of(world, group) if kind == STATEFUL_SET else None
    return {SINGLE_PODSET: found.replicas} if found is not None else None


def follows_owner(world: World, group: Group) -> bool:
    """Tell whether a group follows the size that the owner of its pods wants (builtin mode)."""
    policy = world.policy
    decides = world.mode != KUEUE and policy.compatibility != "kueue"
    return decides and group.spec.owner_kind in policy.owned_groups


def outlasts(world: World, group: Group) -> bool:
    """Tell whether a group without pods will get pods again, since their owner wants some.

    A replica of a LeaderWorkerSet is wanted while its number is below the replicas of the leaders'
    StatefulSet.
    """
    if not follows_owner(world, group) or group.ending.finish is not None:
        return False
    found = set_of(world, group)
    if found is None:
        return False
    if group.spec.owner_kind == STATEFUL_SET:
        return found.replicas > 0
    number = group.name.rpartition("-")[2]
    return number.isdecimal() and int(number) < found.replicas


def grows(group: Group) -> bool:
    """Tell whether an admitted group waits for quota for more pods."""
    holding = group.quota.holding
    return (
        bool(group.composition.wanted)
        and holding is not None
        and holding.admitted
        and group.requeueing.evicted is None
        and group.ending.finish is None
        and not group.mirror.lost
    )


def beyond(group: Group, name: str, view: PodView) -> dict[str, int]:
    """Return the requests of a gated pod that are above its role's, by resource."""
    if ADMISSION_GATE not in view.gates:
        return {}
    role, declared = group.roles.get(name), set_named(group, name)
    if declared is not None and declared.template:
        known: Mapping[str, int] = declared.requests
    elif role is not None and role.count:
        known = role.requests
    else:
        return {}
    return {r: amount for r, amount in view.requests.items() if amount > known.get(r, 0)}
