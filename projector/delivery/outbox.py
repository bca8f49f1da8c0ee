"""The outbox: recorded decisions go to the actuators, in order, at least once.

Theory. A decision is committed first and published after; `published` in the checkpoint trails
behind, so a crash in between repeats decisions and loses none. The table of decisions is the
outbox, and this class is a window on it: the decisions under way, `most` of them at a time. As
decisions get their outcome the window moves on, and the next decisions are read from the table by
number. So memory does not grow with the number of open decisions, and a stream without readers does
not fill up.

A decision whose outcome does not come is sent again (`<id>/again/<n>`) as long as the fold still
expects it, unless it still waits in its stream for an actuator (`backlog`); it is never decided a
second time.

While the projector catches up with the log, nothing is sent: many decisions have their outcome
further on in the log; decisions without outcome are sent at its end.

Events that were parked go out the same way, to their own stream.

Invariant: decisions are stored in the order of their numbers; up to `published` each is stored, or
has its outcome.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

from msgspec import Struct

from podgroup.log import subjects
from podgroup.log.codec import Conclusions, encode_concluded, encode_decision
from podgroup.log.events import Decision, OutcomeRecorded
from podgroup.log.journal import ParkedRow
from podgroup.log.parked import encode_parked, of_row
from podgroup.log.records import Concluded
from podgroup.model.commands import INTERNAL, EmitEvent
from podgroup.model.reasons import parked_by_actuator
from projector.delivery.backlog import Backlog
from projector.delivery.sending import Outgoing, Sending
from projector.storage.store import StoreUnavailable
from runtime.jetstream import Bus
from runtime.settings import Settings
from runtime.signing import Signer

Refused = Callable[[OutcomeRecorded], None]
Expected = Callable[[str], bool]
Owed = Callable[[int, int, int, bool], Awaitable[list[Conclusions]]]
"""`owed(after, until, limit, records)`: decisions in that range of numbers without outcome, by
number; with `records` also those that only record.
"""

READ_AT_ONCE = 1_000
"""Decisions read from the table at a time at most; about 2 MB."""
WORTHWHILE, SOON_S = 100, 0.05


class Open(Struct, gc=False):
    """A sent decision without outcome, as it was sent: there may be many."""

    body: bytes
    number: int
    at: datetime
    group: str
    due_s: float
    """When it is sent again, by the monotonic clock."""
    sequence: int = 0
    """Its sequence in the stream, even if dropped since; 0: not stored yet."""


class Outbox:
    """Publishes decisions and parked events of one cluster. `run` is its task."""

    def __init__(
        self,
        bus: Bus,
        settings: Settings,
        *,
        refused: Refused,
        expected: Expected,
    ) -> None:
        cluster, own = settings.cluster, settings.projector
        key = own.signing_key_file
        signer = Signer(key) if key else None
        self._decisions = subjects.decisions(cluster)
        self._parked = subjects.parked(cluster)
        self._prefix = f"{cluster}/0"
        self._timeout_s = own.decision_timeout_s
        self._most = own.open_decisions
        self._refused = refused
        self._expected = expected
        self._sending = Sending(bus, self._decisions, self._stored, self._give_up, signer)
        self._unresolved: OrderedDict[str, Open] = OrderedDict()
        """In the order of `due_s`: a decision that is put off goes to the end."""
        self._moved = asyncio.Event()
        self._taken = 0
        """Number of the last decision that was taken; later decisions are in the table alone."""
        self._newest = 0
        """Number of the last decision that is committed."""
        self._lost_to = 0
        """Up to this number, published decisions are lost and sent again when they are taken."""
        self.recorded_to = 0
        """Up to this number, the stream has decisions that a fresh read model makes once more."""
        self.holding = True
        """Decisions are held until the end of the log is reached."""
        self.backlog = Backlog()
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
        behind = 0 if self.holding else self._newest - self._taken
        return self._sending.waiting + behind

    @property
    def rebuilding(self) -> bool:
        """The log is caught up with, and its decisions were published before."""
        return self.holding and self.recorded_to > 0

    @property
    def unresolved(self) -> int:
        """Decisions under way: sent, or next to be sent, and without outcome."""
        return len(self._unresolved)

    @property
    def unresolved_since(self) -> datetime | None:
        """When the first of those was decided."""
        return min((found.at for found in self._unresolved.values()), default=None)

    async def drained(self) -> None:
        """Wait until the entries under way are stored. `run` must be running."""
        await self._sending.drained()

    async def run(self, owed: Owed) -> None:
        """Publish until cancelled; `owed` reads the table."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._sending.run())
            both.create_task(self._follow(owed))

    def resume(self, published: int, newest: int) -> None:
        """Begin where another life ended: follow its published decisions, send the rest."""
        self.published, self._newest, self._taken = published, newest, 0
        self._moved.set()

    def put(self, decisions: Iterable[Conclusions], parked: Iterable[ParkedRow] = ()) -> None:
        """Take over decisions that were just committed, in order."""
        for row in parked:
            if parked_by_actuator(row.reason):
                continue
            msg_id = f"parked/{self._prefix}/{row.seq}/{row.ord}"
            body = encode_parked(of_row(row))
            self._sending.put(Outgoing(self._parked, body, msg_id, parked_seq=row.seq))
        for decision in decisions:
            at_hand = not self.holding and self._taken == self._newest
            self._newest = decision.number
            if at_hand and self._room:
                self._send_first(decision)
                self._taken = decision.number

    def resolve(self, decision: str) -> None:
        """The outcome of a decision is known."""
        if self._unresolved.pop(decision, None) is not None:
            self._check_behind()

    def heard(self, decision: str) -> None:
        """Put off the repetition of a decision that an actuator works on."""
        found = self._unresolved.get(decision)
        if found is not None:
            self._defer(decision, found)

    def release(self) -> None:
        """Send decisions without outcome, by number: the end of the log is reached.

        The stream must hold every decision, so that a lost read model can be rebuilt from the two
        streams: decisions that are no longer needed are sent too, and found done. In a rebuild,
        recorded decisions were published before, and only open ones may need doing; an Event
        expects nothing, so it is sent if its outcome is not known. Decisions from here on are new,
        also where the log made fewer decisions this time.
        """
        self.holding = False
        self.recorded_to = min(self.recorded_to, self._newest)
        self._moved.set()

    def repeat_overdue(self, now: datetime) -> int:
        """Send overdue decisions that are still expected again; returns how many.

        A decision that waits for an actuator, or has not reached its stream, is not lost and not
        sent.
        """
        repeated = 0
        clock = time.monotonic()
        while self._unresolved:
            identity = next(iter(self._unresolved))
            found = self._unresolved[identity]
            if found.due_s > clock:
                break
            if not self._expected(identity):
                self.resolve(identity)
                continue
            if found.sequence and not self.backlog.waits(found.sequence):
                self.repeat(identity, now)
                repeated += 1
            self._defer(identity, found)
        return repeated

    def repeat_dropped(self, now: datetime) -> int:
        """Send decisions again that the stream dropped before an actuator got them; returns how
        many.
        """
        if not self.backlog.any_dropped:
            return 0
        dropped = self.backlog.dropped
        lost = [i for i, o in self._unresolved.items() if dropped(o.sequence) and self._expected(i)]
        for identity in lost:
            self.repeat(identity, now)
        return len(lost)

    def repeat_all(self) -> int:
        """Send all open decisions that were sent before once more: the stream has lost them.

        Returns how many of those under way; later decisions are sent when they are taken.
        """
        self._lost_to = self.published
        found = [(i, o) for i, o in self._unresolved.items() if self._expected(i)]
        for identity, lost in sorted(found, key=lambda each: each[1].number):
            self._again(identity, lost, identity)
        return len(found)

    def repeat(self, identity: str, now: datetime) -> None:
        """Send an open decision once more, under a message id of its own."""
        again = int(now.timestamp() // self._timeout_s)
        self._again(identity, self._unresolved[identity], f"{identity}/again/{again}")

    async def _follow(self, owed: Owed) -> None:
        """Move the window on whenever there is room."""
        while True:
            await self._moved.wait()
            if self._room < WORTHWHILE:
                # To read one costs as much as to read a hundred, and soon there will be more room.
                await asyncio.sleep(SOON_S)
            self._moved.clear()
            try:
                await self._fill(owed)
            except StoreUnavailable:
                return  # only when we are asked to stop

    async def _fill(self, owed: Owed) -> None:
        while self._behind and (room := self._room):
            sent = self._taken < self.published
            rebuilt = not sent and self._taken < self.recorded_to
            end = self.published if sent else self._newest
            if rebuilt:
                end = min(self.recorded_to, end)
            limit = min(room, READ_AT_ONCE)
            # A decision with an outcome was published; records have none, and are sent once.
            found = await owed(self._taken, end, limit, not (sent or rebuilt))
            for decision in found:
                if sent and isinstance(decision, Decision):
                    self._track_outcome(decision)
                elif sent:
                    continue
                elif not rebuilt or self._still_wanted(decision):
                    self._send_first(decision)
            self._taken = found[-1].number if len(found) == limit else end
            if not self._sending.waiting:
                self.published = max(self.published, self._taken)

    def _still_wanted(self, decision: Conclusions) -> bool:
        if isinstance(decision, Concluded):
            return False
        return isinstance(decision.command, EmitEvent) or self._expected(decision.id)

    @property
    def _behind(self) -> bool:
        """Return whether a decision waits in the table that may be taken."""
        return self._taken < (self.published if self.holding else self._newest)

    @property
    def _room(self) -> int:
        return max(0, self._most - max(len(self._unresolved), self._sending.waiting))

    def _send_first(self, decision: Conclusions) -> None:
        """Send a decision, or records, for the first time, as far as we know."""
        if isinstance(decision, Concluded):
            body, number = encode_concluded(decision), decision.number
            msg_id = f"{self._prefix}/records/{decision.as_of}/{number}"
            self._sending.put(Outgoing(self._decisions, body, msg_id, number))
            return
        body = encode_decision(decision)
        entry = self._entry(decision.id, body, decision.id, decision.group, number=decision.number)
        self._sending.put(entry)
        if not isinstance(decision.command, INTERNAL):
            self._expect(decision, body, 0)

    def _track_outcome(self, decision: Decision) -> None:
        """Wait for the outcome of a decision that was sent before."""
        found = self._expect(decision, encode_decision(decision), max(1, self.stream_seq))
        if decision.number <= self._lost_to and self._expected(decision.id):
            self._again(decision.id, found, decision.id)

    def _expect(self, decision: Decision, body: bytes, sequence: int) -> Open:
        due_s = time.monotonic() + self._timeout_s
        found = Open(body, decision.number, decision.at, decision.group, due_s, sequence)
        self._unresolved[decision.id] = found
        return found

    def _defer(self, identity: str, found: Open) -> None:
        found.due_s = time.monotonic() + self._timeout_s
        self._unresolved.move_to_end(identity)

    def _check_behind(self) -> None:
        if self._behind:
            self._moved.set()

    def _again(self, identity: str, lost: Open, msg_id: str) -> None:
        lost.sequence = 0
        self._sending.put(self._entry(identity, lost.body, msg_id, lost.group))

    def _entry(
        self, decision: str, body: bytes, msg_id: str, group: str, *, number: int = 0
    ) -> Outgoing:
        return Outgoing(self._decisions, body, msg_id, number, decision, group)

    def _stored(self, entry: Outgoing, sequence: int) -> None:
        if entry.decision:
            self.stream_seq = sequence
            waiting = self._unresolved.get(entry.decision)
            if waiting is not None:
                waiting.sequence = sequence
        if entry.number:
            self.published = entry.number
        self.parked_seq = max(self.parked_seq, entry.parked_seq)
        self._check_behind()

    def _give_up(self, entry: Outgoing, error: str) -> None:
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
