"""Whether a group may wait for quota, and if not why.

Invariant: nothing is changed here.
"""

from podgroup.model.names import (
    PENDING_DEACTIVATED,
    PENDING_GATED,
    PENDING_MISCONFIGURED,
    PENDING_ON_HOLD,
    WAITING_FOR_REPLACEMENT_PODS,
)
from podgroup.model.reasons import RUNNING_UNADMITTED
from podgroup.rules.helpers.gating import held_back
from podgroup.rules.helpers.wording import because_of
from podgroup.state.asked import devices_unknown
from podgroup.state.facts import local_queue_of, pods_of
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.world import World

Reason = tuple[str, str]


def may_wait(world: World, group: Group) -> bool:
    """Tell whether a group is composed, without quota, and has pods that may wait for it."""
    if (
        group.quota.holding is not None
        or not group.composition.done
        or group.ending.finish is not None
    ):
        return False
    return not group.mirror.lost and len(world.members[group.id]) > 0


def active_again(group: Group) -> bool:
    """Tell whether only a deactivation kept a group from queueing, and that is over."""
    if group.mirror.workload is not None and not group.mirror.workload.active:
        return False
    # B15: any reason beginning with Deactivated is over once spec.active is true again.
    evicted = group.requeueing.evicted
    return (
        group.composition.short is None
        and evicted is not None
        and evicted.effect.deactivates
        and not group.mirror.deactivating
    )


def ineligible(world: World, group: Group) -> Reason | None:
    """Say why a group may not be in the queue.

    Order: activity, pods, queue, devices, gates of others.
    """
    evicted = group.requeueing.evicted
    if group.mirror.workload is not None and not group.mirror.workload.active:
        return PENDING_DEACTIVATED, because_of(
            "The workload is deactivated", group.mirror.workload.because
        )
    if group.composition.short is not None and group.quota.holding is None:
        return WAITING_FOR_REPLACEMENT_PODS, group.composition.short[1]
    if evicted is not None and not group.requeueing.requeued:
        return evicted.reason, evicted.message
    if not group.spec.queue:
        return PENDING_MISCONFIGURED, "the pods name no queue"
    live = world.members[group.id].count
    for role in group.roles.values() if group.quota.holding is None else ():
        if live(Flag.LIVE, role.name) > role.count:
            # Once the group is admitted these pods would be charged on top of its request.
            return (
                RUNNING_UNADMITTED,
                f"more run already than the {pods_of(world, group, role.name, role.count)} that "
                "the group asks for: it waits for them to end",
            )
    local = local_queue_of(world, group)
    if local is None:
        return (
            "LocalQueueNotFound",
            f"LocalQueue {group.spec.queue} doesn't exist in namespace {group.namespace}",
        )
    if local.stop_policy != "None":
        return PENDING_ON_HOLD, because_of(
            f"LocalQueue {group.spec.queue} is stopped", local.because
        )
    queue = world.cluster_queues.get(local.cluster_queue)
    if queue is None:
        return "ClusterQueueNotFound", f"ClusterQueue {local.cluster_queue} doesn't exist"
    if (why := devices_unknown(world, group)) is not None:
        return why
    by_others = held_back(world, group)
    return (PENDING_GATED, by_others) if by_others else None
