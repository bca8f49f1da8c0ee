"""The time by the log: the timestamp of the last message, plus the time since it came.

Theory. Due times are by the log's clock, which is the clock of the server that stores the log. The
clock of this machine may be an hour off or be set while we run; its monotonic clock may not. So
once a message has come fresh, time is counted on from its timestamp. Before that, after a start,
only the machine's clock shows how long no message came.

Invariant: after a fresh message, steps of this machine's clock change nothing.
"""

import time
from datetime import UTC, datetime, timedelta


class LogClock:
    """Counts on from the messages it is given."""

    def __init__(self) -> None:
        self._heard: tuple[datetime, float] | None = None

    def heard(self, at: datetime) -> None:
        """A message of this timestamp has just come, at the end of the log."""
        self._heard = (at, time.monotonic())

    def now(self) -> datetime:
        """Return the time, in UTC."""
        if self._heard is None:
            return datetime.now(UTC)
        at, monotonic_s = self._heard
        return at + timedelta(seconds=time.monotonic() - monotonic_s)
