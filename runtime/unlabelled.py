"""Pods that bear gatelog's gate or finalizer without its label, which none of its watches shows.

Theory. A pod comes by gate, label and finalizer together (`ingest.webhook.mutate`). A pod that was
created while admission was away, that lost its label, or that was given a gate by hand waits at its
gate, or in Terminating, unknown to all parts of gatelog. So two lists are read without a selector
for the label: pods that wait for a node, whole, since a pod's metadata does not show its gates;
then the metadata of all pods without the label, for the finalizer. Both lists are read page by
page, with a pause where they are long, and no further than `most` pods.

Invariant: reads only; the memory of a page is bounded, however large the cluster.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Final, Protocol

import msgspec

from podgroup.model.names import (
    ADMISSION_GATE,
    MANAGED_LABEL,
    MANAGED_VALUE,
    POD_FINALIZER,
    TOPOLOGY_GATE,
)
from runtime.kube_answer import HttpAnswer

PAGE: Final = 500
MOST_BYTES: Final = 64 << 20
"""Bytes of a page at most."""
_WITHOUT: Final = f"{MANAGED_LABEL}!={MANAGED_VALUE}"
_WAITING: Final = "status.phase=Pending,spec.nodeName="
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class ListApi(Protocol):
    """The part of a client of the API server that lists need, such as `runtime.kube.KubeClient`."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        accept: str = "",
        most_bytes: int | None = None,
    ) -> HttpAnswer:
        """Send a request and read the whole answer; `KubeError` for none or a too long one."""


class Unlabelled(msgspec.Struct, frozen=True):
    """A pod that bears `bears` (a gate or the finalizer of ours) and lacks the label."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    bears: str
    going: bool = False
    """Its deletion was requested."""

    @property
    def says(self) -> str:
        """What the pod lacks, and what to do."""
        where = f"pod -n {self.namespace} {self.name}"
        unseen = f"lacks label {MANAGED_LABEL}={MANAGED_VALUE}, so gatelog does not see it"
        if self.bears == POD_FINALIZER:
            stays = "is being deleted and stays" if self.going else "stays once it is deleted"
            return (
                f"it bears finalizer {POD_FINALIZER} and {unseen}: it {stays} in Terminating until "
                f"the finalizer is taken off by hand (kubectl edit {where}), which admission "
                "allows as soon as it has ended or is being deleted"
            )
        waits = (
            f"it bears scheduling gate {self.bears} and {unseen}, and nothing takes the gate off"
        )
        if self.bears != ADMISSION_GATE:
            return f"{waits}: delete it, and create it with label kueue.x-k8s.io/queue-name"
        return (
            f"{waits}: "
            f"kubectl label {where} {MANAGED_LABEL}={MANAGED_VALUE} has it queued (it names its "
            "queue by label kueue.x-k8s.io/queue-name), or delete it"
        )


class NotListed(Exception):
    """Pods could not be listed; the text says why."""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] | None = None


class _Gate(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_gates: tuple[_Gate, ...] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class _ListMeta(msgspec.Struct, frozen=True):
    token: str = msgspec.field(name="continue", default="")


class _Pods(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[_Pod, ...] | None = ()
    """None: the API server writes null for an empty list of metadata."""


_pods: Final = msgspec.json.Decoder(_Pods)


async def find(
    api: ListApi, *, topology: bool, most: int = 1_000_000, pause_s: float = 0.0
) -> list[Unlabelled]:
    """List such pods, at most `most` of each list, with `pause_s` seconds between two pages.

    `topology`: the topology gate is gatelog's as well, as in builtin mode.

    Raises:
        NotListed: the API server refuses a list.
        KubeError: it does not answer.
    """
    gates = (ADMISSION_GATE, TOPOLOGY_GATE) if topology else (ADMISSION_GATE,)
    found: dict[str, Unlabelled] = {}
    async for pod in _listed(api, {"fieldSelector": _WAITING}, "", most, pause_s):
        bears = {gate.name for gate in pod.spec.scheduling_gates or ()}
        if ours := next((gate for gate in gates if gate in bears), ""):
            found[pod.metadata.uid] = _one(pod.metadata, ours)
    async for pod in _listed(api, {}, _METADATA, most, pause_s):
        meta = pod.metadata
        if POD_FINALIZER in (meta.finalizers or ()) and meta.uid not in found:
            found[meta.uid] = _one(meta, POD_FINALIZER)
    return sorted(found.values(), key=lambda one: (one.namespace, one.name, one.uid))


def _one(meta: _Meta, bears: str) -> Unlabelled:
    going = meta.deletion_timestamp is not None
    return Unlabelled(meta.namespace, meta.name, meta.uid, meta.resource_version, bears, going)


async def _listed(
    api: ListApi, selecting: Mapping[str, str], accept: str, most: int, pause_s: float
) -> AsyncGenerator[_Pod]:
    path, seen = "/api/v1/pods", 0
    params = {"limit": str(PAGE), "labelSelector": _WITHOUT, **selecting}
    while True:
        answer = await api.request("GET", path, params=params, accept=accept, most_bytes=MOST_BYTES)
        if answer.status != 200:
            raise NotListed(f"GET {path} without the label: {answer.status}")
        page = _pods.decode(answer.body)
        pods = page.items or ()
        for pod in pods:
            yield pod
        seen += len(pods)
        if not page.metadata.token or seen >= most:
            return
        params["continue"] = page.metadata.token
        await asyncio.sleep(pause_s)
