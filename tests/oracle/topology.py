"""Cases about places: kinds `placement` and `ungater`, as they are written down, and playing them.

A line is `{"id", "kind", "tags", "case", "outcome"}`. A placement case has nodes, pods of others
and steps; a step enters or removes something, places a workload, or replaces failed nodes, and its
outcome has each podset's domains in order, how they are encoded, or why there are none. An ungater
case has podsets with their places and the pods of a group; its outcome has the node selectors of
the pods whose gate goes. Fields that are not known are refused.
"""

from collections.abc import Iterable
from typing import Any, Literal

from msgspec import Struct

from podgroup.admission.model import PodSet
from podgroup.admission.topology.domains import DomainTree
from podgroup.admission.topology.placement import Placed, place
from podgroup.admission.topology.replacing import replace_nodes
from podgroup.admission.topology.ungating import GroupPod, Ranks, ungated
from podgroup.model.objects import NodeTerm, NodeView, Requirement
from podgroup.model.quantities import amount
from podgroup.model.topology import (
    NOTHING_ASKED,
    SliceLayer,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
)
from podgroup.model.topology_json import encoded
from tests.oracle.case import Amount, ExpressionOf, TaintOf
from tests.support.offers import Flavor

NAME = "t"
"""What the topology of every placement case is called."""


class _Case(Struct, rename="camel", forbid_unknown_fields=True):
    pass


class FlavorOf(_Case):
    name: str
    node_labels: dict[str, str] | None = None
    tolerations: list[TaintOf] | None = None


class NodeOf(_Case):
    name: str
    labels: dict[str, str] | None = None
    taints: list[TaintOf] | None = None
    allocatable: dict[str, Amount] | None = None
    ready: bool = True
    unschedulable: bool = False


class PodOf(_Case):
    name: str
    node: str
    requests: dict[str, Amount] | None = None
    phase: str = "Running"


class SliceOf(_Case):
    topology: str
    size: int


class RequestOf(_Case):
    required: str = ""
    preferred: str = ""
    unconstrained: bool | None = None
    slices: list[SliceOf] | None = None
    group: str = ""

    def read(self) -> TopologyRequest:
        layers = tuple(SliceLayer(topology=o.topology, size=o.size) for o in self.slices or ())
        return TopologyRequest(
            required=self.required,
            preferred=self.preferred,
            unconstrained=self.unconstrained,
            slices=layers,
            group=self.group,
        )


class DomainOf(_Case):
    values: list[str]
    count: int


class AssignmentOf(_Case):
    levels: list[str]
    domains: list[DomainOf]

    def read(self) -> TopologyAssignment:
        domains = (TopologyDomain(values=tuple(o.values), count=o.count) for o in self.domains)
        return TopologyAssignment(levels=tuple(self.levels), domains=tuple(domains))


class PodSetOf(_Case):
    name: str
    count: int
    requests: dict[str, Amount] | None = None
    node_selector: dict[str, str] | None = None
    affinity: list[list[ExpressionOf]] | None = None
    tolerations: list[TaintOf] | None = None
    topology: RequestOf | None = None
    assignment: AssignmentOf | None = None

    def read(self) -> PodSet:
        terms = (tuple(map(_requirement, term)) for term in self.affinity or ())
        return PodSet(
            name=self.name,
            count=self.count,
            requests=tuple(amounts(self.requests).items()),
            node_selector=tuple((self.node_selector or {}).items()),
            node_terms=tuple(NodeTerm(expressions=term) for term in terms),
            tolerations=tuple(one.read() for one in self.tolerations or ()),
            topology=self.topology.read() if self.topology else NOTHING_ASKED,
        )


def _requirement(one: ExpressionOf) -> Requirement:
    return Requirement(key=one.key, operator=one.op, values=tuple(one.values or ()))


class WorkloadOf(_Case):
    name: str
    pod_sets: list[PodSetOf]


class ReplaceOf(_Case):
    workload: str
    nodes: list[str]
    owner: Literal["", "Pod"] = ""


class StepOf(_Case):
    admit: WorkloadOf | None = None
    place: WorkloadOf | None = None
    finish: str = ""
    node: NodeOf | None = None
    node_gone: str = ""
    pod: PodOf | None = None
    pod_gone: str = ""
    replace: ReplaceOf | None = None


class PlacementCase(_Case):
    levels: list[str]
    flavor: FlavorOf
    nodes: list[NodeOf]
    pods: list[PodOf]
    steps: list[StepOf]


class RankedOf(PodSetOf):
    pod_index_label: str = ""
    sub_group_index_label: str = ""
    sub_group_count: int = 0


class GroupPodOf(_Case):
    name: str
    pod_set: str
    labels: dict[str, str]
    annotations: dict[str, str]
    gated: bool
    phase: str
    node_selector: dict[str, str] | None = None


class UngaterCase(_Case):
    pod_sets: list[RankedOf]
    unhealthy_nodes: list[str]
    group_pods: list[GroupPodOf]


def amounts(given: dict[str, Amount] | None) -> dict[str, int]:
    """Return amounts as they are counted."""
    return {name: amount(name, str(value)) for name, value in (given or {}).items()}


class _Held(Struct):
    """A workload that is admitted: its podsets with their places."""

    pod_sets: dict[str, tuple[PodSet, TopologyAssignment]]


