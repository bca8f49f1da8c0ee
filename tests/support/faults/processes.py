"""Faults of a process: its disk is full, or it is stopped and then believes what it last saw.

Invariant: a process that has ended meanwhile is no error.
"""

import asyncio
import os
import resource
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

ROOM = 4096
"""Bytes that a file of a server may have whose disk is full: no write to its log succeeds."""


def limit_files(pid: int, most_bytes: int | None = ROOM) -> None:
    """Let no file of a process grow beyond so many bytes, as on a full disk; None: without limit.

    Raises:
        ProcessLookupError: it has ended.
    """
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if most_bytes is None else most_bytes, hard))


@contextmanager
def full_disk(pid: int, most_bytes: int = ROOM) -> Iterator[None]:
    """Fill the disk under a process for a while."""
    limit_files(pid, most_bytes)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            limit_files(pid, None)


@asynccontextmanager
async def disk_kept_full(pid: Callable[[], int], *, look_s: float = 0.02) -> AsyncIterator[None]:
    """The same for a server that others start anew: the new process finds the disk as full.

    `pid` is asked every `look_s` seconds, and raises ProcessLookupError while none runs.
    """

    async def keep_full() -> None:
        while True:
            with suppress(ProcessLookupError):
                limit_files(pid())
            await asyncio.sleep(look_s)

    filling = asyncio.create_task(keep_full())
    try:
        yield
    finally:
        filling.cancel()
        with suppress(ProcessLookupError):
            limit_files(pid(), None)


@contextmanager
def frozen(*pids: int | None) -> Iterator[None]:
    """Stop processes (SIGSTOP) for a while."""
    _send(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _send(pids, signal.SIGCONT)


def _send(pids: tuple[int | None, ...], what: signal.Signals) -> None:
    for pid in pids:
        assert pid is not None, "it was never started"
        with suppress(ProcessLookupError):
            os.kill(pid, what)
