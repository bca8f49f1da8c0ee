"""Fairness: a single pod that comes in the same moment as the last of a large group.

The group of 10,000 is complete with its last pod, so everything that starts it begins when the
single pod comes: composing, deciding, 10,000 gates. Measured is how long the single pod waits, and
how long the group takes beside it.
"""

import asyncio
import time
from collections.abc import AsyncIterator

from bench.cluster import UNGATED, PodWatch, together
from bench.figures import Figure, percentile
from bench.latency import NAMESPACE, all_ungated, create, gatelog
from tests.support.processes import Api

GROUP, ROUNDS = 10_000, 3
KNOWN_S = 5.0
"""Seconds until the pods that were created so far are known and looked at."""


async def run() -> AsyncIterator[Figure]:
    """The figures; each round has a group of its own, of pods that run on."""
    waited: list[float] = []
    took: list[float] = []
    for number in range(ROUNDS):
        single_ms, group_ms = await _round(number)
        waited.append(single_ms)
        took.append(group_ms)
    note = "; ".join(
        f"{single:.0f} ms, the group {group:.0f} ms"
        for single, group in zip(waited, took, strict=True)
    )
    yield Figure(
        name=f"latency.single_behind_{GROUP}",
        value=percentile(waited, 50),
        unit="ms",
        samples=ROUNDS,
        note=note,
    )


async def _round(number: int) -> tuple[float, float]:
    """Milliseconds until the single pod, and until all of the group are ungated."""
    async with gatelog(NAMESPACE) as api, PodWatch(api, NAMESPACE) as watch:
        return await _both(api, watch, number)


async def _both(api: Api, watch: PodWatch, number: int) -> tuple[float, float]:
    names = [f"big{number}-{i:05d}" for i in range(GROUP)]
    await create(api, NAMESPACE, "first")
    await watch.until(UNGATED, ["first"])
    await together(create(api, NAMESPACE, n, f"big{number}", GROUP) for n in names[:-1])
    await asyncio.sleep(KNOWN_S)
    begin = time.perf_counter()
    await create(api, NAMESPACE, names[-1], f"big{number}", GROUP)
    await create(api, NAMESPACE, "single")
    single_ms = await all_ungated(watch, ["single"], begin)
    return single_ms, await all_ungated(watch, names, begin)
