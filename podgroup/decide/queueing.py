"""Rule about queues and cohorts: their condition Active says whether they admit, and why not.

Kueue writes it in kueue mode. In builtin mode `kubectl wait --for=condition=Active` and what else
waits for a queue would wait for ever if we did not; reasons and messages are those that users and
tools know from Kueue.

What a queue or cohort asks for and builtin mode does not heed is named there as well.

A condition is decided on when something that it rests on has changed (the queue, its ClusterQueue,
a flavor) and it says something else; what was decided counts as said until the object itself shows
what it says. A pod's event costs nothing here, whatever it does to the queue.

Invariant: after each message every queue says what is so, or a write of it is on its way.
"""

from podgroup.commands import ObjectRef, WriteQueueStatus
from podgroup.decide.context import Deciding
from podgroup.decide.rule import Line
from podgroup.decide.snapshot import unusable_checks
from podgroup.names import (
    ACTIVE,
    ACTIVE_CHECK_INACTIVE,
    ACTIVE_CHECK_NOT_FOUND,
    ACTIVE_CLUSTER_QUEUE_IS_NOT,
    ACTIVE_COHORT_CYCLE,
    ACTIVE_FLAVOR_NOT_FOUND,
    ACTIVE_NO_CLUSTER_QUEUE,
    ACTIVE_READY,
    ACTIVE_STOPPED,
    ACTIVE_TERMINATING,
)
from podgroup.objects import (
    WHOLE,
    ClusterQueueView,
    CohortView,
    Condition,
    LocalQueueView,
    ResourceGroup,
)
from podgroup.view import World

Said = tuple[str, str, str]
"""Status, reason, message."""

NOT_SUBMITTED = "Can't submit new workloads to clusterQueue"
MOST_NAMED = 16
"""Missing flavors and checks that are named in a message."""
NO_USAGE = "queueing.usage_half_life_s is not set"
NO_SHARES = "queueing.fair_sharing is not set"
BORROW = "preemption.borrowWithinCohort"


def queueing(d: Deciding) -> None:
    """Say of every queue that may have changed whether it is active."""
    world = d.world
    if world.mode == "builtin":
        for kind, namespace, name in sorted(world.unannounced):
            if kind == "ClusterQueue":
                if (queue := world.cluster_queues.get(name)) is not None:
                    _tell(d, kind, queue, cluster_queue_active(world, queue))
            elif kind == "Cohort":
                if (cohort := world.cohorts.get(name)) is not None:
                    _tell(d, kind, cohort, cohort_active(world, cohort))
            elif (
                kind == "LocalQueue"
                and (local := world.local_queues.get((namespace, name))) is not None
            ):
                _tell(d, kind, local, local_queue_active(world, local))
    d.write.announced()


def _tell(
    d: Deciding, kind: str, queue: ClusterQueueView | CohortView | LocalQueueView, wanted: Said
) -> None:
    if queue.active == wanted:
        return
    status, reason, message = wanted
    d.emit_apart(
        "announce",
        reason,
        f"{kind} {queue.name} should say {ACTIVE}={status}: {message}",
        WriteQueueStatus(
            target=ObjectRef(kind=kind, namespace=queue.namespace, name=queue.name, uid=queue.uid),
            condition=Condition(type=ACTIVE, status=status, reason=reason, message=message),
        ),
    )


