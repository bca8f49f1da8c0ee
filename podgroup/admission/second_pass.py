"""The second pass: workloads that hold quota, and have places on nodes that failed.

Theory. Such a workload comes before all waiting workloads. It keeps its quota and flavors and
preempts no other: the pods of failed nodes get other places, or it is evicted at once, so that it
does not hold quota that it cannot use. Kueue enters the new places after the cycle, and evicts a
workload whose second node failed before the first was replaced.

Invariant: an evicted workload keeps its places until it has stopped; those of others do not change.
"""

from msgspec.structs import replace

from podgroup.admission.cache.reservations import FailedNodes
from podgroup.admission.cache.scheduler_cache import SchedulerCache
from podgroup.admission.holding import AdmittedWorkload
from podgroup.admission.model import Eviction, PodSetAssignment
from podgroup.admission.topology.placement import Placed
from podgroup.admission.topology.places import Given, given
from podgroup.admission.verdicts import NodeFailureVerdict
from podgroup.admission.wording import no_other_places, several_failed
from podgroup.model.names import EVICTED_NODE_FAILURES
from podgroup.model.reasons import effect_of


def decide(cache: SchedulerCache) -> list[NodeFailureVerdict]:
    """Decide about all workloads with failed nodes; enter each decision, except by Kueue's way."""
    found = []
    reservations = cache.reservations
    for id, failed in sorted(reservations.failed_nodes.items()):
        holding = reservations.admitted.get(id)
        verdict = None
        if holding is not None and holding.evicted is None:
            verdict = _decide(cache, holding, failed)
        if verdict is None:
            reservations.fail_nodes(id, ())
            continue
        found.append(verdict)
        if not cache.configuration.as_kueue:  # Q18
            enter(cache, verdict)
    return found


def enter(cache: SchedulerCache, verdict: NodeFailureVerdict) -> None:
    """Enter a decision into the cache."""
    cache.reservations.fail_nodes(verdict.id, ())
    if verdict.pod_sets is None:
        eviction = Eviction(cache.wake_ups.now, effect_of(EVICTED_NODE_FAILURES), verdict.message)
        cache.evict(verdict.id, eviction)
        return
    holding = cache.reservations.admitted[verdict.id]
    cache.reserve(holding.workload, replace(holding.reservation, pod_sets=verdict.pod_sets))


def _decide(
    cache: SchedulerCache, holding: AdmittedWorkload, failed: FailedNodes
) -> NodeFailureVerdict | None:
    """Return the verdict on a workload; None if it has no place on the failed nodes."""
    verdict = NodeFailureVerdict(
        id=holding.id, cluster_queue=holding.cluster_queue, nodes=failed.nodes
    )
    if len(failed.nodes) > 1 and cache.configuration.as_kueue:  # P1
        return replace(verdict, message=several_failed(failed.nodes))
    placed = cache.objects.places.placed_anew(holding.given, failed.nodes, failed.movable)
    if not placed.fits:
        return replace(verdict, message=no_other_places(failed.nodes), why=placed.reason)
    if not placed.places:
        return None
    pod_sets = holding.reservation.pod_sets
    return replace(verdict, pod_sets=tuple(_moved(one, placed) for one in pod_sets))


def more_places(cache: SchedulerCache, verdict: NodeFailureVerdict) -> Given:
    """Return the places of a verdict that the workload did not have before."""
    holding = cache.reservations.admitted[verdict.id]
    had = {one.name: one.topology for _, one in holding.given}
    found = []
    for pod_set, one in given(holding.workload.pod_sets, verdict.pod_sets or ()):
        before, now = had.get(one.name), one.topology
        if before is not None and now is not None:
            held = {domain.values: domain.count for domain in before.domains}
            more = (replace(d, count=d.count - held.get(d.values, 0)) for d in now.domains)
            domains = tuple(domain for domain in more if domain.count > 0)
            found.append((pod_set, replace(one, topology=replace(now, domains=domains))))
    return found


def _moved(one: PodSetAssignment, placed: Placed) -> PodSetAssignment:
    return replace(one, topology=placed.places.get(one.name, one.topology))
