"""Pods that run without ever having been gated: accounted, reported, left alone (B17).

A gate cannot be added to a pod that exists (KEP-3521), so a pod created while admission was down
or bypassed runs whatever we decide. It is neither stopped nor hidden: its group is Blocked with
reason RunningUnadmitted, and what it takes is charged to the ClusterQueue its queue leads to, in
the first flavor its shape may use, so that others do not start on quota that is not there.

Invariant: this alone may take usage above a nominal quota; nothing is ever admitted on top of it.
"""

from podgroup.decide.context import Deciding
from podgroup.decide.flavors import usable_flavor
from podgroup.members import Flag
from podgroup.quota import Charge, FlavorResource
from podgroup.state import Group


def charge_unadmitted(d: Deciding, group: Group) -> None:
    """Charge what runs ungated in a group that holds no quota, or stop charging it."""
    if group.holding is not None or group.composed:
        return
    quotas = d.world.quotas
    running = d.members(group).count(Flag.STOPPABLE)
    local = d.world.local_queues.get((group.namespace, group.queue))
    queue = d.world.cluster_queues.get(local.cluster_queue) if local is not None else None
    if not running or queue is None:
        if group.id in quotas.charges:
            quotas.discharge(group.id)
        return
    usage: dict[FlavorResource, int] = {}
    for uid in d.members(group).with_flags(Flag.STOPPABLE):
        view = d.pod(uid).view
        for resources in queue.groups:
            flavor = usable_flavor(d.world, resources, view)
            for resource in resources.covered:
                amount = 1 if resource == "pods" else view.requests.get(resource, 0)
                if amount and flavor:
                    key = (flavor, resource)
                    usage[key] = usage.get(key, 0) + amount
    charge = Charge(queue.name, usage, group.priority, group.created_at)
    if quotas.charges.get(group.id) != charge:
        quotas.charge(group.id, charge)
