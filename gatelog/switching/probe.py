"""Asking the API server what becomes of a pod, and deleting what a switch leaves over.

Invariant: the pod that is tried is never stored.
"""

from collections.abc import Iterable
from typing import Any

from gatelog.cluster import clusterinfo
from gatelog.shell.errors import CommandFailed
from gatelog.switching.course import Tell
from podgroup.model.names import ADMISSION_GATE, QUEUE_NAME
from runtime.kube import KubeClient


async def gated(kube: KubeClient, namespace: str) -> None:
    """Create a pod that names a queue, but for storing it.

    Raises:
        CommandFailed: it is refused, or has no gate.
    """
    limits = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "gatelog-switch-probe", "labels": {QUEUE_NAME: "probe"}},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "probe", "image": "probe", "securityContext": limits}],
        },
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    status, made = await kube.json("POST", path, body=pod, params={"dryRun": "All"})
    if status not in (200, 201):
        raise CommandFailed(
            f"a pod that names a queue is refused in namespace {namespace} ({status}): "
            f"{(made or {}).get('message')}"
        )
    gates = [gate["name"] for gate in made["spec"].get("schedulingGates") or ()]
    if ADMISSION_GATE not in gates:
        raise CommandFailed(
            f"a pod that names a queue gets no gate in namespace {namespace}: is it among "
            "webhook.excluded_namespaces? gatelog doctor says what gates pods"
        )


async def remove(kube: KubeClient, paths: Iterable[str], tell: Tell, *, dry: bool) -> None:
    """Delete the objects that are there.

    Raises:
        CommandFailed: one may not be looked at, or not be deleted.
    """
    for path in paths:
        found = await clusterinfo.seen(kube, path)
        if found is None:
            raise CommandFailed(f"this account may not look at {path}: switch as an administrator")
        if not found:
            continue
        _, plural, name = path.rsplit("/", 2)
        if not dry:
            status, answer = await kube.json("DELETE", path)
            if status >= 400 and status != 404:
                raise CommandFailed(f"cannot delete {path}: {(answer or {}).get('message')}")
        tell(f"removed {plural} {name}")
