"""How objects are found: from rows to the Structs of `objects`.

Theory. Each function asks the read model for one object or one page, in a thread. A kind that tells
one thing about groups (history, reasons, admissions, positions) pages through groups and looks at
each; a page of those is short, since each is a question of its own.

Invariant: reads only; what is made is bounded by the page's limit.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from gatelog.readmodel import pages
from gatelog.readmodel import usage as sums
from gatelog.readmodel.explain import explain, lines
from gatelog.readmodel.model import Note, ReadModel
from gatelog.readmodel.quota import QuotaRow
from gatelog.readmodel.rates import Rates
from gatelog.readmodel.rows import (
    AdmissionRow,
    CountRow,
    LifeRow,
    LineRow,
    ObjectRow,
    WaitRow,
)
from gatelog.readmodel.starts import sentence
from gatelog.serve.api import objects as o
from gatelog.serve.api.params import Listing, PageStart
from gatelog.serve.api.selectors import equal, field_conditions, holds, label_conditions
from gatelog.serve.api.status import bad
from gatelog.serve.words import amount, micro, rfc
from gatelog.shell.errors import UsageFailed
from podgroup.model.lifecycle import QUEUED, STAGES
from podgroup.model.objects import ClusterQueueView, LocalQueueView
from projector.schema.dialect import home

DETAILS = 50
"""Objects of one page of a kind that asks a question for each."""
DAYS = 7
MOST_ROWS = 100_000
_AT_ONCE = 1000

Page = tuple[list[Any], PageStart | None]
"""Objects, and where the next page begins; None after the last."""
T = TypeVar("T", bound=msgspec.Struct)


def life(model: ReadModel, namespace: str, name: str) -> LifeRow | None:
    """Return the newest life of a group, by its name or that of a pod or its Workload."""
    given = {"namespace": namespace, "name": name, "limit": 1}
    for query in (pages.LIFE, pages.LIFE_OF_POD, pages.LIFE_OF_WORKLOAD):
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
    """Return a page of lives that are selected; those that are gone only if selected by that."""
    conditions, given = field_conditions(asked.fields)
    labels, label_values = label_conditions(asked.labels, model.dialect)
    if namespace:
        conditions.append(pages.IN_NAMESPACE)
    if equal(asked.fields, "metadata.name"):
        conditions.append(pages.NEWEST)
    elif not any(equal(asked.fields, f) for f in ("metadata.uid", "status.state")):
        conditions.append(pages.LIVE)
    if queued:
        conditions.append(pages.QUEUED)
    page = pages.group_page(conditions, labels)
    query = pages.placed(page) if queued else page
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
    """Tell whether a life is one of those that are asked for."""
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
            parked=row.parked,
            complete_time=rfc(row.complete_at),
            queued_time=rfc(row.queued_at),
            admitted_time=rfc(row.admitted_at),
            finished_time=rfc(row.finished_at),
        ),
    )


def history(model: ReadModel, row: LifeRow, name: str = "") -> o.PodGroupHistory:
    """Return what happened to a group, for who may see its namespace alone.

    `name` of one of its pods: to that and to all of them.
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
    """Return the same with why the group is where it is, for who may see its namespace alone."""
    now = datetime.now(UTC)
    said = lines(explain(model, row, now), now, own_only=True)
    told = [o.ExplanationLine(label=one.label, text=one.text) for one in said]
    return msgspec.structs.replace(reasons(model, row, name), explanation=told)


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
        for one in model.rows(AdmissionRow, pages.ADMISSIONS, given)
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


# Queues and usage.


def queues_page(model: ReadModel, namespace: str, asked: Listing) -> Page:
    """Return a page of LocalQueues with who waits and what is held."""
    rows, going_on = _objects(model, "LocalQueue", namespace, asked)
    counts = model.rows(CountRow, pages.COUNTS, _scope(namespace, ""))
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
    """Return a page of ClusterQueues with quota, usage and who waits."""
    rows, going_on = _objects(model, "ClusterQueue", "", asked)
    counts: dict[str, list[CountRow]] = defaultdict(list)
    for count in model.rows(CountRow, pages.COUNTS, _scope("", "")):
        counts[count.cluster_queue].append(count)
    stood: dict[str, list[QuotaRow]] = defaultdict(list)
    for one in model.quota("ClusterQueue"):
        stood[one.name].append(one)
    return [cluster_queue(row, counts[row.name], stood[row.name]) for row in rows], going_on


def cluster_queue_of(row: ObjectRow) -> str:
    """Return the ClusterQueue of a LocalQueue, "" for none that can be read."""
    view = view_of(row)
    return view.cluster_queue if isinstance(view, LocalQueueView) else ""


