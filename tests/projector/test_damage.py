"""A flipped bit in the log: the server leaves the message out without a word, the projector not."""

from podgroup import subjects
from podgroup.codec import encode_batch, message_id
from podgroup.events import Batch
from podgroup.fold import synced
from podgroup.runtime.embedded import EmbeddedNats
from podgroup.runtime.jetstream import Bus, MessagesLost, connect
from projector import tables
from projector.epochs import examine
from tests.projector.running import eventually, publish, running, settings_for
from tests.projector.support import busy_toy, comparable
from tests.projector.test_epochs import ALog, relisted, standing_at
from tests.projector.test_projection import batches, reloaded
from tests.projector.test_store import rows_of
from tests.support.damage import flip_in_message

READ, STORED, HIT = 20, 40, 25


async def follow(bus: Bus, cluster: str, found: list[Batch], after: int) -> int:
    """Publish as an ingester does: each message names the one before it."""
    for batch in found:
        after = await bus.publish(
            subjects.events(cluster, 0, "watch"),
            encode_batch(batch),
            f"{cluster}/{message_id(batch)}",
            after=after,
        )
    return after


async def test_what_the_reader_missed_is_a_gap_with_the_same_base() -> None:
    log, missed = ALog(1, 200), MessagesLost(subjects.EVENTS, 101, 104)
    change = await examine(log, log.state, standing_at(100, 1000), missed)
    assert change is not None and change.same_base
    assert (change.first, change.lost_from, change.lost_to) == (105, 1101, 1104)
    assert "damaged" in change.reason
    # Folded already, before the server's files were damaged: nothing is missing.
    assert await examine(log, log.state, standing_at(150, 1000), missed) is None


async def test_a_message_that_a_flipped_bit_has_taken_is_missed_and_everything_listed_again(
    url: str, own_nats: EmbeddedNats, own_bus: Bus, cluster: str
) -> None:
    toy, settings = busy_toy(), settings_for(url, cluster)
    found = batches(toy)
    async with running(settings, own_bus) as projection:
        await follow(own_bus, cluster, found[:READ], 0)
        await eventually(lambda: projection.world.meta.position == READ, "folded")
    await follow(own_bus, cluster, found[READ:STORED], READ)
    await own_bus.close()
    await own_nats.stop()
    flip_in_message(own_nats, f"{cluster}/{message_id(found[HIT - 1])}")
    await own_nats.start()
    bus = await connect(own_nats.settings(), "test", deadline_s=20)
    state = await bus.stream_state(subjects.EVENTS)
    assert (state.first_sequence, state.last_sequence, state.messages) == (1, STORED, STORED)
    async with running(settings, bus) as projection:
        await eventually(lambda: projection.world.meta.epoch == 2, "noticed")
        await eventually(lambda: not projection.problem, "caught up")
        assert not synced(projection.world), "decides on the strength of a log with a hole"
        assert projection.world.meta.position == STORED
        await publish(bus, cluster, found[STORED:])
        await publish(bus, cluster, relisted(toy, "again"))
        await eventually(lambda: synced(projection.world), "everything listed")
        world = projection.world
        assert set(world.pods) == set(toy.world.pods)
    await bus.close()
    assert comparable(reloaded(url, cluster)) == comparable(world)
    row = rows_of(url, tables.epochs)[1]
    assert (row["lost_from"], row["lost_to"], row["base"]) == (HIT, HIT, 0)
    assert f"message {HIT} of stream EVENTS cannot be read" in row["reason"]
