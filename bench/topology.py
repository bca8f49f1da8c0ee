"""Placing by topology: what a group costs, what a node's change costs, and what more nodes cost.

Blocks of ten racks of fifty nodes with eight devices each, a third of them in use. Measured is
processor time: of a group of a thousand pods placed in its block, asked for the first time and
again; of a node's change with the same questions asked before and after; of one more group for one
rack, with its place charged and given back. Growth is 5,000 nodes by 500, in turns, so that what
else the machine does meets both of them alike.
"""

import gc
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from statistics import median

from bench.figures import Figure
from podgroup.admission.model import Flavor, PodSet
from podgroup.admission.topology.domains import DomainTree
from podgroup.admission.topology.placement import place
from podgroup.model.objects import NodeView
from podgroup.model.topology import HOSTNAME, TopologyRequest

LEVELS = ("block", "rack", HOSTNAME)
RACKS, HOSTS = 10, 50
SIZES = (500, 5_000)
TURNS = 40
GROUP = 1_000
DEVICES = 8
SHAPES = 12


def node(number: int, taken: int = 0) -> NodeView:
    """A node in its rack and block; `taken` devices are used by others."""
    rack = number // HOSTS
    return NodeView(
        name=f"n{number:05}",
        labels={
            "block": f"b{rack // RACKS:03}",
            "rack": f"r{rack:04}",
            HOSTNAME: f"n{number:05}",
        },
        allocatable={"cpu": 96_000, "memory": 2**40, "nvidia.com/gpu": DEVICES, "pods": 110},
        taken={"cpu": taken * 8_000, "nvidia.com/gpu": taken, "pods": taken},
    )


def pod_set(count: int, request: TopologyRequest, devices: int = 1, shape: int = 0) -> PodSet:
    """Pods that ask for devices; pods of another `shape` are another question."""
    memory = 2**34 + shape
    requests = (("cpu", 4_000), ("memory", memory), ("nvidia.com/gpu", devices))
    return PodSet(name="main", count=count, requests=requests, topology=request)


class Cluster:
    """So many nodes, a third in use, and some questions that are asked all the time."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.tree = DomainTree("t", LEVELS, Flavor(name="f"))
        for number in range(nodes):
            self.tree.set_node(node(number, number % 3 % 2 * 4))
        rack = TopologyRequest(required="rack")
        self.groups = [pod_set(40, rack, devices=2, shape=shape) for shape in range(SHAPES)]
        self.turn = 0
        for group in self.groups:
            if not place(self.tree, [group]).fits:
                raise RuntimeError("a group that fits is refused")

    def rack(self) -> None:
        """Place one group in a rack, charge it, and let it end."""
        self.turn += 1
        group = self.groups[self.turn % SHAPES]
        placed = place(self.tree, [group])
        assignment = placed.places["main"]
        self.tree.charge(assignment, group.requests)
        self.tree.charge(assignment, group.requests, -1)

    def change(self) -> None:
        """Let others take more or less of a node, and ask one of the questions again."""
        self.turn += 1
        number = self.turn * 7 % self.nodes
        self.tree.set_node(node(number, self.turn % DEVICES))
        place(self.tree, [self.groups[self.turn % SHAPES]])

    def event(self) -> None:
        """Only enter what became of a node."""
        self.turn += 1
        self.tree.set_node(node(self.turn * 7 % self.nodes, self.turn % DEVICES))

    def refused(self) -> None:
        """Ask for more than any rack has."""
        asked = TopologyRequest(required="rack")
        if place(self.tree, [pod_set(HOSTS + 1, asked, devices=DEVICES)]).fits:
            raise RuntimeError("a group that cannot fit has a place")

    def large(self, shape: int) -> None:
        """Place a thousand pods in one block."""
        asked = pod_set(GROUP, TopologyRequest(preferred="block"), devices=2, shape=shape)
        if place(self.tree, [asked]).places["main"].count != GROUP:
            raise RuntimeError("pods are left without a place")


def _cost(what: Callable[[], None], times: int = 1) -> float:
    gc.collect(0)
    begin = time.process_time_ns()
    for _ in range(times):
        what()
    return (time.process_time_ns() - begin) / times / 1e6


async def run() -> AsyncIterator[Figure]:
    """Measure both clusters, then what the larger one costs more."""
    clusters = [Cluster(size) for size in SIZES]
    gc.collect()
    gc.freeze()
    try:
        large = clusters[-1]
        first = [_cost(partial(large.large, 1_000 + turn)) for turn in range(TURNS)]
        again = [_cost(partial(large.large, 0)) for _ in range(TURNS)]
        change = [_cost(large.change, 20) for _ in range(TURNS)]
        event = [_cost(large.event, 20) for _ in range(TURNS)]
        refused = [_cost(large.refused, 20) for _ in range(TURNS)]
        racks = [[_cost(one.rack, 2 * SHAPES) for one in clusters] for _ in range(TURNS)]
    finally:
        gc.unfreeze()
    for name, costs, note in (
        ("first", first, f"{GROUP:,} pods into a block, a question not asked before"),
        ("again", again, f"{GROUP:,} pods into a block, the question asked before"),
        ("change", change, "a node's change, and one of 12 questions asked after it"),
        ("event", event, "a node's change alone"),
        ("refused", refused, "a group that no rack has room for"),
        ("rack", [turn[-1] for turn in racks], "40 pods into a rack, charged and given back"),
    ):
        yield Figure(
            name=f"topology.{name}.{SIZES[-1]}",
            value=median(costs),
            unit="ms",
            samples=TURNS,
            note=f"{note}, {SIZES[-1]:,} nodes",
        )
    yield Figure(
        name="topology.rack.growth",
        value=median(turn[-1] / turn[0] for turn in racks),
        unit="times",
        samples=TURNS,
        note=f"{SIZES[-1]:,} nodes by {SIZES[0]:,}, the answer in one rack, turn by turn",
    )
