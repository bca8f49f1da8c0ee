import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from msgspec import structs

from runtime.embedded import EmbeddedError, EmbeddedNats, running, server_binary
from runtime.jetstream import LoginRefused, connect
from runtime.settings import NatsSettings, StreamSettings

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


async def _gone(pid: int, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if not _exists(pid):
            return True
        await asyncio.sleep(0.02)
    return False


def test_the_binary_is_found_and_recent_enough() -> None:
    said = subprocess.run(
        [server_binary(), "--version"], capture_output=True, text=True, check=True
    )
    version = said.stdout.rsplit("v", 1)[1].strip()
    assert tuple(int(part) for part in version.split(".")) >= (2, 12, 3)


async def test_it_listens_on_loopback_only_and_asks_for_a_password(own_nats: EmbeddedNats) -> None:
    assert own_nats.url.startswith("nats://127.0.0.1:")
    port = int(own_nats.url.rsplit(":", 1)[1])
    # /proc/net/tcp: local address in hexadecimal, state 0A is LISTEN.
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    rows += [line.split() for line in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    listening = {row[1] for row in rows if row[3] == "0A" and row[1].endswith(f":{port:04X}")}
    assert listening == {f"0100007F:{port:04X}"}
    password = own_nats.store_dir / "password"
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    assert stat.S_IMODE((own_nats.store_dir / "nats.conf").stat().st_mode) == 0o600
    with pytest.raises(LoginRefused, match="refuses our login"):
        await connect(NatsSettings(url=own_nats.url), "nobody", deadline_s=5)


async def test_what_was_stored_survives_a_kill(own_nats: EmbeddedNats) -> None:
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    sequences = [await bus.publish("events.c.0.watch", b"x", f"id{n}") for n in range(20)]
    await bus.close()
    first_url = own_nats.url
    own_nats.kill()
    assert await own_nats.start() == first_url
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    assert (await bus.stream_state("EVENTS")).last_sequence == sequences[-1] == 20
    await bus.close()


async def test_a_store_in_use_is_refused(own_nats: EmbeddedNats) -> None:
    found = running(own_nats.store_dir)
    assert found == structs.replace(own_nats.settings())
    with pytest.raises(EmbeddedError, match="in use by another gatelog"):
        await EmbeddedNats(own_nats.store_dir).start()
    await own_nats.stop()
    assert running(own_nats.store_dir) is None
    again = EmbeddedNats(own_nats.store_dir)
    await again.start()
    await again.stop()


async def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = EmbeddedNats(tmp_path, port=port)
        with pytest.raises(EmbeddedError, match=f"127.0.0.1:{port}.*in use"):
            await server.start()
    assert not server.alive
    assert await server.start() == f"nats://127.0.0.1:{port}"
    await server.stop()


async def test_stop_is_safe_to_repeat_and_before_start(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path / 'a b"c')
    await server.stop()
    await server.start()
    pid = server.pid
    assert pid is not None
    await server.stop()
    await server.stop()
    assert not _exists(pid)


CHILD = """
import asyncio, sys, uvloop
from runtime.embedded import EmbeddedNats
async def main():
    server = EmbeddedNats(sys.argv[1])
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(60)
made = uvloop.new_event_loop if sys.argv[2] == 'uvloop' else None
with asyncio.Runner(loop_factory=made) as runner:
    runner.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="PDEATHSIG is Linux's")
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
async def test_it_dies_with_its_parent_and_lets_go_of_the_store(tmp_path: Path, loop: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path), loop], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert _exists(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert await _gone(pid, within_s=10)
    server = EmbeddedNats(tmp_path)
    await server.start()
    await server.stop()


@pytest.mark.parametrize("own", ["", "100"])
async def test_the_server_collects_garbage_early_unless_told_when(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    monkeypatch.delenv("GOGC", raising=False)
    if own:
        monkeypatch.setenv("GOGC", own)
    server = EmbeddedNats(tmp_path)
    await server.start()
    try:
        given = Path(f"/proc/{server.pid}/environ").read_text().split("\0")
        assert f"GOGC={own or '25'}" in given
    finally:
        await server.stop()
