"""Clients that connect to `gatelog serve` and send nothing, or a head byte by byte.

The same against the webhook: `test_webhook_memory.py`.
"""

import asyncio
import ssl
import time

import aiohttp
import pytest

from runtime.connections import HEAD_S
from tests.serve.conftest import World, sqlite_model, world

__all__ = ["sqlite_model", "world"]

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

SILENT, DRIPPING = 150, 50


async def test_slow_requests_to_serve_end_and_keep_nobody_out(world: World) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    where = ("127.0.0.1", world.port)
    silent = [await asyncio.open_connection(*where) for _ in range(SILENT)]
    dripping = [await asyncio.open_connection(*where, ssl=context) for _ in range(DRIPPING)]
    ended = 0

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal ended
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: h\r\n")
        try:
            while not reader.at_eof():
                writer.write(b"X-A: b\r\n")
                await writer.drain()
                await asyncio.sleep(0.2)
        except OSError:
            pass
        ended += 1

    drips = [asyncio.create_task(drip(*each)) for each in dripping]
    connector = aiohttp.TCPConnector(ssl=context, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        began = time.monotonic()
        async with session.get(f"https://127.0.0.1:{world.port}/healthz") as answer:
            assert answer.status == 200
        assert time.monotonic() - began < HEAD_S
    for reader, writer in silent:
        assert await asyncio.wait_for(reader.read(), 5 * HEAD_S) == b""
        writer.close()
    await asyncio.wait_for(asyncio.gather(*drips), 5 * HEAD_S)
    assert ended == DRIPPING
    for _, writer in dripping:
        writer.close()
