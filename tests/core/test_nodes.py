"""Nodes and Topologies as facts: when they are known, what admission is told of them, and rows."""

from typing import Any

import msgspec

from podgroup.fold.account import known
from podgroup.folding import Stored, drain_journal, load_world
from podgroup.log.events import (
    Event,
    NodesTaken,
    ObjectApplied,
    ObjectDeleted,
    RelistCompleted,
    RelistStarted,
)
from podgroup.model.names import QUEUE_NAME
from podgroup.model.objects import (
    QUEUE_KINDS,
    FlavorQuotas,
    FlavorView,
    LocalQueueView,
    NodeView,
    Quota,
    ResourceGroup,
    TopologyView,
)
from podgroup.state.world import World
from tests.core.test_queueing import said
from tests.support.toy import Toy

HOST = "kubernetes.io/hostname"


def node(toy: Toy, name: str, **changes: Any) -> NodeView:
    view = NodeView(
        uid=name,
        name=name,
        resource_version=toy.bump(),
        labels={"pool": "a", "rack": "r1", HOST: name},
        allocatable={"cpu": 4000, "pods": 10},
    )
    return msgspec.structs.replace(view, **changes)


def topology(toy: Toy, *levels: str) -> TopologyView:
    version = toy.bump()
    return TopologyView(
        uid="t", name="t", resource_version=version, levels=levels or ("rack", HOST)
    )


def relist(toy: Toy, *nodes: NodeView) -> list[Event]:
    name = toy.bump()
    found: list[Event] = [RelistStarted(kind="Node", relist=name)]
    found += [ObjectApplied(object=one, relist=name) for one in nodes]
    return [*found, RelistCompleted(kind="Node", relist=name, resource_version=toy.bump())]


def name_topology(toy: Toy, name: str = "t") -> None:
    flavor = toy.world.flavors["f"]
    toy.do(
        ObjectApplied(
            object=msgspec.structs.replace(flavor, topology=name, resource_version=toy.bump())
        )
    )


def placed() -> Toy:
    """A cluster with a topology and two nodes."""
    toy = Toy()
    toy.do(ObjectApplied(object=topology(toy)))
    name_topology(toy)
    toy.do(*relist(toy, node(toy, "n1"), node(toy, "n2")))
    return toy


def with_nodes(toy: Toy) -> Toy:
    """Let the flavor of another queue name a topology, a node change, and a pod have a place."""
    other = FlavorView(uid="o", name="o", resource_version=toy.bump(), topology="t", marked=True)
    toy.do(ObjectApplied(object=topology(toy)), ObjectApplied(object=other))
    toy.do(*relist(toy, node(toy, "n1"), node(toy, "n2")))
    toy.do(NodesTaken(at=toy.now, taken={"n1": {"cpu": 1500, "pods": 2}}))
    toy.do(ObjectApplied(object=node(toy, "n1", ready=False)))
    flavors = (FlavorQuotas(name="o", resources={"cpu": Quota(nominal=4000)}),)
    groups = (ResourceGroup(covered=("cpu",), flavors=flavors),)
    queue = msgspec.structs.replace(toy.cluster_queue(4), uid="near", name="near", groups=groups)
    local = LocalQueueView(
        uid="lnear",
        namespace="ns",
        name="near",
        resource_version=toy.bump(),
        cluster_queue="near",
        active=("True", "Ready", "Can submit new workloads to localQueue"),
    )
    toy.do(ObjectApplied(object=queue), ObjectApplied(object=local))
    toy.pod("placed", cpu=2, labels={QUEUE_NAME: "near"})
    return toy


def free(world: World) -> dict[str, dict[str, int]]:
    """What admission takes for free on each node."""
    cache = (world.quotas.deciding or known(world)).scheduler.cache
    cache.settle(0, sample=False)
    tree = cache.objects.places.trees.get("f")
    return {} if tree is None else {path[-1]: leaf.free for path, leaf in tree.leaves.items()}


def reloaded(world: World) -> World:
    objects = [view for kind in QUEUE_KINDS for view in world.objects_of(kind).values()]
    return load_world("test", "builtin", Stored(meta=world.meta, objects=objects))


def rows(toy: Toy) -> list[tuple[str, int | None, bool]]:
    """Rows of nodes since the last call: name, position of the end, and whether it was ready."""
    found = drain_journal(toy.world).journal.places
    return [
        (view.name, end.position if end is not None else None, view.ready)
        for (kind, _, _), (view, end) in found.items()
        if isinstance(view, NodeView)
    ]


