"""The log as replays read it: streams out of order, servers that are away for a while."""

import asyncio
from pathlib import Path

from podgroup.log.codec import encode_batch, encode_decision
from podgroup.log.subjects import decisions, events
from projector.replay.log import StreamLog
from runtime.embedded import EmbeddedNats
from runtime.jetstream import connect
from runtime.settings import StreamSettings
from tests.projector.running import publish
from tests.replay.support import CLUSTER
from tests.support.toy import Toy


async def test_decisions_stored_behind_later_ones_are_found_at_their_place(
    own_nats: EmbeddedNats,
) -> None:
    toy = Toy()
    for name in ("a0", "b0"):
        toy.pod(name, name[0], 1)
        toy.settle()
    made = sorted(toy.decisions, key=lambda decision: decision.number)
    assert len(made) > 6
    # As after the death of a leader: some in the middle come last, and some come twice.
    stored = [*made[:2], *made[5:], *made[2:5], made[0], *made[4:6]]
    bus = await connect(own_nats.settings(), "test", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    last = await publish(bus, CLUSTER, [batch for _, _, batch in toy.messages])
    for index, decision in enumerate(stored):
        await bus.publish(decisions(CLUSTER), encode_decision(decision), f"{index}")
    log = StreamLog(bus, CLUSTER, span=(1, last))
    found = [entry async for entry in log.entries()]
    await bus.close()
    assert [entry.position for entry in found] == list(range(1, last + 1))
    assert {d.number: entry.position for entry in found for d in entry.recorded.values()} == {
        d.number: d.as_of for d in made
    }


async def test_silence_is_not_the_end(tmp_path: Path) -> None:
    """A server that is away for longer than an election takes cuts no log short."""
    toy = Toy()
    toy.pod("p0")
    toy.settle()
    batch = toy.messages[0][2]
    nats = EmbeddedNats(tmp_path / "nats", sync_always=False)
    await nats.start()
    bus = await connect(nats.settings(), "test", deadline_s=20)
    await bus.ensure_streams(StreamSettings())
    count = 5_000  # more than a reader asks for at a time
    publisher = bus.publisher()
    for number in range(count):
        await publisher.send(events(CLUSTER, "watch"), encode_batch(batch), f"{number}")
    await publisher.flush()
    publisher.close()
    reading = StreamLog(bus, CLUSTER, span=(1, count + 7)).entries()
    found = [(await anext(reading)).position]
    nats.kill()
    returning = asyncio.create_task(_later(nats, 6.0))
    found += [entry.position async for entry in reading]
    await returning
    await bus.close()
    await nats.stop()
    assert found == list(range(1, count + 1))


async def _later(nats: EmbeddedNats, wait_s: float) -> None:
    await asyncio.sleep(wait_s)
    await nats.start()
