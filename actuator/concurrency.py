"""How many requests may be at the API server at once: of all, and of each namespace.

Theory. A fixed rate is wrong twice: too slow for a server that could do more (kueue#13683: ten
thousand pods took minutes at the default client limits), too fast for a server in trouble. So the
number in flight adapts, additive increase and multiplicative decrease: it doubles until the first
sign of congestion, then grows by one per round of answers; it halves on 429 and shrinks by a fifth
when answers become slow or fail with 5xx. A Retry-After holds back all requests.

A server in trouble is slow for all namespaces; objects that are slow by themselves (a pod with
thousands of tolerations) are slow for their namespace alone. So each namespace (a *flow*, see
`fairqueue`) has a limit of its own, which its slow answers shrink; the shared limit shrinks only by
429, 502 and 503, and when the quickest of several flows is slow. A request that is late while the
server is quick is written off: it counts against its flow and takes no slot of other flows. No flow
with a slot takes the last slot, so the first request of another flow never waits for an answer.
Work that can wait longest, such as Events, waits for `calm` before it asks for a slot.

Invariant: 1 <= limit <= ceiling; at most `limit` requests in flight are not written off, and at
most half the ceiling are (but for requests sent before the limit sank); waiters are served in the
order of `fairqueue`; constant work per request.
"""

import asyncio
from collections import OrderedDict
from typing import Final

from actuator.fairqueue import ON_BEHALF, Claim, FairQueue

SLOW_S: Final = 1.0
"""Mean answer time of a flow in seconds above which it counts as slow, and the age at which a
request is late."""
NO_ANSWER_S: Final = 30.0
"""Seconds that a request that timed out counts for at least: the answer might have taken longer."""
COOLDOWN_S: Final = 1.0
"""Seconds between two decreases: answers to requests sent before the last decrease are no news."""
LATELY_S: Final = 10.0
"""Seconds for which the answers of a flow say something about the server."""
HOLD_CEILING_S: Final = 30.0
"""Longest Retry-After, in seconds, that holds back all requests; a longer Retry-After is cut."""
FIRST: Final = 8
"""Requests in flight to begin with."""
MAX_FLOWS: Final = 1_000
"""Flows that are remembered while they have nothing in flight, about 500 bytes each."""
_RESERVED: Final = 1
_SMOOTHING: Final = 0.1
_SERVERS: Final = (429, 502, 503)
"""Answers about the state of the server, whatever the request was."""


class Limit:
    """A number that adapts; times in seconds of the loop's clock."""

    __slots__ = ("_ceiling", "_decreased_at", "_slow_start", "_value")

    def __init__(self, ceiling: int, first: int) -> None:
        self._ceiling = float(ceiling)
        self._value = float(min(first, ceiling))
        self._slow_start = True
        self._decreased_at = float("-inf")

    @property
    def value(self) -> int:
        """The limit now."""
        return int(self._value)

    def grow(self) -> None:
        """An answer came while the limit was what held us back."""
        step = 1.0 if self._slow_start else 1.0 / self._value
        self._value = min(self._value + step, self._ceiling)

    def shrink(self, factor: float, now: float) -> None:
        """Shrink on a sign of congestion, once within `COOLDOWN_S`."""
        self._slow_start = False
        if now - self._decreased_at >= COOLDOWN_S:
            self._decreased_at = now
            self._value = max(1.0, self._value * factor)


class Flow:
    """The requests of one namespace: their limit, and how its answers went."""

    __slots__ = ("answered_at", "late", "limit", "mean_s", "name", "taken", "waiting")

    def __init__(self, name: str, ceiling: int, first: int) -> None:
        self.name = name
        self.limit = Limit(ceiling, first)
        self.taken = 0
        """Requests in flight, written off or not."""
        self.late = 0
        """How many of the requests in flight are late."""
        self.waiting = 0
        self.mean_s = 0.0
        self.answered_at = float("-inf")

    def learn(self, status: int, took_s: float, now: float, *, pressed: bool) -> None:
        """Note an answer, or with status 0 its absence."""
        if not status and took_s < SLOW_S:
            return  # refused or broken off: no sign of how slow the object is
        self.answered_at = now
        took_s = took_s if status else max(took_s, NO_ANSWER_S)
        self.mean_s += _SMOOTHING * (took_s - self.mean_s)
        if self.mean_s > SLOW_S or not status or (status >= 500 and status not in _SERVERS):
            self.limit.shrink(0.8, now)
        elif pressed:
            self.limit.grow()


