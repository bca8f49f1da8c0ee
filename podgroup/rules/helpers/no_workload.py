"""Which single pods do without a Workload (`Policy.workloads` "groups", builtin mode).

Theory. In builtin mode a Workload mirrors what is decided elsewhere, and of a single pod it is half
of what the API server has to do. What is decided needs one only where another writer speaks through
it: an admission check, or a person who is to set spec.active of what was deactivated. Such a pod
has its Workload all the same, and so has one that has it already, as long as it lives.

Invariant: nothing is changed here, and where nothing else changes the answer stays.
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
        return False  # it has one, or one is asked for
    if group.spec.prebuilt or policy.elastic_jobs or _may_be_deactivated(policy):
        return False
    first = world.members[group.id].first()
    view = world.pods[first].view if first else None
    if view is not None and (
        view.scheduling_group  # it is not composed at all
        or any(key.borne(view.labels, view.annotations) for key in NEED_A_WORKLOAD)
    ):
        return False
    if group.quota.holding is not None and group.quota.holding.admitted:
        return True  # a check that is asked for later is none of its
    queue = cluster_queue_of(world, group)
    return queue is None or not queue.checks


def _may_be_deactivated(policy: Policy) -> bool:
    return bool(policy.pods_ready_timeout_s) and policy.requeuing_limit >= 0
