"""The pump writes a watch to its connection: in batches, with bookmarks, until its time is over.

Theory: all items queued in a turn of the loop leave in one write, at most a batch at a time; while
the reader is behind, the stream's queue fills instead. There is no task: a change asks for the next
turn of the loop, and one timer serves the time-out and the bookmarks.

Invariant: a bookmark is only sent with an empty queue, so its version is never above an unsent
change.
"""

import asyncio
from collections.abc import Callable

from simcluster.connection import Connection
from simcluster.settings import Settings
from simcluster.store import Store
from simcluster.watching import Stream, ignored

_BEHIND_S = 0.02
"""Seconds until a bookmark that is due, but has changes before it, is tried again."""


class Pump:
    """Writes one stream to its connection until it ends, is timed out, or its reader is gone."""

    def __init__(
        self,
        store: Store,
        stream: Stream,
        settings: Settings,
        *,
        timeout_s: float,
        over: Callable[[], None],
    ) -> None:
        self.store = store
        self.stream = stream
        self.stalled = False
        self.settings = settings
        self._over = over
        self._loop = asyncio.get_running_loop()
        now = self._loop.time()
        self._ends = now + timeout_s
        self._last = self._ends - settings.bookmark_before_timeout_s
        self._mark = now + settings.bookmark_interval_s
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._connection: Connection | None = None

    def start(self, connection: Connection) -> None:
        """Begin to write (``Streaming``)."""
        self._connection = connection
        connection.on_writable = self.wake
        connection.on_gone = self.stop
        self.stream.wake = self.wake
        self.tick()

    def wake(self) -> None:
        """Look at the stream in the next turn of the loop."""
        if self._soon is None:
            self._soon = self._loop.call_soon(self._flush)

    def stop(self) -> None:
        """The reader is gone, or all is written."""
        for handle in (self._soon, self._timer):
            if handle is not None:
                handle.cancel()
        self._connection = None
        self.stream.wake = ignored
        self._over()

    def tick(self) -> None:
        """Write the items and bookmarks that are due, and set the timer for the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._flush()
        connection, stream, now = self._connection, self.stream, self._loop.time()
        if connection is None:
            return
        if now >= self._ends:
            connection.finish()
            self.stop()
            return
        due = self._ends
        if stream.bookmarks and not self.stalled:
            if now >= min(self._mark, self._last) and not stream.queue:
                if self.store.version >= stream.after:
                    connection.send([stream.bookmark(self.store.version)])
                self._mark = now + self.settings.bookmark_interval_s
                self._last = self._ends if now >= self._last else self._last
            due = min(due, max(min(self._mark, self._last), now + _BEHIND_S))
        self._timer = self._loop.call_at(due, self.tick)

    def _flush(self) -> None:
        self._soon = None
        connection, stream = self._connection, self.stream
        if connection is None:
            return
        if stream.abrupt:
            connection.transport.abort()
            self.stop()
            return
        if not self.stalled and not connection.paused and (lines := stream.drain()):
            connection.send(lines)
        if stream.ended and not stream.queue:
            connection.finish()
            self.stop()
        elif stream.queue and not self.stalled and not connection.paused:
            self.wake()
