"""Decisions are begun a few at a time, and one of a small group among the first of those."""

import asyncio
from collections import Counter

import pytest

from actuator.fairqueue import Claim
from actuator.startlimiter import AT_ONCE, StartLimiter

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def test_a_turn_of_the_loop_begins_few_and_a_single_one_is_not_last() -> None:
    starts, begun, turns = StartLimiter(), list[tuple[int, str]](), 0

    async def begin(group: str) -> None:
        await starts.turn(Claim("a", group))
        begun.append((turns, group))

    tasks = [asyncio.create_task(begin("huge")) for _ in range(2_000)]
    for n in range(60):
        if n == 3:
            tasks.append(asyncio.create_task(begin("single")))
        await asyncio.sleep(0)
        turns += 1
    assert all(task.done() for task in tasks)
    assert max(Counter(turn for turn, _ in begun).values()) <= AT_ONCE
    (single,) = (turn for turn, group in begun if group == "single")
    assert single <= 6, "it waits for a turn of the loop or two, not for the huge group"


async def test_whoever_is_cancelled_while_waiting_takes_no_turn_from_others() -> None:
    starts = StartLimiter()
    waiting = [asyncio.create_task(starts.turn(Claim("a", "g"))) for _ in range(4 * AT_ONCE)]
    await asyncio.sleep(0)
    for task in waiting[AT_ONCE : 3 * AT_ONCE]:
        task.cancel()
    for _ in range(4):
        await asyncio.sleep(0)
    assert all(task.done() for task in waiting)
    assert sum(task.cancelled() for task in waiting) == 2 * AT_ONCE
    # And when all is quiet again, nobody waits.
    async with asyncio.timeout(1):
        await starts.turn(Claim("a", "g"))
