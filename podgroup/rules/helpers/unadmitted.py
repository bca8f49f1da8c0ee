"""Charges of pods that run in groups without quota, until they have ended or are gone.

- A gate cannot be added to a pod that exists (KEP-3521), so a pod created while admission was down
  or bypassed runs whatever we decide. It is left alone, and its group is Blocked with reason
  RunningUnadmitted (B17).
- A pod that another client ungated is stopped, and runs until it has ended.
- A pod may outlive its group: it is beyond the count, or its group is over.

Each pod is charged to the ClusterQueue whose quota its group held last, whatever became of the
LocalQueue (a deleted namespace loses it before the pods have ended). In a group that never held
quota it is charged to its LocalQueue's ClusterQueue, if that selects the namespace. The flavor is
the first that suits the pod, so that other groups do not start on quota that is taken. Two kinds
of pods are charged nothing: a pod of an evicted group that is being deleted, where an operator does
not want to wait for it (`Policy.fast_quota_release`), and a pod whose kubelet no longer answers
(`state.termination`).

Invariant: no group is ever admitted on top of such pods in their own ClusterQueue. Pods that were
never admitted (`Charge.started` is false) take nothing from other ClusterQueues.
"""

from datetime import datetime

from podgroup.admission.matching import selects
from podgroup.model.ids import PodUID
from podgroup.model.objects import ClusterQueueView
from podgroup.state import asked
from podgroup.state.asked import counted
from podgroup.state.facts import cluster_queue_of
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.quota import Charge, FlavorResource
from podgroup.state.termination import lost_at
from podgroup.state.world import World


def charged_to(world: World, group: Group) -> ClusterQueueView | None:
    """Return the ClusterQueue that a group's pods are charged to without an admission."""
    held_in = world.cluster_queues.get(group.quota.held_in)
    if held_in is not None:
        return held_in
    queue, namespace = cluster_queue_of(world, group), world.namespaces.get(group.namespace)
    selected = queue is not None and selects(
        queue.namespaces, namespace.labels if namespace is not None else {}
    )
    return queue if selected else None


def charge_for(
    world: World, group: Group, queue: ClusterQueueView, usage: dict[FlavorResource, int]
) -> Charge | None:
    """Return the charge of a group without quota, None for no usage."""
    if not usage:
        return None
    running = world.members[group.id].with_flags(Flag.LIVE)
    return Charge(
        queue.name,
        usage,
        group.composition.priority,
        group.created_at,
        local_queue=(group.namespace, group.spec.queue),
        started=bool(group.quota.held_in)
        and all(world.pods[PodUID(uid)].ungate_decided for uid in running),
    )


def ran_unadmitted(world: World, group: Group) -> Charge | None:
    """Return the charge without admission as of the last message, which is not stored."""
    queue = charged_to(world, group)
    if (
        group.quota.holding is None
        and queue is not None
        and world.members[group.id].count(Flag.LIVE)
    ):
        usage, _ = usage_of_live(world, group, queue, world.meta.at or group.created_at)
        return charge_for(world, group, queue, usage)
    return None


def usage_of_live(
    world: World, group: Group, queue: ClusterQueueView, now: datetime
) -> tuple[dict[FlavorResource, int], list[datetime]]:
    """Return the usage of live pods, and the times when those being deleted count as lost."""
    usage: dict[FlavorResource, int] = {}
    leaving = group.requeueing.evicted is not None and world.policy.fast_quota_release
    lapses: list[datetime] = []
    for uid in world.members[group.id].with_flags(Flag.LIVE):
        pod = world.pods[PodUID(uid)]
        if pod.deleting and leaving:
            continue
        at = lost_at(world, pod, now)
        if at is not None:
            if at <= now:
                continue
            lapses.append(at)
        for resources in queue.groups:
            shape = asked.shaped_like(pod.view, pod.view.name)
            flavor = asked.usable_flavor(world, resources, shape)
            for resource in resources.covered:
                amount = 1 if resource == "pods" else pod.view.requests.get(resource, 0)
                if amount and flavor and (resource == "pods" or counted(world, resource)):
                    key = (flavor, resource)
                    usage[key] = usage.get(key, 0) + amount
    return usage, lapses
