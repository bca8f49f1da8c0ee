"""Working off a stream: each message to one of several workers, acknowledged when done.

A durable consumer with explicit acknowledgement; what is not settled within `ack_wait_s` is
delivered again, possibly elsewhere. Handling must be idempotent for two more reasons: the server
accepts an acknowledgement after a redelivery, and writes a consumer's state later than it answers,
so a killed server (nats-server 2.15, file storage) redelivers what was just acknowledged.
`max_in_flight` bounds what one worker holds unsettled, delivered or asked for.

Invariant: a message leaves the consumer only through `ack` or `term`; a delivery that its handler
forgot comes back after `ack_wait_s`, and its slot is free again from then on.
"""

import asyncio
from contextlib import suppress

import msgspec
from nats.aio.msg import Msg

from runtime.backoff import Backoff
from runtime.jetstream import streams
from runtime.jetstream.acks import DeliveryMetadata
from runtime.jetstream.api import CONSUMER_NOT_FOUND, STREAM_NOT_FOUND, ApiRefused, ask
from runtime.jetstream.connection import Connection
from runtime.jetstream.publisher import SIGNATURE
from runtime.jetstream.pull import DEFAULT_TIMING, Data, Heartbeat, Session, SessionLost
from runtime.jetstream.values import (
    BusClosed,
    BusError,
    BusUnavailable,
    Consumption,
    Message,
    from_nanoseconds,
)
from runtime.log import get_logger

_NS = 1_000_000_000
# Across all workers of the consumer; includes what was put off by nak. Bounds the server's memory.
_MAX_ACK_PENDING = 20_000

log = get_logger("bus")


class _Delivered(msgspec.Struct):
    stream_seq: int


class _Config(msgspec.Struct):
    ack_wait: int = 0
    filter_subject: str = ""


class _Consumer(msgspec.Struct):
    config: _Config
    delivered: _Delivered
    num_pending: int
    num_ack_pending: int


_consumers = msgspec.json.Decoder(_Consumer)


async def taken(connection: Connection, stream: str, durable: str) -> Consumption | None:
    """Return how far a durable consumer is, None if the consumer does not exist.

    Raises:
        StreamMissing: there is no such stream.
    """
    found = await _info(connection, stream, durable)
    if found is None:
        return None
    return Consumption(found.delivered.stream_seq, found.num_pending, found.num_ack_pending)


async def _info(connection: Connection, stream: str, durable: str) -> _Consumer | None:
    try:
        return _consumers.decode(await ask(connection, f"CONSUMER.INFO.{stream}.{durable}"))
    except ApiRefused as refused:
        if refused.error.err_code == CONSUMER_NOT_FOUND:
            return None
        if refused.error.err_code == STREAM_NOT_FOUND:
            raise streams.missing(stream) from refused
        raise


async def make(
    connection: Connection, stream: str, durable: str, filter_subject: str, ack_wait_s: float
) -> None:
    """Create a durable consumer, or bring it up to date.

    Raises:
        StreamMissing: there is no such stream.
        BusError: it exists and cannot be changed to what was asked for.
        BusUnavailable: no answer.
    """
    config = {
        "name": durable,
        "durable_name": durable,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": int(ack_wait_s * _NS),
        "max_ack_pending": _MAX_ACK_PENDING,
        "max_deliver": -1,
        "replay_policy": "instant",
        "filter_subject": filter_subject,
    }
    body = {"stream_name": stream, "config": config}
    try:
        await ask(connection, f"CONSUMER.CREATE.{stream}.{durable}.{filter_subject}", body)
    except ApiRefused as refused:
        if refused.error.err_code == STREAM_NOT_FOUND:
            raise streams.missing(stream) from refused
        raise BusError(
            f"durable consumer {durable} of {stream} cannot be set up for {filter_subject}: "
            f"{refused.error.description}"
        ) from refused


