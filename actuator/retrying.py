"""The tries of one decision: which failures are retried, how often, and which tries the log has.

Theory. A passing failure is tried again here, in process, because another actuator could do no
better: the trouble is at the API server. Trouble of the whole server never uses up tries; trouble
of one object does, and ends in a parked message and a final outcome, so that the projector may
decide anew. The log has the first failure at once and then one every ten seconds: enough to
separate "late" from "lost" without a line per try.

Invariant: a decision that leaves here as Ack or Park has a final outcome stored in EVENTS.
"""

import asyncio
import time
from typing import Final

from actuator.execute import execute
from actuator.heads import DecisionHead
from actuator.kubeapi import KubeApi
from actuator.kubeevents import Emitter
from actuator.metrics import ActuatorMetrics
from actuator.outcomelog import OutcomeLog
from actuator.verdicts import Verdict, rejected
from actuator.window import Held
from podgroup.log.events import Decision, OutcomeRecorded
from podgroup.model.commands import UngatePod
from runtime.backoff import Backoff
from runtime.disposition import Ack, Disposition, Park, Retry
from runtime.log import get_logger
from runtime.settings import ActuatorSettings
from runtime.streak import Streak

REPORT_EVERY_S: Final = 10.0
"""Seconds between two `retrying` outcomes of one decision."""
SERVER_CEILING_S: Final = 5.0
"""Seconds between tries at most while the whole server is in trouble: the rush is limited by
`AdaptiveConcurrency`."""
SEVERAL: Final = 3
"""Pods whose gates could not be removed, from which on the trouble is not the pods' own."""
_OF_THE_OBJECT: Final = frozenset({400, 409, 413, 422})
"""Answers about the object as it is or would be: they show nothing about other writes."""


class RetryingExecutor:
    """Carries decisions out; `stopping` ends the waiting between tries."""

    def __init__(
        self,
        settings: ActuatorSettings,
        api: KubeApi,
        emitter: Emitter,
        outcomes: OutcomeLog,
        stopping: asyncio.Event,
        metrics: ActuatorMetrics,
    ) -> None:
        self._settings = settings
        self._api = api
        self._emitter = emitter
        self._outcomes = outcomes
        self._stopping = stopping
        self._metrics = metrics
        self._ungating = Streak("no gate could be removed", objects=SEVERAL)
        # Bound: putting it together for each outcome's line would cost time.
        self._log = get_logger("actuator").bind()

    @property
    def trouble(self) -> str:
        """Why no gate comes off, "" after a success or while none was due."""
        return self._ungating.problem

    async def carry_out(self, held: Held, decision: Decision, place: int) -> Disposition:
        """Try until the decision is done, refused, or sent back; its outcome is stored on return.

        `place` is the decision's index in its message.
        """
        settings = self._settings
        waits: Backoff | None = None
        attempt = counted = 0
        reported_at = float("-inf")
        report: asyncio.Future[int] | None = None
        while not self._stopping.is_set():
            attempt += 1
            began = time.monotonic()
            try:
                verdict = await execute(self._api, self._emitter, decision)
            except Exception as error:
                self._log.exception("execute_failed", decision=decision.id, group=decision.group)
                reason = f"carrying it out failed: {type(error).__name__}: {error}"
                return await self.give_up(held, reason, decision, place, attempt)
            self._line(decision, verdict, attempt, began)
            self._note(decision, verdict)
            if verdict.status != "retrying":
                await self._record(held, decision, verdict, attempt)
                self._metrics.ended(decision, verdict.status)
                return Ack()
            self._metrics.retried(decision)
            counted += not verdict.whole_server
            if counted >= settings.max_attempts:
                reason = f"gave up after {attempt} tries; the last: {verdict.message}"
                return await self.give_up(held, reason, decision, place, attempt)
            # While the log is away too, the first report waits and no further one joins it.
            if began - reported_at >= REPORT_EVERY_S and (report is None or report.done()):
                reported_at = began
                report = self._record(held, decision, verdict, attempt)
            waits = waits or Backoff(settings.retry_first_s, ceiling_s=settings.retry_ceiling_s)
            await first(self._stopping, self._wait_s(verdict, waits))
        return Retry(0, "the actuator is stopping")

    def _note(self, decision: Decision, verdict: Verdict) -> None:
        if not isinstance(decision.command, UngatePod):
            return
        if verdict.status == "applied":
            self._ungating.succeeded()
        elif verdict.status != "obsolete" and not verdict.again:
            if verdict.http_status not in _OF_THE_OBJECT:
                self._ungating.failed(verdict.message, decision.command.target.uid)

    def _wait_s(self, verdict: Verdict, waits: Backoff) -> float:
        wait_s = next(waits)
        if verdict.whole_server:
            wait_s = min(wait_s, SERVER_CEILING_S)
        return max(wait_s, verdict.retry_after_s or 0.0)

    def _record(
        self,
        held: Held,
        head: Decision | DecisionHead,
        verdict: Verdict,
        attempt: int,
        parked: str = "",
    ) -> asyncio.Future[int]:
        outcome = OutcomeRecorded(
            decision=head.id,
            group=head.group,
            status=verdict.status,
            delivery=held.delivery.delivery,
            attempt=attempt,
            http_status=verdict.http_status,
            message=verdict.message,
            uid=verdict.uid,
            resource_version=verdict.resource_version,
            by="actuator",
            parked=parked,
            # A write before this one may have been carried out though its answer was lost.
            unchanged=verdict.unchanged and attempt == held.delivery.delivery == 1,
        )
        return self._outcomes.record(outcome)

    async def give_up(
        self,
        held: Held,
        reason: str,
        head: Decision | DecisionHead,
        place: int,
        attempt: int = 1,
    ) -> Disposition:
        """Record the final outcome of a decision, which says where it was parked; then park it."""
        self._metrics.parked(head if isinstance(head, Decision) else None)
        where = f"{held.delivery.message.sequence}/{place}"
        await self._record(held, head, rejected(f"parked: {reason}"), attempt, where)
        return Park(reason)

    def _line(self, decision: Decision, verdict: Verdict, attempt: int, began: float) -> None:
        target = decision.command.target
        write = self._log.info if verdict.status in ("applied", "obsolete") else self._log.warning
        write(
            "outcome",
            decision=decision.id,
            group=decision.group,
            rule=decision.rule,
            action=decision.command.action,
            target=f"{target.kind} {target.namespace}/{target.name}",
            status=verdict.status,
            http_status=verdict.http_status,
            attempt=attempt,
            duration_ms=round((time.monotonic() - began) * 1000, 1),
            message=verdict.message,
        )


async def first(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for `event`, but `timeout_s` seconds at most."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
