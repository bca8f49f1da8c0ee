"""Least run times: from when on a workload may be preempted.

Theory. An admitted workload runs for some time before it may be preempted, which depends on the
reason of the preemption and on its own priority class (`model.least_run`). The time begins with its
admission. Without an admission a workload may be preempted at once: while its quota waits for
admission checks, and in the pass that admits it, which can still withdraw the admission.

Invariant: where no time is above 0, no search for victims reads any.
"""

from collections.abc import Iterable, Mapping

from podgroup.admission.holding import AdmittedWorkload
from podgroup.model.least_run import Times, by_reason


class LeastRun:
    """Times by priority class, and `times` of all other classes. `never`: no time holds."""

    def __init__(self, times: Times, *, never: bool = False) -> None:
        self._times = times
        self._never = never
        self._classes: dict[str, Times] = {}
        self._by_class: dict[str, Mapping[str, int]] = {}
        self._of_others = by_reason(times)
        self.on = bool(self._of_others) and not never
        """Whether any least run time holds."""

    def set_class(self, name: str, times: Times) -> bool:
        """Enter a priority class's own times, () for none; tell whether they changed."""
        if self._classes.get(name, ()) == times:
            return False
        self._classes[name] = times
        if not times:
            del self._classes[name]
        self._by_class = {one: by_reason(self._times, own) for one, own in self._classes.items()}
        times_there = bool(self._of_others) or any(self._by_class.values())
        self.on = times_there and not self._never
        return True

    def over_at(self, holding: AdmittedWorkload, reason: str) -> float:
        """Return from when on a workload may be preempted for a reason, in seconds."""
        if holding.began is None:
            return 0.0
        return _after(holding.began, self._of(holding).get(reason, 0))

    def moments(self, holdings: Iterable[AdmittedWorkload], now: float) -> list[float]:
        """Return the times after `now` from which further holdings may be preempted, in order."""
        found = {
            at
            for one in holdings
            if one.began is not None
            for seconds in self._of(one).values()
            if (at := _after(one.began, seconds)) > now
        }
        return sorted(found)

    def _of(self, holding: AdmittedWorkload) -> Mapping[str, int]:
        return self._by_class.get(holding.priority_class, self._of_others)


def _after(began: float, seconds: int) -> float:
    """Return a time rounded to microseconds, as its timestamp has it."""
    return round(began + seconds, 6)
