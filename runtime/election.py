"""Leader election: one of several replicas works, the others wait.

A Lease says who works, for liveness only: it makes a replica take over when the leader is gone. It
is no fence, since a process can be stopped between looking at its watch and acting. The fences are
the log's expected sequence (ingest) and the checkpoint (projector).

As in client-go (k8s.io/client-go/tools/leaderelection), no other clock is compared with ours: a
Lease has run out when *we* have seen it unchanged for its duration, by our monotonic clock. The
leader gives up earlier than that, `renew_deadline_s` after it last *sent* a renewal that succeeded,
so between two terms there are `duration_s - renew_deadline_s` seconds in which no process works. A
process that was stopped for longer finds its time over in the first turn of its loop.

    standby ── Lease free, or unchanged for its duration: write ──► leader ── work
       ▲                                                              │
       └──── renewed too late, or another holder: work is cancelled ──┤
       └──── work gave up (it noticed its fence): Lease given back ───┤
                                      asked to stop: work ends, Lease given back

Invariant: work runs only between a successful write of the Lease and `renew_deadline_s` after the
sending of the last one; it never runs twice at once in one process.
"""

import asyncio
import random
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

from runtime.kube_errors import KubeError
from runtime.lease import Api, Lease, LeaseStore, namespace_of
from runtime.log import get_logger
from runtime.metrics import Metrics, Series
from runtime.settings import LeaseSettings

log = get_logger("lease")

Work = Callable[[], Awaitable[None]]

_RELEASE_S = 2.0
"""Seconds allowed to giving the Lease back; without that it runs out."""


class Elector:
    """A candidate for the Lease `name`; `run` it."""

    def __init__(
        self,
        api: Api,
        settings: LeaseSettings,
        name: str,
        *,
        metrics: Metrics,
    ) -> None:
        self._settings = settings
        self._store = LeaseStore(api, namespace_of(settings.namespace), name)
        self.identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self.leading = False
        self.holder = ""
        """The holder of the Lease, as far as we know; "" for none."""
        self.problem = "the Lease was not read yet"
        """Why the Lease cannot be read or written, "" when it can."""
        self._seen: Lease | None = None
        self._seen_at = 0.0
        self._current = False
        self._renewed_at = 0.0
        self._said = ""
        self._changes = lease_metrics(metrics, lambda: {(name,): float(self.leading)})

    @property
    def name(self) -> str:
        """The name of the Lease."""
        return self._store.name

    async def run(self, work: Work, stop: asyncio.Event) -> None:
        """Do `work` while we lead, until `stop`.

        `work` must end by itself soon after `stop`. It is cancelled when the Lease is lost, and may
        return earlier to give the Lease up.

        Raises:
            Exception: what `work` raised while we led.
        """
        log.info("lease_wanted", lease=self.name, identity=self.identity)
        while not stop.is_set():
            if await self._acquired():
                await self._term(work, stop)
            # The order in which candidates come is left to chance.
            await _sleep(stop, self._settings.retry_period_s * random.uniform(0.8, 1.2))

    async def _acquired(self) -> bool:
        try:
            won = await self._try(self._settings.renew_deadline_s)
        except KubeError as error:
            self._trouble(str(error))
            return False
        self._fine()
        if not won and self.holder and self._said != self.holder:
            self._said = self.holder
            log.info("lease_held", lease=self.name, holder=self.holder)
        return won

    async def _term(self, work: Work, stop: asyncio.Event) -> None:
        assert self._seen is not None
        self.leading, self._said = True, ""
        transitions = self._seen.transitions
        self._changes(self.name, "acquired").inc()
        log.info("lease_acquired", lease=self.name, transitions=transitions)
        working = asyncio.ensure_future(work())
        keeping = asyncio.create_task(self._renew(working))
        try:
            await asyncio.wait({working})
        finally:
            keeping.cancel()
            working.cancel()
            await asyncio.gather(keeping, working, return_exceptions=True)
            lost, self.leading = not self.leading, False
            if not lost:
                await self._release()
        if lost:
            self._changes(self.name, "lost").inc()
        elif not working.cancelled():
            # After a loss the result of work does not count: it was cut short.
            working.result()

    async def _renew(self, working: "asyncio.Future[None]") -> None:
        """Renew the Lease; cancel the work when no renewal succeeds in time."""
        loop = asyncio.get_running_loop()

        def give_up(why: str) -> None:
            if self.leading:
                self.leading = False
                log.warning("lease_lost", lease=self.name, why=why, holder=self.holder)
                working.cancel()

        limit_s = self._settings.renew_deadline_s
        late = f"not renewed within {limit_s} s: {{}}"
        while self.leading:
            left_s = self._renewed_at + limit_s - time.monotonic()
            # By the loop's own timer, which falls due in the first turn after a stop.
            watchdog = loop.call_later(
                max(0.0, left_s), lambda: give_up(late.format(self.problem or "no answer"))
            )
            try:
                await asyncio.sleep(min(self._settings.retry_period_s, max(0.0, left_s)))
                left_s = self._renewed_at + limit_s - time.monotonic()
                if await self._try(max(0.05, left_s)):
                    self._fine()
                elif self.holder != self.identity:
                    give_up("another replica took it" if self.holder else "it was taken from us")
            except KubeError as error:
                self._trouble(str(error))
            finally:
                watchdog.cancel()

    async def _try(self, timeout_s: float) -> bool:
        """Write the Lease if it is ours or free; return whether it is ours now.

        Raises:
            KubeError: nothing is known.
        """
        sent_at = time.monotonic()
        timeout_s = min(timeout_s, self._settings.renew_deadline_s / 2)
        if not (self.leading and self._current):
            found = await self._store.read(timeout_s)
            now = time.monotonic()
            if self._seen is None or found is None or found.spec != self._seen.spec:
                self._seen_at = now
            self._seen = found
            self.holder = found.holder if found is not None else ""
            if found is not None and self.holder not in ("", self.identity):
                if self.leading or now < self._seen_at + found.duration_s:
                    return False
        self._current = False  # until the answer says so
        written = await self._store.write(
            self._seen,
            holder=self.identity,
            duration_s=round(self._settings.duration_s),
            timeout_s=timeout_s,
        )
        if written is None:
            return False  # another process wrote: the next look shows which
        self._seen, self._seen_at, self._current = written, sent_at, True
        self.holder, self._renewed_at = self.identity, sent_at
        return True

    async def _release(self) -> None:
        try:
            before = self._seen if self._current else await self._store.read(_RELEASE_S)
            if before is None or before.holder != self.identity:
                return
            await self._store.write(before, holder="", duration_s=1, timeout_s=_RELEASE_S)
        except KubeError as error:
            log.warning("lease_not_released", lease=self.name, error=str(error))
            return
        self.holder, self._current = "", False
        self._changes(self.name, "released").inc()
        log.info("lease_released", lease=self.name)

    def _trouble(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("lease_trouble", lease=self.name, problem=problem)
        self.problem = problem

    def _fine(self) -> None:
        self.problem = ""


def lease_metrics(
    metrics: Metrics, leading: Callable[[], dict[tuple[str, ...], float]]
) -> Series[Any]:
    """Declare the families of leases; returns the counter of changes (lease, change)."""
    metrics.read(
        "gatelog_lease_is_leader",
        "1 if this replica leads.",
        ("lease",),
        read=leading,
    )
    return metrics.counter(
        "gatelog_lease_changes_total",
        "Leases acquired, lost or released.",
        ("lease", "change"),
    )


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
