"""Resizing pods in place: subresource ``pods/resize`` (KEP-1287, stable since Kubernetes 1.35).

Theory: a write to this subresource changes only requests and limits of containers; all other fields
that the client sent are dropped. The kubelet takes the change over later and shows it in the
statuses of containers (``allocatedResources``, ``resources``); until then spec and status differ,
and schedulers count the larger of the two.

Invariant: a resize never changes a pod's quality of service, and no pod that has ended is resized.
"""

from simcluster.errors import Cause, Obj
from simcluster.poddefaults import qos

_RESIZABLE = ("cpu", "memory")
_STATUSES = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}


def resized(pod: Obj, wanted: Obj) -> Obj:
    """Return ``pod`` with the resources that ``wanted`` gives its containers."""
    asked = {
        container.get("name"): container.get("resources") or {}
        for container in (wanted.get("spec") or {}).get("containers") or ()
    }
    containers = [
        {**container, "resources": asked[container["name"]]}
        if container["name"] in asked
        else container
        for container in pod["spec"]["containers"]
    ]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


def resize_causes(old: Obj, new: Obj) -> list[Cause]:
    """Findings in a resized pod."""
    if (old.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return [Cause.forbidden("", "pods in terminal phase may not be resized")]
    found: list[Cause] = []
    pairs = zip(old["spec"]["containers"], new["spec"]["containers"], strict=True)
    for index, (before, after) in enumerate(pairs):
        for part in ("requests", "limits"):
            had = (before.get("resources") or {}).get(part) or {}
            has = (after.get("resources") or {}).get(part) or {}
            at = f"spec.containers[{index}].resources.{part}"
            if any(name not in has for name in had):
                text = f"resource {part} cannot be removed"
                found.append(Cause.forbidden(at, text))
            changed = [name for name in has if has[name] != had.get(name)]
            if any(name not in _RESIZABLE for name in changed):
                text = "only cpu and memory resources are mutable"
                found.append(Cause.forbidden(at, text))
    if qos(old["spec"]) != qos(new["spec"]):
        text = "Pod QOS Class may not change as a result of resizing"
        found.append(Cause.invalid("spec", '"..."', text))
    return found


def ungranted(pod: Obj) -> bool:
    """Return whether a running container was granted other resources than it requests now."""
    status = pod.get("status") or {}
    return any(
        one.get("allocatedResources", {}) != granted(container).get("allocatedResources", {})
        for key, statuses in _STATUSES.items()
        for one, container in zip(
            status.get(statuses) or (), pod["spec"].get(key) or (), strict=False
        )
        if "running" in one["state"]
    )


def granted(container: Obj) -> Obj:
    """Return a kubelet's report on a container that has all resources it requests."""
    resources = container.get("resources") or {}
    if not resources.get("requests"):
        return {}
    return {"allocatedResources": dict(resources["requests"]), "resources": dict(resources)}
