"""kueue mode: what Kueue says of a Workload in one write, or in several that were not all seen.

Not covered: the same over real processes (tests/e2e).
"""

import pytest
from msgspec.structs import replace

from podgroup.log import events as e
from podgroup.model.commands import UngatePod
from podgroup.model.objects import Condition, FlavorView
from podgroup.model.topology import TopologyAssignment, TopologyDomain
from tests.support.toy import Toy

SAID_TOGETHER = [
    ("Preempted", True),
    ("PodsReadyTimeout", True),
    ("AdmissionCheck", True),
    ("NodeFailures", True),
    ("ClusterQueueStopped", True),
    ("Deactivated", False),
    ("DeactivatedDueToRequeuingLimitExceeded", False),
]


def admitted_and_evicted(toy: Toy, name: str, reason: str, active: bool) -> None:
    """One version of the Workload says both."""
    w = toy.workloads[name]
    toy.reserve(
        name,
        active=active,
        conditions=(
            *w.conditions,
            Condition(type="QuotaReserved", status="True", reason="QuotaReserved", at=toy.now),
            Condition(type="Admitted", status="True", reason="Admitted", at=toy.now),
            Condition(type="Evicted", status="True", reason=reason, message="By test", at=toy.now),
        ),
    )


@pytest.mark.parametrize(("reason", "active"), SAID_TOGETHER)
@pytest.mark.parametrize("size", [1, 2])
def test_an_eviction_that_is_seen_with_its_admission_starts_nothing(
    reason: str, active: bool, size: int
) -> None:
    toy = Toy(mode="kueue")
    for number in range(size):
        toy.pod(f"p{number}", "g", size)
    admitted_and_evicted(toy, "g", reason, active)
    assert all(toy.gated(f"p{number}") for number in range(size))
    assert not any(isinstance(d.command, UngatePod) for d in toy.decisions)
    assert toy.condition("g", "QuotaReserved")[0] == "False"
    assert toy.workloads["g"].cluster_queue == ""


@pytest.mark.parametrize("reason", ["Preempted", "PodsReadyTimeout"])
@pytest.mark.parametrize("pods_first", [True, False])
def test_what_runs_of_an_eviction_that_a_new_log_finds_is_stopped(
    reason: str, pods_first: bool
) -> None:
    """Two patches while nothing watched, pods that run, and a state that knows nothing."""
    before = Toy(mode="kueue")
    for name in ("a", "b"):
        before.pod(name, "g", 2)
    before.admit("g")
    before.run("a", "b")
    before.act = False
    before.evict("g", reason)
    toy = Toy(mode="kueue")
    toy.pods, toy.workloads, toy.last = before.pods, before.workloads, before.last
    toy.version, toy.now, toy._uid = before.version, before.now, before._uid
    pods = [e.PodApplied(pod=view) for view in toy.pods.values()]
    workloads = [e.WorkloadApplied(workload=view) for view in toy.workloads.values()]
    for listed in (pods, workloads) if pods_first else (workloads, pods):
        toy.send(*listed)
    toy.settle()
    assert toy.stopped("a") == toy.stopped("b")
    assert toy.stopped("a")[0] == f"WorkloadEvictedDueTo{reason}"
    assert toy.condition("g", "QuotaReserved")[0] == "False"
    assert toy.condition("g", "Requeued")[0] == ("True" if reason == "Preempted" else "False")


@pytest.mark.parametrize("again", ["Preempted", "PodsReadyTimeout"])
def test_a_second_eviction_with_a_readmission_between_that_was_not_seen(again: str) -> None:
    toy = Toy(mode="kueue")
    for name in ("a", "b"):
        toy.pod(name, "g", 2)
    toy.reserve("g")
    toy.evict("g", "Preempted")
    assert toy.condition("g", "QuotaReserved")[0] == "False"
    admitted_and_evicted(toy, "g", again, active=True)
    assert toy.gated("a") and toy.gated("b")
    assert toy.workloads["g"].cluster_queue == ""
    toy.admit("g")
    assert not toy.gated("a") and not toy.gated("b")


