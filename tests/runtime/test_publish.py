import asyncio
import random

import pytest
from msgspec import structs

from runtime.embedded import MAX_PAYLOAD_BYTES, EmbeddedNats
from runtime.jetstream import (
    Bus,
    BusClosed,
    BusUnavailable,
    OrderLost,
    Publisher,
    PublishRefused,
    connect,
)
from runtime.jetstream.api import api
from runtime.jetstream.connection import open_connection
from runtime.jetstream.publisher import WINDOW_BYTES
from runtime.settings import StreamSettings
from tests.support.faults.proxy import Proxy, proxy_to

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def bodies(bus: Bus, subject: str, stream: str = "EVENTS") -> list[bytes]:
    """All there are. A reader may be silent for a while before the last, on a busy machine."""
    newest = await bus.last(stream, subject)
    end = newest.sequence if newest is not None else 0
    reader = bus.read(stream, subject, 1)
    found: list[bytes] = []
    while reader.next_sequence <= end:
        batch = await reader.next(20)
        assert batch, f"nothing came before message {end}"
        found += [message.body for message in batch]
    await reader.close()
    return found


async def bus_through(proxy: Proxy, server: EmbeddedNats) -> Bus:
    settings = structs.replace(server.settings(), url=f"nats://127.0.0.1:{proxy.port}")
    bus = await connect(settings, "through a proxy", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    return bus


async def test_the_same_message_id_is_stored_once(bus: Bus, cluster: str) -> None:
    subject = f"events.{cluster}.0.watch"
    first = await bus.publish(subject, b"a", f"{cluster}/1")
    assert await bus.publish(subject, b"a", f"{cluster}/1") == first
    pipeline = bus.publisher()
    again = await pipeline.send(subject, b"a", f"{cluster}/1")
    other = await pipeline.send(subject, b"b", f"{cluster}/2")
    await pipeline.flush()
    assert again.result() == first
    assert other.result() > first
    assert await bodies(bus, subject) == [b"a", b"b"]


async def test_many_under_way_are_stored_in_order(bus: Bus, cluster: str) -> None:
    subject = f"events.{cluster}.0.watch"
    pipeline = bus.publisher(window=50)
    futures = []
    for n in range(3000):
        futures.append(await pipeline.send(subject, b"%d" % n, f"{cluster}/{n}"))
        assert pipeline.outstanding <= 50
    await pipeline.flush()
    sequences = [future.result() for future in futures]
    assert sequences == sorted(set(sequences))
    assert await bodies(bus, subject) == [b"%d" % n for n in range(3000)]


async def test_large_messages_are_bounded_in_bytes_too(bus: Bus, cluster: str) -> None:
    subject = f"events.{cluster}.0.watch"
    pipeline = bus.publisher(window=1000)
    big = b"x" * 7_000_000
    most = 0
    for n in range(12):
        await pipeline.send(subject, big, f"{cluster}/{n}")
        most = max(most, pipeline.outstanding)
    await pipeline.flush()
    assert most * len(big) <= WINDOW_BYTES
    assert len(await bodies(bus, subject)) == 12


async def test_a_message_the_server_cannot_take_is_refused(bus: Bus, cluster: str) -> None:
    subject = f"events.{cluster}.0.watch"
    too_big = b"x" * (MAX_PAYLOAD_BYTES + 1)
    with pytest.raises(PublishRefused, match=f"{MAX_PAYLOAD_BYTES + 1} bytes"):
        await bus.publish(subject, too_big, "big")
    pipeline = bus.publisher()
    with pytest.raises(PublishRefused):
        await pipeline.send(subject, too_big, "big")
    with pytest.raises(PublishRefused):
        await pipeline.flush()
    await bus.publish(subject, b"small", f"{cluster}/small")


async def test_a_subject_without_a_stream_is_unavailable_not_lost(bus: Bus) -> None:
    with pytest.raises(BusUnavailable, match="no server answers"):
        await bus.publish("nowhere.at.all", b"x", "1", timeout_s=0.5)


async def test_order_survives_a_connection_cut_again_and_again(
    nats_server: EmbeddedNats, cluster: str
) -> None:
    chance = random.Random(7)
    subject = f"events.{cluster}.0.watch"
    async with proxy_to(nats_server.url) as proxy:
        bus = await bus_through(proxy, nats_server)
        pipeline = bus.publisher(window=100)
        for n in range(4000):
            await pipeline.send(subject, b"%d" % n, f"{cluster}/{n}")
            if chance.random() < 0.003:
                proxy.cut()
            if chance.random() < 0.01:
                await asyncio.sleep(0.01)
        await pipeline.flush()
        assert proxy.connections > 5, "the proxy did cut"
        assert await bodies(bus, subject) == [b"%d" % n for n in range(4000)]
        await bus.close()


async def test_order_survives_kills_of_the_server(own_nats: EmbeddedNats) -> None:
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    pipeline = bus.publisher(window=64)
    subject = "events.c.0.watch"
    futures = []
    for n in range(1500):
        futures.append(await pipeline.send(subject, b"%d" % n, f"m{n}"))
        if n in (300, 800, 1200):
            own_nats.kill()
            await own_nats.start()
    await pipeline.flush()
    assert [future.result() for future in futures] == list(range(1, 1501))
    assert await bodies(bus, subject) == [b"%d" % n for n in range(1500)]
    await bus.close()


async def test_a_publisher_that_cannot_go_on_says_so_and_stays_broken(
    own_nats: EmbeddedNats,
) -> None:
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    connection = await open_connection(own_nats.settings(), "publisher", 10)
    pipeline = Publisher(connection, 10, give_up_s=1.0)
    own_nats.kill()
    future = await pipeline.send("events.c.0.watch", b"x", "1")
    with pytest.raises(BusUnavailable, match="could not be stored"):
        await pipeline.flush()
    assert isinstance(future.exception(), BusUnavailable)
    with pytest.raises(BusUnavailable):
        await pipeline.send("events.c.0.watch", b"x", "1")

    await own_nats.start()
    fresh = bus.publisher()
    await fresh.send("events.c.0.watch", b"x", "1")
    await fresh.flush()
    assert await bodies(bus, "events.c.0.watch") == [b"x"]
    await connection.close()
    await bus.close()


async def test_publish_waits_for_the_server_to_come_back(own_nats: EmbeddedNats) -> None:
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    own_nats.kill()
    publishing = asyncio.create_task(bus.publish("events.c.0.watch", b"x", "1", timeout_s=10))
    await asyncio.sleep(0.3)
    assert not publishing.done()
    await own_nats.start()
    assert await publishing == 1
    own_nats.kill()
    with pytest.raises(BusUnavailable):
        await bus.publish("events.c.0.watch", b"x", "2", timeout_s=0.3)
    await bus.close()


async def test_closing_ends_everybody_who_waits(own_nats: EmbeddedNats) -> None:
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    own_nats.kill()
    pipeline = bus.publisher(window=1)
    await pipeline.send("events.c.0.watch", b"x", "1")
    sending = asyncio.create_task(pipeline.send("events.c.0.watch", b"y", "2"))
    publishing = asyncio.create_task(bus.publish("events.c.0.watch", b"z", "3", timeout_s=30))
    reading = asyncio.create_task(bus.read("EVENTS", "events.>", 1).next(None))
    working = asyncio.create_task(bus.work("DECISIONS", "w", "decisions.>").next(None))
    await asyncio.sleep(0.1)
    await bus.close()
    for task in (sending, publishing, reading, working):
        async with asyncio.timeout(5):
            with pytest.raises(BusClosed):
                await task
    await bus.close()


async def test_a_message_overtaken_by_a_later_one_breaks_the_publisher(
    own_nats: EmbeddedNats,
) -> None:
    # What a leader change can do: one message never reaches the stream, the next one does. Here
    # the first subject has no stream yet, and gets one while its message is being repeated.
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    pipeline = bus.publisher()
    lost = await pipeline.send("late.subject", b"first", "1")
    stored = await pipeline.send("events.c.0.watch", b"second", "2")
    await asyncio.sleep(0.5)
    assert not stored.done(), "resolved in order only"
    connection = await open_connection(own_nats.settings(), "look", 10)
    await api(connection, "STREAM.CREATE.LATE", {"name": "LATE", "subjects": ["late.>"]})
    await connection.close()
    with pytest.raises(OrderLost, match="relist"):
        await pipeline.flush()
    assert isinstance(lost.exception(), OrderLost)
    await bus.close()
