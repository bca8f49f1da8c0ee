"""A cluster the webhook can ask, held in memory, and builders for pods.

`Cluster` implements `owners.Lookup` over plain dictionaries; it counts what it is asked, so that
tests can see that a plain pod costs no question.
"""

import base64
import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ingest.webhook import facts as facts_of
from ingest.webhook.mutate import MutateResult, PatchOp, mutate
from ingest.webhook.owners import LookupFailed, Owner
from ingest.webhook.pod import OwnerRef, Pod, read_pod
from ingest.webhook.policy import OwnerKind, WebhookPolicy
from ingest.webhook.validate import Verdict, validate_create, validate_update
from podgroup.model import names
from simcluster import patches

RECORDINGS = Path(__file__).parents[1] / "recordings"
RAW = dict[str, Any]


class Cluster:
    """Owners, namespaces, queues and classes of a pretended cluster."""

    def __init__(self) -> None:
        self.owners: dict[tuple[str, str, str], Owner] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.queues: set[tuple[str, str]] = set()
        self.priority_classes: set[str] = set()
        self.asked: list[str] = []
        self.down = False

    def _ask(self, question: str) -> None:
        self.asked.append(question)
        if self.down:
            raise LookupFailed(f"GET {question}: the API server did not answer")

    async def owner(self, namespace: str, ref: OwnerRef, kind: OwnerKind) -> Owner | None:
        self._ask(f"owner {kind.plural}/{ref.name}")
        return self.owners.get((namespace, ref.kind, ref.name))

    async def namespace_labels(self, namespace: str) -> Mapping[str, str]:
        self._ask(f"namespace {namespace}")
        return self.namespaces[namespace]

    async def has_local_queue(self, namespace: str, name: str) -> bool:
        self._ask(f"queue {namespace}/{name}")
        return (namespace, name) in self.queues

    async def has_priority_class(self, name: str) -> bool:
        self._ask(f"priority class {name}")
        return name in self.priority_classes


def raw_pod(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: tuple[str, str, str] | None = None,
    gated: bool = False,
    phase: str = "Pending",
    namespace: str = "ns",
    **spec: Any,
) -> RAW:
    """A pod as posted; ``owner`` is (apiVersion, kind, name), its uid ``<name>-uid``."""
    metadata: RAW = {"name": "p", "namespace": namespace}
    if labels is not None:
        metadata["labels"] = labels
    if annotations is not None:
        metadata["annotations"] = annotations
    if owner is not None:
        api_version, kind, name = owner
        metadata["ownerReferences"] = [
            {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"{name}-uid",
             "controller": True, "blockOwnerDeletion": True}
        ]  # fmt: skip
    body: RAW = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {}}}], **spec}
    if gated:
        body["schedulingGates"] = [{"name": names.ADMISSION_GATE}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": body,
        "status": {"phase": phase},
    }


def pod(**fields: Any) -> Pod:
    """`raw_pod`, read."""
    return read_pod(raw_pod(**fields))


async def mutated(
    raw: RAW,
    cluster: Cluster | None = None,
    policy: WebhookPolicy | None = None,
    *,
    mirror: bool = False,
) -> tuple[MutateResult, RAW]:
    """What `mutate` says of a pod, and the pod after its patch; `mirror`: made by a kubelet."""
    policy = policy or WebhookPolicy()
    subject = read_pod(raw)
    facts = await facts_of.for_mutation(subject, policy, cluster or Cluster(), mirror=mirror)
    result = mutate(subject, policy, facts)
    return result, apply(raw, result.patch)


def created(raw: RAW, policy: WebhookPolicy | None = None) -> Verdict:
    """The verdict on a creation."""
    return validate_create(read_pod(raw), policy or WebhookPolicy())


async def updated(
    old: RAW,
    new: RAW,
    cluster: Cluster | None = None,
    policy: WebhookPolicy | None = None,
    *,
    by_gatelog: bool = False,
) -> Verdict:
    """The verdict on an update."""
    policy = policy or WebhookPolicy()
    before, after = read_pod(old), read_pod(new)
    facts = await facts_of.for_update(before, after, policy, cluster or Cluster())
    return validate_update(before, after, policy, facts, by_gatelog=by_gatelog)


def apply(raw: RAW, patch: tuple[PatchOp, ...] | list[RAW]) -> RAW:
    """Applies a JSON patch of ``add`` and ``remove`` operations (RFC 6902)."""
    operations: list[RAW] = msgspec.to_builtins([*patch])
    assert {step["op"] for step in operations} <= {"add", "remove"}
    after: RAW = patches.json_patch(copy.deepcopy(raw), operations)
    return after


def review(
    raw: RAW | None, *, operation: str = "CREATE", old: RAW | None = None, **fields: Any
) -> RAW:
    """An AdmissionReview for a pod."""
    metadata = (raw or old or {}).get("metadata", {})
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": resource,
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "operation": operation,
        "userInfo": {"username": "somebody"},
        "object": raw,
        "oldObject": old,
        "dryRun": False,
        **fields,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def patch_of(response: RAW) -> list[RAW]:
    """The patch in an admission response."""
    patch: list[RAW] = json.loads(base64.b64decode(response["patch"]))
    return patch


def recorded_reviews(operation: str) -> list[RAW]:
    """Reviews as a real API server posted them to Kueue's validating webhook."""
    reviews: list[RAW] = json.loads((RECORDINGS / "admission_reviews.json").read_text())
    return [r for r in reviews if r["request"]["operation"] == operation]
