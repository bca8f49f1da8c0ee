"""Work in a stream is done in pieces, and a lone piece of it at once.

Theory. A message, a transaction, a wake-up of another process cost the same whether they carry one
event or twenty. When events keep coming, sending each at once pays that price for each, and
makes every later stage pay it too. So beginnings are kept a few milliseconds apart: what comes
after a pause goes at once, and what comes close behind collects until the next beginning is due.
What is not urgent (our own writes come back, a pod is bound) collects for `PATIENT_GAPS` gaps,
or until something comes that is urgent: they go together.

Invariant: two beginnings are never closer than `gap_s`, unless the caller does not ask; nothing
waits longer than `PATIENT_GAPS` of them.
"""

import asyncio
import time
from contextlib import suppress
from typing import Final

PATIENT_GAPS: Final = 5


class Spacing:
    """Keeps beginnings `gap_s` seconds apart; 0: not at all."""

    def __init__(self, gap_s: float) -> None:
        self._gap_s = gap_s
        self._began_at = float("-inf")

    def left_s(self, *, urgent: bool = True) -> float:
        """Seconds until the next beginning is due, 0 if it is."""
        gap_s = self._gap_s if urgent else PATIENT_GAPS * self._gap_s
        return max(0.0, self._began_at + gap_s - time.monotonic())

    def begin(self) -> None:
        """Note that a piece begins now."""
        self._began_at = time.monotonic()

    async def turn(self, urgent: asyncio.Event | None = None) -> None:
        """Wait until the next beginning is due; the caller then says that it begins.

        With `urgent` not set, that of what is not urgent, or until it is set.
        """
        if left_s := self.left_s():
            await asyncio.sleep(left_s)
        if urgent is None or urgent.is_set():
            return
        if left_s := self.left_s(urgent=False):
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await urgent.wait()
