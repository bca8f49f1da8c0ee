"""The ResourceClaim controller of kube-controller-manager: claims that come of templates.

Theory: a pod names templates in spec.resourceClaims. As soon as pod and template are there, gated
or not, a claim is made for the pod, which owns it, and the pod's status names the claim. What the
template says later changes no claim. Nothing is allocated here: the stand-in has devices without
end.

Invariant: an entry of a pod gets one claim.
"""

from simcluster.errors import Obj
from simcluster.pods import PodWrites
from simcluster.requests import Options, Target
from simcluster.resources import Route
from simcluster.store import Change, Rec, Store, Table
from simcluster.workqueue import WorkQueue
from simcluster.writes import Writes

GROUP = "resource.k8s.io"
MANAGER = "kube-controller-manager"
ENTRY = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim: for which entry of its pod it was made."""


class ClaimController:
    """Follows pods and templates; works in one task."""

    def __init__(self, store: Store, writes: Writes, pods: PodWrites) -> None:
        self.store = store
        self.writes = writes
        self.pods = pods
        self.queue = WorkQueue(store)
        self.lacking: set[str] = set()
        """Pods whose template does not exist."""
        store.hooks.append(self.seen)

    def seen(self, table: Table, change: Change) -> None:
        """A change of any table."""
        uid = change.rec.uid
        if table.resource.key == (GROUP, "resourceclaimtemplates") and change.type == "ADDED":
            for pod in sorted(self.lacking):
                self.queue.add(pod)
            self.lacking.clear()
        elif table.resource.key == ("", "pods"):
            if change.type == "DELETED":
                self.lacking.discard(uid)
            elif _open(change.rec.obj):
                self.queue.add(uid)

    async def run(self) -> None:
        """Make the claims of queued pods for ever."""
        await self.queue.run(self._make)

    async def _make(self, _table: Table, rec: Rec) -> None:
        for entry in _open(rec.obj):
            template = self.store.tables[GROUP, "resourceclaimtemplates"].get(
                rec.namespace, entry["resourceClaimTemplateName"]
            )
            if template is None:
                self.lacking.add(rec.uid)
                continue
            table = self.store.tables[GROUP, "resourceclaims"]
            route = Route(table.resource, GROUP, table.resource.versions[0])
            made = await self.writes.create(
                Target(route, rec.namespace),
                _claim(rec, entry["name"], template.obj),
                Options(manager=MANAGER),
            )
            found = self.store.by_uid.get(rec.uid)
            if found is None:
                return
            rec = found[1]
            status = rec.obj.get("status") or {}
            known = status.get("resourceClaimStatuses") or []
            named = {"name": entry["name"], "resourceClaimName": made.name}
            rec = self.pods.status(
                rec, {**status, "resourceClaimStatuses": [*known, named]}, MANAGER
            )


def _open(pod: Obj) -> list[Obj]:
    """Return the entries that name a template and have no claim yet."""
    status = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    done = {one["name"] for one in status}
    return [
        one
        for one in pod["spec"].get("resourceClaims") or ()
        if one.get("resourceClaimTemplateName") and one["name"] not in done
    ]


def _claim(pod: Rec, entry: str, template: Obj) -> Obj:
    wanted = template.get("spec") or {}
    metadata = wanted.get("metadata") or {}
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "uid": pod.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{pod.name}-{entry}-",
            "labels": metadata.get("labels") or {},
            "annotations": {**(metadata.get("annotations") or {}), ENTRY: entry},
            "ownerReferences": [owner],
        },
        "spec": wanted.get("spec") or {},
    }
