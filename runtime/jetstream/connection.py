"""One logical connection to NATS that outlives its sockets.

nats-py's own reconnect is switched off. It keeps unsent publishes across a reconnect (so a later
message can overtake one that was lost with the socket), replays subscriptions whose pull requests
the server has forgotten (nats.py#504), and gives up for good on an authentication hiccup. Here a
client is used once: when it dies, a new client is made, `generation` goes up, and every holder of a
subscription subscribes again. There is no other recovery path, so the tests cover it.

A client's callback is not enough to learn that it died: nats-py (2.16), when it closes, first
flushes its buffer; if the flush fails on the dead socket, as it often does, the error ends the task
and no callback runs. So the client's state is also read twice a second, and whenever it refuses a
call.

Dead peers are noticed by ping, within about 30 s (the library's default takes 4 to 6 minutes).
Every await on the server has a deadline (nats.py#853), and a caller that waits for a reply hears at
once when the socket is gone.

Invariant: within one generation, what was sent arrives in order up to some point and nothing after
it; nothing sent in one generation is transmitted in another.
"""

import asyncio
import itertools
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from runtime.backoff import Backoff
from runtime.jetstream.client import close_client, open_client
from runtime.jetstream.options import client_options, shown_url
from runtime.jetstream.values import (
    BusClosed,
    BusError,
    BusUnavailable,
    LoginRefused,
    PublishRefused,
    ServerTooOld,
)
from runtime.log import get_logger
from runtime.settings import NatsSettings
from runtime.streak import Streak

NO_RESPONDERS = 503
LOOK_S = 0.5
"""Seconds between two looks at whether the client has closed without a callback."""

# A transport that is closed already may also say so with a RuntimeError (uvloop).
_FAILURES = (nats.errors.Error, OSError, RuntimeError)

log = get_logger("bus")

OnReply = Callable[[Msg | None], None]
"""Gets the reply, or None when the connection was lost before it came."""


class Listener(Protocol):
    """Something that must know when the connection went down or came up."""

    def connection_changed(self) -> None:
        """React; `Connection.connected` and `generation` tell what happened. Must not block."""


