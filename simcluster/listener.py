"""The listening socket: opened, closed, and refused for a while on demand.

Theory: aiohttp's low-level server with one handler and no route table. Refusing means what a dead
server means: the port is closed and every open connection is reset; afterwards the same port
answers again with the same state.

Invariant: the port, once known, never changes while the listener lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from simcluster.settings import Settings

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Listener:
    """One socket and the connections on it."""

    def __init__(self, handler: Handler, settings: Settings) -> None:
        self.handler = handler
        self.settings = settings
        self.port = settings.port
        self._runner: web.ServerRunner | None = None
        self._site: web.TCPSite | None = None
        self._web: web.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen; the port is known afterwards."""
        self._web = web.Server(
            self.handler,
            access_log=None,
            request_factory=self._request,
            handler_cancellation=True,
            keepalive_timeout=300.0,
        )
        self._runner = web.ServerRunner(self._web, shutdown_timeout=1.0)
        await self._runner.setup()
        await self._listen()

    def _request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        """A request whose body may be as large as an API server takes."""
        loop = asyncio.get_running_loop()
        size = self.settings.max_body_bytes
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=size)

    async def _listen(self) -> None:
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, self.settings.host, self.port, backlog=1024)
        await self._site.start()
        for address in self._runner.addresses:
            self.port = address[1]

    async def stop(self) -> None:
        """Close connections and the socket."""
        for task in list(self._tasks):
            task.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    def refuse(self, seconds: float) -> None:
        """Close everything now and listen again after a while."""
        task = asyncio.get_running_loop().create_task(self._refuse(seconds))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _refuse(self, seconds: float) -> None:
        if self._site is None or self._web is None:
            return
        await asyncio.sleep(0.01)  # the request that asked for it gets its answer
        await self._site.stop()
        for connection in self._web.connections:
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(seconds)
        await self._listen()
