"""The consume loop: decisions in, outcomes out, many at once, in order for each object.

Theory. Each delivery is a message with one or more decisions. Each decision is a task, but for
internal decisions, which write nothing. A task waits for the predecessor on the same object and is
carried out (`retrying`); the message is acknowledged last, when the stream has all outcomes. A
crash at any point therefore leads to a second delivery of decisions whose repetition changes
nothing. While work is left, the message is kept alive by in-progress marks, so no other actuator
gets it.

    Ack     the outcome is stored
    Retry   we are stopping: the whole message goes back at once
    Park    the decision cannot be understood or carried out: a copy goes to PARKED

Where keys are set, a message without a valid signature is parked as a whole (`refusals`): even its
ids are ignored, lest a forger declare others' decisions as failed.

Invariant: every decision that was delivered ends in a final outcome or goes back to the stream; a
process carries out one decision on an object at a time, but for a command that ends the object
beside a report.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import Struct

from actuator.fairqueue import ON_BEHALF, Claim
from actuator.fence import forbidden
from actuator.heads import DecisionHead, decision_head
from actuator.kubeapi import KubeApi
from actuator.kubeevents import Emitter
from actuator.metrics import ActuatorMetrics
from actuator.outcomelog import OutcomeLog
from actuator.refusals import Refusals
from actuator.retrying import RetryingExecutor, first
from actuator.startlimiter import StartLimiter
from actuator.urgency import GATHER_S, ends, flow, gathers, is_urgent, reports
from actuator.window import AWAY_S, Held, crowding, held_at_most
from podgroup.log import codec, subjects
from podgroup.log.events import Decision
from podgroup.log.parked import ParkedMessage, encode_parked
from podgroup.model.reasons import PARKED_DECISION
from runtime.backoff import Backoff
from runtime.disposition import Disposition, Park, Retry
from runtime.jetstream import Bus, BusError, Delivery, StreamMissing, Worker
from runtime.log import get_logger
from runtime.settings import Settings
from runtime.signing import Verifier
from runtime.streak import Streak

GRACE_S: Final = 5.0
"""Seconds that requests under way get to end when we are asked to stop."""
BREATH: Final = 64
"""Messages taken before the tasks under way get their turn."""
PULL_S: Final = 0.5
"""Seconds a pull waits for a message, and so the longest time a stop goes unnoticed."""

Key = tuple[str, str, str]
_Handling = Coroutine[Any, Any, Disposition]


class Turn(Struct):
    """A decision's place among the decisions on its object: it goes after `before`, and sets
    `done`.
    """

    key: Key
    claim: Claim
    done: asyncio.Event
    before: "Turn | None" = None
    passed: bool = False
    """The decision only reports: a command that ends the object passes it."""

    def pass_reports(self) -> None:
        """Wait for nothing that only reports."""
        while self.before is not None and self.before.passed:
            self.before = self.before.before

    def promote_those_before(self) -> None:
        """Make the decisions urgent that an urgent decision waits for."""
        turn = self.before
        while turn is not None and not turn.claim.urgent:
            turn.claim.promote()
            turn = turn.before


class Loop:
    """Carries out the decisions of a worker until asked to stop."""

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
        self._kueue = settings.mode == "kueue"
        self._bus = bus
        self._emitter = emitter
        self._outcomes = OutcomeLog(bus, settings.cluster)
        keys = settings.actuator.decision_keys_file
        self._verifier = Verifier(keys) if keys else None
        self._refusals = Refusals(self._outcomes, metrics)
        self._believed = Streak("no decision is believed")
        self._held: dict[int, Held] = {}
        self._most_held = held_at_most(settings.actuator.max_in_flight)
        self._slow = api.concurrency.slow
        self._last: dict[Key, Turn] = {}
        self._stopping = asyncio.Event()
        self._trouble = ""
        self._starts = StartLimiter()
        self._executor = RetryingExecutor(
            settings.actuator, api, emitter, self._outcomes, self._stopping, metrics
        )
        self._log = get_logger("actuator")

    @property
    def held(self) -> int:
        """Decisions that were delivered and are not dealt with."""
        return sum(held.left for held in self._held.values())

    @property
    def trouble(self) -> str:
        """Why no decisions come, "" when they may."""
        return self._bus.problem or self._trouble

    @property
    def ungating(self) -> str:
        """Why no gate comes off, "" after a success or while none was due."""
        return self._believed.problem or self._executor.trouble

    async def run(self, worker: Worker, stop: asyncio.Event) -> None:
        """Work until `stop` is set and the work under way has ended or gone back."""
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
                # At once: otherwise the server would go on to hand out messages to us.
                await worker.close()
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
                    # Lost or removed while we ran; what the stream held is decided anew when it is
                    # due.
                    await self._bus.ensure_streams(self._streams)
                    missing = False
                deliveries = await worker.next(PULL_S)
                backoff.reset()
                self._trouble = ""
            except BusError as error:
                wait_s, self._trouble = next(backoff), str(error)
                self._log.warning("decisions_unavailable", error=str(error), retry_in_s=wait_s)
                await first(stop, wait_s)
                missing = isinstance(error, StreamMissing)
                continue
            for count, delivery in enumerate(deliveries, 1):
                self._accept(delivery)
                if not count % BREATH:
                    await asyncio.sleep(0)
            if len(self._held) >= self._most_held:
                await self._make_room()

    async def _make_room(self) -> None:
        """Send back messages that wait for slow namespaces alone."""
        for _ in range(2):  # the tasks just taken begin: their turns are given up in order
            await asyncio.sleep(0)
        back = crowding(list(self._held.values()), self._slow, self._most_held)
        tasks = [held.task for held in back if held.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(BusError):  # they come back after ack_wait_s anyway
            for held in back:
                await held.delivery.nak(AWAY_S)
        if back:
            self._log.info("decisions_sent_back", count=len(back), why="their namespaces are slow")

    def _accept(self, delivery: Delivery) -> None:
        message = delivery.message
        known = self._held.get(message.sequence)
        if known is not None:
            # Delivered again though we have it: an in-progress mark was lost. Keep the work.
            known.delivery = delivery
            return
        strange = self._verifier.problem(message) if self._verifier is not None else ""
        if strange:
            self._believed.failed(strange)
        else:
            self._believed.succeeded()
        bodies = [message.body] if strange else codec.split_decisions(message.body)
        held = Held(delivery, len(bodies))
        self._held[message.sequence] = held
        if strange:
            work = {0: self._disbelieve(held, strange)}
        else:
            # Turns are taken here and not in the tasks: they are in the order of the stream.
            parts = ((place, self._part(held, body, place)) for place, body in enumerate(bodies))
            work = {place: one for place, one in parts if one is not None}
        held.task = asyncio.create_task(self._deal_with(held, bodies, work))

    async def _deal_with(self, held: Held, bodies: list[bytes], work: dict[int, _Handling]) -> None:
        """Find a disposition for each decision of a message, and carry those out.

        `work` is by the place of a decision in the message.
        """
        message = held.delivery.message
        parts = list(work.values())
        try:
            found = [await parts[0]] if len(parts) == 1 else await asyncio.gather(*parts)
            for ordinal, disposition in zip(work, found, strict=True):
                if isinstance(disposition, Park):
                    await self._park(held, ordinal, bodies[ordinal], disposition.reason)
            back = [disposition for disposition in found if isinstance(disposition, Retry)]
            if back:
                await held.delivery.nak(max(retry.after_s for retry in back))
            else:
                await held.delivery.ack()
        except BusError as error:
            # The message is delivered again after ack_wait_s, and repeating it does no harm.
            self._log.warning("acknowledgement_lost", sequence=message.sequence, error=str(error))
        finally:
            del self._held[message.sequence]

    def _part(self, held: Held, body: bytes, place: int) -> _Handling | None:
        """Decode a decision and take its turn at its object; return the coroutine to await.

        None: the decision is internal, as two of a single pod's four are, and needs no request.
        """
        try:
            decision = codec.decode_decision(body)
        except msgspec.MsgspecError as error:
            reason = f"no decision this version can read: {error}"
            return self._refuse(held, decision_head(body), reason, place)
        beyond = forbidden(decision.command, labels_of_checks=self._kueue)
        if beyond:
            return self._refuse(held, decision, f"outside of the fence: {beyond}", place)
        if decision.command.about.internal:
            held.left -= 1
            return None
        target = decision.command.target
        urgent = is_urgent(decision.command, kueue=self._kueue)
        claim = Claim(flow(decision.command), decision.group, urgent=urgent)
        key = (target.kind, target.namespace, target.name)
        turn = Turn(key, claim, asyncio.Event(), passed=reports(decision.command))
        turn.before = self._last.get(turn.key)
        if ends(decision.command):
            turn.pass_reports()
        if urgent:
            turn.promote_those_before()
        self._last[turn.key] = turn
        held.claims.append(claim)
        return self._handle(held, decision, turn, place)

    async def _refuse(
        self, held: Held, head: Decision | DecisionHead | None, reason: str, place: int
    ) -> Disposition:
        if head is None:
            return await self._disbelieve(held, reason)
        held.left -= 1
        return await self._executor.give_up(held, reason, head, place)

    async def _disbelieve(self, held: Held, reason: str) -> Disposition:
        """Park a message that is no decision of ours; its content is ignored."""
        held.left -= 1
        await self._refusals.report(held.delivery.message, reason)
        return Park(reason)

    async def _handle(self, held: Held, decision: Decision, turn: Turn, place: int) -> Disposition:
        try:
            if turn.before is not None:
                await turn.before.done.wait()
                turn.before = None
            if (
                gathers(decision.command, kueue=self._kueue)
                and 2 * len(self._held) < self._most_held
            ):
                await first(self._stopping, GATHER_S)  # a fuller window has no room for waiting
            await self._starts.turn(turn.claim)
            # Set in the task of the decision, or of its message when it has no other decision.
            ON_BEHALF.set(turn.claim)
            return await self._executor.carry_out(held, decision, place)
        finally:
            held.left -= 1
            held.claims.remove(turn.claim)
            turn.done.set()
            if self._last.get(turn.key) is turn:
                del self._last[turn.key]

    async def _park(self, held: Held, ordinal: int, body: bytes, reason: str) -> None:
        message = held.delivery.message
        await self._bus.publish(
            subjects.parked(self._cluster),
            encode_parked(
                ParkedMessage(
                    by="actuator",
                    reason=PARKED_DECISION,
                    message=reason,
                    stream=subjects.DECISIONS,
                    seq=message.sequence,
                    ord=ordinal,
                    at=message.at,
                    object=message.subject,
                    body=body,
                )
            ),
            f"parked/{subjects.DECISIONS}/{message.sequence}/{ordinal}/{message.at.isoformat()}",
        )
        self._log.error(
            "decision_parked", sequence=message.sequence, subject=message.subject, reason=reason
        )

    async def _keep_alive(self) -> None:
        """Mark the held messages as in progress, three times per ack wait."""
        while True:
            await asyncio.sleep(self._settings.ack_wait_s / 3)
            try:
                for held in list(self._held.values()):
                    await held.delivery.in_progress()
            except BusError as error:
                self._log.warning("in_progress_lost", error=str(error))

    async def _wind_up(self) -> None:
        """Let requests under way end, then send back the messages that are left."""
        tasks = [held.task for held in self._held.values() if held.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_S)
        left = list(self._held.values())
        for held in left:
            if held.task is not None:
                held.task.cancel()
        with suppress(BusError):  # they come back after ack_wait_s anyway
            for held in left:
                await held.delivery.nak(0)
        if left:
            self._log.info("decisions_sent_back", count=len(left))
