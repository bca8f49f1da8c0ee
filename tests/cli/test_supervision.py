"""`gatelog up`: a part that fails by a defect is started again, and the others go on."""

import asyncio

import pytest

from gatelog.allinone import supervised
from gatelog.shell.errors import CommandFailed
from projector.storage.database import DatabaseError, DatabaseUnavailable
from projector.storage.store import StaleProjector, StoreDamaged
from runtime.backoff import Backoff
from runtime.health import Checks
from runtime.jetstream.values import BusError, BusUnavailable
from runtime.kube_errors import KubeError, KubeUnavailable
from runtime.settings import SettingsError


def soon() -> Backoff:
    return Backoff(first_s=0.01, ceiling_s=0.02)


async def test_a_defect_in_one_part_ends_neither_it_nor_the_others() -> None:
    stop, checks, seen = asyncio.Event(), Checks(), []
    answered = 0

    async def projector() -> None:
        seen.append(await checks.readiness())
        if len(seen) < 4:
            async with asyncio.TaskGroup() as group:
                group.create_task(fails())
        checks.ready("projector", lambda: "")
        await stop.wait()

    async def fails() -> None:
        raise KeyError("prepared statement does not exist")

    async def webhook() -> None:
        nonlocal answered
        while not stop.is_set():
            answered += 1
            await asyncio.sleep(0.001)

    async with asyncio.TaskGroup() as group:
        group.create_task(supervised("projector", projector, stop, checks, soon()))
        group.create_task(supervised("ingest", webhook, stop, checks, soon()))
        while len(seen) < 4:
            await asyncio.sleep(0.001)
        before = answered
        while answered < before + 5:
            await asyncio.sleep(0.001)
        assert await checks.readiness() == {}
        stop.set()
    assert seen[0] == {}
    assert "is started again: 'prepared statement does not exist'" in seen[1]["projector"]


async def test_a_part_without_a_check_of_its_name_is_ready_again() -> None:
    """The actuator is one: its checks are named for what they are about."""
    stop, checks, starts = asyncio.Event(), Checks(), 0

    async def actuator() -> None:
        nonlocal starts
        starts += 1
        if starts == 1:
            raise KeyError("a defect")
        checks.ready("actuator: log", lambda: "")
        await stop.wait()

    task = asyncio.create_task(supervised("actuator", actuator, stop, checks, soon()))
    while starts < 2:
        await asyncio.sleep(0.001)
    async with asyncio.timeout(15):
        while await checks.readiness():
            await asyncio.sleep(0.1)
    stop.set()
    await task


@pytest.mark.parametrize(
    "error",
    [
        SettingsError("wrong"),
        DatabaseError("another schema"),
        StaleProjector("another one"),
        ExceptionGroup("in a group", [DatabaseError("another schema")]),
    ],
)
async def test_what_starting_again_does_not_help_against_ends_the_process(error: Exception) -> None:
    starts = 0

    async def part() -> None:
        nonlocal starts
        starts += 1
        raise error

    with pytest.raises(type(error)):
        await supervised("projector", part, asyncio.Event(), Checks(), soon())
    assert starts == 1


@pytest.mark.parametrize(
    "error",
    [DatabaseError("disk full"), BusError("stream gone"), KubeError("500"), StoreDamaged("torn")],
)
async def test_what_a_part_fails_on_that_has_worked_leaves_the_others_alone(
    error: Exception,
) -> None:
    stop, starts = asyncio.Event(), 0

    async def part() -> None:
        nonlocal starts
        starts += 1
        await asyncio.sleep(0.02 if starts == 1 else 0)
        if starts < 4:
            raise error
        await stop.wait()

    task = asyncio.create_task(supervised("projector", part, stop, Checks(), soon(), good_s=0.01))
    while starts < 4:
        await asyncio.sleep(0.001)
    stop.set()
    await task


@pytest.mark.parametrize(
    "error", [DatabaseUnavailable("away"), BusUnavailable("away"), KubeUnavailable("away")]
)
async def test_what_is_away_may_come_back(error: Exception) -> None:
    stop, starts = asyncio.Event(), 0

    async def part() -> None:
        nonlocal starts
        starts += 1
        if starts < 3:
            raise ExceptionGroup("in a group", [error])
        await stop.wait()

    task = asyncio.create_task(supervised("ingest", part, stop, Checks(), soon()))
    while starts < 3:
        await asyncio.sleep(0.001)
    stop.set()
    await task


async def test_another_projector_is_always_the_end() -> None:
    async def part() -> None:
        await asyncio.sleep(0.02)
        raise StaleProjector("another one")

    with pytest.raises(StaleProjector):
        await supervised("projector", part, asyncio.Event(), Checks(), soon(), good_s=0.01)


async def test_a_part_that_ends_by_itself_is_an_error() -> None:
    async def part() -> None:
        return

    with pytest.raises(CommandFailed, match="ended by itself"):
        await supervised("actuator", part, asyncio.Event(), Checks(), soon())
