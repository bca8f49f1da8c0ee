"""Cases of kind `scheduler`: whole cycles of queues whose flavors have topologies.

A step: events (finish, submit, node, node gone), one pass, and the evictions it decided, which are
complete at once: the workload is gone, as with plain pods.
"""

from typing import Any

from msgspec.structs import replace

from podgroup.admission import Scheduler
from podgroup.admission.model import Configuration, Workload
from podgroup.admission.topology.domains import pods
from podgroup.admission.verdicts import Verdicts
from podgroup.model.names import EVICTED_NODE_FAILURES
from podgroup.model.objects import FlavorView, NodeView
from podgroup.model.topology import HOSTNAME
from tests.oracle import case as reading
from tests.oracle.case import ClusterQueueOf, TaintOf, write_amount
from tests.oracle.topology import NodeOf, PodOf, WorkloadOf, _Case, amounts
from tests.support.offers import Flavor, LocalQueue, Namespace, Topology

NAMESPACE = "ns"


class TopologyOf(_Case):
    name: str
    levels: list[str]


class PlacedFlavorOf(_Case):
    name: str
    topology: str = ""
    node_labels: dict[str, str] | None = None
    taints: list[TaintOf] | None = None
    tolerations: list[TaintOf] | None = None

    def read(self) -> FlavorView:
        return Flavor(
            name=self.name,
            labels=self.node_labels or {},
            taints=tuple(one.read() for one in self.taints or ()),
            tolerations=tuple(one.read() for one in self.tolerations or ()),
            topology=self.topology,
        )


class QueuedOf(WorkloadOf):
    cluster_queue: str
    created: int
    priority: int = 0

    def read(self) -> Workload:
        return Workload(
            id=self.name,
            uid=self.name,
            namespace=NAMESPACE,
            queue=f"lq-{self.cluster_queue}",
            created=self.created,
            priority=self.priority,
            pod_sets=tuple(
                replace(one.read(), requests=tuple(sorted(one.read().requests)))
                for one in self.pod_sets
            ),
        )


class FailOf(_Case):
    workload: str


class EventOf(_Case):
    step: int
    finish: list[str] | None = None
    submit: list[QueuedOf] | None = None
    node: NodeOf | None = None
    node_gone: str = ""
    fail: FailOf | None = None


class CycleCase(_Case):
    topologies: list[TopologyOf]
    flavors: list[PlacedFlavorOf]
    nodes: list[NodeOf]
    pods: list[PodOf]
    cluster_queues: list[ClusterQueueOf]
    workloads: list[QueuedOf]
    events: list[EventOf]
    max_steps: int


def _evicted(verdicts: Verdicts) -> list[tuple[str, str, str]]:
    """Who has to stop, why, and what is said."""
    found = [(one.id, one.reason, one.message) for one in verdicts.preempted]
    for one in verdicts.node_failures:
        if one.pod_sets is None:
            found.append((one.id, EVICTED_NODE_FAILURES, one.message))
    return found


