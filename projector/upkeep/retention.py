"""Pruning by itself: every few hours, while a projector runs and `database.retention_days` is set.

Theory. Pruning runs beside the projection, in a thread and on a connection of its own, in small
transactions. Several projectors on one database take turns (`pruning`).

Invariant: every error is logged and pruning is tried again later; the projection goes on.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from threading import Event

from projector.storage.database import DatabaseError
from projector.upkeep.pruning import Gone, limit, prune
from runtime.background import background
from runtime.log import get_logger

FIRST_S = 60.0
"""Seconds after the start: catching up comes first."""
EVERY_S = 6 * 3600.0

log = get_logger("projector")


@asynccontextmanager
async def retaining(
    url: str, days: int, *, first_s: float = FIRST_S, every_s: float = EVERY_S
) -> AsyncIterator[None]:
    """Prune while the context is open; 0 days: keep everything."""
    if days <= 0:
        yield
        return
    ended = Event()
    async with background(_retain(url, days, ended, first_s, every_s)):
        try:
            yield
        finally:
            ended.set()


async def _retain(url: str, days: int, ended: Event, first_s: float, every_s: float) -> None:
    await asyncio.sleep(first_s)
    while True:
        before = limit(datetime.now(UTC), timedelta(days=days))
        try:
            await asyncio.to_thread(prune, url, before, tell=_log_removed, stop=ended.is_set)
        except DatabaseError as error:
            log.warning("pruning_failed", error=str(error), wait_s=every_s)
        await asyncio.sleep(every_s)


def _log_removed(gone: Gone) -> None:
    log.info(
        "pruned",
        table=gone.table,
        partition=gone.partition,
        rows=gone.rows,
        first=gone.first.isoformat() if gone.first else "",
        last=gone.last.isoformat() if gone.last else "",
    )
