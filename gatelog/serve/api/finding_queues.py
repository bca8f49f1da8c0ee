"""Queues: from rows of LocalQueues and ClusterQueues to the Structs of `objects`.

Theory. A page of queues reads all counts by one query and all quotas by another, and divides the
rows by queue.

Invariant: reads only; the page's limit bounds the result.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from gatelog.readmodel import statements
from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.quota import QuotaRow
from gatelog.readmodel.rows import (
    CountRow,
    LineRow,
    ObjectRow,
)
from gatelog.readmodel.statements.waiting import WaitedRow
from gatelog.serve.api import objects as o
from gatelog.serve.api.params import MOST_ROWS, Listing, Page, PageStart
from gatelog.serve.api.selectors import equal, holds
from gatelog.serve.api.status import bad
from gatelog.serve.words import amount, quota, rfc
from podgroup.model.lifecycle import QUEUED, STAGES
from podgroup.model.objects import ClusterQueueView, LocalQueueView

_AT_ONCE = 1000


def queues_page(model: ReadModel, namespace: str, asked: Listing) -> Page:
    """Return a page of LocalQueues with their counts of groups and their usage."""
    rows, going_on = _objects(model, "LocalQueue", namespace, asked)
    counts = model.rows(CountRow, statements.waiting.COUNTS, _scope(namespace, ""))
    by_queue: dict[tuple[str, str], list[CountRow]] = defaultdict(list)
    for count in counts:
        by_queue[count.namespace, count.queue].append(count)
    stood: dict[tuple[str, str], list[QuotaRow]] = defaultdict(list)
    for one in model.quota("LocalQueue", namespace):
        stood[one.namespace, one.name].append(one)
    found = []
    for row in rows:
        key = (row.namespace, row.name)
        found.append(
            o.QueueUsage(
                kind="QueueUsage",
                api_version=o.API_VERSION,
                metadata=o.ObjectMeta(name=row.name, namespace=row.namespace, uid=row.uid),
                cluster_queue=cluster_queue_of(row),
                groups=counted(by_queue[key]),
                usage=[_shown(one) for one in stood[key] if one.held or one.unadmitted],
            )
        )
    return found, going_on


def cluster_queues_page(model: ReadModel, _: str, asked: Listing) -> Page:
    """Return a page of ClusterQueues with quota, usage and counts of groups."""
    rows, going_on = _objects(model, "ClusterQueue", "", asked)
    counts: dict[str, list[CountRow]] = defaultdict(list)
    for count in model.rows(CountRow, statements.waiting.COUNTS, _scope("", "")):
        counts[count.cluster_queue].append(count)
    stood: dict[str, list[QuotaRow]] = defaultdict(list)
    for one in model.quota("ClusterQueue"):
        stood[one.name].append(one)
    waited = model.waited(model.clock())
    found = [
        msgspec.structs.replace(
            cluster_queue(row, counts[row.name], stood[row.name]),
            waits=_waits(waited.get(row.name)),
        )
        for row in rows
    ]
    return found, going_on


def _waits(row: WaitedRow | None) -> o.QueueWaits | None:
    if row is None:
        return None
    return o.QueueWaits(
        waits=row.waits,
        still=row.still,
        p50_seconds=row.half or 0.0,
        p90_seconds=row.most or 0.0,
        longest_seconds=row.worst or 0.0,
    )


def cluster_queue_of(row: ObjectRow) -> str:
    """Return the ClusterQueue of a LocalQueue, "" for none that can be read."""
    view = row.view
    return view.cluster_queue if isinstance(view, LocalQueueView) else ""


def cluster_queue(
    row: ObjectRow, counts: Iterable[CountRow], stood: Iterable[QuotaRow]
) -> o.ClusterQueueUsage:
    """Return a ClusterQueue with its counts of groups and its quota: held, borrowed and lent."""
    view = row.view
    return o.ClusterQueueUsage(
        kind="ClusterQueueUsage",
        api_version=o.API_VERSION,
        metadata=o.ObjectMeta(name=row.name, uid=row.uid),
        cohort=view.cohort if isinstance(view, ClusterQueueView) else "",
        strategy=view.strategy if isinstance(view, ClusterQueueView) else "",
        groups=counted(counts),
        usage=[_shown(one) for one in stood],
    )


def _shown(row: QuotaRow) -> o.FlavorUsage:
    def some(value: int) -> str:
        return amount(row.resource, value) if value else ""

    def free(value: int) -> str:
        return quota(row.resource, value) if value else ""

    return o.FlavorUsage(
        flavor=row.flavor,
        resource=row.resource,
        nominal="" if row.kind == "LocalQueue" else quota(row.resource, row.nominal),
        held=amount(row.resource, row.held),
        borrowed=some(row.borrowed),
        unadmitted=some(row.unadmitted),
        idle=free(row.idle),
        lent=some(row.lent),
    )


def counted(rows: Iterable[CountRow]) -> o.QueueCounts:
    """Return how many groups do what."""
    found: dict[str, int] = defaultdict(int)
    oldest: datetime | None = None
    for row in rows:
        found[row.stage] += row.groups
        if row.stage == QUEUED and row.oldest is not None:
            oldest = row.oldest if oldest is None else min(oldest, row.oldest)
    stages = {one.name: found[one.name] for one in STAGES}
    return o.QueueCounts(
        pending=sum(stages.values()), admitted=found["admitted"], oldest=rfc(oldest), **stages
    )


def _scope(namespace: str, queue: str) -> dict[str, Any]:
    return {"namespace": namespace, "queue": queue, "limit": MOST_ROWS}


def _objects(
    model: ReadModel, kind: str, namespace: str, asked: Listing
) -> tuple[list[ObjectRow], PageStart | None]:
    if asked.labels:
        raise bad("labels of queues are not kept: select by --field-selector metadata.name=NAME")
    if any(t.key not in ("metadata.name", "metadata.namespace") for t in asked.fields):
        raise bad("queues are selected by metadata.name or metadata.namespace only")
    found = queue_objects(
        model,
        kind,
        namespace,
        equal(asked.fields, "metadata.name"),
        PageStart(asked.after.namespace, asked.after.name),
        asked.limit + 1,
    )
    kept = [
        row
        for row in found
        if holds(asked.fields, {"metadata.name": row.name, "metadata.namespace": row.namespace})
    ]
    if len(found) <= asked.limit:
        return kept, None
    last = found[asked.limit - 1]
    return [row for row in kept if row is not found[-1]], PageStart(last.namespace, last.name)


def queue_objects(
    model: ReadModel,
    kind: str,
    namespace: str = "",
    name: str = "",
    after: PageStart | None = None,
    limit: int = _AT_ONCE,
) -> list[ObjectRow]:
    """Return queue objects of a kind, by namespace and name, `limit` of them."""
    begin = after or PageStart()
    names = (begin.namespace, begin.name)
    return list(model.objects(kind, namespace, name, names, limit))


def all_queues(
    model: ReadModel, kind: str = "ClusterQueue", namespace: str = ""
) -> list[ObjectRow]:
    """Return all queue objects of a kind, by namespace and name, however many there are."""
    found: list[ObjectRow] = []
    while True:
        last = PageStart(found[-1].namespace, found[-1].name) if found else PageStart()
        page = queue_objects(model, kind, namespace, after=last)
        found += page
        if len(page) < _AT_ONCE:
            return found


def line(
    model: ReadModel, query: str, limit: int, offset: int, queue: str, namespace: str = ""
) -> list[LineRow]:
    """Return a part of a queue in its order."""
    given = {"queue": queue, "namespace": namespace, "limit": limit, "offset": offset}
    return list(model.rows(LineRow, query, given))
