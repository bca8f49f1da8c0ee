"""The ingester's metrics: deltas from the API server, and their way into the log.

Theory. Deltas are counted when a watcher hands them on, which is once for each line or item the
API server sent; the same delta may be sent again after a failure, and is then counted again here
and dropped as a duplicate by the log. The last sign of life is kept per kind, bookmarks included:
API servers send one about every minute, so silence much beyond that is a watch that hangs.

The reason of a relist is free text for people; `reason_class` maps it to one of a few words.

Invariant: each object that came is counted under exactly one (kind, type).
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from ingest.states import Step
from podgroup.log.events import (
    DeltaRefused,
    ObjectApplied,
    ObjectDeleted,
    PodApplied,
    PodDeleted,
    RelistStarted,
    WorkloadApplied,
    WorkloadDeleted,
)
from podgroup.model.objects import Kind
from runtime.metrics import Metrics

_CLASSES: Final = (
    ("start", "start"),
    ("410 ", "expired"),
    ("the continue token was refused", "expired"),
    ("the version to resume from was refused", "version_refused"),
    ("cannot resume from ", "version_refused"),
    ("the initial watch was interrupted", "interrupted"),
    ("the list was interrupted: asked for by ", "asked"),
    ("the list was interrupted", "interrupted"),
    ("the server cannot stream lists", "no_watch_list"),
    ("the kind is installed now", "installed"),
    ("the kind is not installed", "not_installed"),
    ("nothing is in the log yet", "empty_log"),
    ("the log has no complete list", "no_complete_list"),
    ("the cluster was restored", "restored"),
    ("the stream was recreated", "log_recreated"),
    ("the stream was rolled back", "log_rolled_back"),
)
"""How reasons of relists begin, and their class."""


def reason_class(reason: str) -> str:
    """Return the class of a relist's reason: one of a fixed set of words, `other` if unknown."""
    return next((word for start, word in _CLASSES if reason.startswith(start)), "other")


