"""The projection: the loop that turns the log of one cluster into the read model and decisions.

Theory. Read the messages that have come, fold and decide message by message, write all changes in
one transaction, then publish the decisions. While the database works on a batch the next batch is
folded, and grows until the database is free again or the batch is full; transactions of a stream of
events are spaced (`COMMIT_INTERVAL_S`), transactions without a decision further apart, and while
the log is caught up with, batches are full. So a lone event is written at once, and under load
batches grow by themselves. Both databases work outside of the interpreter's lock.

Decisions are held, and timers do not fire, until the end is reached that the log had at the start.

Invariant: only committed decisions are published, and no batch is committed twice.
"""

import asyncio
import time
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from importlib import metadata
from uuid import uuid4

from podgroup.engine import step
from podgroup.log import subjects
from podgroup.log.codec import decode_batch, encode_batch
from podgroup.log.events import Batch
from podgroup.rules import decides_by
from podgroup.state.world import World
from projector.delivery.outbox import Outbox
from projector.live import epochs
from projector.live.announcing import Announcer
from projector.live.committing import Committer, EpochBase
from projector.live.logclock import LogClock
from projector.live.recorded import last_recorded, recorded_log
from projector.live.replicas import Replicas
from projector.live.unreadable import unreadable
from projector.measures.metrics import ProjectorMetrics
from projector.storage.loading import Loaded
from projector.storage.opening import (
    decisions_lost,
    policy_of,
    refill_frames,
    refuse_shards,
    world_of,
)
from projector.storage.store import Store, StoreUnavailable
from projector.writing.parked_rows import Settled, keep_raw, settled
from runtime.backoff import Backoff
from runtime.jetstream import (
    Bus,
    BusUnavailable,
    Message,
    MessagesLost,
    Reader,
    StreamChanged,
    StreamMismatch,
    StreamMissing,
    StreamState,
)
from runtime.log import get_logger
from runtime.metrics import Metrics
from runtime.settings import Settings
from runtime.spacing import Spacing

COMMIT_INTERVAL_S = 0.01
"""Seconds between transactions while live."""
MAX_EVENTS = 5_000
"""Events per transaction at most, so that a transaction stays short and its rows fit in memory."""
BREATH_EVENTS = 500
"""Events after which other tasks of the process get a turn."""
TICK_S = 0.1
"""Seconds between two looks at timers and overdue decisions, at least: each goes over all."""
WAIT_S = 0.25
"""Seconds to wait for messages before looking at timers, overdue decisions and `stop`."""
BATCH_WAIT_S = 0.002
"""Seconds to wait for more messages before looking whether the database is free for the batch."""
STALL_S = 5.0
"""Seconds without a message after which the log is searched for messages that do not come."""
DRAIN_S = 5.0
ENSURE_ATTEMPTS = 6

log = get_logger("projector")


