"""Wiring: settings -> a running projection.

Invariant: what was made here is closed here; a bus that was handed in stays open.
"""

import asyncio
import gc
import sys
from contextlib import suppress

from podgroup.runtime.backoff import Backoff
from podgroup.runtime.health import Checks
from podgroup.runtime.jetstream import Bus
from podgroup.runtime.jetstream import connect as connect_bus
from podgroup.runtime.log import get_logger
from podgroup.runtime.metrics import of as metrics_of
from podgroup.runtime.settings import Settings
from projector import migrate
from projector.archive.keeping import archiving
from projector.database import DatabaseUnavailable, database_url, shown
from projector.lag import watching
from projector.metrics import ProjectorMetrics
from projector.projection import Projection
from projector.retention import retaining
from projector.store import ReadModelReplaced, SqlStore

log = get_logger("projector")


async def run_projector(
    settings: Settings,
    stop: asyncio.Event,
    *,
    bus: Bus | None = None,
    checks: Checks | None = None,
) -> None:
    """Fold one shard of the log into the read model and publish decisions, until `stop`.

    `bus` is shared with the caller when given, else made from `settings` and closed. `checks` learn
    whether the projection has caught up.

    Raises:
        DatabaseError: the database is not at the schema this version needs (`gatelog migrate`).
        StaleProjector: another projector writes this shard.
        BusError: the streams cannot be prepared and retrying does not help.
    """
    url = database_url(settings)
    if not await _database_ready(url, stop):
        return
    # The fold and the thread that writes share the interpreter. At the default of 5 ms each of the
    # many short waits of a commit would cost that much while the fold is busy.
    sys.setswitchinterval(0.0005)
    _collect_rarely()
    own_bus: Bus | None = None
    try:
        if bus is None:
            bus = own_bus = await connect_bus(settings.nats, "projector")
        await bus.ensure_streams(settings.streams)
        metrics = ProjectorMetrics(metrics_of(checks, settings))
        log.info("projector_started", database=shown(url), mode=settings.mode)
        async with (
            watching(metrics.lag, bus, settings.cluster, settings.projector.shard),
            archiving(settings, bus, metrics_of(checks, settings)),
            retaining(url, settings.database.retention_days),
        ):
            while await _replaced(settings, bus, stop, checks, metrics):
                log.warning("read_model_replaced", database=shown(url))
    finally:
        if own_bus is not None:
            await own_bus.close()


async def _replaced(
    settings: Settings,
    bus: Bus,
    stop: asyncio.Event,
    checks: Checks | None,
    metrics: ProjectorMetrics,
) -> bool:
    """Run a projection; True when its read model was rebuilt under it, so that a new one is due."""
    url = database_url(settings)
    store = SqlStore(
        url,
        settings.cluster,
        settings.projector.shard,
        statement_timeout_s=settings.database.statement_timeout_s,
    )
    projection = Projection(settings, bus, store, stop, metrics=metrics)
    if checks is not None:
        checks.ready("projector", lambda: projection.problem)
    try:
        await projection.run()
    except ReadModelReplaced:
        return not stop.is_set()
    log.info("projector_stopped", position=projection.world.meta.position)
    return False


def _collect_rarely() -> None:
    """Let the garbage collector look for cycles rarely.

    The fold makes values by the hundred thousand that live for a while and form no cycles; looking
    through them every 700 allocations took an eighth of a busy projector's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


async def _database_ready(url: str, stop: asyncio.Event) -> bool:
    """Wait for a database that does not answer yet; False when `stop` came first."""
    backoff = Backoff(first_s=0.5, ceiling_s=10.0)
    while not stop.is_set():
        try:
            await asyncio.to_thread(migrate.check, url)
        except DatabaseUnavailable as error:
            wait_s = next(backoff)
            log.warning("database_unavailable", error=str(error), wait_s=round(wait_s, 2))
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await stop.wait()
        else:
            return True
    return False
