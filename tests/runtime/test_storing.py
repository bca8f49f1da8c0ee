"""A log server whose disk is full: it stays connected and answers, and stores nothing."""

import asyncio
import time
from pathlib import Path

from gatelog.allinone import keep_storing
from podgroup.log import subjects
from runtime.embedded import EmbeddedNats
from runtime.jetstream import Bus, BusUnavailable, connect
from runtime.settings import StreamSettings
from tests.support.faults.processes import limit_files

SUBJECT = subjects.events("full", "watch")


async def stored(bus: Bus, name: str) -> bool:
    try:
        await bus.publish(SUBJECT, b"x" * 9000, name, timeout_s=1)
    except BusUnavailable:
        return False
    return True


async def test_it_is_said_after_a_while_and_ends_without_a_restart_of_ours(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path / "nats")
    await server.start()
    bus = await connect(server.settings(), "test", deadline_s=20)
    keeping = asyncio.create_task(keep_storing(server, bus))
    try:
        await bus.ensure_streams(StreamSettings())
        assert await stored(bus, "before") and bus.problem == ""
        first = server.pid
        assert first is not None
        limit_files(first)
        began = time.monotonic()
        for n in range(60):
            assert not await stored(bus, f"full-{n}")
            if bus.problem:
                break
        assert bus.problem.startswith("NATS stores nothing on events.>: failed "), bus.problem
        assert bus.connected and time.monotonic() - began < 30
        while server.pid == first:  # the restart that nothing else would bring
            await asyncio.sleep(0.1)
        for n in range(60):
            if await stored(bus, f"after-{n}"):
                break
        assert bus.problem == "" and time.monotonic() - began < 60
    finally:
        keeping.cancel()
        await bus.close()
        await server.stop()


async def test_a_restart_that_fails_on_the_full_disk_is_made_again(tmp_path: Path) -> None:
    """The server's address could not be written, and nothing restarted it any more."""
    server = EmbeddedNats(tmp_path / "nats")
    await server.start()
    bus = await connect(server.settings(), "test", deadline_s=20)
    keeping = asyncio.create_task(keep_storing(server, bus, again_s=0.5))
    try:
        await bus.ensure_streams(StreamSettings())
        first = server.pid
        assert first is not None
        limit_files(first)
        in_the_way = tmp_path / "nats" / "address.new"
        in_the_way.mkdir()
        async with asyncio.timeout(60):
            while server.pid == first:
                await stored(bus, "full")
        in_the_way.rmdir()
        address = tmp_path / "nats" / "address"
        async with asyncio.timeout(60):
            while not address.exists() or not await stored(bus, "after"):
                await asyncio.sleep(0.1)
        assert not keeping.done()
    finally:
        keeping.cancel()
        await bus.close()
        await server.stop()
