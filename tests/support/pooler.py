"""A pooler in transaction mode, as PgBouncer is one: each transaction may get another session.

It speaks PostgreSQL's protocol as far as a pooler has to: it answers the start of a client itself
(and refuses the parameter `options`, as PgBouncer does), gives the client a server's connection
with the first message of a transaction, and takes it back when the server says that it is idle and
has answered everything. Which one is given next goes round, so that two transactions in a row get
the same one only by chance. Nothing of a session is cleaned or carried over.

Invariant: a server's connection serves one client at a time.
"""

import asyncio
import os
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

Message = tuple[bytes, bytes]
"""Type and payload."""
_SSL, _GSS, _CANCEL = 80877103, 80877104, 80877102


class Pooler:
    """Between clients and the server at a Unix socket or port; `size` sessions at most."""

    def __init__(self, host: str, port: int, user: str, database: str, size: int = 4) -> None:
        self._target = (host, port, user, database)
        self._size = size
        self._free: deque[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = deque()
        self._sessions: set[asyncio.StreamWriter] = set()
        self._released = asyncio.Condition()
        self._greeting = b""
        self.refused: list[str] = []
        self.given = 0
        self.port = 0

    @property
    def url(self) -> str:
        """The database as a client of this pooler names it."""
        _, _, user, name = self._target
        return f"postgresql://{user}@127.0.0.1:{self.port}/{name}"

    # -- the server's side ---

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port, user, database = self._target
        if host.startswith("/"):
            pair = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            pair = await asyncio.open_connection(host, port)
        body = b"".join(word.encode() + b"\0" for word in ("user", user, "database", database, ""))
        pair[1].write(struct.pack("!II", len(body) + 8, 196608) + body)
        said = b""
        while True:
            kind, payload = await _message(pair[0])
            if kind == b"E":
                raise ConnectionError(payload.decode(errors="replace"))
            if kind == b"R" and struct.unpack("!I", payload[:4])[0] != 0:
                raise ConnectionError("the tests' server asks for no password")
            if kind == b"S":
                said += _framed(kind, payload)
            if kind == b"Z":
                self._greeting = said
                return pair

    async def _take(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        async with self._released:
            while not self._free and len(self._sessions) >= self._size:
                await self._released.wait()
            self.given += 1
            if len(self._sessions) < self._size:
                # The pool is filled first, so that there is always another session.
                pair = await self._connect()
                self._sessions.add(pair[1])
                return pair
            return self._free.popleft()

    async def _give_back(self, pair: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        async with self._released:
            self._free.append(pair)
            self._released.notify()

    async def _drop(self, pair: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        pair[1].close()
        async with self._released:
            self._sessions.discard(pair[1])
            self._released.notify()

    def close(self) -> None:
        """End the sessions that the pool holds."""
        for writer in self._sessions:
            writer.close()
        self._sessions.clear()

    # -- the client's side ---

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until it leaves."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            if await self._started(reader, writer):
                first = await _message(reader)
                while first[0] != b"X":
                    first = await self._transaction(first, reader, writer)
        writer.close()

    async def _started(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        while True:
            (length,) = struct.unpack("!I", await reader.readexactly(4))
            body = await reader.readexactly(length - 4)
            (code,) = struct.unpack("!I", body[:4])
            if code in (_SSL, _GSS):
                writer.write(b"N")
                continue
            if code == _CANCEL:
                return False
            words = body[4:].split(b"\0")
            if b"options" in words[::2]:
                self.refused.append("options")
                said = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
                writer.write(_framed(b"E", said))
                await writer.drain()
                return False
            if not self._greeting:
                await self._give_back(await self._take())
            writer.write(_framed(b"R", struct.pack("!I", 0)) + self._greeting)
            writer.write(_framed(b"K", os.urandom(8)) + _framed(b"Z", b"I"))
            await writer.drain()
            return True

    async def _transaction(
        self, first: Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> Message:
        """Pass a transaction on that begins with `first`; return what the client says after it."""
        server, owed = await self._take(), _Owed()
        owed.asked(first[0])
        server[1].write(_framed(*first))
        asking = asyncio.create_task(_message(reader))
        answering = asyncio.create_task(_message(server[0]))
        try:
            while not owed.over or asking.done():
                await asyncio.wait({asking, answering}, return_when=asyncio.FIRST_COMPLETED)
                if answering.done():
                    kind, payload = answering.result()
                    writer.write(_framed(kind, payload))
                    owed.answered(kind, payload)
                    if not owed.over or asking.done():
                        answering = asyncio.create_task(_message(server[0]))
                if asking.done():
                    kind, payload = asking.result()
                    if kind == b"X":
                        await self._drop(server)
                        return kind, payload
                    owed.asked(kind)
                    server[1].write(_framed(kind, payload))
                    asking = asyncio.create_task(_message(reader))
        except BaseException:
            asking.cancel()
            answering.cancel()
            await self._drop(server)
            raise
        await self._give_back(server)
        return await asking


class _Owed:
    """What the server has yet to answer, and whether it is in a transaction."""

    def __init__(self) -> None:
        self._syncs = 0
        self._status = b"I"
        self._unsynced = False

    def asked(self, kind: bytes) -> None:
        if kind in (b"S", b"Q"):
            self._syncs += 1
            self._unsynced = False
        elif kind not in (b"d", b"c", b"f"):  # of a copy: answered with the query that began it
            self._unsynced = True

    def answered(self, kind: bytes, payload: bytes) -> None:
        if kind == b"Z":
            self._syncs -= 1
            self._status = payload

    @property
    def over(self) -> bool:
        return not self._syncs and not self._unsynced and self._status == b"I"


def _framed(kind: bytes, payload: bytes) -> bytes:
    return kind + struct.pack("!I", len(payload) + 4) + payload


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    kind = await reader.readexactly(1)
    (length,) = struct.unpack("!I", await reader.readexactly(4))
    return kind, await reader.readexactly(length - 4)


@asynccontextmanager
async def pooling(pooler: Pooler) -> AsyncIterator[Pooler]:
    """Serve on a port of this machine for a while."""
    server = await asyncio.start_server(pooler.serve, "127.0.0.1", 0)
    pooler.port = server.sockets[0].getsockname()[1]
    try:
        yield pooler
    finally:
        server.close()
        pooler.close()
