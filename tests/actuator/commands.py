"""Shorthand for commands, decisions and live objects of the actuator's tests."""

from datetime import UTC, datetime
from typing import Any

from podgroup.log.events import Decision
from podgroup.model import names
from podgroup.model.commands import AnyCommand, CreateWorkload, ObjectRef, PodSetSpec, UngatePod

NOW = datetime(2026, 11, 20, 12, 30, 15, 250_000, tzinfo=UTC)


def pod_ref(name: str = "p0", uid: str = "u0", namespace: str = "team") -> ObjectRef:
    return ObjectRef(kind="Pod", namespace=namespace, name=name, uid=uid)


def workload_ref(name: str = "w", uid: str = "", namespace: str = "team") -> ObjectRef:
    return ObjectRef(kind="Workload", namespace=namespace, name=name, uid=uid)


def decision(command: AnyCommand, number: int = 1, **changes: Any) -> Decision:
    fields: dict[str, Any] = {
        "id": f"d{number}-aaaa",
        "number": number,
        "as_of": number,
        "at": NOW,
        "group": "group-1",
        "namespace": command.target.namespace,
        "name": "train",
        "rule": "admitted",
        "reason": "Admitted",
        "message": "Admitted by clusterQueue cq",
        "command": command,
    }
    return Decision(**{**fields, **changes})


def ungate(target: ObjectRef, **changes: Any) -> UngatePod:
    fields: dict[str, Any] = {
        "target": target,
        "gates": (names.ADMISSION_GATE,),
        "labels": {names.PODSET_LABEL: "main"},
    }
    return UngatePod(**{**fields, **changes})


def create_workload(
    owner: ObjectRef, name: str = "w", *, group: bool = True, count: int = 1, **changes: Any
) -> CreateWorkload:
    fields: dict[str, Any] = {
        "target": workload_ref(name, namespace=owner.namespace),
        "queue": "queue",
        "pod_sets": (PodSetSpec(name="main", count=count, sample=owner),),
        "owners": (owner,),
        "controller": not group,
        "annotations": {names.IS_GROUP_WORKLOAD: "true"} if group else {},
    }
    return CreateWorkload(**{**fields, **changes})


def pod(name: str = "p0", gates: tuple[str, ...] = (names.ADMISSION_GATE,)) -> dict[str, Any]:
    """A pod as a user would send it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {names.MANAGED_LABEL: "true", names.QUEUE_NAME: "queue"},
            "finalizers": [names.POD_FINALIZER],
        },
        "spec": {
            "schedulingGates": [{"name": gate} for gate in gates],
            "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}],
        },
    }


def live_pod(uid: str = "u0", version: str = "7", **spec: Any) -> dict[str, Any]:
    """A pod as a GET would answer it."""
    found = pod()
    found["metadata"] |= {"uid": uid, "resourceVersion": version, "namespace": "team"}
    found["spec"] |= spec
    return found