class Connection:
    """See the module. Made by `open_connection`."""

    def __init__(self, settings: NatsSettings, name: str) -> None:
        self.settings = settings
        self._name = name
        self._client: Client | None = None
        self._closing = False
        self._up = asyncio.Event()
        self._listeners: weakref.WeakSet[Listener] = weakref.WeakSet()
        self._reconnecting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._reply_prefix = ""
        self._replies: dict[str, OnReply] = {}
        self._reply_numbers = itertools.count(1)
        self.generation = 0
        self.last_error = ""
        self.on_reconnect: list[Callable[[], object]] = []
        self._storing: dict[str, Streak] = {}

    @property
    def connected(self) -> bool:
        """Whether there is a live socket; a dead peer is noticed by ping within about 30 s."""
        return self._up.is_set() and not self._closing

    @property
    def max_payload(self) -> int:
        """Bytes of body that the server takes in one message; 0 while not connected."""
        return int(self._client.max_payload) if self._client is not None else 0

    @property
    def problem(self) -> str:
        """Why nothing can be published now, "" when it can, as far as was tried."""
        if not self.connected:
            return f"NATS: {self.last_error or 'not connected'}"
        return self.unstored

    @property
    def unstored(self) -> str:
        """Why the server stores nothing of late publishes, "" when it does."""
        return next((said for each in self._storing.values() if (said := each.problem)), "")

    def stored(self, subject: str, problem: str = "") -> None:
        """Take note that the server stored a message on a subject, or of why it did not.

        A server whose disk is full or read-only stays connected, and answers everything but this.
        """
        name = subject.partition(".")[0]
        storing = self._storing.get(name)
        if storing is None:
            storing = self._storing[name] = Streak(f"NATS stores nothing on {name}.>")
        if problem:
            storing.failed(problem)
        else:
            storing.succeeded()

    def listen(self, listener: Listener) -> None:
        """Tell `listener` about changes for as long as other code keeps it alive."""
        self._listeners.add(listener)

    async def wait_connected(self, timeout_s: float | None) -> bool:
        """Wait until connected; return False when `timeout_s` passed first.

        Raises:
            BusClosed: the connection was closed by us.
        """
        if not self._closing and not self._up.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    await self._up.wait()
            except TimeoutError:
                return False
        if self._closing:
            raise BusClosed("the connection to NATS was closed")
        return True

    async def open(self, deadline_s: float | None) -> None:
        """Connect for the first time, retrying with backoff until `deadline_s` (None: for ever).

        Raises:
            BusUnavailable: not within the deadline.
            LoginRefused, ServerTooOld, BusError: retrying cannot help.
        """
        client_options(self.settings, self._name)  # a bad setting is refused here, not retried
        try:
            async with asyncio.timeout(deadline_s):
                await self._connect_until_done(patient=False)
        except TimeoutError:
            raise self.unavailable(f"no NATS server within {deadline_s} s") from None

    async def close(self) -> None:
        """Close for good; callers that wait get BusUnavailable. Safe to repeat."""
        self._closing = True
        tasks = [task for task in (self._reconnecting, self._watching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        client, self._client = self._client, None
        if client is not None:
            await close_client(client)
        self._drop_replies()
        self._tell_listeners()
        self._up.set()  # wakes those who wait for a connection, to learn that it is closed

    def unavailable(self, what: str) -> BusUnavailable:
        """Return an error that also has the server's last error."""
        detail = f" ({self.last_error})" if self.last_error else ""
        return BusUnavailable(f"{what}; server {shown_url(self.settings)}{detail}")

    async def subscribe(
        self, callback: Callable[[Msg], Awaitable[None]], subject: str = ""
    ) -> "Inbox":
        """Subscribe to `subject`, else to a new inbox of our own, in the current generation.

        Raises:
            BusUnavailable: not connected.
        """
        client = self._require()
        generation = self.generation
        try:
            subject = subject or client.new_inbox()
            subscription = await client.subscribe(subject, cb=callback)
        except _FAILURES as error:
            self._check_closed(client)
            raise self.unavailable(f"cannot subscribe: {error!r}") from error
        return Inbox(subject, generation, subscription)

    def expect(self, on_reply: OnReply) -> str:
        """Return a reply subject whose one reply will be given to `on_reply`."""
        number = str(next(self._reply_numbers))
        self._replies[number] = on_reply
        return self._reply_prefix + number

    def forget(self, reply: str) -> None:
        """Stop expecting a reply at this subject."""
        self._replies.pop(reply.rsplit(".", 1)[-1], None)

    async def send(
        self, subject: str, body: bytes, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Hand a message to the socket; whether it arrives, only an answer can tell.

        Raises:
            BusUnavailable: not connected.
            PublishRefused: larger than the server takes, or no valid subject or header.
        """
        client = self._require()
        try:
            await client.publish(subject, body, reply=reply, headers=headers)
        except nats.errors.MaxPayloadError as error:
            raise PublishRefused(
                f"{subject}: {len(body)} bytes, the server takes {self.max_payload} in a message"
            ) from error
        except (nats.errors.BadSubjectError, nats.errors.BadHeaderError) as error:
            raise PublishRefused(f"{subject}: {error!r}") from error
        except _FAILURES as error:
            self._check_closed(client)
            raise self.unavailable(f"cannot send to {subject}: {error!r}") from error

    async def request(
        self,
        subject: str,
        body: bytes = b"",
        *,
        timeout_s: float = 5.0,
        again_s: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> bytes:
        """Send and return the body of the answer; send again after `again_s` of silence, if given.

        The first answer counts, whichever of the repeated questions it belongs to.

        Raises:
            BusUnavailable: not connected, no responder, or no answer within `timeout_s`.
            PublishRefused: see `send`.
        """
        answered: asyncio.Future[Msg | None] = asyncio.get_running_loop().create_future()
        reply = self.expect(lambda m: None if answered.done() else answered.set_result(m))
        try:
            async with asyncio.timeout(timeout_s):
                while not answered.done():
                    await self.send(subject, body, reply, headers)
                    if again_s is None:  # `wait` takes 26 calls more, of 152
                        await answered
                    else:
                        await asyncio.wait([answered], timeout=again_s)
            message = answered.result()
        except TimeoutError:
            raise self.unavailable(f"no answer to {subject} within {timeout_s} s") from None
        finally:
            self.forget(reply)
        if message is None:
            raise self.unavailable(f"the connection was lost before {subject} was answered")
        if status_of(message) == NO_RESPONDERS:
            raise self.unavailable(f"no server answers {subject}: no leader yet, or no JetStream?")
        return bytes(message.data)

    def _require(self) -> Client:
        if self._client is None or self._closing:
            raise self.unavailable("not connected to NATS")
        return self._client

    async def _connect_until_done(self, *, patient: bool) -> None:
        backoff = Backoff(first_s=0.05, ceiling_s=5.0)
        while True:
            try:
                client = await self._connect_once()
                await self._adopt(client)
                return
            except (BusError, nats.errors.Error, OSError, TimeoutError) as error:
                if not patient and isinstance(error, (LoginRefused, ServerTooOld)):
                    raise
                self.last_error = self.last_error or str(error) or repr(error)
                if backoff.attempts in (3, 10):
                    server = shown_url(self.settings)
                    log.warning("nats_unreachable", server=server, error=self.last_error)
                await asyncio.sleep(next(backoff))

    async def _connect_once(self) -> Client:
        client = Client()
        self.last_error = ""

        async def on_error(error: Exception) -> None:
            self.last_error = str(error) or repr(error)
            if not isinstance(error, (nats.errors.Error, OSError, TimeoutError)):
                log.error("nats_callback_failed", error=repr(error))

        async def on_closed() -> None:
            self._on_lost(client)

        opening = asyncio.create_task(
            open_client(client, self.settings, self._name, on_error, on_closed)
        )
        try:
            await asyncio.wait((opening,))
        except asyncio.CancelledError:
            await _abandon(opening, client)
            raise
        opening.result()
        return client

    async def _adopt(self, client: Client) -> None:
        prefix = client.new_inbox() + "."
        await client.subscribe(prefix + "*", cb=self._take_reply)
        if client.is_closed:
            raise self.unavailable("the server closed the connection at once")
        self._reply_prefix = prefix
        self._client = client
        self.generation += 1
        self.last_error = ""
        self._up.set()
        self._watching = asyncio.get_running_loop().create_task(self._watch(client))

    async def _take_reply(self, message: Msg) -> None:
        on_reply = self._replies.pop(message.subject.rsplit(".", 1)[-1], None)
        if on_reply is not None:
            on_reply(message)

    async def _watch(self, client: Client) -> None:
        while client is self._client:
            self._check_closed(client)
            await asyncio.sleep(LOOK_S)

    def _check_closed(self, client: Client) -> None:
        if client.is_closed:
            self._on_lost(client)

    def _on_lost(self, client: Client) -> None:
        if self._closing or client is not self._client:
            return
        self._client = None
        self._up.clear()
        server = shown_url(self.settings)
        log.warning("nats_connection_lost", server=server, error=self.last_error)
        self._drop_replies()
        self._tell_listeners()
        self._reconnecting = asyncio.get_running_loop().create_task(self._reconnect(client))

    async def _reconnect(self, lost: Client) -> None:
        await close_client(lost)
        await self._connect_until_done(patient=True)
        log.info("nats_reconnected", server=shown_url(self.settings), generation=self.generation)
        self._tell_listeners()
        for callback in list(self.on_reconnect):
            callback()

    def _drop_replies(self) -> None:
        replies, self._replies = self._replies, {}
        for on_reply in replies.values():
            on_reply(None)

    def _tell_listeners(self) -> None:
        for listener in list(self._listeners):
            listener.connection_changed()


class Inbox:
    """A subscription within one generation of the connection."""

    def __init__(self, subject: str, generation: int, subscription: Subscription) -> None:
        self.subject = subject
        self.generation = generation
        self._subscription = subscription

    async def close(self, *, drain: bool = False) -> None:
        """Unsubscribe. Never raises: the socket may be gone.

        Messages under way are dropped; with `drain`, they have arrived when this returns.
        """
        end: Callable[[], Awaitable[None]] = self._subscription.unsubscribe
        if drain:
            end = self._subscription.drain
        with suppress(*_FAILURES, TimeoutError):
            async with asyncio.timeout(2.0):
                await end()


async def open_connection(
    settings: NatsSettings, name: str, deadline_s: float | None
) -> Connection:
    """Return a connected `Connection`; see `Connection.open` for errors."""
    connection = Connection(settings, name)
    try:
        await connection.open(deadline_s)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _abandon(opening: asyncio.Task[None], client: Client) -> None:
    """End an attempt to connect.

    nats-py waits with `wait_for`, which loses a cancellation that comes together with the awaited
    result (Python before 3.12): so the task is cancelled again and again until it ends.
    """
    while not opening.done():
        opening.cancel()
        await asyncio.wait((opening,), timeout=0.1)
    if not opening.cancelled() and opening.exception() is None:
        await close_client(client)


def status_of(message: Msg) -> int:
    """Return the NATS status of a control message (100, 404, 408, 409, 503), 0 for data."""
    headers = message.headers
    if not headers or message.data:
        return 0
    return int(headers.get("Status") or 0)