def cluster_queue(
    row: ObjectRow, counts: Iterable[CountRow], stood: Iterable[QuotaRow]
) -> o.ClusterQueueUsage:
    """Return a ClusterQueue by who waits, its quota, and what of it is held, borrowed and lent."""
    view = view_of(row)
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

    return o.FlavorUsage(
        flavor=row.flavor,
        resource=row.resource,
        nominal="" if row.kind == "LocalQueue" else amount(row.resource, row.nominal),
        held=amount(row.resource, row.held),
        borrowed=some(row.borrowed),
        unadmitted=some(row.unadmitted),
        idle=some(row.idle),
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
    given = {
        "kind": kind,
        "namespace": namespace,
        "name": name,
        "after_namespace": begin.namespace,
        "after_name": begin.name,
        "limit": limit,
    }
    return list(model.rows(ObjectRow, pages.OBJECTS, given))


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


def view_of(row: ObjectRow) -> Any:
    """Return the view of a queue object, None if there is none that can be read."""
    from projector.writing.packing import unpack_object

    if row.folded is None:
        return None
    try:
        return unpack_object(row.folded)
    except msgspec.MsgspecError:
        return None


def usage_page(model: ReadModel, namespace: str, asked: Listing) -> Page:
    """Return what namespaces used on each of the last days, newest first."""
    if asked.labels:
        raise bad("usage of a namespace has no labels: ask view v_pod_usage_daily by label")
    if any(t.key not in ("metadata.name", "metadata.namespace") for t in asked.fields):
        raise bad("usage is selected by metadata.name (a day) or metadata.namespace only")
    today = datetime.now(UTC).date()
    days = [(today - timedelta(days=back)).isoformat() for back in range(DAYS)]
    wanted = equal(asked.fields, "metadata.name")
    found: list[Any] = []
    for day in [wanted] if wanted else days:
        found += usage_of(model, namespace, day)
    keep = [
        one
        for one in found
        if holds(
            asked.fields,
            {"metadata.name": one.metadata.name, "metadata.namespace": one.metadata.namespace},
        )
    ]
    return keep, None


def usage_of(model: ReadModel, namespace: str, day: str) -> list[o.NamespaceUsage]:
    """Return what namespaces used on a day (YYYY-MM-DD)."""
    try:
        since = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
        until = since + timedelta(days=1)
    except (ValueError, OverflowError):
        return []  # a name that no day has
    by_namespace: dict[str, list[sums.Share]] = defaultdict(list)
    for share in spent_by(model, "namespace", since, until, namespace).shares:
        by_namespace[share.key].append(share)
    return [
        o.NamespaceUsage(
            kind="NamespaceUsage",
            api_version=o.API_VERSION,
            metadata=o.ObjectMeta(name=day, namespace=name),
            usage=[resource_hours(share, model.rates) for share in shares],
            currency=model.rates.currency if model.rates else "",
        )
        for name, shares in by_namespace.items()
    ]


def resource_hours(share: sums.Share, known: Rates | None) -> o.ResourceHours:
    """Return a share as `gatelog usage` shows it: hours of cores, of GiB, of one of all else."""
    hours = {
        word: float(sums.hours(share.resource, amount))
        for word, amount in share.spent.columns.items()
    }
    return o.ResourceHours(
        resource=share.resource,
        pods=share.pods,
        capped=share.capped,
        cost=None if known is None else float(sums.money(share.cost)),
        **hours,
    )


class Divided(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent, by a key and by hour or day; `unpriced` (flavor, resource) has no rate."""

    shares: list[sums.Share]
    steps: list[sums.Share]
    unpriced: list[tuple[str, str]]
    query: str
    given: dict[str, Any]


def spent_by(
    model: ReadModel, by: str, since: datetime, until: datetime, namespace: str = "", step: str = ""
) -> Divided:
    """Return what was spent by a key as `gatelog usage` counts it, by the rates that are set.

    `step`: by `hour` or `day`, too, of the same statement.

    Raises:
        Refused: 400, no such key.
    """
    if step and by in sums.STEPS:
        steps = spent_by(model, step, since, until, namespace).shares
        found = spent_by(model, by, since, until, namespace)
        return msgspec.structs.replace(found, steps=steps)
    dialect = home(model.dialect)
    try:
        query = sums.query(by, dialect, one_namespace=bool(namespace), step=step)
        cut = sums.first_cut(step or by, since, until)
    except UsageFailed as error:
        raise bad(str(error).replace("--by", "by")) from None
    given: dict[str, Any] = {"since": since, "until": until, "limit": MOST_ROWS}
    given |= {"cut": cut} if step or by in sums.STEPS else {}
    given |= {"namespace": namespace} if namespace else {}
    given |= {"key": by.removeprefix(sums.LABEL)} if by.startswith(sums.LABEL) else {}
    rows = list(model.dicts(query, given))
    stepped = [row for row in rows if row["begins"] is not None] if step else []
    keyed = [row for row in rows if row["begins"] is None] if step else rows
    shares, unpriced = sums.added_up(keyed, model.rates)
    steps, _ = sums.added_up(stepped, model.rates)
    return Divided(shares=shares, steps=steps, unpriced=unpriced, query=query, given=given)


def line(
    model: ReadModel, query: str, limit: int, offset: int, queue: str, namespace: str = ""
) -> list[LineRow]:
    """Return a part of a queue in its order."""
    given = {"queue": queue, "namespace": namespace, "limit": limit, "offset": offset}
    return list(model.rows(LineRow, query, given))
