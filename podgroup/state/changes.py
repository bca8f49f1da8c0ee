"""Changes: what has happened to a group since rules ran for it last, as bits of a number.

Theory. After every message the rules have come to rest: run again, they conclude nothing. So a rule
has to run for a group only if a fact changed that the rule reads, and each rule names these facts
(`rules`). Most changes are of one pod, in three kinds of groups: groups that run under an
admission, groups that are over and wait for our finalizers to come off, and groups that still
gather their pods. For these the bits are precise. For any other group, and for any change but of a
pod or of the Workload's mirror, everything counts as changed.

Nothing here knows any rule. Invariant: a rule that reads nothing of what changed concludes nothing
(tests/core/test_due.py runs all rules instead, `World.evaluate_all`).
"""

from operator import attrgetter
from typing import Final

from podgroup.model.keys import UNGATING
from podgroup.model.meaning import declared
from podgroup.model.objects import PodView, WorkloadView
from podgroup.state.facts import readiness_shown
from podgroup.state.group import Group
from podgroup.state.members import Flag
from podgroup.state.world import World

FIRST_RUNS: Final = 1
ALL_READY: Final = 2
SUCCEEDED: Final = 4
ALL_SUCCEEDED: Final = 8
ALL_RELEASED: Final = 16
WORKLOAD: Final = 32
WINDS_UP: Final = 64
"""A group is over, and its Workload changed or may be written, or its last pod left."""
EVERYTHING: Final = -1

