"""Messages among the decisions that are no decisions of ours: how the log reports them.

Theory. A client that gets one message into the stream gets many. So the log has one event in
`SPACING_S`, with the number of further messages; each message is counted, and has its copy in
PARKED.

Invariant: the first refused message is reported at once, and then at most one in `SPACING_S`.
"""

import time
from typing import Final

from actuator.metrics import ActuatorMetrics
from actuator.outcomelog import OutcomeLog
from podgroup.log.events import DecisionRefused
from runtime.jetstream import Message

SPACING_S: Final = 10.0
"""Seconds between two events about refused messages, at least."""
EXCERPT: Final = 2_000
"""Bytes of a refused message that go into the log; PARKED has all of it."""


class Refusals:
    """Tells the log of refused messages."""

    def __init__(self, outcomes: OutcomeLog, metrics: ActuatorMetrics) -> None:
        self._outcomes = outcomes
        self._metrics = metrics
        self._reported_s = float("-inf")
        self._unreported = 0

    async def report(self, message: Message, reason: str) -> None:
        """Count a refused message; record it if `SPACING_S` have passed since the last record.

        On return the event is stored.
        """
        self._metrics.count_refused()
        now = time.monotonic()
        if now < self._reported_s + SPACING_S:
            self._unreported += 1
            return
        self._reported_s, others, self._unreported = now, self._unreported, 0
        await self._outcomes.record(
            DecisionRefused(
                sequence=message.sequence,
                subject=message.subject,
                reason=reason,
                raw=message.body[:EXCERPT].decode(errors="replace"),
                others=others,
                by="actuator",
            ),
        )
