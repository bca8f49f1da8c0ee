"""A bound on the bytes of request bodies that any client can make the webhook hold.

Theory. Any client of the port can send as much of a body as it likes; the API server sends bodies
at once, mostly of a few kilobytes. So unfinished bodies give way to new ones: with too many bytes
in flight the largest unfinished body is given up. A body that does not arrive ends after seconds.
With the bound of connections (`runtime.connections`), `BUDGET_BYTES` stays well below the memory
that the manifests allow.

Invariant: a request that was read to its end is never given up here.
"""

from typing import Final

from aiohttp import web

BUDGET_BYTES: Final[int] = 32 * 1024 * 1024


class Budget:
    """Bytes of request bodies held at once: `BUDGET_BYTES` of all requests together at most."""

    def __init__(self) -> None:
        self._unfinished: dict[Body, int] = {}
        self.held_bytes = 0
        """Bytes of all bodies, finished or not."""

    def charge(self, body: "Body", size: int) -> None:
        """Count bytes that arrived; the largest unfinished bodies give way if there are too many
        bytes.
        """
        self._unfinished[body] = self._unfinished.get(body, 0) + size
        self.held_bytes += size
        while self.held_bytes > BUDGET_BYTES and self._unfinished:
            max(self._unfinished, key=self._unfinished.__getitem__).give_up()

    def finish(self, body: "Body") -> None:
        """The body has arrived: its bytes are held until they are given back."""
        self._unfinished.pop(body, None)

    def give_back(self, body: "Body", size: int) -> None:
        """The bytes of a body are needed no longer."""
        self._unfinished.pop(body, None)
        self.held_bytes -= size


class Body:
    """The body of one request, as it arrives. Used as a context manager.

    Args:
        budget: counts its bytes.
        request: the request; its connection is closed when the body must give way.
    """

    def __init__(self, budget: Budget, request: web.Request) -> None:
        self._budget = budget
        self._request = request
        self._parts: list[bytes] = []
        self._size = 0
        self.given_up = False

    def __enter__(self) -> "Body":
        return self

    def __exit__(self, *_: object) -> None:
        self._clear()

    async def read(self, most_bytes: int) -> bytes:
        """The whole body.

        Raises:
            web.HTTPRequestEntityTooLarge: it is larger than `most_bytes`.
            ConnectionError: the body gave way to others, or its sender went.
        """
        declared = self._request.content_length or 0
        if declared > most_bytes:
            raise web.HTTPRequestEntityTooLarge(most_bytes, declared)
        async for part in self._request.content.iter_any():
            self._parts.append(part)
            self._size += len(part)
            self._budget.charge(self, len(part))
            if self.given_up:
                break
            if self._size > most_bytes:
                raise web.HTTPRequestEntityTooLarge(most_bytes, self._size)
        if self.given_up:
            raise ConnectionResetError("too many bytes in flight")
        self._budget.finish(self)
        return b"".join(self._parts)

    def give_up(self) -> None:
        """Close the connection and drop what has arrived."""
        self.given_up = True
        self._clear()
        if self._request.transport is not None:
            self._request.transport.abort()

    def _clear(self) -> None:
        self._budget.give_back(self, self._size)
        self._parts.clear()
        self._size = 0
