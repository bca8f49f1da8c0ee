"""How many decisions begin in one turn of the event loop, and in which order.

Theory. Ten thousand decisions arrive within a moment. To begin one (look at it, make its patch, ask
for a turn at the API server) takes far longer than to take it, and if all begin in one turn of the
loop, meanwhile no answer is read, no request goes out, and the decision of a single pod behind them
waits. So a turn begins few decisions, and the others wait in the same order as later for the API
server (`fairqueue`).

Invariant: every turn of the loop begins at most `AT_ONCE` decisions, and in the end every decision
that waits; decisions under way hold back no other.
"""

import asyncio
from typing import Final

from actuator.fairqueue import Claim, FairQueue

AT_ONCE: Final = 64
"""Decisions begun in one turn of the loop: more than the requests that are sent in it."""


class StartLimiter:
    """Gives turns to begin."""

    def __init__(self) -> None:
        self._queue = FairQueue()
        self._left = AT_ONCE
        self._due = False

    async def turn(self, claim: Claim) -> None:
        """Wait until a decision may begin."""
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._next)
        if self._left and not self._queue:
            self._left -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._queue.join(waiter, claim)
        await waiter

    def _next(self) -> None:
        """A turn of the loop has passed."""
        self._left = AT_ONCE
        while self._left and self._queue:
            found = self._queue.next()
            if found is not None:
                found[1].set_result(None)
                self._left -= 1
        self._due = self._left < AT_ONCE
        if self._due:
            asyncio.get_running_loop().call_soon(self._next)
