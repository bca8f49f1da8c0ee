"""Starts: how many decisions are begun in one turn of the event loop, and whose.

Theory. Ten thousand decisions of one group arrive within a moment. To begin one (look at it, make
its patch, stand in line at the API server) takes far longer than to take it, and while all are
begun in one turn of the loop no answer is read, no request goes out, and a single pod's decision
that came behind them waits for all of it. So a turn begins few, and those who wait for theirs stand
in the same two lines as later at the API server (`line`).

Invariant: every turn of the loop begins at most `AT_ONCE`, and all that wait are begun; nothing is
held back for longer than that, however long it takes once begun.
"""

import asyncio
from typing import Final

from actuator.line import Line

AT_ONCE: Final = 64
"""Decisions begun in one turn of the loop: more than requests that are sent in it."""


class Starts:
    """Gives turns to begin."""

    def __init__(self) -> None:
        self._line = Line()
        self._left = AT_ONCE
        self._due = False

    async def turn(self, group: str) -> None:
        """Wait until a decision of a group may begin."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._next)
        if self._left and not self._line:
            self._left -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._line.join(waiter, group)
        await waiter

    def _next(self) -> None:
        """A turn of the loop has passed."""
        self._left = AT_ONCE
        while self._left and self._line:
            waiter = self._line.next()
            if not waiter.done():  # cancelled, when we are asked to stop
                waiter.set_result(None)
                self._left -= 1
        self._due = self._left < AT_ONCE
        if self._due:
            asyncio.get_running_loop().call_soon(self._next)