_STANDS_OUT: Final = (
    Flag.GATED
    | Flag.INACTIVE
    | Flag.DELETING
    | Flag.FAILED
    | Flag.UNRETRIABLE
    | Flag.EXCESS
    | Flag.OPENING
    | Flag.HIDDEN
)
"""Flags of pods that need more than to run under their admission."""
_RUNS: Final = (
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
_COUNTS: Final = Flag.RUNNING | Flag.READY | Flag.SUCCEEDED
_WAITS: Final = Flag.ACTIVE | Flag.GATED | Flag.SOLID | Flag.HELD | Flag.UNOWNED
_STARTS: Final = Flag.GATED | Flag.OPENING
_ENDS: Final = Flag.HELD | Flag.BUSY
_LEAVES_ALONE: Final = Flag.HELD | Flag.STOPPABLE | Flag.GATED | Flag.LIVE


def runs(world: World, group: Group) -> bool:
    """Tell whether a group runs under an admission, and only its pods can change what is to do.

    Its Workload may still be in flight: pods are ungated before it exists, and in a trickle of
    groups of four this saves a third of the runs of all rules.
    """
    holding, mirror, spec = group.quota.holding, group.mirror, group.spec
    workload = mirror.workload
    if workload is None:
        if mirror.expect is None:
            return False
    elif workload.deleted_at is not None or not workload.active:
        return False
    return (
        holding is not None
        and holding.admitted
        and group.requeueing.evicted is None
        and group.ending.finish is None
        and group.composition.done
        and not spec.dialect
        and not spec.prebuilt
        and not spec.serving
        and not mirror.lost
        and not world.policy.pods_ready_timeout_s
        and Flag.LARGER not in world.members[group.id].sets  # a report says what they take more
        and _undisturbed(group)
    )


def _undisturbed(group: Group) -> bool:
    reporting = group.reporting
    return not (
        group.parked
        or group.ending.start_failed
        or reporting.due
        or reporting.pods
        or reporting.recounted is not None
        or group.explained.wait is not None
    )


def of_pod(world: World, group: Group, old: int, new: int) -> int:
    """Return what changed as the flags of a pod went from `old` to `new`."""
    if not world.track_changes:
        return EVERYTHING
    if group.ending.finish is not None:
        return _of_released(world, group, old, new)
    changed = old ^ new
    if changed & ~_RUNS or new & _STANDS_OUT:
        return EVERYTHING
    if old & _STANDS_OUT and (old & _STANDS_OUT != _STARTS or not new & Flag.OPEN):
        return EVERYTHING
    if not runs(world, group):
        return EVERYTHING
    if old & _STANDS_OUT and _overfull(world, group):
        return EVERYTHING  # the pod may have to go, now that no decision is in flight
    if not changed & _COUNTS:
        return 0
    running, ready, succeeded, unretriable = world.members[group.id].standing()
    if unretriable:
        return EVERYTHING
    gone = 0
    for role in group.roles.values():
        gone += role.succeeded_gone
    found, total = 0, group.composition.total
    if changed & Flag.RUNNING and running <= bool(new & Flag.RUNNING):
        found = FIRST_RUNS  # or no pod runs any more
    if changed & Flag.READY and ready + gone == total - (not new & Flag.READY):
        if readiness_shown(world) != "off":
            found |= ALL_READY  # the last pod became ready, or the first is no longer
    if changed & Flag.SUCCEEDED:
        over = old & Flag.SUCCEEDED or succeeded + gone >= total
        found |= SUCCEEDED | ALL_SUCCEEDED if over else SUCCEEDED
    return found


def _overfull(world: World, group: Group) -> bool:
    """Tell whether a role has more pods than places."""
    count = world.members[group.id].count
    return any(
        count(Flag.SOLID, role.name) > role.count - role.succeeded_gone
        for role in group.roles.values()
    )


def _of_released(world: World, group: Group, old: int, new: int) -> int:
    """Return what changed as a pod of a group that is over got other flags."""
    if not _undisturbed(group) or group.quota.holding is not None:
        return EVERYTHING
    if (old ^ new) & ~_ENDS or new & (_STANDS_OUT | Flag.STOPPABLE):
        return EVERYTHING
    count = world.members[group.id].count
    if count(Flag.GATED):
        return EVERYTHING  # pods that came after the end wait until the others are gone
    if new & Flag.HELD:
        return 0 if new & old & Flag.BUSY else EVERYTHING
    return 0 if count(Flag.HELD) else ALL_RELEASED


def of_leaving(world: World, group: Group, flags: int) -> int:
    """Return what changed as a pod with `flags` left for good."""
    if not world.track_changes or group.ending.finish is None:
        return EVERYTHING
    if not _undisturbed(group) or group.quota.holding is not None:
        return EVERYTHING
    members = world.members[group.id]
    if flags & _LEAVES_ALONE or members.count(Flag.GATED):
        return EVERYTHING
    return 0 if len(members) else WINDS_UP


def of_joining(world: World, group: Group, role: str, flags: int, first: str | None) -> int:
    """Return what changed as a pod joined; `first` was the group's first pod before.

    A further pod changes nothing while a group waits for its pods: if it names the same queue, has
    the same declaration and a known role, and pods are still too few.
    """
    if (
        not world.track_changes
        or group.composition.done
        or group.ending.finish is not None
        or group.spec.dialect
        or group.single
    ):
        return EVERYTHING
    wait = group.explained.wait
    if wait is None or not group.quota.effect.gathers or group.quota.reason[0] != wait.reason:
        return EVERYTHING
    if (
        group.parked
        or group.reporting.due
        or group.reporting.recounted is not None
        or group.spec.prebuilt
    ):
        return EVERYTHING
    if (
        group.mirror.workload is not None
        or group.mirror.lost
        or group.requeueing.evicted is not None
    ):
        return EVERYTHING
    members = world.members[group.id]
    if flags & ~_WAITS or members.first() != first:
        return EVERYTHING
    if len(members.queues) != 1 or len(members.totals) != 1 or members.count(Flag.ACTIVE, role) < 2:
        return EVERYTHING
    gone = 0
    for known in group.roles.values():
        gone += known.succeeded_gone
    few = members.count(Flag.ACTIVE) + gone < (1 if group.spec.fast else group.spec.total)
    return 0 if few else EVERYTHING


_READ: Final = tuple(name for name, means in declared(PodView).items() if means.read)
rules_read = attrgetter(*_READ)
"""What rules read of a view beside the pod's flags."""
_UNGATED: Final = {"gates", "node_selector", "tolerations", "role", "role_annotated"}
"""Fields that our removal of the gate writes, or that are hashed from them."""
_read_elsewhere = attrgetter(*(n for n in _READ if n not in {*_UNGATED, "labels", "annotations"}))


def only_ungated(before: PodView, view: PodView) -> bool:
    """Tell whether, of all that rules read, only our ungating changed between two views of a pod.

    The ingester may have put a user's write and ours into the same view.
    """
    if _read_elsewhere(view) != _read_elsewhere(before):
        return False
    for known, said in (before.labels, view.labels), (before.annotations, view.annotations):
        if known is not said:
            for key, _ in known.items() ^ said.items():
                if key not in UNGATING:
                    return False
    return True


def nothing_read(world: World, group: Group, before: PodView, view: PodView, flags: int) -> bool:
    """Tell whether two views of a pod with equal `flags` are the same in all that rules read.

    True of most status updates: conditions of a waiting pod, the node of a pod that was bound.
    """
    return not looked_at_anyway(group, flags) and rules_read(view) == rules_read(before)


def looked_at_anyway(group: Group, flags: int) -> bool:
    """Tell whether any new view of a pod counts as a change of its group, even with equal flags."""
    return bool(
        flags & (Flag.TERMINATED | Flag.DELETING)
        or group.requeueing.evicted is not None
        or group.parked
        or group.reporting.recounted is not None
        or group.reporting.due
    )


def same_but_status(before: WorkloadView, view: WorkloadView) -> bool:
    """Tell whether two versions of a Workload differ only in what its status mirrors."""
    return (
        before.uid == view.uid
        and before.active == view.active
        and before.deleted_at == view.deleted_at
        and before.max_execution_s == view.max_execution_s
        and before.checks == view.checks
    )


def of_workload(world: World, group: Group) -> int:
    """Return what changed as the Workload may be written again, or shows what we wrote."""
    if not world.track_changes:
        return EVERYTHING
    if group.ending.finish is not None:
        rests = group.quota.holding is None and _undisturbed(group)
        return WINDS_UP if rests else EVERYTHING
    if not world.members[group.id].flags or not runs(world, group):
        return EVERYTHING
    return WORKLOAD if group.mirror.expect is None else 0


def of_new_workload(world: World, group: Group, view: WorkloadView) -> int:
    """Return what changed as the Workload that we created for a group exists.

    Pods that lost their places wait for the Workload before they are released (rule `replace`).
    """
    if view.checks or world.members[group.id].count(Flag.INACTIVE):
        return EVERYTHING
    return of_workload(world, group)
