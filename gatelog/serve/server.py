"""The HTTPS server: authentication, then the request.

Theory. One port serves the API server's front proxy and clients with a bearer token. Probes are
answered to all. The size of a request is bounded, and no body is read but that of a trial:
everything is read only. A connection that sends no request head ends after some seconds
(`connections`).

Invariant: only probes are answered before the caller is known.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from aiohttp import web

from gatelog.serve.access.callers import Caller, CannotTell, NotKnown
from gatelog.serve.access.frontproxy import Trust, caller_of
from gatelog.serve.access.reviewing import Reviews
from gatelog.serve.api.handling import Handling, refusal
from gatelog.serve.api.status import Refused
from gatelog.serve.console.app import Console
from gatelog.serve.tls import Certificates
from runtime.connections import Connection, Listener
from runtime.listening import listen
from runtime.settings import ServeSettings

_API = ("/api", "/openapi")
_PROBES = ("/healthz", "/readyz", "/livez")
_LONGEST_LINE = 8190
MOST_CONNECTIONS = 2_000
"""At once: room for all watches and live pages, and for requests beside them."""
Ready = Callable[[], Awaitable[str]]
"""Says what keeps us from answering, "" for nothing."""


class Door:
    """Finds out the caller. `trust` is None until the ConfigMap of the API server was read."""

    def __init__(self, reviews: Reviews) -> None:
        self.trust: Trust | None = None
        self._reviews = reviews

    async def caller(self, request: web.Request) -> Caller:
        """Return the caller.

        Raises:
            NotKnown: the request names no known user.
            CannotTell: the API server, which knows, does not answer.
        """
        trust = self.trust
        if trust is None:
            raise CannotTell("it is not known yet whose headers to believe: try again")
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        found = caller_of(trust, certificate, request.headers)
        if found is not None:
            return found
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return await self._reviews.caller(token.strip())
        raise NotKnown(
            "no user is logged in: ask through the API server (kubectl), or bring a bearer token"
        )


async def _counted(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], request: web.Request
) -> web.StreamResponse:
    """Answer a request, and let its connection know that a request is under way."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    connection.begin()
    connection.arrived()
    try:
        return await answer(request)
    finally:
        connection.end()


@asynccontextmanager
async def serving(
    settings: ServeSettings,
    certificates: Certificates,
    door: Door,
    handling: Handling,
    console: Console,
    ready: Ready,
) -> AsyncIterator[int]:
    """Serve while the context is open; yields the port.

    Raises:
        ListenError: the address cannot be listened on.
    """

    async def identified(request: web.Request) -> web.StreamResponse:
        if request.path in _PROBES:
            problem = await ready() if request.path == "/readyz" else ""
            return web.Response(text=f"{problem or 'ok'}\n", status=503 if problem else 200)
        asks_api = request.path.startswith(_API)
        try:
            caller = await door.caller(request)
        except (NotKnown, CannotTell) as error:
            code = 401 if isinstance(error, NotKnown) else 503
            if not asks_api:
                return console.refuse(request, code, str(error))
            word = "Unauthorized: " if code == 401 else ""
            return refusal(Refused(code, f"{word}{error}"))
        if not asks_api:
            return await console.answer(request, caller)
        return await handling.answer(request, caller)

    app = web.Application(client_max_size=1024)
    app.router.add_route("*", "/{path:.*}", partial(_counted, identified))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    assert runner.server is not None
    listener = Listener(
        runner.server,
        certificates.context,
        most=MOST_CONNECTIONS,
        max_line_size=_LONGEST_LINE,
        max_field_size=_LONGEST_LINE * 4,
    )
    try:
        listener.start("serve", settings.host, settings.port)
        yield int(listener.address[1])
    finally:
        await listener.stop()
        runner.server.pre_shutdown()
        await runner.server.shutdown(1.0)
        await runner.cleanup()


@asynccontextmanager
async def on_loopback(console: Console, port: int) -> AsyncIterator[str]:
    """Serve the console without login to this machine alone; yields its address.

    `port` 0: any. Raises:
        ListenError: the port is taken.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        return await console.answer(request, None)

    app = web.Application(client_max_size=1024)
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await listen(runner, "serve", "127.0.0.1", port)
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()
