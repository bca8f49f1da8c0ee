"""Places (docs/differences.md, P1 and on), and what Kueue makes of the same."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from podgroup.admission import Scheduler
from podgroup.admission.model import Configuration, PodSet, Workload
from podgroup.admission.topology.ungating import GroupPod, Ranks, ungated
from podgroup.admission.verdicts import Verdicts
from podgroup.model.objects import FlavorQuotas, NodeView, Quota, ResourceGroup
from podgroup.model.reasons import effect_of
from podgroup.model.topology import (
    HOSTNAME,
    SliceLayer,
    TopologyAssignment,
    TopologyDomain,
    TopologyRequest,
)
from tests.support.offers import (
    ClusterQueue,
    Flavor,
    Fungibility,
    LocalQueue,
    Namespace,
    Preemption,
    Topology,
)

BOTH = pytest.mark.parametrize("as_kueue", [True, False])
RACK = TopologyRequest(required="rack")
ANY = Fungibility()


class Racks:
    """A queue with one flavor, and nodes named by rack and number: `a1` is in rack `a`."""

    def __init__(
        self, nodes: dict[str, int], quota: int = 100, *, as_kueue: bool = False, **more: Any
    ) -> None:
        self.scheduler = Scheduler(Configuration(as_kueue=as_kueue))
        self.cache = self.scheduler.cache
        self.now = 0.0
        self.cache.apply(Namespace(name="ns"))
        self.cache.apply(Topology(name="t", levels=("rack", HOSTNAME)))
        self.cache.apply(Flavor(name="f", topology="t"))
        quotas = FlavorQuotas(name="f", resources={"cpu": Quota(nominal=quota)})
        groups = (ResourceGroup(covered=("cpu",), flavors=(quotas,)),)
        lower = Preemption(within_cluster_queue="LowerPriority")
        self.cache.apply(ClusterQueue(name="q", groups=groups, preemption=lower, **more))
        self.cache.apply(LocalQueue(namespace="ns", name="q", cluster_queue="q"))
        for name, cpu in nodes.items():
            self.node(name, cpu)

    def node(self, name: str, cpu: int, **labels: str) -> None:
        labels = {"rack": name[0], HOSTNAME: name} | labels
        allocatable = {"cpu": cpu, "pods": 100}
        self.cache.apply(NodeView(name=name, labels=labels, allocatable=allocatable))

    def submit(self, name: str, count: int, asked: TopologyRequest, priority: int = 0) -> None:
        self.now += 1
        pods = PodSet(name="main", count=count, requests=(("cpu", 1),), topology=asked)
        self.cache.submit(
            Workload(
                id=name,
                uid=name,
                namespace="ns",
                queue="q",
                created=self.now,
                priority=priority,
                pod_sets=(pods,),
            )
        )

    def fail(self, id: str, *names: str, movable: bool = True) -> Verdicts:
        for name in names:
            self.cache.delete("Node", name)
        self.cache.reservations.fail_nodes(id, names, movable)
        return self.decide()

    def decide(self) -> Verdicts:
        self.now += 1
        return self.scheduler.settle(self.now, int(self.now))

    def settle(self) -> None:
        while not self.decide().idle:
            pass

    def places(self, id: str) -> dict[str, int]:
        """How many pods of a workload are where."""
        (one,) = self.cache.reservations.admitted[id].reservation.pod_sets
        assert one.topology is not None
        return {domain.values[-1]: domain.count for domain in one.topology.domains}


@BOTH
def test_pods_of_a_failed_node_get_another_place_and_the_others_keep_theirs(
    as_kueue: bool,
) -> None:
    racks = Racks({"a1": 2, "a2": 2, "a3": 2, "b1": 9}, as_kueue=as_kueue)
    racks.submit("one", 4, RACK)
    racks.decide()
    assert racks.places("one") == {"a1": 2, "a2": 2}
    (verdict,) = racks.fail("one", "a1").node_failures
    assert verdict.nodes == ("a1",)
    assert racks.places("one") == {"a2": 2, "a3": 2}
    assert verdict.pod_sets == racks.cache.reservations.admitted["one"].reservation.pod_sets
    assert racks.decide().idle


@BOTH
def test_where_pods_of_a_failed_node_find_no_place_the_group_is_evicted(
    as_kueue: bool,
) -> None:
    racks = Racks({"a1": 2, "a2": 2, "a3": 1, "b1": 9}, as_kueue=as_kueue)
    racks.submit("one", 4, RACK)
    racks.decide()
    (verdict,) = racks.fail("one", "a1").node_failures
    assert verdict.pod_sets is None
    assert verdict.message.endswith("no replacement for unhealthy node(s): a1")
    assert 'topology "t" allows to fit only 1 out of 2 pod(s)' in verdict.why
    held = racks.cache.reservations.admitted["one"]
    assert held.evicted is not None
    assert held.evicted.effect == effect_of("NodeFailures")
    assert racks.places("one") == {"a1": 2, "a2": 2}
    assert racks.decide().idle


@pytest.mark.parity("IT-07", "IT-08")
@BOTH
def test_a_single_pod_keeps_its_place(as_kueue: bool) -> None:
    racks = Racks({"a1": 2, "a2": 2}, as_kueue=as_kueue)
    racks.submit("one", 1, RACK)
    racks.decide()
    (verdict,) = racks.fail("one", "a1", movable=False).node_failures
    assert verdict.pod_sets == racks.cache.reservations.admitted["one"].reservation.pod_sets
    assert racks.places("one") == {"a1": 1}


@BOTH
def test_a_node_that_is_well_again_changes_nothing(as_kueue: bool) -> None:
    racks = Racks({"a1": 2, "a2": 2}, as_kueue=as_kueue)
    racks.submit("one", 1, RACK)
    racks.decide()
    racks.cache.reservations.fail_nodes("one", ["a1"])
    racks.cache.reservations.fail_nodes("one", [])
    assert racks.decide().idle
    assert racks.fail("one", "a2").idle  # it has no place there


@pytest.mark.parity("IT-17")
def test_a_second_failed_node_is_replaced_too() -> None:
    nodes = {"a1": 2, "a2": 2, "a3": 2, "a4": 1, "a5": 1}
    kueue, better = Racks(nodes, as_kueue=True), Racks(nodes)
    for racks in (kueue, better):
        racks.submit("one", 6, RACK)
        racks.decide()
    (verdict,) = kueue.fail("one", "a1", "a2").node_failures
    assert verdict.message.endswith("multiple TAS assigned node failures, including: a1, a2")
    better.node("a6", 2)
    better.fail("one", "a1", "a2")
    assert better.places("one") == {"a3": 2, "a4": 1, "a5": 1, "a6": 2}


def placed(count: int, asked: TopologyRequest, nodes: Mapping[str, int]) -> list[Any]:
    """What becomes of the same group by Kueue's way and by the better one."""
    found: list[Any] = []
    for as_kueue in (True, False):
        racks = Racks(dict(nodes), as_kueue=as_kueue)
        racks.submit("one", count, asked)
        (head,) = racks.decide().heads
        found.append(head.message or racks.places("one"))
    return found


