"""Forecasts beside a projector: repeated at the interval of setting `forecast.interval_s`.

Theory. A forecast plays for seconds of processor time, and decisions must not wait for it. So it is
made in a process of its own, of low priority, that ends with the forecast; its metrics come back as
values. Each replica that shares a database looks first at the age of the latest forecast, so
together they make as many as a single replica; and without waiting groups or unsettled estimates no
process starts.

Invariant: a forecast that fails is reported and tried again; all else goes on.
"""

import asyncio
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from gatelog.forecast.estimates import note_on
from gatelog.forecast.metering import Meters, Readings, readings
from gatelog.forecast.refreshing import Effort, refresh
from projector import tables
from projector.schema.pending import is_pending
from projector.storage.database import reading, writer
from projector.storage.urls import database_url
from runtime.health import Checks
from runtime.log import get_logger
from runtime.metrics import of
from runtime.settings import Settings

NICE = 10
"""By how much its process steps back for others."""

_OPEN = f"""
SELECT 1 WHERE EXISTS (
       SELECT 1 FROM groups g
        WHERE g.cluster = :cluster AND g.gone_at IS NULL AND {is_pending("g.state")})
    OR EXISTS (SELECT 1 FROM estimates WHERE cluster = :cluster AND shard = 0 AND came = '')
"""
_NOTED = "SELECT count(*) FROM forecasts WHERE cluster = :cluster"

log = get_logger("forecast")


async def beside_projector(settings: Settings, stop: asyncio.Event, checks: Checks) -> None:
    """Make forecasts as `forecasting`, shown by the metrics that `checks` serve."""
    await forecasting(settings, stop, Meters(of(checks, settings)))


async def forecasting(
    settings: Settings, stop: asyncio.Event, meters: Meters, *, nice: int = NICE
) -> None:
    """Make forecasts until `stop` is set; none if the interval is 0, or if Kueue admits."""
    every_s = settings.forecast.interval_s
    if not every_s or settings.mode == "kueue":
        return
    loop, failing = asyncio.get_running_loop(), ""
    url = database_url(settings)
    context = multiprocessing.get_context("spawn")
    while not stop.is_set():
        try:
            await asyncio.to_thread(note, url, settings.cluster)
        except Exception as error:
            failing = _told(error, failing)
        try:
            async with asyncio.timeout(every_s):
                await stop.wait()
        except TimeoutError:
            pass
        if stop.is_set():
            return
        try:
            if not await asyncio.to_thread(wanted, url, settings.cluster):
                continue
        except Exception as error:
            failing = _told(error, failing)
            continue
        pool = ProcessPoolExecutor(1, mp_context=context, initializer=os.nice, initargs=(nice,))
        try:
            made = loop.run_in_executor(pool, once, url, settings)
            ending = asyncio.create_task(stop.wait())
            either: list[asyncio.Future[Any]] = [made, ending]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            if not made.done():
                return
            if (found := made.result()) is not None:
                meters.show(found)
            failing = ""
        except Exception as error:  # of a database, or of a process that was killed
            failing = _told(error, failing)
        finally:
            _end(pool)


def _told(error: Exception, before: str) -> str:
    """Log an error, unless it was logged `before`; return its text."""
    problem = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if problem != before:
        log.warning("not_forecast", problem=problem)
    return problem


def wanted(url: str, cluster: str) -> bool:
    """Return whether a group waits, or an estimate is unsettled."""
    with reading(url) as connection:
        return bool(connection.scalar(sa.text(_OPEN), {"cluster": cluster}))


def note(url: str, cluster: str) -> None:
    """Note before the first forecast that forecasts are made: readers see that they must wait."""
    with reading(url) as connection:
        if connection.scalar(sa.text(_NOTED), {"cluster": cluster}):
            return
    engine = writer(url, owner="forecast")
    try:
        with engine.begin() as connection:
            note_on(connection, cluster, datetime.now(UTC))
    finally:
        engine.dispose()


def once(url: str, settings: Settings) -> Readings | None:
    """Make a forecast and return its metrics; None if the latest is young enough.

    Raises:
        DatabaseError, SQLAlchemyError: as `refreshing.refresh`.
    """
    now, wanted = datetime.now(UTC), settings.forecast
    if not due(url, settings.cluster, now, wanted.interval_s):
        return None
    made = refresh(
        url, settings.cluster, now, label=wanted.label, effort=Effort.left(wanted.budget_s)
    )
    return None if made is None else readings(made)


def due(url: str, cluster: str, now: datetime, every_s: float) -> bool:
    """Return whether the latest forecast is older than half of `every_s`."""
    table = tables.forecasts
    with reading(url) as connection:
        query = sa.select(sa.func.min(table.c.at)).where(table.c.cluster == cluster)
        oldest = connection.scalar(query)
    return oldest is None or now - oldest >= timedelta(seconds=every_s / 2)


def _end(pool: ProcessPoolExecutor) -> None:
    """End a process that may be playing: its unwritten results are not needed."""
    for process in list((pool._processes or {}).values()):
        process.terminate()
    pool.shutdown(wait=False, cancel_futures=True)
