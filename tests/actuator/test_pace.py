"""Pace: bounds, order, decrease and hold, on a real clock with short times."""

import asyncio
import time
from typing import Any

import pytest

from actuator.line import FEW, ON_BEHALF
from actuator.pace import URGENT_TURNS, Pace

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def requests(pace: Pace, count: int, status: int = 200, took_s: float = 0.0) -> int:
    """Run `count` requests at once; return the most that were in flight."""
    most = 0

    async def one() -> None:
        nonlocal most
        async with pace.slot() as slot:
            most = max(most, pace.in_flight)
            await asyncio.sleep(took_s)
            slot.answered(status)

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(one())
    return most


async def test_never_more_in_flight_than_the_limit_and_it_grows_to_the_ceiling() -> None:
    pace = Pace(16, first=4)
    assert pace.limit == 4
    most = await requests(pace, 200)
    assert pace.limit == 16
    assert most <= 16
    assert pace.in_flight == 0


async def test_an_idle_server_does_not_raise_the_limit() -> None:
    pace = Pace(64, first=8)
    for _ in range(100):
        await requests(pace, 1)
    assert pace.limit == 8


async def test_429_halves_the_limit_once_for_all_that_were_under_way() -> None:
    pace = Pace(64, first=32)
    await requests(pace, 20, status=429)
    assert pace.limit == 16


@pytest.mark.parametrize(("status", "limit"), [(503, 25), (500, 25), (200, 32), (404, 32)])
async def test_server_errors_shrink_it_less_and_answers_do_not(status: int, limit: int) -> None:
    pace = Pace(64, first=32)
    await requests(pace, 3, status=status)
    assert pace.limit == limit


async def test_slow_answers_shrink_it() -> None:
    pace = Pace(64, first=32)
    pace._mean_s = 5.0  # as if answers had been slow for a while
    await requests(pace, 3)
    assert pace.limit == 25


async def test_the_limit_never_falls_below_one() -> None:
    pace = Pace(2, first=1)
    await requests(pace, 5, status=429)
    assert pace.limit == 1
    await requests(pace, 5)  # and still serves


async def test_retry_after_holds_everything_back() -> None:
    pace = Pace(8)
    async with pace.slot() as slot:
        slot.answered(429, 0.3)
    began = time.monotonic()
    await requests(pace, 3)
    assert 0.2 < time.monotonic() - began < 15


async def test_turns_are_served_in_order() -> None:
    pace = Pace(1, first=1)
    seen: list[int] = []

    async def one(number: int) -> None:
        async with pace.slot() as slot:
            seen.append(number)
            slot.answered(200)

    async with asyncio.TaskGroup() as group:
        for number in range(12):
            group.create_task(one(number))
    assert seen == list(range(12))


async def test_a_cancelled_waiter_takes_no_turn() -> None:
    pace = Pace(1, first=1)
    release = asyncio.Event()

    async def hold() -> None:
        async with pace.slot() as slot:
            await release.wait()
            slot.answered(200)

    async def wait(pace: Pace) -> Any:
        async with pace.slot():
            return None

    holder = asyncio.create_task(hold())
    await asyncio.sleep(0)
    waiters = [asyncio.create_task(wait(pace)) for _ in range(3)]
    await asyncio.sleep(0)
    for waiter in waiters:
        waiter.cancel()
    release.set()
    await asyncio.gather(holder, *waiters, return_exceptions=True)
    assert pace.in_flight == 0
    assert await requests(pace, 2) == 1


async def test_a_turn_granted_and_cancelled_at_once_is_given_back() -> None:
    pace = Pace(1, first=1)
    await pace.acquire()
    waiter = asyncio.create_task(pace.acquire())
    await asyncio.sleep(0)
    pace._taken -= 1
    pace._serve()  # grants the turn; the waiter has not run yet
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert pace.in_flight == 0


def test_a_ceiling_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Pace(0)


async def take_turn(pace: Pace, served: list[str], name: str, urgent: bool) -> None:
    """A request that notes its name when it is its turn."""
    async with pace.slot(urgent=urgent) as slot:
        served.append(name)
        slot.answered(200)


async def test_what_lets_pods_start_goes_first_and_starves_nothing() -> None:
    pace = Pace(1, first=1)
    served: list[str] = []

    async with pace.slot() as first:
        tasks = [asyncio.create_task(take_turn(pace, served, f"o{n}", False)) for n in range(3)]
        tasks += [
            asyncio.create_task(take_turn(pace, served, f"u{n}", True))
            for n in range(URGENT_TURNS + 2)
        ]
        await asyncio.sleep(0)
        first.answered(200)
    await asyncio.gather(*tasks)
    urgent = [f"u{n}" for n in range(URGENT_TURNS + 2)]
    assert served == [*urgent[:URGENT_TURNS], "o0", *urgent[URGENT_TURNS:], "o1", "o2"]


async def test_it_is_calm_when_nothing_urgent_waits_whatever_else_does() -> None:
    pace = Pace(1, first=1)
    served: list[str] = []

    async def patient() -> None:
        await pace.calm(60.0)
        served.append("calm")

    async with pace.slot() as first:
        tasks = [
            asyncio.create_task(take_turn(pace, served, "urgent", True)),
            asyncio.create_task(take_turn(pace, served, "other", False)),
        ]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(patient()))
        await asyncio.sleep(0.01)
        assert served == []
        first.answered(200)
    await asyncio.gather(*tasks)
    assert served.index("calm") > served.index("urgent")


async def test_calm_is_waited_for_so_long_and_no_longer() -> None:
    pace = Pace(1, first=1)
    async with pace.slot() as first:
        urgent = asyncio.create_task(pace.acquire(urgent=True))
        await asyncio.sleep(0)
        began = time.monotonic()
        await pace.calm(0.05)
        assert 0.04 < time.monotonic() - began < 1.0
        first.answered(200)
    await urgent


async def served_of(*asked: tuple[str, int]) -> list[str]:
    """The groups in the order their requests were served, one at a time; all wait before."""
    pace = Pace(1, first=1)
    served: list[str] = []

    async def one(group: str) -> None:
        ON_BEHALF.set(group)
        async with pace.slot(urgent=True) as slot:
            served.append(group)
            slot.answered(200)

    async with pace.slot() as first:
        tasks = [asyncio.create_task(one(group)) for group, count in asked for _ in range(count)]
        await asyncio.sleep(0)
        first.answered(200)
    await asyncio.gather(*tasks)
    return served


async def test_a_single_request_does_not_wait_for_ten_thousand_of_a_group() -> None:
    served = await served_of(("large", 10_000), ("single", 1))
    assert served.index("single") <= 2 * FEW
    assert len(served) == 10_001


async def test_a_flood_of_single_ones_leaves_a_large_group_every_other_turn() -> None:
    served = await served_of(("large", 500), *((f"single-{n}", 1) for n in range(1000)))
    assert served[:1000].count("large") >= 500 - FEW


async def test_large_groups_are_served_one_after_the_other() -> None:
    served = await served_of(("a", 500), ("b", 500))
    assert served[: 500 + FEW].count("a") == 500
