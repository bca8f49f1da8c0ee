"""Groups that ask for places in builtin mode: from pods' annotations to their node selectors."""

from typing import Any

import pytest
from msgspec.structs import replace

from podgroup.fold.account import known
from podgroup.log import events as e
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
from podgroup.model.objects import NodeView, Toleration, TopologyView
from podgroup.model.topology import HOSTNAME, TopologyAssignment
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
        levels = (RACK, HOSTNAME)
        flavor = replace(self.world.flavors["f"], topology="t", resource_version=self.bump())
        self.do(
            e.ObjectApplied(
                object=TopologyView(uid="t", name="t", resource_version=self.bump(), levels=levels)
            ),
            e.ObjectApplied(object=flavor),
        )
        self.list_nodes()

    def list_nodes(self) -> None:
        relist = self.bump()
        listed = [e.ObjectApplied(object=self.view(name), relist=relist) for name in self.nodes]
        done = e.RelistCompleted(kind="Node", relist=relist, resource_version=self.bump())
        self.do(e.RelistStarted(kind="Node", relist=relist), *listed, done)

    def view(self, name: str, **more: Any) -> NodeView:
        return NodeView(
            uid=name,
            name=name,
            resource_version=self.bump(),
            labels={RACK: name[0], HOSTNAME: name, "pool": "a"},
            allocatable={"cpu": self.nodes[name] * 1000, "pods": 110},
            **more,
        )

    def node(self, name: str, **more: Any) -> None:
        """What becomes of a node."""
        self.do(e.ObjectApplied(object=self.view(name, **more)))

    def lose(self, name: str) -> None:
        """A node is deleted."""
        version = self.bump()
        self.do(
            e.ObjectDeleted(
                kind="Node", namespace="", name=name, uid=name, resource_version=version
            )
        )

    def bind(self, *names: str) -> None:
        """Pods run on the nodes that their selectors name."""
        for name in names:
            view = self.named(name)
            self.change(view.uid, node=view.node_selector[HOSTNAME], phase="Running")

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
        tree = self.world.quotas.scheduler.cache.objects.places.trees["f"]
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
    assert toy.why("g")[1] == "admitted by ClusterQueue cq, on b1, b2, b3"


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


def test_a_group_that_finds_no_node_ready_says_so() -> None:
    toy = Racks({"a1": 2})
    toy.node("a1", ready=False)
    toy.ranked("g", 1, IN_RACK)
    assert toy.why("g")[1] == (
        "no node that is ready and not cordoned has the labels of its flavors and their "
        "topologies — couldn't assign flavors to pod set r1: no topology domains at level: "
        "example.com/rack"
    )


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
    toy.world.quotas.deciding = known(toy.world)
    cache = toy.world.quotas.scheduler.cache
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
    toy.list_nodes()
    toy.pod("p")
    assert toy.why("g") == before and "has room for 2" in before[1]


@pytest.mark.parametrize("mode", ["builtin", "kueue"])
def test_in_kueue_mode_what_pods_ask_is_left_to_kueue(mode: str) -> None:
    toy = Racks(mode=mode) if mode == "builtin" else Toy(mode=mode)
    toy.pod("p", annotations=IN_RACK)
    (made,) = [d.command for d in toy.decisions if isinstance(d.command, c.CreateWorkload)]
    assert bool(made.pod_sets[0].topology.required) == (mode == "builtin")


TAINT = Toleration(key="maintenance", effect="NoSchedule")


