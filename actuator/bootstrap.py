"""Putting the actuator together: bus, API server, concurrency, loop.

Theory. The actuator keeps no state: its position is JetStream's durable consumer, its outcomes are
in EVENTS. Any number of replicas may share the consumer; each gets other decisions, and if two
replicas get the same decision, the preconditions of the writes make the second a repetition.

Invariant: a bus or client that is made here is closed here; a bus or client that was handed in
stays open.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from actuator.concurrency import AdaptiveConcurrency
from actuator.kubeapi import KubeApi
from actuator.kubeevents import Emitter, wanted_in
from actuator.loop import Loop
from actuator.metrics import ActuatorMetrics
from actuator.window import held_at_most
from podgroup.log import subjects
from runtime.access import Right, Rights, watched
from runtime.collector import collect_rarely
from runtime.health import Checks
from runtime.heartbeat import reporting
from runtime.jetstream import Bus
from runtime.jetstream import connect as connect_bus
from runtime.kube import KubeClient
from runtime.kube import connect as connect_kube
from runtime.log import get_logger
from runtime.metrics import of as metrics_of
from runtime.settings import Settings

YOUNG = 20_000
"""Objects that may be made before the garbage collector looks: of a request some fifty live on."""

T = TypeVar("T")


async def run_actuator(
    settings: Settings,
    stop: asyncio.Event,
    *,
    bus: Bus | None = None,
    kube: KubeClient | None = None,
    checks: Checks | None = None,
) -> None:
    """Carry out decisions until `stop` is set.

    `bus` and `kube` are shared with the caller when given, else made from `settings` and closed.
    `checks` learn whether the log and the API server answer.

    Raises:
        BusError: the stream cannot be prepared and retrying does not help.
    """
    own_bus = own_kube = None
    # Before anything can wait: a probe must not find us ready because nothing was asked.
    if checks is not None:
        metrics_of(checks, settings)
        checks.ready("actuator: log", lambda: "not connected to NATS yet")
    try:
        if bus is None:
            bus = own_bus = await _unless(stop, connect_bus(settings.nats, "actuator"))
        if kube is None and bus is not None:
            kube = own_kube = await connect_kube(settings.kubernetes, part="actuator")
        if bus is not None and kube is not None:
            await _run(settings, stop, bus, kube, checks)
    finally:
        if own_kube is not None:
            await own_kube.close()
        if own_bus is not None:
            await own_bus.close()


async def _run(
    settings: Settings, stop: asyncio.Event, bus: Bus, kube: KubeClient, checks: Checks | None
) -> None:
    log = get_logger("actuator")
    await bus.ensure_streams(settings.streams)
    concurrency = AdaptiveConcurrency(settings.actuator.max_in_flight)
    metrics = ActuatorMetrics(metrics_of(checks, settings))
    untrack = settings.actuator.managed_fields == "clear"
    api = KubeApi(kube, concurrency, metrics.answered, untrack=untrack)
    wanted = wanted_in(settings.mode, settings.actuator.events)
    emitter = Emitter(api, concurrency, wanted=wanted)
    loop = Loop(settings, bus, api, emitter, metrics)
    metrics.watch(concurrency, emitter, lambda: loop.held)
    rights = Rights(kube, (Right("", "pods", "patch"),))
    if checks is not None:
        checks.ready("actuator: log", lambda: loop.trouble)
        checks.ready("actuator: API server", lambda: rights.problem or api.trouble)
        checks.ready("actuator: gates", lambda: loop.ungating)
    filter_subject = subjects.decisions(settings.cluster)
    worker = bus.work(
        subjects.DECISIONS,
        subjects.actuator_consumer(settings.cluster),
        filter_subject,
        max_in_flight=held_at_most(settings.actuator.max_in_flight),
        ack_wait_s=settings.actuator.ack_wait_s,
        create=settings.streams.create,
    )
    collect_rarely(YOUNG)
    log.info("actuator_started", server=kube.server, subject=filter_subject)
    try:
        async with watched(rights), reporting(bus, settings, "actuator", checks):
            await loop.run(worker, stop)
    finally:
        await worker.close()
        log.info("actuator_stopped")


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`, or None if `stop` is set first: `work` may wait for ever."""
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return None
    finally:
        stopping.cancel()
        task.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)
