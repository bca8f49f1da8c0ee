"""One Lease (coordination.k8s.io/v1) at the API server: read and conditionally written.

Every write carries the resourceVersion that was read, so of two writers one gets a 409 and knows
that it lost. The times in a Lease are never compared with our clock, since clocks of two machines
differ; `election` measures how long a Lease has not changed.

Invariant: a Lease is only ever written over the version that was read.
"""

from datetime import UTC, datetime
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from runtime.kube_answer import Answer, forbidden
from runtime.kube_errors import KubeError

_OURS = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
_CONFLICT = 409


class Api(Protocol):
    """The part of an API client that a Lease uses, such as `runtime.kube.KubeClient`."""

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, timeout_s: float | None = None
    ) -> Answer:
        """Send a request and read the whole answer, whatever its status."""


class Lease(Struct, frozen=True):
    """A Lease as it was read. `spec` is compared as a whole, `body` is what to write back."""

    holder: str
    duration_s: float
    transitions: int
    renewed_at: str
    spec: dict[str, Any]
    body: dict[str, Any]


class LeaseStore:
    """Reads and writes the Lease `name` in `namespace`."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api = api
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.namespace = namespace
        self.name = name

    async def read(self, timeout_s: float) -> Lease | None:
        """Return the Lease, None if it does not exist.

        Raises:
            KubeError: it cannot be read; `KubeForbidden` when the role lacks a rule.
        """
        path = f"{self._collection}/{self.name}"
        answer = await self._api.request("GET", path, timeout_s=timeout_s)
        if answer.status == 404:
            return None
        return self._taken(answer, path, "get")

    async def write(
        self, before: Lease | None, *, holder: str, duration_s: int, timeout_s: float
    ) -> Lease | None:
        """Write over `before` (None: create); None when another writer came first.

        An empty `holder` gives the Lease back.

        Raises:
            KubeError: it is not known to be written; `KubeForbidden` when the role lacks a rule.
        """
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        old = before.spec if before is not None else {}
        changed = before is None or before.holder != holder
        spec = {
            **old,
            "holderIdentity": holder,
            "leaseDurationSeconds": duration_s,
            "renewTime": now,
            "acquireTime": now if changed else old.get("acquireTime", now),
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + (changed and holder != ""),
        }
        if before is None:
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {
                    "name": self.name,
                    "labels": {"app.kubernetes.io/part-of": "gatelog"},
                },
                "spec": spec,
            }
            method, path, verb = "POST", self._collection, "create"
        else:
            body = {**before.body, "spec": spec}
            method, path, verb = "PUT", f"{self._collection}/{self.name}", "update"
        answer = await self._api.request(
            method, path, body=msgspec.json.encode(body), timeout_s=timeout_s
        )
        if answer.status == _CONFLICT or (answer.status == 404 and before is not None):
            return None
        return self._taken(answer, path, verb)

    def _taken(self, answer: Answer, path: str, verb: str) -> Lease:
        if answer.status == 403:
            raise forbidden(answer, path, verb)
        if answer.status not in (200, 201):
            raise KubeError(f"{verb} {path}: {answer.status} {answer.message()}")
        try:
            body = msgspec.json.decode(answer.body, type=dict[str, Any])
            spec = body.get("spec") or {}
            return Lease(
                holder=spec.get("holderIdentity") or "",
                duration_s=float(spec.get("leaseDurationSeconds") or 0),
                transitions=int(spec.get("leaseTransitions") or 0),
                renewed_at=spec.get("renewTime") or "",
                spec=spec,
                body=body,
            )
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise KubeError(f"{verb} {path}: the answer is no Lease: {error}") from error


def lease_name(part: str, cluster: str) -> str:
    """Return the name of the Lease of a part of a cluster.

    The name for the projector ends in the number of a shard, a concept that is gone: replicas of an
    earlier version hold the Lease of that name.
    """
    name = f"gatelog-{part}-{cluster}"
    return f"{name}-0" if part == "projector" else name


def namespace_of(setting: str) -> str:
    """Return where Leases live: as set, else the namespace of our own pod, else `default`."""
    if setting:
        return setting
    try:
        with open(_OURS, encoding="utf-8") as file:
            return file.read().strip() or "default"
    except OSError:
        return "default"