class IngestMetrics:
    """The ingester's families among the process's metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._seen_at: dict[Kind, float] = {}
        self._deltas = metrics.counter(
            "gatelog_ingest_deltas_total",
            "Objects the API server sent: listed, applied, deleted, or refused as unreadable.",
            ("kind", "type"),
        )
        self._relists = metrics.counter(
            "gatelog_ingest_relists_total",
            "Complete lists begun, by why one was due.",
            ("kind", "reason"),
        )
        self._restarts = metrics.counter(
            "gatelog_ingest_watch_restarts_total",
            "Watches that ended: closed by the server, or by trouble.",
            ("kind", "outcome"),
        )
        self._sessions = metrics.counter(
            "gatelog_ingest_sessions_total",
            "Starts of ingest from the log, after failures included.",
        )
        self._restored = metrics.counter(
            "gatelog_ingest_restores_total",
            "Times the API server told another history: etcd restored, or another cluster.",
        )
        self._deferred = metrics.counter(
            "gatelog_ingest_changes_deferred_total",
            "Changes of pods that decide nothing and waited, for being too many.",
        )
        self._conflated = metrics.counter(
            "gatelog_ingest_changes_conflated_total",
            "Changes of pods that a later one replaced in the log.",
        )
        self._measured = metrics.counter(
            "gatelog_ingest_samples_total",
            "Samples of pods' real use.",
        )
        self._looks = metrics.counter(
            "gatelog_ingest_measure_rounds_total",
            "Rounds of the metrics API: ok or failed.",
            ("outcome",),
        )
        self._unlabelled = 0
        self._count_publishing(metrics)
        metrics.read(
            "gatelog_ingest_unlabelled_pods",
            "Pods that bear gatelog's gate or finalizer without its label, at the last look.",
            read=lambda: {(): self._unlabelled},
        )
        metrics.read(
            "gatelog_ingest_last_event_timestamp_seconds",
            "When the API server last sent something of this kind.",
            ("kind",),
            read=lambda: {(kind,): at for kind, at in self._seen_at.items()},
        )
        self._metrics = metrics

    def _count_publishing(self, metrics: Metrics) -> None:
        self._messages = metrics.counter(
            "gatelog_ingest_messages_total", "Messages published to the log."
        )
        self._bytes = metrics.counter(
            "gatelog_ingest_published_bytes_total", "Bytes of messages published to the log."
        )
        self._publish = metrics.histogram(
            "gatelog_ingest_publish_seconds", "From sending a message to the log's acknowledgement."
        )

    def watch(
        self,
        followed: Callable[[], Mapping[Kind, bool]],
        pending: Callable[[], int],
        held: Callable[[], int] = lambda: 0,
    ) -> None:
        """Read at each scrape which kinds are followed, how many bytes wait for the log, and how
        many changes of pods are held for their turn.
        """
        self._metrics.read(
            "gatelog_ingest_changes_held",
            "Pods whose last change waits for its turn.",
            read=lambda: {(): held()},
        )
        self._metrics.read(
            "gatelog_ingest_following",
            "1 if the kind is listed and watched.",
            ("kind",),
            read=lambda: {(kind,): float(well) for kind, well in followed().items()},
        )
        self._metrics.read(
            "gatelog_ingest_pending_bytes",
            "Bytes of events that wait for a message.",
            read=lambda: {(): pending()},
        )

    def held_back(self, deferred: int, conflated: int) -> None:
        """Count changes of pods that had to wait, and such that a later one took the place of."""
        self._deferred().inc(deferred)
        self._conflated().inc(conflated)

    def measured(self, samples: int, *, failed: bool) -> None:
        """Count a round of requests to the metrics API, and the new samples that it gave."""
        self._measured().inc(samples)
        self._looks("failed" if failed else "ok").inc()

    def unlabelled(self, pods: int) -> None:
        """Keep how many pods of ours the last look found without the label."""
        self._unlabelled = pods

    def came(self, kind: Kind, step: Step) -> None:
        """Count what a watcher hands on."""
        if step.trouble is None:
            self._seen_at[kind] = time.time()
        for event in step.events:
            match event:
                case PodApplied() | WorkloadApplied() | ObjectApplied():
                    self._deltas(kind, "listed" if event.relist else "applied").inc()
                case PodDeleted() | WorkloadDeleted() | ObjectDeleted():
                    self._deltas(kind, "deleted").inc()
                case DeltaRefused():
                    self._deltas(kind, "refused").inc()
                case RelistStarted():
                    self._relists(kind, reason_class(event.reason)).inc()
                case _:
                    pass

    def ended(self, kind: Kind, trouble: bool) -> None:
        """Count a watch that ended."""
        self._restarts(kind, "trouble" if trouble else "closed").inc()

    def session(self) -> None:
        """Count a session that begins."""
        self._sessions().inc()

    def restored(self) -> None:
        """Count a cluster that went back, or became another."""
        self._restored().inc()

    def stored(self, size: int, took_s: float) -> None:
        """Count a message of `size` bytes that the log acknowledged after `took_s` seconds."""
        self._messages().inc()
        self._bytes().inc(size)
        self._publish().observe(took_s)


class WebhookMetrics:
    """The webhook's families; the server counts, so its counts are read at each scrape."""

    def __init__(self, metrics: Metrics, counts: Counter[tuple[str, str]]) -> None:
        metrics.read(
            "gatelog_webhook_requests_total",
            "Requests by outcome.",
            ("webhook", "outcome"),
            read=lambda: {key: float(count) for key, count in counts.items()},
            kind="counter",
        )
        self._took = metrics.histogram(
            "gatelog_webhook_request_seconds",
            "From a request's head being read to the answer.",
            ("webhook",),
        )

    def answered(self, webhook: str, took_s: float) -> None:
        """Count the time of a request, with any result."""
        self._took(webhook).observe(took_s)
