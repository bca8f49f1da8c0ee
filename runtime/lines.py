"""Cutting a byte stream into lines, with a bound on the length of a line.

Watch items are one JSON document per line and may be megabytes long (an object of 1.5 MiB in etcd
is about twice that in JSON), which is beyond what aiohttp's own `readline` takes (128 KiB).

Invariant: bytes are neither lost nor copied more than once per line, and a line longer than the
bound ends the stream with `LineTooLong` instead of filling memory.
"""

from collections.abc import Iterator


class LineTooLong(Exception):
    """A line longer than the bound."""


class LineSplitter:
    """Collects chunks; gives back complete lines without their newline, leaving out blank ones."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that `chunk` completes.

        Raises:
            LineTooLong: the line being collected exceeds the bound.
        """
        first, newline, rest = chunk.partition(b"\n")
        self._collect(first)
        if not newline:
            return
        line = b"".join(self._parts)
        self._parts, self._size = [], 0
        if line:
            yield line
        *complete, last = rest.split(b"\n")
        for line in complete:
            if len(line) > self._max_bytes:
                raise LineTooLong(f"a line of more than {self._max_bytes} bytes")
            if line:
                yield line
        self._collect(last)

    @property
    def rest(self) -> bytes:
        """The bytes after the last newline."""
        return b"".join(self._parts)

    def _collect(self, part: bytes) -> None:
        if not part:
            return
        self._size += len(part)
        if self._size > self._max_bytes:
            raise LineTooLong(f"a line of more than {self._max_bytes} bytes")
        self._parts.append(part)
