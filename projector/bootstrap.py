"""Wiring: settings -> a running projection; with Leases, one after the other, when it is our turn.

Invariant: objects made here are closed here; a bus that was handed in stays open.
"""

import asyncio
import sys
from contextlib import AsyncExitStack, suppress

from podgroup.log import subjects
from projector.archive.periodic import archiving
from projector.live.projection import Projection
from projector.live.replicas import Replicas
from projector.measures.lag import watching
from projector.measures.metrics import ProjectorMetrics
from projector.storage.database import (
    DatabaseError,
    DatabaseUnavailable,
    database_url,
    shown,
)
from projector.storage.store import ReadModelReplaced, SqlStore, StaleProjector
from projector.upkeep import migrate
from projector.upkeep.retention import retaining
from runtime.backoff import Backoff
from runtime.collector import collect_rarely
from runtime.election import Elector
from runtime.health import Checks
from runtime.heartbeat import reporting
from runtime.jetstream import Bus
from runtime.jetstream import connect as connect_bus
from runtime.kube import connect as connect_kube
from runtime.lease import lease_name
from runtime.log import get_logger
from runtime.metrics import Metrics
from runtime.metrics import of as metrics_of
from runtime.settings import Settings, SettingsError
from runtime.signing import Signer

LOOK_S = 10.0
"""Seconds between a standby's checks of what it would need to take over."""

log = get_logger("projector")


async def run_projector(
    settings: Settings,
    stop: asyncio.Event,
    *,
    bus: Bus | None = None,
    checks: Checks | None = None,
) -> None:
    """Fold the log of a cluster into the read model and publish decisions, until `stop`.

    `bus` is shared with the caller when given, else made from `settings` and closed. `checks` learn
    whether the projection has caught up.

    Raises:
        DatabaseError: the database is at the schema of another version (`gatelog migrate`).
        StaleProjector: another projector writes this cluster, and there are no Leases.
        KubeError: the API server cannot be reached as configured (with Leases).
        BusError: the streams cannot be prepared and retrying does not help.
    """
    url = database_url(settings)
    metrics = metrics_of(checks, settings)
    part = _Projector(settings, url, stop, metrics)
    if checks is not None:
        # Before anything can wait: a probe must not find us ready because nothing was asked.
        checks.ready("projector", lambda: part.problem)
    if not await part.database_ready():
        return
    # The fold and the thread that writes share the interpreter. At the default of 5 ms each of the
    # many short waits of a commit would cost that much while the fold is busy.
    sys.setswitchinterval(0.0005)
    # The fold makes values by the hundred thousand that live for a while and form no cycles;
    # looking through them every 700 allocations took an eighth of a busy projector's time.
    collect_rarely()
    async with AsyncExitStack() as stack:
        if bus is None:
            bus = await connect_bus(settings.nats, "projector")
            stack.push_async_callback(bus.close)
        await bus.ensure_streams(settings.streams)
        part.bus = bus
        said = subjects.health(settings.cluster, "*")
        await stack.enter_async_context(bus.hear(said, part.replicas.hear))
        beat = reporting(
            *(bus, settings, "projector", checks), leads=part.leads, beside=part.replicas.note
        )
        await stack.enter_async_context(beat)
        if not settings.lease.enabled:
            await part.run()
            return
        kube = await connect_kube(settings.kubernetes, part="projector")
        stack.push_async_callback(kube.close)
        name = lease_name("projector", settings.cluster)
        part.elector = Elector(kube, settings.lease, name, metrics=metrics)
        looking = asyncio.create_task(part.look_while_standing_by())
        stack.callback(looking.cancel)
        await part.elector.run(part.term, stop)


class _Projector:
    """Projections, one after the other: each begins with what the database holds."""

    def __init__(
        self,
        settings: Settings,
        url: str,
        stop: asyncio.Event,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self.bus: Bus | None = None
        self._url = url
        self.replicas = Replicas(settings.health.report_interval_s)
        self._unable = "starting"
        self._stop = stop
        self._shared = metrics
        self._metrics = ProjectorMetrics(metrics)
        self._projection: Projection | None = None
        self.elector: Elector | None = None

    @property
    def problem(self) -> str:
        """Why this replica is not ready, "" when it works or could take over."""
        if self._projection is not None:
            return self._projection.problem
        if self.bus is None:
            return self._unable
        if self.bus.problem:
            return self.bus.problem
        if self.elector is None:
            return "starting"
        return self.elector.problem or self._unable

    def leads(self) -> bool:
        """Return whether this replica holds the Lease."""
        return self.elector is not None and self.elector.leading

    async def database_ready(self) -> bool:
        """Wait for a database that does not answer yet; False when `stop` came first.

        Raises:
            DatabaseError: the database is not at the schema that this version needs.
        """
        backoff = Backoff(first_s=0.5, ceiling_s=10.0)
        while not self._stop.is_set():
            try:
                await asyncio.to_thread(migrate.check, self._url)
            except DatabaseUnavailable as error:
                wait_s, self._unable = next(backoff), f"database: {error}"
                log.warning("database_unavailable", error=str(error), wait_s=round(wait_s, 2))
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._stop.wait()
            else:
                self._unable = "starting"
                return True
        return False

    async def look_while_standing_by(self) -> None:
        """Look again and again whether we could take over: at the database, and at our key."""
        while True:
            if self._projection is None:
                try:
                    await asyncio.to_thread(migrate.check, self._url, brief=True)
                    if path := self._settings.projector.signing_key_file:
                        Signer(path)
                except (DatabaseError, SettingsError) as error:
                    kind = "database" if isinstance(error, DatabaseError) else "signing key"
                    self._unable = f"could not take over: {kind}: {error}"
                else:
                    self._unable = ""
            await asyncio.sleep(LOOK_S)

    async def term(self) -> None:
        """Work for as long as the Lease is ours, or until another projector has written."""
        try:
            await self.run(alone=True)
        except StaleProjector as error:
            # The Lease said that no other projector works: it is given back in any case.
            log.warning("checkpoint_conflict", error=str(error))

    async def run(self, *, alone: bool = False) -> None:
        """Fold until `stop`. `alone`: end what a replica that is gone left open at the database.

        Raises:
            StaleProjector: another projector writes this cluster.
        """
        settings, bus = self._settings, self.bus
        assert bus is not None
        days = settings.database.retention_days
        log.info("projector_started", database=shown(self._url), mode=settings.mode)
        async with (
            watching(self._metrics.lag, bus, settings.cluster),
            archiving(settings, bus, self._shared),
            retaining(self._url, days),
        ):
            while await self._replaced(bus, alone=alone):
                log.warning("read_model_replaced", database=shown(self._url))

    async def _replaced(self, bus: Bus, *, alone: bool) -> bool:
        """Run a projection; True when its read model was rebuilt under it, so another is due."""
        store = SqlStore(
            self._url,
            self._settings.cluster,
            statement_timeout_s=self._settings.database.statement_timeout_s,
            alone=alone,
        )
        self._projection = projection = Projection(
            self._settings,
            bus,
            store,
            self._stop,
            metrics=self._metrics,
            replicas=self.replicas,
        )
        try:
            await projection.run()
        except ReadModelReplaced:
            return not self._stop.is_set()
        finally:
            self._projection = None
            log.info("projector_stopped", position=projection.world.meta.position)
        return False
