"""`gatelog list groups|queues`: what there is, as kubectl and kueuectl list it.

Invariant: reads the read model only; every list is bounded and says so where it is.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gatelog.shell import options
from gatelog.shell.errors import UsageFailed
from gatelog.terminal import completing
from podgroup.model.lifecycle import STATES
from projector.schema.ended import ENDED

if TYPE_CHECKING:
    from gatelog.readmodel.jobs import JobRow
    from gatelog.readmodel.model import ReadModel
    from gatelog.readmodel.rows import GroupRow, QueueRow
    from gatelog.terminal.printing import Column

EXAMPLES = """
gatelog list groups
gatelog list groups -n team-a --state queued -o wide
gatelog list queues
gatelog list queues --watch
gatelog list groups -n team-a -o name
gatelog list groups --since yesterday --user ann
"""

What = Annotated[Literal["groups", "queues"], typer.Argument(help="What to list.")]
Queue = Annotated[
    str,
    typer.Option(
        "--queue",
        "-q",
        metavar="NAME",
        help="groups: of this LocalQueue/ClusterQueue.",
        autocompletion=completing.queues,
    ),
]
State = Annotated[
    str, typer.Option("--state", metavar="STATE", help="groups: in this state, or ended so.")
]


@dataclass(frozen=True)
class FilterOptions:
    """The filters of a list, and its length."""

    queue: Queue = ""
    state: State = ""
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME|SPAN",
            help="groups: all that were there from a time on (7d, 12h, yesterday), newest first, "
            "with how long each waited and ran.",
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME|SPAN", help="groups: and that were there before this time."),
    ] = None
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="groups: the same, of this user.")
    ] = ""
    user_label: Annotated[
        str, typer.Option(metavar="LABEL", help="Label of pods that names their user.")
    ] = "user"
    label: Annotated[
        str, typer.Option("--label", "-l", metavar="KEY=VALUE", help="groups: of pods with this.")
    ] = ""
    gone: Annotated[bool, typer.Option("--gone", help="groups: also those that are gone.")] = False
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Rows printed at most.")] = 1000

    @property
    def timed(self) -> bool:
        """Whether groups of a time are meant."""
        return self.since is not None or self.until is not None

    @property
    def labelled(self) -> str:
        """Label and value of the pods that are meant, "" for all."""
        return f"{self.user_label}={self.user}" if self.user else self.label


def listing(
    scope: options.ScopeOptions,
    answer: options.TableOptions,
    place: options.ReadModelOptions,
    wanted: FilterOptions,
    what: What,
    watch: options.Watch = False,
) -> None:
    """List pod groups or queues as the read model has them, in the forms of kubectl: a table,
    -o wide, json, yaml or name.
    """
    from gatelog.terminal import lookup, printing

    state = _state(wanted.state)
    _check(what, wanted)
    settings = place.settings(search=True)
    where, output, limit = scope.name, answer.form, wanted.limit
    lookup.say_where(settings, output)

    seen: dict[str, Any] = {}

    def show(model: "ReadModel", *, again: bool) -> None:
        amply = output not in (None, "name")
        rows, columns, named = _asked(model, what, where, replace(wanted, state=state), amply=amply)
        known = dict(seen)
        seen.clear()
        seen.update((f"{named(row)} {getattr(row, 'id', '')}", row) for row in rows[:limit])
        fresh = [row for key, row in seen.items() if known.get(key) != row]
        if fresh or not again:
            headers = not (again or answer.no_headers)
            printing.show(fresh, columns, output, names=named, headers=headers)
        if len(rows) > limit and not again:
            sys.stderr.write(f"gatelog: more than {limit} {what}; see --limit\n")
        if not rows and output is None and not again:
            of_namespace = f" in namespace {where}" if where else ""
            sys.stderr.write(f"gatelog: no {what}{of_namespace}{_hint(wanted, state)}\n")

    with lookup.open_model(settings) as model:
        show(model, again=False)
        if watch:
            from gatelog.terminal import following

            following.whenever_written(model, lambda: show(model, again=True))


def _asked(
    model: "ReadModel", what: str, namespace: str, wanted: FilterOptions, *, amply: bool
) -> tuple[Sequence[Any], "list[Column[Any]]", Callable[[Any], str]]:
    """Return rows, columns, and how `-o name` calls a row; one row too many means more.

    `amply`: with columns that only `-o wide` and documents show.
    """
    now, limit = model.clock(), wanted.limit + 1
    if what == "queues":
        queues = model.queues(namespace, limit)
        if amply:
            queues = _with_waits(model, queues, now)
        return queues, _queue_columns(now), _queue_name
    if wanted.labelled or wanted.timed:
        return _jobs(model, namespace, wanted, now)
    of = (namespace, wanted.queue, wanted.state)
    groups = model.listed(*of, gone=wanted.gone, limit=limit)
    if amply:
        from gatelog.readmodel.shared import as_of_now

        groups = as_of_now(groups, model.shortages(one.id for one in groups))
    return groups, _group_columns(now), lambda row: f"{row.namespace}/{row.name}"


def _check(what: str, wanted: FilterOptions) -> None:
    """Refuse filters that go with no list, or not with each other."""
    if what == "queues" and (wanted.labelled or wanted.timed):
        raise UsageFailed("--since, --until, --user and --label are for list groups")
    if wanted.user and wanted.label:
        raise UsageFailed("--user goes without --label: it is one")
    if wanted.label and "=" not in wanted.label:
        raise UsageFailed(f"--label {wanted.label}: write it as KEY=VALUE")


def _jobs(
    model: "ReadModel", namespace: str, wanted: FilterOptions, now: datetime
) -> tuple[Sequence[Any], "list[Column[Any]]", Callable[[Any], str]]:
    from gatelog.readmodel import jobs
    from gatelog.shell.since import moment

    until = now if wanted.until is None else moment("--until", wanted.until, now)
    since = moment("--since", wanted.since or "7d", until)
    if wanted.until is not None and since >= until:
        raise UsageFailed(f"--since {wanted.since} is not before --until {wanted.until}")
    key, _, value = wanted.labelled.partition("=")
    given: dict[str, Any] = {"namespace": namespace, "queue": wanted.queue}
    given |= {"state": wanted.state, "since": since, "until": until, "limit": wanted.limit + 1}
    given |= {"key": key, "value": value} if key else {}
    query = jobs.query(model.dialect, label=bool(key))
    found = list(model.rows(jobs.JobRow, query, given))
    return found, _job_columns(now), lambda row: f"{row.namespace}/{row.name}"


def _hint(wanted: FilterOptions, state: str) -> str:
    """Say where else groups may be that a list lacks, "" if nowhere."""
    if wanted.user:
        return f" of user {wanted.user}: asked is label {wanted.user_label} (see --user-label)"
    if state in (*ENDED, "Gone") and not (wanted.gone or wanted.timed):
        return f" that are {state} and not gone: --gone or --since lists those that are"
    return ""


def _state(word: str) -> str:
    """Return the named state, or end, in any case of letters."""
    known = {one.lower(): one for one in (*STATES, *ENDED)}
    if word and word.lower() not in known:
        raise UsageFailed(f"--state {word}: choose one of {', '.join(known.values())}")
    return known.get(word.lower(), "")


def _reason(group: "GroupRow") -> str:
    """Return the reason of a group's state, where the state alone does not say it."""
    said = ("Failed", group.state, group.standing) if group.ended else (group.state,)
    return group.wait_reason or ("" if group.reason in said else group.reason)


