"""Time is the log's: a projector on a machine whose clock is an hour ahead fires no timer early."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from podgroup.log import events as e
from podgroup.log import subjects
from podgroup.log.codec import decode_batch
from projector.live.logclock import LogClock
from runtime.jetstream import Bus
from runtime.settings import NatsSettings
from tests.projector.running import publish, sent_decisions
from tests.projector.test_projection import batches
from tests.support.faults.clock import set_by
from tests.support.parts import environment
from tests.support.processes import Child
from tests.support.toy import Toy

pytestmark = pytest.mark.retried("it waits by the clock, on two cores shared with other tests")

ROOT = Path(__file__).parents[2]


def test_time_goes_on_from_the_last_message() -> None:
    clock, at = LogClock(), datetime(2031, 5, 1, tzinfo=UTC)
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)
    before = time.monotonic()
    clock.heard(at)
    time.sleep(0.05)
    assert timedelta(seconds=0.04) < clock.now() - at
    assert clock.now() - at < timedelta(seconds=time.monotonic() - before + 0.01)


@pytest.mark.slow_with("postgresql", "the same on the other database; make test plays it on one")
async def test_a_clock_that_is_an_hour_ahead_fires_no_timer_before_its_time(
    url: str, bus: Bus, cluster: str, nats_settings: NatsSettings, tmp_path: Path
) -> None:
    toy, clock = Toy(), tmp_path / "clock"
    toy.act = False
    toy.pod("foo")
    clock.write_text("3600")
    env = environment(nats_settings, cluster, url)
    env |= {"GATELOG_STATE_DIR": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}
    child = Child("projector", set_by(clock, "project"), env, tmp_path)
    child.start()
    try:
        await asyncio.to_thread(child.wait_for, '"caught_up"')
        await publish(bus, cluster, batches(toy))
        sent = await sent_decisions(bus, cluster, 3)
        ungate = next(d for _, d in sent if d.rule.startswith("ungate"))
        refusal = e.OutcomeRecorded(
            decision=ungate.id, group=ungate.group, status="rejected", http_status=422
        )
        # The fold asks for another try in half a minute.
        await publish(bus, cluster, [e.Batch(source="actuator", events=(refusal,))])
        for off_s in ("3600", "-3600", "0"):
            clock.write_text(off_s)
            await asyncio.sleep(1.0)
        said = datetime.fromisoformat(child.text().splitlines()[0].split('"timestamp": "')[1][:19])
    finally:
        child.stop()
    own = said.replace(tzinfo=UTC) - datetime.now(UTC)
    assert own > timedelta(minutes=50), "the child's clock was not ahead"
    message = await bus.last(subjects.EVENTS, subjects.events(cluster, "projector"))
    fired = message is not None and any(
        isinstance(event, e.TimerFired) for event in decode_batch(message.body).events
    )
    assert not fired, child.tail()
