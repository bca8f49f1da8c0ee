"""Shapes: what makes two waiting workloads one question.

Theory. Workloads with equal podsets and equal priority get the same answer in the same state, apart
from their order in time. So they share a `Shape`, and an answer for one workload is an answer for
all (Kueue calls it scheduling equivalence). Where starts are reserved, how long a workload may run
decides as well, and is part of its shape.

Invariant: two workloads have the same `Shape` object if and only if podsets, priority and bound
on running are equal.
"""

from podgroup.admission.amounts import PODS, ordered
from podgroup.admission.model import PodSet

_Key = tuple[int, tuple[PodSet, ...], float | None]


def asked(pod_set: PodSet) -> dict[str, int]:
    """Return the request of all pods of a podset together."""
    total = {name: each * pod_set.count for name, each in pod_set.requests}
    total.update({name: each * pod_set.count for name, each in pod_set.devices})
    for name, amount in pod_set.shared:
        total[name] = total.get(name, 0) + amount
    return total


class Shape:
    """Podsets and a priority; their requests are worked out once."""

    __slots__ = ("_with_pods", "_without", "pod_sets", "priority", "run_s")

    def __init__(
        self, priority: int, pod_sets: tuple[PodSet, ...], run_s: float | None = None
    ) -> None:
        self.priority = priority
        self.pod_sets = pod_sets
        self.run_s = run_s
        totals = [asked(one) for one in pod_sets]
        self._without = [{name: total[name] for name in ordered(total)} for total in totals]
        self._with_pods: list[dict[str, int]] = []

    def requests(self, with_pods: bool) -> list[dict[str, int]]:
        """Return per podset the request of all its pods, in the order of resources (`ordered`)."""
        if not with_pods:
            return self._without
        if not self._with_pods:
            for pod_set, asked in zip(self.pod_sets, self._without, strict=True):
                full = {**asked, PODS: pod_set.count}
                self._with_pods.append({name: full[name] for name in ordered(full)})
        return self._with_pods

    def total(self, with_pods: bool) -> dict[str, int]:
        """Return the request of all podsets together."""
        total: dict[str, int] = {}
        for requests in self.requests(with_pods):
            for resource, amount in requests.items():
                total[resource] = total.get(resource, 0) + amount
        return total


class Shapes:
    """The shapes that are in use."""

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[Shape, list[int]]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def intern(
        self, priority: int, pod_sets: tuple[PodSet, ...], run_s: float | None = None
    ) -> Shape:
        """Return the shape of a further workload."""
        key = (priority, pod_sets, run_s)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = (Shape(*key), [0])
        found[1][0] += 1
        return found[0]

    def give_back(self, shape: Shape) -> None:
        """Forget the shape with its last workload."""
        key = (shape.priority, shape.pod_sets, shape.run_s)
        users = self._known[key][1]
        users[0] -= 1
        if not users[0]:
            del self._known[key]
