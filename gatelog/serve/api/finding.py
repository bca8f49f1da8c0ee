"""Groups: from rows of the read model to the Structs of `objects`.

Theory. Each function asks the read model for one object or one page, in a thread. A kind about one
aspect of groups (history, reasons, admissions, positions) pages through groups and reads each group
by a query of its own, so its pages are short.

Invariant: reads only; the page's limit bounds the result.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from gatelog.readmodel import statements
from gatelog.readmodel.explain import explain, lines
from gatelog.readmodel.model import Note, ReadModel
from gatelog.readmodel.rows import (
    AdmissionRow,
    LifeRow,
    WaitRow,
)
from gatelog.readmodel.starts import sentence
from gatelog.serve.api import objects as o
from gatelog.serve.api.params import Listing, Page, PageStart
from gatelog.serve.api.selectors import equal, field_conditions, holds, label_conditions
from gatelog.serve.words import amount, micro, rfc

DETAILS = 50
"""Objects of a page of a kind that makes a query for each object."""
T = TypeVar("T", bound=msgspec.Struct)


def life(model: ReadModel, namespace: str, name: str) -> LifeRow | None:
    """Return the newest life of a group, by its name or that of a pod or its Workload."""
    given = {"namespace": namespace, "name": name, "limit": 1}
    for query in (
        statements.groups.LIFE,
        statements.groups.LIFE_OF_POD,
        statements.groups.LIFE_OF_WORKLOAD,
    ):
        for row in model.rows(LifeRow, query, given):
            return row
    return None


def lives(
    model: ReadModel,
    namespace: str,
    asked: Listing,
    limit: int,
    *,
    queued: bool = False,
    note: Note | None = None,
) -> tuple[list[LifeRow], PageStart | None]:
    """Return a page of selected lives; gone lives only if a selector names them or their state."""
    conditions, given = field_conditions(asked.fields)
    labels, label_values = label_conditions(asked.labels, model.dialect)
    if namespace:
        conditions.append(statements.groups.IN_NAMESPACE)
    if equal(asked.fields, "metadata.name"):
        conditions.append(statements.groups.NEWEST)
    elif not any(equal(asked.fields, f) for f in ("metadata.uid", "status.state")):
        conditions.append(statements.groups.LIVE)
    if queued:
        conditions.append(statements.groups.QUEUED)
    page = statements.groups.group_page(conditions, labels)
    query = statements.groups.placed(page) if queued else page
    after = asked.after
    parameters = {
        **given,
        **label_values,
        "namespace": namespace,
        "after_namespace": after.namespace,
        "after_name": after.name,
        "after_id": after.id,
        "limit": limit + 1,
    }
    if note is not None:
        note("groups", query, parameters)
    found = list(model.rows(LifeRow, query, parameters))
    if len(found) <= limit:
        return found, None
    last = found[limit - 1]
    return found[:limit], PageStart(last.namespace, last.name, last.id)


def fields_of(row: LifeRow) -> dict[str, str]:
    """Return what field selectors compare."""
    from gatelog.serve.api.selectors import FIELDS

    return {name: str(getattr(row, column)) for name, column in FIELDS.items()}


def selected(row: LifeRow, namespace: str, asked: Listing) -> bool:
    """Tell whether the namespace and selectors of a list select a life."""
    return (
        namespace in ("", row.namespace)
        and holds(asked.fields, fields_of(row))
        and holds(asked.labels, row.label_texts())
    )


def meta(row: LifeRow, name: str = "") -> o.ObjectMeta:
    """Return the metadata of an answer about a group; `name`: of the pod it was asked by."""
    return o.ObjectMeta(
        name=name or row.name,
        namespace=row.namespace,
        uid=row.id,
        resource_version=str(row.as_of_seq),
        creation_timestamp=rfc(row.created_at),
        deletion_timestamp=rfc(row.gone_at),
        labels=row.label_texts(),
    )


def expected(row: LifeRow) -> o.ExpectedStart | None:
    """Return when a group that waits is expected to start, None if no forecast says so."""
    if row.never is None:
        return None
    return o.ExpectedStart(
        message=sentence(row.expected_at, row.latest_at, row.never, datetime.now(UTC)),
        time=rfc(row.expected_at),
        earliest_time=rfc(row.earliest_at),
        latest_time=rfc(row.latest_at),
        never=row.never,
        as_of=rfc(row.forecast_at),
    )


def podgroup(row: LifeRow) -> o.PodGroup:
    """Return a life as an object."""
    waiting = None
    if row.wait_reason:
        waiting = o.Wait(
            reason=row.wait_reason, message=row.wait_message, since=rfc(row.wait_since)
        )
    return o.PodGroup(
        kind="PodGroup",
        api_version=o.API_VERSION,
        metadata=meta(row),
        spec=o.PodGroupSpec(
            kind=row.kind,
            queue=row.queue,
            priority=row.priority,
            priority_class=row.priority_class,
            pods=row.total_count,
        ),
        status=o.PodGroupStatus(
            state=row.state,
            ended=row.ended,
            reason=row.reason,
            message=row.message,
            cluster_queue=row.cluster_queue,
            workload=row.workload_name,
            waiting=waiting,
            expected_start=expected(row),
            pods=o.PodCounts(
                seen=row.pods_seen,
                gated=row.pods_gated,
                ungated=row.pods_ungated,
                running=row.pods_running,
                succeeded=row.pods_succeeded,
                failed=row.pods_failed,
                excess=row.pods_excess,
                replaced=row.pods_replaced,
            ),
            pods_waiting=None
            if (waits := row.not_running) is None
            else o.PodsWaiting(pods=waits[0], reason=waits[1]),
            parked=row.parked,
            complete_time=rfc(row.complete_at),
            queued_time=rfc(row.queued_at),
            admitted_time=rfc(row.admitted_at),
            finished_time=rfc(row.finished_at),
        ),
    )


def history(model: ReadModel, row: LifeRow, name: str = "") -> o.PodGroupHistory:
    """Return the history of a group, for users who may see its namespace alone.

    `name` of a pod of the group: the entries of that pod and of the whole group.
    """
    pod = name if name not in ("", row.name, row.workload_name) else ""
    entries = [
        o.HistoryEntry(
            time=micro(e.at),
            source=e.source,
            kind=e.kind,
            reason=e.reason,
            message=e.message,
            pod=e.pod,
            rule=e.rule,
            status=e.status,
            decision=e.decision,
            until=micro(e.until) if e.until is not None else None,
            position=e.seq,
            order=e.ord,
        )
        for e in model.entries(row.id, own_only=True)
        if not pod or e.pod in ("", pod)
    ]
    return o.PodGroupHistory(
        kind="PodGroupHistory",
        api_version=o.API_VERSION,
        metadata=meta(row, name),
        entries=entries,
    )


def reasons(model: ReadModel, row: LifeRow, name: str = "") -> o.PodGroupReasons:
    """Return what a group waited for."""
    return o.PodGroupReasons(
        kind="PodGroupReasons",
        api_version=o.API_VERSION,
        metadata=meta(row, name),
        waits=[_wait(wait) for wait in model.waits(row.id)],
    )


def explained(model: ReadModel, row: LifeRow, name: str = "") -> o.PodGroupReasons:
    """Return `reasons` with an explanation, for users who may see the group's namespace alone."""
    now = model.clock()
    said = lines(explain(model, row, now), now, own_only=True)
    explanation = [o.ExplanationLine(label=one.label, text=one.text) for one in said]
    return msgspec.structs.replace(reasons(model, row, name), explanation=explanation)