class Places:
    """One placement case: its tree and the workloads that are admitted."""

    def __init__(self, case: PlacementCase, better: bool = False) -> None:
        self.case = case
        flavor = Flavor(
            name=case.flavor.name,
            labels=case.flavor.node_labels or {},
            tolerations=tuple(one.read() for one in case.flavor.tolerations or ()),
        )
        self.tree = DomainTree(NAME, case.levels, flavor, better)
        self.nodes = {one.name: one for one in case.nodes}
        self.pods = {one.name: one for one in case.pods}
        self.admitted: dict[str, _Held] = {}
        for name in self.nodes:
            self._node(name)

    def run(self) -> list[dict[str, Any] | None]:
        """Play all steps."""
        return [self._step(step) for step in self.case.steps]

    def _node(self, name: str) -> None:
        one = self.nodes.get(name)
        if one is None:
            self.tree.remove_node(name)
            return
        taken: dict[str, int] = {}
        for pod in self.pods.values():
            if pod.node == name and pod.phase not in ("Succeeded", "Failed"):
                for resource, value in [*amounts(pod.requests).items(), ("pods", 1)]:
                    taken[resource] = taken.get(resource, 0) + value
        self.tree.set_node(
            NodeView(
                name=name,
                labels=one.labels or {},
                taints=tuple(taint.read() for taint in one.taints or ()),
                allocatable=amounts(one.allocatable),
                taken=taken,
                ready=one.ready,
                unschedulable=one.unschedulable,
            )
        )

    def _step(self, step: StepOf) -> dict[str, Any] | None:
        if step.place is not None:
            return self._place(step.place)
        if step.replace is not None:
            return self._replace(step.replace)
        if step.admit is not None:
            given = {
                one.name: (one.read(), one.assignment.read())
                for one in step.admit.pod_sets
                if one.assignment is not None
            }
            self._admit(step.admit.name, given)
        elif step.finish:
            self._release(step.finish)
        elif step.node is not None:
            self.nodes[step.node.name] = step.node
            self._node(step.node.name)
        elif step.node_gone:
            self.nodes.pop(step.node_gone, None)
            self._node(step.node_gone)
        elif step.pod is not None or step.pod_gone:
            self._pod(step)
        return None

    def _pod(self, step: StepOf) -> None:
        old = self.pods.pop(step.pod_gone or (step.pod.name if step.pod else ""), None)
        if step.pod is not None:
            self.pods[step.pod.name] = step.pod
        for pod in (old, step.pod):
            if pod is not None:
                self._node(pod.node)

    def _admit(self, name: str, given: dict[str, tuple[PodSet, TopologyAssignment]]) -> None:
        self._release(name)
        self.admitted[name] = _Held(given)
        self._charge(given.values(), 1)

    def _release(self, name: str) -> None:
        held = self.admitted.pop(name, None)
        if held is not None:
            self._charge(held.pod_sets.values(), -1)

    def _charge(self, given: Iterable[tuple[PodSet, TopologyAssignment]], times: int) -> None:
        for pod_set, assignment in given:
            if pod_set.requests:
                self.tree.charge(assignment, pod_set.requests, times)

    def _place(self, workload: WorkloadOf) -> dict[str, Any]:
        pod_sets = [one.read() for one in workload.pod_sets]
        placed = place(self.tree, pod_sets)
        outcome = _outcome(placed)
        if placed.fits:
            by_name = {one.name: one for one in pod_sets}
            given = {name: (by_name[name], at) for name, at in placed.places.items()}
            self._admit(workload.name, given)
        else:
            outcome["whenEmpty"] = _outcome(place(self.tree, pod_sets, empty=True), plain=True)
        return outcome

    def _replace(self, asked: ReplaceOf) -> dict[str, Any]:
        held = self.admitted.get(asked.workload)
        if held is None:
            return {"skipped": True}
        given = list(held.pod_sets.values())
        placed = replace_nodes(self.tree, given, asked.nodes, movable=asked.owner != "Pod")
        if placed.fits:
            changed = {
                name: (one, placed.places.get(name, at))
                for name, (one, at) in held.pod_sets.items()
            }
            self._admit(asked.workload, changed)
        else:
            self._release(asked.workload)
        return _outcome(placed)


def _outcome(placed: Placed, plain: bool = False) -> dict[str, Any]:
    pod_sets: dict[str, Any] = {}
    for name, assignment in placed.places.items():
        domains = [{"values": list(one.values), "count": one.count} for one in assignment.domains]
        shown: dict[str, Any] = {"levels": list(assignment.levels), "domains": domains}
        if not plain:
            shown["encoded"] = encoded(assignment)
        pod_sets[name] = {"assignment": shown}
    for name in placed.refused:
        pod_sets[name] = {"reason": placed.reason}
    return {"fits": placed.fits, "podSets": pod_sets}


def ungate(case: UngaterCase) -> dict[str, dict[str, str]]:
    """Play an ungater case."""
    found: dict[str, dict[str, str]] = {}
    for one in case.pod_sets:
        if one.assignment is None:
            continue
        live = [
            GroupPod(
                name=pod.name,
                labels=pod.labels,
                annotations=pod.annotations,
                node_selector=pod.node_selector or {},
                gated=pod.gated,
            )
            for pod in case.group_pods
            if pod.pod_set == one.name and pod.phase not in ("Succeeded", "Failed")
        ]
        ranks = Ranks(
            index_label=one.pod_index_label,
            group_label=one.sub_group_index_label,
            groups=one.sub_group_count,
            each=False,
        )
        failed = case.unhealthy_nodes
        found.update(ungated(one.assignment.read(), one.count, live, ranks, failed))
    return found