def test_a_queue_is_inactive_until_its_topology_and_all_nodes_are_known() -> None:
    toy = Toy()
    name_topology(toy)
    queue = toy.world.cluster_queues
    assert said(toy)[-2:][0] == ("cq", "False", "TopologyNotFound")
    words = 'Can\'t admit new workloads: there is no Topology "t" for TAS flavor "f".'
    assert queue["cq"].active[2] == words
    toy.pod("p", cpu=1)
    (group,) = toy.world.groups.values()
    assert group.quota.reason == (
        "ClusterQueueInactive",
        'ClusterQueue cq is inactive: there is no Topology "t" for TAS flavor "f"',
    )
    toy.do(ObjectApplied(object=topology(toy)))
    assert queue["cq"].active[:2] == ("False", "NodesNotListed")
    begun = relist(toy, node(toy, "n1"))
    toy.do(*begun[:-1])
    assert queue["cq"].active[:2] == ("False", "NodesNotListed"), "half a list is no list"
    toy.do(begun[-1])
    assert queue["cq"].active[:2] == ("True", "Ready")
    assert free(toy.world) == {"n1": {"cpu": 4000, "pods": 10}}
    toy.do(
        ObjectDeleted(kind="Topology", namespace="", name="t", uid="t", resource_version=toy.bump())
    )
    assert queue["cq"].active[:2] == ("False", "TopologyNotFound")
    assert free(toy.world) == {}


def test_admission_knows_nodes_as_the_world_does_live_and_after_a_restart() -> None:
    toy = placed()
    both = {"n1": {"cpu": 4000, "pods": 10}, "n2": {"cpu": 4000, "pods": 10}}
    assert free(toy.world) == free(reloaded(toy.world)) == both
    toy.do(NodesTaken(at=toy.now, taken={"n1": {"cpu": 1500, "pods": 2}, "gone": {"cpu": 1}}))
    left = {"cpu": 2500, "pods": 8}
    assert free(toy.world)["n1"] == left
    toy.do(ObjectApplied(object=node(toy, "n1", labels={"pool": "a", "rack": "r2", HOST: "n1"})))
    assert free(toy.world)["n1"] == left, "what others take is not said with the node"
    toy.do(ObjectApplied(object=node(toy, "n2", unschedulable=True)))
    assert free(toy.world) == free(reloaded(toy.world)) == {"n1": left}
    toy.do(*relist(toy, node(toy, "n2")))
    assert free(toy.world) == free(reloaded(toy.world)) == {"n2": both["n2"]}


def test_nodes_are_forgotten_with_the_last_flavor_that_names_a_topology() -> None:
    toy = placed()
    rows(toy)
    flavor = toy.world.flavors["f"]
    toy.do(
        ObjectApplied(
            object=msgspec.structs.replace(flavor, topology="", resource_version=toy.bump())
        )
    )
    assert toy.world.nodes == {} and "Node" not in toy.world.meta.synced
    assert sorted(rows(toy)) == [("n1", toy.position, True), ("n2", toy.position, True)]
    toy.do(ObjectApplied(object=node(toy, "n3")), *relist(toy, node(toy, "n4")))
    assert toy.world.nodes == {}, "the watch that ended says nothing more"
    assert "Node" not in toy.world.meta.synced


def test_each_time_in_which_a_node_was_as_it_was_is_a_row() -> None:
    toy = placed()
    since = toy.world.nodes["n1"].since
    assert rows(toy) == [("n1", None, True), ("n2", None, True)]
    toy.do(NodesTaken(at=toy.now, taken={"n1": {"cpu": 1, "pods": 1}}))
    assert rows(toy) == [("n1", None, True)] and toy.world.nodes["n1"].since == since
    toy.do(*relist(toy, node(toy, "n1"), node(toy, "n2")))
    assert rows(toy) == [], "the same nodes, listed again"
    toy.do(ObjectApplied(object=node(toy, "n1", ready=False)))
    assert rows(toy) == [("n1", toy.position, True), ("n1", None, False)]
    assert toy.world.nodes["n1"].since.seq == toy.position
    toy.do(
        ObjectDeleted(kind="Node", namespace="", name="n1", uid="n1", resource_version=toy.bump())
    )
    assert rows(toy) == [("n1", toy.position, False)]


def test_only_news_that_may_free_a_place_has_waiting_groups_tried_again() -> None:
    toy = placed()
    cache = toy.world.quotas.scheduler.cache
    view = toy.world.nodes["n1"]
    cache.settle(0, sample=False)
    more = msgspec.structs.replace(view, taken={"cpu": 1})
    assert cache.objects.places.set_node(more) == set()
    assert cache.objects.places.set_node(msgspec.structs.replace(more, taken={})) == {"f"}
    other = msgspec.structs.replace(view, name="other", labels={HOST: "other"})
    assert cache.objects.places.set_node(other) == set(), "of no flavor"
    assert cache.objects.places.remove_node("other") == set()
    assert cache.objects.places.remove_node("n1") == {"f"}
