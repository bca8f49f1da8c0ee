"""Work in a stream is done in pieces, and a lone piece of it at once.

Theory. A message, a transaction, a wake-up of another process cost the same whether they carry one
event or twenty. When events keep coming, sending each at once pays that price for each, and
makes every later stage pay it too. So beginnings are kept a few milliseconds apart: what comes
after a pause goes at once, and what comes close behind collects until the next beginning is due.
Nothing waits longer than the gap.

Invariant: two beginnings are never closer than `gap_s`, unless the caller does not ask.
"""

import asyncio
import time


class Spacing:
    """Keeps beginnings `gap_s` seconds apart; 0: not at all."""

    def __init__(self, gap_s: float) -> None:
        self._gap_s = gap_s
        self._next_at = float("-inf")

    @property
    def left_s(self) -> float:
        """Seconds until the next beginning is due, 0 if it is."""
        return max(0.0, self._next_at - time.monotonic())

    def begin(self) -> None:
        """Note that a piece begins now."""
        self._next_at = time.monotonic() + self._gap_s

    async def turn(self) -> None:
        """Wait until the next beginning is due; the caller then says that it begins."""
        left_s = self.left_s
        if left_s:
            await asyncio.sleep(left_s)
