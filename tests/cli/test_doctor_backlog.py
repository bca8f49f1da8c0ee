"""What `gatelog doctor` says of parts that are behind: how far, since when, and what to do."""

from datetime import UTC, datetime, timedelta

from gatelog.examine import backlog, eventlog
from gatelog.readmodel.rows import CheckpointRow
from podgroup.log import subjects
from runtime.jetstream import Bus
from runtime.settings import Settings

MINUTES = timedelta(minutes=5)


async def actuator_away(bus: Bus, cluster: str) -> None:
    """There was an actuator once."""
    durable, subject = subjects.actuator_consumer(cluster), subjects.decisions(cluster)
    worker = bus.work(subjects.DECISIONS, durable, subject)
    assert await worker.next(2.0) == []
    await worker.close()


async def test_decisions_that_nobody_takes(bus: Bus, cluster: str) -> None:
    settings, now = Settings(cluster=cluster), datetime.now(UTC)
    state = await bus.stream_state(subjects.DECISIONS)
    found = await backlog.examine(settings, bus, state, now)
    assert found.verdict == "skip"
    await actuator_away(bus, cluster)
    for number in range(3):
        await bus.publish(subjects.decisions(cluster), b"{}", f"{cluster}-{number}")
    state = await bus.stream_state(subjects.DECISIONS)
    found = await backlog.examine(settings, bus, state, datetime.now(UTC))
    assert found.verdict == "ok"
    found = await backlog.examine(settings, bus, state, datetime.now(UTC) + MINUTES)
    assert found.verdict == "warn"
    assert found.detail.startswith("3 messages wait for an actuator, by 5 m")
    assert f"since {now:%Y-%m-%d %H:}" in found.detail
    assert "is an actuator running" in found.remedy


async def test_a_projector_that_stopped_and_one_that_is_catching_up(bus: Bus, cluster: str) -> None:
    settings = Settings(cluster=cluster)
    stream_seq = (await bus.stream_state(subjects.EVENTS)).last_sequence
    for number in range(3):
        await bus.publish(subjects.events(cluster, "watch"), b"{}", f"{cluster}-{number}")
    state, now = await bus.stream_state(subjects.EVENTS), datetime.now(UTC)
    then = now + MINUTES
    stopped = await eventlog.lag(settings, bus, state, checkpoint(stream_seq, now), then)
    assert stopped.verdict == "fail"
    assert stopped.detail.startswith("3 messages behind, by 5 m")
    assert "last write 5 m" in stopped.detail
    slow = await eventlog.lag(settings, bus, state, checkpoint(stream_seq, then), then)
    assert slow.verdict == "warn"
    assert "catching up" in slow.detail
    fine = await eventlog.lag(settings, bus, state, checkpoint(stream_seq + 3, now), then)
    assert (fine.verdict, fine.detail) == ("ok", "none")


def checkpoint(stream_seq: int, written_at: datetime) -> CheckpointRow:
    return CheckpointRow(
        seq=stream_seq,
        base=0,
        epoch=1,
        mode="builtin",
        at=None,
        written_at=written_at,
        published=0,
        folded=b"",
    )
