"""Running something until it ends or is asked to stop.

Theory. SIGINT and SIGTERM set the stop event that every part waits on; a part then finishes what
it has begun. A second signal, or a part that does not end within the grace, cancels. Errors leave
through here untouched, so that `cli` can put them into words.

Invariant: when `run` returns, no task of the program is left.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable

from gatelog.shell.errors import INTERRUPTED, CommandFailed
from runtime import eventloop

Main = Callable[[asyncio.Event], Awaitable[None]]
GRACE_S = 20.0


class Interrupted(CommandFailed):
    """The orderly end was cut short by a second signal, or took too long."""

    exit_code = INTERRUPTED


def run(main: Main, *, grace_s: float = GRACE_S) -> None:
    """Run `main(stop)` to its end; `grace_s` is its time after the first signal.

    Raises:
        Interrupted: `main` was cut short.
        BaseException: the error of `main`.
    """
    eventloop.run(_run(main, grace_s))


async def _run(main: Main, grace_s: float) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    hard = asyncio.Event()

    def asked() -> None:
        if stop.is_set():
            hard.set()
        stop.set()

    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, asked)
    task = asyncio.ensure_future(main(stop))
    ends = asyncio.create_task(_ends(stop, hard, grace_s))
    try:
        await asyncio.wait((task, ends), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=grace_s)
            raise Interrupted("interrupted: it was cut short before everything had ended")
        await task
    finally:
        ends.cancel()
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(name)


async def _ends(stop: asyncio.Event, hard: asyncio.Event, grace_s: float) -> None:
    await stop.wait()
    try:
        async with asyncio.timeout(grace_s):
            await hard.wait()
    except TimeoutError:
        return
