"""Groups that ask for places in builtin mode: from pods' annotations to their node selectors."""

from typing import Any

import pytest
from msgspec.structs import replace

from podgroup.model import commands as c
from podgroup.model.names import (
    ADMISSION_GATE,
    FAST_ADMISSION,
    POD_INDEX,
    PRIORITY_CLASS,
    SLICE_REQUIRED,
    SLICE_SIZE,
    TOPOLOGY_GATE,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_UNCONSTRAINED,
)
from podgroup.model.objects import NodeView
from podgroup.model.topology import HOSTNAME, TopologyAssignment
from podgroup.rules.helpers.scheduler_mirror import SchedulerMirror
from tests.support.toy import Toy

RACK = "example.com/rack"
IN_RACK = {TOPOLOGY_REQUIRED: RACK}
FAST = {FAST_ADMISSION: "true"}
NEAR = {TOPOLOGY_PREFERRED: RACK}
NODES = dict.fromkeys(("a1", "a2", "b1", "b2", "b3"), 2)
"""Cores by node; the first letter is the rack."""


class Racks(Toy):
    """A toy whose flavor `f` has a topology of racks and hosts."""

    def __init__(self, nodes: dict[str, int] | None = None, **more: Any) -> None:
        super().__init__(cpu=100, **more)
        self.nodes = NODES if nodes is None else nodes
        self.give_places()

    def give_places(self) -> None:
        if self.world.scheduler_mirror is None:
            self.world.scheduler_mirror = SchedulerMirror(self.world)
        cache = self.world.scheduler_mirror.scheduler.cache
        cache.set_topology("t", [RACK, HOSTNAME])
        cache.set_flavor(replace(cache.flavors["f"], topology="t", labels={}))
        for name, cpu in self.nodes.items():
            labels = {RACK: name[0], HOSTNAME: name}
            allocatable = {"cpu": cpu * 1000, "pods": 110}
            cache.set_node(NodeView(name=name, labels=labels, allocatable=allocatable))

    def ranked(self, name: str, count: int, asked: dict[str, str], **more: Any) -> list[str]:
        names = [f"{name}{i}" for i in range(count)]
        labels = more.pop("labels", {})
        for i, pod in enumerate(names):
            ranked = {POD_INDEX: str(i), **labels}
            self.pod(pod, name, count, labels=ranked, annotations=asked, **more)
        return names

    def hosts(self, *names: str) -> list[str]:
        return [self.named(name).node_selector.get(HOSTNAME, "") for name in names]

    def place(self, name: str) -> TopologyAssignment:
        (assignment,) = self.workloads[name].assignments
        assert assignment.place is not None
        return assignment.place

    def why(self, name: str) -> tuple[str, str]:
        group = self.world.groups[self.world.lives["group", "ns", name]]
        return group.explained.reason, group.explained.message

    def taken(self, host: str) -> int:
        """Thousandths of cores that groups hold of a node, as admission counts them."""
        tree = self.world.scheduler_mirror.scheduler.cache.places.trees["f"]
        return int(tree.leaves[(host,)].held.get("cpu", 0))


def test_a_group_goes_to_one_rack_in_the_order_of_its_ranks() -> None:
    toy = Racks()
    names = toy.ranked("g", 5, IN_RACK)
    assert toy.hosts(*names) == ["b1", "b1", "b2", "b2", "b3"]
    for name in names:
        pod = toy.named(name)
        assert pod.node_selector == {"pool": "a", HOSTNAME: pod.node_selector[HOSTNAME]}
        assert not pod.gates
        assert TOPOLOGY_UNCONSTRAINED not in pod.annotations
    (command,) = [d.command for d in toy.decisions if isinstance(d.command, c.AdmitGroup)]
    assert command.assignments[0].place == toy.place("g"), "it is recorded, and mirrored"
    assert (toy.taken("b1"), toy.taken("a1")) == (2000, 0)


def test_both_gates_go_at_once_and_pods_that_ask_for_nothing_are_marked() -> None:
    toy = Racks()
    toy.pod("p", gates=(ADMISSION_GATE, TOPOLOGY_GATE))
    (ungated,) = [d.command for d in toy.decisions if isinstance(d.command, c.UngatePod)]
    assert ungated.gates == (ADMISSION_GATE, TOPOLOGY_GATE)
    assert toy.named("p").annotations[TOPOLOGY_UNCONSTRAINED] == "true"
    assert toy.hosts("p") != [""]


def test_what_does_not_fit_waits_and_starts_once_places_are_free() -> None:
    toy = Racks()
    first = toy.ranked("g", 5, IN_RACK)
    waits = toy.ranked("h", 5, IN_RACK)
    assert toy.hosts(*waits) == [""] * 5
    _, message = toy.why("h")
    assert message.startswith(
        "needs 5 pods of role r1 in one rack; the best rack has room for 4 — "
    )
    assert 'topology "t" allows to fit only 4 out of 5 pod(s)' in message
    for name in first:
        toy.run(name)
        toy.end(name)
    assert toy.hosts(*waits) == ["b1", "b1", "b2", "b2", "b3"]


