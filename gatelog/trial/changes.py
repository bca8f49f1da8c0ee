"""Changes with which a waiting group would start: fewer pods, another LocalQueue or flavor.

Theory. Each change is tried with the live scheduler's code, on a copy of its state: the changed
group is submitted and a pass is run. Groups that were tried and have no chance before quota becomes
free stay out of these copies: no quota becomes free in them, and a copy of a few groups is cheap
where thousands wait.

Invariant: each change that is named was tried, and started the group at once.
"""

import pickle
from collections.abc import Iterator

from msgspec.structs import replace

from gatelog.trial.answers import Change
from podgroup.admission import Scheduler
from podgroup.admission.matching import tolerated
from podgroup.admission.model import PodSet, Workload
from podgroup.admission.verdicts import AdmissionVerdict
from podgroup.model.ids import GroupID
from podgroup.model.objects import FlavorView, Toleration
from podgroup.rules.helpers.checks import required_checks
from podgroup.state import asked
from podgroup.state.world import World

MOST_QUEUES = 10
"""Other LocalQueues of the namespace that are tried."""
_ANYTHING = (Toleration(operator="Exists"),)


class Chances:
    """A scheduler's state at a moment, in which changed workloads are tried one by one."""

    def __init__(self, scheduler: Scheduler, now: float, occasion: int) -> None:
        """Keep a copy of the state of `scheduler`."""
        self._now, self._occasion = now, occasion
        self._whole = pickle.dumps(scheduler)
        self._begin = b""

    def _copy(self) -> Scheduler:
        if not self._begin:
            whole: Scheduler = pickle.loads(self._whole)
            whole.give_no_reasons()
            whole.cache.queues.forget_inadmissible()
            self._begin = pickle.dumps(whole)
        copy: Scheduler = pickle.loads(self._begin)
        return copy

    def admitted(self, workload: Workload) -> AdmissionVerdict | None:
        """Return the assignment that a workload would get at once, None if it would wait."""
        scheduler = self._copy()
        scheduler.cache.queues.remove(workload.id)  # as it waits now
        scheduler.cache.submit(workload)
        verdicts = scheduler.settle(self._now, self._occasion)
        return next((one for one in verdicts.admitted if one.id == workload.id), None)


def changes(world: World, identity: GroupID, chances: Chances) -> Iterator[Change]:
    """Yield changes with which a waiting group would start at once."""
    group = world.groups[identity]
    workload = asked.workload(world, group)
    if (fewer := _fewer(workload, chances)) is not None:
        yield fewer
    yield from _elsewhere(world, workload, chances)
    if (other := _of_other_flavor(world, workload, chances)) is not None:
        yield other


def _fewer(workload: Workload, chances: Chances) -> Change | None:
    """Return the largest number of pods of the role with most that would start at once."""
    most = max(workload.pod_sets, key=lambda one: one.count, default=None)
    if most is None or most.count < 2:
        return None

    def starts(count: int) -> bool:
        sets = tuple(replace(p, count=count) if p is most else p for p in workload.pod_sets)
        return chances.admitted(replace(workload, pod_sets=sets)) is not None

    low, high = 0, most.count
    while high - low > 1:
        middle = (low + high) // 2
        if starts(middle):
            low = middle
        else:
            high = middle
    if not low:
        return None
    return Change(role=most.name if len(workload.pod_sets) > 1 else "", pods=low)


def _elsewhere(world: World, workload: Workload, chances: Chances) -> Iterator[Change]:
    own = world.local_queues.get((workload.namespace, workload.queue))
    within = [q for key, q in sorted(world.local_queues.items()) if key[0] == workload.namespace]
    others = [q for q in within if own is None or q.cluster_queue != own.cluster_queue]
    for queue in others[:MOST_QUEUES]:
        if queue.stop_policy != "None":
            continue
        found = chances.admitted(replace(workload, queue=queue.name))
        if found is not None and not _checked(world, found):
            yield Change(queue=queue.name)


def _of_other_flavor(world: World, workload: Workload, chances: Chances) -> Change | None:
    """Return a flavor in which pods would start that chose no nodes and tolerated everything."""
    anywhere = tuple(
        replace(one, node_selector=(), node_terms=(), tolerations=_ANYTHING)
        for one in workload.pod_sets
    )
    found = chances.admitted(replace(workload, pod_sets=anywhere))
    if found is None or _checked(world, found):
        return None
    needs: dict[str, None] = {}
    names: dict[str, None] = {}
    for given, one in zip(found.pod_sets, workload.pod_sets, strict=True):
        for name in dict.fromkeys(given.flavors.values()):
            if (flavor := world.flavors.get(name)) is not None:
                names[name] = None
                needs.update(dict.fromkeys(_needed(flavor, one)))
    return Change(flavor="/".join(names), needs=tuple(needs)) if needs else None


def _needed(flavor: FlavorView, one: PodSet) -> Iterator[str]:
    """Say what pods lack to suit a flavor."""
    tolerations = (*one.tolerations, *flavor.tolerations)
    for taint in flavor.taints:
        if taint.excludes and not tolerated(taint, tolerations):
            value = f"={taint.value}" if taint.value else ""
            yield f"a toleration of {taint.key}{value}:{taint.effect}"
    for key, value in one.node_selector:
        if flavor.node_labels.get(key, value) != value:
            yield f"no nodeSelector {key}={value}"
    if any(e.key in flavor.node_labels for term in one.node_terms for e in term.expressions):
        yield "another required node affinity"


def _checked(world: World, found: AdmissionVerdict) -> bool:
    """Return whether admission checks would have to agree first."""
    given = asked.assignments(found.pod_sets)
    return bool(required_checks(world, found.cluster_queue, given))
