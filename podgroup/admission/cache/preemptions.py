"""Preemptions: which workload preempted which, as long as both are known.

Growth preempts as the workload that grows, before the growth is granted and after.

Invariant: a preemption is entered for both sides, or for neither.
"""

from podgroup.admission.holding import grown_id


class Preemptions:
    """Preemptors and victims, by id."""

    def __init__(self) -> None:
        self._preemptors: dict[str, set[str]] = {}
        self._victims: dict[str, set[str]] = {}

    def add(self, victim: str, preemptor: str) -> None:
        """Enter that a workload was preempted for another."""
        preemptor = grown_id(preemptor)
        self._preemptors.setdefault(victim, set()).add(preemptor)
        self._victims.setdefault(preemptor, set()).add(victim)

    def __contains__(self, id: str) -> bool:
        """Whether a workload preempted another, or was preempted."""
        return id in self._victims or id in self._preemptors

    def exempt(self, id: str) -> set[str]:
        """Return the workloads that a workload must not preempt, lest preemption goes in a circle.

        They are its victims, and its preemptors, directly or through others.
        """
        id = grown_id(id)
        found = set(self._victims.get(id, ()))
        waiting = [id]
        while waiting:
            for preemptor in self._preemptors.get(waiting.pop(), ()):
                if preemptor not in found:
                    found.add(preemptor)
                    waiting.append(preemptor)
        return found

    def forget(self, id: str) -> None:
        """Forget all preemptions of a workload."""
        for preemptor in self._preemptors.pop(id, ()):
            _discard(self._victims, preemptor, id)
        for victim in self._victims.pop(id, ()):
            _discard(self._preemptors, victim, id)


def _discard(table: dict[str, set[str]], key: str, id: str) -> None:
    table[key].discard(id)
    if not table[key]:
        del table[key]
