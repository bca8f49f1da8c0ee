"""Our kinds as data: names, columns of their tables, and the functions that find their objects.

Theory. A request names a plural; everything else about it is a row here. Discovery, OpenAPI, tables
and handling read these rows, so a kind is added in one place.

Invariant: the first column is the name; columns of priority 0 fit a terminal of 160 characters.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct

from gatelog.readmodel.model import ReadModel
from gatelog.readmodel.rows import LifeRow, pods_there
from gatelog.readmodel.starts import short_of
from gatelog.serve.api import finding as f
from gatelog.serve.api import finding_queues, finding_usage
from gatelog.serve.api import objects as o
from gatelog.serve.api.params import Listing, Page
from gatelog.serve.api.selectors import Term
from gatelog.serve.words import ago, span


class Column(Struct, frozen=True):
    """A column of a table; `-o wide` also shows columns of priority 1.

    `of` is a path or function of the object, or of a part where each part is a row.
    """

    name: str
    of: str | Callable[[Any], Any]
    description: str
    priority: int = 0
    type: str = "string"
    format: str = ""

    def cell(self, row: Any) -> Any:
        """Return the cell of a row."""
        found = attrgetter(self.of)(row) if isinstance(self.of, str) else self.of(row)
        return "<none>" if found is None or found == "" else found


def _number(name: str, of: str, description: str, priority: int = 0) -> Column:
    return Column(name, of, description, priority, "integer")


class Served(Struct, frozen=True, kw_only=True):
    """A kind of our group, by its names."""

    plural: str
    singular: str
    model: type[o.Object]
    short_names: tuple[str, ...] = ()
    namespaced: bool = True

    @property
    def kind(self) -> str:
        """As objects name it."""
        return self.model.__name__

    @property
    def verbs(self) -> list[str]:
        """What may be done."""
        return []


class Kind(Served, frozen=True, kw_only=True):
    """A kind that is read. `one` is None for an unknown name.

    `rows` are the rows of an object. Before `shown` comes a column of its name, which `named` says.
    """

    watched: bool = False
    named: str = "Name of the group, or of a single pod"
    shown: tuple[Column, ...]
    rows: Callable[[Any], Iterable[Any]] = lambda one: (one,)
    one: Callable[[ReadModel, str, str], Any]
    page: Callable[[ReadModel, str, Listing], Page]

    @property
    def verbs(self) -> list[str]:
        """What may be done."""
        return ["get", "list", "watch"] if self.watched else ["get", "list"]

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, that of the name first."""
        return Column("Name", "metadata.name", self.named, format="name"), *self.shown

    def cells(self, found: o.Object) -> list[list[Any]]:
        """Return the rows of an object, a cell per column."""
        return [
            [found.metadata.name, *(column.cell(row) for column in self.shown)]
            for row in self.rows(found)
        ]


Cell = Callable[[Any], Any]


def _since(path: str) -> Cell:
    """Return how long ago a time was, as kubectl writes it."""
    return lambda row: ago(attrgetter(path)(row))


def _clock(path: str) -> Cell:
    return lambda row: (attrgetter(path)(row) or "").replace("T", " ")[:19]


def _took(begin: str, end: str) -> Cell:
    """Return how long something took, or has taken so far."""

    def took(row: Any) -> str:
        since, until = attrgetter(begin, end)(row)
        if not since:
            return ""
        over = datetime.fromisoformat(until) if until else datetime.now(UTC)
        return span((over - datetime.fromisoformat(since)).total_seconds())

    return took


def _starts(path: str) -> Cell:
    def starts(row: Any) -> str:
        found = attrgetter(path)(row)
        if found is None:
            return ""
        return short_of(found.time, found.latest_time, found.never, datetime.now(UTC))

    return starts


def _pods(one: o.PodGroup) -> str:
    pods = one.status.pods
    return pods_there(pods.running + pods.succeeded, one.spec.pods, pods.seen)


def _why(one: o.PodGroup) -> str:
    status = one.status
    if status.waiting is not None:
        return status.waiting.reason
    return status.pods_waiting.reason if status.pods_waiting is not None else status.reason


def _not_running(one: o.PodGroup) -> str:
    waiting = one.status.pods_waiting
    return "" if waiting is None else str(waiting.pods)


def _lasted(name: str) -> Cell:
    def lasted(one: o.ClusterQueueUsage) -> str:
        return "" if one.waits is None else span(getattr(one.waits, name))

    return lasted


def _standing(one: o.PodGroup) -> str:
    return one.status.ended or one.status.state


