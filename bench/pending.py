"""The cost of a long queue for the core: single pods that wait in a ClusterQueue, all quota taken.

Each event is a message of its own, as in a trickle. Measured is processor time: of a new pod (its
event folded and decided on, journal included), and of the message that frees the quota of a pod and
admits the next in line. The lengths take turns, so that other work of the machine meets all of them
alike; growth is by the empty queue for a new pod, and by the shortest line for a pass, since an
empty line admits no pod.

Memory is of a fresh process, journal taken away as the projector does.
"""

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from statistics import median

from bench.figures import Figure
from bench.processes import answer, resident_kib
from podgroup.engine import drain_journal
from tests.support.toy import Toy

SIZES = (0, 100, 1_000, 10_000, 100_000)
TURNS = 30
PODS = 10
TAKE_EVERY = 1000


class Line:
    """A ClusterQueue with quota for one core, which a pod holds, and `waiting` other pods."""

    def __init__(self, waiting: int) -> None:
        self._toy = Toy(cpu=1)
        self._number = 0
        self._running = "holds"
        self._toy.pod(self._running)
        self._toy.run(self._running)
        self._toy.act = False
        for _ in range(waiting):
            self._come()
        self._tidy()
        if len(self._toy.world.quotas.waiting) != waiting:
            raise RuntimeError(f"{len(self._toy.world.quotas.waiting)} wait, not {waiting}")

    def _come(self) -> str:
        self._number += 1
        name = f"waits-{self._number}"
        self._toy.pod(name, settle=False)
        if self._number % TAKE_EVERY == 0:
            self._tidy()
        return name

    def _tidy(self) -> None:
        toy = self._toy
        drain_journal(toy.world)
        for kept in (toy.messages, toy.concluded, toy.decisions, toy.queue):
            kept.clear()

    def new(self) -> float:
        """Return the cost of a new pod, in seconds of processor time; the new pods are deleted
        again.
        """
        gc.collect(0)
        begin = time.process_time()
        came = [self._come() for _ in range(PODS)]
        spent = (time.process_time() - begin) / PODS
        self._tidy()
        self._toy.act = True
        for name in came:
            self._toy.delete(name)
        self._toy.settle()
        self._toy.act = False
        self._tidy()
        return spent

    def freed(self) -> float:
        """Return the processor time of the running pod's end and of the next pod's admission."""
        toy = self._toy
        came = self._come()
        self._tidy()
        view = toy.named(self._running)
        gc.collect(0)
        begin = time.process_time()
        toy.change(view.uid, settle=False, phase="Succeeded", conditions=())
        spent = time.process_time() - begin
        toy.act = True
        before = self._running
        toy.settle()
        (self._running,) = (
            group.name for group in toy.world.groups.values() if group.quota.holding is not None
        )
        if self._running == before:
            raise RuntimeError(f"nobody came in after {before}, {came} waits")
        toy.run(self._running)
        toy.delete(before)
        toy.act = False
        self._tidy()
        return spent


async def run() -> AsyncIterator[Figure]:
    """Measure all lengths, and the memory that the longest line takes."""
    notes = (
        "a new single pod, folded and decided on, with {:,} in line",
        "quota of one given back and one let in, with {:,} in line",
    )
    for figure in _by_length([(size, Line(size)) for size in SIZES], notes):
        yield figure
    yield Figure(
        name="pending.memory",
        value=await asyncio.to_thread(answer, "bench.pending"),
        unit="bytes",
        note=f"resident, for each of {SIZES[-1]:,} single pods that wait, in a core that follows "
        "them; with the pods and groups themselves",
    )


def _by_length(lines: Sequence[tuple[int, Line]], notes: tuple[str, str]) -> Iterator[Figure]:
    """Measure a new pod and a pass in lines of several lengths, turn by turn."""
    gc.collect()
    gc.freeze()
    try:
        for _, line in lines:
            line.new()
            line.freed()
        filled = [(size, line) for size, line in lines if size]
        news = [[line.new() for _, line in lines] for _ in range(TURNS)]
        frees = [[line.freed() for _, line in filled] for _ in range(TURNS)]
    finally:
        gc.unfreeze()
    for what, costs, measured, note in (
        ("new", news, lines, notes[0]),
        ("pass", frees, filled, notes[1]),
    ):
        sizes = [size for size, _ in measured]
        for place, size in enumerate(sizes):
            yield Figure(
                name=f"pending.{what}.{size}",
                value=median(turn[place] for turn in costs) * 1e3,
                unit="ms",
                samples=TURNS,
                note=note.format(size),
            )
        dearest = max(
            (median(turn[place] / turn[0] for turn in costs), size)
            for place, size in enumerate(sizes)
            if place
        )
        yield Figure(
            name=f"pending.{what}.growth",
            value=dearest[0],
            unit="times",
            limit=1.2,
            limit_name="wanted",
            note=f"the dearest length ({dearest[1]:,}) by {sizes[0]:,}, turn by turn",
        )


def _measure() -> float:
    Line(SIZES[1])
    gc.collect()
    before = resident_kib(os.getpid())
    line = Line(SIZES[-1])
    # Exclude the memory of the model of the cluster.
    line._toy.pods.clear()
    line._toy.last.clear()
    line._toy.workloads.clear()
    gc.collect()
    return (resident_kib(os.getpid()) - before) * 1024 / SIZES[-1]


if __name__ == "__main__":
    print(_measure())
