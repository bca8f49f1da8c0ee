"""The event log as the parts of gatelog see it: publish, read, work, look up.

Invariant: everything that crosses this class is bytes, subjects and sequences; what the bytes mean
is `podgroup.log.codec`'s business.
"""

import asyncio
import base64
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
from nats.aio.msg import Msg

from runtime.backoff import Backoff
from runtime.jetstream import streams, worker
from runtime.jetstream.api import (
    NO_MESSAGE_FOUND,
    STREAM_NOT_FOUND,
    ApiRefused,
    ask,
)
from runtime.jetstream.connection import Connection, open_connection
from runtime.jetstream.publisher import (
    ACK_TIMEOUT_S,
    Publisher,
    headers_of,
    publish_once,
)
from runtime.jetstream.reader import Reader
from runtime.jetstream.values import (
    BusClosed,
    BusUnavailable,
    Consumption,
    Message,
    StreamState,
    from_rfc3339,
)
from runtime.jetstream.worker import Worker
from runtime.log import get_logger
from runtime.settings import NatsSettings, StreamSettings

log = get_logger("bus")


class _Stored(msgspec.Struct):
    subject: str
    seq: int
    time: str
    data: str = ""
    hdrs: str = ""


class _Got(msgspec.Struct):
    message: _Stored


_got = msgspec.json.Decoder(_Got)


