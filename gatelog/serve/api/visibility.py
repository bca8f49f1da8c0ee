"""visibility.kueue.x-k8s.io: the pending workloads of a queue, as Kueue serves them.

Theory. Kueue's own server answers from its scheduler's memory; we answer the same questions from
the read model, so that `kueuectl list pending-workloads` and dashboards made for Kueue work where
our quota queues decide. Only the subresource `pendingworkloads` answers; the queues themselves are
listed in discovery and cannot be read, as there.

Invariant: positions count from 0 in the whole queue, whatever `limit` and `offset` are.
"""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from gatelog.readmodel import statements
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rows import LineRow
from gatelog.serve.api import finding_queues
from gatelog.serve.api.objects import ObjectMeta, Part
from gatelog.serve.api.status import Refused, bad
from gatelog.serve.words import rfc

GROUP = "visibility.kueue.x-k8s.io"
VERSION = "v1beta2"
PENDING = "pendingworkloads"
DEFAULT, MOST = 1000, 100_000
_KINDS = {"clusterqueues": "ClusterQueue", "localqueues": "LocalQueue"}


class PendingWorkload(Part, frozen=True, kw_only=True, omit_defaults=False):
    """A Workload that waits, and its place."""

    metadata: Annotated[ObjectMeta, Meta(description="Name and namespace of the Workload.")]
    priority: Annotated[int, Meta(description="Its priority.")]
    local_queue_name: Annotated[str, Meta(description="LocalQueue it was submitted to.")]
    position_in_cluster_queue: Annotated[
        int, Meta(description="Its position in the ClusterQueue, from 0.")
    ]
    position_in_local_queue: Annotated[
        int, Meta(description="Its position in the LocalQueue, from 0.")
    ]


class PendingWorkloadsSummary(Part, frozen=True, kw_only=True, omit_defaults=False):
    """Workloads that wait in a queue, in its order."""

    kind: str
    api_version: str
    metadata: Annotated[ObjectMeta, Meta(description="Name of the queue.")]
    items: Annotated[list[PendingWorkload], Meta(description="In order of the queue.")]


def bounds(query: Mapping[str, str]) -> tuple[int, int]:
    """Return limit and offset; negative numbers count as 0, as in Kueue.

    Raises:
        Refused: 400, limit or offset is not a number.
    """
    limit, offset = _number(query, "limit", DEFAULT), _number(query, "offset", 0)
    return min(max(limit, 0), MOST), max(offset, 0)


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
        raise bad(f"parameter {name} is {text[:40]!r}: a whole number is allowed")
    return int(text)


def pending(
    model: ReadModel, plural: str, namespace: str, name: str, limit: int, offset: int
) -> PendingWorkloadsSummary:
    """Return the pending workloads of a queue.

    Raises:
        Refused: 404, there is no such queue.
    """
    if not finding_queues.queue_objects(model, _KINDS[plural], namespace, name, limit=1):
        singular = plural.removesuffix("s")
        details = {"name": name, "group": GROUP, "kind": singular}
        raise Refused(404, f'{singular}.{GROUP} "{name}" not found', details)
    query = statements.waiting.IN_LOCAL_QUEUE if namespace else statements.waiting.IN_CLUSTER_QUEUE
    rows = finding_queues.line(model, query, limit, offset, name, namespace)
    return PendingWorkloadsSummary(
        kind="PendingWorkloadsSummary",
        api_version=f"{GROUP}/{VERSION}",
        metadata=ObjectMeta(name=name, namespace=namespace),
        items=[_item(row) for row in rows],
    )


def _item(row: LineRow) -> PendingWorkload:
    return PendingWorkload(
        metadata=ObjectMeta(
            name=row.workload_name or row.name,
            namespace=row.namespace,
            creation_timestamp=rfc(row.complete_at or row.created_at),
        ),
        priority=row.priority,
        local_queue_name=row.queue,
        position_in_cluster_queue=row.position - 1,
        position_in_local_queue=row.local_position - 1,
    )