def slices(level: str, size: int, **more: Any) -> TopologyRequest:
    return TopologyRequest(slices=(SliceLayer(topology=level, size=size),), **more)


def test_a_slice_larger_than_the_group_is_refused() -> None:
    kueue, better = placed(3, slices("rack", 4), {"a1": 9})
    assert kueue == {}  # admitted, and no pod has a place
    assert better.endswith("a slice has 4 pods, and only 3 are asked for")


def test_pods_that_make_no_whole_slice_get_places() -> None:
    nodes = {"a1": 2, "a2": 2, "b1": 2}
    assert placed(6, slices("rack", 4), nodes) == [{"a1": 2, "a2": 2}, {"a1": 2, "a2": 2, "b1": 2}]
    kueue, better = placed(7, slices("rack", 4), nodes)
    assert kueue == {"a1": 2, "a2": 2}
    assert "allows to fit only 1 out of 2 slice(s)" in better


def test_below_the_level_of_slices_few_nodes_are_used() -> None:
    nodes = {"a1": 1, "a2": 4, "a3": 3}
    assert placed(4, slices("rack", 4), nodes) == [{"a1": 1, "a3": 3}, {"a2": 4}]


def test_pods_that_ask_for_no_level_are_not_scattered() -> None:
    nodes = {"a1": 1, "a2": 1, "b1": 3, "b2": 2}
    anywhere = TopologyRequest(unconstrained=True)
    assert placed(4, anywhere, nodes) == [{"a1": 1, "a2": 1, "b2": 2}, {"a1": 1, "b1": 3}]


