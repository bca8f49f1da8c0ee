"""300 connections that never finish their bodies: the webhook stays small and answers others.

The server runs as a process of its own, over TLS, so that its memory is its own.
"""

import asyncio
import ssl
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from podgroup.model import names
from runtime.certificates import OwnCertificates
from tests.support.processes import Child
from tests.webhook.cluster import raw_pod, review

pytestmark = pytest.mark.retried("it waits for processes that share two cores with other tests")

LIMIT_MB = 512
"""Memory limit of the ingest deployment (deploy/base/ingest.yaml)."""
UNFINISHED = 300
BODY = 3_000_000
SERVER = """
import asyncio, sys
from datetime import UTC, datetime
from pathlib import Path
from ingest.webhook.admission import AdmissionWebhooks
from runtime.certificates import OwnCertificates, server_context
from ingest.webhook.policy import WebhookPolicy
from ingest.webhook.server import (Limits, WebhookServer)
from tests.webhook.cluster import Cluster

async def main():
    certificates = OwnCertificates(Path(sys.argv[1]), ["localhost", "127.0.0.1"])
    certificates.ensure(datetime.now(UTC))
    tls = server_context()
    certificates.load(tls)
    admission = AdmissionWebhooks(WebhookPolicy(), Cluster())
    limits = Limits(body_s=8.0, head_s=float(sys.argv[2]))
    server = WebhookServer(admission, tls=tls, limits=limits)
    await server.start()
    print("listening", server.url, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Target:
    """The attacked process, and what is needed to speak to it."""

    def __init__(self, child: Child, port: int, trust: ssl.SSLContext) -> None:
        self.child = child
        self.port = port
        self.trust = trust

    def memory_mb(self) -> float:
        """Resident memory, and the most there ever was."""
        assert self.child.process is not None
        status = Path(f"/proc/{self.child.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    async def unfinished(self, sent: int) -> asyncio.StreamWriter:
        """A request whose body stops after `sent` bytes; the connection stays open."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)
        head = (
            "POST /mutate--v1-pod HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
            f"Content-Length: {BODY + 1}\r\n\r\n"
        )
        writer.write(head.encode())
        left = sent
        try:
            while left > 0:
                writer.write(b" " * min(65_536, left))
                left -= 65_536
                await asyncio.wait_for(writer.drain(), 20)
        except (OSError, TimeoutError):
            pass  # the server gave this one up
        return writer


@pytest.fixture
async def target(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Target]:
    """A webhook; a test may say within how many seconds a head must come."""
    head_s = str(getattr(request, "param", 10.0))
    certs = tmp_path / "certs"
    child = Child("webhook", [sys.executable, "-c", SERVER, str(certs), head_s], {}, tmp_path)
    child.start()
    try:
        child.wait_for("listening https", 30)
        url = next(line for line in child.text().splitlines() if line.startswith("listening"))
        bundle = OwnCertificates(certs, ["localhost"]).ca_bundle().decode()
        yield Target(child, int(url.rpartition(":")[2]), ssl.create_default_context(cadata=bundle))
    finally:
        child.stop()


async def asked(session: aiohttp.ClientSession, port: int) -> float:
    """Seconds in which an honest review is answered."""
    began = time.monotonic()
    body = review(raw_pod(labels={names.QUEUE_NAME: "q"}))
    url = f"https://127.0.0.1:{port}/mutate--v1-pod"
    async with session.post(url, json=body) as answer:
        assert answer.status == 200, await answer.text()
        assert (await answer.json())["response"]["allowed"]
    return time.monotonic() - began


async def test_unfinished_bodies_cost_little_and_keep_nobody_waiting(target: Target) -> None:
    connector = aiohttp.TCPConnector(ssl=target.trust, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asked(session, target.port)
        attack = [asyncio.create_task(target.unfinished(BODY)) for _ in range(UNFINISHED)]
        took = []
        while not all(task.done() for task in attack):
            took.append(await asked(session, target.port))
            await asyncio.sleep(0.1)
        took += [await asked(session, target.port) for _ in range(5)]
        assert target.memory_mb() < LIMIT_MB * 0.75
        # The attacker and the attacked share two cores here, so the slowest says little.
        assert sorted(took)[len(took) // 2] < 2 and max(took) < 15, took
        for task in attack:
            (await task).close()


@pytest.mark.parametrize("target", [3.0], indirect=True, ids=["3s"])
async def test_silent_connections_end_and_keep_nobody_out(target: Target) -> None:
    """More than there may be at once, without a handshake or without a head."""
    silent = [await asyncio.open_connection("127.0.0.1", target.port) for _ in range(300)]
    shaken = [
        await asyncio.open_connection("127.0.0.1", target.port, ssl=target.trust)
        for _ in range(100)
    ]
    connector = aiohttp.TCPConnector(ssl=target.trust, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        assert await asked(session, target.port) < 5
    for reader, writer in (*silent, *shaken):
        ended = await asyncio.wait_for(reader.read(), 20)
        assert ended == b""
        writer.close()
    assert target.memory_mb() < LIMIT_MB / 2
