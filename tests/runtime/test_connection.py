import asyncio
import contextlib
import json
import time
from pathlib import Path

import pytest
from msgspec import structs
from nats.aio.msg import Msg

from runtime.embedded import EmbeddedNats
from runtime.jetstream import (
    Bus,
    BusError,
    BusUnavailable,
    LoginRefused,
    ServerTooOld,
    connect,
)
from runtime.jetstream.connection import open_connection
from runtime.settings import NatsSettings, StreamSettings
from tests.support.faults.proxy import proxy_to

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def test_a_server_too_old_is_refused_with_the_reason() -> None:
    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "x", "version": "2.12.2", "max_payload": 1048576, "headers": True}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(old, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ServerTooOld, match=r"version 2\.12\.2; gatelog needs 2\.12\.3 or later"):
        await connect(NatsSettings(url=f"nats://127.0.0.1:{port}"), "test", deadline_s=5)
    server.close()


async def test_nobody_there_is_unavailable_after_the_deadline() -> None:
    started = time.monotonic()
    with pytest.raises(BusUnavailable, match=r"no NATS server within 0\.5 s"):
        await connect(NatsSettings(url="nats://127.0.0.1:1"), "test", deadline_s=0.5)
    assert time.monotonic() - started < 3


async def test_an_attempt_to_connect_can_be_ended_at_any_moment() -> None:
    # A cancellation that comes as the connection is refused is lost inside nats-py; then `close`
    # waited for ever. Each round ends it one turn of the event loop later.
    settings = NatsSettings(url="nats://127.0.0.1:1")
    for turns in range(40):
        connecting = asyncio.create_task(connect(settings, "test"))
        for _ in range(turns):
            await asyncio.sleep(0)
        connecting.cancel()
        ended, _ = await asyncio.wait((connecting,), timeout=20)
        assert ended, f"still connecting, told to end after {turns} turns"
        assert connecting.cancelled()


async def test_a_server_that_says_nothing_is_given_up_in_time() -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    settings = NatsSettings(url=f"nats://127.0.0.1:{port}", connect_timeout_s=0.2)
    with pytest.raises(BusUnavailable):
        await connect(settings, "test", deadline_s=1)
    server.close()


async def test_connecting_waits_for_a_server_that_starts_later(tmp_path: Path) -> None:
    server = EmbeddedNats(tmp_path)
    await server.start()
    settings = server.settings()
    await server.stop()
    connecting = asyncio.create_task(connect(settings, "early"))
    await asyncio.sleep(0.3)
    await server.start()
    async with asyncio.timeout(10):
        bus = await connecting
    assert bus.connected
    await bus.close()
    assert not bus.connected
    await server.stop()


@pytest.mark.parametrize("field", ["password_file", "credentials", "nkey_seed", "tls_ca"])
async def test_a_file_that_is_not_there_is_named(field: str) -> None:
    settings = structs.replace(
        NatsSettings(url="nats://127.0.0.1:1", user="u"), **{field: "/does/not/exist"}
    )
    with pytest.raises(BusError, match=f"nats.{field} = '/does/not/exist': there is no such file"):
        await connect(settings, "test", deadline_s=5)


async def test_an_empty_url_is_explained() -> None:
    with pytest.raises(BusError, match=r"nats\.url is empty"):
        await connect(NatsSettings(), "test", deadline_s=1)


