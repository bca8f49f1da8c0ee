"""Nodes and what others take of them, from a stand-in cluster into the log and its fold.

Not covered: how much memory 100,000 pods take (bench).
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from ingest.kinds import bound_pods, node_kind
from ingest.nodes import Sums
from ingest.translate.items import Delta
from podgroup.folding import fold_message, new_world
from podgroup.log.events import (
    ObjectApplied,
    PodApplied,
    PodDeleted,
    RelistCompleted,
    RelistStarted,
)
from podgroup.model.objects import NodeView, PodView
from podgroup.state.world import World
from simcluster.settings import NodeSettings
from simcluster.settings import Settings as SimSettings
from tests.ingest.world import Log, client, ingesting, pod, until
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

FLAVORS = "resourceflavors.kueue.x-k8s.io/v1beta2"
TWO = tuple(
    NodeSettings(name=name, labels={"pool": "a", "rack": "r"}, cpu="4", memory="8Gi", pods=10)
    for name in ("n1", "n2")
)


@pytest.fixture
async def sim() -> AsyncIterator[SimCluster]:
    async with SimCluster(SimSettings(nodes=TWO)) as running:
        yield running


def flavor(name: str, topology: str = "t") -> dict[str, Any]:
    spec: dict[str, Any] = {"nodeLabels": {"pool": "a"}}
    if topology:
        spec["topologyName"] = topology
    return {"metadata": {"name": name}, "spec": spec}


def bound(name: str, node: str) -> dict[str, Any]:
    """A pod of others."""
    found = pod(name)
    found["metadata"]["labels"] = {}
    found["spec"] |= {"schedulingGates": [], "nodeName": node}
    return found


async def folded(log: Log) -> World:
    """What the log says, folded from its beginning."""
    await log.read()
    world = new_world("c")
    for position, batch in enumerate(log.batches, 1):
        fold_message(world, position, datetime(2026, 11, 23, tzinfo=UTC), batch)
    return world


async def known(log: Log, wanted: dict[str, dict[str, int]], *flavors: str) -> World:
    """Wait until the fold knows these nodes, with what is taken of them, and flavors."""
    found: list[World] = []

    async def same() -> bool:
        found[:] = [await folded(log)]
        nodes, named = found[0].nodes, set(found[0].flavors)
        taken = {name: dict(view.taken) for name, view in nodes.items()}
        return taken == wanted and (not flavors or named == set(flavors))

    await until(same, f"nodes are {wanted}")
    return found[0]


async def test_nodes_are_watched_while_a_flavor_names_a_topology(sim, settings, log):
    async with client(sim) as kube, ingesting(settings) as ingester:
        await kube.create(FLAVORS, flavor("plain", ""))
        await kube.create("pods", bound("p1", "n1"), "default")
        await ingester.until_ready()
        await log.read()
        assert not any(one.kind == "Node" for one in log.relists)
        await kube.create(FLAVORS, flavor("placed"))
        world = await known(log, {"n1": {"cpu": 100, "pods": 1}, "n2": {}})
        view = world.nodes["n1"]
        assert view.allocatable == {"cpu": 4000, "memory": 8 << 30, "pods": 10}
        assert view.labels == {"kubernetes.io/hostname": "n1", "pool": "a", "rack": "r"}
        assert view.ready and not view.unschedulable and "Node" in world.meta.synced
        await kube.delete(FLAVORS, "placed")
        await known(log, {})
        await kube.create(FLAVORS, flavor("again"))
        await known(log, {"n1": {"cpu": 100, "pods": 1}, "n2": {}})


async def test_a_restart_lists_nodes_anew_where_a_flavor_asks_for_them(sim, settings, log):
    async with client(sim) as kube:
        await kube.create(FLAVORS, flavor("placed"))
        async with ingesting(settings):
            await known(log, {"n1": {}, "n2": {}})
        await kube.create("pods", bound("p1", "n1"), "default")
        await kube.delete("nodes", "n2")
        async with ingesting(settings):
            await known(log, {"n1": {"cpu": 100, "pods": 1}})
        assert [one.kind for one in log.relists].count("ResourceFlavor") == 1, "it was resumed"
        # The only flavor that asks for them goes, and another comes, while nobody looks.
        await kube.delete(FLAVORS, "placed")
        await kube.create(FLAVORS, flavor("other"))
        async with ingesting(settings):
            await known(log, {"n1": {"cpu": 100, "pods": 1}}, "other")
        await kube.delete(FLAVORS, "other")
        async with ingesting(settings):
            await known(log, {})


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": obj})


def read_pod(
    labels: dict[str, str],
    annotations: dict[str, str],
    node: str = "n",
    deleted: str | None = None,
    **status: Any,
) -> PodView:
    meta = {
        **({"deletionTimestamp": deleted} if deleted else {}),
        "uid": "u",
        "name": "p",
        "namespace": "ns",
        "resourceVersion": "1",
        "creationTimestamp": "2026-11-23T00:00:00Z",
        "labels": labels,
        "annotations": annotations,
    }
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    obj = {"metadata": meta, "spec": {"nodeName": node, "containers": containers}, "status": status}
    found = bound_pods().translator.item(line("ADDED", obj))
    assert isinstance(found, Delta) and isinstance(found.event, PodApplied)
    return found.event.pod


@pytest.mark.parity("IT-01", "IT-03", "IT-04", "IT-05")
def test_which_pods_take_something_of_their_node() -> None:
    asks = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    managed = {"kueue.x-k8s.io/managed": "true"}
    assert read_pod(managed, asks).node == ""
    assert read_pod({}, asks).node == "n", "whoever writes the annotation is still there"
    assert read_pod(managed, {}).requests == {"cpu": 1000}
    assert read_pod({}, {}, phase="Succeeded").node == ""
    assert read_pod({}, {}, node="").requests == {}
    assert read_pod({}, {}, deleted="2026-11-23T00:01:00Z").requests == {"cpu": 1000}


@pytest.mark.parity("IT-02")
def test_sums_follow_pods_and_lists() -> None:
    def seen(uid: str, node: str, cpu: int, relist: str = "") -> PodApplied:
        view = read_pod({}, {})
        pod = msgspec.structs.replace(view, uid=uid, node=node, requests={"cpu": cpu})
        return PodApplied(pod=pod, relist=relist)

    sums = Sums()
    sums.saw([seen("a", "n", 1), seen("b", "n", 2), seen("c", "m", 3)])
    assert sums.of("n") == {"cpu": 3, "pods": 2} and sums.changed == {"n", "m"}
    sums.saw([seen("b", "n", 5), seen("a", "", 1)])
    assert sums.of("n") == {"cpu": 5, "pods": 1}
    sums.saw([PodDeleted(pod=seen("b", "n", 5).pod)])
    assert sums.of("n") == {}
    sums.saw([RelistStarted(kind="Pod", relist="r"), seen("c", "n", 3, "r")])
    sums.saw([RelistCompleted(kind="Pod", relist="r", resource_version="9")])
    assert sums.of("n") == {"cpu": 3, "pods": 1} and sums.of("m") == {} and len(sums) == 1


def test_a_heartbeat_is_no_event_and_long_labels_are_left_out() -> None:
    def read(**status: Any) -> NodeView:
        meta = {"uid": "u", "name": "n", "resourceVersion": "7", "labels": labels}
        found = node_kind().translator.item(line("MODIFIED", {"metadata": meta, "status": status}))
        assert isinstance(found, Delta) and isinstance(found.event, ObjectApplied)
        view = found.event.object
        assert isinstance(view, NodeView)
        return view

    labels = {"rack": "r"}
    ready = {"type": "Ready", "status": "True"}
    times = [f"2026-11-23T00:0{minute}:00Z" for minute in (1, 2)]
    beats = [read(conditions=[ready | {"lastHeartbeatTime": at}]) for at in times]
    assert beats[0] == beats[1] and beats[0].ready
    found = [
        read(conditions=[{"type": "Ready", "status": status}])
        for status in ("True", "False", "Unknown")
    ]
    assert [view.ready for view in (*found, read(conditions=[]))] == [True, False, False, False]
    assert [view.reporting for view in (*found, read(conditions=[]))] == [False, True, False, False]
    labels = {"rack": "r"} | {f"{n:0300}": "x" * 63 for n in range(60)}
    view = read()
    assert "rack" in view.labels and len(view.labels) == 46 and len(view.unread) == 8
    assert sum(len(k) + len(v) for k, v in view.labels.items()) <= 16 * 1024