def _waited(one: o.PodGroup) -> str:
    waiting = one.status.waiting
    return ago(waiting.since) if waiting is not None else ""


def _message(one: o.PodGroup) -> str:
    waiting = one.status.waiting
    return waiting.message if waiting is not None else one.status.message


def _amounts(one: o.Admission) -> str:
    return ", ".join(
        f"{number} {resource} of {flavor}"
        for flavor, resources in one.resources.items()
        for resource, number in resources.items()
    )


def _usage(one: o.QueueUsage | o.ClusterQueueUsage) -> str:
    return ", ".join(
        f"{u.resource} {u.held}{'/' + u.nominal if u.nominal else ''} ({u.flavor})"
        + (f" and {u.unadmitted} unadmitted" if u.unadmitted else "")
        for u in one.usage
    )


class _Day(NamedTuple):
    """Usage of a resource on a day, and the currency of its cost."""

    used: o.ResourceHours
    currency: str

    @property
    def cost(self) -> str:
        """In words."""
        cost = self.used.cost
        return "" if cost is None else f"{cost:.2f} {self.currency}".rstrip()


def _hours(word: str) -> Cell:
    return lambda day: f"{getattr(day.used, word):.3f}"


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


_WAITING = (
    _number("Pending", "groups.pending", "Groups that wait, for whatever reason"),
    _number("Admitted", "groups.admitted", "Groups that hold quota"),
    Column(
        "Oldest", _since("groups.oldest"), "How long the oldest that waits for quota has queued"
    ),
)
_BLOCKED = _number("Blocked", "groups.blocked", "Groups whose wait only a person can end", 1)

