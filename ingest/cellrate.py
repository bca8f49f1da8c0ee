"""When things may happen: the generic cell rate algorithm (ITU-T I.371), a time per key.

Invariant: events of a key are at most `burst`, plus one per `interval_s`; work is constant, and
only keys used lately take memory.
"""

from collections import OrderedDict


class CellRate:
    """When events of a key may happen: `burst` at once, then one in `interval_s` seconds."""

    def __init__(self, interval_s: float, burst: int) -> None:
        self._interval_s = interval_s
        self._burst = burst
        self._ahead_s = (burst - 1) * interval_s
        self._used: OrderedDict[str, float] = OrderedDict()

    def reserve(self, key: str, now: float, cost: int = 1) -> float:
        """Return when the next one of `key` may happen, `now` or later, and count `cost`."""
        # Keys whose time has come are as good as unknown; the keys used longest ago come first.
        for _ in range(2):
            if self._used and next(iter(self._used.values())) <= now:
                self._used.popitem(last=False)
        used_s = max(now, self._used.pop(key, 0.0))
        self._used[key] = used_s + self._interval_s * cost
        return max(now, used_s - self._ahead_s)

    def exhaust(self, key: str, now: float) -> None:
        """Leave nothing of the burst of `key`."""
        self.reserve(key, now, self._burst)

    def give_back(self, key: str, cost: int = 1) -> None:
        """Take back a reservation that is not needed any more."""
        if key in self._used:
            self._used[key] -= self._interval_s * cost
