"""How many requests are at the server, and whose: on a virtual clock."""

import asyncio
from collections.abc import Iterable

import pytest

from actuator.concurrency import SLOW_S, AdaptiveConcurrency
from actuator.fairqueue import FEW, ON_BEHALF, URGENT_TURNS, Claim
from tests.support import virtualtime
from tests.support.virtualtime import now

TIMED_OUT_S = 30.0


async def request(
    concurrency: AdaptiveConcurrency,
    claim: Claim,
    took_s: float = 0.0,
    status: int = 200,
    served: list[str] | None = None,
) -> float:
    """One request; returns how long it waited for its turn, in seconds."""
    ON_BEHALF.set(claim)
    began = now()
    async with concurrency.slot() as slot:
        waited = now() - began
        if served is not None:
            served.append(claim.group or claim.flow)
        await asyncio.sleep(took_s)
        slot.answered(status)
    return waited


async def requests(
    concurrency: AdaptiveConcurrency,
    count: int,
    flow: str = "a",
    took_s: float = 0.01,
    status: int = 200,
) -> list[float]:
    """Some requests at once; returns how long each waited."""
    return await asyncio.gather(
        *(request(concurrency, Claim(flow), took_s, status) for _ in range(count))
    )


def test_it_grows_to_the_ceiling_and_never_more_are_in_flight() -> None:
    async def main() -> None:
        concurrency, most = AdaptiveConcurrency(16, first=4), 0

        async def one() -> None:
            nonlocal most
            async with concurrency.slot() as slot:
                most = max(most, concurrency.in_flight)
                await asyncio.sleep(0.01)
                slot.answered(200)

        await asyncio.gather(*(one() for _ in range(200)))
        assert (concurrency.limit, concurrency.in_flight) == (16, 0)
        assert most == 15  # the last slot is for another namespace

    virtualtime.run(main())


def test_an_idle_server_does_not_raise_the_limit() -> None:
    async def main() -> None:
        concurrency = AdaptiveConcurrency(64)
        for _ in range(100):
            await requests(concurrency, 1)
        assert concurrency.limit == 8

    virtualtime.run(main())


@pytest.mark.parametrize(
    ("status", "limit"), [(429, 16), (503, 25), (500, 32), (200, 32), (404, 32)]
)
def test_what_the_server_says_of_itself_shrinks_it_once_for_all_under_way(
    status: int, limit: int
) -> None:
    async def main() -> None:
        concurrency = AdaptiveConcurrency(64, first=32)
        await requests(concurrency, 20, status=status)
        assert concurrency.limit == limit

    virtualtime.run(main())


def test_it_never_falls_below_one_and_still_serves() -> None:
    async def main() -> None:
        concurrency = AdaptiveConcurrency(2)
        for _ in range(5):
            await requests(concurrency, 3, status=429)
            await asyncio.sleep(2)
        assert concurrency.limit == 1
        await requests(concurrency, 5)

    virtualtime.run(main())


def test_retry_after_holds_everything_back() -> None:
    async def main() -> None:
        concurrency = AdaptiveConcurrency(8)
        async with concurrency.slot() as slot:
            slot.answered(429, 3.0)
        assert await requests(concurrency, 3, "b") == pytest.approx([3.0] * 3)

    virtualtime.run(main())


def test_a_ceiling_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        AdaptiveConcurrency(0)


@pytest.mark.parametrize("status", [200, 0, 504])
def test_slow_objects_of_one_namespace_cost_others_nothing(status: int) -> None:
    """What the shared pace came to in F3: from 32 to 1, and 25 s to 3 min for everybody."""

    async def main() -> None:
        concurrency = AdaptiveConcurrency(64)
        slow = asyncio.create_task(requests(concurrency, 200, "hostile", TIMED_OUT_S, status))
        waited: list[float] = []
        for _ in range(300):
            await asyncio.sleep(1)
            waited += await requests(concurrency, 4, "calm")
        assert max(waited) <= 0.05
        assert concurrency.limit >= 8
        assert concurrency.slow("hostile") and not concurrency.slow("calm")
        # It goes on by itself, a few at a time.
        assert 1 <= concurrency.in_flight <= 4
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        assert concurrency.in_flight == 0

    virtualtime.run(main())


def test_several_slow_namespaces_that_come_at_once_are_written_off() -> None:
    async def main() -> None:
        concurrency = AdaptiveConcurrency(64)
        slow = [
            asyncio.create_task(requests(concurrency, 20, f"hostile-{n}", TIMED_OUT_S))
            for n in range(3)
        ]
        await asyncio.sleep(0)
        (first,) = await requests(concurrency, 1, "calm")
        assert first <= 3 * SLOW_S
        for _ in range(50):
            assert max(await requests(concurrency, 2, "calm")) <= SLOW_S
            await asyncio.sleep(1)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)

    virtualtime.run(main())


def test_a_server_that_is_slow_to_all_is_asked_less() -> None:
    async def main() -> None:
        concurrency = AdaptiveConcurrency(64)
        await asyncio.gather(*(requests(concurrency, 300, f"n{n}") for n in range(10)))
        assert concurrency.limit == 64
        work = [asyncio.create_task(requests(concurrency, 500, f"n{n}", 5.0)) for n in range(10)]
        most = 0
        for second in range(400):
            await asyncio.sleep(1)
            most = concurrency.in_flight if second == 300 else most
        assert concurrency.limit <= 4
        assert most <= 10
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)

    virtualtime.run(main())


