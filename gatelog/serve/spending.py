"""Today's spending as a metric: sums of `gatelog usage` by ClusterQueue.

Theory. The sums are one query, too dear for every scrape, and for a process that is not scraped. So
a scrape gets the result of the last query and starts the next, `EVERY_S` apart at least.

Invariant: the figures are those of `gatelog usage`, in base units and in seconds.
"""

import asyncio
from datetime import UTC, datetime

from gatelog.readmodel.model import ReadModel
from gatelog.serve.api.finding_usage import spent_by
from gatelog.serve.questions import Busy, Questions
from podgroup.model.quantities import in_base_units
from runtime.metrics import NONE, Labels, Metrics

EVERY_S = 60.0
_MICROS = 1_000_000


class Spending:
    """The family `gatelog_usage_seconds` of a process that serves."""

    def __init__(self, metrics: Metrics) -> None:
        self._values: dict[Labels, float] = {}
        self._scraped = asyncio.Event()
        metrics.read(
            "gatelog_usage_seconds",
            "Of serve: cores, bytes or pieces times seconds of the UTC day, by what came of them.",
            ("cluster_queue", "resource", "what"),
            read=self._read,
        )

    def _read(self) -> dict[Labels, float]:
        self._scraped.set()
        return self._values

    async def keep(self, questions: Questions, every_s: float = EVERY_S) -> None:
        """Ask again after a scrape, for ever; a database that does not answer leaves no value."""
        while True:
            await self._scraped.wait()
            self._scraped.clear()
            try:
                self._values = await questions.run(lambda model: today(model, datetime.now(UTC)))
            except Busy:
                self._values = {}
            await asyncio.sleep(every_s)


def today(model: ReadModel, now: datetime) -> dict[Labels, float]:
    """Return the spending on the day of `now`, by the family's labels."""
    begin = now.replace(hour=0, minute=0, second=0, microsecond=0)
    return {
        (one.key or NONE, one.resource, what): in_base_units(one.resource, amount) / _MICROS
        for one in spent_by(model, "queue", begin, now).shares
        for what, amount in one.spent.columns.items()
    }
