"""A read model that knows less than the log gets what was concluded then, by whatever rules."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from podgroup.log import subjects
from runtime.jetstream import Bus, connect
from runtime.settings import StreamSettings
from tests.projector.running import decided, eventually, running, settings_for
from tests.projector.test_epochs import delete_stream
from tests.replay.support import CLUSTER, Played
from tests.support.databases import migrated

Gatelog = Callable[..., tuple[int, str, str]]
NOW, THEN = "fits the quota", "FITS the quota"


async def _said_otherwise(bus: Bus) -> int:
    """DECISIONS as a release with other words made it; returns how many messages it has."""
    subject = subjects.decisions(CLUSTER)
    end = (await bus.stream_state(subjects.DECISIONS)).last_sequence
    reader = bus.read(subjects.DECISIONS, subject, 1)
    bodies: list[bytes] = []
    while len(bodies) < end:
        bodies += [m.body.replace(NOW.encode(), THEN.encode()) for m in await reader.next(5)]
    await reader.close()
    await delete_stream(bus, subjects.DECISIONS)
    await bus.ensure_streams(StreamSettings())
    publisher = bus.publisher()
    for number, body in enumerate(bodies):
        await publisher.send(subject, body, f"then/{number}")
    await publisher.flush()
    return len(bodies)


async def _followed(played: Played, url: str) -> tuple[int, int]:
    """Let a projector follow the log from an empty database; DECISIONS before and after."""
    bus = await connect(played.nats, "test", deadline_s=20)
    before = await _said_otherwise(bus)
    migrated(url)
    every_s = played.toy.world.policy.status_interval_s
    settings = settings_for(url, CLUSTER, status_interval_s=every_s, batch_messages=11)
    async with running(settings, bus) as projection:
        await eventually(lambda: not projection.problem, "caught up")
    after = (await bus.stream_state(subjects.DECISIONS)).messages
    await bus.close()
    return before, after


def test_an_empty_read_model_gets_what_was_said_then(
    gatelog: Gatelog, simple: Played, tmp_path: Path
) -> None:
    """As where a release with other rules moves to an empty database."""
    url = f"sqlite:///{tmp_path}/empty.sqlite3"
    before, after = asyncio.run(_followed(simple, url))
    admitted = [one.message for one in decided(url, CLUSTER) if one.rule == "admit"]
    assert len(admitted) >= 3
    assert all(message.startswith(THEN) for message in admitted)
    assert after == before, "what is in the log is not sent once more"
    simple.url = url
    code, out, _ = gatelog("replay", "--verify", *simple.options)
    assert code == 0, out
