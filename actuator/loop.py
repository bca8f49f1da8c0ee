"""The consume loop: decisions in, outcomes out, many at once, in order for each object.

Theory. Each delivery is a task. It waits for its predecessor on the same object, carries the
decision out (`tries`), and acknowledges the message last, when the stream has the outcome. A crash
at any point therefore leads to a second delivery of a decision whose repetition changes nothing.
While a task works or waits, its message is kept alive by in-progress marks, so no other actuator
gets it.

    Ack     the outcome is stored (or the decision is a record and there is none)
    Retry   we are stopping: the message goes back at once
    Park    the message cannot be understood or carried out: a copy goes to PARKED

Invariant: every decision that was delivered ends in a final outcome or goes back to the stream;
two decisions on one object are never carried out at the same time by one process.
"""

import asyncio
from typing import Final, assert_never

import msgspec

from actuator.kubeapi import KubeApi
from actuator.kubeevents import Emitter
from actuator.metrics import ActuatorMetrics
from actuator.outcomelog import OutcomeLog
from actuator.park import parked_body
from actuator.tries import Held, Tries, first
from podgroup import codec, subjects
from podgroup.runtime.backoff import Backoff
from podgroup.runtime.disposition import Ack, Disposition, Park, Retry
from podgroup.runtime.jetstream import Bus, BusError, Delivery, StreamMissing, Worker
from podgroup.runtime.log import get_logger
from podgroup.runtime.settings import Settings

GRACE_S: Final = 5.0
"""Seconds that requests under way get to end when we are told to stop."""
PULL_S: Final = 0.5
"""Seconds a pull waits for a message, and so the longest time a stop goes unnoticed."""

Key = tuple[str, str, str]


class Loop:
    """Carries out the decisions of a worker until told to stop."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        api: KubeApi,
        emitter: Emitter,
        metrics: ActuatorMetrics,
    ) -> None:
        self._settings = settings.actuator
        self._streams = settings.streams
        self._cluster = settings.cluster
        self._bus = bus
        self._emitter = emitter
        self._outcomes = OutcomeLog(bus, settings.cluster)
        self._held: dict[int, Held] = {}
        self._last: dict[Key, asyncio.Event] = {}
        self._stopping = asyncio.Event()
        self._tries = Tries(
            settings.actuator, api, emitter, self._outcomes, self._stopping, metrics
        )
        self._log = get_logger("actuator")

    @property
    def held(self) -> int:
        """Decisions that were delivered and are not dealt with."""
        return len(self._held)

    async def run(self, worker: Worker, stop: asyncio.Event) -> None:
        """Work until `stop` is set and what is under way has ended or gone back."""
        async with asyncio.TaskGroup() as background:
            helpers = [
                background.create_task(self._outcomes.run()),
                background.create_task(self._emitter.run()),
                background.create_task(self._keep_alive()),
            ]
            try:
                await self._pull(worker, stop)
            finally:
                self._stopping.set()
                await self._wind_up()
                await self._emitter.drain(GRACE_S)
                for helper in helpers:
                    helper.cancel()

    async def _pull(self, worker: Worker, stop: asyncio.Event) -> None:
        backoff = Backoff(first_s=0.2, ceiling_s=5.0)
        missing = False
        while not stop.is_set():
            try:
                if missing:
                    # Lost or removed while we ran; what it held is decided anew when it is due.
                    await self._bus.ensure_streams(self._streams)
                    missing = False
                deliveries = await worker.next(PULL_S)
                backoff.reset()
            except BusError as error:
                wait_s = next(backoff)
                self._log.warning("decisions_unavailable", error=str(error), retry_in_s=wait_s)
                await first(stop, wait_s)
                missing = isinstance(error, StreamMissing)
                continue
            for delivery in deliveries:
                self._take(delivery)

    def _take(self, delivery: Delivery) -> None:
        message = delivery.message
        known = self._held.get(message.sequence)
        if known is not None:
            # Delivered again though we have it: an in-progress mark was lost. Keep the work.
            known.delivery = delivery
            return
        held = Held(delivery, int(message.subject.rsplit(".", 1)[1]))
        self._held[message.sequence] = held
        held.task = asyncio.create_task(self._deal_with(held))

    async def _deal_with(self, held: Held) -> None:
        """Find a disposition for a message, and carry that out."""
        try:
            disposition = await self._handle(held)
            match disposition:
                case Ack():
                    await held.delivery.ack()
                case Retry(after_s=after_s):
                    await held.delivery.nak(after_s)
                case Park(reason=reason):
                    await self._park(held, reason)
                    await held.delivery.ack()
                case never:
                    assert_never(never)
        except BusError as error:
            # The message is delivered again after ack_wait_s, and repeating it does no harm.
            self._log.warning(
                "acknowledgement_lost", sequence=held.delivery.message.sequence, error=str(error)
            )
        finally:
            del self._held[held.delivery.message.sequence]

    async def _handle(self, held: Held) -> Disposition:
        try:
            decision = codec.decode_decision(held.delivery.message.body)
        except msgspec.MsgspecError as error:
            return await self._tries.give_up(held, f"no decision this version can read: {error}")
        target = decision.command.target
        key = (target.kind, target.namespace, target.name)
        before, done = self._last.get(key), asyncio.Event()
        self._last[key] = done
        try:
            if before is not None:
                await before.wait()
            return await self._tries.carry_out(held, decision)
        finally:
            done.set()
            if self._last.get(key) is done:
                del self._last[key]

    async def _park(self, held: Held, reason: str) -> None:
        message = held.delivery.message
        await self._bus.publish(
            subjects.parked(self._cluster, held.shard),
            parked_body(message, reason),
            f"parked/{subjects.DECISIONS}/{message.sequence}/{message.at.isoformat()}",
        )
        self._log.error(
            "decision_parked", sequence=message.sequence, subject=message.subject, reason=reason
        )

    async def _keep_alive(self) -> None:
        """Mark what is held as in progress, three times per ack wait."""
        while True:
            await asyncio.sleep(self._settings.ack_wait_s / 3)
            for held in list(self._held.values()):
                try:
                    await held.delivery.in_progress()
                except BusError as error:
                    self._log.warning("in_progress_lost", error=str(error))
                    break

    async def _wind_up(self) -> None:
        """Let requests under way end, then send back what is left."""
        tasks = [held.task for held in self._held.values() if held.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)
        left = list(self._held.values())
        for held in left:
            if held.task is not None:
                held.task.cancel()
        for held in left:
            try:
                await held.delivery.nak(0)
            except BusError:
                break  # delivered again after ack_wait_s anyway
        if left:
            self._log.info("decisions_sent_back", count=len(left))