def _wait(row: WaitRow) -> o.Wait:
    return o.Wait(
        reason=row.reason, message=row.message, since=rfc(row.from_at), until=rfc(row.to_at)
    )


def admissions(model: ReadModel, row: LifeRow, name: str = "") -> o.PodGroupAdmissions:
    """Return when a group held quota."""
    given = {"group_id": row.id, "limit": 100}
    found = [
        o.Admission(
            number=one.number,
            cluster_queue=one.cluster_queue,
            queued_time=rfc(one.queued_at),
            admitted_time=rfc(one.admitted_at),
            released_time=rfc(one.released_at),
            release_reason=one.release_reason,
            decided_by=one.decided_by,
            flavors=_document(one.flavors),
            resources={
                flavor: {resource: amount(resource, n) for resource, n in held.items()}
                for flavor, held in _document(one.resources).items()
            },
        )
        for one in model.rows(AdmissionRow, statements.holders.ADMISSIONS, given)
    ]
    return o.PodGroupAdmissions(
        kind="PodGroupAdmissions",
        api_version=o.API_VERSION,
        metadata=meta(row, name),
        admissions=found,
    )


def _document(value: Any) -> dict[str, Any]:
    found = msgspec.json.decode(value) if isinstance(value, str) else value
    return found if isinstance(found, dict) else {}


def position(row: LifeRow, name: str = "") -> o.PodGroupPosition:
    """Return the position of a group that waits for quota."""
    return o.PodGroupPosition(
        kind="PodGroupPosition",
        api_version=o.API_VERSION,
        metadata=meta(row, name),
        position=o.Position(
            cluster_queue=row.cluster_queue,
            local_queue=row.queue,
            priority=row.priority,
            position_in_cluster_queue=row.position,
            position_in_local_queue=row.local_position,
            queued_time=rfc(row.queued_at),
            waiting=o.Wait(
                reason=row.wait_reason, message=row.wait_message, since=rfc(row.wait_since)
            ),
            expected_start=expected(row),
        ),
    )


def position_of(model: ReadModel, found: LifeRow, name: str = "") -> o.PodGroupPosition | None:
    """Return the position of a group, None if it does not wait for quota."""
    from gatelog.serve.api.selectors import Term

    exactly = Listing(fields=(Term("metadata.uid", "in", (found.id,)),))
    rows, _ = lives(model, found.namespace, exactly, 1, queued=True)
    return position(rows[0], name) if rows else None


def groups_page(model: ReadModel, namespace: str, asked: Listing) -> Page:
    """Return a page of podgroups."""
    rows, going_on = lives(model, namespace, asked, asked.limit)
    return [podgroup(row) for row in rows], going_on


def positions_page(model: ReadModel, namespace: str, asked: Listing) -> Page:
    """Return a page of groups that queue, with their places."""
    rows, going_on = lives(model, namespace, asked, asked.limit, queued=True)
    return [position(row) for row in rows], going_on


def details_page(
    make: Callable[[ReadModel, LifeRow], Any],
) -> Callable[[ReadModel, str, Listing], Page]:
    """Return what finds a page of a kind that tells one thing about each group."""

    def page(model: ReadModel, namespace: str, asked: Listing) -> Page:
        rows, going_on = lives(model, namespace, asked, min(asked.limit, DETAILS))
        return [make(model, row) for row in rows], going_on

    return page
