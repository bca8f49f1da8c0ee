"""The actuator's metrics: requests to the API server, what became of decisions, how many at once.

Theory. Requests are counted where they leave, by verb, resource and HTTP status, so a server that
says 429 is seen as that even when the decision succeeds on its second try. Decisions are counted
by their outcome, which is what the log hears too. Concurrency, queue and Events: at a scrape.

Invariant: every request is counted once, and so is every final outcome.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from actuator.concurrency import AdaptiveConcurrency
from actuator.kubeevents import Emitter
from podgroup.log.events import Decision
from runtime.metrics import SLOW_S, Metrics

NO_ANSWER: Final = "none"
"""Status of a request that got no answer."""

_RESOURCES: Final = ("pods", "workloads", "events")


class ActuatorMetrics:
    """The actuator's families among the process's metrics."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._requests = metrics.counter(
            "gatelog_actuator_requests_total",
            "Requests to the API server by HTTP status.",
            ("verb", "resource", "status"),
        )
        self._took = metrics.histogram(
            "gatelog_actuator_request_seconds",
            "From a request to its answer, without waiting for a turn.",
            ("verb", "resource"),
        )
        self._outcomes = metrics.counter(
            "gatelog_actuator_outcomes_total",
            "Final outcomes of decisions.",
            ("action", "status"),
        )
        self._parked = metrics.counter(
            "gatelog_actuator_parked_total",
            "Decisions parked as unreadable or failing.",
        )
        self._refused = metrics.counter(
            "gatelog_actuator_refused_messages_total",
            "Messages among decisions without a known signature, parked.",
        )
        self._retries = metrics.counter(
            "gatelog_actuator_retries_total",
            "Attempts that failed for a while.",
            ("action",),
        )
        self._lasted = metrics.histogram(
            "gatelog_actuator_decision_seconds",
            "From a decision's cause in the log to its outcome.",
            ("action",),
            buckets=(0.01, 0.025, 0.05, *SLOW_S),
        )

    def watch(
        self, concurrency: AdaptiveConcurrency, emitter: Emitter, held: Callable[[], int]
    ) -> None:
        """Read concurrency, Events and `held` decisions at each scrape."""
        read = self._metrics.read
        read(
            "gatelog_actuator_requests_in_flight",
            "Requests at the API server now.",
            read=lambda: {(): concurrency.in_flight},
        )
        read(
            "gatelog_actuator_requests_limit",
            "Requests allowed at once; adapts to the API server.",
            read=lambda: {(): concurrency.limit},
        )
        read(
            "gatelog_actuator_decisions_held",
            "Decisions delivered and not dealt with.",
            read=lambda: {(): held()},
        )
        read(
            "gatelog_actuator_kube_events_total",
            "Kubernetes Events by what became of them.",
            ("result",),
            read=lambda: {("sent",): emitter.sent, ("dropped",): emitter.dropped},
            kind="counter",
        )

    def answered(self, verb: str, path: str, status: int, began_s: float) -> None:
        """Count a request; `status` 0: no answer; `began_s` by `time.monotonic`."""
        resource = _resource(path)
        self._requests(verb, resource, str(status) if status else NO_ANSWER).inc()
        self._took(verb, resource).observe(time.monotonic() - began_s)

    def ended(self, decision: Decision, status: str) -> None:
        """Count a final outcome."""
        action = decision.command.action
        self._outcomes(action, status).inc()
        age = datetime.now(UTC) - decision.at
        self._lasted(action).observe(max(0.0, age.total_seconds()))

    def parked(self, decision: Decision | None) -> None:
        """Count a message that is parked; None if it is no decision that can be read."""
        self._parked().inc()
        if decision is not None:
            self.ended(decision, "rejected")

    def count_refused(self) -> None:
        """Count a message that is no decision of ours, and that is parked."""
        self._refused().inc()
        self._parked().inc()

    def retried(self, decision: Decision) -> None:
        """Count a try that ended in a passing failure."""
        self._retries(decision.command.action).inc()


def _resource(path: str) -> str:
    """Return the resource of a path: /api/v1/namespaces/<ns>/<resource>[/...], at any group."""
    parts = path.split("/")
    found = parts[parts.index("namespaces") + 2] if "namespaces" in parts[:5] else ""
    return found if found in _RESOURCES else "other"
