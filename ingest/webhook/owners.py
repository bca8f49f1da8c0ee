"""The walk up a pod's owners: is one of them queued already?

Controllers form chains (a Deployment owns a ReplicaSet owns a Pod), and a queue name anywhere up
the chain, on a kind that is queued as a whole, decides for the pod. The walk follows ``controller:
true`` references by uid, never by name alone, because names are reused.

Invariant: it ends: after ten hops, at a uid seen before, at a kind it does not know, or where the
object found has another uid; and an owner of a known kind that cannot be read is an error, since
letting the pod pass could let it escape both queues.
"""

from collections.abc import Mapping
from typing import Final, Protocol

import msgspec

from ingest.webhook.pod import OwnerRef, Pod
from ingest.webhook.policy import OwnerKind, WebhookPolicy
from podgroup.model.names import QUEUE_NAME

MAX_HOPS: Final[int] = 10


class Owner(msgspec.Struct, frozen=True):
    """An owning object, as far as the walk reads it."""

    uid: str
    labels: dict[str, str] = {}
    controller: OwnerRef | None = None


class LookupFailed(Exception):
    """The API server gave no answer; the message names the request and the reason. No verdict on
    the pod.
    """


class Lookup(Protocol):
    """The webhook's questions about the cluster. Every method raises `LookupFailed` without an
    answer.
    """

    async def owner(self, namespace: str, ref: OwnerRef, kind: OwnerKind) -> Owner | None:
        """The object under the reference's *name*, whatever its uid; None if it does not exist."""
        ...

    async def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        """Labels of a namespace."""
        ...

    async def has_local_queue(self, namespace: str, name: str) -> bool:
        """Whether a LocalQueue exists."""
        ...

    async def has_priority_class(self, name: str) -> bool:
        """Whether a WorkloadPriorityClass exists."""
        ...


class OwnershipError(Exception):
    """The pod must be refused because of its owners; the message says which and what to do."""


class OwnerNotFound(OwnershipError):
    """An owner of a known kind is not there (Kueue: ErrWorkloadOwnerNotFound)."""


class CyclicOwnership(OwnershipError):
    """Owners refer to each other in a circle."""


class OwnerChainTooLong(OwnershipError):
    """More than `MAX_HOPS` owners above the pod."""


def controller_is_managed(pod: Pod, policy: WebhookPolicy) -> bool:
    """Whether the pod's direct controller is of a kind that is queued elsewhere; sends nothing."""
    ref = pod.controller
    return ref is not None and policy.counts(ref.group, ref.kind)


async def managed_ancestor(pod: Pod, policy: WebhookPolicy, lookup: Lookup) -> str:
    """The top-most owner that is queued itself, as ``Kind/name``; ``""`` when there is none.

    Raises:
        OwnershipError: the pod must be refused.
        LookupFailed: the API server could not be asked.
    """
    found = ""
    seen = {pod.metadata.uid} - {""}
    ref = pod.controller
    while ref is not None and (kind := policy.known(ref.group, ref.kind)) is not None:
        if ref.uid in seen:
            raise CyclicOwnership(
                f"the owners of {pod.title()} refer to each other in a circle, at "
                f"{ref.kind}/{ref.name}: correct metadata.ownerReferences of the objects involved"
            )
        if len(seen) >= MAX_HOPS:
            raise OwnerChainTooLong(
                f"{pod.title()} has more than {MAX_HOPS} owners above it, the last one looked at "
                f"is {ref.kind}/{ref.name}: shorten the chain"
            )
        seen.add(ref.uid)
        owner = await lookup.owner(pod.metadata.namespace, ref, kind)
        if owner is None:
            raise OwnerNotFound(
                f"workload owner not found: {ref.kind}/{ref.name} (uid {ref.uid}) owns "
                f"{pod.title()} but is not in its namespace; create the owner first, then retry"
            )
        if owner.uid != ref.uid:
            break  # an object of that name with another uid: the real owner is gone
        queued = policy.manage_jobs_without_queue_name or bool(owner.labels.get(QUEUE_NAME))
        if queued and policy.counts(ref.group, ref.kind):
            found = f"{ref.kind}/{ref.name}"
        ref = owner.controller
    return found
