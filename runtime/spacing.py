"""Batching: a stream of work is done in spaced batches, a lone piece at once.

Theory. A message, a transaction, a wake-up of another process cost the same whether they carry one
event or twenty. When events keep coming, sending each at once pays that price for each event, and
makes every later stage pay too. So batches begin a few milliseconds apart: an event after a pause
goes at once, and the events close behind it collect until the next batch is due. Events that are
not urgent (our own writes come back, a pod is bound) collect for `PATIENT_GAPS` gaps, or until an
urgent event comes, and go with it.

Invariant: two batches of a caller that asks begin at least `gap_s` apart; no event waits longer
than `PATIENT_GAPS` gaps.
"""

import asyncio
import time
from contextlib import suppress
from typing import Final

PATIENT_GAPS: Final = 5


class Spacing:
    """Keeps the beginnings of batches `gap_s` seconds apart; 0: no spacing."""

    def __init__(self, gap_s: float) -> None:
        self._gap_s = gap_s
        self._began_at = float("-inf")

    def left_s(self, *, urgent: bool = True) -> float:
        """Seconds until the next batch is due, 0 if it is due."""
        gap_s = self._gap_s if urgent else PATIENT_GAPS * self._gap_s
        return max(0.0, self._began_at + gap_s - time.monotonic())

    def begin(self) -> None:
        """Note that a batch begins now."""
        self._began_at = time.monotonic()

    async def turn(self, urgent: asyncio.Event | None = None) -> None:
        """Wait until the next batch is due; the caller then calls `begin`.

        With an `urgent` that is not set, wait `PATIENT_GAPS` gaps, or until `urgent` is set.
        """
        if left_s := self.left_s():
            await asyncio.sleep(left_s)
        if urgent is None or urgent.is_set():
            return
        if left_s := self.left_s(urgent=False):
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await urgent.wait()