def _message(group: "GroupRow") -> str:
    """Return the reason in words, with the number of missing pods."""
    from gatelog.readmodel.advice import pods_exist
    from gatelog.readmodel.timeline import plain

    return pods_exist(group) or plain(group.wait_message or group.message)


def _group_columns(now: datetime) -> "list[Column[GroupRow]]":
    from gatelog.terminal.printing import Column

    return [
        Column("NAMESPACE", lambda g: g.namespace),
        Column("NAME", lambda g: g.name),
        Column("QUEUE", lambda g: g.queue),
        Column("CLUSTERQUEUE", lambda g: g.cluster_queue, wide=True),
        Column("STATE", lambda g: g.standing),
        Column("REASON", _reason),
        Column("PODS", lambda g: g.pods),
        Column("RUNNING", lambda g: str(g.pods_running), wide=True),
        Column("PRIORITY", lambda g: str(g.priority), wide=True),
        Column("AGE", lambda g: _age(g.created_at, now)),
        Column("MESSAGE", _message, wide=True),
    ]


def _job_columns(now: datetime) -> "list[Column[JobRow]]":
    from gatelog.readmodel.timeline import duration
    from gatelog.terminal.printing import Column

    def ran(job: "JobRow") -> str:
        seconds = job.ran_s(now)
        return "" if seconds is None else duration(seconds)

    return [
        Column("CREATED", lambda g: f"{g.created_at:%m-%d %H:%M}"),
        Column("NAMESPACE", lambda g: g.namespace),
        Column("NAME", lambda g: g.name),
        Column("QUEUE", lambda g: g.queue, wide=True),
        Column("STATE", lambda g: g.standing),
        Column("REASON", _reason, wide=True),
        Column("PODS", lambda g: g.pods),
        Column("WAITED", lambda g: duration(g.waited_s(now))),
        Column("RAN", ran),
        Column("MESSAGE", _message, wide=True),
    ]