def cluster_queue_active(world: World, queue: ClusterQueueView) -> Said:
    """Say whether a ClusterQueue admits."""
    why, reason = [], ""
    if queue.deleting:
        why.append("is being deleted")
        reason = ACTIVE_TERMINATING
    if queue.stop_policy != "None":
        why.append("is stopped")
        reason = reason or ACTIVE_STOPPED
    named = dict.fromkeys(flavor.name for part in queue.groups for flavor in part.flavors)
    missing = [name for name in named if name not in world.flavors]
    if missing:
        why.append(f"references missing ResourceFlavor(s): {','.join(missing[:MOST_NAMED])}")
        reason = reason or ACTIVE_FLAVOR_NOT_FOUND
    absent, idle = unusable_checks(world.checks, queue)
    if absent:
        why.append(f"references missing AdmissionCheck(s): {','.join(absent[:MOST_NAMED])}")
        reason = reason or ACTIVE_CHECK_NOT_FOUND
    if idle:
        why.append(f"references inactive AdmissionCheck(s): {','.join(idle[:MOST_NAMED])}")
        reason = reason or ACTIVE_CHECK_INACTIVE
    circle = circle_above(world, queue.cohort)
    if circle:
        why.append(f"is below a circle of cohorts: {circle}")
        reason = reason or ACTIVE_COHORT_CYCLE
    if why:
        return "False", reason, f"Can't admit new workloads: {', '.join(why)}."
    policy = world.policy
    but = []
    if queue.usage_based and policy.usage_half_life_s < 0:
        but.append(f"admissionScope ({NO_USAGE})")
    if queue.weight_nano != WHOLE and not policy.fair_sharing:
        but.append(f"fairSharing.weight ({NO_SHARES})")
    but += _limits_alone(queue.groups, queue.cohort, "cohortName")
    borrows = queue.borrow_within_cohort != "Never" or queue.max_priority_threshold is not None
    if borrows and policy.fair_sharing:
        but.append(f"{BORROW} (queueing.fair_sharing is set)")
    return "True", ACTIVE_READY, f"Can admit new workloads{_not_heeded(but, queue)}"


def _not_heeded(but: list[str], queue: ClusterQueueView | CohortView | LocalQueueView) -> str:
    named = [*but, *(f"{path} (unknown to gatelog)" for path in queue.unread)]
    return f"; ignored fields: {', '.join(named)}" if named else ""


def cohort_active(world: World, cohort: CohortView) -> Said:
    """Say whether the ClusterQueues below a Cohort may admit, as far as that is up to it."""
    circle = circle_above(world, cohort.name)
    if circle:
        return "False", ACTIVE_COHORT_CYCLE, f"Parents form a circle: {circle}"
    off = cohort.weight_nano != WHOLE and not world.policy.fair_sharing
    but = [f"fairSharing.weight ({NO_SHARES})"] if off else []
    but += _limits_alone(cohort.groups, cohort.parent, "parentName")
    return "True", ACTIVE_READY, f"Shares quota among its members{_not_heeded(but, cohort)}"


def _limits_alone(groups: tuple[ResourceGroup, ...], parent: str, field: str) -> list[str]:
    """Name the limits that say nothing, since there is no queue to borrow from or to lend to."""
    if parent:
        return []
    quotas = [q for part in groups for one in part.flavors for q in one.resources.values()]
    limits = (
        ("borrowingLimit", any(q.borrowing_limit is not None for q in quotas)),
        ("lendingLimit", any(q.lending_limit is not None for q in quotas)),
    )
    return [f"{name} ({field} is not set)" for name, found in limits if found]


def circle_above(world: World, name: str) -> str:
    """Return the circle that going up from a cohort ends in, "" if it ends at a root."""
    way: list[str] = []
    while name and name not in way:
        way.append(name)
        cohort = world.cohorts.get(name)
        name = cohort.parent if cohort is not None else ""
    return " -> ".join([*way[way.index(name) :], name]) if name else ""


def local_queue_active(world: World, queue: LocalQueueView) -> Said:
    """Say whether what comes to a LocalQueue may be admitted."""
    if queue.stop_policy != "None":
        return "False", ACTIVE_STOPPED, "LocalQueue is stopped"
    behind = world.cluster_queues.get(queue.cluster_queue)
    if behind is None:
        return "False", ACTIVE_NO_CLUSTER_QUEUE, NOT_SUBMITTED
    if cluster_queue_active(world, behind)[0] != "True":
        return "False", ACTIVE_CLUSTER_QUEUE_IS_NOT, NOT_SUBMITTED
    but = []
    if queue.weight_nano != WHOLE and world.policy.usage_half_life_s < 0:
        but.append(f"fairSharing.weight ({NO_USAGE})")
    elif queue.weight_nano != WHOLE and not behind.usage_based:
        but.append("fairSharing.weight (the ClusterQueue's admissionScope does not ask for it)")
    heeded = _not_heeded(but, queue)
    return "True", ACTIVE_READY, f"Can submit new workloads to localQueue{heeded}"


ANNOUNCE = Line(
    "announce",
    "a queue, the ClusterQueue behind it or a flavor changed, and the queue's condition says "
    "something else",
    "writes condition `Active` of the ClusterQueue or LocalQueue",
)
