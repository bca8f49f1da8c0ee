"""Whether a queue or cohort admits, and why not, as its condition Active says.

Reasons and messages are Kueue's, which users and tools know. Fields of a queue or cohort that
builtin mode does not heed are named as well.

Invariant: nothing is changed here.
"""

from podgroup.model.names import (
    ACTIVE_CHECK_INACTIVE,
    ACTIVE_CHECK_NOT_FOUND,
    ACTIVE_CLUSTER_QUEUE_IS_NOT,
    ACTIVE_COHORT_CYCLE,
    ACTIVE_COHORTS_TOO_DEEP,
    ACTIVE_FLAVOR_NOT_FOUND,
    ACTIVE_INVALID_FIELD,
    ACTIVE_NO_CLUSTER_QUEUE,
    ACTIVE_READY,
    ACTIVE_STOPPED,
    ACTIVE_TERMINATING,
    MOST_ABOVE,
)
from podgroup.model.objects import (
    WHOLE,
    ClusterQueueView,
    CohortView,
    LocalQueueView,
    ResourceGroup,
)
from podgroup.state.asked import unusable_checks, without_places
from podgroup.state.world import World

Said = tuple[str, str, str]
"""Status, reason, message."""


NOT_SUBMITTED = "Can't submit new workloads to clusterQueue"


MOST_NAMED = 16
"""Missing flavors and checks that are named in a message."""


NO_USAGE = "queueing.usage_half_life_s is not set"


NO_SHARES = "queueing.fair_sharing is not set"


BORROW = "preemption.borrowWithinCohort"


def cluster_queue_active(world: World, queue: ClusterQueueView) -> Said:
    """Say whether a ClusterQueue admits."""
    why: list[str] = []
    reason = ""
    if queue.deleting:
        why.append("is being deleted")
        reason = ACTIVE_TERMINATING
    if queue.stop_policy != "None":
        why.append("is stopped")
        reason = reason or ACTIVE_STOPPED
    if queue.problem:
        why.append(f"has a field that cannot be: {queue.problem}")
        reason = reason or ACTIVE_INVALID_FIELD
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
    for code, said in without_places(world, queue)[:MOST_NAMED]:
        why.append(said)
        reason = reason or code
    rootless = without_root(world, queue.cohort)
    if rootless is not None:
        why.append(f"is below {rootless[1]}")
        reason = reason or rootless[0]
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
    """Say whether the ClusterQueues below a Cohort may admit, as far as the Cohort allows."""
    rootless = without_root(world, cohort.name)
    if rootless is not None:
        return "False", rootless[0], f"Is below {rootless[1]}"
    if cohort.problem:
        said = f"Has a field that cannot be, which counts as none: {cohort.problem}"
        return "False", ACTIVE_INVALID_FIELD, said
    off = cohort.weight_nano != WHOLE and not world.policy.fair_sharing
    but = [f"fairSharing.weight ({NO_SHARES})"] if off else []
    but += _limits_alone(cohort.groups, cohort.parent, "parentName")
    return "True", ACTIVE_READY, f"Shares quota among its members{_not_heeded(but, cohort)}"


def _limits_alone(groups: tuple[ResourceGroup, ...], parent: str, field: str) -> list[str]:
    """Name the limits without effect, since there is no cohort to borrow from or to lend to."""
    if parent:
        return []
    quotas = [q for part in groups for one in part.flavors for q in one.resources.values()]
    limits = (
        ("borrowingLimit", any(q.borrowing_limit is not None for q in quotas)),
        ("lendingLimit", any(q.lending_limit is not None for q in quotas)),
    )
    return [f"{name} ({field} is not set)" for name, found in limits if found]


def without_root(world: World, name: str) -> tuple[str, str] | None:
    """Return reason and words where the path up from a cohort has no root, as in the quota tree."""
    way: dict[str, None] = {}
    while name and name not in way:
        if len(way) > MOST_ABOVE:
            return ACTIVE_COHORTS_TOO_DEEP, f"more than {MOST_ABOVE} cohorts, one above the other"
        way[name] = None
        cohort = world.cohorts.get(name)
        name = cohort.parent if cohort is not None else ""
    if not name:
        return None
    circle = [*way][[*way].index(name) :]
    named = [*circle, name] if len(circle) < MOST_NAMED else [*circle[:MOST_NAMED], "..."]
    return ACTIVE_COHORT_CYCLE, f"a circle of cohorts: {' -> '.join(named)}"


def local_queue_active(world: World, queue: LocalQueueView) -> Said:
    """Say whether groups of a LocalQueue may be admitted."""
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
    if queue.problem:
        but.append(queue.problem)
    heeded = _not_heeded(but, queue)
    return "True", ACTIVE_READY, f"Can submit new workloads to localQueue{heeded}"