def test_a_readmission_in_another_flavor_is_the_one_that_pods_start_with() -> None:
    """Its release and the admission after it are seen as one change."""
    toy = Toy(mode="kueue")
    blue = FlavorView(uid="b", name="b", resource_version=toy.bump(), node_labels={"pool": "b"})
    toy.do(e.ObjectApplied(object=blue))
    toy.pod("a", "g", 1)
    toy.reserve("g")
    gone, blue_one = (
        tuple(replace(one, flavors={"cpu": name}) for one in toy.workloads["g"].assignments)
        for name in ("gone", "b")
    )
    admitted = Condition(type="Admitted", status="True", reason="Admitted", at=toy.now)
    toy.say("g", admitted, assignments=gone)
    assert toy.gated("a"), "it has a flavor that is not there"
    toy.say("g", assignments=blue_one)
    assert toy.named("a").node_selector == {"pool": "b"}
    holding = toy.group("g").quota.holding
    assert (holding.number, holding.admission.assignments) == (2, blue_one)


@pytest.mark.parametrize("reason", ["Succeeded", "Failed"])
def test_an_end_that_is_seen_with_its_admission_starts_nothing(reason: str) -> None:
    toy = Toy(mode="kueue")
    toy.pod("a", "g", 1)
    w = toy.workloads["g"]
    toy.reserve(
        "g",
        conditions=(
            *w.conditions,
            Condition(type="Admitted", status="True", reason="Admitted", at=toy.now),
            Condition(type="Finished", status="True", reason=reason, message="m", at=toy.now),
        ),
    )
    assert toy.gated("a")
    assert not any(isinstance(d.command, UngatePod) for d in toy.decisions)


def on_hosts(toy: Toy, name: str, *hosts: str) -> None:
    """Admit a Workload in a flavor with a topology, a pod on each host."""
    toy.reserve(name)
    place = TopologyAssignment(
        levels=("kubernetes.io/hostname",),
        domains=tuple(TopologyDomain(values=(host,), count=1) for host in hosts),
    )
    given = tuple(
        replace(one, topology=True, place=place) for one in toy.workloads[name].assignments
    )
    admitted = Condition(type="Admitted", status="True", reason="Admitted", at=toy.now)
    toy.say(name, admitted, assignments=given)


def test_a_pods_place_is_kueues_until_the_topology_gate_is_off() -> None:
    toy = Toy(mode="kueue")
    both = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
    for name in ("a", "b"):
        toy.pod(name, "g", 2, gates=both)
    on_hosts(toy, "g", "x1", "x2")
    for name in ("a", "b"):
        assert toy.named(name).gates == ("kueue.x-k8s.io/topology",)
        assert "kubernetes.io/hostname" not in toy.named(name).node_selector
        assert toy.named(name).node_selector == {"pool": "a"}


def test_no_pod_without_the_topology_gate_is_sent_to_a_node_that_failed() -> None:
    toy = Toy(mode="kueue")
    for name in ("a", "b"):
        toy.pod(name, "g", 2)
    toy.reserve("g", unhealthy_nodes=("x1",))
    on_hosts(toy, "g", "x1", "x2")
    hosts = [toy.named(n).node_selector.get("kubernetes.io/hostname") for n in ("a", "b")]
    assert sorted(map(str, hosts)) == ["None", "x2"] and toy.gated("ab"[hosts.index(None)])
    place = TopologyAssignment(
        levels=("kubernetes.io/hostname",),
        domains=tuple(TopologyDomain(values=(host,), count=1) for host in ("x2", "x3")),
    )
    given = tuple(replace(one, place=place) for one in toy.workloads["g"].assignments)
    toy.say("g", assignments=given, unhealthy_nodes=())
    hosts = [toy.named(n).node_selector.get("kubernetes.io/hostname") for n in ("a", "b")]
    assert sorted(map(str, hosts)) == ["x2", "x3"]
