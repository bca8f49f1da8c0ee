"""How many decisions are begun in one turn of the event loop, and whose.

Theory. Ten thousand decisions arrive within a moment. To begin one (look at it, make its patch, ask
for a turn at the API server) takes far longer than to take it, and while all are begun in one turn
of the loop no answer is read, no request goes out, and a single pod's decision that came behind
them waits for all of it. So a turn begins few, and the others wait as later for the API server
(`fairqueue`).

Invariant: every turn of the loop begins at most `AT_ONCE`, and all that wait are begun; nothing is
held back for longer than that, however long it takes once begun.
"""

import asyncio
from typing import Final

from actuator.fairqueue import Claim, FairQueue

AT_ONCE: Final = 64
"""Decisions begun in one turn of the loop: more than requests that are sent in it."""


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
