"""The agenda: events in simulated time, for what-if and forecasts.

Theory. Discrete events: entries come in order of time and, at the same moment, of rank; an entry
made meanwhile takes its place among the rest. Times are of one type that can be compared.

Invariant: the order depends on the entries alone.
"""

import heapq
from collections.abc import Iterator
from itertools import count
from typing import Any, Generic, TypeVar

At = TypeVar("At")
What = TypeVar("What")


class Agenda(Generic[At, What]):
    """Entries of a time each; `next_at` is the first, None if there is nothing."""

    def __init__(self) -> None:
        self._heap: list[tuple[Any, Any, int, What]] = []
        self._serial = count()

    @property
    def next_at(self) -> At | None:
        """The time of the first entry."""
        return self._heap[0][0] if self._heap else None

    def add(self, at: At, what: What, rank: Any = 0) -> None:
        """Enter an event; among equals in time and rank the first entry comes first."""
        heapq.heappush(self._heap, (at, rank, next(self._serial), what))

    def take(self, until: At) -> Iterator[tuple[At, What]]:
        """Yield events up to a time, with their times, including those entered meanwhile."""
        while self._heap and self._heap[0][0] <= until:
            at, _, _, what = heapq.heappop(self._heap)
            yield at, what
