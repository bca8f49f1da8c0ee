"""Releasing the objects of users: gates, finalizers and the label of pods; Workloads.

Theory. A running pod has only a finalizer and a label of ours, and runs on without them. A waiting
pod has our gate too: without the gate the pod starts, whatever quota there is, so the person who
removes gatelog must warn its user; with the gate the pod waits for a gatelog that comes back. A
Workload loses its finalizer first, so that deleting it cannot hang.

Invariant: no pod is deleted, and every write names the version that was read: an object that
changed meanwhile is read again.
"""

import asyncio
import re
import time
from typing import Literal, NamedTuple

import msgspec

from gatelog.cluster.ownership import Kind, path_of
from gatelog.shell.errors import CommandFailed
from podgroup.model.names import (
    ADMISSION_GATE,
    IS_GROUP_WORKLOAD,
    MANAGED_LABEL,
    POD_FINALIZER,
    TOPOLOGY_GATE,
    WORKLOAD_FINALIZER,
)
from podgroup.model.objects import ENDED
from runtime.kube import KubeClient
from runtime.manifests import Object

PODS = Kind("/api/v1", "pods", "Pod")
QUEUE_KINDS = (
    ("localqueues", "LocalQueue"),
    ("clusterqueues", "ClusterQueue"),
    ("cohorts", "Cohort"),
    ("resourceflavors", "ResourceFlavor"),
    ("admissionchecks", "AdmissionCheck"),
)
"""Kinds whose objects may carry the finalizer of objects in use."""
GATES = (ADMISSION_GATE, TOPOLOGY_GATE)
IN_FORCE_S = 30.0
"""Seconds for which deleted policies and webhooks of ours may still be in force."""
_PAUSE_S = 0.2
_OURS_SAYS = re.compile(r"'gatelog-[a-z-]+'|\"[a-z.]+\.gatelog\"")
"""How the API server names a policy or webhook of ours that refused a request."""
TRIES = 8
"""Reads of an object that changes meanwhile, before that is an error."""

Gates = Literal["open", "keep"]


class Pod(NamedTuple):
    """Our parts of a pod (gate, finalizer, label), and whether the pod waits or runs."""

    finalizer: bool
    label: bool
    gated: bool
    running: bool

    def touched(self, gates: Gates) -> bool:
        """Return whether anything of ours must be removed."""
        return self.finalizer or (gates == "open" and (self.gated or self.label))


def inspect(pod: Object) -> Pod:
    """Return our parts of a pod."""
    meta, spec = pod["metadata"], pod.get("spec") or {}
    phase = (pod.get("status") or {}).get("phase")
    names = {gate["name"] for gate in spec.get("schedulingGates") or ()}
    return Pod(
        finalizer=POD_FINALIZER in (meta.get("finalizers") or ()),
        label=MANAGED_LABEL in (meta.get("labels") or {}),
        gated=bool(names & set(GATES)),
        running=bool(spec.get("nodeName")) and phase not in ENDED,
    )


def pod_patch(pod: Object, gates: Gates) -> list[Object]:
    """Return the JSON patch that removes our gates, finalizer and label; [] without them."""
    found, meta = inspect(pod), pod["metadata"]
    if not found.touched(gates):
        return []
    patch: list[Object] = [{"op": "test", "path": "/metadata/uid", "value": meta["uid"]}]
    if found.finalizer:
        patch += _less(pod, "finalizers", {POD_FINALIZER})
    if gates == "open" and found.label:
        path = f"/metadata/labels/{MANAGED_LABEL.replace('/', '~1')}"
        patch.append({"op": "remove", "path": path})
    if gates == "open" and found.gated:
        have = pod["spec"]["schedulingGates"]
        left = [gate for gate in have if gate["name"] not in GATES]
        path = "/spec/schedulingGates"
        patch.append({"op": "test", "path": path, "value": have})
        patch.append({"op": "replace", "path": path, "value": left})
    return patch


def finalizer_patch(obj: Object) -> list[Object]:
    """Return the JSON patch that takes the finalizer off a Workload or a queue; [] for none."""
    meta = obj["metadata"]
    if WORKLOAD_FINALIZER not in (meta.get("finalizers") or ()):
        return []
    uid = {"op": "test", "path": "/metadata/uid", "value": meta["uid"]}
    return [uid, *_less(obj, "finalizers", {WORKLOAD_FINALIZER})]


def _less(obj: Object, field: str, names: set[str]) -> list[Object]:
    have = obj["metadata"][field]
    path = f"/metadata/{field}"
    return [
        {"op": "test", "path": path, "value": have},
        {"op": "replace", "path": path, "value": [name for name in have if name not in names]},
    ]


def made_by_us(workload: Object) -> bool:
    """Return whether a Workload represents pods, as ours do; Kueue's represent Jobs and so on."""
    meta = workload["metadata"]
    if (meta.get("annotations") or {}).get(IS_GROUP_WORKLOAD) == "true":
        return True
    return any(owner.get("kind") == "Pod" for owner in meta.get("ownerReferences") or ())


async def release(kube: KubeClient, kind: Kind, obj: Object, gates: Gates) -> bool:
    """Remove our parts of an object; return whether there were any.

    Raises:
        CommandFailed: refused, or the object changes all the time.
    """
    path = path_of(kind, obj)
    began_s, tries = time.monotonic(), 0
    while tries < TRIES:
        patch = pod_patch(obj, gates) if kind == PODS else finalizer_patch(obj)
        if not patch:
            return False
        answer = await kube.request(
            "PATCH",
            path,
            body=msgspec.json.encode(patch),
            content_type="application/json-patch+json",
        )
        if answer.status < 400:
            return True
        if answer.status == 404:
            return False
        if _OURS_SAYS.search(answer.message()) and time.monotonic() - began_s < IN_FORCE_S:
            # The policy was deleted before, and an API server learns that a moment later.
            await asyncio.sleep(_PAUSE_S)
            continue
        tries += 1
        if answer.status not in (409, 422, 429):
            raise CommandFailed(
                f"cannot release {kind.kind} {path}: the API server answered {answer.status}: "
                f"{answer.message()}"
            )
        again = await kube.request("GET", path)
        if again.status == 404:
            return False
        fresh = msgspec.json.decode(again.body, type=dict)
        if fresh["metadata"]["uid"] != obj["metadata"]["uid"]:
            return False
        obj = fresh
    raise CommandFailed(
        f"cannot release {kind.kind} {path}: the API server answered {answer.status}: "
        f"{answer.message()}; run gatelog uninstall again"
    )