def _queue_columns(now: datetime) -> "list[Column[QueueRow]]":
    from gatelog.terminal.printing import Column

    return [
        Column("KIND", lambda q: q.kind),
        Column("NAMESPACE", lambda q: q.namespace),
        Column("NAME", lambda q: q.name),
        Column("PENDING", lambda q: str(q.pending)),
        Column("ADMITTED", lambda q: str(q.admitted)),
        Column("LONGEST WAIT", lambda q: _age(q.oldest, now)),
        Column("QUOTA", lambda q: _amounts(q.nominal)),
        Column("HELD", lambda q: _amounts(q.held)),
        Column("WITHOUT QUOTA", lambda q: _amounts(q.unadmitted), wide=True),
        Column("DRAINED", lambda q: _ahead(q.drained_at, now), wide=True),
        Column("WAIT P50 (7 d)", lambda q: _lasted(q.wait_half_s), wide=True),
        Column("WAIT P90 (7 d)", lambda q: _lasted(q.wait_most_s), wide=True),
    ]


def _lasted(seconds: float | None) -> str:
    from gatelog.readmodel.timeline import duration

    return "" if seconds is None else duration(seconds)


def _with_waits(model: "ReadModel", queues: "list[QueueRow]", now: datetime) -> "list[QueueRow]":
    """Return queues, ClusterQueues with how long groups waited; waits that go on count as well."""
    import msgspec

    waited = model.waited(now)
    return [
        msgspec.structs.replace(queue, wait_half_s=row.half, wait_most_s=row.most)
        if queue.kind == "ClusterQueue" and (row := waited.get(queue.name))
        else queue
        for queue in queues
    ]


def _queue_name(queue: "QueueRow") -> str:
    place = f"{queue.namespace}/" if queue.namespace else ""
    return f"{queue.kind.lower()}/{place}{queue.name}"


def _amounts(held: dict[str, dict[str, int]]) -> str:
    from podgroup.model.wording import shown

    return "; ".join(
        f"{key}: " + ", ".join(f"{shown(r, n)} {r}" for r, n in sorted(resources.items()))
        for key, resources in sorted(held.items())
    )


def _ahead(at: datetime | None, now: datetime) -> str:
    """Return in about what time something is expected, "" if that is not known."""
    from gatelog.readmodel.starts import rough

    return "" if at is None else f"~{rough(max(0.0, (at - now).total_seconds()))}"


def _age(at: datetime | None, now: datetime) -> str:
    from gatelog.readmodel.timeline import duration

    return "" if at is None else duration((now - at).total_seconds())
