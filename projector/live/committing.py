"""Committing: a transaction at a time, in a thread of its own, retried until it is written.

Theory. The loop gives changes to the writer and goes on folding; before it gives the next batch it
waits for this one. Only after a commit are its decisions given to the outbox. A database that is
away is waited for, because giving up would lose the batch; a second projector ends this one.

Invariant: commits happen in order, each on top of the checkpoint that its predecessor stored.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

from msgspec import Struct

from podgroup.folding import drain_journal
from podgroup.log.codec import Conclusions
from podgroup.log.journal import EpochRow, Journal
from podgroup.log.outcomes import FINAL
from podgroup.state.world import World
from projector.delivery.outbox import Outbox
from projector.live.replicas import Replica
from projector.measures.metrics import ProjectorMetrics, Work
from projector.storage.loading import Loaded
from projector.storage.store import ReadModelReplaced, Store, StoreUnavailable
from projector.writing import record_rows
from projector.writing.checkpoint import Checkpoint
from projector.writing.packing import pack_meta
from projector.writing.parked_rows import Settled
from projector.writing.record_rows import target_text
from projector.writing.rows import Rows, build
from runtime.backoff import Backoff
from runtime.log import get_logger

T = TypeVar("T")

SILENT_S = 10.0
"""Seconds of one call after which a database counts as away; another session's lock may hold it."""

log = get_logger("projector")


class EpochBase(Struct):
    """The origin of positions: the base of the epoch and its stream."""

    base: int = 0
    stream_created_at: datetime | None = None


