"""Requests over HTTP/1.1 whose answers are read whole: one connection carries one at a time.

Theory. A request to the API server is a few hundred bytes there and a few thousand back on a
connection that is open already. What a general client does around it (cookies, redirects, streams
for both directions, a task and several timers) takes two thirds of its processor time, and requests
are most of what the actuator does. So here a request is one write, its answer is taken apart in the
callback that brings its bytes, and nothing else happens. Watches, proxies and answers that must not
be read to their end are aiohttp's, as before (`kube`).

Invariant: a connection is used again only if the answer on it came to its end as its head had said;
what breaks off, or is no HTTP, is an error and never an answer.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping
from typing import Final, cast
from urllib.parse import urlsplit

from multidict import CIMultiDict

IDLE_S: Final = 60.0
"""Seconds for which an idle connection is kept."""
MAX_HEAD_BYTES: Final = 256 * 1024
_REPEATED: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
"""Methods that may be sent again when a kept connection turns out to be closed."""

Head = tuple[int, Mapping[str, str]]
Whole = tuple[int, bytes, Mapping[str, str]]
"""Status, body, headers (look-up ignores case)."""


class Broken(ConnectionError):
    """The connection ended, or what came is no answer; `unheard`: not a byte of one had come."""

    def __init__(self, message: str, unheard: bool = False) -> None:
        super().__init__(message)
        self.unheard = unheard


class _Connection(asyncio.Protocol):
    """One connection; `ask` by one task at a time."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.usable = False
        """Open, and at the beginning of an answer."""
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Whole] | None = None
        self._no_body = False
        self._begin()

    def _begin(self) -> None:
        self._buffer = bytearray()
        self._head: Head | None = None
        self._left: int | None = None
        """Bytes of the body, or of its present chunk, to come; None: not known."""
        self._chunked = False
        self._parts: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of no such class
        self.usable = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone: an answer under way is lost, unless this is how it ends."""
        self.usable = False
        if self._head is not None and self._left is None and not self._chunked and exc is None:
            self._parts.append(bytes(self._buffer))
            self._done()
        unheard = self._head is None and not self._buffer
        why = f"{type(exc).__name__}: {exc}" if exc else "closed by the server"
        self._fail(Broken(f"the connection broke off ({why})", unheard))

    def data_received(self, data: bytes) -> None:
        """Read what has come."""
        if self._answer is None:
            self.close()  # it was not asked for
            return
        self._buffer += data
        try:
            while self._advance():
                pass
        except (ValueError, IndexError) as error:
            self._fail(Broken(f"the answer is no HTTP: {error}"))
            self.close()

    async def ask(self, method: str, request: bytes) -> Whole:
        """Send a request and return its answer.

        Raises:
            Broken: there is none.
        """
        assert self._transport is not None
        self._begin()
        self._no_body = method == "HEAD"
        self.usable = False
        answer: asyncio.Future[Whole] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self._transport.write(request)
        try:
            return await answer
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self._answer = None

    def close(self) -> None:
        """Let go, whatever is under way."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    def _advance(self) -> bool:
        """Take the next part out of what has come; tell whether there may be another."""
        buffer = self._buffer
        if self._head is None:
            end = buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(buffer) > MAX_HEAD_BYTES:
                    raise ValueError(f"a head of more than {MAX_HEAD_BYTES} bytes")
                return False
            text = bytes(buffer[:end]).decode("latin-1")
            del buffer[: end + 4]
            return self._begun(text)
        if self._left is None and self._chunked:
            end = buffer.find(b"\r\n")
            if end < 0:
                return False
            self._left = int(bytes(buffer[:end]).partition(b";")[0], 16)
            del buffer[: end + 2]
            if not self._left:
                self._left = -1  # trailers, up to an empty line
            return True
        if self._left == -1:
            end = buffer.find(b"\r\n")
            if end < 0:
                return False
            del buffer[: end + 2]
            if not end:
                self._done()
            return end > 0
        if self._left is None or len(buffer) < self._left + 2 * self._chunked:
            return False
        with memoryview(buffer) as whole:  # a page of a list has megabytes: it is copied once
            self._parts.append(bytes(whole[: self._left]))
        del buffer[: self._left + 2 * self._chunked]
        if not self._chunked:
            self._done()
            return False
        self._left = None
        return True

    def _begun(self, text: str) -> bool:
        """Read the head of an answer; tell whether its body may be there."""
        first, *lines = text.split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(f"it begins with {first[:40]!r}")
        status = int(rest[:3])
        if status < 200:
            return True  # an interim answer: the one that counts follows
        headers: CIMultiDict[str] = CIMultiDict()
        for line in lines:
            name, _, value = line.partition(":")
            headers.add(name, value.strip())
        self._head = status, headers
        self._chunked = headers.get("Transfer-Encoding", "").lower() == "chunked"
        length = headers.get("Content-Length")
        if self._no_body or status in (204, 304):
            self._chunked, self._left = False, 0
        elif not self._chunked and length is not None:
            self._left = int(length)
            if self._left < 0:
                raise ValueError(f"Content-Length is {length}")
        return True

    def _done(self) -> None:
        assert self._head is not None
        status, headers = self._head
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_result((status, b"".join(self._parts), headers))
        stays = self._left is not None and headers.get("Connection", "").lower() != "close"
        self.usable = stays and not self._buffer
        if not self.usable:
            self.close()

    def _fail(self, error: Broken) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


