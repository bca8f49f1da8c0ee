"""HTTP/1.1 as clients may speak it: pieces, pipelines, lengths, and what ends a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from simcluster import Settings
from simcluster.client import Client
from tests.simcluster.make import config_map
from tests.support.standin import SimCluster

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

NS = "default"
MAPS = f"/api/v1/namespaces/{NS}/configmaps"


class Wire:
    """A connection without a client library."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, cluster: SimCluster, method: str, path: str, *more: str, body: str = "") -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: sim", f"Authorization: Bearer {cluster.token}"]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        self.writer.write(("\r\n".join([*lines, *more, "", ""]) + body).encode())

    async def answer(self, *, has_body: bool = True) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        size = int(headers.get("content-length", 0)) if has_body else 0
        return int(head[0].split()[1]), headers, await self.reader.readexactly(size)

    async def ended(self) -> bool:
        return await self.reader.read() == b""


@asynccontextmanager
async def wire(cluster: SimCluster) -> AsyncIterator[Wire]:
    port = int(cluster.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(30):
            yield Wire(reader, writer)
    finally:
        writer.close()


async def test_pipelined_requests_are_answered_in_order(cluster: SimCluster) -> None:
    cluster.faults.delay(30, path="/configmaps/slow")
    async with wire(cluster) as one:
        for i in range(40):
            one.send(cluster, "GET", f"{MAPS}/{'slow' if i == 0 else f'c{i}'}")
        bodies = [(await one.answer())[2] for _ in range(40)]
    assert b"slow" in bodies[0]
    assert all(f'"c{i}\\"'.encode() in bodies[i] for i in range(1, 40))


async def test_a_request_may_come_in_pieces_and_in_chunks(cluster: SimCluster) -> None:
    async with wire(cluster) as one:
        one.send(cluster, "POST", MAPS, "Transfer-Encoding: chunked", "Expect: 100-continue")
        assert (await one.answer())[0] == 100
        for piece in ('{"metadata":', '{"name":"a"},', '"data":{"k":"v"}}'):
            one.writer.write(f"{len(piece):x}\r\n{piece}\r\n".encode())
            await asyncio.sleep(0.005)
        one.writer.write(b"0\r\n\r\n")
        status, headers, body = await one.answer()
        assert (status, headers["content-type"]) == (201, "application/json")
        assert b'"k":"v"' in body
        one.send(cluster, "HEAD", f"{MAPS}/a")
        assert (await one.answer(has_body=False))[0] == 405
        one.send(cluster, "GET", f"{MAPS}/%61", "Connection: close")
        status, headers, body = await one.answer()
        assert (status, headers["connection"]) == (200, "close")
        assert await one.ended()


async def test_what_is_no_request_is_refused(cluster: SimCluster) -> None:
    async with wire(cluster) as one:
        one.writer.write(b"nonsense\r\n\r\n")
        assert (await one.answer())[0] == 400
        assert await one.ended()


async def test_a_body_that_is_too_large_is_413_and_costs_nobody_anything() -> None:
    async with SimCluster(Settings(max_body_bytes=1000)) as cluster, wire(cluster) as one:
        one.send(cluster, "POST", MAPS, body='{"metadata":{"name":"' + "a" * 1000 + '"}}')
        assert (await one.answer())[0] == 413
        one.send(cluster, "POST", MAPS, body='{"metadata":{"name":"a"}}')
        assert (await one.answer())[0] == 201


async def test_a_connection_serves_on_after_its_watch_timed_out(cluster: SimCluster) -> None:
    async with wire(cluster) as one:
        one.send(cluster, "GET", f"{MAPS}?watch=1&timeoutSeconds=1")
        one.send(cluster, "GET", f"{MAPS}/absent")
        await one.reader.readuntil(b"\r\n0\r\n\r\n")
        assert (await one.answer())[0] == 404


async def test_a_reader_that_lags_gets_everything_in_order(cluster: SimCluster) -> None:
    """More than sockets hold: the rest waits in the watch until there is room."""
    count, text = 120, "x" * 100_000
    async with wire(cluster) as one, Client(cluster.url, cluster.token) as client:
        one.send(cluster, "GET", f"{MAPS}?watch=1&resourceVersion=0")
        await one.reader.readuntil(b"\r\n\r\n")
        for i in range(count):
            await client.create("configmaps", {**config_map(f"c{i}"), "data": {"k": text}}, NS)
        seen = b""
        while seen.count(b'"type":"ADDED"') < count:
            seen += await one.reader.read(1 << 20)
        places = [seen.index(f'"name":"c{i}"'.encode()) for i in range(count)]
        assert places == sorted(places)
