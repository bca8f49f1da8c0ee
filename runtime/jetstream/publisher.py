"""Publishing in order, many messages under way at once.

Messages go out as fast as the window allows; the server's acknowledgements come back on one
subscription. When one fails (no leader, no answer in time, connection lost) sending stops, and the
unacknowledged messages are sent again one at a time, each waiting for its acknowledgement, under
the same message ids: what was stored already is answered as a duplicate. Then the window opens
again. The time for all that is below the duplicate window of the streams (120 s), beyond which a
repetition would be stored twice.

Invariant: the log holds this publisher's messages in the order of `send`, each once; if that
cannot be kept, the publisher is *broken*: it raises from then on and its owner starts over from
what the log has. A future is resolved only after those of all earlier messages.
"""

import asyncio
import time
from collections import deque

import msgspec
from nats.aio.msg import Msg

from runtime.backoff import Backoff
from runtime.jetstream.api import ApiError
from runtime.jetstream.connection import NO_RESPONDERS, Connection, status_of
from runtime.jetstream.values import (
    BusClosed,
    BusError,
    BusUnavailable,
    OrderLost,
    Overtaken,
    PublishRefused,
)
from runtime.log import get_logger

ACK_TIMEOUT_S = 5.0
GIVE_UP_S = 60.0
WINDOW_BYTES = 32 * 1024 * 1024
FOLLOWS = "Nats-Expected-Last-Subject-Sequence"
"""The header with the sequence of the message before it on the subject; it is stored with the
message.
"""
SIGNATURE = "Gatelog-Signature"
"""The header with the signature that `runtime.signing` made of the message."""
# The server's "never": bad request, forbidden. 409 (same id in process) and 503 pass.
_REFUSALS = frozenset((400, 401, 403))
# 10071: the subject's last message is another. 10164: a message of the subject is being stored.
_WRONG_LAST_SEQUENCE = 10071
_BEING_STORED = 10164

log = get_logger("bus")


class Ack(msgspec.Struct):
    """The server's answer to a publish."""

    seq: int = 0
    duplicate: bool = False
    error: ApiError | None = None


_acks = msgspec.json.Decoder(Ack)


class _Entry:
    __slots__ = (
        "body",
        "first_sent",
        "future",
        "headers",
        "msg_id",
        "reply",
        "sent",
        "sequence",
        "subject",
    )

    def __init__(
        self, subject: str, body: bytes, msg_id: str, signature: str, future: asyncio.Future[int]
    ) -> None:
        self.subject = subject
        self.body = body
        self.msg_id = msg_id
        self.headers = headers_of(msg_id, signature)
        self.future = future
        self.reply = ""
        self.sent = 0.0
        self.first_sent = 0.0
        self.sequence = 0


