"""Failures of one kind of work in a row: a streak that lasts makes the part unready.

Theory. A single failure means little, and work that fails for one object only is a problem of that
object. Work that fails for several objects, without a success for a while, is a problem of the
part. A success resets the streak; a long time without a try resets it too, since old failures say
nothing about now.

Invariant: `problem` is "" for the first `AFTER_S` seconds, and after a success.
"""

import time
from collections.abc import Callable
from typing import Final

AFTER_S: Final = 10.0
"""Seconds of failures without a success after which the streak is a problem."""
FORGET_S: Final = 45.0
"""Seconds without a try after which failures say nothing about now: the cause may be mended, and
another replica may have had the success."""


class Streak:
    """Failures since the last success; `what` begins the sentence about them.

    They count as a problem if they were of at least `objects` different objects.
    """

    def __init__(
        self,
        what: str,
        *,
        objects: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._objects = objects
        self._clock = clock
        self._of: set[str] = set()
        self._times = 0
        self._since = self._last = 0.0
        self._why = ""

    def succeeded(self) -> None:
        """Reset the streak."""
        self._times = 0

    def failed(self, why: str, of: str = "") -> None:
        """Count a failure; `why` is what was answered, `of` names the object."""
        now = self._clock()
        if not self._times or now - self._last > FORGET_S:
            self._times, self._since = 0, now
            self._of.clear()
        if len(self._of) < self._objects:
            self._of.add(of)
        self._times += 1
        self._last, self._why = now, why

    @property
    def problem(self) -> str:
        """What failed, how often, for how long and with which answer; "" for no problem."""
        now = self._clock()
        lasted_s = now - self._since
        if not self._times or lasted_s < AFTER_S or now - self._last > FORGET_S:
            return ""
        if len(self._of) < self._objects:
            return ""
        times = "once" if self._times == 1 else f"{self._times} times"
        return f"{self._what}: failed {times} in {lasted_s:.0f} s, last: {self._why}"