KINDS: tuple[Kind, ...] = (
    Kind(
        plural="podgroups",
        singular="podgroup",
        model=o.PodGroup,
        short_names=("gpg",),
        watched=True,
        shown=(
            Column("Queue", "spec.queue", "LocalQueue that its pods name"),
            Column("State", _standing, "State of the group, or how it ended"),
            Column("Pods", _pods, "Pods that run or have succeeded, of those declared"),
            Column("Why", _why, "What it waits for, or why it is in this state"),
            Column("For", _waited, "How long it has waited for that"),
            Column("Age", _since("metadata.creation_timestamp"), "Time since gatelog saw it first"),
            Column("ClusterQueue", "status.cluster_queue", "ClusterQueue behind its LocalQueue", 1),
            _number("Priority", "spec.priority", "Priority used for queueing", 1),
            Column("Workload", "status.workload", "Name of its Workload", 1),
            Column(
                "Starts",
                _starts("status.expected_start"),
                "When it is expected to start, of those that wait",
                1,
            ),
            Column("Not-Running", _not_running, "Pods that were let go and do not run", 1),
            Column("Message", _message, "The same in words", 1),
        ),
        one=_group,
        page=f.groups_page,
    ),
    Kind(
        plural="podgrouphistories",
        singular="podgrouphistory",
        model=o.PodGroupHistory,
        short_names=("gph",),
        rows=attrgetter("entries"),
        shown=(
            Column("At", _clock("time"), "When, UTC"),
            Column("What", "kind", "What happened"),
            Column("Reason", "reason", "Why, one word"),
            Column("Pod", "pod", "Pod concerned"),
            Column("Message", "message", "What happened, or why, in words"),
            Column("Source", "source", "history, wait, decision, outcome or failure", 1),
            Column("Rule", "rule", "Rule that decided it", 1),
            Column("Status", "status", "What came of the decision", 1),
        ),
        one=_detail(f.history),
        page=f.details_page(f.history),
    ),
    Kind(
        plural="podgroupreasons",
        singular="podgroupreason",
        model=o.PodGroupReasons,
        short_names=("gpr",),
        rows=attrgetter("waits"),
        shown=(
            Column("Reason", "reason", "What it waited for"),
            Column("Since", _clock("since"), "Since when, UTC"),
            Column("For", _took("since", "until"), "How long"),
            Column("Message", "message", "The same in words"),
        ),
        one=_detail(f.explained),
        page=f.details_page(f.reasons),
    ),
    Kind(
        plural="podgroupadmissions",
        singular="podgroupadmission",
        model=o.PodGroupAdmissions,
        short_names=("gpa",),
        rows=attrgetter("admissions"),
        shown=(
            _number("Number", "number", "Counts its admissions"),
            Column("ClusterQueue", "cluster_queue", "ClusterQueue whose quota it held"),
            Column("Waited", _took("queued_time", "admitted_time"), "How long it had queued"),
            Column("Admitted", _clock("admitted_time"), "When it was admitted, UTC"),
            Column(
                "Held", _took("admitted_time", "released_time"), "How long it held or holds quota"
            ),
            Column("Released", "release_reason", "Why it gave it back"),
            Column("Amounts", _amounts, "What it held", 1),
            Column("Decided-By", "decided_by", "Decision that admitted it, or kueue", 1),
        ),
        one=_detail(f.admissions),
        page=f.details_page(f.admissions),
    ),
    Kind(
        plural="podgrouppositions",
        singular="podgroupposition",
        model=o.PodGroupPosition,
        short_names=("gpp",),
        rows=lambda one: (one.position,),
        shown=(
            Column("ClusterQueue", "cluster_queue", "ClusterQueue it waits in"),
            _number(
                "Position", "position_in_cluster_queue", "Position in the ClusterQueue, from 1"
            ),
            Column("LocalQueue", "local_queue", "LocalQueue it came through"),
            _number(
                "Local-Position", "position_in_local_queue", "Position in the LocalQueue, from 1"
            ),
            _number("Priority", "priority", "Priority used for queueing"),
            Column("Queued", _since("queued_time"), "How long it has queued"),
            Column("Why", "waiting.reason", "What it waits for"),
            Column("Starts", _starts("expected_start"), "When it is expected to start"),
            Column("Message", "waiting.message", "The same in words", 1),
        ),
        one=_detail(f.position_of),
        page=f.positions_page,
    ),
    Kind(
        plural="queueusages",
        singular="queueusage",
        model=o.QueueUsage,
        short_names=("gqu",),
        shown=(
            Column("ClusterQueue", "cluster_queue", "ClusterQueue behind it"),
            *_WAITING,
            _number("Composing", "groups.composing", "Groups whose pods are not all there", 1),
            _BLOCKED,
            Column("Usage", _usage, "What its groups hold", 1),
        ),
        one=_named(finding_queues.queues_page),
        page=finding_queues.queues_page,
    ),
    Kind(
        plural="clusterqueueusages",
        singular="clusterqueueusage",
        model=o.ClusterQueueUsage,
        short_names=("gcu",),
        namespaced=False,
        shown=(
            Column("Cohort", "cohort", "Cohort it borrows in"),
            *_WAITING,
            Column("Usage", _usage, "Held of nominal quota, by resource and flavor"),
            Column("Strategy", "strategy", "Queueing strategy", 1),
            _BLOCKED,
            Column("Wait-P50", _lasted("p50_seconds"), "Half waited no longer, in 7 days", 1),
            Column("Wait-P90", _lasted("p90_seconds"), "Nine in ten waited no longer", 1),
        ),
        one=_named(finding_queues.cluster_queues_page),
        page=finding_queues.cluster_queues_page,
    ),
    Kind(
        plural="namespaceusages",
        singular="namespaceusage",
        model=o.NamespaceUsage,
        short_names=("gnu",),
        named="Day, UTC",
        rows=lambda one: [_Day(used, one.currency) for used in one.usage],
        shown=(
            Column("Resource", "used.resource", "Resource; cpu in cores"),
            Column(
                "Running",
                _hours("running"),
                "Amount times hours that pods asked for while they ran",
            ),
            _number("Pods", "used.pods", "Pods that ran"),
            Column(
                "Held",
                _hours("held"),
                "Hours held and not run: starting, ending, groups that are not whole",
            ),
            Column("Wasted", _hours("wasted"), "Hours that ran and came to nothing"),
            Column("Cost", "cost", "What was taken cost, by the rates that are set"),
            Column("Waited", _hours("waited"), "Hours asked for at the gate", 1),
            Column(
                "Unadmitted",
                _hours("unadmitted"),
                "Hours taken without an admission, in no other column",
                1,
            ),
        ),
        one=_named(finding_usage.usage_page),
        page=finding_usage.usage_page,
    ),
)

TRIAL = "podgrouptrials"
"""Plural of the kind that is created to be answered, like a review."""


class Review(Served, frozen=True, kw_only=True):
    """A kind that is created and answered, and that is nowhere afterwards."""

    @property
    def verbs(self) -> list[str]:
        """What may be done."""
        return ["create"]


REVIEWS = (Review(plural=TRIAL, singular="podgrouptrial", model=o.PodGroupTrial),)

SERVED: tuple[Served, ...] = (*KINDS, *REVIEWS)
"""All kinds of our group."""
BY_PLURAL = {kind.plural: kind for kind in KINDS}
