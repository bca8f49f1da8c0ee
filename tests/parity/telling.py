"""Short words for stories of quota: queues and cohorts in a line, groups as their owner sees them.

Theory. A story of Kueue's scheduler is about Workloads that its test writes. Here each is a pod
group, whose pods a kubelet runs once they are free, and whose owner makes a pod anew for each that
was stopped, as a Job does. So what is preempted comes back by itself, and a story says only what a
person does.

Quotas are written ``flavor=nominal/borrowing/lending``, in cores; other resources as in
``flavor=cpu:5,pods:3``.

Invariant: everything is said to the engine as events, through `Toy`.
"""

from typing import Any

from msgspec.structs import replace

from podgroup.log import events as e
from podgroup.model.names import PRIORITY_CLASS, QUEUE_NAME
from podgroup.model.objects import (
    CohortView,
    FlavorQuotas,
    FlavorView,
    LocalQueueView,
    NamespaceView,
    Quota,
    ResourceGroup,
    WorkloadPriorityClassView,
)
from podgroup.model.policy import Policy
from tests.support.toy import Toy

ENDED = ("Succeeded", "Failed")


def amount(resource: str, text: str) -> int | None:
    """An amount as views have it; None where nothing is written."""
    return None if not text else int(float(text) * (1000 if resource == "cpu" else 1))


def quota(resource: str, text: str) -> Quota:
    """The quota that ``nominal/borrowing/lending`` is."""
    nominal, borrowing, lending = [*(amount(resource, one) for one in text.split("/")), None, None][
        :3
    ]
    return Quota(nominal=nominal or 0, borrowing_limit=borrowing, lending_limit=lending)


def quotas(text: str) -> tuple[ResourceGroup, ...]:
    """The one resource group that a line of flavors is; none for an empty line."""
    flavors, covered = [], dict[str, None]()
    for flavor in text.split():
        name, _, said = flavor.partition("=")
        given = [one if ":" in one else f"cpu:{one}" for one in said.split(",")]
        pairs = [one.split(":") for one in given]
        covered |= dict.fromkeys(resource for resource, _ in pairs)
        flavors.append(
            FlavorQuotas(name=name, resources={key: quota(key, value) for key, value in pairs})
        )
    return (ResourceGroup(covered=tuple(covered), flavors=tuple(flavors)),) if flavors else ()


