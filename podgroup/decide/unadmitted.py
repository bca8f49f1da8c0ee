"""Pods that run without ever having been gated: accounted, reported, left alone (B17).

A gate cannot be added to a pod that exists (KEP-3521), so a pod created while admission was down
or bypassed runs whatever we decide. It is neither stopped nor hidden: its group is Blocked with
reason RunningUnadmitted, and what it takes is charged to the ClusterQueue its queue leads to, in
the first flavor its shape may use, so that others do not start on quota that is not there.

Invariant: this alone may take usage above a nominal quota; nothing is ever admitted on top of it.
"""

from podgroup.decide.context import Deciding
from podgroup.decide.flavors import counted, usable_flavor
from podgroup.members import Flag
from podgroup.objects import ClusterQueueView, FlavorView
from podgroup.quota import Charge, FlavorResource
from podgroup.state import Group


def charge_unadmitted(d: Deciding, group: Group) -> None:
    """Charge what runs ungated in a group that holds no quota, or stop charging it."""
    if group.holding is not None:
        return
    quotas, members = d.world.quotas, d.members(group)
    local = d.world.local_queues.get((group.namespace, group.queue))
    queue = d.world.cluster_queues.get(local.cluster_queue) if local is not None else None
    if not members.count(Flag.STOPPABLE) or queue is None:
        quotas.discharge(group.id)
        return
    # One pass whenever a pod starts or ends to run, not for every other event of the group.
    source = (members.moves, group.composed, group.priority, queue, _flavors(d, queue))
    if source == members.charged_for and group.id in quotas.charges:
        return
    members.charged_for = source
    usage = _usage(d, group, queue)
    charge = Charge(queue.name, usage, group.priority, group.created_at)
    if not usage:
        quotas.discharge(group.id)
    elif quotas.charges.get(group.id) != charge:
        quotas.charge(group.id, charge)


def _flavors(d: Deciding, queue: ClusterQueueView) -> tuple[FlavorView | None, ...]:
    return tuple(d.world.flavors.get(f.name) for r in queue.groups for f in r.flavors)


def _usage(d: Deciding, group: Group, queue: ClusterQueueView) -> dict[FlavorResource, int]:
    usage: dict[FlavorResource, int] = {}
    for uid in d.members(group).with_flags(Flag.STOPPABLE):
        pod = d.pod(uid)
        if group.composed and pod.opened:
            continue  # its gate was seen: it is being stopped
        for resources in queue.groups:
            flavor = usable_flavor(d.world, resources, pod.view)
            for resource in resources.covered:
                amount = 1 if resource == "pods" else pod.view.requests.get(resource, 0)
                if amount and flavor and (resource == "pods" or counted(d.world, resource)):
                    key = (flavor, resource)
                    usage[key] = usage.get(key, 0) + amount
    return usage