class Connections:
    """Connections to one server; as many as there are requests at once."""

    def __init__(
        self,
        server: str,
        tls: ssl.SSLContext | bool,
        server_hostname: str | None,
        user_agent: str,
        connect_timeout_s: float,
    ) -> None:
        parts = urlsplit(server)
        self.base = parts.path
        """What every target begins with, mostly nothing."""
        self._host = parts.hostname or ""
        self._tls = tls if isinstance(tls, ssl.SSLContext) else None
        self._port = parts.port or (443 if self._tls else 80)
        self._name = (server_hostname or self._host) if self._tls else None
        self._connect_timeout_s = connect_timeout_s
        self._constant = (
            f"Host: {parts.netloc}\r\nUser-Agent: {user_agent}\r\nAccept: application/json\r\n"
        )
        self._idle: list[_Connection] = []

    async def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> Whole:
        """Send a request for `target` (path and query, quoted) and return the whole answer.

        Raises:
            OSError: no connection, no whole answer, or a header with a line break in it.
        """
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        if lines.count("\n") != len(headers) or lines.count("\r") != len(headers):
            raise Broken("a header of the request has a line break in it: look at the token")
        size = f"Content-Length: {len(body)}\r\n" if body is not None else ""
        head = f"{method} {target} HTTP/1.1\r\n{self._constant}{lines}{size}\r\n"
        request = head.encode("latin-1") + (body or b"")
        kept = self._kept()
        if kept is not None:
            try:
                return await self._on(kept, method, request)
            except Broken as error:
                if not error.unheard or method not in _REPEATED:
                    raise
        return await self._on(await self._open(), method, request)

    def close(self) -> None:
        """Close idle connections."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _on(self, connection: _Connection, method: str, request: bytes) -> Whole:
        answer = await connection.ask(method, request)
        if connection.usable:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        return answer

    def _kept(self) -> _Connection | None:
        """Return the connection that was used last, if it is open still; forget those too old."""
        now = time.monotonic()
        while self._idle and self._idle[0].idle_since + IDLE_S < now:
            self._idle.pop(0).close()
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return None

    async def _open(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, made = await loop.create_connection(
                    _Connection, self._host, self._port, ssl=self._tls, server_hostname=self._name
                )
        except TimeoutError as error:
            where = f"{self._host}:{self._port}"
            raise Broken(f"no connection to {where} within {self._connect_timeout_s} s") from error
        return made
