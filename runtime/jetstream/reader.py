"""Reading a stream in order, from a given sequence, without acknowledgements.

The cursor is the caller's (its checkpoint, stored with what it wrote); the server keeps only a
consumer in memory that dies when it is not pulled. The consumer numbers its deliveries without
gaps; a gap, a heartbeat that knows of more than we saw, silence, a lost connection or a deleted
consumer all end in the same place: a new consumer from the last sequence seen plus one. So nothing
is missed and nothing comes twice, whatever the server does (nats.py#392, #504).

There is no background task: `next` does the work, so a slow caller slows the server down.

Invariant: the sequences returned over the life of a Reader are strictly increasing, and no message
that matches the filter and is in the stream is left out. A stream that was made anew, or that ends
before what was read, raises StreamChanged: its sequences mean something else now.

A server whose files are damaged may leave a message out without a word (*measured*: 2.15, a flipped
bit). A message names its predecessor on the subject (`FOLLOWS`): if the predecessor should have
come and did not, the messages between are `MessagesLost`, raised once all before them are read.
"""

import asyncio
import secrets
from datetime import datetime

from runtime.backoff import Backoff
from runtime.jetstream import streams
from runtime.jetstream.api import STREAM_NOT_FOUND, ApiRefused, api
from runtime.jetstream.connection import Connection
from runtime.jetstream.publisher import FOLLOWS
from runtime.jetstream.pull import DEFAULT_TIMING, Data, Heartbeat, Session, SessionLost, Timing
from runtime.jetstream.values import (
    BusClosed,
    BusUnavailable,
    Message,
    MessagesLost,
    StreamChanged,
    from_nanoseconds,
)
from runtime.log import get_logger

INACTIVE_S = 120
CREATE_S = 1.0
"""How long to wait for a new consumer at first, in seconds; doubled up to `CREATE_CEILING_S`."""
CREATE_CEILING_S = 5.0

log = get_logger("bus")


class Reader:
    """See the module. One task at a time; made by `Bus.read`."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        filter_subject: str,
        start_sequence: int,
        batch: int,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._timing = timing
        self._connection = connection
        self._stream = stream
        self._filter = filter_subject
        self._batch = batch
        self._session: Session | None = None
        self._created: datetime | None = None
        self._create_s = CREATE_S
        self._seen = 0  # consumer sequence of the last message, of this session
        self._backoff = Backoff(first_s=0.02, ceiling_s=2.0)
        self._closed = False
        self._jumped_from: int | None = None
        self.next_sequence = self._begin = max(1, start_sequence)
        self._newest_of: dict[str, int] = {}
        self._lost: MessagesLost | None = None
        self.restarts = 0
        connection.listen(self)

    async def next(self, timeout_s: float | None) -> list[Message]:
        """Wait for a message, then return all that is there, at most `batch`; [] on timeout.

        While the server is away this only waits, without an error.

        Raises:
            StreamMissing, StreamChanged, MessagesLost: see the module.
            BusClosed: the reader or its bus was closed.
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
            why = ""
            found, why = ([], "") if self._lost else self._drain(session)
            if self._lost is not None and not found:
                raise self._lost
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
            if not await session.wait(left_s):
                await self._drop("no heartbeat")
        raise BusClosed("the reader was closed")

    async def check_dropped(self) -> None:
        """Check that the stream dropped no message of ours between those returned.

        Sequences jump where messages of other subjects lie between, and where the stream has
        dropped its oldest messages before they were read; only the second is a loss.

        Raises:
            StreamChanged: messages may have been dropped unread.
            StreamMissing, BusUnavailable: not known yet; call again.
        """
        last = self._jumped_from
        if last is None:
            return
        first = (await streams.state(self._connection, self._stream)).first_sequence
        if first > last + 1:
            raise StreamChanged(
                f"messages {last + 1} to {first - 1} of stream {self._stream} were dropped unread: "
                "its limits are too small for how far behind this reader was"
            )
        self._jumped_from = None

    async def close(self) -> None:
        """Forget the consumer. Safe to repeat."""
        self._closed = True
        await self._drop("")

    def connection_changed(self) -> None:
        """Wake `next`, which looks at the connection."""
        if self._session is not None:
            self._session.arrived.set()

    def _drain(self, session: Session) -> tuple[list[Message], str]:
        """Return messages in order, and why the session must end ("": it goes on)."""
        found: list[Message] = []
        while len(found) < self._batch:
            match session.pop():
                case Data(message, place):
                    if place.consumer_sequence != self._seen + 1:
                        return found, f"gap after {self._seen}: {place.consumer_sequence}"
                    self._seen = place.consumer_sequence
                    if place.sequence < self.next_sequence:
                        return found, f"went back to {place.sequence}"
                    if place.sequence > self.next_sequence and self._jumped_from is None:
                        self._jumped_from = self.next_sequence - 1
                    headers = message.headers
                    if headers and (follows := headers.get(FOLLOWS)):
                        self._lost = self._missed(message.subject, int(follows))
                        if self._lost is not None:
                            return found, ""
                    self._newest_of[message.subject] = place.sequence
                    self.next_sequence = place.sequence + 1
                    found.append(
                        Message(
                            place.sequence,
                            from_nanoseconds(place.at_ns),
                            message.subject,
                            message.data,
                            headers.get("Nats-Msg-Id", "") if headers else "",
                        )
                    )
                case Heartbeat(known):
                    if known > self._seen:
                        return found, f"{known - self._seen} messages lost on the way"
                case SessionLost(why):
                    return found, why
                case None:
                    break
        return found, ""

    def _missed(self, subject: str, follows: int) -> MessagesLost | None:
        """Return the messages missed before a message that follows sequence `follows`, None for
        none.
        """
        known = max(self._begin - 1, self._newest_of.get(subject, 0))
        return MessagesLost(self._stream, known + 1, follows) if follows > known else None

    async def _pull(self, session: Session) -> str:
        # Request more while half is still to come, so that the server never waits for us.
        if session.outstanding + session.waiting > self._batch // 2:
            return ""
        try:
            await session.request(self._batch)
        except BusUnavailable as error:
            return str(error)
        return ""

    async def _open(self, timeout_s: float | None) -> bool:
        """Make a consumer from `next_sequence`; False when `timeout_s` passed first."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    await self._connection.wait_connected(None)
                    try:
                        await self._start_session()
                    except BusUnavailable as error:
                        log.debug("reader_waits", stream=self._stream, error=str(error))
                        await asyncio.sleep(next(self._backoff))
                    else:
                        return True
        except TimeoutError:
            return False

    async def _start_session(self) -> None:
        await self._check_stream()
        session = Session(
            self._connection, self._stream, f"read-{secrets.token_hex(8)}", self._timing
        )
        config = {
            "name": session.consumer,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.next_sequence,
            "ack_policy": "none",
            "replay_policy": "instant",
            "filter_subject": self._filter,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": INACTIVE_S * 1_000_000_000,
        }
        await session.open()
        try:
            subject = f"CONSUMER.CREATE.{self._stream}.{session.consumer}.{self._filter}"
            await api(
                self._connection,
                subject,
                {"stream_name": self._stream, "config": config, "action": "create"},
                self._create_s,
            )
        except BaseException as error:
            await session.close()
            if isinstance(error, BusUnavailable):
                # In a cluster of servers the consumer may have been placed on a server that has
                # just died, which the others take minutes to learn: another consumer soon is better
                # than this consumer late.
                self._create_s = min(2 * self._create_s, CREATE_CEILING_S)
            if not isinstance(error, ApiRefused):
                # A caller that waits in short turns cancels here; the server may yet make it.
                await self._forget(session.consumer)
            if isinstance(error, ApiRefused) and error.error.err_code == STREAM_NOT_FOUND:
                raise streams.missing(self._stream) from error
            raise
        self._seen = 0
        self._create_s = CREATE_S
        self._session = session

    async def _check_stream(self) -> None:
        state = await streams.state(self._connection, self._stream)
        if self._created is not None and state.created != self._created:
            raise StreamChanged(
                f"stream {self._stream} was made anew at {state.created.isoformat()}: a new epoch"
            )
        if state.last_sequence + 1 < self.next_sequence:
            raise StreamChanged(
                f"stream {self._stream} ends at {state.last_sequence}, but was read up to "
                f"{self.next_sequence - 1}: its tail was lost, a new epoch begins"
            )
        self._created = state.created

    async def _drop(self, why: str) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        if why:
            self.restarts += 1
            log.info(
                "reader_restarts", stream=self._stream, next_sequence=self.next_sequence, why=why
            )
        await session.close()
        await self._forget(session.consumer)

    async def _forget(self, consumer: str) -> None:
        if not self._connection.connected:
            return
        try:
            await self._connection.send(f"$JS.API.CONSUMER.DELETE.{self._stream}.{consumer}", b"")
        except BusUnavailable:
            return  # the server forgets it by itself after INACTIVE_S