async def test_a_wrong_password_is_refused_at_once_and_not_shown(
    own_nats: EmbeddedNats, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("sesame")
    settings = structs.replace(own_nats.settings(), password_file=str(wrong))
    with pytest.raises(LoginRefused) as caught:
        await connect(settings, "test")
    assert "sesame" not in str(caught.value)


async def test_a_url_with_a_password_is_not_shown() -> None:
    with pytest.raises(BusUnavailable) as caught:
        await connect(NatsSettings(url="nats://me:sesame@127.0.0.1:1"), "test", deadline_s=0.2)
    assert "sesame" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


async def test_refused_connections_are_retried_until_the_server_is_back(
    nats_server: EmbeddedNats, cluster: str
) -> None:
    async with proxy_to(nats_server.url) as proxy:
        settings = structs.replace(nats_server.settings(), url=f"nats://127.0.0.1:{proxy.port}")
        bus = await connect(settings, "through a proxy", deadline_s=10)
        await bus.ensure_streams(StreamSettings())
        back = asyncio.Event()
        bus.on_reconnect.append(back.set)
        await proxy.refuse()
        await asyncio.sleep(0.4)
        assert not bus.connected
        with pytest.raises(BusUnavailable):
            await bus.stream_state("EVENTS")
        await proxy.start()
        async with asyncio.timeout(10):
            await back.wait()
        assert await bus.publish(f"events.{cluster}.0.watch", b"x", cluster) > 0
        await bus.close()


async def test_a_request_under_way_fails_at_once_when_the_connection_is_cut(
    nats_server: EmbeddedNats,
) -> None:
    async with proxy_to(nats_server.url) as proxy:
        settings = structs.replace(nats_server.settings(), url=f"nats://127.0.0.1:{proxy.port}")
        bus = await connect(settings, "through a proxy", deadline_s=10)
        await bus.ensure_streams(StreamSettings())
        proxy.hold()
        asking = asyncio.create_task(bus.stream_state("EVENTS"))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        proxy.cut()
        with pytest.raises(BusUnavailable, match="connection was lost"):
            await asking
        assert time.monotonic() - started < 4, "an answer is waited for 5 s"
        proxy.release()
        await bus.close()


async def test_a_silent_server_is_a_timeout_with_a_name(nats_server: EmbeddedNats) -> None:
    async with proxy_to(nats_server.url) as proxy:
        settings = structs.replace(nats_server.settings(), url=f"nats://127.0.0.1:{proxy.port}")
        bus = await connect(settings, "through a proxy", deadline_s=10)
        proxy.hold()
        with pytest.raises(BusUnavailable, match=r"events\.c\.0\.watch within 0\.\d+ s"):
            await bus.publish("events.c.0.watch", b"x", "1", timeout_s=0.3)
        proxy.release()
        await bus.close()


async def test_a_dead_peer_is_noticed_by_ping_and_left(nats_server: EmbeddedNats) -> None:
    async with proxy_to(nats_server.url) as proxy:
        settings = structs.replace(
            nats_server.settings(),
            url=f"nats://127.0.0.1:{proxy.port}",
            ping_interval_s=0.2,
            connect_timeout_s=0.5,
        )
        bus = await connect(settings, "through a proxy", deadline_s=10)
        proxy.hold()
        until = time.monotonic() + 5
        while bus.connected and time.monotonic() < until:
            await asyncio.sleep(0.05)
        assert not bus.connected
        proxy.release()
        while not bus.connected and time.monotonic() < until + 5:
            await asyncio.sleep(0.05)
        assert (await bus.stream_state("EVENTS")).name == "EVENTS"
        await bus.close()


async def test_no_task_of_ours_is_left_behind(own_nats: EmbeddedNats) -> None:
    before = asyncio.all_tasks()
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    reader = bus.read("EVENTS", "events.>", 1)
    await reader.next(0.1)
    pipeline = bus.publisher()
    await pipeline.send("events.c.0.watch", b"x", "1")
    await pipeline.flush()
    own_nats.kill()
    await asyncio.sleep(0.2)
    await bus.close()
    await asyncio.sleep(0.1)
    assert asyncio.all_tasks() == before


async def test_permission_errors_are_part_of_the_message(
    own_nats: EmbeddedNats, tmp_path: Path
) -> None:
    config = own_nats.store_dir / "nats.conf"
    text = config.read_text()
    line = next(line for line in text.splitlines() if line.startswith("authorization"))
    inner = line.removeprefix("authorization {").removesuffix("}")
    deny = 'permissions: {publish: {deny: "events.>"}}'
    limited = text.replace(line, f"authorization {{ users: [ {{ {inner}, {deny} }} ] }}")
    config.write_text(limited)
    import os
    import signal

    assert own_nats.pid is not None
    os.kill(own_nats.pid, signal.SIGHUP)
    await asyncio.sleep(0.3)
    bus: Bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    with pytest.raises(BusUnavailable, match="permissions violation"):
        await bus.publish("events.c.0.watch", b"x", "1", timeout_s=0.5)
    await bus.close()


async def test_a_question_nobody_heard_is_put_again(nats_settings: NatsSettings) -> None:
    # As a stream's new leader: it is there only after the question was put for the first time.
    asking = await open_connection(nats_settings, "asking", 10)
    answering = await open_connection(nats_settings, "answering", 10)
    heard: list[float] = []

    async def answer(message: Msg) -> None:
        heard.append(time.monotonic())
        if len(heard) == 3:
            await answering.send(message.reply, b"the leader")

    inbox = await answering.subscribe(answer)
    await answering.request("$JS.API.INFO")  # so the server knows of the subscription
    began = time.monotonic()
    found = await asking.request(inbox.subject, b"who leads?", timeout_s=10, again_s=0.2)
    assert found == b"the leader"
    assert 0.4 <= heard[-1] - began < 9
    assert len(heard) == 3
    await answering.close()
    await asking.close()


async def test_an_answer_later_than_the_next_question_counts(nats_settings: NatsSettings) -> None:
    asking = await open_connection(nats_settings, "asking", 10)
    answering = await open_connection(nats_settings, "answering", 10)
    held: list[Msg] = []

    async def answer(message: Msg) -> None:
        held.append(message)
        if len(held) == 3:
            await answering.send(held[0].reply, b"slow")

    inbox = await answering.subscribe(answer)
    await answering.request("$JS.API.INFO")  # so the server knows of the subscription
    assert await asking.request(inbox.subject, timeout_s=10, again_s=0.1) == b"slow"
    assert len(held) == 3
    await answering.close()
    await asking.close()


async def test_a_socket_that_dies_under_what_is_to_be_sent_is_noticed(
    nats_server: EmbeddedNats,
) -> None:
    # The library closes such a client without telling anybody: writing out what it still holds
    # fails inside its own `close`, before its callbacks.
    async with proxy_to(nats_server.url) as proxy:
        settings = structs.replace(nats_server.settings(), url=f"nats://127.0.0.1:{proxy.port}")
        connection = await open_connection(settings, "much to say", 10)
        over = asyncio.Event()

        async def talk() -> None:
            while not over.is_set():
                with contextlib.suppress(BusUnavailable):
                    await connection.send("nobody.listens", b"x" * 20_000)
                await asyncio.sleep(0)

        talking = [asyncio.create_task(talk()) for _ in range(4)]
        for cuts in range(1, 21):
            proxy.cut()
            until = time.monotonic() + 15
            while connection.generation <= cuts:
                assert time.monotonic() < until, f"cut {cuts} was never noticed"
                await asyncio.sleep(0.02)
        over.set()
        await asyncio.gather(*talking)
        await connection.close()
