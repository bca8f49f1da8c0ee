"""An HTTP/1.1 connection: requests are parsed, answered in order, and may become a watch.

Theory: a stand-in shares two cores with the programs under test, and most requests can be answered
at once. So a request is carried as far as it goes without waiting in the callback that brought its
last byte, without a task, stream objects or unused headers; only a request that waits (for a
webhook, a fault's delay, a future version) becomes a task. The bytes are read by httptools, the
parser that uvicorn and sanic use.

Invariant: answers leave in the order of their requests, one at a time; a request that waits is
cancelled when its connection is gone.
"""

import asyncio
import logging
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote

import httptools

from simcluster.replies import CONTINUE, END, PLAIN, STREAM, closing, headers_only, reply

_log = logging.getLogger("simcluster")
_PIPELINED = 16
"""Requests that may wait behind the present request before reading stops."""


@lru_cache(maxsize=1024)
def _query(text: str) -> Mapping[str, str]:
    """Parameters by name, the first of each; shared, so never changed."""
    return dict(reversed(parse_qsl(text, keep_blank_values=True)))


class Request:
    """A request whose body has arrived; ``body`` is ``None`` when it was larger than allowed."""

    __slots__ = ("_headers", "body", "keep_alive", "method", "path", "query", "target")

    def __init__(
        self,
        method: str,
        target: str,
        headers: dict[bytes, bytes],
        body: bytes | None,
        keep_alive: bool,
    ) -> None:
        self.method = method
        self.target = target
        path, _, query = target.partition("?")
        self.path = unquote(path) if "%" in path else path
        self.query: Mapping[str, str] = _query(query) if query else {}
        self.body = body
        self.keep_alive = keep_alive
        self._headers = headers

    def header(self, name: bytes) -> str:
        """A header by its name in lower case; empty when it is not there."""
        return self._headers.get(name, b"").decode("latin-1")


Streaming = Callable[["Connection"], None]
"""Takes a connection over until it calls ``finish``."""
Handler = Callable[[Request], Coroutine[Any, Any, bytes | Streaming]]


@types.coroutine
def _rest(work: Coroutine[Any, Any, Any], waits_for: Any) -> Generator[Any, Any, Any]:
    """The rest of a coroutine that was begun outside a task and waits."""
    step: Callable[[Any], Any]
    while True:
        try:
            given = yield waits_for
            step = work.send
        except BaseException as error:  # also a cancellation: the coroutine deals with it
            given, step = error, work.throw
        try:
            waits_for = step(given)
        except StopIteration as done:
            return done.value


class Connection(asyncio.Protocol):
    """One connection; ``known`` is where it is listed while it is open."""

    def __init__(self, handler: Handler, most_bytes: int, known: "set[Connection]") -> None:
        self._handler = handler
        self._most = most_bytes
        self._known = known
        self._parser: Any = httptools.HttpRequestParser(self)
        self._waiting: deque[Request] = deque()
        self._busy = False
        self._keep_alive = True
        self._task: asyncio.Task[None] | None = None
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0
        self.transport: Any = None
        self.closed = asyncio.Event()
        self.paused = False
        """Whether the reader is behind: nothing should be written now."""
        self.on_writable: Callable[[], None] | None = None
        self.on_gone: Callable[[], None] | None = None

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open."""
        self.transport = transport
        self._known.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone: the request under way ends."""
        self._known.discard(self)
        self.closed.set()
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
        if self.on_gone is not None:
            self.on_gone()

    def pause_writing(self) -> None:
        """The reader is behind."""
        self.paused = True

    def resume_writing(self) -> None:
        """The reader has caught up."""
        self.paused = False
        if self.on_writable is not None:
            self.on_writable()

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._keep_alive = False  # what follows would be another protocol
        except httptools.HttpParserError as error:
            text = f"Bad Request: {error}\n".encode()
            self.transport.write(closing(reply(400, text, PLAIN)))
            self.transport.close()

    # Callbacks of the parser.

    def on_url(self, url: bytes) -> None:
        """A part of the request's target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """The body follows, if the client is asked to send it."""
        if self._headers.get(b"expect", b"").lower() == b"100-continue":
            self.transport.write(CONTINUE)

    def on_body(self, part: bytes) -> None:
        """A part of the body; a body that is too large is read and dropped."""
        self._size += len(part)
        if self._size <= self._most:
            self._body.append(part)
        else:
            self._body.clear()

    def on_message_complete(self) -> None:
        """A whole request."""
        request = Request(
            self._parser.get_method().decode(),
            self._url.decode("latin-1"),
            self._headers,
            b"".join(self._body) if self._size <= self._most else None,
            self._parser.should_keep_alive(),
        )
        self._url, self._headers, self._body, self._size = b"", {}, [], 0
        self._waiting.append(request)
        if not self._busy:
            self._next()
        elif len(self._waiting) == _PIPELINED:
            self.transport.pause_reading()

    # Requests, one after the other.

    def _next(self) -> None:
        while self._waiting and not self._busy and not self.transport.is_closing():
            if len(self._waiting) == _PIPELINED:
                self.transport.resume_reading()
            request = self._waiting.popleft()
            self._busy = True
            self._keep_alive = self._keep_alive and request.keep_alive
            work = self._handler(request)
            try:
                waits_for = work.send(None)
            except StopIteration as done:
                self._answer(request, done.value)
            except Exception:
                self._failed(request)
            else:
                waiting = self._finished(request, work, waits_for)
                self._task = asyncio.get_running_loop().create_task(waiting)

    async def _finished(
        self, request: Request, work: Coroutine[Any, Any, bytes | Streaming], waits_for: Any
    ) -> None:
        try:
            answered: bytes | Streaming = await _rest(work, waits_for)
        except Exception:
            self._failed(request)
            return
        self._task = None
        self._answer(request, answered)
        self._next()

    def _failed(self, request: Request) -> None:
        _log.exception("%s %s", request.method, request.path)
        self.transport.abort()

    def _answer(self, request: Request, answered: bytes | Streaming) -> None:
        if not isinstance(answered, bytes):
            self.transport.write(STREAM)
            answered(self)
            return
        if request.method == "HEAD":
            answered = headers_only(answered)
        self._busy = False
        if self._keep_alive:
            self.transport.write(answered)
        else:
            self.transport.write(closing(answered))
            self.transport.close()

    # Methods for a watch.

    def send(self, lines: list[bytes]) -> None:
        """Write one chunk of an answer without a known length."""
        size = sum(map(len, lines))
        self.transport.write(b"".join((b"%x\r\n" % size, *lines, b"\r\n")))

    def finish(self) -> None:
        """End an answer without a known length; the connection can be used again."""
        self.on_writable = self.on_gone = None
        self.transport.write(END)
        self._busy = False
        if self._keep_alive:
            self._next()
        else:
            self.transport.close()