class Slot:
    """A request's turn, an asynchronous context; set `status` before the turn ends."""

    __slots__ = (
        "_concurrency",
        "began",
        "claim",
        "flow",
        "late",
        "retry_after_s",
        "status",
        "written_off",
    )

    def __init__(self, concurrency: "AdaptiveConcurrency", claim: Claim) -> None:
        self._concurrency = concurrency
        self.claim = claim
        self.flow: Flow
        self.began = 0.0
        self.status = 0
        self.retry_after_s: float | None = None
        self.late = self.written_off = False

    async def __aenter__(self) -> "Slot":
        await self._concurrency.acquire(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._concurrency.give_back(self)

    def answered(self, status: int, retry_after_s: float | None = None) -> None:
        """Note the HTTP status (0: none came) and Retry-After in seconds."""
        self.status = status
        self.retry_after_s = retry_after_s


class AdaptiveConcurrency:
    """Adaptive bounds on requests in flight."""

    def __init__(self, ceiling: int, first: int = FIRST) -> None:
        if ceiling < 1:
            raise ValueError(f"concurrency: the ceiling must be at least 1, got {ceiling}")
        self._ceiling = ceiling
        self._first = first
        self._limit = Limit(ceiling, first)
        self._most_written_off = max(1, ceiling // 2)
        self._written_off = 0
        self._taken = 0
        self._queue = FairQueue()
        self._flows: OrderedDict[str, Flow] = OrderedDict()
        """The least recently used first."""
        self._in_flight: OrderedDict[Slot, float] = OrderedDict()
        """When each is late, the soonest first."""
        self._late: asyncio.TimerHandle | None = None
        self._server_slow = False
        self._looked_at = float("-inf")
        self._calm = asyncio.Event()
        self._calm.set()
        self._held_until = float("-inf")
        self._wake: asyncio.TimerHandle | None = None

    @property
    def limit(self) -> int:
        """Requests allowed in flight now, those written off apart."""
        return self._limit.value

    @property
    def in_flight(self) -> int:
        """Requests in flight now, those written off included."""
        return self._taken + self._written_off

    def slow(self, flow: str) -> bool:
        """Whether a flow is slow by itself, so that its waiters may wait long."""
        found = self._flows.get(flow)
        if found is None or self._server_slow:
            return False
        return bool(found.late) or found.mean_s > SLOW_S

    def slot(self) -> Slot:
        """Return a turn for this task's claim: entering waits for a slot, leaving gives it back.

        `ON_BEHALF` says whose.
        """
        return Slot(self, ON_BEHALF.get())

    async def acquire(self, slot: Slot) -> None:
        """Wait for a turn; the caller must give it back."""
        loop = asyncio.get_running_loop()
        slot.flow = flow = self._flow(slot.claim.flow)
        if self._may_go(flow, loop.time()):
            self._acquire(flow)
        else:
            await self._wait(slot.claim, flow, loop)
        slot.began = loop.time()
        slot.claim.in_flight += 1
        self._in_flight[slot] = slot.began + SLOW_S
        self._watch(loop)

    async def _wait(self, claim: Claim, flow: Flow, loop: asyncio.AbstractEventLoop) -> None:
        turn: asyncio.Future[None] = loop.create_future()
        self._queue.join(turn, claim)
        flow.waiting += 1
        self._serve(loop.time())
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(flow)
                self._serve(loop.time())
            raise
        finally:
            flow.waiting -= 1

    def give_back(self, slot: Slot) -> None:
        """End a turn."""
        now = asyncio.get_running_loop().time()
        del self._in_flight[slot]
        slot.claim.in_flight -= 1
        if slot.late:
            slot.flow.late -= 1
        if slot.written_off:
            self._written_off -= 1
            self._taken += 1
        self._learn(slot, now)
        self._leave(slot.flow)
        self._serve(now)

    async def calm(self, timeout_s: float) -> None:
        """Wait until nothing urgent waits for a turn, `timeout_s` seconds at most."""
        if self._calm.is_set() or timeout_s <= 0:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._calm.wait()
        except TimeoutError:
            return

    def _flow(self, name: str) -> Flow:
        found = self._flows.get(name)
        if found is not None:
            self._flows.move_to_end(name)
            return found
        found = self._flows[name] = Flow(name, self._ceiling, self._first)
        if len(self._flows) > MAX_FLOWS:
            oldest = next(iter(self._flows.values()))
            self._flows.move_to_end(oldest.name)
            if not oldest.taken and not oldest.waiting:
                del self._flows[oldest.name]
        return found

    def _free(self, flow: Flow, now: float) -> bool:
        """Return whether a flow gets a slot: the last slot is kept for flows without any."""
        most = self.limit - (_RESERVED if flow.taken and self.limit > _RESERVED else 0)
        return self._taken < most and now >= self._held_until

    def _may_go(self, flow: Flow, now: float) -> bool:
        """Return whether a request of a flow may go at once, since no other is before it."""
        none_before = not flow.taken and not flow.waiting if self._queue else not flow.waiting
        return none_before and flow.taken < flow.limit.value and self._free(flow, now)

    def _acquire(self, flow: Flow) -> None:
        self._taken += 1
        flow.taken += 1
        if flow.limit.value <= flow.taken and flow.limit.value < self.limit:
            self._queue.hold(flow.name)

    def _leave(self, flow: Flow) -> None:
        self._taken -= 1
        flow.taken -= 1
        if flow.taken < flow.limit.value:
            self._queue.release(flow.name)

    def _serve(self, now: float) -> None:
        while self._queue and self._free(self._flows[self._queue.following], now):
            found = self._queue.next()
            if found is not None:
                name, turn = found
                self._acquire(self._flows[name])
                turn.set_result(None)
        if self._queue.urgent:
            self._calm.clear()
        else:
            self._calm.set()
        if self._queue and now < self._held_until and self._wake is None:
            loop = asyncio.get_running_loop()
            self._wake = loop.call_at(self._held_until, self._hold_over)

    def _hold_over(self) -> None:
        self._wake = None
        self._serve(asyncio.get_running_loop().time())

    def _learn(self, slot: Slot, now: float) -> None:
        flow, status = slot.flow, slot.status
        pressed = flow.taken >= flow.limit.value
        flow.learn(status, now - slot.began, now, pressed=pressed)
        if status == 429:
            self._limit.shrink(0.5, now)
            wait_s = min(slot.retry_after_s or 0.0, HOLD_CEILING_S)
            self._held_until = max(self._held_until, now + wait_s)
        elif status in _SERVERS or (flow.mean_s > SLOW_S and self._is_server_slow(now)):
            self._limit.shrink(0.8, now)
        elif status and flow.mean_s <= SLOW_S and self._taken + _RESERVED >= self.limit:
            # Only while the limit is what holds us back: an idle hour must not raise it.
            self._limit.grow()

    def _is_server_slow(self, now: float) -> bool:
        """Return whether even the quickest flow is slow; a single flow does not show the server's
        state.
        """
        if now - self._looked_at >= COOLDOWN_S:
            self._looked_at = now
            flows = self._flows.values()
            means = [flow.mean_s for flow in flows if now - flow.answered_at < LATELY_S]
            self._server_slow = len(means) > 1 and min(means) > SLOW_S
        return self._server_slow

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._late is None and self._in_flight:
            self._late = loop.call_at(next(iter(self._in_flight.values())), self._count_late)

    def _count_late(self) -> None:
        """Some request may be late."""
        loop = asyncio.get_running_loop()
        self._late, now = None, loop.time()
        while self._in_flight:
            slot, due = next(iter(self._in_flight.items()))
            if due > now:
                break
            self._in_flight[slot] = now + SLOW_S
            self._in_flight.move_to_end(slot)
            self._is_late(slot, now)
        self._serve(now)
        self._watch(loop)

    def _is_late(self, slot: Slot, now: float) -> None:
        if self._is_server_slow(now):
            return
        slot.flow.limit.shrink(0.5, now)
        if not slot.late:
            slot.late = True
            slot.flow.late += 1
        if not slot.written_off and self._written_off < self._most_written_off:
            slot.written_off = True
            self._written_off += 1
            self._taken -= 1
