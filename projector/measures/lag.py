"""How far committed state is behind the log.

Theory. The newest message of the log is looked up every few seconds, whatever the projection does
meanwhile, so a projection that hangs is seen to fall behind. The age of the lag is measured by our
own looks: the log was ahead at least since the first look that found a message which is not
committed. So the age is 0 when caught up, and is exact to the time between looks; timestamps of the
log would mistake a quiet hour for an hour's lag.

Invariant: sequences looked up grow, and committed sequences are forgotten.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from podgroup.log import subjects
from runtime.background import background
from runtime.jetstream import Bus, BusError
from runtime.log import get_logger

LOOK_S = 5.0
"""Seconds between looks."""
MAX_LOOKS = 1000
"""Looks remembered; beyond that the newest look replaces the look before it."""

log = get_logger("projector")


class Lag:
    """The results of looks. Sequences are of the stream EVENTS."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looks: deque[tuple[int, float]] = deque()
        self._newest = 0

    def looked(self, newest: int) -> None:
        """Take note of the sequence of the newest message, 0 for none."""
        if newest < self._newest:
            self._looks.clear()  # another stream, with sequences of its own
        if newest != self._newest:
            self._newest = newest
            if len(self._looks) == MAX_LOOKS:
                self._looks.pop()
            self._looks.append((newest, self._clock()))

    def messages(self, committed: int) -> int:
        """Return how many sequence numbers the newest message is ahead."""
        return max(0, self._newest - committed)

    def seconds(self, committed: int) -> float:
        """Return for how long the log has been ahead of `committed`."""
        while self._looks and self._looks[0][0] <= committed:
            self._looks.popleft()
        return self._clock() - self._looks[0][1] if self._looks else 0.0


def watching(lag: Lag, bus: Bus, cluster: str) -> AbstractAsyncContextManager[None]:
    """Look while the context is open; a server that is away is looked for again."""
    return background(_sample(lag, bus, subjects.events_of(cluster)))


async def _sample(lag: Lag, bus: Bus, subject: str) -> None:
    while True:
        try:
            newest = await bus.last(subjects.EVENTS, subject)
        except BusError as error:
            log.debug("lag_unknown", error=str(error))
        else:
            lag.looked(newest.sequence if newest is not None else 0)
        await asyncio.sleep(LOOK_S)
