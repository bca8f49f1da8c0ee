"""Logging in to servers that ask for more than a password: nkeys, TLS, client certificates."""

import asyncio
import base64
import contextlib
import json
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import nkeys
import pytest
import trustme
from msgspec import structs

from runtime.embedded import server_binary
from runtime.jetstream import Bus, BusUnavailable, LoginRefused, connect
from runtime.settings import NatsSettings, StreamSettings


@contextlib.asynccontextmanager
async def server(directory: Path, config: str) -> AsyncIterator[NatsSettings]:
    path = directory / "server.conf"
    path.write_text(
        f'listen: "127.0.0.1:-1"\nports_file_dir: "{directory}"\n'
        f'jetstream {{ store_dir: "{directory}/js" }}\n{config}'
    )
    log = (directory / "server.log").open("wb")
    process = subprocess.Popen([server_binary(), "-c", str(path)], stdout=log, stderr=log)
    try:
        until = time.monotonic() + 10
        while not (found := list(directory.glob("nats-server*.ports"))):
            assert process.poll() is None, (directory / "server.log").read_text()
            assert time.monotonic() < until
            await asyncio.sleep(0.02)
        port = json.loads(found[0].read_text())["nats"][0].rsplit(":", 1)[1]
        yield NatsSettings(url=f"nats://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait()
        log.close()


async def usable(settings: NatsSettings) -> None:
    bus: Bus = await connect(settings, "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    assert await bus.publish("events.c.0.watch", b"x", "1") == 1
    await bus.close()


def new_seed(first: int) -> tuple[str, str]:
    """Return a user seed and its public key."""
    prefix = bytes([(18 << 3) | (20 << 3) >> 5, ((20 << 3) & 31) << 3])
    raw = prefix + bytes((first + n) % 256 for n in range(32))
    crc = 0
    for byte in raw:
        crc ^= byte << 8
        for _ in range(8):
            crc = ((crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    seed = base64.b32encode(raw + crc.to_bytes(2, "little")).decode().rstrip("=")
    return seed, nkeys.from_seed(bytearray(seed.encode())).public_key.decode()


async def test_an_nkey_seed(tmp_path: Path) -> None:
    seed, public = new_seed(1)
    other, _ = new_seed(2)
    (tmp_path / "seed").write_text(seed + "\n")
    (tmp_path / "other").write_text(other)
    config = f"authorization {{ users: [ {{ nkey: {public} }} ] }}"
    async with server(tmp_path, config) as settings:
        await usable(structs.replace(settings, nkey_seed=str(tmp_path / "seed")))
        with pytest.raises(LoginRefused) as caught:
            await connect(structs.replace(settings, nkey_seed=str(tmp_path / "other")), "test")
        assert other not in str(caught.value)


async def test_tls_with_our_ca_and_a_client_certificate(tmp_path: Path) -> None:
    authority, ca, both = trustme.CA(), tmp_path / "ca.pem", tmp_path / "both.pem"
    authority.cert_pem.write_to_path(ca)
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(both)
    config = f'tls {{ cert_file: "{both}", key_file: "{both}", ca_file: "{ca}", verify: true }}\n'
    async with server(tmp_path, config) as plain:
        trusting = structs.replace(plain, tls_ca=str(ca))
        with_certificate = structs.replace(trusting, tls_cert=str(both), tls_key=str(both))
        await usable(with_certificate)
        tls_url = plain.url.replace("nats://", "tls://")
        await usable_again(structs.replace(with_certificate, url=tls_url))
        with pytest.raises(BusUnavailable):
            await connect(trusting, "no certificate", deadline_s=1)
        with pytest.raises(BusUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await connect(plain, "no trust", deadline_s=1)


async def usable_again(settings: NatsSettings) -> None:
    bus = await connect(settings, "test", deadline_s=10)
    assert (await bus.stream_state("EVENTS")).messages == 1
    await bus.close()
