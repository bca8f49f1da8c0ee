"""How much of each quota was used over time, in equal steps that grow with the time.

Theory. A picture has a few hundred columns, so more is not kept: when the columns are used up, two
become one, and each is twice as long from then on.

Invariant: at most `COLUMNS` steps are kept, and their sum is what was added.
"""

from array import array
from collections.abc import Hashable
from typing import Generic, TypeVar

COLUMNS = 480

K = TypeVar("K", bound=Hashable)


class Courses(Generic[K]):
    """Amounts over time per key; `step_s` is how long a step is."""

    def __init__(self) -> None:
        self.step_s = 1.0
        self._sums: dict[K, array[float]] = {}

    def add(self, key: K, begin_s: float, seconds: float, amount: float) -> None:
        """Add an amount that held from `begin_s` on, for so many seconds."""
        end_s = begin_s + seconds
        while end_s > COLUMNS * self.step_s:
            self.step_s *= 2
            for known in self._sums.values():
                for at in range(COLUMNS // 2):
                    known[at] = known[2 * at] + known[2 * at + 1]
                known[COLUMNS // 2 :] = array("d", bytes(8 * (COLUMNS - COLUMNS // 2)))
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = array("d", bytes(8 * COLUMNS))
        if not amount:
            return
        step = self.step_s
        for at in range(int(begin_s / step), min(COLUMNS - 1, int(end_s / step)) + 1):
            sums[at] += amount * (min(end_s, (at + 1) * step) - max(begin_s, at * step))

    def means(self, key: K, whole_s: float) -> list[tuple[float, float, float]]:
        """Return begin and end in seconds, and mean amount, of each step of the first `whole_s`."""
        sums = self._sums.get(key, array("d", bytes(8 * COLUMNS)))
        found = []
        for at, total in enumerate(sums):
            begin, end = at * self.step_s, min(whole_s, (at + 1) * self.step_s)
            if end <= begin:
                break
            found.append((begin, end, total / (end - begin)))
        return found