@pytest.mark.parity("IT-09")
@pytest.mark.parametrize("restarted", [False, True])
def test_pods_of_a_node_that_is_gone_get_another_and_those_that_run_stay(restarted: bool) -> None:
    toy = Racks({"a1": 2, "a2": 2, "a3": 2})
    toy.bind(*toy.ranked("g", 4, IN_RACK))
    if restarted:
        toy.world.quotas.deciding = known(toy.world)
    toy.lose("a2")
    (command,) = [d.command for d in toy.decisions if isinstance(d.command, c.ReplaceNodes)]
    assert command.nodes == ("a2",)
    place = toy.place("g")
    assert [(d.values, d.count) for d in place.domains] == [(("a1",), 2), (("a3",), 2)]
    assert (toy.taken("a1"), toy.taken("a3")) == (2000, 2000)
    assert toy.named("g0").phase == "Running" and not toy.stopped("g2")[0]
    toy.end("g2", phase="Failed")
    toy.pod("again", "g", 4, labels={POD_INDEX: "2"}, annotations=IN_RACK)
    assert toy.hosts("again") == ["a3"]


def test_a_node_that_is_not_ready_has_failed_once_nothing_runs_there() -> None:
    toy = Racks({"a1": 2, "a2": 2, "a3": 2})
    toy.slow = True
    toy.bind(*toy.ranked("g", 4, IN_RACK))
    toy.node("a2", ready=False)
    assert {d.values[0] for d in toy.place("g").domains} == {"a1", "a2"}, "its pods may live"
    toy.delete("g2")
    toy.delete("g3")
    assert {d.values[0] for d in toy.place("g").domains} == {"a1", "a3"}


@pytest.mark.parity("IT-11", "IT-12", "IT-13", "IT-14", "IT-18")
@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
@pytest.mark.parametrize("tolerated", [True, False])
def test_a_tainted_node_has_failed_for_pods_that_do_not_tolerate_it(
    tolerated: bool, effect: str
) -> None:
    toy = Racks({"a1": 2, "a2": 2, "a3": 2})
    own = (Toleration(key="maintenance", operator="Exists"),) if tolerated else ()
    toy.bind(*toy.ranked("g", 4, IN_RACK, tolerations=own))
    toy.node("a2", taints=(replace(TAINT, effect=effect),))
    toy.end("g2", phase="Failed")
    assert {d.values[0] for d in toy.place("g").domains} == {"a1", "a2"}, "g3 runs there"
    toy.end("g3", phase="Failed")
    other = "a2" if tolerated else "a3"
    assert {d.values[0] for d in toy.place("g").domains} == {"a1", other}


@pytest.mark.parity("IT-16")
def test_who_finds_no_other_place_is_evicted_and_waits_for_nodes() -> None:
    toy = Racks({"a1": 2, "a2": 2})
    names = toy.ranked("g", 4, IN_RACK)
    toy.bind(*names)
    toy.lose("a2")
    reason, message = toy.stopped("g0")
    assert reason == "WorkloadEvictedDueToNodeFailures"
    assert message.startswith("no other nodes have room for its pods of failed nodes: a2 — ")
    assert toy.condition("g", "Evicted")[1] == "NodeFailures"
    again = [f"h{i}" for i in range(4)]
    for i, name in enumerate(again):
        toy.pod(name, "g", 4, labels={POD_INDEX: str(i)}, annotations=IN_RACK)
    assert toy.hosts(*again) == [""] * 4
    toy.node("a2")
    assert toy.hosts(*again) == ["a1", "a1", "a2", "a2"]


@pytest.mark.parity("IT-06")
def test_a_pod_that_was_started_for_a_failed_node_is_stopped_before_it_is_bound() -> None:
    toy = Racks({"a1": 2, "a2": 2, "a3": 2})
    toy.ranked("g", 4, IN_RACK)
    toy.bind("g0", "g1", "g2")
    toy.node("a2", ready=False)
    assert toy.named("g3").node_selector[HOSTNAME] == "a2", "g2 runs there"
    toy.end("g2", phase="Failed")
    assert toy.stopped("g3")[0] == "UnschedulableOnAssignedNode"
    assert not toy.stopped("g0")[0]