class Committer:
    """Writes batches of one cluster."""

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        stop: asyncio.Event,
        metrics: ProjectorMetrics,
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._stop = stop
        self._metrics = metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="projector-store")
        self._running: asyncio.Task[None] | None = None
        self.checkpoint: Checkpoint | None = None
        self.place = EpochBase()
        self._problem = ""
        self._replaced: ReadModelReplaced | None = None
        self._asked_s: float | None = None
        self.rows = 0

    @property
    def problem(self) -> str:
        """Why the database takes no writes, "" while it does; silence counts after a while."""
        if self._problem or self._asked_s is None:
            return self._problem
        silent_s = time.monotonic() - self._asked_s
        return f"no answer for {silent_s:.0f} s" if silent_s > SILENT_S else ""

    async def load(self) -> Loaded | None:
        """Return what the database holds, waiting for the database if need be.

        Raises:
            StoreUnavailable: `stop` came first.
        """
        loaded = await self._patiently(self._store.load)
        if loaded is not None:
            self.checkpoint = loaded.checkpoint
            self.place = EpochBase(loaded.checkpoint.base, loaded.checkpoint.stream_created_at)
        return loaded

    async def hand_on_parked(self, parked_seq: int) -> None:
        """Give the outbox the parked events that were not sent.

        Raises:
            StoreUnavailable: `stop` came first.
        """
        parked = await self._patiently(lambda: self._store.parked_after(parked_seq - 1))
        self._outbox.put((), parked)

    async def owed(self, after: int, until: int, limit: int, records: bool) -> list[Conclusions]:
        """Return decisions that are still to be seen through: `Store.owed`.

        Raises:
            StoreUnavailable: `stop` came first.
        """
        return await self._patiently(lambda: self._store.owed(after, until, limit, records=records))

    async def submit(
        self,
        world: World,
        *,
        at: datetime | None,
        begun: Iterable[EpochRow] = (),
        settled: Iterable[Settled] = (),
    ) -> None:
        """Commit all changes since the last call.

        `at` is the timestamp of the last message folded. Returns when the batch before is written.

        Raises:
            StaleProjector: another projector writes this cluster.
            StoreUnavailable: `stop` came before the database did.
        """
        taken = drain_journal(world)
        work = self._metrics.begin_batch(taken, world)
        rows = build(world, taken)
        rows.settled = list(settled)
        if beginnings := record_rows.epochs(world.cluster, begun):
            rows.tables["epochs"] = beginnings
        new = Checkpoint(
            cluster=world.cluster,
            mode=world.mode,
            seq=world.meta.position,
            epoch=world.meta.epoch,
            base=self.place.base,
            stream_created_at=self.place.stream_created_at,
            at=at,
            published=self._outbox.published,
            decisions_created_at=self._outbox.stream_created_at,
            decisions_seq=self._outbox.stream_seq,
            parked_seq=self._outbox.parked_seq,
            written_at=datetime.now(UTC),
            folded=pack_meta(world.meta),
        )
        await self.idle()
        self._running = asyncio.create_task(self._write(rows, new, taken.journal, work))
        await asyncio.sleep(0)  # let it begin

    async def write_replicas(self, rows: list[Replica]) -> None:
        """Write the replicas' heartbeats, unless the database is away."""
        try:
            with suppress(StoreUnavailable):
                await self._call(lambda: self._store.write_replicas(rows))
        except ReadModelReplaced as error:
            self._replaced = error

    @property
    def free(self) -> bool:
        """Nothing is being written."""
        return self._running is None or self._running.done()

    def check(self) -> None:
        """Raise the error of the commit under way, if it has failed.

        Raises:
            ReadModelReplaced: the read model was rebuilt, while there was nothing to commit.
        """
        if self._replaced is not None:
            raise self._replaced
        if self._running is not None and self._running.done():
            running, self._running = self._running, None
            running.result()

    async def idle(self) -> None:
        """Wait until nothing is being written.

        Raises:
            StaleProjector, StoreUnavailable: see `submit`.
        """
        if self._running is not None:
            running, self._running = self._running, None
            await running

    async def close(self) -> None:
        """Finish the transaction under way, then release the database."""
        if self._running is not None:
            await asyncio.wait({self._running})
        await self._call(self._store.close)
        self._thread.shutdown(wait=False)

    async def _write(self, rows: Rows, new: Checkpoint, journal: Journal, work: Work) -> None:
        old, began = self.checkpoint, time.monotonic()
        self.checkpoint = await self._patiently(lambda: self._store.commit(rows, new, old))
        written = rows.count()
        self.rows += written
        took_s, rebuilding = time.monotonic() - began, self._outbox.rebuilding
        self._outbox.put(_in_order(journal), journal.parked)
        for outcome in journal.outcomes:
            if outcome.status in FINAL:
                self._outbox.resolve(outcome.decision)
            else:
                self._outbox.heard(outcome.decision)
        if journal.decisions:
            await asyncio.sleep(0)  # on their way before they are counted and logged
        self._metrics.committed(work, written, took_s, rebuilding=rebuilding)
        self._log_decisions(journal)

    def _log_decisions(self, journal: Journal) -> None:
        holding = self._outbox.holding
        # While the log is caught up with there may be millions: not even a call for each.
        quiet = holding and not logging.getLogger().isEnabledFor(logging.DEBUG)
        tell = log.debug if holding else log.info
        for decision in () if quiet else journal.decisions:
            tell(
                "decision",
                id=decision.id,
                rule=decision.rule,
                action=decision.command.action,
                group=f"{decision.namespace}/{decision.name}",
                target=target_text(decision.command.target),
                reason=decision.reason,
                message=decision.message,
            )
        for parked in journal.parked:
            log.error(
                "parked",
                seq=parked.seq,
                ord=parked.ord,
                reason=parked.reason,
                message=parked.message,
                object=parked.object,
            )

    async def _call(self, work: Callable[[], T]) -> T:
        self._asked_s = time.monotonic()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._asked_s = None

    async def _patiently(self, work: Callable[[], T]) -> T:
        """Do it again until the database answers, or until `stop`."""
        backoff = Backoff(first_s=0.1, ceiling_s=10.0)
        while True:
            try:
                done = await self._call(work)
            except StoreUnavailable as error:
                if self._stop.is_set():
                    raise
                wait_s = next(backoff)
                self._problem = str(error)
                log.warning("database_unavailable", error=str(error), wait_s=round(wait_s, 2))
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._stop.wait()
            else:
                self._problem = ""
                return done


def _in_order(journal: Journal) -> list[Conclusions]:
    """Return decisions and records by number."""
    if not journal.concluded:
        return list(journal.decisions)
    return sorted([*journal.decisions, *journal.concluded], key=lambda one: one.number)
