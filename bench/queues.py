"""Deciding on quota alone: what a waiting workload costs, and what it does not cost.

30 ClusterQueues in 5 cohorts, quota all taken, and so many who wait in line behind it, of 30
shapes. Measured is processor time: of a new workload (entered, and a pass); of a pass after quota
for ten small ones was given back, which lets ten others in. Memory is that of a fresh process.

Then Kueue's performance test and its large sibling, in simulated time (`simulated`).
"""

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Iterator

from msgspec.structs import replace

from bench import processes, simulated
from bench.figures import Figure
from bench.pending import by_length
from bench.simulated import Class, queue_name, workload

COHORTS, PER_COHORT = 5, 6
SIZES = (100, 10_000, 100_000)
TURNS = 15
FREED = 10
SHAPES = 30


class Queues:
    """The queues with all quota taken and `waiting` workloads in line."""

    def __init__(self, waiting: int) -> None:
        self.scheduler = simulated.queues(COHORTS, PER_COHORT)
        self.number = 0
        self.now = 0.0
        self.holding: list[str] = []
        for _ in range(simulated.NOMINAL):
            self._everywhere(Class("first", 0, 0, 0, 100, 1))
        self._pass()
        for _ in range(waiting // (COHORTS * PER_COHORT) + 1):
            self._everywhere(Class("waiting", 0, 0, 0, 50, 1))
        self._pass()

    def _everywhere(self, kind: Class) -> None:
        for cohort in range(COHORTS):
            for queue in range(PER_COHORT):
                self._submit(queue_name(cohort, queue), kind)

    def _submit(self, queue: str, kind: Class) -> None:
        self.number += 1
        self.now += 0.001
        # Shapes differ by what they ask for, a little, so that each is a question of its own.
        one = workload(queue, kind, self.number, self.now)
        extra = self.number % SHAPES if kind.priority == 50 else 0
        pods = one.pod_sets[0]
        pods = replace(pods, node_selector=(("shape", str(extra)),)) if extra else pods
        self.scheduler.cache.submit(replace(one, pod_sets=(pods,)))

    def _pass(self) -> int:
        verdicts = self.scheduler.decide(self.now)
        self.holding += [admission.id for admission in verdicts.admitted]
        return len(verdicts.admitted)

    def new(self) -> float:
        """Return what one more workload costs, in seconds of processor time."""
        begin = time.process_time()
        for _ in range(FREED):
            self._submit(queue_name(2, 3), Class("waiting", 0, 0, 0, 50, 1))
            self._pass()
        return (time.process_time() - begin) / FREED

    def freed(self) -> float:
        """Return what giving quota back and the pass after it cost."""
        leaving, self.holding = self.holding[:FREED], self.holding[FREED:]
        gc.collect(0)
        begin = time.process_time()
        for one in leaving:
            self.scheduler.cache.remove(one)
        admitted = self._pass()
        spent = time.process_time() - begin
        for one in leaving:
            self._submit(one.rsplit("-", 2)[0], Class("waiting", 0, 0, 0, 50, 1))
        self._pass()
        if admitted != FREED:
            raise RuntimeError(f"{admitted} were admitted in place of {FREED}")
        return spent


async def run() -> AsyncIterator[Figure]:
    """Measure what the length of a queue costs, then the two tests in simulated time."""
    notes = (
        "one more workload, entered, and a pass, with {:,} in line",
        f"quota of {FREED} given back, and the pass that lets {FREED} in, with {{:,}} in line",
    )
    for figure in by_length("queues", [(size, Queues(size)) for size in SIZES], TURNS, notes):
        yield figure
    yield Figure(
        name="queues.memory",
        value=await asyncio.to_thread(processes.answer, "bench.queues"),
        unit="bytes",
        note=f"resident, for each of {SIZES[-1]:,} that wait, ids and names included",
    )
    for figure in _simulated():
        yield figure


def _simulated() -> Iterator[Figure]:
    """Yield what came of the two tests in simulated time."""
    for name, classes, cohorts, per_cohort in (
        ("baseline", simulated.BASELINE, 5, 6),
        ("large_scale", simulated.LARGE_SCALE, 20, 100),
    ):
        got = simulated.run(classes, cohorts, per_cohort)
        note = f"{got.workloads:,} workloads, simulated time, {got.preemptions:,} preemptions"
        yield Figure(name=f"queues.{name}.whole", value=got.whole_s, unit="s", note=note)
        for kind, waited in got.waited_s.items():
            yield Figure(
                name=f"queues.{name}.{kind}",
                value=waited,
                unit="s",
                note="mean time from coming to the first admission, simulated",
            )
        yield Figure(name=f"queues.{name}.usage", value=100 * got.usage, unit="%", note=note)
        yield Figure(
            name=f"queues.{name}.decisions",
            value=(got.workloads + got.preemptions) / got.processor_s,
            unit="decisions/s",
            note=f"{got.processor_s:.1f} s of processor time for everything, {got.passes} passes",
        )


if __name__ == "__main__":
    Queues(100)
    gc.collect()
    before = processes.resident_kib(os.getpid())
    kept = Queues(SIZES[-1])
    gc.collect()
    print((processes.resident_kib(os.getpid()) - before) * 1024 / SIZES[-1])
