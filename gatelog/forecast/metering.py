"""What a forecast says per ClusterQueue, as metrics.

Invariant: metrics are of the latest forecast, and none is shown before there was one.
"""

from collections import Counter
from collections.abc import Iterable

from gatelog.forecast.present import queue_of
from gatelog.forecast.refreshing import Made
from podgroup.ids import GroupID
from podgroup.runtime.metrics import Labels, Metrics


class Meters:
    """The families of `gatelog forecast --every`."""

    def __init__(self, metrics: Metrics) -> None:
        self._starts: dict[Labels, float] = {}
        self._groups: Counter[Labels] = Counter()
        self._at: dict[Labels, float] = {}
        metrics.read(
            "gatelog_forecast_start_seconds",
            "Seconds until the first and the last in line is expected to start, at either chance.",
            ("cluster_queue", "place", "chance"),
            read=lambda: self._starts,
        )
        metrics.read(
            "gatelog_forecast_groups",
            "Groups that wait, by outlook: starts, late (not in 30 days) or stuck.",
            ("cluster_queue", "outlook"),
            read=lambda: self._groups,
        )
        metrics.read(
            "gatelog_forecast_timestamp_seconds",
            "When the latest forecast was made, in seconds since 1970.",
            read=lambda: self._at,
        )

    def tell(self, found: Iterable[Made]) -> None:
        """Show another forecast."""
        starts: dict[Labels, float] = {}
        groups: Counter[Labels] = Counter()
        for made in found:
            for one in made.forecast.estimates:
                queue = queue_of(made.world, made.world.groups[GroupID(one.group)])
                outlook = "late" if one.expected_s is None else "starts"
                groups[queue, "stuck" if one.never else outlook] += 1
                for chance, seconds in (("0.5", one.expected_s), ("0.9", one.latest_s)):
                    if seconds is None:
                        continue
                    first, last = (queue, "first", chance), (queue, "last", chance)
                    starts[first] = min(seconds, starts.get(first, seconds))
                    starts[last] = max(seconds, starts.get(last, seconds))
            self._at = {(): made.at.timestamp()}
        self._starts, self._groups = starts, groups
