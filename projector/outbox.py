"""The outbox: decisions that are recorded go to the actuators, in order, at least once.

Theory. A decision is committed first and published after; `published` in the checkpoint trails
behind, so a crash in between repeats decisions and loses none. What waits goes out many to a
message, whose id is derived from the decisions': a repetition cut the same way is dropped by the
server, any other finds its work done. A decision whose outcome does not come is sent again
(`<id>/again/<n>`) as long as the fold still expects it, unless it still waits in its stream for an
actuator (`backlog`); it is never decided a second time.

While the log is being caught up with, decisions are held: many have their outcome further on in
the log, and what is without one at its end is sent.

Events that were parked go out the same way, to their own stream.

Invariant: decisions are stored in the order in which they were put in.
"""

import asyncio
import hashlib
import heapq
import time
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice

import msgspec
from msgspec import Struct

from podgroup import subjects
from podgroup.codec import encode_decision, join_decisions
from podgroup.commands import RECORDS, EmitEvent
from podgroup.events import Decision, OutcomeRecorded
from podgroup.journal import ParkedRow
from podgroup.runtime.backoff import Backoff
from podgroup.runtime.jetstream import Bus, BusUnavailable, Publisher, PublishRefused
from podgroup.runtime.log import get_logger
from projector.backlog import Backlog

log = get_logger("projector")

Refused = Callable[[OutcomeRecorded], None]


MAX_JOINED = 32
"""Decisions in a message at most: actuators that share the work take it message by message."""
MAX_JOINED_BYTES = 256 * 1024
"""Bytes of decisions in a message at most, unless one alone is larger; servers take 1 MB."""


class Entry(Struct):
    """What is to be sent; `number` and `decision` are 0 and "" for other things."""

    subject: str
    body: bytes
    msg_id: str
    number: int = 0
    decision: str = ""
    group: str = ""
    parked_seq: int = 0


class Open(Struct, gc=False):
    """A decision that was sent and has no outcome: as it was sent, for there may be many."""

    body: bytes
    number: int
    at: datetime
    group: str
    sequence: int = 0
    """Where its stream has it, or had it; 0: not there yet."""


class Message(Struct):
    """Entries on their way together: one parked event, or decisions in their order."""

    entries: list[Entry]
    sent: "asyncio.Future[int]"


