"""Where to go on, read from a real log."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from ingest import resume
from ingest.publisher import EventPublisher, PublishOptions
from ingest.resume import Known
from podgroup.log import codec, subjects
from podgroup.log.events import Batch, ObjectApplied
from podgroup.model.objects import NamespaceView
from runtime.jetstream import Bus, Overtaken


async def publish(bus: Bus, cluster: str, positions: dict[str, str], name: str) -> int:
    view = NamespaceView(uid=name, name=name, resource_version="1")
    batch = Batch(source="watch", events=(ObjectApplied(object=view),), positions=positions)
    subject = subjects.events(cluster, "watch")
    return await bus.publish(subject, codec.encode_batch(batch), f"{cluster}.0.{name}")


async def test_an_empty_log_asks_for_everything(bus, cluster):
    found = await resume.from_log(bus, cluster)
    assert (found.positions, found.reason) == ({}, "nothing is in the log yet")


async def test_the_newest_message_says_where(bus, cluster):
    await publish(bus, cluster, {"Pod": "5"}, "a")
    await publish(bus, cluster, {"Pod": "9", "Namespace": "2"}, "b")
    await bus.publish(subjects.events(cluster, "actuator"), b"{}", f"{cluster}.x")
    found = await resume.from_log(bus, cluster)
    assert found.positions == {"Pod": "9", "Namespace": "2"}


async def test_a_message_that_cannot_be_read_leads_to_a_relist(bus, cluster):
    await bus.publish(subjects.events(cluster, "watch"), b"{nope", f"{cluster}.y")
    found = await resume.from_log(bus, cluster)
    assert found.positions == {}


async def publisher(bus: Bus, cluster: str) -> EventPublisher:
    found = await resume.from_log(bus, cluster)
    return EventPublisher(
        bus,
        PublishOptions(cluster=cluster, batch_bytes=100_000),
        positions=found.positions,
        last=found.last,
    )


async def put(out: EventPublisher, version: int) -> None:
    view = NamespaceView(uid="n", name="n", resource_version=str(version))
    await out.put("Namespace", [ObjectApplied(object=view)], str(version))
    await out.drain()


async def known(bus: Bus, cluster: str) -> tuple[Known, dict[str, str]]:
    before = await resume.from_log(bus, cluster)
    out = await publisher(bus, cluster)
    await put(out, 3)
    assert out.acked_sequence
    mine = Known(before.created, before.last_sequence, out.acked_sequence, out.acked_msg_id)
    return mine, out.acked_positions


async def test_a_log_that_has_what_we_wrote_can_be_continued(bus, cluster):
    assert await resume.lost(bus, (await known(bus, cluster))[0]) == ""


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
    now, _ = await known(bus, cluster)
    told = await resume.lost(bus, msgspec.structs.replace(now, **change(now)))
    assert reason in told


async def test_the_positions_of_a_publisher_are_what_a_restart_reads(bus, cluster):
    _, positions = await known(bus, cluster)
    found = await resume.from_log(bus, cluster)
    assert found.positions == positions == {"Namespace": "3"}


async def test_of_two_ingesters_the_one_that_began_later_is_the_only_one_to_write(bus, cluster):
    first = await publisher(bus, cluster)
    await first.claim()
    await put(first, 1)
    second = await publisher(bus, cluster)
    await second.claim()
    with pytest.raises(Overtaken):
        await put(first, 2)
    await put(second, 2)
    await put(second, 3)
    assert await versions(bus, cluster) == ["1", "2", "3"]
    # Refused once it gives up what it had, and begins from what the log has by then.
    third = await publisher(bus, cluster)
    await third.claim()
    assert third.acked_positions == {"Namespace": "3"}
    with pytest.raises(Overtaken):
        await put(second, 4)


async def test_who_looked_before_the_other_claimed_must_look_again(bus, cluster):
    first, second = await publisher(bus, cluster), await publisher(bus, cluster)
    await first.claim()
    with pytest.raises(Overtaken):
        await second.claim()


async def test_a_message_whose_answer_was_lost_is_not_taken_for_somebody_elses(bus, cluster):
    subject = subjects.events(cluster, "watch")

    class Deaf:
        """Stores, and does not hear the answer to the first attempt."""

        last = staticmethod(bus.last)

        async def publish(self, *message, after):
            await bus.publish(*message, after=after)
            return await bus.publish(*message, after=after)

    out = EventPublisher(
        Deaf(), PublishOptions(cluster=cluster, batch_bytes=100_000), positions={}, last=0
    )
    await out.claim()
    await put(out, 1)
    await put(out, 2)
    assert await versions(bus, cluster) == ["1", "2"]
    with pytest.raises(Overtaken):
        await bus.publish(subject, b"{}", f"{cluster}.3", after=0)


async def versions(bus: Bus, cluster: str) -> list[str]:
    reader = bus.read(subjects.EVENTS, subjects.events_of(cluster), 1)
    found = []
    while messages := await reader.next(0.3):
        for message in messages:
            for event in codec.decode_batch(message.body).events:
                assert isinstance(event, ObjectApplied)
                found.append(event.object.resource_version)
    await reader.close()
    return found
