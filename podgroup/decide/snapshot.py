"""The world as deciding on quota sees it: queues, flavors, who waits in line and who holds what.

Theory. Builtin admission (`decide.admission`) decides on each ClusterQueue by itself. The package
`podgroup.admission` decides on trees of them, and takes values of its own. Here is what of the
world goes into these values. Cohorts are left out until the kind Cohort is watched, so that quota
is each ClusterQueue's own; on such quota both decide alike.

What a group holds is what it is charged, so quota that finished pods gave back is free, and pods
that run without an admission are counted but never told to go.

Invariant: nothing is changed; equal worlds make schedulers that decide alike.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from podgroup.admission import BETTER, Scheduler, Ways
from podgroup.admission.model import (
    ClusterQueue,
    Eviction,
    Flavor,
    Fungibility,
    LocalQueue,
    PodSet,
    PodSetAssignment,
    Preemption,
    Reservation,
    Workload,
)
from podgroup.decide.flavors import counted, sample_of
from podgroup.ids import GroupID
from podgroup.names import SINGLE_PODSET
from podgroup.objects import ClusterQueueView, FlavorView, LocalQueueView
from podgroup.quota import Charge
from podgroup.state import Group, Role, World


def scheduler(
    world: World,
    ways: Ways = BETTER,
    queues: Mapping[str, ClusterQueueView] | None = None,
) -> Scheduler:
    """Return a scheduler that knows what the world knows.

    `queues`, if given, are the ClusterQueues to decide with in place of the world's: what if.
    """
    found = Scheduler(ways=ways)
    book = found.book
    for name, view in world.namespaces.items():
        book.set_namespace(name, view.labels)
    for flavor in world.flavors.values():
        book.set_flavor(_flavor(flavor))
    for queue in (world.cluster_queues if queues is None else queues).values():
        book.set_cluster_queue(_cluster_queue(queue))
    for local in world.local_queues.values():
        book.set_local_queue(_local_queue(local))
    for identity, charge in world.quotas.charges.items():
        group = world.groups[GroupID(identity)]
        workload = _workload(world, group, fixed=group.holding is None or bool(group.parked))
        book.hold(workload, _reservation(charge))
        if group.evicted is not None:
            eviction = Eviction(
                group.evicted.at.timestamp(), group.evicted.reason, group.evicted.message
            )
            book.evict(identity, eviction, group.evicted.preempted_by)
    for identity in world.quotas.places:
        if identity not in world.quotas.charges:
            book.submit(_workload(world, world.groups[GroupID(identity)]))
    return found


def _cluster_queue(view: ClusterQueueView) -> ClusterQueue:
    preemption = {"within_cluster_queue": view.within_cluster_queue}
    fungibility = {
        "when_can_borrow": view.when_can_borrow,
        "when_can_preempt": view.when_can_preempt,
    }
    rest: dict[str, Any] = {"strategy": view.strategy, "stop_policy": view.stop_policy}
    queue = ClusterQueue(
        name=view.name,
        namespaces=view.namespaces,
        groups=view.groups,
        preemption=msgspec.convert(preemption, Preemption),
        fungibility=msgspec.convert(fungibility, Fungibility),
    )
    return msgspec.structs.replace(queue, **rest)


def _local_queue(view: LocalQueueView) -> LocalQueue:
    queue = LocalQueue(namespace=view.namespace, name=view.name, cluster_queue=view.cluster_queue)
    policy: dict[str, Any] = {"stop_policy": view.stop_policy}
    return msgspec.structs.replace(queue, **policy)


def _flavor(view: FlavorView) -> Flavor:
    return Flavor(
        name=view.name,
        labels=view.node_labels,
        taints=view.taints,
        tolerations=view.tolerations,
    )


def _workload(world: World, group: Group, fixed: bool = False) -> Workload:
    roles = sorted((role for role in group.roles.values() if role.count), key=lambda r: r.name)
    return Workload(
        id=group.id,
        uid=group.id,
        namespace=group.namespace,
        queue=group.queue,
        created=_seconds(group.queued_at or group.created_at),
        priority=group.priority,
        pod_sets=tuple(_pod_set(world, group, role) for role in roles),
        fixed=fixed,
    )


def _pod_set(world: World, group: Group, role: Role) -> PodSet:
    shown = sample_of(world, group, role)
    requests = {r: n for r, n in role.requests.items() if counted(world, r)}
    return PodSet(
        name=SINGLE_PODSET if group.single else role.name.lower(),
        count=role.count,
        requests=tuple(sorted(requests.items())),
        node_selector=() if shown is None else tuple(sorted(shown.node_selector.items())),
        node_terms=() if shown is None else shown.node_terms,
        tolerations=() if shown is None else shown.tolerations,
    )


def _reservation(charge: Charge) -> Reservation:
    per_flavor: dict[str, dict[str, int]] = {}
    for (flavor, resource), amount in charge.usage.items():
        per_flavor.setdefault(flavor, {})[resource] = amount
    parts = [
        PodSetAssignment(name=flavor, count=1, flavors=dict.fromkeys(usage, flavor), usage=usage)
        for flavor, usage in sorted(per_flavor.items())
    ]
    return Reservation(
        cluster_queue=charge.cluster_queue, at=_seconds(charge.at), pod_sets=tuple(parts)
    )


def _seconds(at: datetime) -> float:
    return at.timestamp()
