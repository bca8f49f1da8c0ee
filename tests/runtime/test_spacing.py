"""Spacing: beginnings of a stream of work are kept apart, a lone one is not."""

import asyncio
import time

import pytest

from runtime.spacing import PATIENT_GAPS, Spacing

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

GAP_S = 0.05


async def begin(spacing: Spacing) -> float:
    """Wait for a turn, begin, and tell how long it took."""
    asked = time.monotonic()
    await spacing.turn()
    spacing.begin()
    return time.monotonic() - asked


async def test_the_first_and_what_comes_after_a_pause_begin_at_once() -> None:
    spacing = Spacing(GAP_S)
    assert await begin(spacing) < GAP_S / 2
    await asyncio.sleep(GAP_S)
    assert spacing.left_s() == 0
    assert await begin(spacing) < GAP_S / 2


async def test_what_comes_close_behind_waits_for_the_rest_of_the_gap_and_no_longer() -> None:
    spacing = Spacing(GAP_S)
    spacing.begin()
    began = time.monotonic()
    assert 0 < spacing.left_s() <= GAP_S
    await asyncio.sleep(GAP_S / 2)
    await spacing.turn()
    assert time.monotonic() - began >= GAP_S * 0.9
    assert spacing.left_s() < 0.01


async def test_without_a_gap_nothing_waits() -> None:
    spacing = Spacing(0)
    spacing.begin()
    assert spacing.left_s() == 0


async def test_what_nobody_waits_for_collects_until_something_is_urgent() -> None:
    spacing, urgent = Spacing(GAP_S), asyncio.Event()
    spacing.begin()
    began = time.monotonic()
    asyncio.get_running_loop().call_later(2 * GAP_S, urgent.set)
    await spacing.turn(urgent)
    assert 2 * GAP_S * 0.9 <= time.monotonic() - began < PATIENT_GAPS * GAP_S * 0.9
    spacing.begin()
    urgent.clear()
    began = time.monotonic()
    await spacing.turn(urgent)
    assert time.monotonic() - began >= PATIENT_GAPS * GAP_S * 0.9