class Publisher:
    """See the module. One owner; made by `Bus.publisher`."""

    def __init__(
        self,
        connection: Connection,
        window: int,
        *,
        ack_timeout_s: float = ACK_TIMEOUT_S,
        give_up_s: float = GIVE_UP_S,
    ) -> None:
        self._connection = connection
        self._ack_timeout_s = ack_timeout_s
        self._give_up_s = give_up_s
        self._window = window
        self._entries: deque[_Entry] = deque()
        self._bytes = 0
        self._broken: BusError | None = None
        self._failed = False
        self._room = asyncio.Event()
        self._repair: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def outstanding(self) -> int:
        """Messages sent but not acknowledged."""
        return len(self._entries)

    async def send(
        self, subject: str, body: bytes, msg_id: str, signature: str = ""
    ) -> asyncio.Future[int]:
        """Send in order; wait only while the window is full. The future gives the sequence.

        One task at a time: the order of calls is the order of messages.

        Raises:
            BusUnavailable: the publisher is broken; make a new one.
            PublishRefused: the server will never take this message.
        """
        while self._broken is None and self._full(len(body)):
            self._room.clear()
            await self._room.wait()
        if self._broken is not None:
            raise self._broken
        entry = _Entry(subject, body, msg_id, signature, self._loop.create_future())
        # An owner may drop the future and rely on flush; that is no "exception never retrieved".
        entry.future.add_done_callback(_retrieve)
        self._entries.append(entry)
        self._bytes += len(body)
        if self._repair is None:
            try:
                await self._transmit(entry)
            except BusUnavailable as error:
                self._start_repair(str(error))
            except PublishRefused as error:
                self._break(error)
                raise
        return entry.future

    async def flush(self) -> None:
        """Wait until everything sent is stored.

        Raises:
            BusUnavailable, PublishRefused: the publisher is broken.
        """
        while self._broken is None and self._entries:
            self._room.clear()
            await self._room.wait()
        if self._broken is not None:
            raise self._broken

    def close(self) -> None:
        """Give up the messages under way; `send` and `flush` raise from now on."""
        self._break(BusClosed("the publisher was closed"))

    def _full(self, size: int) -> bool:
        if not self._entries:
            return False
        return len(self._entries) >= self._window or self._bytes + size > WINDOW_BYTES

    async def _transmit(self, entry: _Entry) -> None:
        now = time.monotonic()
        entry.first_sent = entry.first_sent or now
        entry.sent = now
        if self._timer is None:
            self._timer = self._loop.call_later(self._ack_timeout_s, self._check_oldest)
        entry.reply = self._connection.expect(lambda message: self._on_reply(entry, message))
        try:
            await self._connection.send(entry.subject, entry.body, entry.reply, entry.headers)
        except BusError:
            self._connection.forget(entry.reply)
            raise

    def _on_reply(self, entry: _Entry, message: Msg | None) -> None:
        if entry.sequence or self._broken is not None:
            return
        if message is None:
            self._start_repair("the connection was lost")
        elif status_of(message) == NO_RESPONDERS:
            self._start_repair("no server answers: no leader, or no stream for this subject")
        else:
            ack = _acks.decode(message.data)
            if ack.error is None:
                entry.sequence = ack.seq
                self._connection.stored(entry.subject)
                self._resolve()
            elif ack.error.code in _REFUSALS:
                self._break(refusal_error(entry.subject, ack.error))
            else:
                self._start_repair(ack.error.description)

    def _resolve(self) -> None:
        while self._entries and self._entries[0].sequence:
            entry = self._entries.popleft()
            self._bytes -= len(entry.body)
            if not entry.future.done():
                entry.future.set_result(entry.sequence)
        self._room.set()

    def _check_oldest(self) -> None:
        self._timer = None
        if self._broken is not None or not self._entries:
            return
        age_s = time.monotonic() - self._entries[0].sent
        if age_s >= self._ack_timeout_s and self._repair is None:
            self._start_repair(f"no acknowledgement within {self._ack_timeout_s} s")
        wait_s = max(0.1, self._ack_timeout_s - age_s)
        self._timer = self._loop.call_later(wait_s, self._check_oldest)

    def _start_repair(self, why: str) -> None:
        self._failed = True
        if self._repair is None and self._broken is None:
            log.warning("publish_interrupted", why=why, outstanding=len(self._entries))
            if self._entries:
                self._connection.stored(self._entries[0].subject, why)
            self._repair = self._loop.create_task(self._run_repair())

    async def _run_repair(self) -> None:
        """Until nothing failed since the last look: resend what was sent, then send the rest."""
        try:
            while True:
                self._failed = False
                await self._resend()
                await self._send_waiting()
                if not self._failed:
                    self._repair = None
                    return
        except BusError as error:
            self._break(error)

    async def _resend(self) -> None:
        backoff = Backoff(first_s=0.05, ceiling_s=2.0)
        # The leftmost entry is unacknowledged: `_resolve` has taken the others away.
        while self._entries and self._entries[0].sent:
            entry = self._entries[0]
            left_s = entry.first_sent + self._give_up_s - time.monotonic()
            if left_s <= 0 or not await self._connection.wait_connected(left_s):
                raise self._connection.unavailable(
                    f"{len(self._entries)} messages for {entry.subject} could not be stored "
                    f"within {self._give_up_s} s"
                )
            overtaken = any(later.sequence for later in self._entries)
            try:
                ack = await publish_once(
                    self._connection, entry.subject, entry.body, entry.headers, self._ack_timeout_s
                )
            except BusUnavailable:
                await asyncio.sleep(next(backoff))
                continue
            backoff.reset()
            if overtaken and not ack.duplicate and not entry.sequence:
                raise OrderLost(
                    f"message {entry.msg_id} for {entry.subject} was stored at {ack.seq}, after "
                    "messages that were sent later: relist instead of resuming from the last one"
                )
            entry.sequence = entry.sequence or ack.seq
            self._resolve()

    async def _send_waiting(self) -> None:
        while waiting := [entry for entry in self._entries if not entry.sent]:
            for entry in waiting:
                try:
                    await self._transmit(entry)
                except BusUnavailable:
                    self._failed = True
                    return

    def _break(self, error: BusError) -> None:
        if self._broken is not None:
            return
        self._broken = error
        if self._timer is not None:
            self._timer.cancel()
        if self._repair is not None and self._repair is not asyncio.current_task():
            self._repair.cancel()
        self._repair = None
        for entry in self._entries:
            if not entry.future.done():
                entry.future.set_exception(error)
        self._entries.clear()
        self._bytes = 0
        self._room.set()


def headers_of(msg_id: str, signature: str) -> dict[str, str]:
    """Return the headers of a message; without a signature ("") there is no header for it."""
    headers = {"Nats-Msg-Id": msg_id}
    if signature:
        headers[SIGNATURE] = signature
    return headers


async def publish_once(
    connection: Connection,
    subject: str,
    body: bytes,
    headers: dict[str, str],
    timeout_s: float,
    after: int | None = None,
) -> Ack:
    """Publish and wait for the acknowledgement, once; `after` as in `Bus.publish`.

    `headers` as `headers_of` made them.

    Raises:
        BusUnavailable: not known to be stored.
        Overtaken: the last message on the subject is not `after`.
        PublishRefused: never will be.
    """
    if after is not None:
        headers = {**headers, FOLLOWS: str(after)}
    try:
        answer = await connection.request(subject, body, timeout_s=timeout_s, headers=headers)
    except BusUnavailable as error:
        connection.stored(subject, str(error))
        raise
    ack = _acks.decode(answer)
    if ack.error is None:
        connection.stored(subject)
        return ack
    if ack.error.err_code == _WRONG_LAST_SEQUENCE:
        raise Overtaken(f"{subject}: {ack.error.description}, expected {after}")
    if ack.error.code in _REFUSALS and ack.error.err_code != _BEING_STORED:
        raise refusal_error(subject, ack.error)
    connection.stored(subject, ack.error.description)
    raise connection.unavailable(f"publish to {subject}: {ack.error.description}")


def refusal_error(subject: str, error: ApiError) -> PublishRefused:
    """Return the error for an answer that repeating cannot change."""
    return PublishRefused(f"{subject}: {error.description} (error {error.err_code})")


def _retrieve(future: asyncio.Future[int]) -> None:
    if not future.cancelled():
        future.exception()
