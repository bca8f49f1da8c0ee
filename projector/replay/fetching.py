"""Reading a long stretch of a stream in a process of its own.

Theory. A NATS client's work for a message costs as much as folding it, and Python has one
interpreter lock per process. So a long stretch is fetched by a child (`python -m` this module),
which reads its task from stdin and writes frames of messages to stdout: four bytes of length, then
msgpack. The pipe holds the child back when the fold is slower. The child ends by itself when it has
sent the stretch, or when its reader is gone.

Invariant: the child gives the messages that `Bus.read` would give, in order and without gaps, up to
the last of the stretch, or an error.
"""

import asyncio
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime

import msgspec
from msgspec import Struct

from runtime import eventloop
from runtime.jetstream import Bus, BusError, BusUnavailable, Message, Reader, connect
from runtime.settings import NatsSettings

FAR_MESSAGES = 20_000
FAR_BYTES = 16 << 20
"""From so many messages or bytes on a process of its own is worth its start."""
FRAME_MESSAGES = 1000
FRAME_BYTES = 1 << 20
"""A frame is closed at this size; the message that exceeds it is in the frame."""
_LENGTH = struct.Struct(">I")
_CONNECT_S = 15.0
SILENCE_S = 60.0
"""Seconds without a message after which reading fails; an election of servers takes up to 20."""


class Stretch(Struct, frozen=True):
    """A stretch to fetch: messages `first` to `last` of a stream that match a subject."""

    nats: NatsSettings
    stream: str
    subject: str
    first: int
    last: int


class Frame(Struct, frozen=True, array_like=True):
    """Some messages as (sequence, at, subject, body); `error` ends the stretch early.

    Each message has its own subject, because the subject names its publisher.
    """

    messages: list[tuple[int, datetime, str, bytes]] = []
    error: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode: "msgspec.msgpack.Decoder[Frame]" = msgspec.msgpack.Decoder(Frame)


class Fetched:
    """A stretch as a reader; one task at a time."""

    def __init__(self, stretch: Stretch) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-m", "projector.replay.fetching"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=-1,
        )
        assert self._child.stdin is not None
        self._child.stdin.write(msgspec.json.encode(stretch))
        self._child.stdin.close()
        self._next: asyncio.Future[Frame] | None = None

    async def next(self, timeout_s: float | None) -> list[Message]:
        """Return the next messages, [] after the last. The child waits as it sees fit.

        Raises:
            BusUnavailable: the child could not go on, or is gone.
        """
        frame = await (self._next or self._ahead())
        self._next = None
        if frame.error:
            raise BusUnavailable(frame.error)
        if frame.messages:
            self._next = self._ahead()  # while these are folded
        return [Message(*found) for found in frame.messages]

    def _ahead(self) -> "asyncio.Future[Frame]":
        return asyncio.get_running_loop().run_in_executor(None, self._read)

    def _read(self) -> Frame:
        assert self._child.stdout is not None
        head = self._child.stdout.read(_LENGTH.size)
        if len(head) == _LENGTH.size:
            (length,) = _LENGTH.unpack(head)
            body = self._child.stdout.read(length)
            if len(body) == length:
                return _decode.decode(body)
        return Frame(error=f"the process that fetches the log ended with {self._child.wait()}")

    async def close(self) -> None:
        """End the child."""
        self._child.terminate()
        if self._next is not None:
            await asyncio.wait({self._next})
        await asyncio.to_thread(self._child.wait)
        assert self._child.stdout is not None
        self._child.stdout.close()


async def read(bus: Bus, stream: str, subject: str, first: int, last: int) -> "Reader | Fetched":
    """Read a stream from `first` on: by a process of its own when `last` is far away.

    Raises:
        BusUnavailable, StreamMissing: the stream cannot be asked how long it is.
    """
    if await is_far(bus, stream, last - first + 1):
        return Fetched(Stretch(bus.settings, stream, subject, first, last))
    return bus.read(stream, subject, first)


async def is_far(bus: Bus, stream: str, count: int) -> bool:
    """Return whether so many messages of a stream are worth a process.

    Raises:
        BusUnavailable, StreamMissing: the length of the stream is not known.
    """
    if count <= 0:
        return False
    state = await bus.stream_state(stream)
    return count >= FAR_MESSAGES or count * state.bytes // max(1, state.messages) >= FAR_BYTES


async def following(reader: "Reader | Fetched", bus: Bus, last: int) -> list[Message]:
    """Return the next messages of a stream that goes on to sequence `last`; [] from a child's end.

    Raises:
        BusUnavailable: nothing came for `SILENCE_S`, which is not the end.
        StreamMissing, StreamChanged: see `Reader.next`.
    """
    messages = await reader.next(SILENCE_S)
    if messages or isinstance(reader, Fetched):
        return messages
    raise BusUnavailable(
        f"nothing came from NATS for {SILENCE_S:g} s, and the log goes on to {last}; try again"
        + (f" (it last said: {bus.last_error})" if bus.last_error else "")
    )


async def _send(stretch: Stretch) -> None:
    bus = await connect(stretch.nats, "gatelog-fetch", deadline_s=_CONNECT_S)
    reader = bus.read(stretch.stream, stretch.subject, stretch.first, batch=FRAME_MESSAGES)
    try:
        reached = stretch.first - 1
        while reached < stretch.last:
            messages = await following(reader, bus, stretch.last)
            for found in _frames(messages, stretch.last):
                # The pipe may be full for long: meanwhile the server must not find us silent.
                await asyncio.to_thread(_write, Frame(found))
            reached = messages[-1].sequence
        _write(Frame())
    finally:
        await reader.close()
        await bus.close()


def _frames(messages: list[Message], last: int) -> Iterator[list[tuple[int, datetime, str, bytes]]]:
    """Cut messages up to sequence `last` into frames by size, so that few bytes are in the air."""
    found: list[tuple[int, datetime, str, bytes]] = []
    size = 0
    for message in messages:
        if message.sequence > last:
            break
        found.append((message.sequence, message.at, message.subject, message.body))
        size += len(message.body)
        if size >= FRAME_BYTES:
            yield found
            found, size = [], 0
    if found:
        yield found


def _write(frame: Frame) -> None:
    body = _encode(frame)
    sys.stdout.buffer.write(_LENGTH.pack(len(body)))
    sys.stdout.buffer.write(body)
    sys.stdout.buffer.flush()


def main() -> None:
    """Fetch the stretch that stdin names."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller gets the signal too, and ends it
    stretch = msgspec.json.decode(sys.stdin.buffer.read(), type=Stretch)
    try:
        eventloop.run(_send(stretch))
    except BusError as error:
        _write(Frame(error=str(error)))
    except BrokenPipeError:
        # The reader is gone. Python would try to flush once more and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
