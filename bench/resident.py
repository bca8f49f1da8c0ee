"""Resident memory with many live pods: of the core alone, and of the whole projector (`holding`).

The log is made here and goes to a file; a fresh process reads it message by message, folds and
decides, and reports its resident memory in the end, journal taken away as the projector does. The
memory of Python and the code before the first message is part of it.
"""

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from bench.figures import Figure
from bench.story import CLUSTER, READY, Message, Story
from podgroup.engine import drain_journal, new_world, step
from podgroup.log.codec import decode_batch

GROUPS, SIZE = 5000, 30
AT_ONCE = 250
MESSAGE_BYTES = 900_000
_decoder = msgspec.msgpack.Decoder(Message)


class _Living(Story):
    """A story that goes on until all its pods run, and keeps no message in memory."""

    def __init__(self, groups: int, size: int, file: Path) -> None:
        with file.open("wb") as self._out:
            super().__init__(groups, size, AT_ONCE, message_bytes=MESSAGE_BYTES)

    def _wave(self, names: list[str], size: int) -> None:
        uids = [self._create(name, i, size) for i in range(size) for name in names]
        self._settle()
        self._change(uids, node="node-1", phase="Running", conditions=READY)
        for message in self.messages:
            body = msgspec.msgpack.encode(message)
            self._out.write(len(body).to_bytes(4, "big") + body)
        self.messages.clear()


async def run() -> AsyncIterator[Figure]:
    """Make the log and measure a fresh process that folds it, then a projector."""
    # Here and not above: the process that folds imports this module, and needs none of that.
    from bench import holding

    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "log")
        story = _Living(GROUPS, SIZE, file)
        answer = await asyncio.to_thread(_core, file)
        before_kib, after_kib, pods, groups = map(int, answer.split())
        if (pods, groups) != (GROUPS * SIZE, GROUPS):
            raise RuntimeError(f"{pods} pods in {groups} groups were folded")
        yield Figure(
            name="core.resident",
            value=after_kib / 1024,
            unit="MiB",
            note=f"{pods} running pods in {groups} groups after {story.events} events; "
            f"{before_kib / 1024:.0f} MiB before the first",
        )
        async for figure in holding.run(_messages(file), pods, story.events):
            yield figure


def _core(file: Path) -> str:
    """Fold the log in a process of its own; returns its output."""
    command = [sys.executable, "-m", "bench.resident", str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return done.stdout


def _messages(file: Path) -> Iterator[Message]:
    with file.open("rb") as source:
        while size := source.read(4):
            yield _decoder.decode(source.read(int.from_bytes(size, "big")))


def _resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("no VmRSS in /proc/self/status")


def fold(file: Path) -> None:
    """Fold a log; print resident KiB before and after, pods and groups."""
    world = new_world(CLUSTER)
    before = _resident_kib()
    for message in _messages(file):
        step(world, message.position, message.at, decode_batch(message.body))
        drain_journal(world)
    sys.stdout.write(f"{before} {_resident_kib()} {len(world.pods)} {len(world.groups)}\n")


if __name__ == "__main__":
    fold(Path(sys.argv[1]))
