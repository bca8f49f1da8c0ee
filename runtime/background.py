"""A background task that lives as long as a context is open.

Invariant: when the context is left, the task has ended.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from runtime.log import get_logger

log = get_logger("background")


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work` as a task while the context is open, then cancel the task; its error is raised.

    An error is logged at once: the end may be days away.
    """
    task = asyncio.create_task(work)
    task.add_done_callback(_ended)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _ended(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("background_failed", message=str(error), exc_info=error)
