"""Outcomes on their way into the log: group commit, in order, until acknowledged.

Theory. One message is on its way at a time; outcomes that are recorded meanwhile, and for a moment
after, go together into the next. So a lone outcome leaves at once, and a thousand a second share a
few messages, which is what makes syncing every write affordable. A message that got no
acknowledgement is sent again under the same message id, so the stream keeps one copy; nothing later
overtakes it.

Invariant: the future of an outcome is done only when the stream has stored it; outcomes are stored
in the order they were recorded.
"""

import asyncio
from typing import Final, Protocol

from podgroup.log import codec, subjects
from podgroup.log.events import Batch, DecisionRefused, OutcomeRecorded
from runtime.backoff import Backoff
from runtime.jetstream import BusError
from runtime.log import get_logger
from runtime.spacing import Spacing

MAX_BATCH: Final = 200
"""Outcomes in a message at most; the longest take 4 KB each, and a server takes 1 MB."""
SPACING_S: Final = 0.025
"""Seconds between two messages at least; nothing that starts a pod waits for an outcome."""


class Stream(Protocol):
    """The part of `runtime.jetstream.Bus` that is used here."""

    async def publish(self, subject: str, body: bytes, msg_id: str) -> int:
        """Store a message and return its sequence; safe to repeat under the same `msg_id`."""


_Waiting = list[tuple[OutcomeRecorded | DecisionRefused, asyncio.Future[int]]]


class OutcomeLog:
    """Publishes outcomes; `run` it beside the loop."""

    def __init__(self, stream: Stream, cluster: str) -> None:
        self._stream = stream
        self._cluster = cluster
        self._waiting: _Waiting = []
        self._some = asyncio.Event()
        self._spacing = Spacing(SPACING_S)
        self._log = get_logger("actuator")

    def record(self, outcome: OutcomeRecorded | DecisionRefused) -> asyncio.Future[int]:
        """Put an outcome in line; the future gives the stream sequence it was stored at."""
        stored: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((outcome, stored))
        self._some.set()
        return stored

    async def run(self) -> None:
        """Publish what is recorded, until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting:
                if len(self._waiting) < MAX_BATCH:
                    await self._spacing.turn()
                self._spacing.begin()
                line, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                await self._publish(line)

    async def _publish(self, line: _Waiting) -> None:
        batch = Batch(source="actuator", events=tuple(outcome for outcome, _ in line))
        body = codec.encode_batch(batch)
        message_id = codec.message_id(batch)
        subject = subjects.events(self._cluster, "actuator")
        backoff = Backoff(first_s=0.1, ceiling_s=5.0)
        while True:
            try:
                sequence = await self._stream.publish(subject, body, message_id)
                break
            except BusError as error:
                wait_s = next(backoff)
                self._log.warning(
                    "outcomes_not_stored", error=str(error), outcomes=len(line), retry_in_s=wait_s
                )
                await asyncio.sleep(wait_s)
        for _, stored in line:
            if not stored.done():
                stored.set_result(sequence)
