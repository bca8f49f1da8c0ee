"""Where to go on, read from a real log."""

import asyncio
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from ingest import resume
from ingest.publisher import EventPublisher
from ingest.resume import Known
from podgroup import codec, subjects
from podgroup.events import Batch, ObjectApplied
from podgroup.objects import NamespaceView
from podgroup.runtime.jetstream import Bus


async def publish(bus: Bus, cluster: str, shard: int, positions: dict[str, str], name: str) -> int:
    view = NamespaceView(uid=name, name=name, resource_version="1")
    batch = Batch(source="watch", events=(ObjectApplied(object=view),), positions=positions)
    subject = subjects.events(cluster, shard, "watch")
    return await bus.publish(subject, codec.encode_batch(batch), f"{cluster}.{shard}.{name}")


async def test_an_empty_log_asks_for_everything(bus, cluster):
    found = await resume.from_log(bus, cluster, 1)
    assert (found.positions, found.reason) == ({}, "nothing is in the log yet")


async def test_the_newest_message_says_where(bus, cluster):
    await publish(bus, cluster, 0, {"Pod": "5"}, "a")
    await publish(bus, cluster, 0, {"Pod": "9", "Namespace": "2"}, "b")
    await bus.publish(subjects.events(cluster, 0, "actuator"), b"{}", f"{cluster}.x")
    found = await resume.from_log(bus, cluster, 1)
    assert found.positions == {"Pod": "9", "Namespace": "2"}


async def test_the_newest_over_all_shards_counts_and_a_new_shard_needs_everything(bus, cluster):
    await publish(bus, cluster, 1, {"Pod": "5"}, "a")
    assert "shard 0" in (await resume.from_log(bus, cluster, 2)).reason
    await publish(bus, cluster, 0, {"Pod": "7"}, "b")
    assert (await resume.from_log(bus, cluster, 2)).positions == {"Pod": "7"}
    await publish(bus, cluster, 1, {"Pod": "8"}, "c")
    assert (await resume.from_log(bus, cluster, 2)).positions == {"Pod": "8"}
    assert (await resume.from_log(bus, cluster, 3)).positions == {}


async def test_a_message_that_cannot_be_read_leads_to_a_relist(bus, cluster):
    await bus.publish(subjects.events(cluster, 0, "watch"), b"{nope", f"{cluster}.y")
    found = await resume.from_log(bus, cluster, 1)
    assert found.positions == {}


async def known(bus: Bus, cluster: str) -> Known:
    before = await resume.from_log(bus, cluster, 1)
    publisher = EventPublisher(
        bus.publisher(), cluster=cluster, shards=1, batch_bytes=100_000, positions={}
    )
    view = NamespaceView(uid="n", name="n", resource_version="3")
    await publisher.put("Namespace", [ObjectApplied(object=view)], "3")
    await publisher.drain()
    assert publisher.acked_sequence
    return Known(
        before.created,
        before.last_sequence,
        publisher.acked_sequence,
        publisher.acked_msg_id,
        publisher.acked_positions,
    )


async def test_a_log_that_has_what_we_wrote_can_be_continued(bus, cluster):
    assert await resume.lost(bus, await known(bus, cluster)) == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda k: {"created": k.created - timedelta(seconds=1)}, "recreated"),
        (lambda k: {"created": datetime.now(UTC)}, "recreated"),
        (lambda k: {"acked_sequence": k.acked_sequence + 10**6}, "rolled back: its last"),
        (lambda k: {"last_sequence": k.acked_sequence + 10**6}, "rolled back: its last"),
        (lambda k: {"acked_msg_id": "another"}, "is not the one"),
    ],
)
async def test_a_log_that_lost_it_cannot(change, reason, bus, cluster):
    now = await known(bus, cluster)
    told = await resume.lost(bus, msgspec.structs.replace(now, **change(now)))
    assert reason in told


async def test_the_positions_of_a_publisher_are_what_a_restart_reads(bus, cluster):
    mine = await known(bus, cluster)
    await asyncio.sleep(0)
    assert (
        (await resume.from_log(bus, cluster, 1)).positions == mine.positions == {"Namespace": "3"}
    )
