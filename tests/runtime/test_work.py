import asyncio
import time
from collections import Counter

import pytest

from runtime.embedded import EmbeddedNats
from runtime.jetstream import Bus, BusError, Delivery, Worker, connect
from runtime.jetstream.api import api
from runtime.jetstream.connection import open_connection
from runtime.settings import NatsSettings, StreamSettings

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def fill(bus: Bus, subject: str, count: int) -> None:
    pipeline = bus.publisher()
    for n in range(count):
        await pipeline.send(subject, b"%d" % n, f"{subject}/{n}")
    await pipeline.flush()


async def one(worker: Worker, within_s: float = 60) -> Delivery:
    (delivery,) = await worker.next(within_s)
    return delivery


async def test_what_is_acknowledged_never_comes_again(bus: Bus, cluster: str) -> None:
    subject = f"decisions.{cluster}.0"
    await fill(bus, subject, 100)
    worker = bus.work("DECISIONS", cluster, subject, ack_wait_s=1)
    seen: list[int] = []
    while len(seen) < 100:
        for delivery in await worker.next(5):
            assert delivery.delivery == 1
            seen.append(int(delivery.message.body))
            await delivery.ack()
    assert seen == list(range(100))
    assert worker.in_flight == 0
    assert await worker.next(1.5) == []
    await worker.close()
    again = bus.work("DECISIONS", cluster, subject, ack_wait_s=1)
    assert await again.next(0.3) == []
    await again.close()


async def test_what_is_forgotten_comes_again_after_ack_wait(bus: Bus, cluster: str) -> None:
    subject = f"decisions.{cluster}.0"
    worker = bus.work("DECISIONS", cluster, subject, ack_wait_s=1)
    await fill(bus, subject, 1)
    first = await one(worker)
    got_at = time.monotonic()
    second = await one(worker)
    assert (first.delivery, second.delivery) == (1, 2)
    assert second.message == first.message
    assert 0.8 < time.monotonic() - got_at < 12
    await second.ack()
    assert await worker.next(1.5) == []
    await worker.close()


async def test_nak_puts_off_by_the_delay(bus: Bus, cluster: str) -> None:
    subject = f"decisions.{cluster}.0"
    worker = bus.work("DECISIONS", cluster, subject, ack_wait_s=30)
    await fill(bus, subject, 1)
    await (await one(worker)).nak()
    again = await one(worker)
    assert again.delivery == 2
    put_off = time.monotonic()
    await again.nak(0.7)
    third = await one(worker)
    assert third.delivery == 3
    assert 0.6 < time.monotonic() - put_off < 20
    await third.ack()
    await worker.close()


async def test_in_progress_holds_a_delivery_beyond_ack_wait(bus: Bus, cluster: str) -> None:
    subject = f"decisions.{cluster}.0"
    worker = bus.work("DECISIONS", cluster, subject, ack_wait_s=1)
    await fill(bus, subject, 1)
    delivery = await one(worker)
    for _ in range(5):
        assert await worker.next(0.4) == []
        await delivery.in_progress()
    await delivery.ack()
    assert await worker.next(1.3) == []
    await worker.close()


async def test_term_ends_it_for_good(bus: Bus, cluster: str) -> None:
    subject = f"decisions.{cluster}.0"
    worker = bus.work("DECISIONS", cluster, subject, ack_wait_s=1)
    await fill(bus, subject, 2)
    for delivery in await worker.next(5):
        await delivery.term("undecodable:\nbad tag")
    while delivered := await worker.next(1.5):
        for delivery in delivered:
            assert delivery.delivery == 1
            await delivery.term("undecodable")
    await worker.close()


async def test_two_workers_share_and_neither_gets_what_the_other_has(
    nats_server: EmbeddedNats, bus: Bus, cluster: str
) -> None:
    subject = f"decisions.{cluster}.0"
    await fill(bus, subject, 400)
    other = await connect(nats_server.settings(), "other", deadline_s=10)
    handled: dict[str, list[int]] = {"a": [], "b": []}

    async def work(name: str, through: Bus) -> None:
        worker = through.work("DECISIONS", cluster, subject, max_in_flight=20)
        while deliveries := await worker.next(1):
            for delivery in deliveries:
                await delivery.ack()
                handled[name].append(int(delivery.message.body))
            await asyncio.sleep(0.002)
        await worker.close()

    await asyncio.gather(work("a", bus), work("b", other))
    assert sorted(handled["a"] + handled["b"]) == list(range(400))
    assert min(len(handled["a"]), len(handled["b"])) > 50
    await other.close()


async def test_no_more_than_max_in_flight(bus: Bus, cluster: str) -> None:
    subject = f"decisions.{cluster}.0"
    await fill(bus, subject, 50)
    worker = bus.work("DECISIONS", cluster, subject, max_in_flight=8, ack_wait_s=30)
    held: list[Delivery] = []
    while batch := await worker.next(0.3):
        held += batch
    assert len(held) == worker.in_flight == 8
    waiting = asyncio.create_task(worker.next(10))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await held.pop().ack()
    async with asyncio.timeout(2):
        more = await waiting
    assert len(more) == 1
    await worker.close()


async def test_across_a_kill_of_the_server_everything_is_done(own_nats: EmbeddedNats) -> None:
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    await bus.ensure_streams(StreamSettings())
    await fill(bus, "decisions.c.0", 300)
    worker = bus.work("DECISIONS", "w", "decisions.c.*", max_in_flight=30, ack_wait_s=1)
    done: set[int] = set()
    times: Counter[int] = Counter()
    killed = False
    while batch := await worker.next(2):
        for delivery in batch:
            times[int(delivery.message.body)] += 1
            if len(done) == 150 and not killed:
                killed = True
                own_nats.kill()
                await own_nats.start()
            try:
                await delivery.ack()
            except BusError:
                continue  # comes again
            done.add(int(delivery.message.body))
    assert killed
    assert done == set(range(300))
    assert max(times.values()) <= 3, "a killed server may forget acknowledgements, not for ever"
    await bus.close()


async def test_a_durable_that_is_something_else_is_refused(
    nats_settings: NatsSettings, bus: Bus, cluster: str
) -> None:
    connection = await open_connection(nats_settings, "operator", 10)
    config = {"durable_name": cluster, "name": cluster, "deliver_subject": "x.y"}
    body = {"stream_name": "DECISIONS", "config": {**config, "ack_policy": "none"}}
    await api(connection, f"CONSUMER.CREATE.DECISIONS.{cluster}", body)
    with pytest.raises(BusError, match=f"durable consumer {cluster} of DECISIONS cannot"):
        await bus.work("DECISIONS", cluster, f"decisions.{cluster}.*").next(1)
    await connection.close()


async def test_what_arrived_at_a_worker_that_closes_goes_to_another_at_once(
    bus: Bus, cluster: str
) -> None:
    subject = f"decisions.{cluster}.0"
    leaving = bus.work("DECISIONS", cluster, subject, ack_wait_s=60)
    assert await leaving.next(0.2) == []  # from now on it has asked for more
    await fill(bus, subject, 5)
    await asyncio.sleep(0.3)  # they have been handed to it, and it does not look
    await leaving.close()
    staying = bus.work("DECISIONS", cluster, subject, ack_wait_s=60)
    seen: list[int] = []
    began = time.monotonic()
    while len(seen) < 5:
        assert time.monotonic() - began < 20, f"only {seen} came back"
        for delivery in await staying.next(1):
            seen.append(int(delivery.message.body))
            await delivery.ack()
    assert sorted(seen) == list(range(5))
    await staying.close()
