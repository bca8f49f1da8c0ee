"""Objects that quota is made of, and the trees that are built from them.

Theory. An object is stored as it comes. A change of ClusterQueues, Cohorts, ResourceFlavors or
Topologies notes that the trees are out of date, and `build` makes the trees anew before the next
pass. From then on reservations and claims keep the trees up to date, so that no event and no pass
goes over all of them.

Invariant: while nothing is `stale` the trees are those of the objects.
"""

from collections.abc import Iterable, Mapping

from podgroup.admission.cache.cached_queue import CachedQueue
from podgroup.admission.least_run import LeastRun
from podgroup.admission.model import Configuration
from podgroup.admission.topology.places import Given, Places
from podgroup.admission.tree import Forest, Node
from podgroup.model.objects import (
    CohortView,
    FlavorView,
    LocalQueueView,
    NamespaceView,
    QueueObject,
    TopologyView,
)


class Objects:
    """Objects by name, and the trees of quota and of places."""

    def __init__(self, configuration: Configuration) -> None:
        self.flavors: dict[str, FlavorView] = {}
        self.cohorts: dict[str, CohortView] = {}
        self.cluster_queues: dict[str, CachedQueue] = {}
        self.local_queues: dict[tuple[str, str], LocalQueueView] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.least_run = LeastRun(configuration.least_run, never=configuration.as_kueue)  # Q22
        self.places = Places(better=not configuration.as_kueue)  # Q18
        self.forest = Forest((), ())
        self.present = self.forest
        self.stale = True
        """The trees are to be built anew."""
        self._two_trees = not configuration.as_kueue  # Q1
        self._by_root: dict[Node, list[str]] = {}

    def store(self, value: QueueObject | CachedQueue) -> None:
        """Store an object, new or changed; nodes are stored by `places`."""
        match value:
            case CachedQueue():
                self.cluster_queues[value.spec.name] = value
            case FlavorView():
                self.flavors[value.name] = value
            case CohortView():
                self.cohorts[value.name] = value
            case TopologyView():
                self.places.set_topology(value.name, value.levels)
            case NamespaceView():
                self.namespaces[value.name] = value.labels
            case LocalQueueView():
                self.local_queues[value.namespace, value.name] = value
            case _:
                raise TypeError(f"{value} is not stored as it is")
        self.stale = self.stale or not isinstance(value, NamespaceView | LocalQueueView)

    def discard(self, kind: str, name: str, namespace: str = "") -> bool:
        """Forget an object; tell whether it was known. A Cohort may still be referred to."""
        if kind == "LocalQueue":
            return self.local_queues.pop((namespace, name), None) is not None
        if kind == "Namespace":
            return self.namespaces.pop(name, None) is not None
        if kind == "Topology":
            self.places.remove_topology(name)
            found = True
        elif kind == "ResourceFlavor":
            found = self.flavors.pop(name, None) is not None
        elif kind == "Cohort":
            found = self.cohorts.pop(name, None) is not None
        else:
            found = self.cluster_queues.pop(name, None) is not None
        self.stale = self.stale or found
        return found

    def queue_of(self, local_queue: tuple[str, str]) -> CachedQueue | None:
        """Return the ClusterQueue of a LocalQueue; None if either does not exist."""
        queue = self.local_queues.get(local_queue)
        if queue is None or queue.stop_policy != "None":
            return None
        return self.cluster_queues.get(queue.cluster_queue)

    def tree(self, name: str) -> list[str]:
        """Return the ClusterQueues in the tree of a ClusterQueue."""
        return self._by_root[self.forest.queues[name].root]

    def build(self, held: Iterable[Given]) -> None:
        """Build the trees anew, with the places `held`; usage of quota is entered afterwards."""
        self.stale = False
        inactive = []
        for name, queue in self.cluster_queues.items():
            queue.active = (
                queue.spec.stop_policy == "None"
                and queue.usable
                and queue.offer.flavors <= self.flavors.keys()
                and all(self.places.known(self.flavors[one]) for one in queue.offer.flavors)
            )
            if not queue.active:
                inactive.append(name)
        specs = [queue.spec for queue in self.cluster_queues.values()]
        self.forest = Forest(specs, self.cohorts.values(), inactive)
        self.present = self.forest
        if self._two_trees:
            self.present = Forest(specs, self.cohorts.values(), inactive)
        self._by_root = {}
        for name, node in self.forest.queues.items():
            self._by_root.setdefault(node.root, []).append(name)
        self.places.build(self.flavors.values(), held)