async def check(
    connection: Connection, stream: str, durable: str, filter_subject: str, ack_wait_s: float
) -> None:
    """Check that a durable consumer exists as configured; change nothing.

    Raises:
        StreamMissing: there is no such stream.
        BusError: it is missing, or has another filter or ack wait.
        BusUnavailable: no answer.
    """
    found = await _info(connection, stream, durable)
    if found is None:
        raise BusError(
            f"there is no durable consumer {durable} of {stream}: gatelog migrate makes it"
        )
    has = (found.config.filter_subject, found.config.ack_wait)
    if has != (filter_subject, int(ack_wait_s * _NS)):
        raise BusError(
            f"durable consumer {durable} of {stream} is for {has[0]} with an ack wait of "
            f"{has[1] / _NS:g} s, the settings say {filter_subject} and {ack_wait_s:g} s: "
            "gatelog migrate with these settings brings it up to date"
        )


class Delivery:
    """One message, handed to one worker; answer it with `ack`, `nak` or `term`, once."""

    __slots__ = ("_reply", "_worker", "delivery", "message")

    def __init__(self, worker: "Worker", message: Message, delivery: int, reply: str) -> None:
        self._worker = worker
        self._reply = reply
        self.message = message
        self.delivery = delivery

    async def ack(self, timeout_s: float = 5.0) -> None:
        """Acknowledge; wait until the server has stored that.

        Raises:
            BusUnavailable: not known to be stored; the message may be delivered again.
        """
        await self._worker.respond(self, self._reply, b"+ACK", timeout_s)

    async def nak(self, delay_s: float = 0) -> None:
        """Ask for redelivery, not before `delay_s` seconds; if the request gets lost, after
        ack_wait.
        """
        body = b"-NAK"
        if delay_s > 0:
            body += b" " + msgspec.json.encode({"delay": int(delay_s * _NS)})
        await self._worker.respond(self, self._reply, body, None)

    async def in_progress(self) -> None:
        """Restart ack_wait: the handler still works on the message."""
        await self._worker.extend(self, self._reply)

    async def term(self, reason: str, timeout_s: float = 5.0) -> None:
        """Never deliver the message again; the server publishes an advisory with `reason`.

        Raises:
            BusUnavailable: as for `ack`.
        """
        cut = reason.replace("\n", " ")[:256]
        await self._worker.respond(self, self._reply, f"+TERM {cut}".encode(), timeout_s)


