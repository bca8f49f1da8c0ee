"""Pace: how many requests may be at the API server at once.

Theory. A fixed rate is wrong twice: too slow for a server that could do more (kueue#13683: ten
thousand pods took minutes at the default client limits), too fast for one in trouble. So the
number in flight adapts, additive increase and multiplicative decrease: it doubles until the first
sign of congestion, then grows by one per round of answers; it halves on 429 and shrinks by a fifth
when answers become slow or fail with 5xx. Fairness between clients is the server's own business
(API Priority and Fairness); a Retry-After it sends holds back everything we have.

What lets a pod start is urgent and goes before what only shows how things stand (Workloads that
mirror, conditions): eight turns to one while both wait, so that neither starves the other. What can
wait longer still, as Events can, waits until it is `calm` before it asks for a turn at all.
Among the equally urgent, a group of many requests does not starve one of few: see `line`.

Invariant: 1 <= limit <= ceiling; never more than `limit` slots are taken, but for those already
taken when it sank; who waits is served, and within a line in the order of arrival.
"""

import asyncio
import time

from actuator.line import ON_BEHALF, Line

SLOW_S = 1.0
"""Mean answer time, in seconds, above which the server counts as congested."""
COOLDOWN_S = 1.0
"""Seconds between two decreases: answers to requests sent before the last one say nothing new."""
HOLD_CEILING_S = 30.0
"""Longest Retry-After, in seconds, that holds back all requests; longer ones are cut."""
URGENT_TURNS = 8
"""Urgent waiters served for each ordinary one while both wait."""
_SMOOTHING = 0.1


class Slot:
    """A request's turn, an asynchronous context; tell it the answer before the turn ends."""

    __slots__ = ("_began", "_pace", "_urgent", "retry_after_s", "status")

    def __init__(self, pace: "Pace", urgent: bool) -> None:
        self._pace = pace
        self._urgent = urgent
        self._began = 0.0
        self.status = 0
        self.retry_after_s: float | None = None

    async def __aenter__(self) -> "Slot":
        await self._pace.acquire(self._urgent)
        self._began = time.monotonic()
        return self

    async def __aexit__(self, *_: object) -> None:
        now = time.monotonic()
        self._pace.give_back(self, now - self._began, now)

    def answered(self, status: int, retry_after_s: float | None = None) -> None:
        """Note the HTTP status (0: none came) and Retry-After in seconds."""
        self.status = status
        self.retry_after_s = retry_after_s


class Pace:
    """Adaptive bound on requests in flight."""

    def __init__(self, ceiling: int, first: int = 8) -> None:
        if ceiling < 1:
            raise ValueError(f"pace: the ceiling must be at least 1, got {ceiling}")
        self._ceiling = ceiling
        self._limit = float(min(first, ceiling))
        self._slow_start = True
        self._taken = 0
        self._waiting = Line()
        self._urgent = Line()
        self._calm = asyncio.Event()
        self._calm.set()
        self._in_a_row = 0
        self._mean_s = 0.0
        self._decreased_at = float("-inf")
        self._held_until = float("-inf")
        self._wake: asyncio.TimerHandle | None = None

    @property
    def limit(self) -> int:
        """Requests allowed in flight now."""
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        """Requests in flight now."""
        return self._taken

    def slot(self, *, urgent: bool = False) -> Slot:
        """Return a turn: entering it waits, leaving it gives it back."""
        return Slot(self, urgent)

    def give_back(self, slot: Slot, took_s: float, now: float) -> None:
        """End a turn that took `took_s`; `now` by `time.monotonic`."""
        self._taken -= 1
        self._learn(slot, took_s, now)
        self._serve()

    async def acquire(self, urgent: bool = False) -> None:
        """Wait for a turn; the caller must give it back."""
        if not self._waiting and not self._urgent and self._free(time.monotonic()):
            self._taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        (self._urgent if urgent else self._waiting).join(turn, ON_BEHALF.get())
        if urgent:
            self._calm.clear()
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._taken -= 1
                self._serve()
            raise

    async def calm(self, timeout_s: float) -> None:
        """Wait until nothing urgent waits for a turn, `timeout_s` seconds at most."""
        if self._calm.is_set() or timeout_s <= 0:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._calm.wait()
        except TimeoutError:
            return

    def _free(self, now: float) -> bool:
        return self._taken < self.limit and now >= self._held_until

    def _serve(self) -> None:
        if not self._urgent:
            self._calm.set()
            if not self._waiting:
                return
        now = time.monotonic()
        while (self._waiting or self._urgent) and self._free(now):
            turn = self._next()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)
        if not self._urgent:
            self._calm.set()
        if (self._waiting or self._urgent) and now < self._held_until and self._wake is None:
            loop = asyncio.get_running_loop()
            self._wake = loop.call_later(self._held_until - now, self._hold_over)

    def _next(self) -> "asyncio.Future[None]":
        if self._urgent and (not self._waiting or self._in_a_row < URGENT_TURNS):
            self._in_a_row += 1
            return self._urgent.next()
        self._in_a_row = 0
        return self._waiting.next()

    def _hold_over(self) -> None:
        self._wake = None
        self._serve()

    def _learn(self, slot: Slot, took_s: float, now: float) -> None:
        if slot.status:
            self._mean_s += _SMOOTHING * (took_s - self._mean_s)
        if slot.status == 429:
            self._decrease(0.5, now)
            wait_s = min(slot.retry_after_s or 0.0, HOLD_CEILING_S)
            self._held_until = max(self._held_until, now + wait_s)
        elif slot.status >= 500 or self._mean_s > SLOW_S:
            self._decrease(0.8, now)
        elif slot.status and self._taken + 1 >= self.limit:
            # Only while the limit is what holds us back: an idle hour must not raise it.
            step = 1.0 if self._slow_start else 1.0 / self._limit
            self._limit = min(self._limit + step, float(self._ceiling))

    def _decrease(self, factor: float, now: float) -> None:
        self._slow_start = False
        if now - self._decreased_at >= COOLDOWN_S:
            self._decreased_at = now
            self._limit = max(1.0, self._limit * factor)
