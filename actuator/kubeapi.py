"""The API server as the actuator sees it: a few verbs on a few kinds, with replies as values.

Theory. Every request ends in a `Reply`: an HTTP status, or status 0 when no answer came (the write
may have happened or not, so every write can be repeated). Pods are at v1; Workloads and queues are
written at the best version that both sides know, found out once, and again when a path is not
served (Kueue installed, upgraded or removed).

Invariant: no request leaves without a turn of `AdaptiveConcurrency`; `verdicts` decides what a
reply means.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from actuator.concurrency import AdaptiveConcurrency
from actuator.fairqueue import ON_BEHALF
from actuator.fence import Known
from actuator.replies import NOT_INSTALLED, NOT_SERVED, Reply, read
from actuator.ungated import UngatedPods
from actuator.workloadcache import Guess, Look, Unread, WorkloadCache
from actuator.workloads import GROUP, VERSIONS, WITH_STATUS
from podgroup.model.commands import ObjectRef
from podgroup.model.names import FIELD_MANAGER
from runtime.kube import KubeError, KubeUnauthorized
from runtime.kube_answer import HttpClient

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

_PLURALS: Final = {
    "Workload": "workloads",
    "ClusterQueue": "clusterqueues",
    "Cohort": "cohorts",
    "LocalQueue": "localqueues",
    "ResourceFlavor": "resourceflavors",
    "AdmissionCheck": "admissionchecks",
}

FORGET_S = 60.0
"""Seconds after which "Workloads are not served" is found out anew."""
BRIEF_S: Final = 2.0
"""Seconds that an optional write may take, with the wait for its turn if a stop waits for the
write: a patch of the largest pod that etcd takes is answered in a second.
"""
PROBE_S: Final = 2.0
"""Seconds within which the API server must answer a probe."""


Answered = Callable[[str, str, int, float], None]
"""Called for each request: verb, path, HTTP status (0: no answer), its start by
`time.monotonic`."""


class KubeApi:
    """Verbs on pods, Workloads, queues and Events."""

    def __init__(
        self,
        http: HttpClient,
        concurrency: AdaptiveConcurrency,
        answered: Answered | None = None,
        *,
        untrack: bool = False,
    ) -> None:
        self._http = http
        self.untrack = untrack
        """Clear managedFields of pods that are admitted (`patches.may_untrack`)."""
        self.concurrency = concurrency
        self._last_answer_s = float("-inf")
        self._answered = answered
        self._version: str | None = None
        self.takes_status = False
        """Whether a Workload can be created with its status; known with the version."""
        self.with_status = Guess()
        """Whether creating Workloads with their status is worth a try."""
        self._looked_at = float("-inf")
        self.unread = {single: Unread(Look(not single, untrack)) for single in (False, True)}
        """Guesses about pods that were not read: of groups, and single pods."""
        self.workloads = WorkloadCache()
        """Workloads as the last answers showed them."""
        self.ungated = UngatedPods()
        """Single pods as the answers to their ungating showed them."""
        self.inside = Known()
        """Pods that were seen to be ours (`fence`)."""
        self.marked = Known()
        """Pods whose status was patched with why they are stopped, or tried in vain."""
        self.trouble = ""
        """Why no request gets an answer; "" after any answer."""

    async def get(self, ref: ObjectRef) -> Reply:
        """GET an object, from etcd, not from a cache that may lag."""
        return await self._on(ref, "GET")

    async def glance(self, ref: ObjectRef) -> Reply:
        """GET an object from the API server's cache, which costs half; from etcd if it lags.

        For fields that do not change while an object lives: other fields may be out of date.
        """
        found = await self._on(ref, "GET", cached=True)
        return found if found.ok and found.uid == ref.uid else await self.get(ref)

    async def create(self, ref: ObjectRef, body: Mapping[str, Any]) -> Reply:
        """POST an object to the collection of `ref`; a Workload at the version that it says."""
        return await self._on(ref, "POST", body=body)

    async def delete(self, ref: ObjectRef, body: Mapping[str, Any]) -> Reply:
        """DELETE an object, with DeleteOptions."""
        return await self._on(ref, "DELETE", body=body)

    async def patch(
        self,
        ref: ObjectRef,
        body: Any,
        content_type: str,
        *,
        subresource: str = "",
    ) -> Reply:
        """PATCH an object, or its subresource."""
        return await self._on(
            ref, "PATCH", body=body, content_type=content_type, subresource=subresource
        )

    async def patch_status(self, ref: ObjectRef, body: Any) -> Reply:
        """Merge into a pod's status, if that takes less than `BRIEF_S`: the write is optional."""
        try:
            async with asyncio.timeout(BRIEF_S):
                return await self.patch(ref, body, STRATEGIC_PATCH, subresource="status")
        except TimeoutError:
            message = f"given up after {BRIEF_S} s"
            return Reply(verb="PATCH", path=_status_of(ref), status=0, message=message, alone=True)

    async def report_status(self, ref: ObjectRef, body: Any) -> Reply:
        """Merge into a pod's status, if the server answers within `BRIEF_S`.

        Nothing waits for the write, so its turn may come late. Given up before its turn, the write
        would be tried and recorded again and again while the server is busy, and parked at last.
        """
        return await self._send("PATCH", _status_of(ref), body, STRATEGIC_PATCH, timeout_s=BRIEF_S)

    async def create_event(self, namespace: str, body: msgspec.Raw) -> Reply:
        """POST an events.k8s.io/v1 Event, which is encoded already."""
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        return await self._send("POST", path, body=body)

    async def workload_version(self) -> str:
        """Return the version Workloads are written at, "" if the cluster serves none.

        An answer that is neither the group nor a 404 changes nothing: the best version is assumed,
        and the answer to the next request shows what is wrong.
        """
        if self._version is None or (
            not self._version and time.monotonic() - self._looked_at > FORGET_S
        ):
            reply = await self._send("GET", f"/apis/{GROUP}")
            self._looked_at = time.monotonic()
            if reply.ok:
                listed = {v.get("version") for v in reply.object().get("versions") or ()}
                self._version = next((v for v in VERSIONS if v in listed), "")
                self.takes_status = WITH_STATUS in listed
            elif reply.status == 404:
                self._version = ""
            else:
                return VERSIONS[0]
        return self._version

    async def _on(
        self,
        ref: ObjectRef,
        verb: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
        subresource: str = "",
        cached: bool = False,
    ) -> Reply:
        tail = "" if verb == "POST" else f"/{ref.name}" + (f"/{subresource}" if subresource else "")
        if ref.kind == "Pod":
            path = f"/api/v1/namespaces/{ref.namespace}/pods{tail}"
            return await self._send(verb, path, body, content_type, cached=cached)
        version = await self.workload_version()
        if not version:
            message = f"this cluster serves no {GROUP} Workloads: install Kueue's CRDs"
            path = f"/apis/{GROUP}"
            return Reply(verb=verb, path=path, status=404, reason=NOT_INSTALLED, message=message)
        if verb == "POST":
            version = body["apiVersion"].rpartition("/")[2]
        place = f"namespaces/{ref.namespace}/" if ref.namespace else ""
        path = f"/apis/{GROUP}/{version}/{place}{_PLURALS[ref.kind]}{tail}"
        reply = await self._send(verb, path, body, content_type, cached=cached)
        if ref.kind == "Workload":
            self.workloads.note(ref, reply, gone=verb == "DELETE")
        if reply.status == 404 and not reply.named:
            # The body may have been made for this version, so the whole command starts over.
            self._version = None
            return msgspec.structs.replace(reply, reason=NOT_SERVED)
        return reply

    @property
    def slow(self) -> bool:
        """Whether this task's flow is slow by itself, so that optional writes are left out."""
        return self.concurrency.slow(ON_BEHALF.get().flow)

    async def _is_there(self) -> bool:
        """Ask whether the API server works, as every account may."""
        try:
            answer = await self._http.request("GET", "/readyz", timeout_s=PROBE_S)
        except KubeError:
            return False
        return answer.status < 500

    async def _send(
        self,
        verb: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        *,
        cached: bool = False,
        timeout_s: float | None = None,
    ) -> Reply:
        data = None if body is None else msgspec.json.encode(body)
        params = {"fieldManager": FIELD_MANAGER} if verb in ("POST", "PATCH") else None
        if cached:
            params = {"resourceVersion": "0"}
        async with self.concurrency.slot() as slot:
            began_s = time.monotonic()
            try:
                answer = await self._http.request(
                    verb,
                    path,
                    params=params,
                    body=data,
                    content_type=content_type,
                    timeout_s=timeout_s,
                )
            except KubeUnauthorized as error:
                self.trouble = str(error)
                reply = Reply(verb=verb, path=path, status=401, message=str(error))
            except KubeError as error:
                # The server answered other requests meanwhile: this object is what is slow.
                alone = self._last_answer_s > began_s or await self._is_there()
                self.trouble = "" if alone else str(error)
                reply = Reply(verb=verb, path=path, status=0, message=str(error), alone=alone)
            else:
                self.trouble, self._last_answer_s = "", time.monotonic()
                reply = read(verb, path, answer)
                slot.answered(reply.status, reply.retry_after_s)
            if self._answered is not None:
                self._answered(verb, path, reply.status, began_s)
            return reply


def _status_of(pod: ObjectRef) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