class Story:
    """A cluster in builtin mode with the flavors that are named, and groups in its queues."""

    def __init__(self, *flavors: str, policy: Policy | None = None) -> None:
        self.toy = Toy(cpu=0, policy=policy)
        self.wishes: dict[str, dict[str, Any]] = {}
        """What each group asks for, by its name: how its owner makes pods."""
        self.made = 0
        for name in flavors:
            self.flavor(name)

    # -- an administrator ---

    def flavor(self, name: str, **more: Any) -> None:
        """Make a ResourceFlavor whose nodes are labelled with its name."""
        v, labels = self.toy.bump(), {"instance-type": name}
        self._say(
            FlavorView(
                uid=name, name=name, resource_version=v, node_labels=labels, marked=True, **more
            )
        )

    def cohort(self, name: str, flavors: str = "", parent: str = "") -> None:
        """Make a Cohort, or change it."""
        v = self.toy.bump()
        groups = quotas(flavors)
        self._say(CohortView(uid=name, name=name, resource_version=v, parent=parent, groups=groups))

    def queue(self, name: str, flavors: str, cohort: str = "", **more: Any) -> None:
        """Make a ClusterQueue with a LocalQueue of the same name, or change it."""
        self.cluster_queue(name, flavors, cohort, **more)
        self.local_queue(name)

    def cluster_queue(self, name: str, flavors: str, cohort: str = "", **more: Any) -> None:
        """Make a ClusterQueue, or change it; what is not said is Kueue's default."""
        plain = self.toy.cluster_queue(0, within="Never")
        self._say(
            replace(plain, uid=name, name=name, groups=quotas(flavors), cohort=cohort, **more)
        )

    def local_queue(self, name: str, **more: Any) -> None:
        """Make a LocalQueue of the ClusterQueue of the same name, or change it."""
        v, active = self.toy.bump(), ("True", "Ready", "Can submit new workloads to localQueue")
        self._say(
            LocalQueueView(
                uid=f"l-{name}", namespace="ns", name=name, resource_version=v, cluster_queue=name,
                active=active, **more,
            )
        )  # fmt: skip

    def namespace(self, **labels: str) -> None:
        """Label the namespace of all pods."""
        v = self.toy.bump()
        self._say(NamespaceView(uid="n", name="ns", resource_version=v, labels=labels))

    def drop(self, kind: Any, name: str) -> None:
        """An object is gone."""
        v = self.toy.bump()
        gone = e.ObjectDeleted(kind=kind, namespace="", name=name, uid=name, resource_version=v)
        self.toy.do(gone)
        self.go_on()

    def _say(self, view: Any) -> None:
        self.toy.do(e.ObjectApplied(object=view))
        self.go_on()

    # -- users, kubelets and owners ---

    def group(
        self, name: str, queue: str, cpu: float = 1, priority: int = 0, pods: int = 1, **more: Any
    ) -> None:
        """Make a group of equal pods, a second after what was made before."""
        self.toy.wait(1)
        requests = {"cpu": int(cpu * 1000), **more.pop("requests", {})}
        more |= {"requests": {k: v for k, v in requests.items() if v or k != "cpu"}}
        labels = {QUEUE_NAME: queue, PRIORITY_CLASS: self._priority(priority)}
        self.wishes[name] = {"total": pods, "role": "r", "labels": labels, **more}
        for _ in range(pods):
            self._make(name)
        self.go_on()

    def _priority(self, value: int) -> str:
        """Make the class of a priority; return its name."""
        name, v = f"p{value}".replace("-", "minus"), self.toy.bump()
        view = WorkloadPriorityClassView(uid=name, name=name, resource_version=v, value=value)
        self.toy.do(e.ObjectApplied(object=view))
        return name

    def _make(self, name: str) -> None:
        self.made += 1
        self.toy.pod(f"{name}-{self.made}", name, **self.wishes[name])

    def pods(self, name: str, *phases: str) -> list[str]:
        """Names of a group's pods, of those phases if any are given."""
        found = (p for p in self.toy.pods.values() if p.name.rpartition("-")[0] == name)
        return sorted(p.name for p in found if not phases or p.phase in phases)

    def finish(self, name: str, count: int | None = None) -> None:
        """Pods of a group succeed, all of them or so many."""
        for pod in self.pods(name, "Running")[:count]:
            self.toy.end(pod)
        if count is None:
            del self.wishes[name]
        self.go_on()

    def delete(self, name: str) -> None:
        """A user deletes a group's Workload, and makes its pods no more."""
        del self.wishes[name]
        self.toy.delete_workload(name)
        self.go_on()

    def go_on(self) -> None:
        """Run what is free, and make anew what was stopped, until nothing is left to do."""
        for _ in range(20):
            free = [
                p.name
                for p in self.toy.pods.values()
                if not p.gates and p.phase == "Pending" and p.deleted_at is None
            ]
            self.toy.run(*free)
            lacking = {
                name: wish["total"] - len(self.pods(name, "Pending", "Running", "Succeeded"))
                for name, wish in self.wishes.items()
            }
            for name, count in lacking.items():
                for _ in range(count):
                    self._make(name)
            if not free and not any(count > 0 for count in lacking.values()):
                return
        raise AssertionError("goes on for ever")

    # -- what is so ---

    def reserved(self) -> set[str]:
        """Groups that hold quota now."""
        true = {name: self.toy.true(name) for name in self.toy.workloads}
        return {n for n, said in true.items() if "QuotaReserved" in said and "Finished" not in said}

    def runs(self, names: str) -> None:
        """Hold what has quota, and what runs, against the groups that are named."""
        expected = set(names.split())
        assert self.reserved() == expected
        assert {n for n in self.toy.workloads if self.pods(n, "Running")} == expected

    def flavors(self, name: str) -> set[str]:
        """Flavors that a group was given."""
        given = self.toy.workloads[name].assignments
        return {flavor for one in given for flavor in one.flavors.values()}

    def use(self, name: str, resource: str = "cpu") -> float:
        """What a group holds of a resource, in cores or pieces."""
        given = self.toy.workloads[name].assignments
        return sum(one.usage.get(resource, 0) for one in given) / (1000 if resource == "cpu" else 1)

    def preempted(self, name: str) -> str:
        """Why a group was preempted, the last time."""
        return self.toy.condition(name, "Preempted")[1]
