import asyncio
import json
import time

import pytest
from msgspec import structs

from runtime.embedded import EmbeddedNats
from runtime.jetstream import (
    Bus,
    BusUnavailable,
    Message,
    Reader,
    StreamChanged,
    connect,
)
from runtime.jetstream.api import api
from runtime.jetstream.connection import open_connection
from runtime.jetstream.pull import Timing
from runtime.settings import NatsSettings, StreamSettings
from tests.support.faults.proxy import proxy_to

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

SUBJECT = "events.c.0.watch"


async def fill(bus: Bus, subject: str, start: int, stop: int) -> None:
    pipeline = bus.publisher()
    for n in range(start, stop):
        await pipeline.send(subject, b"%d" % n, f"{subject}/{n}")
    await pipeline.flush()


async def collect(reader: Reader, count: int, within_s: float = 60) -> list[Message]:
    found: list[Message] = []
    until = time.monotonic() + within_s
    while len(found) < count and time.monotonic() < until:
        found += await reader.next(0.5)
    return found


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.body) for message in messages]


async def test_from_a_sequence_in_order_and_only_what_the_filter_matches(
    bus: Bus, cluster: str
) -> None:
    mine, other = f"events.{cluster}.0.watch", f"events.{cluster}.1.watch"
    await fill(bus, mine, 0, 10)
    await fill(bus, other, 100, 110)
    await fill(bus, mine, 10, 20)
    everything = await collect(bus.read("EVENTS", f"events.{cluster}.*.*", 1), 30)
    assert numbers(everything) == [*range(10), *range(100, 110), *range(10, 20)]
    start = everything[5].sequence
    some = await collect(bus.read("EVENTS", f"events.{cluster}.0.*", start), 15)
    assert numbers(some) == list(range(5, 20))
    assert [m.sequence for m in some] == sorted(m.sequence for m in some)
    assert some[0] == everything[5]


async def test_waits_for_what_comes_and_returns_nothing_on_timeout(bus: Bus, cluster: str) -> None:
    subject = f"events.{cluster}.0.watch"
    state = await bus.stream_state("EVENTS")
    reader = bus.read("EVENTS", subject, state.last_sequence + 1)
    started = time.monotonic()
    assert await reader.next(0.2) == []
    assert 0.15 < time.monotonic() - started < 15
    assert await reader.next(0) == []
    waiting = asyncio.create_task(reader.next(None))
    await asyncio.sleep(0.1)
    sent = time.monotonic()
    await bus.publish(subject, b"1", f"{cluster}/1")
    (message,) = await waiting
    assert message.body == b"1"
    assert time.monotonic() - sent < 15, "a request for messages lasts 30 s"
    await reader.close()
    with pytest.raises(BusUnavailable, match="reader was closed"):
        await reader.next(1)


async def test_at_most_a_batch_at_a_time_and_nothing_lost_between(bus: Bus, cluster: str) -> None:
    subject = f"events.{cluster}.0.watch"
    await fill(bus, subject, 0, 1000)
    reader = bus.read("EVENTS", subject, 1, batch=64)
    found: list[Message] = []
    while len(found) < 1000:
        batch = await reader.next(5)
        assert 1 <= len(batch) <= 64
        found += batch
    assert numbers(found) == list(range(1000))
    assert reader.restarts == 0


async def test_a_cancelled_wait_loses_nothing(bus: Bus, cluster: str) -> None:
    subject = f"events.{cluster}.0.watch"
    reader = bus.read("EVENTS", subject, 1)
    await fill(bus, subject, 0, 1)
    found = await reader.next(None)
    publishing = asyncio.create_task(fill(bus, subject, 1, 2000))
    while len(found) < 2000:
        waiting = asyncio.create_task(reader.next(None))
        await asyncio.wait([waiting], timeout=0.001)
        if not waiting.done():
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            continue
        found += waiting.result()
    await publishing
    assert numbers(found) == list(range(2000))


async def test_a_wait_that_is_cancelled_while_it_opens_leaves_no_consumer(
    own_nats: EmbeddedNats,
) -> None:
    """A server allows so many consumers only, and keeps idle ones for two minutes."""
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    connection = await open_connection(own_nats.settings(), "test-names", 10)
    reader = bus.read("EVENTS", SUBJECT, 1)
    for turn in range(60):
        waiting = asyncio.create_task(reader.next(None))
        await asyncio.wait([waiting], timeout=turn * 0.0001)
        waiting.cancel()
        await asyncio.wait([waiting])
    await reader.close()
    async with asyncio.timeout(20):
        while json.loads(await api(connection, "CONSUMER.NAMES.EVENTS"))["consumers"]:
            await asyncio.sleep(0.05)
    await connection.close()
    await bus.close()


