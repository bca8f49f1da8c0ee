"""Announcing: the few facts that the projector itself adds to the log.

    TimerFired         a timer of the fold fell due, by the log's clock (`logclock`)
    OperatorActed      a relist is requested (see `epochs.RelistRequests`)
    OutcomeRecorded    a decision that NATS refused to carry

Theory. Folding and deciding know no clock, so time enters as events. These facts are published like
any other and take effect when they come back through the reader. A lost fact is published again.

Invariant: at most one publish is under way per kind of fact; none blocks the loop.
"""

import asyncio
import time
from datetime import datetime

from podgroup.fold import synced, unlisted
from podgroup.folding import due_timers
from podgroup.log import subjects
from podgroup.log.codec import encode_batch, message_id
from podgroup.log.events import Batch, Event, OutcomeRecorded
from podgroup.state.world import World
from projector.live.epochs import RelistRequests, relist_request
from runtime.jetstream import Bus, BusError
from runtime.log import get_logger

TIMERS_PER_MESSAGE = 500
PATIENCE_S = 30.0
"""Seconds after which a timer that was announced and did not come back is announced again."""

log = get_logger("projector")


def unwatched(world: World) -> dict[str, object]:
    """Say which kinds are missing without which nothing is decided, and what to do; {} if none."""
    named = sorted(unlisted(world))
    if not named:
        return {}
    problem = f"nothing is decided before these kinds are listed: {', '.join(named)}"
    return {
        "missing": named,
        "problem": f"{problem}; an ingester older than this projector may not watch them: "
        "upgrade it",
    }


class Announcer:
    """Publishes the projector's own facts for one cluster."""

    def __init__(self, bus: Bus, cluster: str) -> None:
        self._bus = bus
        self._subject = subjects.events(cluster, "projector")
        self._announced: dict[str, tuple[datetime, float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._relists = RelistRequests()

    def record_refused(self, outcome: OutcomeRecorded) -> None:
        """Record that a decision could not be published."""
        self._publish((outcome,))

    def tick(self, world: World, now: datetime) -> None:
        """Announce timers that are due, and ask for a relist if there is no other way on."""
        self._timers(world, now)
        waiting = not synced(world) and not world.meta.frames
        if self._relists.due(waiting=waiting, monotonic_s=time.monotonic()):
            log.warning("relist_requested", epoch=world.meta.epoch, **unwatched(world))
            self._send(relist_request(world.meta.epoch, now))

    def _timers(self, world: World, now: datetime) -> None:
        timers = world.meta.timers
        for name, (due_at, _) in list(self._announced.items()):
            known = timers.get(name)
            if known is None or known.due_at != due_at:
                del self._announced[name]
        clock = time.monotonic()
        fired = [
            event
            for event in due_timers(world, now)
            if event.timer not in self._announced
            or self._announced[event.timer][1] + PATIENCE_S < clock
        ]
        for start in range(0, len(fired), TIMERS_PER_MESSAGE):
            part = fired[start : start + TIMERS_PER_MESSAGE]
            for event in part:
                self._announced[event.timer] = (event.due_at, clock)
            self._publish(tuple(part))

    def _publish(self, events: tuple[Event, ...]) -> None:
        self._send(Batch(source="projector", events=events))

    def _send(self, batch: Batch) -> None:
        task = asyncio.create_task(self._deliver(batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, batch: Batch) -> None:
        try:
            await self._bus.publish(self._subject, encode_batch(batch), message_id(batch))
        except BusError as error:
            # Timers and requests are announced again; a lost refusal only delays the next try.
            log.warning("announcement_failed", events=len(batch.events), error=str(error))

    async def close(self) -> None:
        """Give up publishes under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
