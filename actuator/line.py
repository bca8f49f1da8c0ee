"""The line at the API server: few requests of one group do not wait for the many of another.

Theory. In one line, a single pod would stand behind all ten thousand of a group that came a moment
before. Turn about between groups would cure that and do harm: ten groups of a thousand that share
the server all start at the end, one after the other they start at a tenth, two tenths, and so on.
So there are two lines. A request joins the short one as long as few of its group wait, else the
long one; turns alternate while both wait. Groups of many are served in the order they came, and
small ones wait for small ones only.

Invariant: each line is served in the order of arrival, and neither waits for more than one turn of
the other.
"""

import asyncio
from collections import Counter, deque
from contextvars import ContextVar
from typing import Final

ON_BEHALF: Final[ContextVar[str]] = ContextVar("on_behalf", default="")
"""The group that requests of this task are made for; "" for none."""
FEW: Final = 16
"""Requests of one group that may wait in the short line."""

Waiter = asyncio.Future[None]


class Line:
    """Those who wait for a turn, each on behalf of a group."""

    def __init__(self) -> None:
        self._short: deque[tuple[str, Waiter]] = deque()
        self._long: deque[tuple[str, Waiter]] = deque()
        self._of: Counter[str] = Counter()
        self._was_short = False

    def __bool__(self) -> bool:
        """Tell whether any waiter is left."""
        return bool(self._of)

    def __len__(self) -> int:
        return len(self._short) + len(self._long)

    def join(self, waiter: Waiter, group: str) -> None:
        """Stand in line on behalf of `group`."""
        line = self._short if self._of[group] < FEW else self._long
        self._of[group] += 1
        line.append((group, waiter))

    def next(self) -> Waiter:
        """Take the next one out of the line; there must be one."""
        self._was_short = bool(self._short) and not (self._was_short and self._long)
        group, waiter = (self._short if self._was_short else self._long).popleft()
        self._of[group] -= 1
        if not self._of[group]:
            del self._of[group]
        return waiter