async def test_across_kills_of_the_server_nothing_is_lost_and_nothing_comes_twice(
    own_nats: EmbeddedNats,
) -> None:
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    back: list[bool] = []
    bus.on_reconnect.append(lambda: back.append(bus.connected))
    reader = bus.read("EVENTS", "events.c.0.*", 1, batch=100)
    publishing = asyncio.create_task(fill(bus, SUBJECT, 0, 1500))
    found: list[Message] = []
    kills = 0
    while len(found) < 1500:
        found += await reader.next(0.5)
        if len(found) > 400 * (kills + 1) and kills < 3:
            kills += 1
            own_nats.kill()
            found += await reader.next(0.1)
            await own_nats.start()
    await publishing
    assert kills == 3
    assert [m.sequence for m in found] == list(range(1, 1501))
    assert numbers(found) == list(range(1500))
    assert back == [True] * len(back)
    assert back
    await bus.close()


async def test_a_deleted_consumer_is_replaced(
    nats_settings: NatsSettings, bus: Bus, cluster: str
) -> None:
    subject = f"events.{cluster}.0.watch"
    await fill(bus, subject, 0, 10)
    reader = bus.read("EVENTS", subject, 1)
    assert len(await collect(reader, 10)) == 10
    connection = await open_connection(nats_settings, "operator", 10)
    names = json.loads(await api(connection, "CONSUMER.NAMES.EVENTS"))["consumers"]
    for name in names:
        await api(connection, f"CONSUMER.DELETE.EVENTS.{name}")
    await fill(bus, subject, 10, 20)
    assert numbers(await collect(reader, 10)) == list(range(10, 20))
    assert reader.restarts >= 1
    await connection.close()


@pytest.mark.parametrize("patience_s", [2.0, 0.05])
async def test_a_dead_peer_is_noticed_by_silence(
    nats_server: EmbeddedNats, bus: Bus, cluster: str, patience_s: float
) -> None:
    subject = f"events.{cluster}.0.watch"
    async with proxy_to(nats_server.url) as proxy:
        settings = structs.replace(nats_server.settings(), url=f"nats://127.0.0.1:{proxy.port}")
        through = await open_connection(settings, "through a proxy", 10)
        reader = Reader(through, "EVENTS", subject, 1, 100, Timing(heartbeat_s=0.5))
        await fill(bus, subject, 0, 5)
        assert len(await collect(reader, 5)) == 5
        proxy.hold()
        await fill(bus, subject, 5, 10)
        for _ in range(round(2.0 / patience_s)):
            assert await reader.next(patience_s) == []
        assert reader.restarts == 1, "silence alone ended the session"
        proxy.release()
        assert numbers(await collect(reader, 5)) == list(range(5, 10))
        await through.close()


async def test_a_slow_caller_is_not_taken_for_a_dead_server(
    nats_settings: NatsSettings, bus: Bus, cluster: str
) -> None:
    subject = f"events.{cluster}.0.watch"
    connection = await open_connection(nats_settings, "slow", 10)
    timing = Timing(expires_s=1.0, heartbeat_s=0.3)
    reader = Reader(connection, "EVENTS", subject, 1, 100, timing)
    await fill(bus, subject, 0, 3)
    assert len(await collect(reader, 3)) == 3
    await asyncio.sleep(2.5)  # requests have expired meanwhile
    await fill(bus, subject, 3, 6)
    assert numbers(await collect(reader, 3)) == [3, 4, 5]
    assert await reader.next(2.0) == []
    assert reader.restarts == 0
    await connection.close()


async def test_a_stream_made_anew_is_noticed(own_nats: EmbeddedNats) -> None:
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    created = (await bus.stream_state("EVENTS")).created
    await fill(bus, SUBJECT, 0, 10)
    reader = bus.read("EVENTS", SUBJECT, 1)
    assert len(await collect(reader, 10)) == 10
    connection = await open_connection(own_nats.settings(), "operator", 10)
    await api(connection, "STREAM.DELETE.EVENTS")
    await bus.ensure_streams(StreamSettings())
    assert (await bus.stream_state("EVENTS")).created > created
    with pytest.raises(StreamChanged, match="made anew"):
        await collect(reader, 1, within_s=10)
    await connection.close()
    await bus.close()


async def test_a_start_beyond_the_end_is_refused_instead_of_waiting_for_ever(
    own_nats: EmbeddedNats,
) -> None:
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    await fill(bus, SUBJECT, 0, 10)
    assert await bus.read("EVENTS", SUBJECT, 11).next(0.2) == []
    with pytest.raises(StreamChanged, match=r"ends at 10, but was read up to 11"):
        await bus.read("EVENTS", SUBJECT, 12).next(1)
    await bus.close()
