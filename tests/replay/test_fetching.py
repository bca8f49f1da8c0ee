"""A stretch of a stream fetched by a process of its own is the stretch."""

import os
import signal
from typing import Any

import pytest

from podgroup.log.subjects import EVENTS, events, events_of
from projector.replay import fetching
from projector.replay.fetching import Fetched, Stretch
from runtime.jetstream import Bus, BusUnavailable, Message


async def filled(bus: Bus, cluster: str, count: int) -> int:
    publisher = bus.publisher()
    sent = [
        await publisher.send(
            events(cluster, "watch"), bytes([n % 251]) * (n % 400), f"{cluster}{n}"
        )
        for n in range(count)
    ]
    await publisher.flush()
    publisher.close()
    return sent[0].result()


async def everything(reader: "Fetched") -> list[Message]:
    found: list[Message] = []
    while messages := await reader.next(5):
        found += messages
    return found


async def test_it_is_what_the_bus_gives(bus: Bus, cluster: str) -> None:
    first = await filled(bus, cluster, 2500)
    mine = events_of(cluster)
    expected: list[Any] = []
    direct = bus.read(EVENTS, mine, 1)
    while len(expected) < 2500:
        expected += [(m.sequence, m.at, m.body) for m in await direct.next(5)]
    await direct.close()
    for begin, last in ((1, first + 2499), (first + 7, first + 1234), (first, first)):
        reader = Fetched(Stretch(bus.settings, EVENTS, mine, begin, last))
        found = [(m.sequence, m.at, m.body) for m in await everything(reader)]
        await reader.close()
        assert found == [one for one in expected if begin <= one[0] <= last]


async def test_a_child_that_dies_is_no_end_of_the_log(bus: Bus, cluster: str) -> None:
    first = await filled(bus, cluster, 2500)
    reader = Fetched(Stretch(bus.settings, EVENTS, events_of(cluster), 1, first + 10_000))
    assert await reader.next(5)
    os.kill(reader._child.pid, signal.SIGKILL)
    with pytest.raises(BusUnavailable, match="ended with -9"):
        await everything(reader)
    await reader.close()


async def test_what_is_near_is_read_here(bus: Bus, cluster: str) -> None:
    await filled(bus, cluster, 1)
    near = await fetching.read(bus, EVENTS, events_of(cluster), 1, 10)
    assert not isinstance(near, Fetched)
    await near.close()
    far = await fetching.read(bus, EVENTS, events_of(cluster), 1, fetching.FAR_MESSAGES)
    assert isinstance(far, Fetched)
    await far.close()


async def test_full_messages_come_a_few_at_a_time(bus: Bus, cluster: str) -> None:
    publisher = bus.publisher()
    subject, body = events(cluster, "watch"), b"x" * 600_000
    for number in range(7):
        last = await (await publisher.send(subject, body, f"{cluster}/{number}"))
    publisher.close()
    mine = events_of(cluster)
    reader = Fetched(Stretch(bus.settings, EVENTS, mine, last - 6, last))
    sizes = []
    while messages := await reader.next(5):
        sizes.append(sum(len(message.body) for message in messages))
    await reader.close()
    assert sum(sizes) == 7 * len(body) and max(sizes) < fetching.FRAME_BYTES + len(body)
