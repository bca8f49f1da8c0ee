"""Our kinds as data: names, columns of their tables, and how they are found.

Theory. A request names a plural; everything else about it is a row here. Discovery, OpenAPI, tables
and handling read these rows, so a kind is added in one place.

Invariant: the first column is the name; columns of priority 0 fit a terminal of 160 characters.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rows import LifeRow
from gatelog.readmodel.starts import short_of
from gatelog.serve.api import finding as f
from gatelog.serve.api import objects as o
from gatelog.serve.api.finding import Page
from gatelog.serve.api.params import Listing
from gatelog.serve.api.selectors import Term
from gatelog.serve.words import ago, span

Cells = list[list[Any]]


class Column(Struct, frozen=True):
    """A column of a table; those of priority 1 are shown by `-o wide`."""

    name: str
    description: str
    priority: int = 0
    type: str = "string"
    format: str = ""


class Kind(Struct, frozen=True, kw_only=True):
    """A kind of our group. `one` is None for an unknown name."""

    plural: str
    singular: str
    model: type[o.Object]
    short_names: tuple[str, ...]
    namespaced: bool = True
    watched: bool = False
    columns: tuple[Column, ...]
    cells: Callable[[Any], Cells]
    one: Callable[[ReadModel, str, str], Any]
    page: Callable[[ReadModel, str, Listing], Page]

    @property
    def kind(self) -> str:
        """As objects name it."""
        return self.model.__name__

    @property
    def verbs(self) -> list[str]:
        """What may be done."""
        return ["get", "list", "watch"] if self.watched else ["get", "list"]


NAME = Column("Name", "Name of the group, or of a single pod", 0, "string", "name")


def _age(text: str | None) -> str:
    """Return how long ago a time was, as kubectl writes it."""
    return _none(ago(text))


def _took(begin: str | None, end: str | None) -> str:
    if not begin:
        return "<none>"
    until = datetime.fromisoformat(end) if end else datetime.now(UTC)
    return span((until - datetime.fromisoformat(begin)).total_seconds())


def _clock(text: str | None) -> str:
    return text.replace("T", " ")[:19] if text else "<none>"


def _none(text: str) -> str:
    return text or "<none>"


def _pods(one: o.PodGroup) -> str:
    pods = one.status.pods
    done = pods.running + pods.succeeded
    return f"{done}/{one.spec.pods or pods.seen}"


def _why(one: o.PodGroup) -> str:
    waiting = one.status.waiting
    return waiting.reason if waiting is not None else one.status.reason


def _starts(one: o.ExpectedStart | None) -> str:
    if one is None:
        return "<none>"
    return short_of(one.time, one.latest_time, one.never, datetime.now(UTC))


def _group_cells(one: o.PodGroup) -> Cells:
    status = one.status
    waiting = status.waiting
    return [
        [
            one.metadata.name,
            _none(one.spec.queue),
            status.state,
            _pods(one),
            _none(_why(one)),
            _age(waiting.since) if waiting is not None else "<none>",
            _age(one.metadata.creation_timestamp),
            _none(status.cluster_queue),
            one.spec.priority,
            _none(status.workload),
            _starts(status.expected_start),
            _none(waiting.message if waiting is not None else status.message),
        ]
    ]


def _history_cells(one: o.PodGroupHistory) -> Cells:
    return [
        [
            one.metadata.name,
            _clock(e.time),
            e.kind,
            _none(e.reason),
            _none(e.pod),
            _none(e.message),
            e.source,
            _none(e.rule),
            _none(e.status),
        ]
        for e in one.entries
    ]


def _reason_cells(one: o.PodGroupReasons) -> Cells:
    return [
        [one.metadata.name, w.reason, _clock(w.since), _took(w.since, w.until), w.message]
        for w in one.waits
    ]


def _admission_cells(one: o.PodGroupAdmissions) -> Cells:
    return [
        [
            one.metadata.name,
            a.number,
            a.cluster_queue,
            _took(a.queued_time, a.admitted_time),
            _clock(a.admitted_time),
            _took(a.admitted_time, a.released_time),
            _none(a.release_reason),
            _amounts(a.resources),
            a.decided_by,
        ]
        for a in one.admissions
    ]


def _amounts(held: dict[str, dict[str, str]]) -> str:
    return _none(
        ", ".join(
            f"{number} {resource} of {flavor}"
            for flavor, resources in held.items()
            for resource, number in resources.items()
        )
    )


def _position_cells(one: o.PodGroupPosition) -> Cells:
    at = one.position
    waiting = at.waiting or o.Wait()
    return [
        [
            one.metadata.name,
            at.cluster_queue,
            at.position_in_cluster_queue,
            at.local_queue,
            at.position_in_local_queue,
            at.priority,
            _age(at.queued_time),
            _none(waiting.reason),
            _starts(at.expected_start),
            _none(waiting.message),
        ]
    ]


def _usage(found: list[o.FlavorUsage]) -> str:
    return _none(
        ", ".join(
            f"{u.resource} {u.held}{'/' + u.nominal if u.nominal else ''} ({u.flavor})"
            + (f" and {u.unadmitted} unadmitted" if u.unadmitted else "")
            for u in found
        )
    )


def _queue_cells(one: o.QueueUsage) -> Cells:
    groups = one.groups
    return [
        [
            one.metadata.name,
            _none(one.cluster_queue),
            groups.pending,
            groups.admitted,
            _age(groups.oldest),
            groups.composing,
            groups.blocked,
            _usage(one.usage),
        ]
    ]


def _cluster_queue_cells(one: o.ClusterQueueUsage) -> Cells:
    groups = one.groups
    return [
        [
            one.metadata.name,
            _none(one.cohort),
            groups.pending,
            groups.admitted,
            _age(groups.oldest),
            _usage(one.usage),
            _none(one.strategy),
            groups.blocked,
        ]
    ]


def _day_cells(one: o.NamespaceUsage) -> Cells:
    return [
        [
            one.metadata.name,
            u.resource,
            f"{u.running:.3f}",
            u.pods,
            f"{u.held:.3f}",
            f"{u.wasted:.3f}",
            "<none>" if u.cost is None else f"{u.cost:.2f} {one.currency}".rstrip(),
            f"{u.waited:.3f}",
            f"{u.unadmitted:.3f}",
        ]
        for u in one.usage
    ]


Detail = Callable[[ReadModel, LifeRow, str], Any]


def _group(model: ReadModel, namespace: str, name: str) -> o.PodGroup | None:
    row = f.life(model, namespace, name)
    return None if row is None or row.name != name else f.podgroup(row)


def _detail(make: Detail) -> Callable[[ReadModel, str, str], Any]:
    def one(model: ReadModel, namespace: str, name: str) -> Any:
        row = f.life(model, namespace, name)
        return None if row is None else make(model, row, name)

    return one


def _named(
    page: Callable[[ReadModel, str, Listing], Page],
) -> Callable[[ReadModel, str, str], Any]:
    """Return what finds one object by the list that is selected by its name."""

    def one(model: ReadModel, namespace: str, name: str) -> Any:
        exactly = Listing(limit=1, fields=(Term("metadata.name", "in", (name,)),))
        found, _ = page(model, namespace, exactly)
        return found[0] if found else None

    return one


KINDS: tuple[Kind, ...] = (
    Kind(
        plural="podgroups",
        singular="podgroup",
        model=o.PodGroup,
        short_names=("gpg",),
        watched=True,
        columns=(
            NAME,
            Column("Queue", "LocalQueue that its pods name"),
            Column("State", "State of the group"),
            Column("Pods", "Pods that run or have succeeded, of those declared"),
            Column("Why", "What it waits for, or why it is in this state"),
            Column("For", "How long it has waited for that"),
            Column("Age", "Time since its first pod was created"),
            Column("ClusterQueue", "ClusterQueue behind its LocalQueue", 1),
            Column("Priority", "Priority used for queueing", 1, "integer"),
            Column("Workload", "Name of its Workload", 1),
            Column("Starts", "When it is expected to start, of those that wait", 1),
            Column("Message", "The same in words", 1),
        ),
        cells=_group_cells,
        one=_group,
        page=f.groups_page,
    ),
    Kind(
        plural="podgrouphistories",
        singular="podgrouphistory",
        model=o.PodGroupHistory,
        short_names=("gph",),
        columns=(
            NAME,
            Column("At", "When, UTC"),
            Column("What", "What happened"),
            Column("Reason", "Why, one word"),
            Column("Pod", "Pod concerned"),
            Column("Message", "What happened, or why, in words"),
            Column("Source", "history, wait, decision, outcome or failure", 1),
            Column("Rule", "Rule that decided it", 1),
            Column("Status", "What came of the decision", 1),
        ),
        cells=_history_cells,
        one=_detail(f.history),
        page=f.details_page(f.history),
    ),
    Kind(
        plural="podgroupreasons",
        singular="podgroupreason",
        model=o.PodGroupReasons,
        short_names=("gpr",),
        columns=(
            NAME,
            Column("Reason", "What it waited for"),
            Column("Since", "Since when, UTC"),
            Column("For", "How long"),
            Column("Message", "The same in words"),
        ),
        cells=_reason_cells,
        one=_detail(f.explained),
        page=f.details_page(f.reasons),
    ),
    Kind(
        plural="podgroupadmissions",
        singular="podgroupadmission",
        model=o.PodGroupAdmissions,
        short_names=("gpa",),
        columns=(
            NAME,
            Column("Number", "Counts its admissions", 0, "integer"),
            Column("ClusterQueue", "ClusterQueue whose quota it held"),
            Column("Waited", "How long it had queued"),
            Column("Admitted", "When it was admitted, UTC"),
            Column("Held", "How long it held or holds quota"),
            Column("Released", "Why it gave it back"),
            Column("Amounts", "What it held", 1),
            Column("Decided-By", "Decision that admitted it, or kueue", 1),
        ),
        cells=_admission_cells,
        one=_detail(f.admissions),
        page=f.details_page(f.admissions),
    ),
    Kind(
        plural="podgrouppositions",
        singular="podgroupposition",
        model=o.PodGroupPosition,
        short_names=("gpp",),
        columns=(
            NAME,
            Column("ClusterQueue", "ClusterQueue it waits in"),
            Column("Position", "Position in the ClusterQueue, from 1", 0, "integer"),
            Column("LocalQueue", "LocalQueue it came through"),
            Column("Local-Position", "Position in the LocalQueue, from 1", 0, "integer"),
            Column("Priority", "Priority used for queueing", 0, "integer"),
            Column("Queued", "How long it has queued"),
            Column("Why", "What it waits for"),
            Column("Starts", "When it is expected to start"),
            Column("Message", "The same in words", 1),
        ),
        cells=_position_cells,
        one=_detail(f.position_of),
        page=f.positions_page,
    ),
    Kind(
        plural="queueusages",
        singular="queueusage",
        model=o.QueueUsage,
        short_names=("gqu",),
        columns=(
            NAME,
            Column("ClusterQueue", "ClusterQueue behind it"),
            Column("Pending", "Groups that wait, for whatever reason", 0, "integer"),
            Column("Admitted", "Groups that hold quota", 0, "integer"),
            Column("Oldest", "How long the oldest that waits for quota has queued"),
            Column("Composing", "Groups whose pods are not all there", 1, "integer"),
            Column("Blocked", "Groups whose wait only a person can end", 1, "integer"),
            Column("Usage", "What its groups hold", 1),
        ),
        cells=_queue_cells,
        one=_named(f.queues_page),
        page=f.queues_page,
    ),
    Kind(
        plural="clusterqueueusages",
        singular="clusterqueueusage",
        model=o.ClusterQueueUsage,
        short_names=("gcu",),
        namespaced=False,
        columns=(
            NAME,
            Column("Cohort", "Cohort it borrows in"),
            Column("Pending", "Groups that wait, for whatever reason", 0, "integer"),
            Column("Admitted", "Groups that hold quota", 0, "integer"),
            Column("Oldest", "How long the oldest that waits for quota has queued"),
            Column("Usage", "Held of nominal quota, by resource and flavor"),
            Column("Strategy", "Queueing strategy", 1),
            Column("Blocked", "Groups whose wait only a person can end", 1, "integer"),
        ),
        cells=_cluster_queue_cells,
        one=_named(f.cluster_queues_page),
        page=f.cluster_queues_page,
    ),
    Kind(
        plural="namespaceusages",
        singular="namespaceusage",
        model=o.NamespaceUsage,
        short_names=("gnu",),
        columns=(
            Column("Name", "Day, UTC", 0, "string", "name"),
            Column("Resource", "Resource; cpu in cores"),
            Column("Running", "Amount times hours that pods asked for while they ran"),
            Column("Pods", "Pods that ran", 0, "integer"),
            Column("Held", "Hours held and not run: starting, ending, groups that are not whole"),
            Column("Wasted", "Hours that ran and came to nothing"),
            Column("Cost", "What was taken cost, by the rates that are set"),
            Column("Waited", "Hours asked for at the gate", 1),
            Column("Unadmitted", "Hours taken without an admission, in no other column", 1),
        ),
        cells=_day_cells,
        one=_named(f.usage_page),
        page=f.usage_page,
    ),
)

BY_PLURAL = {kind.plural: kind for kind in KINDS}
