"""Skew between this process's clock and the API server's, measured on answers to its requests.

Theory. Each answer has the time at which it was made, in whole seconds (header Date). The answer
was made after the request left and before the answer came: a time outside of that interval is skew
for certain, a time within it shows nothing and is not reported.

Invariant: a right clock is never reported as wrong, however slow an answer was.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

EVERY_S = 5.0
"""Seconds between looks at an answer."""
MOST_S = 5.0
"""Seconds of skew from which on it is reported."""


def said_at(headers: Mapping[str, str]) -> float | None:
    """Return when an answer says that it was made (s since the epoch), None if it does not."""
    try:
        at = parsedate_to_datetime(headers.get("Date", ""))
    except (TypeError, ValueError):
        return None
    return at.replace(tzinfo=at.tzinfo or UTC).timestamp()


def ahead_s(sent: float, made: float, received: float) -> float:
    """Return by how many seconds our clock is ahead for certain (behind: below 0; 0: unknown)."""
    if sent > made + 1:
        return sent - made - 1
    return min(0.0, received - made)


class Clock:
    """The skew that the answers to this process showed last."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._looked = 0.0
        self.ahead_s = 0.0

    def now(self) -> float:
        """Return the time by our clock (s since the epoch)."""
        return self._clock()

    def seen(self, sent: float, headers: Mapping[str, str]) -> None:
        """Look at an answer to a request that was sent at `sent`, if the last look was long ago."""
        received = self._clock()
        if abs(received - self._looked) < EVERY_S:
            return
        made = said_at(headers)
        if made is not None:
            self._looked, self.ahead_s = received, ahead_s(sent, made, received)


CLOCK = Clock()
"""The clock of this process, which asks one API server."""
