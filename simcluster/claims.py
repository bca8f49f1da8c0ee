"""The ResourceClaim controller of kube-controller-manager: claims that come of templates.

Theory: a pod names templates in spec.resourceClaims. As soon as pod and template are there, gated
or not, a claim is made for the pod, which owns it, and the pod's status names the claim. What the
template says later changes no claim. Nothing is allocated here: the stand-in has devices without
end.

Invariant: an entry of a pod gets one claim.
"""

import asyncio
from collections import OrderedDict

from simcluster.errors import ApiError, Obj
from simcluster.pods import PodWrites
from simcluster.requests import Options, Target
from simcluster.resources import Route
from simcluster.store import Change, Rec, Store, Table
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
        self.queue: OrderedDict[str, None] = OrderedDict()
        self.lacking: set[str] = set()
        """Pods whose template is not there."""
        self.wake = asyncio.Event()
        store.hooks.append(self.seen)

    def seen(self, table: Table, change: Change) -> None:
        """A change of any table."""
        uid = change.rec.uid
        if table.resource.key == (GROUP, "resourceclaimtemplates") and change.type == "ADDED":
            for pod in sorted(self.lacking):
                self._look(pod)
            self.lacking.clear()
        elif table.resource.key == ("", "pods"):
            if change.type == "DELETED":
                self.lacking.discard(uid)
            elif _open(change.rec.obj):
                self._look(uid)

    def _look(self, uid: str) -> None:
        self.queue[uid] = None
        self.wake.set()

    async def run(self) -> None:
        """Make the claims of queued pods for ever."""
        while True:
            await self.wake.wait()
            self.wake.clear()
            while self.queue:
                uid, _ = self.queue.popitem(last=False)
                entry = self.store.by_uid.get(uid)
                if entry is None:
                    continue
                try:
                    await self._make(entry[1])
                except (
                    ApiError
                ):  # its namespace goes, or its quota is used up: with its next change
                    continue

    async def _make(self, rec: Rec) -> None:
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