class Cycles:
    """One case and its scheduler."""

    def __init__(self, case: CycleCase, *, as_kueue: bool = True) -> None:
        self.case = case
        self.scheduler = Scheduler(Configuration(as_kueue=as_kueue))
        self.reasons: dict[str, tuple[str, str]] = {}
        self.given: dict[str, Workload] = {}
        cache = self.scheduler.cache
        cache.apply(Namespace(name=NAMESPACE))
        for topology in case.topologies:
            cache.apply(Topology(name=topology.name, levels=tuple(topology.levels)))
        for flavor in case.flavors:
            cache.apply(flavor.read())
        for node in case.nodes:
            self._node(node)
        for queue in case.cluster_queues:
            cache.apply(reading.cluster_queue(queue))
            cache.apply(
                LocalQueue(namespace=NAMESPACE, name=f"lq-{queue.name}", cluster_queue=queue.name)
            )
        for one in case.workloads:
            self._submit(one)

    def run(self) -> dict[str, Any]:
        """Play it to its end."""
        last = max((event.step for event in self.case.events), default=-1)
        steps: list[dict[str, Any]] = []
        quiescent, step = False, 0
        for step in range(self.case.max_steps):
            for event in self.case.events:
                if event.step == step:
                    self._event(event)
            verdicts = self.scheduler.decide(step)
            if verdicts.idle and step >= last:
                quiescent = True
                break
            if verdicts.idle:
                continue
            for head in verdicts.heads:
                self.reasons[head.id] = (head.reason, head.message)
            at = {
                "step": step,
                "admitted": [
                    self._holding(one.id)
                    for one in sorted(verdicts.admitted, key=lambda one: one.id)
                ],
                "replaced": [
                    self._holding(one.id)
                    for one in verdicts.node_failures
                    if one.pod_sets is not None
                ],
                "evicted": [
                    {"workload": id, "reason": reason, "message": message}
                    for id, reason, message in sorted(_evicted(verdicts))
                ],
            }
            for one in verdicts.admitted:
                # No watch runs there that would replace what was admitted by its updated copy.
                self.scheduler.cache.objects.cluster_queues[one.cluster_queue].generation -= 1
            self.after_step()
            for id, _, _ in _evicted(verdicts):
                self.scheduler.cache.remove(id)
                del self.given[id]
            steps.append({**at, "pending": self._pending()})
            if step > last and len(steps) > 1:
                before, now = ({**one, "step": 0} for one in steps[-2:])
                if before == now:
                    break
        else:
            step = self.case.max_steps
        return {"quiescent": quiescent, "steps": steps, "stepsRun": step}

    def after_step(self) -> None:
        """Look at a step when it is over; for those who check what must always hold."""

    def _event(self, event: EventOf) -> None:
        cache = self.scheduler.cache
        for name in event.finish or ():
            if self.given.pop(name, None) is not None:
                cache.remove(name)
        for one in event.submit or ():
            self._submit(one)
        if event.node is not None:
            self._node(event.node)
            cache.wake_ups.release_all()  # there an update counts that changes nothing, too
        if event.node_gone:
            cache.delete("Node", event.node_gone)
        if event.fail is not None:
            self._fail(event.fail.workload)

    def _submit(self, one: QueuedOf) -> None:
        self.given[one.name] = one.read()
        self.scheduler.cache.submit(one.read())

    def _node(self, one: NodeOf) -> None:
        taken: dict[str, int] = {}
        for pod in self.case.pods:
            if pod.node == one.name and pod.phase not in ("Succeeded", "Failed"):
                for resource, value in pods(tuple(amounts(pod.requests).items()), 1):
                    taken[resource] = taken.get(resource, 0) + value
        self.scheduler.cache.apply(
            NodeView(
                name=one.name,
                labels=one.labels or {},
                taints=tuple(taint.read() for taint in one.taints or ()),
                allocatable=amounts(one.allocatable),
                taken=taken,
                ready=one.ready,
                unschedulable=one.unschedulable,
            )
        )

    def _fail(self, workload: str) -> None:
        """Let the first node fail where a workload has places."""
        held = self.scheduler.cache.reservations.admitted.get(workload)
        if held is None or not held.given:
            return
        self.scheduler.cache.wake_ups.release_all()
        hosts = [
            d.values[-1] for _, one in held.given if one.topology for d in one.topology.domains
        ]
        for node in self.case.nodes:
            if hosts and (node.labels or {}).get(HOSTNAME) == hosts[0]:
                self._node(replace(node, ready=False))
        self.scheduler.cache.reservations.fail_nodes(workload, hosts[:1])

    def _holding(self, name: str) -> dict[str, Any]:
        held = self.scheduler.cache.reservations.admitted[name]
        return {
            "workload": name,
            "clusterQueue": held.cluster_queue,
            "podSets": [
                {
                    "name": one.name,
                    "count": one.count,
                    "flavors": one.flavors,
                    "usage": {r: str(write_amount(r, a)) for r, a in one.usage.items()},
                    "assignment": one.topology
                    and {
                        "levels": list(one.topology.levels),
                        "domains": [
                            {"values": list(domain.values), "count": domain.count}
                            for domain in one.topology.domains
                        ],
                    },
                }
                for one in held.reservation.pod_sets
            ],
        }

    def _pending(self) -> dict[str, dict[str, str]]:
        cache = self.scheduler.cache
        found = {}
        for name in self.given:
            if name in cache.reservations.admitted:
                continue
            waiter = cache.queues.waiting[name]
            queue = cache.queues.queue_of(waiter)
            active = queue is not None and queue.lines.is_active(waiter)
            reason, message = self.reasons.get(name, ("", ""))
            shown = {"where": "active" if active else "inadmissible"}
            if reason:
                shown |= {"reason": reason, "message": message}
            found[name] = shown
        return found
