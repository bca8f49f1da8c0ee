"""The listening socket: opened, closed, and refused for a while on demand.

Theory: a socket and the connections it has accepted, nothing else. Refusing means what a dead
server means: the port is closed and every open connection is reset; afterwards the same port
answers again with the same state.

Invariant: the port, once known, never changes while the listener lives; after ``stop`` no
connection is open.
"""

import asyncio
import contextlib
import ssl

from simcluster.connection import Connection, Handler
from simcluster.settings import Settings

_PATIENCE_S = 1.0
"""Seconds within which readers may take written bytes when the listener stops."""


class Listener:
    """One socket and the connections on it."""

    def __init__(
        self, handler: Handler, settings: Settings, tls: ssl.SSLContext | None = None
    ) -> None:
        self.handler = handler
        self._tls = tls
        self.settings = settings
        self.port = settings.port
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen; the port is known afterwards."""
        self._server = await asyncio.get_running_loop().create_server(
            self._accepted, self.settings.host, self.port, backlog=1024, ssl=self._tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def _accepted(self) -> Connection:
        return Connection(self.handler, self.settings.max_body_bytes, self.connections)

    async def stop(self) -> None:
        """Close connections and the socket."""
        for task in list(self._tasks):
            task.cancel()
        if self._server is not None:
            self._server.close()
        ending = list(self.connections)
        for connection in ending:
            connection.transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                for connection in ending:
                    await connection.closed.wait()
        for connection in list(self.connections):
            connection.transport.abort()
            await connection.closed.wait()

    def refuse(self, seconds: float) -> None:
        """Close everything now and listen again after a while."""
        task = asyncio.get_running_loop().create_task(self._refuse(seconds))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _refuse(self, seconds: float) -> None:
        if self._server is None:
            return
        await asyncio.sleep(0.01)  # the request that asked for it gets its answer
        self._server.close()
        for connection in list(self.connections):
            connection.transport.abort()
        await asyncio.sleep(seconds)
        await self.start()