def test_a_share_of_a_rack_stays_in_that_rack() -> None:
    """Rack `a` is given all it has, which is four pods; Kueue gives one of them to rack `b`."""
    nodes = {"a1": 1, "a2": 1, "a3": 1, "a4": 1, "b1": 2, "b2": 1}
    kueue, better = placed(5, TopologyRequest(preferred="rack"), nodes)
    assert kueue == {"a1": 1, "a2": 1, "a3": 1, "b1": 2}
    assert better == {"a1": 1, "a2": 1, "a3": 1, "a4": 1, "b2": 1}


def two_flavors(fungibility: Fungibility = ANY, *, as_kueue: bool = False) -> Racks:
    """Racks whose queue has a second flavor, for nodes with label `pool: g`."""
    racks = Racks({}, as_kueue=as_kueue)
    racks.cache.apply(Flavor(name="f", topology="t", labels={"pool": "f"}))
    racks.cache.apply(Flavor(name="g", topology="t", labels={"pool": "g"}))
    quotas = tuple(
        FlavorQuotas(name=name, resources={"cpu": Quota(nominal=100)}) for name in ("f", "g")
    )
    racks.cache.apply(
        ClusterQueue(
            name="q",
            groups=(ResourceGroup(covered=("cpu",), flavors=quotas),),
            preemption=Preemption(within_cluster_queue="LowerPriority"),
            fungibility=fungibility,
        )
    )
    return racks


def test_another_flavor_is_tried_in_the_same_pass_where_topology_refuses() -> None:
    for as_kueue, admitted in ((True, False), (False, True)):
        racks = two_flavors(as_kueue=as_kueue)
        racks.node("a1", 2, pool="f")
        racks.node("b1", 3, pool="g")
        racks.submit("one", 3, RACK)
        verdicts = racks.scheduler.decide(1)
        assert bool(verdicts.admitted) is admitted
    assert racks.places("one") == {"b1": 3}


@pytest.mark.parametrize("policy", ["TryNextFlavor", "MayStopSearch"])
def test_whether_another_flavor_comes_before_preemption_is_the_queues_choice(policy: Any) -> None:
    racks = two_flavors(Fungibility(when_can_preempt=policy))
    racks.node("a1", 3, pool="f")
    racks.submit("low", 3, RACK)
    racks.decide()
    racks.node("b1", 3, pool="g")
    racks.submit("high", 3, RACK, priority=1)
    verdicts = racks.decide()
    assert [one.id for one in verdicts.preempted] == ["low"][policy == "TryNextFlavor" :]


def test_each_flavor_that_topology_refuses_is_named() -> None:
    racks = two_flavors()
    racks.node("a1", 1, pool="f")
    racks.node("b1", 2, pool="g")
    racks.submit("one", 3, RACK)
    (head,) = racks.decide().heads
    assert head.reason == "TopologyPlacementFailed"
    assert "allows to fit only 1 out of 3" in head.message
    assert "allows to fit only 2 out of 3" in head.message


def test_the_reason_names_the_topology_where_that_is_why() -> None:
    for as_kueue, reason in ((True, "WaitingForQuota"), (False, "WaitingForTopology")):
        racks = Racks({"a1": 2, "b1": 2}, as_kueue=as_kueue)
        racks.submit("one", 2, RACK)
        racks.submit("two", 1, RACK)
        racks.submit("three", 2, RACK)
        racks.settle()
        waiting = racks.cache.queues.waiting["three"]
        assert (waiting.reason, "quota" in waiting.message) == (reason, False)