def test_equal_groups_that_ask_for_other_places_do_not_answer_for_each_other() -> None:
    toy = Racks()
    toy.ranked("g", 5, IN_RACK)
    assert toy.hosts(*toy.ranked("h", 5, IN_RACK)) == [""] * 5
    assert "" not in toy.hosts(*toy.ranked("i", 5, NEAR))


def test_a_replacement_gets_the_place_of_its_predecessor() -> None:
    toy = Racks()
    names = toy.ranked("g", 5, IN_RACK)
    toy.run(*names)
    toy.end("g2", phase="Failed")
    toy.pod("again", "g", 5, labels={POD_INDEX: "2"}, annotations=IN_RACK)
    assert toy.hosts("again") == ["b2"]


def test_a_replacement_without_a_rank_gets_the_place_that_is_free() -> None:
    toy = Racks()
    names = toy.ranked("g", 5, IN_RACK)
    toy.run(*names)
    toy.end("g4", phase="Failed")
    toy.pod("again", "g", 5, annotations=IN_RACK)
    assert toy.hosts("again") == ["b3"]


def test_pods_that_are_being_started_take_their_places_already() -> None:
    toy = Racks({"a1": 2, "a2": 2})
    toy.pod("g0", "g", 4, annotations={**IN_RACK, **FAST})
    toy.act = False
    for name in ("g1", "g2", "g3"):
        toy.pod(name, "g", 4, annotations={**IN_RACK, **FAST})
    toy.act = True
    toy.settle()
    assert sorted(toy.hosts("g0", "g1", "g2", "g3")) == ["a1", "a1", "a2", "a2"]


def test_places_are_held_again_after_a_restart() -> None:
    toy = Racks()
    toy.ranked("g", 5, IN_RACK)
    toy.world.scheduler_mirror = None
    toy.give_places()
    cache = toy.world.scheduler_mirror.scheduler.cache
    cache.settle(0)
    assert (toy.taken("b1"), toy.taken("b2"), toy.taken("b3")) == (2000, 2000, 1000)
    assert toy.hosts(*toy.ranked("h", 2, IN_RACK)) == ["a1", "a1"]


def test_who_has_no_place_makes_room_among_lower_priorities() -> None:
    toy = Racks()
    low = toy.ranked("g", 5, IN_RACK)
    toy.run(*low)
    waits = toy.ranked("h", 5, IN_RACK, labels={PRIORITY_CLASS: "high"})
    assert toy.stopped("g0")[0] == "WorkloadEvictedDueToPreempted"
    assert toy.hosts(*waits) == ["b1", "b1", "b2", "b2", "b3"]


def test_slices_are_asked_for() -> None:
    toy = Racks()
    asked = {SLICE_REQUIRED: HOSTNAME, SLICE_SIZE: "2"}
    names = toy.ranked("g", 4, asked)
    hosts = toy.hosts(*names)
    assert len(set(hosts)) == 2 and hosts[0] == hosts[1]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({SLICE_REQUIRED: RACK, SLICE_SIZE: "5"}, "needs 2 times 5 pods, each in one rack; "),
        (NEAR, "needs 11 pods of role r1; all nodes of its flavors together have room for 10"),
        ({TOPOLOGY_REQUIRED: "zone"}, "can never start: no flavor's topology has the level"),
    ],
)
def test_what_has_no_room_is_said_in_plain_words(asked: dict[str, str], words: str) -> None:
    toy = Racks()
    toy.ranked("g", 11 if asked is NEAR else 10, asked)
    assert toy.why("g")[1].startswith(words), toy.why("g")


def test_pods_that_ask_for_different_places_are_named_with_what_they_say() -> None:
    toy = Racks()
    toy.pod("p0", "g", 2, annotations=IN_RACK)
    toy.pod("p1", "g", 2)
    reason, message = toy.why("g")
    assert reason == "DifferentTopologies"
    assert "'p0' and 'p1'" in message and f"{RACK} and none" in message
    toy.delete("p1")
    toy.pod("p2", "g", 2, annotations=IN_RACK)
    assert toy.hosts("p0", "p2") == ["a1", "a1"]


def test_a_reason_is_not_said_again_because_a_node_came() -> None:
    toy = Racks({"a1": 2})
    toy.ranked("g", 5, IN_RACK)
    before = toy.why("g")
    toy.nodes = {"a1": 2, "b1": 2, "b2": 1}
    toy.give_places()
    toy.pod("p")
    assert toy.why("g") == before and "has room for 2" in before[1]


@pytest.mark.parametrize("mode", ["builtin", "kueue"])
def test_in_kueue_mode_what_pods_ask_is_left_to_kueue(mode: str) -> None:
    toy = Racks(mode=mode) if mode == "builtin" else Toy(mode=mode)
    toy.pod("p", annotations=IN_RACK)
    (made,) = [d.command for d in toy.decisions if isinstance(d.command, c.CreateWorkload)]
    assert bool(made.pod_sets[0].topology.required) == (mode == "builtin")
