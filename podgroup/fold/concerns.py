"""Which rules can a change of one pod concern? Most changes concern none.

Theory. After every message the rules have come to rest: looked at again, they decide nothing. So a
group needs another look only if something changed that a rule reads. What rules read of a pod is
its flags (`members.Flag`) and, of pods that wait, end or go, a few fields. In the two states in
which a group spends nearly all its events, running under an admission and being over, and while it
gathers its pods, the few conditions under which a change of flags makes a difference can be written
down; that is done here. Whatever is not known to be quiet gets the full look.

A look is a number: 0 for none, else the sum of the rules below; None stands for all of them.

Invariant: looking at everything instead (`World.thorough`) decides, notes and stores the same.
"""

from podgroup.members import Flag
from podgroup.names import MAX_OWNERS
from podgroup.objects import PodView, WorkloadView
from podgroup.state import SINGLE, Group, World

Look = int | None

CHARGE = 1
"""What the group holds, and whether the Workload says how much of it is given back."""
WORKLOAD = 2
"""What the Workload should say, and whether it may be written now."""

_LOUD = (
    Flag.GATED
    | Flag.INACTIVE
    | Flag.DELETING
    | Flag.FAILED
    | Flag.UNRETRIABLE
    | Flag.EXCESS
    | Flag.OPENING
    | Flag.HIDDEN
)
"""Pods with one of these are what the rules of an admitted group are about."""
_RUNS = (
    Flag.BUSY
    | Flag.RUNNING
    | Flag.READY
    | Flag.SUCCEEDED
    | Flag.TERMINATED
    | Flag.STOPPABLE
    | Flag.GATED
    | Flag.OPENING
    | Flag.OPEN
    | Flag.LIVE
)
_RESTS = ~_RUNS
_TELLS = Flag.RUNNING | Flag.READY | Flag.SUCCEEDED
_WAITS = Flag.ACTIVE | Flag.GATED | Flag.SOLID | Flag.HELD | Flag.UNOWNED
_STARTS = Flag.GATED | Flag.OPENING
_ENDS = Flag.HELD | Flag.BUSY
_LEAVES_ALONE = Flag.HELD | Flag.STOPPABLE | Flag.GATED | Flag.LIVE


def calm(world: World, group: Group) -> bool:
    """Tell whether a group runs under an admission and awaits nothing but its pods."""
    holding, workload = group.holding, group.workload
    return (
        holding is not None
        and holding.admitted
        and workload is not None
        and workload.deleted_at is None
        and not workload.max_execution_s
        and workload.active
        and group.evicted is None
        and group.finish is None
        and group.composed
        and not group.dialect
        and not group.prebuilt
        and not group.serving
        and group.kind != SINGLE
        and not group.workload_lost
        and not world.policy.pods_ready_timeout_s
        and _undisturbed(group)
    )


def _undisturbed(group: Group) -> bool:
    return not (
        group.parked
        or group.start_failed
        or group.report_due
        or group.reported
        or group.recounted is not None
        or group.wait is not None
    )


def of_flags(world: World, group: Group, old: int, new: int) -> Look:
    """Return the look that is due after the flags of a pod went from `old` to `new`."""
    if group.finish is not None:
        return _of_over(world, group, old, new)
    changed = old ^ new
    if changed & _RESTS or new & _LOUD:
        return None
    if old & _LOUD and (old & _LOUD != _STARTS or not new & Flag.OPEN):
        return None
    if not calm(world, group):
        return None
    if not changed & _TELLS:
        return 0
    members = world.members[group.id]
    count = members.count
    if count(Flag.UNRETRIABLE):
        return None
    gone = 0
    for role in group.roles.values():
        gone += role.succeeded_gone
    if changed & Flag.RUNNING and count(Flag.RUNNING) <= bool(new & Flag.RUNNING):
        return None  # the first that runs, or the last that did
    if changed & Flag.READY:
        # The number of ready pods that makes the group ready, or the one below it.
        if count(Flag.READY) + gone == group.composed_total - (not new & Flag.READY):
            return None
    if changed & Flag.SUCCEEDED:
        if old & Flag.SUCCEEDED or count(Flag.SUCCEEDED) + gone >= group.composed_total:
            return None
        return CHARGE
    return 0


