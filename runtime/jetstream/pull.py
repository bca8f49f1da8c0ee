"""One pull session: a subscription, the requests under way on it, and what came back.

The library's `fetch` makes a task, a uuid and a timer per message and loses messages that race a
timeout (nats.py#392, #862). Here requests are sent by hand to
`$JS.API.CONSUMER.MSG.NEXT.<stream>.<consumer>` and everything that arrives is put into a deque;
the owner of the session drains it.

What may arrive: data (a reply subject that `acks.parse` understands) or a status. 100 is the
server's heartbeat while a request is open; 404, 408 and 409 with a `Nats-Pending-Messages` header
end a request, returning what it did not deliver; anything else ends the session (consumer deleted,
leader changed, no responder).

Invariant: `outstanding` is what the server may still send; it never exceeds what was asked for, so
memory is bounded by messages and by bytes.
"""

import asyncio
from collections import deque
from typing import NamedTuple

import msgspec
from nats.aio.msg import Msg

from runtime.jetstream.acks import DeliveryMetadata, parse
from runtime.jetstream.connection import Connection, Inbox, status_of

MAX_BYTES = 8 * 1024 * 1024
"""Bytes of one request at most. As many again are held while those are worked on, so this is memory
of every process that reads; a message, which may be 4 MB, must fit.
"""
_NS = 1_000_000_000
_HEARTBEAT = 100
_ENDS_REQUEST = frozenset((404, 408, 409))


class Timing(NamedTuple):
    """How long a request stays open, and how often the server sends a heartbeat for it, in seconds.

    The server wants the heartbeat to be at most half of the expiry.
    """

    expires_s: float = 30.0
    heartbeat_s: float = 2.0

    @property
    def silence_s(self) -> float:
        """Silence beyond this means that the session is dead."""
        return 2.4 * self.heartbeat_s


DEFAULT_TIMING = Timing()


class Data(NamedTuple):
    """A delivered message and its state."""

    message: Msg
    place: DeliveryMetadata


class Heartbeat(NamedTuple):
    """The server is there and has delivered up to this consumer sequence."""

    consumer_sequence: int


class SessionLost(NamedTuple):
    """The session is over; make another."""

    why: str


class Session:
    """Requests to one consumer within one generation of the connection."""

    def __init__(self, connection: Connection, stream: str, consumer: str, timing: Timing) -> None:
        self._timing = timing
        self._connection = connection
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._queue: deque[Msg] = deque()
        self._inbox: Inbox | None = None
        self._heard_at = 0.0
        self._waited_at = 0.0
        self.arrived = asyncio.Event()
        self.outstanding = 0
        self.consumer = consumer

    async def open(self) -> None:
        """Subscribe.

        Raises:
            BusUnavailable: not connected.
        """
        self._inbox = await self._connection.subscribe(self._receive)
        self._heard_at = self._waited_at = asyncio.get_running_loop().time()

    async def close(self, *, drain: bool = False) -> None:
        """Unsubscribe; with `drain`, what the server had sent can still be taken."""
        if self._inbox is not None:
            await self._inbox.close(drain=drain)

    @property
    def current(self) -> bool:
        """Whether the socket of this session is still in use."""
        return (
            self._inbox is not None
            and self._connection.connected
            and self._inbox.generation == self._connection.generation
        )

    @property
    def waiting(self) -> int:
        """Messages and statuses that have arrived and were not taken."""
        return len(self._queue)

    async def request(self, count: int) -> None:
        """Ask for `count` more messages.

        Raises:
            BusUnavailable: not connected.
        """
        assert self._inbox is not None
        body = msgspec.json.encode(
            {
                "batch": count,
                "expires": int(self._timing.expires_s * _NS),
                "idle_heartbeat": int(self._timing.heartbeat_s * _NS),
                "max_bytes": MAX_BYTES,
            }
        )
        if not self.outstanding:
            # The server sends heartbeats while a request is open, and none was open.
            self._heard_at = asyncio.get_running_loop().time()
        self.outstanding += count
        await self._connection.send(self._subject, body, self._inbox.subject)

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait until something has arrived or the session is no longer current.

        Returns False when the server has been silent for longer than two heartbeats while a request
        is open: the session is dead though the socket is not. Many short waits notice this as well
        as a long wait.
        """
        loop = asyncio.get_running_loop()
        beat_s = self._timing.heartbeat_s
        if loop.time() - self._waited_at > beat_s:
            # A caller that comes back late did not listen meanwhile, so the silence proves nothing.
            self._heard_at = max(self._heard_at, loop.time() - beat_s)
        quiet_until = self._heard_at + self._timing.silence_s
        left_s = quiet_until - loop.time()
        wait_s = left_s if timeout_s is None else min(timeout_s, left_s)
        try:
            async with asyncio.timeout(max(0.0, wait_s)):
                await self.arrived.wait()
        except TimeoutError:
            return loop.time() < self._heard_at + self._timing.silence_s
        finally:
            self._waited_at = loop.time()
        return True

    def pop(self) -> Data | Heartbeat | SessionLost | None:
        """Return the next thing that arrived; None when nothing is left."""
        while self._queue:
            message = self._queue.popleft()
            status = status_of(message)
            if not status:
                place = parse(message.reply)
                if place is not None:
                    self.outstanding = max(0, self.outstanding - 1)
                    return Data(message, place)
                continue
            headers = message.headers or {}
            if status == _HEARTBEAT:
                return Heartbeat(int(headers.get("Nats-Last-Consumer") or 0))
            pending = headers.get("Nats-Pending-Messages")
            if status not in _ENDS_REQUEST or pending is None:
                return SessionLost(f"{status} {headers.get('Description', '')}".strip())
            self.outstanding = max(0, self.outstanding - int(pending))
        self.arrived.clear()
        return None

    async def _receive(self, message: Msg) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        self._queue.append(message)
        self.arrived.set()