@pytest.mark.parametrize("away", [{"ready": False}, {"unschedulable": True}])
def test_a_node_is_replaced_while_another_one_is_away(away: dict[str, bool]) -> None:
    toy = Racks({"a1": 2, "a2": 2, "a3": 2, "a4": 2})
    toy.bind(*toy.ranked("g", 6, IN_RACK))
    toy.node("a2", **away)
    toy.end("g0", phase="Failed")
    toy.lose("a1")
    assert not [d for d in toy.decisions if isinstance(d.command, c.EvictGroup)]
    places = {one.values[0]: one.count for one in toy.place("g").domains}
    assert places == {"a2": 2, "a3": 2, "a4": 2}, "pods of a2 run on"


def test_a_single_pod_is_never_moved() -> None:
    toy = Racks({"a1": 2, "a2": 2})
    toy.pod("p", annotations=IN_RACK)
    toy.bind("p")
    (host,) = toy.hosts("p")
    toy.lose(host)
    assert not [d for d in toy.decisions if isinstance(d.command, c.ReplaceNodes | c.EvictGroup)]


def test_a_single_pod_that_is_not_bound_is_stopped_when_its_node_is_gone() -> None:
    toy = Racks({"a1": 2, "a2": 2})
    toy.pod("p", annotations=IN_RACK)
    (host,) = toy.hosts("p")
    toy.lose(host)
    assert toy.stopped("p")[0], "it could wait for that node for ever, and hold quota"


@pytest.mark.parity("IT-15")
def test_a_pod_that_is_being_started_for_a_node_that_goes_is_stopped_once_it_was() -> None:
    toy = Racks({"a1": 2, "a2": 2})
    toy.act = False
    toy.ranked("g", 2, IN_RACK)
    (ungate, *_) = [d for d in toy.decisions if isinstance(d.command, c.UngatePod)]
    toy.lose("a1")
    toy.act = True
    toy.settle()
    lost = [n for n, h in zip(("g0", "g1"), toy.hosts("g0", "g1"), strict=True) if h == "a1"]
    assert lost and all(toy.stopped(name)[0] for name in lost), ungate


@pytest.mark.parity("IT-19")
def test_a_gated_pod_waits_for_its_node_and_starts_when_it_is_back() -> None:
    toy = Racks({"a1": 2, "a2": 2})
    toy.bind(*toy.ranked("g", 4, IN_RACK))
    toy.node("a2", ready=False)
    toy.end("g3", phase="Failed")
    toy.pod("again", "g", 4, labels={POD_INDEX: "3"}, annotations=IN_RACK)
    assert toy.hosts("again") == [""], "g2 runs there, so the place stays"
    toy.node("a2")
    assert toy.hosts("again") == ["a2"]


@pytest.mark.parametrize("levels", [("pool", RACK, HOSTNAME), ("pool", RACK)])
def test_a_node_fails_while_the_topology_is_made_anew(levels: tuple[str, ...]) -> None:
    """Its levels can be others then, and pods on their way to a place have one of the old ones."""
    toy = Racks({"a1": 2, "a2": 2, "a3": 2})
    toy.act = False
    toy.ranked("g", 4, IN_RACK)
    version = toy.bump()
    toy.do(
        e.ObjectDeleted(kind="Topology", namespace="", name="t", uid="t", resource_version=version)
    )
    toy.lose("a2")
    again = TopologyView(uid="t2", name="t", resource_version=toy.bump(), levels=levels)
    toy.do(e.ObjectApplied(object=again))
    toy.act = True
    toy.settle()
    if levels[-1] == HOSTNAME:
        assert {one.values[-1] for one in toy.place("g").domains} == {"a1", "a3"}
    else:
        assert toy.condition("g", "Evicted")[1] == "NodeFailures", "a place there is none any more"
    stopped = [name for name in ("g0", "g1", "g2", "g3") if toy.stopped(name)[0]]
    assert stopped == (["g2", "g3"] if levels[-1] == HOSTNAME else ["g0", "g1", "g2", "g3"])
