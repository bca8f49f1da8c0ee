"""The API server as the actuator sees it: a few verbs on a few kinds, answered by values.

Theory. A request ends in a `Reply` whatever happens: an HTTP status, or status 0 when no answer
came (then the write may or may not have happened, which is why every write can be repeated).
Pods are at v1; Workloads are written at the best version both sides know, found out once and again
when their path turns out not to be served (Kueue installed, upgraded or removed meanwhile).

Invariant: no request leaves without a turn of `Pace`; nothing here decides what a reply means,
that is `verdicts`.
"""

import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from actuator.pace import Pace
from actuator.workloads import GROUP, VERSIONS
from podgroup.commands import ObjectRef

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

FORGET_S = 60.0
"""Seconds after which "Workloads are not served" is found out anew."""


class Answer(Protocol):
    """What `KubeClient.request` gives back."""

    @property
    def status(self) -> int:
        """HTTP status."""

    @property
    def body(self) -> bytes:
        """The body as it came."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers; only Retry-After is read."""


class Http(Protocol):
    """The part of `podgroup.runtime.kube.KubeClient` that is used here."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Send one request; raise only when no answer came."""


class _Meta(Struct):
    uid: str = ""
    resourceVersion: str = ""


class _Cause(Struct):
    field: str = ""


class _Details(Struct):
    name: str = ""
    causes: tuple[_Cause, ...] = ()
    retryAfterSeconds: float | None = None


class _Answered(Struct):
    """The parts that objects and Status answers have, as far as they matter."""

    kind: str = ""
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    message: str = ""
    reason: str = ""
    details: _Details = msgspec.field(default_factory=_Details)


_answered: Final = msgspec.json.Decoder(_Answered)
_objects: Final = msgspec.json.Decoder(dict[str, Any])
_statuses: Final = msgspec.json.Decoder(_Answered)


class Reply(Struct, frozen=True, kw_only=True):
    """What became of one request; `status` 0 means that no answer came.

    `uid` and `resource_version` are those of the object in the answer, "" if it holds none;
    `fields` are the paths the server complains about. `named` tells whether a failure speaks of an
    object: a path that is not served at all is a 404 that does not.
    """

    verb: str
    path: str
    status: int
    body: bytes = b""
    uid: str = ""
    resource_version: str = ""
    reason: str = ""
    message: str = ""
    fields: tuple[str, ...] = ()
    retry_after_s: float | None = None
    named: bool = False

    @property
    def ok(self) -> bool:
        """Accepted."""
        return 200 <= self.status < 300

    def object(self) -> dict[str, Any]:
        """Decode the object in the body.

        Raises:
            msgspec.MsgspecError: the body is no JSON object.
        """
        return _objects.decode(self.body)


class KubeApi:
    """Verbs on pods, Workloads and Events."""

    def __init__(self, http: Http, pace: Pace) -> None:
        self._http = http
        self._pace = pace
        self._version: str | None = None
        self._looked_at = float("-inf")

    async def get(self, ref: ObjectRef) -> Reply:
        """GET an object, from etcd, not from a cache that may lag."""
        return await self._on(ref, "GET")

    async def create(self, ref: ObjectRef, body: Mapping[str, Any]) -> Reply:
        """POST an object to the collection of `ref`."""
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
        params: Mapping[str, str] | None = None,
    ) -> Reply:
        """PATCH an object, or a subresource of it."""
        return await self._on(
            ref,
            "PATCH",
            body=body,
            content_type=content_type,
            subresource=subresource,
            params=params,
        )

    async def create_event(self, namespace: str, body: Mapping[str, Any]) -> Reply:
        """POST an events.k8s.io/v1 Event."""
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        return await self._send("POST", path, body=body)

    async def workload_version(self) -> str:
        """Return the version Workloads are written at, "" if the cluster serves none.

        An answer that is neither the group nor a 404 changes nothing: the best version is assumed,
        and the request that follows tells what is wrong.
        """
        if self._version is None or (
            not self._version and time.monotonic() - self._looked_at > FORGET_S
        ):
            reply = await self._send("GET", f"/apis/{GROUP}")
            self._looked_at = time.monotonic()
            if reply.ok:
                listed = {v.get("version") for v in reply.object().get("versions") or ()}
                self._version = next((v for v in VERSIONS if v in listed), "")
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
        params: Mapping[str, str] | None = None,
    ) -> Reply:
        tail = "" if verb == "POST" else f"/{ref.name}" + (f"/{subresource}" if subresource else "")
        if ref.kind == "Pod":
            path = f"/api/v1/namespaces/{ref.namespace}/pods{tail}"
            return await self._send(verb, path, body, content_type, params)
        reply = await self._workloads(ref, verb, tail, body, content_type, params)
        if reply.status == 404 and not reply.named and self._version:
            self._version = None
            reply = await self._workloads(ref, verb, tail, body, content_type, params)
        return reply

    async def _workloads(
        self,
        ref: ObjectRef,
        verb: str,
        tail: str,
        body: Any,
        content_type: str,
        params: Mapping[str, str] | None,
    ) -> Reply:
        version = await self.workload_version()
        if not version:
            message = f"this cluster serves no {GROUP} Workloads: install Kueue's CRDs"
            return Reply(verb=verb, path=f"/apis/{GROUP}", status=404, message=message)
        path = f"/apis/{GROUP}/{version}/namespaces/{ref.namespace}/workloads{tail}"
        return await self._send(verb, path, body, content_type, params)

    async def _send(
        self,
        verb: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Reply:
        data = None if body is None else msgspec.json.encode(body)
        async with self._pace.slot() as slot:
            try:
                answer = await self._http.request(
                    verb, path, params=params, body=data, content_type=content_type
                )
            except (KubeErrors, OSError, TimeoutError) as error:
                text = str(error) or type(error).__name__
                return Reply(verb=verb, path=path, status=0, message=text)
            reply = _read(verb, path, answer)
            slot.answered(reply.status, reply.retry_after_s)
            return reply
