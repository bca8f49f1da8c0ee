"""Limits of the streams, reached while work waits: what is dropped unread is noticed and healed."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podgroup.log import subjects
from podgroup.model.commands import INTERNAL
from projector import tables
from runtime.embedded import EmbeddedNats
from runtime.jetstream import Bus, Worker, connect
from runtime.settings import StreamSettings
from tests.projector.running import eventually, publish, running, sent_decisions, settings_for
from tests.projector.support import busy_toy
from tests.projector.test_projection import batches
from tests.projector.test_store import rows_of
from tests.support.databases import migrated
from tests.support.faults.files import locked
from tests.support.toy import Toy

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

MIB = 1024**2


@pytest.fixture
async def small(own_nats: EmbeddedNats) -> AsyncIterator[Bus]:
    """A bus whose streams hold 1 MiB each."""
    bus = await connect(own_nats.settings(), "test", deadline_s=20)
    await bus.ensure_streams(StreamSettings(max_bytes=MIB, decisions_max_bytes=MIB))
    yield bus
    await bus.close()


async def overflow(bus: Bus, subject: str) -> None:
    """Store so much that everything before it goes."""
    for number in range(12):
        await bus.publish(subject, bytes(100 * 1024), f"filler-{subject}-{number}")


def actuator(bus: Bus, cluster: str) -> Worker:
    subject = subjects.decisions(cluster)
    return bus.work(subjects.DECISIONS, subjects.actuator_consumer(cluster), subject)


async def there_was_one(bus: Bus, cluster: str) -> None:
    """Make the consumer of the actuators, which have not taken anything and are away."""
    worker = actuator(bus, cluster)
    assert await worker.next(2.0) == []
    await worker.close()
    taken = await bus.taken(subjects.DECISIONS, subjects.actuator_consumer(cluster))
    assert taken is not None
    assert taken.delivered == 0


def undecided() -> Toy:
    """One group that is admitted, and nobody who acts on it."""
    toy = Toy()
    toy.act = False
    toy.pod("foo")
    return toy


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
async def test_decisions_dropped_before_an_actuator_got_them_are_sent_again(
    url: str, small: Bus, cluster: str
) -> None:
    toy, bus = undecided(), small
    writes = [d.id for d in toy.decisions if not isinstance(d.command, INTERNAL)]
    await there_was_one(bus, cluster)
    async with running(settings_for(url, cluster), bus) as projection:
        await publish(bus, cluster, batches(toy))
        await eventually(lambda: not projection.problem, "caught up")
        await sent_decisions(bus, cluster, len(toy.decisions))
        kept = (await bus.stream_state(subjects.DECISIONS)).last_sequence
        await overflow(bus, "decisions.another.0")
        assert (await bus.stream_state(subjects.DECISIONS)).first_sequence > kept
        again = await sent_decisions(bus, cluster, len(writes))
    assert [decision.id for _, decision in again] == writes


@pytest.mark.slow_with("sqlite", "the same on the other database; make test plays it on one")
async def test_what_waits_for_an_actuator_is_not_sent_again_and_what_it_took_is(
    url: str, own_bus: Bus, cluster: str
) -> None:
    toy, bus = undecided(), own_bus
    await there_was_one(bus, cluster)
    async with running(settings_for(url, cluster, decision_timeout_s=1.0), bus) as projection:
        await publish(bus, cluster, batches(toy))
        await eventually(lambda: not projection.problem, "caught up")
        await sent_decisions(bus, cluster, len(toy.decisions))
        sent = (await bus.stream_state(subjects.DECISIONS)).last_sequence
        await asyncio.sleep(2.5)
        assert (await bus.stream_state(subjects.DECISIONS)).last_sequence == sent
        worker = actuator(bus, cluster)
        assert await worker.next(5)  # and says nothing more of it
        await sent_decisions(bus, cluster, len(toy.decisions) + 1)
    await worker.close()


async def test_events_dropped_before_they_were_read_open_an_epoch(
    url: str, small: Bus, cluster: str
) -> None:
    """The projector was away; history says so, and a relist is asked for."""
    bus, given = small, batches(busy_toy())
    async with running(settings_for(url, cluster), bus) as projection:
        read = await publish(bus, cluster, given[:20])
        await eventually(lambda: projection.world.meta.position == read, "read")
    unread = await publish(bus, cluster, given[20:])
    await overflow(bus, "events.another.0.watch")
    async with running(settings_for(url, cluster), bus) as projection:
        await eventually(lambda: projection.world.meta.epoch == 2, "noticed")
        assert not projection.world.meta.synced
    row = rows_of(url, tables.epochs)[1]
    assert "expired before they were read" in row["reason"]
    assert row["lost_from"] == read + 1
    assert row["lost_to"] >= unread
    told = [r for r in rows_of(url, tables.history) if r["kind"] == "EpochStarted"]
    assert f"messages {read + 1} to" in told[-1]["message"]


async def test_events_dropped_while_the_database_was_slow_open_an_epoch(
    small: Bus, cluster: str, tmp_path: Path
) -> None:
    """The projector waits for a locked database, and the stream forgets what it has not read."""
    file, bus, given = tmp_path / "read-model.sqlite3", small, batches(busy_toy())
    url = f"sqlite:///{file}"
    migrated(url)
    async with running(settings_for(url, cluster, batch_messages=5), bus) as projection:
        read = await publish(bus, cluster, given[:20])
        await eventually(lambda: projection._committed_seq == read, "read")
        with locked(file):
            unread = await publish(bus, cluster, given[20:-1])
            await overflow(bus, "events.another.0.watch")
            # The next look at what came: a jump over what was dropped.
            last = await publish(bus, cluster, given[-1:])
            assert projection.world.meta.epoch == 1
            assert projection.world.meta.position < unread
        await eventually(lambda: projection.world.meta.position >= last, "went on")
        assert projection.world.meta.epoch == 2
        assert not projection.world.meta.synced
    row = rows_of(url, tables.epochs)[1]
    assert "expired before they were read" in row["reason"]
    assert row["lost_to"] >= unread
