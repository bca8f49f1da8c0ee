"""Estimates of a forecast per ClusterQueue, as metrics.

Invariant: metrics are of the latest forecast; before the first there are none.
"""

from msgspec import Struct, field

from gatelog.forecast.estimates import Made
from gatelog.forecast.estimating import Estimate
from podgroup.model.ids import GroupID
from podgroup.state.facts import cluster_queue_name
from runtime.metrics import Labels, Metrics


class Readings(Struct):
    """What metrics show of a forecast, by their labels; `at` in seconds since 1970, 0: none."""

    starts: dict[Labels, float] = field(default_factory=dict)
    groups: dict[Labels, float] = field(default_factory=dict)
    at: float = 0.0


class Meters:
    """The families of a process that makes forecasts."""

    def __init__(self, metrics: Metrics) -> None:
        self._starts: dict[Labels, float] = {}
        self._groups: dict[Labels, float] = {}
        self._at: dict[Labels, float] = {}
        metrics.read(
            "gatelog_forecast_start_seconds",
            "Seconds until the first and the last in the queue starts, at either chance.",
            ("cluster_queue", "place", "chance"),
            read=lambda: self._starts,
        )
        metrics.read(
            "gatelog_forecast_groups",
            "Waiting groups: starts, late (not in 30 days), stuck or unknown.",
            ("cluster_queue", "outlook"),
            read=lambda: self._groups,
        )
        metrics.read(
            "gatelog_forecast_timestamp_seconds",
            "When the latest forecast was made, in seconds since 1970.",
            read=lambda: self._at,
        )

    def show(self, found: Readings) -> None:
        """Show another forecast."""
        self._starts, self._groups = found.starts, found.groups
        if found.at:
            self._at = {(): found.at}


def readings(made: Made) -> Readings:
    """Return what metrics show of a forecast."""
    one = Readings()
    for estimate in made.forecast.estimates:
        queue = cluster_queue_name(made.world, made.world.groups[GroupID(estimate.group)])
        key = (queue, _outlook(estimate))
        one.groups[key] = one.groups.get(key, 0) + 1
        for chance, seconds in (("0.5", estimate.expected_s), ("0.9", estimate.latest_s)):
            if seconds is None:
                continue
            first, last = (queue, "first", chance), (queue, "last", chance)
            one.starts[first] = min(seconds, one.starts.get(first, seconds))
            one.starts[last] = max(seconds, one.starts.get(last, seconds))
    one.at = made.at.timestamp()
    return one


def _outlook(estimate: Estimate) -> str:
    if estimate.unknown:
        return "unknown"
    if estimate.never:
        return "stuck"
    return "late" if estimate.expected_s is None else "starts"