class Projection:
    """Folds one cluster until asked to stop. Only this class may change its `world`."""

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        store: Store,
        stop: asyncio.Event,
        *,
        metrics: ProjectorMetrics | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        self._settings = settings
        self._bus = bus
        self._stop = stop
        self._spacing = Spacing(COMMIT_INTERVAL_S)
        self._announcer = Announcer(bus, settings.cluster)
        self._replicas = replicas
        self._trouble = ""
        self._compared = False
        self._outbox = Outbox(
            bus,
            settings,
            refused=self._announcer.record_refused,
            expected=lambda identity: identity in self.world.expecting,
        )
        self._metrics = metrics or ProjectorMetrics(Metrics(settings))
        self._committer = Committer(store, self._outbox, stop, self._metrics)
        self._reader: Reader | None = None
        self._at: datetime | None = None
        self._settled: list[Settled] = []
        self._events = 0
        self._messages = 0
        self._ticked_at = 0.0
        self._heard_s = time.monotonic()
        self._target = 0
        self._clock = LogClock()
        self._reconnected = False
        self._missed: MessagesLost | None = None
        self._wanted = decides_by(
            settings.mode, policy_of(settings.queueing), metadata.version("gatelog")
        )
        self._said_at = 0
        self.world = World(cluster=settings.cluster, mode=settings.mode)
        self._metrics.watch(lambda: self.world, self._outbox, lambda: self._committed_seq)

    @property
    def problem(self) -> str:
        """Why this projector is not ready, "" when it is."""
        if self._committer.problem:
            return f"database: {self._committer.problem}"
        if self._bus.problem:
            return self._bus.problem
        if self._reader is None and self._trouble:
            return f"log: {self._trouble}"
        if self._reader is None or self._outbox.holding:
            return f"catching up: at {self._stream_seq} of {self._target}"
        return ""

    @property
    def _stream_seq(self) -> int:
        return self.world.meta.position - self._committer.place.base

    @property
    def _committed_seq(self) -> int:
        checkpoint = self._committer.checkpoint
        return checkpoint.seq - checkpoint.base if checkpoint is not None else 0

    async def run(self) -> None:
        """Fold until `stop`.

        Raises:
            StaleProjector: another projector writes this cluster.
        """
        publishing = asyncio.create_task(self._outbox.run(self._committer.owed))
        backlog = self._outbox.backlog
        looking = asyncio.create_task(backlog.watch(self._bus, self._settings.cluster))
        beside = [publishing, looking]
        if self._replicas is not None:
            write = self._committer.write_replicas
            beside.append(asyncio.create_task(self._replicas.write_regularly(write)))
        self._bus.on_reconnect.append(self._on_reconnect)
        try:
            await self._start()
            while not self._stop.is_set():
                await self._attach()
                try:
                    await self._follow(publishing)
                except (StreamChanged, StreamMissing) as error:
                    log.warning("stream_changed", error=str(error))
                    self._missed = error if isinstance(error, MessagesLost) else None
                finally:
                    await self._detach()
            await self._drain()
        except StoreUnavailable as error:
            # Only after `stop`: the unwritten batch is in the log and will be folded again.
            log.warning("stopped_without_database", error=str(error))
        finally:
            self._bus.on_reconnect.remove(self._on_reconnect)
            for task in beside:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            await self._announcer.close()
            await self._committer.close()

    def _on_reconnect(self) -> None:
        self._reconnected = True

    async def _start(self) -> None:
        loaded = await self._load()
        if loaded is None:
            return
        checkpoint = loaded.checkpoint
        self._outbox.parked_seq = checkpoint.parked_seq
        self._outbox.stream_created_at = checkpoint.decisions_created_at
        self._outbox.stream_seq = checkpoint.decisions_seq
        await self._committer.hand_on_parked(checkpoint.parked_seq)
        self._outbox.resume(checkpoint.published, self.world.meta.decisions)
        log.info(
            "loaded",
            position=checkpoint.seq,
            epoch=checkpoint.epoch,
            groups=len(self.world.groups),
            pods=len(self.world.pods),
            unpublished=self.world.meta.decisions - checkpoint.published,
        )

    async def _load(self) -> Loaded | None:
        """Begin with what the database holds, or with an empty world."""
        loaded, settings = await self._committer.load(), self._settings
        self.world = world_of(loaded, settings.cluster, settings.mode, policy_of(settings.queueing))
        if loaded is not None:
            self._at = self.world.at = loaded.checkpoint.at
        return loaded

    async def _attach(self) -> None:
        """Find the log and our place in it; begin an epoch if it is another log than the one
        folded.
        """
        backoff = Backoff(first_s=0.1, ceiling_s=5.0)
        while not self._stop.is_set():
            try:
                await self._find_place()
            except (StreamMissing, BusUnavailable) as error:
                self._trouble = str(error)
                log.warning("log_unavailable", error=str(error))
            else:
                self._trouble = ""
                return
            try:
                await self._bus.ensure_streams(self._settings.streams)
            except BusUnavailable:
                pass
            except StreamMismatch:
                # Also what the server says while a stream is being deleted, or made by another.
                if backoff.attempts >= ENSURE_ATTEMPTS:
                    raise
            await asyncio.sleep(next(backoff))

    async def _find_place(self) -> None:
        world, committer = self.world, self._committer
        self._reconnected = False
        stream = await self._bus.stream_state(subjects.EVENTS)
        await refuse_shards(self._bus, world.cluster)
        change = await epochs.examine(self._bus, stream, committer.checkpoint, self._missed)
        if change is not None:
            now = datetime.now(UTC)
            row, base = epochs.open_epoch(world, committer.checkpoint, change, stream, now)
            tell = log.info if row.number == 1 else log.warning
            tell("epoch_started", epoch=row.number, reason=row.reason, base=base)
            committer.place = EpochBase(base, stream.created)
            self._at = change.at
            await committer.submit(world, at=self._at, begun=(row,))
            await committer.idle()
        elif committer.checkpoint is not None and self._outbox.holding:
            count = await refill_frames(self._bus, world, committer.checkpoint, stream)
            log.debug("frames_refilled", messages=count)
        if not self._compared:
            await self._apply_recorded(stream)
            self._compared = True
        await self._look_at_decisions()
        self._missed = None
        self._target = stream.last_sequence
        self._said_at = 0
        self._reader = self._bus.read(
            subjects.EVENTS,
            subjects.events_of(world.cluster),
            self._stream_seq + 1,
            batch=self._settings.projector.batch_messages,
        )

    async def _apply_recorded(self, events: StreamState) -> None:
        """Apply the conclusions that the log has beyond the position of the read model."""
        world, of = self.world, self.world.cluster
        last = await last_recorded(self._bus, of)
        if last is None or last.number <= world.meta.decisions:
            return
        self._outbox.recorded_to = last.number
        base = self._committer.place.base
        recorded = await recorded_log(self._bus, of, events, world, base, last)
        if recorded is None:
            return  # the conclusions are drawn once more
        try:
            async with aclosing(recorded.entries()) as entries:
                async for entry in entries:
                    if recorded.exhausted or self._stop.is_set():
                        break
                    self._count(entry.batch, entry.at, entry.apply(world))
                    if self._events >= MAX_EVENTS:
                        await self._commit()
        finally:
            await self._begin_again(events)
        meta = self.world.meta
        self._outbox.recorded_to = max(last.number, meta.decisions)
        log.info("conclusions_applied", position=meta.position, decisions=meta.decisions)

    async def _begin_again(self, events: StreamState) -> None:
        """Load the state that was folded without rules, as a projector does that starts there."""
        await self._write_all()
        loaded = await self._load()
        if loaded is not None:
            await refill_frames(self._bus, self.world, loaded.checkpoint, events)

    async def _look_at_decisions(self) -> None:
        """Send all open decisions again if DECISIONS is another stream than we published to."""
        stream = await self._bus.stream_state(subjects.DECISIONS)
        outbox = self._outbox
        if decisions_lost(stream, outbox.stream_created_at, outbox.stream_seq):
            count = outbox.repeat_all()
            log.warning("decisions_lost", created=stream.created.isoformat(), repeated=count)
            outbox.stream_seq = stream.last_sequence
        outbox.stream_created_at = stream.created

    async def _detach(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()
        await self._write_all()

    async def _write_all(self) -> None:
        """Leave nothing that is folded unwritten: the log is looked at as of the checkpoint."""
        if self._messages:
            await self._commit()
        await self._committer.idle()

    async def _log_says_so(self) -> bool:
        """Publish our settings unless the log has them; return whether it has.

        An empty log has nothing to decide on: settings are published after its first message.
        """
        if self.world.meta.settings == self._wanted or not self._stream_seq:
            return True
        if self._stream_seq >= self._said_at:
            subject = subjects.events(self.world.cluster, "projector")
            body = encode_batch(Batch(source="projector", events=(self._wanted,)))
            try:
                # An id of its own: a setting that was changed and changed back is published three
                # times.
                self._said_at = await self._bus.publish(subject, body, f"settings/{uuid4().hex}")
            except BusUnavailable as error:
                log.warning("log_unavailable", error=str(error))
                return False
            self._target = max(self._target, self._said_at)
        return False

    async def _follow(self, publishing: "asyncio.Task[None]") -> None:
        while not self._stop.is_set() and (reader := self._reader) is not None:
            waiting = not self._messages
            messages = await reader.next(WAIT_S if waiting else await self._batch_wait_s())
            if self._reconnected:
                # To a server that may have another past: look at the log again before anything of
                # it is folded. A log that was rolled back may be longer than ever by now.
                return
            quiet = waiting and not messages
            await self._look_whether_stuck(messages)
            if messages and not self._outbox.holding:
                self._clock.heard(messages[-1].at)
            if messages and not await self._complete(reader):
                return
            await self._fold_all(messages)
            # Catching up is not urgent: full transactions, until no message comes.
            due = not messages if self._outbox.holding else not self._patient_s
            if self._messages and self._committer.free and due:
                await self._commit()
            if (quiet or self._stream_seq >= self._target) and await self._log_says_so():
                await self._caught_up()
            self._committer.check()
            if publishing.done():
                publishing.result()
            self._tick()

    @property
    def _patient_s(self) -> float:
        """Seconds that the folded batch may wait: decisions make a transaction urgent."""
        journal = self.world.journal
        return self._spacing.left_s(urgent=bool(journal.decisions or journal.parked))

    async def _batch_wait_s(self) -> float:
        """Return how long a transaction that is due waits for more messages, in seconds."""
        if self._outbox.holding:
            return BATCH_WAIT_S
        await self._spacing.turn()
        return max(0.0 if self._committer.free else BATCH_WAIT_S, self._patient_s)

    async def _complete(self, reader: Reader) -> bool:
        """Return whether the messages read may be folded; no: look at the log again.

        Raises:
            StreamChanged: the stream dropped messages before they were read, maybe out of the
                middle of a list. The messages read after them wait for a new epoch.
        """
        try:
            await reader.check_dropped()
        except BusUnavailable as error:
            log.warning("log_unavailable", error=str(error))
            return False
        return True

    async def _look_whether_stuck(self, messages: list[Message]) -> None:
        """Check that no message exists that does not come.

        Raises:
            MessagesLost: a message exists and cannot be read.
        """
        now = time.monotonic()
        if messages:
            self._heard_s = now
        if now < self._heard_s + STALL_S:
            return
        self._heard_s = now
        mine = subjects.events_of(self.world.cluster)
        with suppress(BusUnavailable):
            lost = await unreadable(self._bus, mine, self._stream_seq)
            if lost is not None:
                raise lost

    async def _fold_all(self, messages: list[Message]) -> None:
        most, breath = self._settings.projector.batch_messages, 0
        for message in messages:
            before = self._events
            self._fold(message)
            breath += self._events - before
            if self._events >= MAX_EVENTS or self._messages >= most:
                await self._commit()
            if breath >= BREATH_EVENTS:
                breath = 0
                await asyncio.sleep(0)

    def _fold(self, message: Message) -> None:
        batch = decode_batch(message.body, subjects.source_of(message.subject))
        before = len(self.world.journal.parked)
        step(self.world, message.sequence + self._committer.place.base, message.at, batch)
        keep_raw(self.world.journal.parked, before, batch)
        self._count(batch, message.at, settled(batch, message.at))

    def _count(self, batch: Batch, at: datetime, done: list[Settled]) -> None:
        """Count a message that was folded, and the parked events that it settled."""
        self._at = at
        self._events += len(batch.events)
        self._messages += 1
        self._metrics.folded(batch.source, len(batch.events), at)
        self._settled += done

    async def _commit(self) -> None:
        self._spacing.begin()
        done, self._settled = self._settled, []
        self._events = self._messages = 0
        await self._committer.submit(self.world, at=self._at, settled=done)

    async def _caught_up(self) -> None:
        if not self._outbox.holding:
            return
        await self._write_all()
        self._outbox.release()
        log.info("caught_up", position=self.world.meta.position, to_publish=self._outbox.waiting)

    def _tick(self) -> None:
        clock = time.monotonic()
        if self._outbox.holding or clock < self._ticked_at + TICK_S:
            return
        self._ticked_at = clock
        now = self._clock.now()
        self._announcer.tick(self.world, now)
        if self._outbox.backlog.fresh() and (dropped := self._outbox.repeat_dropped(now)):
            self._metrics.repeated(dropped)
            log.warning("decisions_dropped_unread", repeated=dropped, stream=subjects.DECISIONS)
        repeated = self._outbox.repeat_overdue(now)
        if repeated:
            self._metrics.repeated(repeated)
            log.warning("decisions_repeated", count=repeated)

    async def _drain(self) -> None:
        """Give decisions a moment to get out, and store how far they got."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S if self._bus.connected else 0):
                await self._outbox.drained()
        if self._committer.checkpoint is not None:
            await self._committer.submit(self.world, at=self._at)
            await self._committer.idle()
