"""The projector's metrics: counters, and gauges that are read at each scrape.

Theory. A journal is counted after it was committed: a commit that failed is not counted, and each
folded message is counted once, by the process that folds it. The history of a read model that is
being rebuilt was counted by another process before: a rebuild moves the counters of work and none
of the domain's.

Invariant: metrics change nothing of what is folded, decided or written.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct

from podgroup.folding import PendingWrites
from podgroup.model.reasons import PARKED_DECISION
from podgroup.state.world import World
from projector.delivery.outbox import Outbox
from projector.measures import gauges
from projector.measures import increments as domain
from projector.measures.increments import Increments, increments
from projector.measures.lag import Lag
from runtime.metrics import FAST_S, SLOW_S, Metrics

PARK_REASONS = (
    "Undecodable",
    "FoldFailed",
    "DeltaRefused",
    "DecisionRefused",
    PARKED_DECISION,
    "WrongSource",
    "RulesFailed",
    "IllegalTransition",
)
"""Reasons of parking, as in rows of `parked`."""
BATCH_EVENTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
DELAY_S = (*FAST_S, 30.0, 60.0, 300.0, 900.0, 3600.0)


class Work(Struct):
    """One batch on its way into the database, for `ProjectorMetrics.committed`."""

    counted: Increments
    events: int
    oldest_at: datetime | None


class ProjectorMetrics:
    """The projector's families among the process's metrics, and the places that feed them."""

    def __init__(self, metrics: Metrics) -> None:
        self.lag = Lag()
        self._metrics = metrics
        self._read: dict[str, tuple[int, int]] = {}
        self._oldest_at: datetime | None = None
        self._declare_domain(metrics)
        self._declare_work(metrics)

    def _declare_domain(self, metrics: Metrics) -> None:
        queue = ("cluster_queue",)
        counters = (
            (domain.POD_GATED, "Pods seen with our scheduling gate.", queue),
            (domain.POD_UNGATED, "Pods whose scheduling gate was seen to be gone.", queue),
            (domain.POD_REJECTED, "Pods in excess of their group's count, deleted.", queue),
            (domain.ADMITTED, "Admissions of groups.", queue),
            (domain.EVICTED, "Evictions of groups.", (*queue, "reason")),
            (domain.FINISHED, "Groups that finished.", (*queue, "reason")),
            (domain.DECISIONS, "Decisions made, by the rule that made them.", ("rule", "action")),
            (domain.PARKED, "Events parked because they could not be folded.", ("reason",)),
        )
        self._counters = {
            name: metrics.counter(name, help, labels) for name, help, labels in counters
        }
        for reason in PARK_REASONS:
            # From 0 on, so that the first is an increase and not the beginning of a series.
            self._counters[domain.PARKED](reason)
        times = (
            (domain.WAITED, "From a complete, queued group to its admission."),
            (domain.UNGATE_TOOK, "From a group's admission to a pod without its gate."),
        )
        self._times = {
            name: metrics.histogram(name, help, queue, buckets=SLOW_S) for name, help in times
        }

    def _declare_work(self, metrics: Metrics) -> None:
        self._messages = metrics.counter(
            "gatelog_projector_messages_total", "Messages of the log folded.", ("source",)
        )
        self._folded = metrics.counter(
            "gatelog_projector_events_total", "Events of the log folded.", ("source",)
        )
        self._rows = metrics.counter("gatelog_projector_rows_total", "Rows written.")
        self._repeated = metrics.counter(
            "gatelog_projector_decisions_repeated_total",
            "Decisions published again because their outcome was overdue.",
        )
        self._batch = metrics.histogram(
            "gatelog_projector_batch_events", "Events per transaction.", buckets=BATCH_EVENTS
        )
        self._commit = metrics.histogram(
            "gatelog_projector_commit_seconds",
            "From a transaction to its commit, waiting included.",
        )
        self._delay = metrics.histogram(
            "gatelog_projector_delay_seconds",
            "From the oldest message of a transaction in the log to its commit.",
            buckets=DELAY_S,
        )

    def watch(self, world: Callable[[], World], outbox: Outbox, at: Callable[[], int]) -> None:
        """Read sizes off a projection at each scrape; `at` is the sequence it has committed."""
        gauges.declare(self._metrics, world)
        lag, read = self.lag, self._metrics.read
        read(
            "gatelog_projector_lag_messages",
            "Sequence numbers from the committed to the newest message.",
            read=lambda: {(): lag.messages(at())},
        )
        read(
            "gatelog_projector_lag_seconds",
            "Seconds for which the log was ahead of the commits.",
            read=lambda: {(): lag.seconds(at())},
        )
        read(
            "gatelog_projector_outbox_messages",
            "Decisions and parked events committed, not yet in their stream.",
            read=lambda: {(): outbox.waiting},
        )
        read(
            "gatelog_projector_unresolved_decisions",
            "Open decisions, without those that wait in the table.",
            read=lambda: {(): outbox.unresolved},
        )
        read(
            "gatelog_projector_unresolved_decision_age_seconds",
            "Age of the oldest open decision; 0 for none.",
            read=lambda: {(): _age_s(outbox.unresolved_since)},
        )

    def folded(self, source: str, events: int, at: datetime) -> None:
        """Count a message that was folded; `at` is its timestamp in the log."""
        # Per message, so plain sums; they are added once per batch.
        so_far = self._read.get(source)
        self._read[source] = (1, events) if so_far is None else (so_far[0] + 1, so_far[1] + events)
        if self._oldest_at is None:
            self._oldest_at = at

    def begin_batch(self, taken: PendingWrites, world: World) -> Work:
        """Return the counts to add once `taken` is committed, and begin the next batch."""
        read, self._read = self._read, {}
        oldest_at, self._oldest_at = self._oldest_at, None
        for source, (messages, events) in read.items():
            self._messages(source).inc(messages)
            self._folded(source).inc(events)
        return Work(increments(taken, world), sum(events for _, events in read.values()), oldest_at)

    def committed(self, work: Work, rows: int, took_s: float, *, rebuilding: bool) -> None:
        """Count a batch that is committed; `rebuilding`: its history was counted in its day."""
        self._rows().inc(rows)
        self._commit().observe(took_s)
        if work.oldest_at is not None:
            self._batch().observe(work.events)
            self._delay().observe(_age_s(work.oldest_at))
        if rebuilding:
            return
        for (name, labels), amount in work.counted.counts.items():
            self._counters[name](*labels).inc(amount)
        for (name, labels), seconds in work.counted.times:
            self._times[name](*labels).observe(seconds)

    def repeated(self, count: int) -> None:
        """Count decisions that were published again."""
        self._repeated().inc(count)


def _age_s(at: datetime | None) -> float:
    return 0.0 if at is None else max(0.0, (datetime.now(UTC) - at).total_seconds())