def test_what_has_no_place_and_no_quota_says_both() -> None:
    for as_kueue in (True, False):
        racks = Racks({"a1": 2, "b1": 2}, quota=4, as_kueue=as_kueue)
        racks.submit("one", 2, RACK)
        racks.submit("two", 3, RACK)
        racks.settle()
        waiting = racks.cache.queues.waiting["two"]
        assert "insufficient unused quota" in waiting.message
        assert ("allows to fit only 2 out of 3" in waiting.message) is not as_kueue


def test_a_first_group_that_never_has_a_place_does_not_block_a_strict_queue() -> None:
    for as_kueue, waits in ((True, True), (False, False)):
        racks = Racks({"a1": 2}, strategy="StrictFIFO", as_kueue=as_kueue)
        racks.submit("never", 3, RACK)
        racks.submit("one", 1, RACK)
        racks.decide()
        assert ("one" in racks.cache.queues.waiting) is waits


def test_places_are_kept_for_the_group_that_others_give_way_to() -> None:
    racks = Racks({"a1": 2, "a2": 2})
    for name in ("low-1", "low-2"):
        racks.submit(name, 2, RACK)
    racks.decide()
    racks.submit("high", 4, RACK, priority=1)
    assert {one.id for one in racks.decide().preempted} == {"low-1", "low-2"}
    racks.cache.remove("low-1")
    racks.submit("small", 1, RACK)
    racks.decide()
    assert "small" in racks.cache.queues.waiting
    racks.cache.remove("low-2")
    racks.decide()
    assert racks.places("high") == {"a1": 2, "a2": 2}


def numbered(*indexes: str, at: Mapping[int, str] | None = None) -> list[GroupPod]:
    """Pods by name, each with an index; those that run are `at` a node."""
    return [
        GroupPod(
            name=f"p{number}",
            labels={"index": index},
            gated=number not in (at or {}),
            node_selector={HOSTNAME: at[number]} if at and number in at else {},
        )
        for number, index in enumerate(indexes)
    ]


def hosts(pods: Sequence[GroupPod], each: bool, **counts: int) -> dict[str, str]:
    domains = tuple(TopologyDomain(values=(host,), count=n) for host, n in counts.items())
    assignment = TopologyAssignment(levels=(HOSTNAME,), domains=domains)
    found = ungated(assignment, assignment.count, pods, Ranks(index_label="index", each=each))
    return {name: selector[HOSTNAME] for name, selector in found.items()}


def test_one_wrong_index_costs_one_pod_its_rank() -> None:
    wrong = numbered("3", "2", "x", "1")
    assert hosts(wrong, True, a=2, b=2) == {"p0": "b", "p1": "b", "p2": "a", "p3": "a"}
    assert hosts(wrong, False, a=2, b=2) == {"p0": "a", "p1": "a", "p2": "b", "p3": "b"}


@pytest.mark.parity("IT-10")
def test_one_index_twice_costs_both_pods_their_rank() -> None:
    twice = numbered("2", "2", "1", "0")
    assert hosts(twice, True, a=1, b=1, c=2) == {"p0": "c", "p1": "c", "p2": "b", "p3": "a"}


def test_a_pod_that_runs_elsewhere_uses_up_a_place_there() -> None:
    elsewhere = numbered("0", "1", "2", at={0: "b"})
    assert hosts(elsewhere, True, a=1, b=2) == {"p1": "a", "p2": "b"}
    assert hosts(elsewhere, False, a=1, b=2) == {"p1": "a", "p2": "b"}
    running = numbered("0", "1", at={0: "b"})
    assert hosts(running, True, a=1, b=2) == {"p1": "b"}  # rank 2 is nobody's yet


def test_a_pod_that_is_missing_keeps_its_place_free() -> None:
    assert hosts(numbered("2", "0"), True, a=1, b=1, c=1) == {"p0": "c", "p1": "a"}
