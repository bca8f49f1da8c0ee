"""Which single pods have no Workload (`Policy.workloads` "groups", builtin mode).

Theory. In builtin mode a Workload is a mirror, and half of the API server's work for a single pod.
A pod needs a Workload only where another client writes to it: an admission check, or a person who
is to set spec.active of a deactivated Workload. Such a pod gets its Workload, and a pod that has
a Workload keeps it as long as the pod lives.

Invariant: nothing is changed here, and while the pod does not change the answer stays.
"""

from podgroup.model.keys import NEED_A_WORKLOAD
from podgroup.model.policy import Policy
from podgroup.state.facts import cluster_queue_of
from podgroup.state.group import Group
from podgroup.state.world import World


def without_workload(world: World, group: Group) -> bool:
    """Tell whether a group has no Workload and needs none."""
    mirror, policy = group.mirror, world.policy
    if policy.workloads != "groups" or world.mode != "builtin" or not group.single:
        return False
    if mirror.workload is not None or mirror.expect is not None or mirror.refused:
        return False  # a Workload exists, or its creation is in flight or refused
    if group.spec.prebuilt or policy.elastic_jobs or _may_be_deactivated(policy):
        return False
    first = world.members[group.id].first()
    view = world.pods[first].view if first else None
    if view is not None and (
        view.scheduling_group  # such a pod is never composed
        or any(key.borne(view.labels, view.annotations) for key in NEED_A_WORKLOAD)
    ):
        return False
    if group.quota.holding is not None and group.quota.holding.admitted:
        return True  # checks that the queue names later do not hold for this pod
    queue = cluster_queue_of(world, group)
    return queue is None or not queue.checks


def _may_be_deactivated(policy: Policy) -> bool:
    return bool(policy.pods_ready_timeout_s) and policy.requeuing_limit >= 0
