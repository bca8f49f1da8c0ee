"""A StatefulSet controller for the toy cluster, and pods as LeaderWorkerSet's own makes them.

Pods come as the door lets them in: with what it writes on pods of an owner that makes up a group.
"""

from typing import Any

from podgroup.log import events as e
from podgroup.model.names import (
    GROUP_NAME,
    GROUP_OWNER,
    POD_GROUP_ROLE,
    PRIORITY_CLASS,
    SERVING,
    SINGLE_PODSET,
)
from podgroup.model.objects import OwnerRef, PodView, StatefulSetView
from podgroup.model.policy import Policy
from tests.support.toy import Toy

OWNED = Policy(owned_groups=("LeaderWorkerSet", "StatefulSet"))


class Owners(Toy):
    """A toy cluster whose StatefulSets make their pods in order, as `OrderedReady` does."""

    def __init__(self, cpu: int = 10, policy: Policy = OWNED, **more: Any) -> None:
        super().__init__(cpu, policy=policy, **more)
        self.sets: dict[str, StatefulSetView] = {}
        self.sizes: dict[str, int] = {}
        self.classes: dict[str, str] = {}
        """WorkloadPriorityClass of sets that have one."""
        self.fields: dict[str, Any] = {}
        """What else their pods say."""

    def scale(self, name: str, replicas: int, cpu: int | None = None) -> None:
        """Create a StatefulSet, or give it another number of replicas or another template."""
        uid = self.sets[name].uid if name in self.sets else f"set-{name}-{len(self.sets)}"
        view = StatefulSetView(
            uid=uid, namespace="ns", name=name, resource_version=self.bump(), replicas=replicas
        )
        self.sets[name] = view
        self.sizes[name] = cpu or self.sizes.get(name, 1)
        self.do(e.ObjectApplied(object=view))
        self.reconcile(name)

    def remove(self, name: str) -> None:
        """Delete a StatefulSet, and its pods with it."""
        view = self.sets.pop(name)
        gone = e.ObjectDeleted(
            kind="StatefulSet",
            namespace="ns",
            name=name,
            uid=view.uid,
            resource_version=self.bump(),
        )
        self.do(gone)
        for pod in self.of(name):
            self.delete(pod.name)
        self.collect(view.uid)

    def of(self, name: str) -> list[PodView]:
        """The pods of a StatefulSet by their numbers."""
        found = [p for p in self.pods.values() if p.name.rpartition("-")[0] == name]
        return sorted(found, key=lambda p: int(p.name.rpartition("-")[2]))

    def reconcile(self, name: str) -> None:
        """Let the controller do all that it can: pods are made in order, and taken from the end."""
        wanted = self.sets[name].replicas
        for beyond in reversed(self.of(name)[wanted:]):
            self.delete(beyond.name)
        for number in range(wanted):
            there = (p for p in self.of(name) if p.name == f"{name}-{number}")
            pod: PodView | None = next(there, None)
            if pod is None:
                pod = self.named(self.member(name, number).name)
            if pod.gates:
                return  # it is not ready, and the next comes after it
            if pod.phase == "Pending":
                self.run(pod.name)

    def member(self, name: str, number: int) -> PodView:
        """A pod of a StatefulSet."""
        labels = {GROUP_NAME: name, POD_GROUP_ROLE: SINGLE_PODSET}
        if name in self.classes:
            labels[PRIORITY_CLASS] = self.classes[name]
        return self.pod(
            f"{name}-{number}",
            name,
            None,
            self.sizes[name],
            role="main",
            labels=labels,
            annotations={GROUP_OWNER: f"StatefulSet/{name}", SERVING: "true"},
            owners=(self._owner(name),),
            **self.fields,
        )

    def leader(self, name: str, number: int, size: int, cpu: int = 1) -> PodView:
        """The leader of a replica of a LeaderWorkerSet."""
        return self._replica(
            f"{name}-{number}", name, f"{name}-{number}", size, "leader", cpu, name
        )

    def worker(self, name: str, number: int, index: int, size: int, cpu: int = 1) -> PodView:
        """A worker of a replica of a LeaderWorkerSet."""
        group = f"{name}-{number}"
        return self._replica(f"{group}-{index}", name, group, size, "worker", cpu, group)

    def _replica(
        self, pod: str, name: str, group: str, size: int, role: str, cpu: int, of: str
    ) -> PodView:
        owner = f"LeaderWorkerSet/{name}/{size}"
        return self.pod(
            pod,
            group,
            None,
            cpu,
            role=role,
            labels={GROUP_NAME: group, POD_GROUP_ROLE: role},
            annotations={GROUP_OWNER: owner, SERVING: "true"},
            owners=(self._owner(of),),
        )

    def _owner(self, name: str) -> OwnerRef:
        uid = self.sets[name].uid if name in self.sets else f"set-{name}"
        return OwnerRef(
            kind="StatefulSet", name=name, uid=uid, api_version="apps/v1", controller=True
        )

    def waiting(self) -> list[str]:
        """Names of the pods that wait at their gate."""
        return sorted(p.name for p in self.pods.values() if p.gates)

    def charged(self) -> int:
        """What is charged in all, in cores."""
        charges = self.world.quotas.charges.values()
        return sum(sum(charge.usage.values()) for charge in charges) // 1000
