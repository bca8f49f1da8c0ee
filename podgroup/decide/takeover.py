"""Rules about pods that run under an admission whose Workload is gone: they are taken over.

A Workload that is being deleted is a user's wish to stop the group (`closing`). One that is gone
without having been seen to go was swept away with its kind, or by a removal of gatelog that was
interrupted: no user asked that what runs should stop.

- This log knows the admission: it stands, and the Workload is made again (`restoring`).
- It does not (it was lost, or removed with gatelog), but the pods carry what a start leaves on
  them and were never seen at their gate: they are composed as they run, and what they run on is
  charged as an admission, if the ClusterQueue knows flavors for them. Where it does not, or where
  pods of the group are missing, they run on and are charged unadmitted (`unadmitted`).

In kueue mode the new Workload asks Kueue for quota, and the pods run meanwhile.

Invariant: no pod is stopped here, and none that was seen at its gate is let in here.
"""

from podgroup.commands import AdmitGroup
from podgroup.decide.context import Deciding, group_ref
from podgroup.decide.rule import BUILTIN, Line, Rule
from podgroup.decide.snapshot import first_flavors
from podgroup.facts import cluster_queue_of, runs_since_before
from podgroup.members import Flag
from podgroup.view import Group, Pod


def stands(d: Deciding, group: Group) -> bool:
    """Tell whether a group whose Workload is gone was admitted and has pods that run."""
    holding = group.quota.holding
    if group.mirror.workload is not None or group.requeueing.evicted is not None:
        return False
    return holding is not None and holding.admitted and bool(d.members(group).count(Flag.LIVE))


def precedes(d: Deciding, group: Group, pod: Pod) -> bool:
    """Tell whether a pod was started before its Workload was made again (kueue mode).

    Kueue has yet to decide about that one. Once it evicts it, the pod is stopped like others.
    """
    workload, since = group.mirror.workload, pod.ungated_at
    if workload is None or d.world.mode != "kueue" or not pod.let_in or since is None:
        return False
    return since < workload.created_at


def taking_over(d: Deciding, group: Group) -> None:
    """Let a group hold what its pods run on since before this log began (builtin mode)."""
    if (
        group.quota.holding is not None
        or group.quota.admissions
        or group.requeueing.evicted is not None
    ):
        return
    if not group.composition.done or group.ending.finish is not None or group.mirror.lost:
        return
    if not runs_since_before(d.world, group):
        return
    queue = cluster_queue_of(d.world, group)
    if queue is None:
        return
    sets = first_flavors(d.world, group, queue)
    if not sets:
        return
    d.emit(
        group,
        "takeover",
        "TakenOver",
        f"its pods run since before this log began: charged to ClusterQueue {queue.name}",
        AdmitGroup(target=group_ref(group), cluster_queue=queue.name, assignments=sets),
    )


TAKE_OVER = Rule(
    run=taking_over,
    mode=BUILTIN,
    says=(
        Line(
            "takeover",
            "pods run since before the log began, with the marks of their start and no Workload",
            "charges what they run on as an admission",
        ),
    ),
)
