"""The log as replays read it, from streams that are not in perfect order."""

from podgroup.codec import encode_decision
from podgroup.runtime.embedded import EmbeddedNats
from podgroup.runtime.jetstream import connect
from podgroup.runtime.settings import StreamSettings
from podgroup.subjects import decisions
from projector.replay.log import StreamLog
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
        await bus.publish(decisions(CLUSTER, 0), encode_decision(decision), f"{index}")
    log = StreamLog(bus, CLUSTER, 0, last=last)
    found = [entry async for entry in log.entries()]
    await bus.close()
    assert [entry.position for entry in found] == list(range(1, last + 1))
    assert {d.number: entry.position for entry in found for d in entry.recorded.values()} == {
        d.number: d.as_of for d in made
    }
