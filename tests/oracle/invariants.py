"""What must hold in every play, whatever is decided."""

from typing import Any

from podgroup.admission.tree import Forest
from tests.oracle import case as reading
from tests.oracle.case import Case
from tests.oracle.play import Play


class CheckedPlay(Play):
    """A play that notes in `broken` what must not happen."""

    def __init__(self, case: Case, *, as_kueue: bool = False) -> None:
        self.broken: list[str] = []
        self.owed: dict[str, str] = {}
        """By victim, who must be in before it."""
        super().__init__(case, as_kueue=as_kueue)

    def run(self) -> dict[str, Any]:
        outcome = super().run()
        if not outcome["quiescent"]:
            self.broken.append("it never settles")
            return outcome
        # Nobody was overlooked: tried once more without a reason, nobody gets anything. (A head
        # that blocks a queue keeps quota from those who come later; tried together they may win.)
        cache = self.scheduler.cache
        if any(any(queue.reserved.values()) for queue in cache.objects.cluster_queues.values()):
            return outcome
        cache.wake_ups.release_all()
        more = self.scheduler.decide(self.scheduler.cache.wake_ups.now)
        for admission in more.admitted:
            self.broken.append(f"end: {admission.id} would fit and waits")
        return outcome

    def after_step(self, at: dict[str, Any]) -> None:
        where = f"step {at['step']}"
        for name in at["deleted"]:
            self.owed = {v: p for v, p in self.owed.items() if name not in (v, p)}
        # Whose turn went to a lender may wait for ever: its victims need not wait as long.
        gave_way = {loser for loser, _ in self.scheduler.withdrawn}
        self.owed = {v: p for v, p in self.owed.items() if p not in gave_way}
        came = {one["workload"] for one in at["admitted"]}
        for name in sorted(came & {one["workload"] for one in at["preempted"]}):
            self.broken.append(f"{where}: {name} is admitted and preempted at once")
        for victim in sorted(came & self.owed.keys()):
            if self.owed[victim] not in came:
                self.broken.append(f"{where}: {victim} is back before {self.owed[victim]}")
        self.owed = {v: p for v, p in self.owed.items() if v not in came and p not in came}
        for one in at["preempted"]:
            preemptor = next(p for v, p in reversed(self.preemptions) if v == one["workload"])
            self.owed[one["workload"]] = preemptor
        pairs = self.preemptions
        for pair in {pair for pair in pairs if pairs.count(pair) > 1}:
            self.broken.append(f"{where}: {pair[0]} is preempted again for {pair[1]}")
        self._check_quota(where, at["admitted"])

    def _check_quota(self, where: str, admitted: list[dict[str, Any]]) -> None:
        """Count from nothing what everybody holds, and look where somebody was let in."""
        forest = Forest(
            [reading.cluster_queue(queue) for queue in self.case.cluster_queues],
            [reading.cohort(cohort) for cohort in self.case.cohorts or ()],
        )
        for holding in self.scheduler.cache.reservations.admitted.values():
            forest.queues[holding.cluster_queue].take(holding.usage)
        for one in admitted:
            node = forest.queues[one["clusterQueue"]]
            for key in self.scheduler.cache.reservations.admitted[one["workload"]].usage:
                if node.room(key) < 0:
                    self.broken.append(
                        f"{where}: {one['workload']} takes {key[1]} of {key[0]} beyond its quota"
                    )
