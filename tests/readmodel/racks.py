"""A cluster of racks for who asks where there is room: four nodes, their Topology, and pods."""

from typing import Any

from msgspec.structs import replace

from podgroup.log.events import NodesTaken, ObjectApplied, RelistCompleted, RelistStarted
from podgroup.model.names import TOPOLOGY_PREFERRED, TOPOLOGY_REQUIRED
from podgroup.model.objects import NodeView, TopologyView
from podgroup.model.topology import HOSTNAME
from tests.support.toy import Toy

RACK = "example.com/rack"
IN_RACK = {TOPOLOGY_REQUIRED: RACK}
NEAR = {TOPOLOGY_PREFERRED: RACK}
NODES = ("a1", "a2", "b1", "b2")
"""The first letter is the rack; each has four cores."""


class Racks(Toy):
    """A toy whose flavor `f` has a topology of racks and hosts."""

    def __init__(self, **more: Any) -> None:
        super().__init__(cpu=100, **more)
        version = self.bump()
        view = TopologyView(uid="t", name="t", resource_version=version, levels=(RACK, HOSTNAME))
        self.do(ObjectApplied(object=view))
        flavor = replace(self.world.flavors["f"], topology="t", resource_version=self.bump())
        self.do(ObjectApplied(object=flavor))
        self.do(
            RelistStarted(kind="Node", relist="nodes"),
            *(ObjectApplied(object=self.node(name), relist="nodes") for name in NODES),
            RelistCompleted(kind="Node", relist="nodes", resource_version=self.bump()),
        )

    def node(self, name: str, **changes: Any) -> NodeView:
        view = NodeView(
            uid=name,
            name=name,
            resource_version=self.bump(),
            labels={"pool": "a", RACK: name[0], HOSTNAME: name},
            allocatable={"cpu": 4000, "pods": 110},
        )
        return replace(view, **changes)

    def renode(self, name: str, **changes: Any) -> None:
        self.do(ObjectApplied(object=self.node(name, **changes)))

    def others_take(self, name: str, cpu: int) -> None:
        self.do(NodesTaken(at=self.now, taken={name: {"cpu": cpu, "pods": 1}}))

    def several(
        self, name: str, count: int, cpu: int = 1, asked: dict[str, str] = IN_RACK
    ) -> list[str]:
        names = [f"{name}{i}" for i in range(count)]
        for one in names:
            self.pod(one, name, count, cpu=cpu, annotations=asked)
        return names
