"""Composition root of the ingest deployment: builds the parts, runs sessions until asked to stop.

    bus ── session: 9 watchers ─► publisher ─► EVENTS        (session after session)
    kube ─┤   (of several replicas in the one that holds the Lease)
          └ webhook server, if enabled; in every replica, it does not depend on sessions

Health: ready means that every watched kind is followed, or that another replica holds the Lease and
this replica could take it; alive means that the process runs, since everything that fails here is
retried.

Invariant: an object made here is closed here, in reverse order; an object that was given stays
open.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import TypeVar

from ingest.lookout import Restored
from ingest.metrics import IngestMetrics, WebhookMetrics
from ingest.requests import relist_requested
from ingest.resume import Known
from ingest.session import Changed, Session, begin
from podgroup.log.events import ClusterRestored
from podgroup.model.objects import Kind, kinds_watched
from runtime import jetstream
from runtime import kube as kubernetes
from runtime.access import Right, Rights, watched
from runtime.backoff import Backoff
from runtime.collector import collect_rarely
from runtime.election import Elector
from runtime.health import Checks
from runtime.heartbeat import reporting
from runtime.jetstream import (
    Bus,
    BusClosed,
    BusError,
    BusUnavailable,
    Overtaken,
    PublishRefused,
    StreamMissing,
)
from runtime.kube import KubeClient
from runtime.lease import lease_name
from runtime.log import get_logger
from runtime.metrics import of as metrics_of
from runtime.settings import Settings

YOUNG = 20_000
"""Objects that may be made before the garbage collector looks: a page of a list has as many."""

_QUEUEING = "kueue.x-k8s.io"
_RIGHTS = tuple(
    Right(group, resource, verb)
    for group, resource in (
        *(("", "pods"), (_QUEUEING, "workloads")),
        *((_QUEUEING, "clusterqueues"), (_QUEUEING, "localqueues")),
    )
    for verb in ("list", "watch")
)
"""The rights that every list and watch that matters needs."""
_SETS = tuple(Right("apps", "statefulsets", verb) for verb in ("list", "watch"))

T = TypeVar("T")

log = get_logger("ingest")


async def run_ingest(
    settings: Settings,
    stop: asyncio.Event,
    *,
    bus: Bus | None = None,
    kube: KubeClient | None = None,
    checks: Checks | None = None,
) -> None:
    """Follow the API server into the log until `stop` is set.

    `bus` and `kube` are the caller's if it gives them; otherwise they are made from the settings
    and closed on return. Its state is registered in `checks`, which the caller serves.

    Raises:
        KubeError, BusError: the configuration cannot be used; what passes by itself is retried.
        OSError, CertificateError: the webhook cannot be served as configured.
    """
    metrics = metrics_of(checks, settings)
    ingest = _Ingest(settings, IngestMetrics(metrics))
    if checks is not None:
        # Before anything can wait: a probe must not find us ready because nothing was asked.
        checks.ready("ingest", lambda: ingest.problem)
    async with AsyncExitStack() as stack:
        if bus is None:
            bus = await _unless(stop, jetstream.connect(settings.nats, "gatelog-ingest"))
            if bus is None:
                return
            stack.push_async_callback(bus.close)
        if kube is None:
            kube = await kubernetes.connect(settings.kubernetes, part="ingest")
            stack.push_async_callback(kube.close)
        collect_rarely(YOUNG)
        if settings.webhook.enabled:
            # Its dependencies are not needed, and need not be installed, where it is off.
            from ingest.registration import webhook

            serving = webhook(settings, kube, checks, restored=ingest.restored)
            server = await stack.enter_async_context(serving)
            server.answered = WebhookMetrics(metrics, server.counts).answered
        log_, api = bus, kube
        rights = _RIGHTS + (_SETS if settings.queueing.owned_groups else ())
        ingest.rights = await stack.enter_async_context(watched(Rights(api, rights)))
        await stack.enter_async_context(
            reporting(log_, settings, "ingest", checks, leads=ingest.leads)
        )
        if not settings.lease.enabled:
            await ingest.run(log_, api, stop)
            return
        name = lease_name("ingest", settings.cluster)
        elector = Elector(api, settings.lease, name, metrics=metrics)
        ingest.stand_by(log_, elector)
        await elector.run(lambda: ingest.run(log_, api, stop), stop)


class Asked(Changed):
    """A reader of the log needs everything listed again."""


class _Ingest:
    """Sessions, one after the other."""

    def __init__(self, settings: Settings, metrics: IngestMetrics) -> None:
        self._settings = settings
        self._metrics = metrics
        metrics.watch(self._following, self._pending_bytes, self._held)
        self._bus: Bus | None = None
        self._elector: Elector | None = None
        self._session: Session | None = None
        self.rights: Rights | None = None
        self._known: Known | None = None
        self._afresh = False
        self._restored: ClusterRestored | None = None
        self.restored = asyncio.Event()
        """Set each time the cluster was restored; its reader clears it."""
        self._cause = ""
        self._backoff = Backoff(ceiling_s=10.0)

    @property
    def problem(self) -> str:
        if self._bus is None:
            return "not connected to NATS yet"
        if self._bus.problem:
            return self._bus.problem
        if self._elector is not None and not self._elector.leading:
            return self._elector.problem or self._lacking
        return self._session.problem if self._session else self._cause or "starting"

    def leads(self) -> bool:
        """Return whether this replica holds the Lease."""
        return self._elector is not None and self._elector.leading

    @property
    def _lacking(self) -> str:
        lacks = self.rights.problem if self.rights is not None else ""
        return f"could not take over: {lacks}" if lacks else ""

    def _following(self) -> dict[Kind, bool]:
        watchers = self._session.watchers if self._session else ()
        kinds = kinds_watched(self._settings.mode, self._settings.queueing)
        return dict.fromkeys(kinds, False) | {w.kind: not w.problem for w in watchers}

    def _pending_bytes(self) -> int:
        return self._session.publisher.pending_bytes if self._session else 0

    def _held(self) -> int:
        return self._session.pods.held if self._session else 0

    def stand_by(self, bus: Bus, elector: Elector) -> None:
        """Take the state of standing by from a candidate for the Lease."""
        self._bus, self._elector = bus, elector

    async def run(self, bus: Bus, kube: KubeClient, stop: asyncio.Event) -> None:
        self._bus, self._cause = bus, ""
        while not stop.is_set():
            try:
                session = await _unless(stop, self._open(bus, kube))
                if session is None:
                    return
                await self._follow(session, stop)
            except BusClosed:
                # By its owner: a shared bus may be closed before we are asked to stop.
                if stop.is_set():
                    return
                raise
            except (
                *(BusUnavailable, StreamMissing, PublishRefused, Overtaken),
                *(Changed, Restored),
            ) as error:
                self._cause = str(error)
                log.warning("session_ended", cause=self._cause)
                await _unless(stop, asyncio.sleep(next(self._backoff)))

    async def _open(self, bus: Bus, kube: KubeClient) -> Session:
        await bus.ensure_streams(self._settings.streams)
        where = await begin(
            *(self._settings, bus, self._known, self._cause),
            afresh=self._afresh,
            restored=self._restored,
        )
        log.info("session_begins", positions=where.positions, otherwise=where.reason)
        self._metrics.session()
        return Session(self._settings, bus, kube, where, self._metrics)

    async def _follow(self, session: Session, stop: asyncio.Event) -> None:
        self._session = session
        assert self._bus is not None
        asked = asyncio.create_task(
            relist_requested(self._bus, self._settings.cluster, session.known.last_sequence)
        )
        running = asyncio.create_task(session.run(stop))
        try:
            await asyncio.wait([asked, running], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise Asked(asked.result())
            running.result()
        except (BusError, Changed, Restored) as error:
            if session.publisher.acked_sequence:
                self._known, self._afresh = session.known, False
                self._restored = None  # the log says so
            self._afresh = self._afresh or isinstance(error, Asked)
            if isinstance(error, Restored):
                self._restored = error.event
                self.restored.set()
                self._metrics.restored()
            raise
        finally:
            asked.cancel()
            running.cancel()
            await asyncio.gather(asked, running, return_exceptions=True)
            if session.publisher.acked_sequence:
                self._backoff.reset()
            self._session = None


async def _unless(stop: asyncio.Event, work: Awaitable[T]) -> T | None:
    """Wait for `work`; None when `stop` came first, and `work` is cancelled then."""
    task = asyncio.ensure_future(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        for each in (task, stopping):
            each.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)
