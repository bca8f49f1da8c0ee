"""Rows about topology: what Kueue's scheduler and its ungater find on Workloads and pods of ours.

Kueue assigns domains and takes the topology gate off; the pod side asks for a topology with the
Workload, starts pods with that gate still on, and marks them so that the ungater finds them.
"""

from typing import Any

import msgspec
import pytest

from actuator.workloads import workload
from podgroup.model.commands import CreateWorkload
from podgroup.model.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    POD_INDEX,
    PODSET_LABEL,
    ROLE_HASH,
    TOPOLOGY_GATE,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_UNCONSTRAINED,
    WORKLOAD_ANNOTATION,
)
from podgroup.model.objects import Condition, PodView
from tests.parity.groups import SHORT
from tests.support.toy import Toy

GATES = (ADMISSION_GATE, TOPOLOGY_GATE)
BLOCK = {TOPOLOGY_REQUIRED: "example.com/block"}
RACK = {TOPOLOGY_PREFERRED: "example.com/rack"}


def pod(toy: Toy, name: str, group: str = "", total: int = 0, **more: Any) -> PodView:
    return toy.pod(name, group, total, gates=GATES, **more)


def ranked(toy: Toy, count: int, annotations: dict[str, str]) -> list[str]:
    """A group `g` whose pods say which one of it they are."""
    names = [f"p{i}" for i in range(count)]
    for i, name in enumerate(names):
        pod(toy, name, "g", count, labels={POD_INDEX: str(i)}, annotations=annotations)
    return names


def asked(toy: Toy, name: str) -> list[Any]:
    """What the Workload's podsets ask for, as it is written from live pods."""
    command = next(d.command for d in toy.decisions if isinstance(d.command, CreateWorkload))
    assert command.target.name == name
    samples = {}
    for item in command.pod_sets:
        assert item.sample is not None
        view = toy.last[item.sample.name]
        samples[item.name] = {
            "metadata": {"annotations": view.annotations},
            "spec": {"schedulingGates": [{"name": g} for g in GATES], "containers": []},
        }
    sets = workload(command, samples, "v1beta2")["spec"]["podSets"]
    return [(s["count"], s["topologyRequest"]) for s in sets]


def place(toy: Toy, name: str) -> None:
    """Admit a Workload with a domain for each of its podsets."""
    toy.reserve(name)
    given = tuple(
        msgspec.structs.replace(a, topology=True) for a in toy.workloads[name].assignments
    )
    toy.say(name, Condition(type="Admitted", status="True", reason="Admitted"), assignments=given)


def unplace(toy: Toy, name: str, node: str) -> None:
    """Take the topology gate off, as the ungater does with a pod for which it has a node."""
    view = toy.named(name)
    gates = tuple(g for g in view.gates if g != TOPOLOGY_GATE)
    hostname = {"kubernetes.io/hostname": node}
    toy.change(view.uid, gates=gates, node_selector={**view.node_selector, **hostname})


def enrolled(toy: Toy, name: str, owner: str, pod_set: str) -> bool:
    """Whether the ungater sees a pod: past our gate, at its own, and marked."""
    view = toy.named(name)
    return (
        view.gates == (TOPOLOGY_GATE,)
        and view.labels[PODSET_LABEL] == pod_set
        and view.annotations[WORKLOAD_ANNOTATION] == owner
    )


@pytest.mark.parity("I-35", "E-10")
def test_a_single_pod_asks_for_its_topology_and_starts_at_the_ungaters_gate() -> None:
    toy = Toy(mode="kueue")
    pod(toy, "foo", annotations=BLOCK)
    (name,) = toy.workloads
    request = {"required": "example.com/block", "podIndexLabel": POD_INDEX}
    assert asked(toy, name) == [(1, request)]
    place(toy, name)
    assert enrolled(toy, "foo", name, "main")
    unplace(toy, "foo", "x1")
    toy.run("foo")
    toy.end("foo")
    assert toy.condition(name, "Finished")[:2] == ("True", "Succeeded")


@pytest.mark.parity("I-36", "E-11")
def test_a_group_asks_for_one_topology_for_all_its_pods() -> None:
    toy = Toy(mode="kueue")
    names = ranked(toy, 2, BLOCK)
    request = {"required": "example.com/block", "podIndexLabel": POD_INDEX}
    assert asked(toy, "g") == [(2, request)]
    place(toy, "g")
    assert all(enrolled(toy, name, "g", "r1") for name in names)


@pytest.mark.parity("E-12")
def test_ranks_reach_the_ungater() -> None:
    """The Workload names the label, and each pod keeps its own value of it."""
    toy = Toy(mode="kueue")
    names = ranked(toy, 4, BLOCK)
    ((_, request),) = asked(toy, "g")
    place(toy, "g")
    found = [toy.named(name).labels[request["podIndexLabel"]] for name in names]
    assert found == ["0", "1", "2", "3"]
    assert {toy.named(name).labels[GROUP_NAME] for name in names} == {"g"}


@pytest.mark.parity("E-13")
def test_where_a_flavor_has_a_topology_a_pod_that_asks_for_none_is_marked() -> None:
    toy = Toy(mode="kueue")
    pod(toy, "foo")
    (name,) = toy.workloads
    place(toy, name)
    assert enrolled(toy, "foo", name, "main")
    assert toy.named("foo").annotations[TOPOLOGY_UNCONSTRAINED] == "true"


@pytest.mark.parity("I-37", "I-38")
@pytest.mark.parametrize("ran", [True, False])
def test_pods_of_a_failed_node_are_held_while_their_workload_moves(ran: bool) -> None:
    """Kueue gives an admitted Workload another node once its pods have ended there."""
    toy = Toy(mode="kueue")
    names = ranked(toy, 2, RACK)
    place(toy, "g")
    for name in names:
        unplace(toy, name, "x1")
        toy.change(toy.named(name).uid, node="x1")
    if ran:
        toy.run(*names)
    toy.end(*names, phase="Failed")
    assert toy.condition("g", SHORT)[:2] == ("True", "PodsFailed")
    assert "Admitted" in toy.true("g") and "Finished" not in toy.true("g")
    moved = [a for a in toy.workloads["g"].assignments if a.topology]
    before = len(toy.decisions)
    toy.say("g", assignments=tuple(moved))
    assert len(toy.decisions) == before and all(toy.held(name) for name in names)
    for i in range(2):
        pod(toy, f"n{i}", "g", 2, labels={POD_INDEX: str(i)}, annotations=RACK)
        assert enrolled(toy, f"n{i}", "g", "r1")
    assert toy.condition("g", SHORT)[0] == "False"
    assert not any(toy.held(name) for name in names)


@pytest.mark.parity("I-39")
def test_a_replacement_waits_for_the_ungater_and_for_nobody_else() -> None:
    """No other node is free: the group keeps its admission, its new pod the gate of the ungater."""
    toy = Toy(mode="kueue")
    names = ranked(toy, 2, RACK)
    place(toy, "g")
    for i, name in enumerate(names):
        unplace(toy, name, f"x{i}")
    toy.run(*names)
    toy.end("p0", phase="Failed")
    pod(toy, "new", "g", 2, labels={POD_INDEX: "0"}, annotations=RACK)
    assert toy.condition("g", SHORT)[0] == "False"
    assert enrolled(toy, "new", "g", "r1")
    assert "kubernetes.io/hostname" not in toy.named("new").node_selector
    assert toy.named("new").labels[POD_INDEX] == "0"
    assert "Admitted" in toy.true("g") and ROLE_HASH not in toy.named("new").annotations