def test_a_cancelled_waiter_takes_no_turn() -> None:
    async def main() -> None:
        concurrency = AdaptiveConcurrency(1)
        holder = asyncio.create_task(request(concurrency, Claim("a"), 5.0))
        await asyncio.sleep(0)
        waiters = [asyncio.create_task(request(concurrency, Claim("a"))) for _ in range(3)]
        await asyncio.sleep(0)
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(holder, *waiters, return_exceptions=True)
        assert concurrency.in_flight == 0
        assert len(await requests(concurrency, 2)) == 2

    virtualtime.run(main())


def test_a_turn_granted_and_cancelled_at_once_is_given_back() -> None:
    async def main() -> None:
        concurrency = AdaptiveConcurrency(1)
        async with concurrency.slot() as slot:
            waiter = asyncio.create_task(request(concurrency, Claim("b")))
            await asyncio.sleep(0)
            slot.answered(200)
        waiter.cancel()  # it was granted, and has not run yet
        await asyncio.gather(waiter, return_exceptions=True)
        assert waiter.cancelled()
        assert concurrency.in_flight == 0

    virtualtime.run(main())


async def served_by_one(claims: Iterable[Claim], promoted: Claim | None = None) -> list[str]:
    """By whom turns are taken, one at a time, when all wait already."""
    concurrency, served = AdaptiveConcurrency(1), list[str]()
    async with concurrency.slot() as first:
        tasks = [
            asyncio.create_task(request(concurrency, claim, served=served)) for claim in claims
        ]
        await asyncio.sleep(0)
        if promoted is not None:
            promoted.promote()
        first.answered(200)
    await asyncio.gather(*tasks)
    return served


def test_turns_of_one_group_are_served_in_order() -> None:
    names = [str(n) for n in range(12)]
    assert virtualtime.run(served_by_one(Claim("a", name) for name in names)) == names


def test_what_starts_pods_goes_first_and_starves_nothing() -> None:
    ordinary = [Claim("a", f"o{n}") for n in range(3)]
    urgent = [Claim("a", f"u{n}", urgent=True) for n in range(URGENT_TURNS + 2)]
    served = virtualtime.run(served_by_one([*ordinary, *urgent]))
    names = [claim.group for claim in urgent]
    assert served == [*names[:URGENT_TURNS], "o0", *names[URGENT_TURNS:], "o1", "o2"]


def test_namespaces_take_turns() -> None:
    claims = [Claim("flood", urgent=True) for _ in range(1_000)]
    served = virtualtime.run(served_by_one([*claims, Claim("b", urgent=True), Claim("c")]))
    assert served.index("b") <= 1
    assert served.index("c") <= URGENT_TURNS + 1
    assert len(served) == 1_002


def test_what_something_urgent_waits_for_is_urgent() -> None:
    last = Claim("a", "promoted")
    others = [Claim("a", f"o{n}") for n in range(50)]
    served = virtualtime.run(served_by_one([*others, last], promoted=last))
    assert served == ["promoted", *(claim.group for claim in others)]


def test_a_single_request_does_not_wait_for_ten_thousand_of_a_group() -> None:
    claims = [Claim("a", "large", urgent=True) for _ in range(10_000)]
    served = virtualtime.run(served_by_one([*claims, Claim("a", "single", urgent=True)]))
    assert served.index("single") <= 2 * FEW
    assert len(served) == 10_001


def test_a_flood_of_single_ones_leaves_a_large_group_every_other_turn() -> None:
    large = [Claim("a", "large") for _ in range(500)]
    singles = [Claim("a", f"single-{n}") for n in range(1_000)]
    served = virtualtime.run(served_by_one([*large, *singles]))
    assert served[:1000].count("large") >= 500 - FEW


def test_large_groups_are_served_one_after_the_other() -> None:
    claims = [Claim("a", name) for name in "ab" for _ in range(500)]
    served = virtualtime.run(served_by_one(claims))
    assert served[: 500 + FEW].count("a") == 500


def test_it_is_calm_when_nothing_urgent_waits_that_may_go() -> None:
    async def main() -> None:
        concurrency, served = AdaptiveConcurrency(1), list[str]()

        async def patient() -> None:
            await concurrency.calm(60.0)
            served.append("calm")

        async with concurrency.slot() as first:
            tasks = [
                asyncio.create_task(
                    request(concurrency, Claim("a", name, urgent=name == "u"), served=served)
                )
                for name in ("u", "o")
            ]
            await asyncio.sleep(0)
            waiting = asyncio.create_task(patient())
            await asyncio.sleep(0)
            assert served == []
            first.answered(200)
        await asyncio.gather(waiting, *tasks)
        assert served.index("calm") > served.index("u")

    virtualtime.run(main())


def test_calm_is_waited_for_so_long_and_no_longer() -> None:
    async def main() -> None:
        concurrency = AdaptiveConcurrency(1)
        async with concurrency.slot() as first:
            task = asyncio.create_task(request(concurrency, Claim("a", urgent=True)))
            await asyncio.sleep(0)
            began = now()
            await concurrency.calm(0.05)
            assert now() - began == pytest.approx(0.05)
            first.answered(200)
        await task

    virtualtime.run(main())
