from typing import Any

import pytest
from msgspec import structs

from runtime.embedded import EmbeddedNats
from runtime.jetstream import Bus, StreamMismatch, StreamMissing, connect
from runtime.jetstream.api import api
from runtime.jetstream.connection import open_connection
from runtime.settings import StreamSettings

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")


async def test_streams_are_made_as_the_design_says_and_follow_the_settings(
    own_nats: EmbeddedNats,
) -> None:
    import json

    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    asked = StreamSettings(max_age_s=7200, max_bytes=5_000_000)
    await bus.ensure_streams(asked)
    connection = await open_connection(own_nats.settings(), "look", 10)
    info = json.loads(await api(connection, "STREAM.INFO.EVENTS"))
    config = info["config"]
    wanted = {
        "subjects": ["events.>"],
        "storage": "file",
        "retention": "limits",
        "discard": "old",
        "compression": "s2",
        "deny_delete": True,
        "deny_purge": True,
        "allow_direct": True,
        "max_age": 7200 * 10**9,
        "max_bytes": 5_000_000,
        "duplicate_window": 120 * 10**9,
        "num_replicas": 1,
    }
    assert {key: config[key] for key in wanted} == wanted

    await bus.publish("events.c.0.watch", b"x", "1")
    await bus.ensure_streams(asked)
    await bus.ensure_streams(structs.replace(asked, max_age_s=3600, max_bytes=4_000_000))
    info = json.loads(await api(connection, "STREAM.INFO.EVENTS"))
    assert info["config"]["max_age"] == 3600 * 10**9
    assert info["config"]["max_bytes"] == 4_000_000
    assert info["state"]["messages"] == 1, "changing limits keeps what is there"
    await connection.close()
    await bus.close()


async def test_a_stream_that_is_not_ours_is_refused(own_nats: EmbeddedNats) -> None:
    connection = await open_connection(own_nats.settings(), "look", 10)
    config = {"name": "DECISIONS", "subjects": ["decisions.>"], "storage": "memory"}
    await api(connection, "STREAM.CREATE.DECISIONS", config)
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    with pytest.raises(StreamMismatch, match="DECISIONS exists with storage = 'memory'"):
        await bus.ensure_streams(StreamSettings())
    await bus.close()
    await connection.close()


async def test_too_many_replicas_for_one_server_is_said_clearly(own_nats: EmbeddedNats) -> None:
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    with pytest.raises(StreamMismatch, match=r"cannot create stream EVENTS.*streams section"):
        await bus.ensure_streams(StreamSettings(replicas=3))
    await bus.close()


async def test_state_of_an_empty_and_of_a_missing_stream(own_nats: EmbeddedNats) -> None:
    bus = await connect(own_nats.settings(), "test", deadline_s=10)
    with pytest.raises(StreamMissing, match="no stream EVENTS"):
        await bus.stream_state("EVENTS")
    with pytest.raises(StreamMissing):
        await bus.last("EVENTS", "events.c.0.watch")
    with pytest.raises(StreamMissing):
        await bus.read("EVENTS", "events.>", 1).next(1)
    with pytest.raises(StreamMissing):
        await bus.work("DECISIONS", "w", "decisions.>").next(1)
    await bus.ensure_streams(StreamSettings())
    state = await bus.stream_state("EVENTS")
    assert (state.first_sequence, state.last_sequence, state.messages) == (1, 0, 0)
    await bus.close()


async def test_last_and_get(bus: Bus, cluster: str) -> None:
    mine, other = f"events.{cluster}.0.watch", f"events.{cluster}.0.actuator"
    assert await bus.last("EVENTS", mine) is None
    first = await bus.publish(mine, b"one", "1" + cluster)
    second = await bus.publish(mine, b"two\x00\xff", "2" + cluster)
    third = await bus.publish(other, b"", "3" + cluster)
    last = await bus.last("EVENTS", mine)
    assert last is not None
    assert (last.sequence, last.body, last.subject) == (second, b"two\x00\xff", mine)
    assert last.msg_id == "2" + cluster
    assert last.at.utcoffset() is not None
    newest = await bus.last("EVENTS", f"events.{cluster}.0.*")
    assert newest is not None
    assert (newest.sequence, newest.body) == (third, b"")
    got = await bus.get("EVENTS", first)
    assert got is not None
    assert (got.body, got.msg_id) == (b"one", "1" + cluster)
    assert await bus.get("EVENTS", third + 1_000_000) is None


async def test_get_and_read_agree_on_every_field(bus: Bus, cluster: str) -> None:
    subject = f"events.{cluster}.0.watch"
    start = 0
    for n in range(30):
        sequence = await bus.publish(subject, b"%d" % n, f"{cluster}-{n}")
        start = start or sequence
    reader = bus.read("EVENTS", subject, start)
    seen: list[Any] = []
    while len(seen) < 30:
        seen += await reader.next(5)
    for message in seen:
        assert await bus.get("EVENTS", message.sequence) == message
    await reader.close()
