"""Three nats-servers on loopback that keep three copies of each stream.

Invariant: a node that was killed is started again on the same ports and the same files.
"""

import asyncio
import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import nats

from runtime.embedded import server_binary
from runtime.settings import NatsSettings

NAMES = ("n1", "n2", "n3")


class Node:
    """One server of the cluster."""

    def __init__(self, name: str, folder: Path, port: int, route: int, routes: list[int]) -> None:
        self.name = name
        self.port = port
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True)
        others = ", ".join(f'"nats://127.0.0.1:{other}"' for other in routes)
        (folder / "nats.conf").write_text(
            f"""server_name: {name}
listen: "127.0.0.1:{port}"
max_payload: 8MB
cluster {{ name: test, listen: "127.0.0.1:{route}", routes: [{others}] }}
jetstream {{ store_dir: {json.dumps(str(folder / "store"))}, max_file_store: 1TB }}
log_file: {json.dumps(str(folder / "nats.log"))}
"""
        )

    def start(self) -> None:
        self.process = subprocess.Popen(
            [server_binary(), "-c", str(self.folder / "nats.conf")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class NatsCluster:
    """All three; `settings` reach any of them."""

    def __init__(self, folder: Path) -> None:
        ports = _free_ports(2 * len(NAMES))
        routes = ports[len(NAMES) :]
        self.nodes = {
            name: Node(name, folder / name, ports[n], routes[n], routes)
            for n, name in enumerate(NAMES)
        }

    @property
    def settings(self) -> NatsSettings:
        return NatsSettings(
            url=",".join(f"nats://127.0.0.1:{n.port}" for n in self.nodes.values()),
            connect_timeout_s=2.0,
            ping_interval_s=2.0,
        )

    async def start(self, patience_s: float = 60.0) -> None:
        """Start every node and wait until there is a leader for the metadata."""
        for node in self.nodes.values():
            node.start()
        until = time.monotonic() + patience_s
        while True:
            answer = await self.ask("INFO")
            if answer is not None and not answer.get("error"):
                return
            assert time.monotonic() < until, answer
            await asyncio.sleep(0.2)

    def stop(self) -> None:
        for node in self.nodes.values():
            node.kill()

    async def stream(self, name: str) -> dict[str, Any] | None:
        """What the cluster says about a stream: its leader, and who follows how closely."""
        return await self.ask(f"STREAM.INFO.{name}")

    async def leader(self, stream: str, patience_s: float = 30.0) -> Node:
        until = time.monotonic() + patience_s
        while True:
            found = await self.stream(stream)
            name = ((found or {}).get("cluster") or {}).get("leader")
            if name:
                return self.nodes[name]
            assert time.monotonic() < until, f"no leader of {stream}: {found}"
            await asyncio.sleep(0.1)

    async def until_whole(self, stream: str, patience_s: float = 60.0) -> None:
        """Wait until both followers have all the leader has, or nearly."""
        until = time.monotonic() + patience_s
        while True:
            found = (await self.stream(stream) or {}).get("cluster") or {}
            following = found.get("replicas") or []
            if len(following) == 2 and all(f.get("current") for f in following):
                return
            assert time.monotonic() < until, f"{stream} is not whole: {found}"
            await asyncio.sleep(0.2)

    async def ask(self, subject: str) -> dict[str, Any] | None:
        for node in self.nodes.values():
            if node.process is None:
                continue
            try:
                client = await nats.connect(
                    f"nats://127.0.0.1:{node.port}",
                    allow_reconnect=False,
                    connect_timeout=2,
                    error_cb=_quiet,
                )
            except Exception:
                continue
            try:
                answer = await client.request(f"$JS.API.{subject}", b"", timeout=2)
                found: dict[str, Any] = json.loads(answer.data)
                return found
            except Exception:
                continue
            finally:
                await client.close()
        return None


async def _quiet(_: Exception) -> None:
    """Nodes that are not there yet are expected."""


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
