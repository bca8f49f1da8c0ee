"""Fair queuing: namespaces take turns, and requests that start pods or free quota go first.

Theory. The words are from the API server's Priority and Fairness: requests belong to a *flow*, here
the namespace they are for (requests that end its pods are another flow), and flows are served round
robin, so a flow waits for one request of each other flow and not for all of them. There are two
levels, urgent and ordinary: eight turns to one while both wait, so that neither starves. `urgency`
decides what is urgent; a request that an urgent request waits for becomes urgent itself
(`Claim.promote`). Within a flow a single pod would wait behind all ten thousand pods of a group
that came a moment before. Turns between groups would cure that and do harm: ten groups of a
thousand pods that share the server all start at the end, while groups served one after another
start at a tenth, two tenths, and so on. So a flow has a short and a long queue with alternating
turns: a request joins the short queue as long as few requests of its group wait.

A flow at its limit of requests under way is `held` and takes no turns until `released`.

Invariant: constant work per request; each queue is first in, first out; the next request of a flow
that is not held waits for at most one turn of every other flow, `URGENT_TURNS` times as long if it
is ordinary.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from contextvars import ContextVar
from typing import Final

Waiter = asyncio.Future[None]
FEW: Final = 16
"""Requests of one group that may wait in the short queue of their flow."""
URGENT_TURNS: Final = 8
"""Urgent waiters served for each ordinary one while both wait."""


class Claim:
    """The flow, group and urgency of requests: one claim for all requests of a decision."""

    __slots__ = ("_waiting", "flow", "group", "in_flight", "urgent")

    def __init__(self, flow: str = "", group: str = "", *, urgent: bool = False) -> None:
        self.flow = flow
        self.group = group
        self.urgent = urgent
        self.in_flight = 0
        """Requests at the API server now."""
        self._waiting: dict[Waiter, FairQueue] = {}

    def promote(self) -> None:
        """Make the claim urgent, with its waiters: an urgent request waits for it."""
        self.urgent = True
        for waiter, queue in self._waiting.items():
            queue.join(waiter, self)

    def joined(self, waiter: Waiter, queue: "FairQueue") -> None:
        """Remember where an ordinary request waits."""
        self._waiting[waiter] = queue
        waiter.add_done_callback(self._served)

    def _served(self, waiter: Waiter) -> None:
        self._waiting.pop(waiter, None)


_OWN: Final = Claim()
ON_BEHALF: Final[ContextVar[Claim]] = ContextVar("on_behalf", default=_OWN)
"""The claim of this task's requests; by default our own: of no namespace, and ordinary."""


class _Flow:
    """The waiters of one flow."""

    def __init__(self) -> None:
        self._short: deque[tuple[str, Waiter]] = deque()
        self._long: deque[tuple[str, Waiter]] = deque()
        self._of: Counter[str] = Counter()
        self._was_short = False

    def __bool__(self) -> bool:
        return bool(self._of)

    def join(self, waiter: Waiter, group: str) -> None:
        queue = self._short if self._of[group] < FEW else self._long
        self._of[group] += 1
        queue.append((group, waiter))

    def next(self) -> Waiter:
        self._was_short = bool(self._short) and not (self._was_short and self._long)
        group, waiter = (self._short if self._was_short else self._long).popleft()
        self._of[group] -= 1
        if not self._of[group]:
            del self._of[group]
        return waiter


class _Level:
    """Flows of one level, round robin."""

    def __init__(self) -> None:
        self._flows: dict[str, _Flow] = {}
        self._ring: OrderedDict[str, None] = OrderedDict()
        """Flows with waiters that are not held, the next one first."""

    def __bool__(self) -> bool:
        return bool(self._ring)

    def join(self, waiter: Waiter, claim: Claim, *, held: bool) -> None:
        flow = self._flows.setdefault(claim.flow, _Flow())
        flow.join(waiter, claim.group)
        if not held:
            self._ring.setdefault(claim.flow)

    @property
    def following(self) -> str:
        return next(iter(self._ring))

    def next(self) -> tuple[str, Waiter] | None:
        """Take the next one out; None: all that were left of a flow had gone."""
        name, _ = self._ring.popitem(last=False)
        flow = self._flows[name]
        found: Waiter | None = None
        while flow and (found is None or found.done()):
            found = flow.next()
        if flow:
            self._ring[name] = None
        else:
            del self._flows[name]
        return None if found is None or found.done() else (name, found)

    def hold(self, flow: str) -> None:
        self._ring.pop(flow, None)

    def release(self, flow: str) -> None:
        if flow in self._flows:
            self._ring.setdefault(flow)


class FairQueue:
    """The waiters for a turn, each with its claim."""

    def __init__(self) -> None:
        self._urgent = _Level()
        self._ordinary = _Level()
        self._held: set[str] = set()
        self._in_a_row = 0

    def __bool__(self) -> bool:
        """Whether a waiter exists whose flow is not held."""
        return bool(self._urgent) or bool(self._ordinary)

    @property
    def urgent(self) -> bool:
        """Whether an urgent waiter exists whose flow is not held."""
        return bool(self._urgent)

    def join(self, waiter: Waiter, claim: Claim) -> None:
        """Wait for a turn."""
        level = self._urgent if claim.urgent else self._ordinary
        level.join(waiter, claim, held=claim.flow in self._held)
        if not claim.urgent:
            claim.joined(waiter, self)

    @property
    def following(self) -> str:
        """The flow whose turn is next; a waiter must exist."""
        return self._next_level().following

    def next(self) -> tuple[str, Waiter] | None:
        """Take out the next waiter that may go, with its flow; None: the waiter had gone, look
        again.
        """
        level = self._next_level()
        self._in_a_row = self._in_a_row + 1 if level is self._urgent else 0
        return level.next()

    def _next_level(self) -> _Level:
        urgent = self._urgent and (not self._ordinary or self._in_a_row < URGENT_TURNS)
        return self._urgent if urgent else self._ordinary

    def hold(self, flow: str) -> None:
        """Give no more turns to a flow."""
        self._held.add(flow)
        self._urgent.hold(flow)
        self._ordinary.hold(flow)

    def release(self, flow: str) -> None:
        """Give turns to a flow again."""
        if flow in self._held:
            self._held.discard(flow)
            self._urgent.release(flow)
            self._ordinary.release(flow)