class Bus:
    """A connection to the log. Made by `connect`; shared by the tasks of one event loop."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._publishers: weakref.WeakSet[Publisher] = weakref.WeakSet()

    @property
    def connected(self) -> bool:
        """Whether there is a live connection now."""
        return self._connection.connected

    @property
    def settings(self) -> NatsSettings:
        """The server and login of this connection, so that another process can connect the same
        way.
        """
        return self._connection.settings

    @property
    def on_reconnect(self) -> list[Callable[[], object]]:
        """Functions to call when a lost connection is back (not after the first connect)."""
        return self._connection.on_reconnect

    @property
    def last_error(self) -> str:
        """The last error of the server or the socket."""
        return self._connection.last_error

    @property
    def problem(self) -> str:
        """Why nothing can be published now, "" when it can, as far as was tried."""
        return self._connection.problem

    @property
    def unstored(self) -> str:
        """Why the server does not store what was published lately, "" when it does."""
        return self._connection.unstored

    async def publish_unstored(self, subject: str, body: bytes) -> None:
        """Send a message that no stream keeps, to the present subscribers.

        Raises:
            BusUnavailable: not connected.
        """
        await self._connection.send(subject, body)

    @asynccontextmanager
    async def hear(self, subject: str, take: Callable[[bytes], object]) -> AsyncIterator[None]:
        """Call `take` with each message on a subject (wildcards allowed) while the context is open.

        Messages published while the connection is away are lost.
        """

        async def heard(message: Msg) -> None:
            take(message.data)

        async def subscribe() -> None:
            with suppress(BusUnavailable):  # the next connection brings another try
                await self._connection.subscribe(heard, subject)

        tasks: set[asyncio.Task[None]] = set()

        def again() -> None:
            tasks.add(task := asyncio.create_task(subscribe()))
            task.add_done_callback(tasks.discard)

        self.on_reconnect.append(again)
        try:
            await subscribe()
            yield
        finally:
            self.on_reconnect.remove(again)
            await asyncio.gather(*tasks, return_exceptions=True)

    async def ensure_streams(self, settings: StreamSettings) -> None:
        """Create EVENTS, DECISIONS and PARKED, or bring their limits up to date; see `streams`.

        Like `connect`, it waits for a server that is away: a process that starts while NATS
        restarts must not end for it. Where `settings.create` is off it does nothing: another
        account makes the streams, and the first use of a missing stream says so.
        """
        if not settings.create:
            return
        backoff = Backoff(first_s=0.2, ceiling_s=5.0)
        while True:
            try:
                await streams.ensure(self._connection, settings)
            except BusUnavailable as error:
                wait_s = next(backoff)
                log.warning("streams_wait", error=str(error), wait_s=round(wait_s, 2))
                await asyncio.sleep(wait_s)
            else:
                return

    async def stream_state(self, stream: str) -> StreamState:
        """Return the state of a stream.

        Raises:
            StreamMissing, BusUnavailable
        """
        return await streams.state(self._connection, stream)

    async def taken(self, stream: str, durable: str) -> Consumption | None:
        """Return how far the workers on a durable consumer are; None: there is none (yet).

        Raises:
            StreamMissing, BusUnavailable
        """
        return await worker.taken(self._connection, stream, durable)

    async def last(self, stream: str, subject: str) -> Message | None:
        """Return the newest message on a subject (wildcards allowed), or None.

        The stream's leader answers, not any replica, so every acknowledged message is seen.

        Raises:
            StreamMissing, BusUnavailable
        """
        return await self._get(stream, {"last_by_subj": subject})

    async def get(self, stream: str, sequence: int) -> Message | None:
        """Return one message, or None if the stream does not hold it (any more).

        Raises:
            StreamMissing, BusUnavailable
        """
        return await self._get(stream, {"seq": sequence})

    async def at_or_after(self, stream: str, sequence: int, subject: str) -> Message | None:
        """Return the first message on a subject from `sequence` on, or None.

        Raises:
            StreamMissing, BusUnavailable
        """
        return await self._get(stream, {"seq": max(1, sequence), "next_by_subj": subject})

    async def publish(
        self,
        subject: str,
        body: bytes,
        msg_id: str,
        timeout_s: float = 5.0,
        *,
        after: int | None = None,
        signature: str = "",
    ) -> int:
        """Store one message and return its sequence; repeats with the same `msg_id` are safe.

        With `after` it is stored only if the newest message on the subject has that sequence (0:
        there is none). The server looks at that before it looks at `msg_id` (*measured*: 2.15), so
        a repetition of what was stored, but not acknowledged, is `Overtaken` by itself: `last`
        tells whose message it is.

        Raises:
            BusUnavailable: not known to be stored within `timeout_s`: repeat with the same id.
            Overtaken: the newest message is not `after`.
            PublishRefused: never will be.
        """
        loop = asyncio.get_running_loop()
        headers = headers_of(msg_id, signature)
        until = loop.time() + timeout_s
        backoff = Backoff(first_s=0.05, ceiling_s=1.0)
        while True:
            try:
                left_s = max(0.05, until - loop.time())
                if not await self._connection.wait_connected(left_s):
                    raise self._connection.unavailable(f"not connected within {timeout_s} s")
                left_s = max(0.05, until - loop.time())
                ack = await publish_once(
                    self._connection, subject, body, headers, min(left_s, ACK_TIMEOUT_S), after
                )
            except BusClosed:
                raise
            except BusUnavailable:
                wait_s = next(backoff)
                if loop.time() + wait_s >= until:
                    raise
                await asyncio.sleep(wait_s)
            else:
                return ack.seq

    def publisher(self, window: int = 1000) -> Publisher:
        """Return a publisher with at most `window` messages under way."""
        publisher = Publisher(self._connection, window)
        self._publishers.add(publisher)
        return publisher

    def read(
        self, stream: str, filter_subject: str, start_sequence: int, *, batch: int = 2000
    ) -> Reader:
        """Return a reader from `start_sequence` on; see `Reader`."""
        return Reader(self._connection, stream, filter_subject, start_sequence, batch)

    def work(
        self,
        stream: str,
        durable: str,
        filter_subject: str,
        *,
        max_in_flight: int = 512,
        ack_wait_s: float = 15,
        create: bool = True,
    ) -> Worker:
        """Return a worker on a durable consumer; see `Worker`.

        The consumer is made when needed, unless `create` is off: then it must be there.
        """
        found = Worker(self._connection, stream, durable, filter_subject, max_in_flight, ack_wait_s)
        found.create = create
        return found

    async def ensure_consumer(
        self, stream: str, durable: str, filter_subject: str, ack_wait_s: float
    ) -> None:
        """Create a durable consumer for `work`, or bring it up to date.

        Raises:
            StreamMissing, BusUnavailable
            BusError: it exists and cannot be changed to what was asked for.
        """
        await worker.make(self._connection, stream, durable, filter_subject, ack_wait_s)

    async def close(self) -> None:
        """Close the connection; readers, workers and publishers raise from then on."""
        for publisher in list(self._publishers):
            publisher.close()
        await self._connection.close()

    async def _get(self, stream: str, query: dict[str, object]) -> Message | None:
        try:
            answer = await ask(self._connection, f"STREAM.MSG.GET.{stream}", query)
        except ApiRefused as refused:
            if refused.error.err_code == NO_MESSAGE_FOUND:
                return None
            if refused.error.err_code == STREAM_NOT_FOUND:
                raise streams.missing(stream) from refused
            raise
        stored = _got.decode(answer).message
        return Message(
            sequence=stored.seq,
            at=from_rfc3339(stored.time),
            subject=stored.subject,
            body=base64.b64decode(stored.data),
            msg_id=_msg_id(base64.b64decode(stored.hdrs)),
        )


async def connect(settings: NatsSettings, name: str, *, deadline_s: float | None = None) -> Bus:
    """Return a connected bus; `name` is shown in the server's monitoring.

    Retries with backoff, for ever unless `deadline_s` is given.

    Raises:
        BusUnavailable: not connected within `deadline_s`.
        LoginRefused, ServerTooOld, BusError: retrying cannot help; the message says what to do.
    """
    return Bus(await open_connection(settings, name, deadline_s))


def _msg_id(headers: bytes) -> str:
    for line in headers.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"nats-msg-id":
            return value.strip().decode(errors="replace")
    return ""
