"""Sending: entries to their streams in the order they were put in, many to a message.

Theory. Waiting entries go out up to `MAX_JOINED` to a message, whose id is derived from the
entries': the server drops a repetition that is cut the same way. A publisher that broke is
replaced, and all entries that are not known to be stored go again, in their old place. A message
that the server refuses is sent again entry by entry, and a refused entry is given up visibly.

Invariant: entries are stored in the order in which they were put in.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable
from itertools import islice

from msgspec import Struct

from podgroup.log.codec import join_decisions
from runtime.backoff import Backoff
from runtime.jetstream import Bus, BusUnavailable, Publisher, PublishRefused
from runtime.log import get_logger
from runtime.signing import Signer

log = get_logger("projector")

MAX_JOINED = 32
"""Decisions in a message at most: actuators that share the work take it message by message."""
MAX_JOINED_BYTES = 256 * 1024
"""Bytes of decisions in a message at most, unless one alone is larger; servers take 1 MB."""


class Outgoing(Struct):
    """An entry to send; `number` and `decision` are 0 and "" for entries of other kinds."""

    subject: str
    body: bytes
    msg_id: str
    number: int = 0
    decision: str = ""
    group: str = ""
    parked_seq: int = 0


class Message(Struct):
    """Entries on their way together: one parked event, or decisions in their order."""

    entries: list[Outgoing]
    sent: "asyncio.Future[int]"


Stored = Callable[[Outgoing, int], None]
GivenUp = Callable[[Outgoing, str], None]


class Sending:
    """Entries on their way; entries of subject `joined` share messages.

    `stored` is called for each stored entry with the sequence of its message, `given_up` for each
    refused entry with the reason. With a `signer`, messages of subject `joined` are signed.
    """

    def __init__(
        self,
        bus: Bus,
        joined: str,
        stored: Stored,
        given_up: GivenUp,
        signer: Signer | None = None,
    ) -> None:
        self._bus = bus
        self._signer = signer
        self._joined = joined
        self._stored = stored
        self._given_up = given_up
        self._queue: deque[Outgoing] = deque()
        self._flight: deque[Message] = deque()
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self.waiting = 0
        """Entries not yet known to be stored: in the queue or in flight."""

    async def drained(self) -> None:
        """Wait until nothing is waiting. `run` must be running."""
        while self.waiting:
            self._settled.clear()
            await self._settled.wait()

    def put(self, entry: Outgoing) -> None:
        """Send an entry after all that were put in before."""
        self._queue.append(entry)
        self.waiting += 1
        self._wake.set()

    async def run(self) -> None:
        """Publish until cancelled. A publisher that broke is replaced and goes on in order."""
        backoff = Backoff(first_s=0.1, ceiling_s=5.0)
        while True:
            publisher = self._bus.publisher()
            try:
                await self._publish(publisher, backoff)
            except PublishRefused:
                self._take_back()
                await self._one_at_a_time()
            except BusUnavailable as error:
                self._take_back()
                wait_s = next(backoff)
                log.warning("outbox_waits", error=str(error), waiting=self.waiting, wait_s=wait_s)
                await asyncio.sleep(wait_s)
            finally:
                publisher.close()

    async def _publish(self, publisher: Publisher, backoff: Backoff) -> None:
        while True:
            self._wake.clear()
            while self._queue:
                entries = self._next_message()
                body = join_decisions([entry.body for entry in entries])
                subject, msg_id = entries[0].subject, _message_id(entries)
                signature = self._signature(subject, msg_id, body)
                sent = await publisher.send(subject, body, msg_id, signature)
                sent.add_done_callback(lambda _: self._wake.set())
                for _ in entries:
                    self._queue.popleft()
                self._flight.append(Message(entries, sent))
            while self._flight and self._flight[0].sent.done():
                message = self._flight[0]
                for entry in message.entries:
                    self._stored(entry, message.sent.result())
                self._flight.popleft()
                self.waiting -= len(message.entries)
                backoff.reset()
            self._settled.set()
            await self._wake.wait()

    def _signature(self, subject: str, msg_id: str, body: bytes) -> str:
        if self._signer is None or subject != self._joined:
            return ""
        return self._signer.sign(subject, msg_id, body)

    def _next_message(self) -> list[Outgoing]:
        """Return the entries of the next message; they stay in the queue."""
        entries = [self._queue[0]]
        if entries[0].subject != self._joined:
            return entries
        size = len(entries[0].body)
        for entry in islice(self._queue, 1, MAX_JOINED):
            size += len(entry.body)
            if entry.subject != self._joined or size > MAX_JOINED_BYTES:
                break
            entries.append(entry)
        return entries

    def _take_back(self) -> None:
        """Put entries that are not known to be stored back in their place."""
        for message in reversed(self._flight):
            self._queue.extendleft(reversed(message.entries))
        self._flight.clear()

    async def _one_at_a_time(self) -> None:
        """Find the message that the server refuses, and give it up visibly."""
        while self._queue:
            entry = self._queue[0]
            body = join_decisions([entry.body])
            try:
                signature = self._signature(entry.subject, entry.msg_id, body)
                sequence = await self._bus.publish(
                    entry.subject, body, entry.msg_id, signature=signature
                )
                self._stored(entry, sequence)
            except PublishRefused as error:
                log.error(
                    "publish_refused", msg_id=entry.msg_id, bytes=len(entry.body), error=str(error)
                )
                self._given_up(entry, str(error))
            except BusUnavailable:
                return
            self._queue.popleft()
            self.waiting -= 1


def _message_id(entries: list[Outgoing]) -> str:
    """Return the message id: of a lone entry its own, else derived from all of theirs."""
    if len(entries) == 1:
        return entries[0].msg_id
    ids = "\n".join(entry.msg_id for entry in entries)
    return hashlib.blake2b(ids.encode(), digest_size=16).hexdigest()
