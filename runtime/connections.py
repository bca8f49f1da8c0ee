"""Bounds on connections to a server: their number, and their time before a request.

Theory. Any client of a port can open connections and send nothing. Idle connections give way to new
ones: with too many connections the longest idle is closed, and a connection that sends no head
within seconds ends. A TLS connection costs up to half a megabyte in buffers, so its read-ahead is
bounded too.

Invariant: a connection that is being answered is never closed here.
"""

import asyncio
import socket
import ssl
from typing import Any, Final

from aiohttp import web

from runtime.listening import ListenError, bound

MAX_CONNECTIONS: Final[int] = 320
HEAD_S: Final[float] = 3.0
"""Seconds for the TLS handshake, and again for the first head."""
IDLE_S: Final[float] = 75.0
"""Seconds between two requests of a connection."""
PATIENCE_S: Final[float] = 1.0
"""Seconds without use after which a connection may be closed to make room for another."""
_READ_AHEAD_BYTES: Final[int] = 16 * 1024
_BACKLOG: Final[int] = 512


class Connection(web.RequestHandler):
    """One connection; `answering` while a whole request of it is there."""

    def __init__(self, listener: "Listener", manager: web.Server) -> None:
        super().__init__(
            manager,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # none is kept
            keepalive_timeout=IDLE_S,
            lingering_time=0.5,
            auto_decompress=False,
            read_bufsize=_READ_AHEAD_BYTES,
            **listener.options,
        )
        self._listener = listener
        self._begun = False
        self.answering = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open: the client has a moment to send a head."""
        super().connection_made(transport)
        limits = getattr(transport, "set_read_buffer_limits", None)
        if limits is not None:  # asyncio's TLS reads half a megabyte ahead otherwise
            limits(_READ_AHEAD_BYTES)
        self._listener.opened(self)
        asyncio.get_running_loop().call_later(self._listener.head_s, self._late)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Gone."""
        self._listener.closed(self)
        super().connection_lost(exc)

    def begin(self) -> None:
        """A head has arrived."""
        self._begun = True

    def arrived(self) -> None:
        """The whole request is there."""
        self.answering = True

    def end(self) -> None:
        """Answered; the connection is idle from now on."""
        self.answering = False
        self._listener.used(self)

    def drop(self) -> None:
        """Close it at once."""
        if self.transport is not None:
            self.transport.abort()

    def _late(self) -> None:
        if not self._begun:
            self.drop()


class Listener:
    """Accepts connections for an aiohttp server, at most `most` at once.

    Args:
        manager: what answers requests (`web.AppRunner.server`).
        tls: server context; None for plain HTTP.
        most: connections at once, those in their handshake included.
        head_s: seconds for a handshake, and for a first head.
        options: further options of aiohttp's `RequestHandler`.
    """

    def __init__(
        self,
        manager: web.Server,
        tls: ssl.SSLContext | None,
        *,
        most: int = MAX_CONNECTIONS,
        head_s: float = HEAD_S,
        **options: Any,
    ) -> None:
        self._manager = manager
        self._tls = tls
        self._most = most
        self.head_s = head_s
        self.options = options
        self._open: dict[Connection, float] = {}
        """When each connection was used last (the loop's clock, seconds), longest ago first."""
        self._coming: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._socket: socket.socket | None = None
        self.address: tuple[str, int] = ("", 0)
        """The address that is listened on, with the port that the system chose."""

    def start(self, section: str, host: str, port: int) -> None:
        """Begin to listen at an address that `section` of the settings says.

        Raises:
            ListenError: it cannot be listened on.
        """
        try:
            listening = bound(host, port, _BACKLOG)
        except OSError as error:
            raise ListenError(section, host, port, error) from error
        listening.setblocking(False)
        self._socket = listening
        self.address = listening.getsockname()[:2]
        self._accepting = asyncio.create_task(self._accept(listening))

    async def stop(self) -> None:
        """Take no more connections; the manager ends the open ones."""
        tasks = [task for task in (self._accepting, *self._coming) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()

    def opened(self, connection: Connection) -> None:
        """A connection is there."""
        self._open[connection] = asyncio.get_running_loop().time()

    def used(self, connection: Connection) -> None:
        """Note that a connection was used just now: others are closed before it."""
        if connection in self._open:
            del self._open[connection]
            self.opened(connection)

    def closed(self, connection: Connection) -> None:
        """A connection is gone."""
        self._open.pop(connection, None)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:  # no descriptor left, or gone before it was taken
                await asyncio.sleep(0.05)
                continue
            while len(self._open) + len(self._coming) >= self._most:
                self._make_room()
                await asyncio.sleep(0.01)
            task = asyncio.create_task(self._start(accepted))
            self._coming.add(task)
            task.add_done_callback(self._coming.discard)

    def _make_room(self) -> None:
        before_s = asyncio.get_running_loop().time() - PATIENCE_S
        idle = (one for one, used_s in self._open.items() if used_s < before_s)
        chosen = next((one for one in idle if not one.answering), None)
        if chosen is not None:
            chosen.drop()

    async def _start(self, accepted: socket.socket) -> None:
        extra: dict[str, Any] = {}
        if self._tls is not None:
            extra = {"ssl": self._tls, "ssl_handshake_timeout": self.head_s}
        try:
            loop = asyncio.get_running_loop()
            factory = lambda: Connection(self, self._manager)  # noqa: E731
            await loop.connect_accepted_socket(factory, accepted, **extra)
        except (OSError, ssl.SSLError):  # a handshake that failed, or took too long
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise
