"""Messages among the decisions that are no decisions of ours: what the log hears of them.

Theory. A client that gets one message into the stream gets many, so the log hears of one in a
while, with the number of the others; each is counted, and each has its copy in PARKED.

Invariant: of messages that are refused the log hears within `SPACING_S` of the first, and of no
more than one in that time.
"""

import time
from typing import Final

from actuator.metrics import ActuatorMetrics
from actuator.outcomelog import OutcomeLog
from podgroup.log.events import DecisionRefused
from runtime.jetstream import Message

SPACING_S: Final = 10.0
"""Seconds from one event about refused messages to the next, at least."""
EXCERPT: Final = 2_000
"""Bytes of a refused message that the log gets to see; all of it is in PARKED."""


class Refusals:
    """Tells the log of refused messages."""

    def __init__(self, outcomes: OutcomeLog, metrics: ActuatorMetrics) -> None:
        self._outcomes = outcomes
        self._metrics = metrics
        self._reported_s = float("-inf")
        self._unreported = 0

    async def report(self, message: Message, reason: str) -> None:
        """Count a message, and say in the log that it was refused unless one was just now.

        On return what was to be said is stored.
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