class Outbox:
    """Publishes decisions and parked events of one shard. `run` is its task."""

    def __init__(
        self, bus: Bus, cluster: str, shard: int, *, timeout_s: float, refused: Refused
    ) -> None:
        self._bus = bus
        self._decisions = subjects.decisions(cluster, shard)
        self._parked = subjects.parked(cluster, shard)
        self._prefix = f"{cluster}/{shard}"
        self._timeout_s = timeout_s
        self._refused = refused
        self._queue: deque[Entry] = deque()
        self._flight: deque[Message] = deque()
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()
        self._unresolved: dict[str, Open] = {}
        self._due: list[tuple[float, str]] = []
        self._grace: dict[str, float] = {}
        self._held: dict[str, Decision] | None = {}
        self.backlog = Backlog()
        self.rebuilding = False
        """The log's decisions were published before: records among them are not sent again."""
        self.published = 0
        """Number of the last decision known to be stored, all before it included."""
        self.stream_seq = 0
        """Its sequence in the stream DECISIONS."""
        self.stream_created_at: datetime | None = None
        self.parked_seq = 0
        """Position of the last parked event known to be stored."""

    @property
    def waiting(self) -> int:
        """Decisions and parked events not yet known to be stored."""
        return len(self._queue) + sum(len(message.entries) for message in self._flight)

    @property
    def unresolved(self) -> int:
        """Decisions that were sent and have no outcome yet."""
        return len(self._unresolved)

    @property
    def unresolved_since(self) -> datetime | None:
        """When the first of those was decided."""
        first = next(iter(self._unresolved.values()), None)
        return first.at if first is not None else None

    async def drained(self) -> None:
        """Wait until nothing is waiting. Somebody must be running `run`."""
        while self.waiting:
            self._settled.clear()
            await self._settled.wait()

    def put(self, decisions: Iterable[Decision], parked: Iterable[ParkedRow] = ()) -> None:
        """Take over what was just committed, in order."""
        for row in parked:
            msg_id = f"parked/{self._prefix}/{row.seq}/{row.ord}"
            body = msgspec.json.encode(row)
            self._queue.append(Entry(self._parked, body, msg_id, parked_seq=row.seq))
        for decision in decisions:
            if self._held is None:
                body = encode_decision(decision)
                self._queue.append(
                    self._entry(
                        decision.id, body, decision.id, decision.group, number=decision.number
                    )
                )
                self._expect(decision, body, 0)
            elif not (self.rebuilding and isinstance(decision.command, RECORDS)):
                self._held[decision.id] = decision
        self._wake.set()

    def expect(self, decision: Decision) -> None:
        """Look after a decision that was sent before, until its outcome is there."""
        self._expect(decision, encode_decision(decision), max(1, self.stream_seq))

    def _expect(self, decision: Decision, body: bytes, sequence: int) -> None:
        if not isinstance(decision.command, RECORDS):
            made = Open(body, decision.number, decision.at, decision.group, sequence)
            self._unresolved[decision.id] = made
            self._later(time.monotonic() + self._timeout_s, decision.id)

    def resolve(self, decision: str) -> None:
        """The outcome of a decision is known."""
        self._unresolved.pop(decision, None)
        self._grace.pop(decision, None)
        if self._held is not None:
            self._held.pop(decision, None)

    def heard(self, decision: str) -> None:
        """An actuator is at it: leave it another while before it is sent again."""
        if decision in self._unresolved:
            self._grace[decision] = time.monotonic() + self._timeout_s

    @property
    def holding(self) -> bool:
        """Decisions are held until the end of the log is reached."""
        return self._held is not None

    def release(self, expected: Callable[[str], bool]) -> int:
        """Send what was held and is still open, by number; returns how many.

        The stream of decisions is to hold every one of them, so that a lost read model can be
        rebuilt from the two streams: what was not needed any more is sent too, and found done.
        An Event to emit expects nothing, so it is sent if its outcome is not known.
        """
        held, self._held = self._held or {}, None
        still = sorted(held.values(), key=lambda d: d.number)
        if self.rebuilding:
            # All of it was published in its day; only what is still open may need doing.
            still = [d for d in still if isinstance(d.command, EmitEvent) or expected(d.id)]
            self.rebuilding = False
        self.put(still)
        return len(still)

    def repeat_overdue(self, expected: Callable[[str], bool], now: datetime) -> int:
        """Send again what is overdue and still expected; returns how many.

        Not what waits for an actuator, or has not reached its stream: it is not lost.
        """
        repeated = 0
        clock = time.monotonic()
        while self._due and self._due[0][0] <= clock:
            _, identity = heapq.heappop(self._due)
            decision = self._unresolved.get(identity)
            if decision is None:
                continue
            if not expected(identity):
                self.resolve(identity)
                continue
            until = self._grace.pop(identity, 0.0)
            if until > clock:
                self._later(until, identity)
                continue
            if decision.sequence and not self.backlog.waits(decision.sequence):
                self.repeat(identity, now)
                repeated += 1
            self._later(clock + self._timeout_s, identity)
        return repeated

    def repeat_dropped(self, expected: Callable[[str], bool], now: datetime) -> int:
        """Send again what its stream dropped before an actuator got it; returns how many."""
        if not self.backlog.any_dropped:
            return 0
        dropped = self.backlog.dropped
        lost = [i for i, o in self._unresolved.items() if dropped(o.sequence) and expected(i)]
        for identity in lost:
            self.repeat(identity, now)
        return len(lost)

    def repeat_all(self, expected: Callable[[str], bool]) -> int:
        """Send everything that is open and was sent before once more: its stream has lost it."""
        found = [(i, o) for i, o in self._unresolved.items() if expected(i)]
        for identity, lost in sorted(found, key=lambda each: each[1].number):
            self._again(identity, lost, identity)
        self._wake.set()
        return len(found)

    def _later(self, at_s: float, decision: str) -> None:
        heapq.heappush(self._due, (at_s, decision))

    def repeat(self, identity: str, now: datetime) -> None:
        """Send an open decision once more, under a message id of its own."""
        again = int(now.timestamp() // self._timeout_s)
        self._again(identity, self._unresolved[identity], f"{identity}/again/{again}")
        self._wake.set()

    def _again(self, identity: str, lost: Open, msg_id: str) -> None:
        lost.sequence = 0
        self._queue.append(self._entry(identity, lost.body, msg_id, lost.group))

    def _entry(
        self, decision: str, body: bytes, msg_id: str, group: str, *, number: int = 0
    ) -> Entry:
        return Entry(self._decisions, body, msg_id, number, decision, group)

    async def run(self) -> None:
        """Publish until cancelled. A publisher that broke is replaced and goes on in order."""
        backoff = Backoff(first_s=0.1, ceiling_s=5.0)
        while True:
            publisher = self._bus.publisher()
            try:
                await self._publish(publisher, backoff)
            except PublishRefused:
                self._take_back()
                await self._one_at_a_time()
            except BusUnavailable as error:
                self._take_back()
                wait_s = next(backoff)
                log.warning("outbox_waits", error=str(error), waiting=self.waiting, wait_s=wait_s)
                await asyncio.sleep(wait_s)
            finally:
                publisher.close()

    async def _publish(self, publisher: Publisher, backoff: Backoff) -> None:
        while True:
            self._wake.clear()
            while self._queue:
                entries = self._next_message()
                body = join_decisions([entry.body for entry in entries])
                sent = await publisher.send(entries[0].subject, body, _message_id(entries))
                sent.add_done_callback(lambda _: self._wake.set())
                for _ in entries:
                    self._queue.popleft()
                self._flight.append(Message(entries, sent))
            while self._flight and self._flight[0].sent.done():
                message = self._flight[0]
                for entry in message.entries:
                    self._stored(entry, message.sent.result())
                self._flight.popleft()
                backoff.reset()
            self._settled.set()
            await self._wake.wait()

    def _next_message(self) -> list[Entry]:
        """Return what goes next in one message; it stays in the queue."""
        entries = [self._queue[0]]
        if entries[0].subject != self._decisions:
            return entries
        size = len(entries[0].body)
        for entry in islice(self._queue, 1, MAX_JOINED):
            size += len(entry.body)
            if entry.subject != self._decisions or size > MAX_JOINED_BYTES:
                break
            entries.append(entry)
        return entries

    def _take_back(self) -> None:
        """Put what is not known to be stored back in its place."""
        for message in reversed(self._flight):
            self._queue.extendleft(reversed(message.entries))
        self._flight.clear()

    def _stored(self, entry: Entry, sequence: int) -> None:
        if entry.decision:
            self.stream_seq = sequence
            waiting = self._unresolved.get(entry.decision)
            if waiting is not None:
                waiting.sequence = sequence
        if entry.number:
            self.published = entry.number
        self.parked_seq = max(self.parked_seq, entry.parked_seq)

    async def _one_at_a_time(self) -> None:
        """Find the message that the server refuses, and give it up in the open."""
        while self._queue:
            entry = self._queue[0]
            try:
                self._stored(
                    entry, await self._bus.publish(entry.subject, entry.body, entry.msg_id)
                )
            except PublishRefused as error:
                log.error(
                    "publish_refused", msg_id=entry.msg_id, bytes=len(entry.body), error=str(error)
                )
                self._give_up(entry, str(error))
            except BusUnavailable:
                return
            self._queue.popleft()

    def _give_up(self, entry: Entry, error: str) -> None:
        self.published = entry.number or self.published
        if not entry.decision:
            return
        self.resolve(entry.decision)
        self._refused(
            OutcomeRecorded(
                decision=entry.decision,
                group=entry.group,
                status="rejected",
                message=f"NATS does not take the decision: {error}",
                by="projector",
            )
        )


def _message_id(entries: list[Entry]) -> str:
    """Return the message id: of a lone entry its own, else derived from all of theirs."""
    if len(entries) == 1:
        return entries[0].msg_id
    ids = "\n".join(entry.msg_id for entry in entries)
    return hashlib.blake2b(ids.encode(), digest_size=16).hexdigest()