def _of_over(world: World, group: Group, old: int, new: int) -> Look:
    """A group that is over waits for our finalizers to come off, and for nothing else."""
    if not _undisturbed(group) or group.holding is not None:
        return None
    if (old ^ new) & ~_ENDS or new & (_LOUD | Flag.STOPPABLE):
        return None
    members = world.members[group.id]
    if members.count(Flag.GATED):
        return None  # who came after the end waits for the others to be gone
    if new & Flag.HELD:
        return 0 if new & Flag.BUSY and old & Flag.BUSY else None
    return 0 if members.count(Flag.HELD) else None


def of_leaving(world: World, group: Group, flags: int) -> Look:
    """Return the look that is due after a pod with `flags` has left for good."""
    if group.finish is None or not _undisturbed(group) or group.holding is not None:
        return None
    members = world.members[group.id]
    if flags & _LEAVES_ALONE or members.count(Flag.GATED) or not len(members):
        return None
    return 0


def of_joining(world: World, group: Group, role: str, flags: int, first: str | None) -> Look:
    """Return the look that is due after a pod joined; `first` was the group's first pod before.

    One more of many that wait for the rest changes nothing: same queue, same declaration, a role
    that is there already, and still too few.
    """
    if group.composed or group.finish is not None or group.dialect or group.single:
        return None
    wait = group.wait
    if wait is None or wait.reason != "WaitingForPods" or group.queue_reason[0] != wait.reason:
        return None
    if group.parked or group.report_due or group.recounted is not None or group.prebuilt:
        return None
    if group.workload is not None or group.workload_lost or group.evicted is not None:
        return None
    members = world.members[group.id]
    if flags & ~_WAITS or members.first() != first:
        return None
    if len(members.queues) != 1 or len(members.totals) != 1 or members.count(Flag.ACTIVE, role) < 2:
        return None
    gone = 0
    for known in group.roles.values():
        gone += known.succeeded_gone
    return 0 if members.count(Flag.ACTIVE) + gone < (1 if group.fast else group.total) else None


def same_to_rules(world: World, group: Group, before: PodView, view: PodView, flags: int) -> bool:
    """Tell whether no rule can see the difference between two views of a pod with equal `flags`.

    True of most status updates: conditions of a waiting pod, the node of one that was bound.
    """
    if flags & (Flag.TERMINATED | Flag.DELETING) or group.evicted is not None:
        return False
    workload = group.workload
    if world.policy.pods_ready_timeout_s or (workload is not None and workload.max_execution_s):
        return False  # times are compared at every look
    return (
        not group.parked
        and group.recounted is None
        and not group.report_due
        and view.name == before.name
        and view.created_at == before.created_at
        and view.labels == before.labels
        and view.annotations == before.annotations
        and view.gates == before.gates
        and view.role == before.role
        and view.role_annotated == before.role_annotated
        and view.requests == before.requests
        and view.priority_class == before.priority_class
        and view.node_selector == before.node_selector
        and view.tolerations == before.tolerations
        and view.node_terms == before.node_terms
        and view.sets_key == before.sets_key
        and view.sets_problem == before.sets_problem
    )


def alike(before: WorkloadView, view: WorkloadView) -> bool:
    """Tell whether two versions of a Workload differ in nothing but what its status mirrors."""
    return (
        before.uid == view.uid
        and before.active == view.active
        and before.deleted_at == view.deleted_at
        and before.max_execution_s == view.max_execution_s
        and before.checks == view.checks
    )


def of_workload(world: World, group: Group) -> Look:
    """Return the look that is due when the Workload may be written again, or says what we wrote."""
    members = world.members[group.id]
    if not members.flags or not calm(world, group):
        return None
    if members.sets[Flag.UNOWNED] and len(members.owned) < MAX_OWNERS:
        return None
    return WORKLOAD if group.workload_expect is None else 0