class Worker:
    """See the module. `next` by one task at a time; deliveries by any number of tasks."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        durable: str,
        filter_subject: str,
        max_in_flight: int,
        ack_wait_s: float,
    ) -> None:
        self._timing = DEFAULT_TIMING
        self.create = True
        """Create a missing consumer; off: it must exist."""
        self._connection = connection
        self._stream = stream
        self._durable = durable
        self._filter = filter_subject
        self._max_in_flight = max_in_flight
        self._ack_wait_s = ack_wait_s
        self._session: Session | None = None
        self._unsettled: dict[int, float] = {}  # stream sequence -> when the server takes it back
        self._freed = asyncio.Event()
        self._backoff = Backoff(first_s=0.02, ceiling_s=2.0)
        self._closed = False
        connection.listen(self)

    @property
    def in_flight(self) -> int:
        """Deliveries not settled yet."""
        return len(self._unsettled)

    async def next(self, timeout_s: float | None) -> list[Delivery]:
        """Wait for a delivery, then return all that are there; [] on timeout.

        Also waits while `max_in_flight` deliveries are unsettled, and while the server is away.

        Raises:
            StreamMissing: there is no such stream.
            BusError: the durable consumer exists and cannot be what was asked for.
            BusClosed: the worker or its bus was closed.
        """
        loop = asyncio.get_running_loop()
        until = None if timeout_s is None else loop.time() + timeout_s
        while not self._closed:
            left_s = None if until is None else max(0.0, until - loop.time())
            session = self._session
            if session is None:
                if await self._open(left_s):
                    continue
                return []
            found, why = self._drain(session)
            if not why and not session.current:
                why = "the connection changed"
            if not why:
                why = await self._pull(session)
            if why:
                await self._drop(why)
            if found:
                self._backoff.reset()
                return found
            if why:
                continue
            if left_s == 0.0:
                return []
            if session.outstanding == 0:
                await self._wait_for_slot(left_s)
            elif not await session.wait(left_s):
                await self._drop("no heartbeat")
        raise BusClosed("the worker was closed")

    async def close(self) -> None:
        """Take no more. Deliveries that arrived and were not returned go back at once. Returned
        deliveries can still be settled; the server redelivers the rest after ack_wait. Safe to
        repeat.
        """
        self._closed = True
        self._freed.set()
        session, self._session = self._session, None
        if session is None:
            return
        await session.close(drain=True)
        with suppress(BusUnavailable):
            while (found := session.pop()) is not None:
                if isinstance(found, Data):
                    await self._connection.send(found.message.reply, b"-NAK")

    def connection_changed(self) -> None:
        """Wake `next`, which looks at the connection."""
        self._freed.set()
        if self._session is not None:
            self._session.arrived.set()

    async def respond(
        self, delivery: Delivery, reply: str, body: bytes, timeout_s: float | None
    ) -> None:
        """Send an acknowledgement of some kind; used by `Delivery`."""
        self._unsettled.pop(delivery.message.sequence, None)
        self._freed.set()
        if timeout_s is None:
            await self._connection.send(reply, body)
        else:
            await self._connection.request(reply, body, timeout_s=timeout_s)

    async def extend(self, delivery: Delivery, reply: str) -> None:
        """Tell the server that a delivery is being worked on; used by `Delivery`."""
        if delivery.message.sequence in self._unsettled:
            self._unsettled[delivery.message.sequence] = self._deadline()
        await self._connection.send(reply, b"+WPI")

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._ack_wait_s

    def _drain(self, session: Session) -> tuple[list[Delivery], str]:
        found: list[Delivery] = []
        while True:
            match session.pop():
                case Data(message, place):
                    found.append(self._delivery(message, place))
                case Heartbeat():
                    continue
                case SessionLost(why):
                    return found, why
                case None:
                    return found, ""

    def _delivery(self, raw: Msg, place: DeliveryMetadata) -> Delivery:
        self._unsettled[place.sequence] = self._deadline()
        headers = raw.headers or {}
        msg_id, signature = headers.get("Nats-Msg-Id", ""), headers.get(SIGNATURE, "")
        at = from_nanoseconds(place.at_ns)
        message = Message(place.sequence, at, raw.subject, raw.data, msg_id, signature)
        return Delivery(self, message, place.delivery, raw.reply)

    async def _pull(self, session: Session) -> str:
        now = asyncio.get_running_loop().time()
        for sequence in [s for s, deadline in self._unsettled.items() if deadline <= now]:
            del self._unsettled[sequence]
        free = self._max_in_flight - len(self._unsettled) - session.outstanding
        # One request for many slots costs less than a request per slot, unless the server has none
        # open.
        if free <= 0 or (session.outstanding and free < self._max_in_flight // 2):
            return ""
        try:
            await session.request(free)
        except BusUnavailable as error:
            return str(error)
        return ""

    async def _wait_for_slot(self, timeout_s: float | None) -> None:
        self._freed.clear()
        soonest = min(self._unsettled.values(), default=0.0)
        wait_s = max(0.01, soonest - asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(wait_s if timeout_s is None else min(wait_s, timeout_s)):
                await self._freed.wait()
        except TimeoutError:
            return

    async def _open(self, timeout_s: float | None) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    await self._connection.wait_connected(None)
                    try:
                        await self._start_session()
                    except BusUnavailable as error:
                        log.debug("worker_waits", stream=self._stream, error=str(error))
                        await asyncio.sleep(next(self._backoff))
                    else:
                        return True
        except TimeoutError:
            return False

    async def _start_session(self) -> None:
        consumer = self._connection, self._stream, self._durable, self._filter, self._ack_wait_s
        await (make if self.create else check)(*consumer)
        session = Session(self._connection, self._stream, self._durable, self._timing)
        await session.open()
        self._session = session

    async def _drop(self, why: str) -> None:
        session, self._session = self._session, None
        if session is not None:
            if why:
                log.info("worker_restarts", consumer=self._durable, why=why)
            await session.close()
