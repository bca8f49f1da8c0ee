"""Admission checks in builtin mode: which hold for a group, their states, which are to be listed.

Theory. A ClusterQueue may name AdmissionChecks: other controllers that have to agree once quota is
reserved (a machine is being created, a budget is asked). Each writes its state into the Workload's
status, which here is no mirror. A state is about one reservation: the states are reset when the
group is evicted or gives its reservation up, and none is believed before the reset was seen.

Invariant: nothing is changed here.
"""

from collections.abc import Iterable

from podgroup.model.objects import Assignment, CheckView, WorkloadView
from podgroup.state.group import Group
from podgroup.state.world import World

PENDING, READY = "Pending", "Ready"


def required_checks(
    world: World, cluster_queue: str, assignments: Iterable[Assignment]
) -> tuple[str, ...] | None:
    """Return the checks that hold for flavors of a ClusterQueue, None if the queue is missing."""
    queue = world.cluster_queues.get(cluster_queue)
    if queue is None:
        return None
    if not queue.checks:
        return ()
    given = {flavor for one in assignments for flavor in one.flavors.values()}
    return tuple(
        name
        for name in queue.checks
        if name not in queue.check_flavors or given.intersection(queue.check_flavors[name])
    )


def holds(group: Group) -> bool:
    """Tell whether a group holds quota and may use it."""
    return group.quota.holding is not None and group.quota.holding.admitted


def awaits_checks(group: Group, *, stale: bool = True) -> bool:
    """Tell whether a group has a reservation; with `stale` False its check states must be of it."""
    waits = (
        group.quota.holding is not None
        and not group.quota.holding.admitted
        and group.requeueing.evicted is None
    )
    return waits and (stale or not group.mirror.checks_stale)


def wanted_checks(world: World, group: Group, workload: WorkloadView) -> tuple[str, ...] | None:
    """Return the checks that the Workload's status should list anew, None if its list is right."""
    holding = group.quota.holding
    if not workload.checks and (holding is None or holding.admitted):
        return None
    listed = tuple(check.name for check in workload.checks)
    settled = all(check.state == PENDING for check in workload.checks)
    if holding is not None and awaits_checks(group):
        admission = holding.admission
        names = required_checks(world, admission.cluster_queue, admission.assignments)
        wrong = names is not None and set(names) != set(listed)
        return (names or ()) if wrong or (group.mirror.checks_stale and not settled) else None
    over = holding is None or group.requeueing.evicted is not None
    return listed if over and not settled else None


def unchecked(world: World, group: Group) -> str:
    """Name the checks that a reservation waits for."""
    holding = group.quota.holding
    assert holding is not None
    names = required_checks(world, holding.admission.cluster_queue, holding.admission.assignments)
    if names is None:
        return f"ClusterQueue {holding.admission.cluster_queue} is gone, and its checks with it"
    states = states_of(group)
    open_ = [name for name in names if name not in states or states[name].state != READY]
    return f"waits for admission checks: {', '.join(open_)}"


def states_of(group: Group) -> dict[str, CheckView]:
    """Return the states of a group's present reservation, by check."""
    checks = group.mirror.workload.checks if group.mirror.workload is not None else ()
    return {} if group.mirror.checks_stale else {check.name: check for check in checks}
