"""Wiring: settings -> a running projection.

Invariant: what was made here is closed here; a bus that was handed in stays open.
"""

import asyncio

from podgroup.runtime.health import Checks
from podgroup.runtime.jetstream import Bus
from podgroup.runtime.jetstream import connect as connect_bus
from podgroup.runtime.log import get_logger
from podgroup.runtime.settings import Settings
from projector import migrate
from projector.database import database_url, parse, shown
from projector.projection import Projection
from projector.store import SqlStore

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
    await asyncio.to_thread(migrate.check, url)
    own_bus: Bus | None = None
    try:
        if bus is None:
            bus = own_bus = await connect_bus(settings.nats, "projector")
        await bus.ensure_streams(settings.streams)
        store = SqlStore(
            url,
            settings.cluster,
            settings.projector.shard,
            statement_timeout_s=settings.database.statement_timeout_s,
        )
        overlap = parse(url).get_backend_name() == "postgresql"
        projection = Projection(settings, bus, store, stop, overlap=overlap)
        if checks is not None:
            checks.ready("projector", lambda: projection.problem)
        log.info("projector_started", database=shown(url), mode=settings.mode)
        await projection.run()
        log.info("projector_stopped", position=projection.world.meta.position)
    finally:
        if own_bus is not None:
            await own_bus.close()
