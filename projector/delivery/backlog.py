"""The backlog of DECISIONS: messages that no actuator has taken yet, and messages dropped before.

Theory. A decision without an outcome may wait in its stream (the API server is slow, no actuator
runs), or be lost (the stream was full and its oldest went). A waiting decision must not be sent
again: it will be carried out, and twenty thousand repetitions a minute would fill the stream until
it drops messages that still wait. A lost decision must be. The actuators' consumer shows the
difference: messages up to its position were delivered, and messages before the stream's beginning
are gone.

Invariant: reads only; without a consumer, or before the first look, no message counts as waiting.
"""

import asyncio

from podgroup.log import subjects
from runtime.jetstream import Bus, BusError
from runtime.log import get_logger

LOOK_S = 2.0
"""Seconds between looks."""

log = get_logger("projector")


class Backlog:
    """The results of looks, in sequences of DECISIONS."""

    def __init__(self) -> None:
        self.first = 0
        """The first message that the stream still has."""
        self.delivered: int | None = None
        """The last message handed to an actuator; None: not known."""
        self._fresh = False

    def waits(self, sequence: int) -> bool:
        """Return whether a message is in the stream and no actuator has got it yet."""
        return self.delivered is not None and sequence > self.delivered and sequence >= self.first

    @property
    def any_dropped(self) -> bool:
        """Some message may have gone unread (maybe of another cluster on the same server)."""
        return self.delivered is not None and self.delivered + 1 < self.first

    def dropped(self, sequence: int) -> bool:
        """Return whether the stream dropped a message before an actuator got it."""
        return self.delivered is not None and self.delivered < sequence < self.first

    def fresh(self) -> bool:
        """Return, once for each look, that a look was made."""
        fresh, self._fresh = self._fresh, False
        return fresh

    async def refresh(self, bus: Bus, cluster: str) -> None:
        """Ask the server once."""
        try:
            # In this order: a delivery in between makes us wait, and does not make us send again.
            stream = await bus.stream_state(subjects.DECISIONS)
            taken = await bus.taken(subjects.DECISIONS, subjects.actuator_consumer(cluster))
        except BusError as error:
            log.debug("backlog_unknown", error=str(error))
            self.delivered = None
            return
        self.first = stream.first_sequence
        self.delivered = taken.delivered if taken is not None else None
        self._fresh = True

    async def watch(self, bus: Bus, cluster: str) -> None:
        """Look until cancelled."""
        while True:
            await self.refresh(bus, cluster)
            await asyncio.sleep(LOOK_S)
