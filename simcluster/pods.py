"""Writes to pods that the cluster's own components make: binding and status.

Theory: scheduler and kubelet write often and change little, so they skip the HTTP layer and the
admission of status writes, but leave the same traces as the real components: a binding changes no
managed fields, a status write adds the writer's entry.

Invariant: a pod that is gated, bound or being deleted is never bound.
"""

from simcluster.errors import Obj, conflict
from simcluster.managed import Writer
from simcluster.objects import new_uid
from simcluster.store import Rec, Table
from simcluster.writes import Writes


def with_conditions(conditions: list[Obj], *new: Obj) -> list[Obj]:
    """Conditions with some replaced in place or appended; no change keeps its transition time."""
    wanted = {condition["type"]: condition for condition in new}
    found: list[Obj] = []
    for old in conditions:
        condition = wanted.pop(old.get("type", ""), old)
        if condition is not old and old.get("status") == condition["status"]:
            if "lastTransitionTime" in old:
                condition = {**condition, "lastTransitionTime": old["lastTransitionTime"]}
        found.append(condition)
    found.extend(wanted.values())
    return found


class PodWrites:
    """Synchronous pod writes over the store."""

    def __init__(self, writes: Writes) -> None:
        self.writes = writes

    def condition(self, kind: str, status: str, **extra: str) -> Obj:
        """A pod condition as the typed API prints it."""
        return {
            "type": kind,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": self.writes.clock.now(),
            **extra,
        }

    def bind(self, rec: Rec, node: str) -> Rec:
        """Assign a pod to a node. Raises 409 when it is bound, gated or being deleted."""
        pod, name = rec.obj, rec.name
        why = ""
        if "deletionTimestamp" in pod["metadata"]:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
        elif pod["spec"].get("nodeName"):
            why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        elif pod["spec"].get("schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
        if why:
            raise conflict("pods/binding", "", name, why)
        status = pod.get("status") or {}
        conditions = with_conditions(
            status.get("conditions") or [], self.condition("PodScheduled", "True")
        )
        obj = {
            **pod,
            "spec": {**pod["spec"], "nodeName": node},
            "status": {**status, "conditions": conditions},
        }
        return self.writes.store.put(self._table(), obj, rec)

    def event(self, rec: Rec, reason: str, message: str, kind: str = "Normal") -> None:
        """Record an Event about a pod, as the scheduler does."""
        now = self.writes.clock.now()
        meta = rec.obj["metadata"]
        self.writes.store.put(
            self.writes.store.tables["", "events"],
            {
                "kind": "Event",
                "apiVersion": "v1",
                "metadata": {
                    "name": f"{rec.name}.{self.writes.store.version:016x}",
                    "namespace": rec.namespace,
                    "uid": new_uid(),
                    "creationTimestamp": now,
                },
                "involvedObject": {
                    "kind": "Pod",
                    "namespace": rec.namespace,
                    "name": rec.name,
                    "uid": rec.uid,
                    "apiVersion": "v1",
                    "resourceVersion": meta["resourceVersion"],
                },
                "reason": reason,
                "message": message,
                "source": {},
                "firstTimestamp": None,
                "lastTimestamp": None,
                "type": kind,
                "eventTime": f"{now[:-1]}.000000Z",
                "action": "Binding" if reason == "Scheduled" else "Scheduling",
                "reportingComponent": "default-scheduler",
                "reportingInstance": "default-scheduler-sim",
            },
            None,
        )

    def unschedulable(self, rec: Rec, message: str) -> bool:
        """Say why a pod fits nowhere; whether that is news."""
        status = rec.obj.get("status") or {}
        condition = self.condition("PodScheduled", "False", reason="Unschedulable", message=message)
        conditions = with_conditions(status.get("conditions") or [], condition)
        written = self.status(rec, {**status, "conditions": conditions}, "kube-scheduler")
        return written is not rec

    def status(self, rec: Rec, status: Obj, manager: str) -> Rec:
        """Replace a pod's status; nothing is written when it is equal."""
        return self.writes.status(("", "pods"), rec, status, Writer(manager, "v1", "status"))

    def _table(self) -> Table:
        return self.writes.store.tables["", "pods"]
