"""`gatelog why NS/NAME`: why does it wait, since when, and what would it take?

Without a name: everything that waits, everywhere or in a namespace.

Invariant: reads only; answers for the newest life of a name.
"""

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from gatelog.shell import options
from gatelog.shell.errors import FAILED, UsageFailed
from podgroup.lifecycle import ADMITTED, PENDING

if TYPE_CHECKING:
    from rich.table import Table

    from gatelog.readmodel.model import ReadModel
    from gatelog.readmodel.rows import (
        ExpectedRow,
        GroupRow,
        HeldUpRow,
        HolderRow,
        ParkedOfRow,
        PendingRow,
        RepeatedRow,
        UnreplacedRow,
        UnstartedRow,
        WaitRow,
    )
    from gatelog.readmodel.shared import Shared
    from gatelog.terminal.printing import Column, Output
    from podgroup.runtime.settings import Settings

HELP = (
    "Why a pod group or single pod is where it is: the reason now, since when, what it would "
    "take, who holds the quota, and what it waited for before. Without NAME: everything that waits."
)
EPILOG = """[bold]Examples[/]

gatelog why

gatelog why team-a

gatelog why team-a/train

gatelog why train -n team-a

gatelog why -A -o wide | sort -k3

gatelog why team-a/train-worker-3 -o json

gatelog why prod/etl --db postgresql://reader@db/gatelog --cluster prod-1"""

Asked = Annotated[
    str | None,
    typer.Argument(
        metavar="NAMESPACE/NAME",
        help="Group or pod. A namespace alone: what waits in it. Nothing: what waits anywhere.",
    ),
]

_MOST = 1000
"""Groups that are listed."""
_FRESH_S = 300.0
"""Age of a forecast up to which it is taken as it is."""
_BUDGET_S = 2.0
"""Processor time after which no further play of a forecast is begun."""
_MOST_PLAYED = 1000
"""Groups that wait above which `gatelog forecast` is left to work out when they start."""
_OVER = frozenset({"Finishing", "Finished"})
_SPARED = (
    "single pods do without (queueing.workloads=groups): kubectl get podgroups lists it, "
    "kubectl get workloads does not"
)
_ANOTHER_LIFE = (
    "to create it again when the pods of this group are deleted, all of them, or under another "
    "group name: pods that come to a group that is over belong to it and are not started"
)


def why(
    title: Asked = None,
    namespace: options.Namespace = None,
    all_namespaces: options.AllNamespaces = False,
    output: options.Output = None,
    no_headers: options.NoHeaders = False,
    watch: options.Watch = False,
    as_json: options.AsJson = False,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL statement instead of running it.")
    ] = False,
    config: options.Config = None,
    state_dir: options.StateDirOption = None,
    db: options.Database = None,
    cluster: options.Cluster = None,
    assign: options.Assign = None,
) -> int | None:
    """Run `gatelog why`; see HELP."""
    from gatelog.readmodel.advice import remedy
    from gatelog.readmodel.gaps import missing
    from gatelog.readmodel.statements import WHY
    from gatelog.terminal import console, lookup, printing

    settings = lookup.read_settings(config, assign, state_dir, db, cluster, search=True)
    output = options.form(output, as_json=as_json)
    chosen = options.namespace_of(namespace, every=all_namespaces)
    if title is None or ("/" not in title and not chosen):
        with lookup.open_model(settings) as model:
            _say_awaited(model, settings)
            return _everything(
                model, title or chosen, output, headers=not no_headers, sql=sql, watch=watch
            )
    if watch:
        raise UsageFailed(f"--watch is for what waits; of one group: gatelog history {title} -f")
    namespace, name = lookup.titled(title, chosen)
    with lookup.open_model(settings) as model:
        _say_awaited(model, settings)
        lives = model.groups(namespace, name, limit=1)
        if not lives:
            lookup.say_not_found(model, namespace, name)
            return FAILED
        group = lives[0]
        if sql:
            console.console().print(model.statement(WHY, {"group_id": group.id}), soft_wrap=True)
            return None
        gaps = missing(model, group)
        waits = model.waits(group.id)
        aside = model.parked_of(namespace, group.name, group.id)
        holders, position = _competition(model, group)
        shared = model.shared(group.id)
        unstarted = model.unstarted(group.id) if group.state in _OVER else []
        failed = model.unreplaced(group.id) if group.state in ADMITTED else []
        repeated = model.repeated(datetime.now(UTC), group.id)
        now = datetime.now(UTC)
        held = next(iter(model.held_up(now, group_id=group.id)), None)
        waiting = group.state in PENDING
        expected = _expected(model, settings, group) if waiting else None
    if output in ("json", "yaml"):
        found = {
            "group": group,
            "takes": remedy(group) if waiting else "",
            "position": position,
            "expected": expected,
            "holders": holders,
            "short_of": shared.short,
            "pools": shared.pools,
            "borrowers": shared.borrowers,
            "waits": waits,
            "set_aside": aside,
            "not_started": unstarted,
            "not_replaced": failed,
            "repeated": repeated,
            "held_up": held,
            "missing": gaps,
        }
        sys.stdout.write(printing.document(found, output))
        return None
    out = console.console()
    out.print(console.heading(group))
    parts = (group, waits, holders, position, shared, aside, unstarted, failed, repeated, expected)
    out.print(_answer(*parts, held))
    if gaps:
        out.print(console.missing(gaps))
    return None


def _say_awaited(model: "ReadModel", settings: "Settings") -> None:
    """Say on stderr that nothing is decided at all, or that a part does not work, if it is so."""
    from gatelog.terminal.lookup import say_standstill

    say_standstill(model)
    from gatelog.readmodel.readiness import LISTS_REMEDY, awaited

    waits = awaited(model.checkpoint(settings.projector.shard))
    if waits:
        sys.stderr.write(f"gatelog: {waits}; {LISTS_REMEDY}\n")


def _everything(
    model: "ReadModel",
    namespace: str,
    output: "Output | None",
    *,
    headers: bool,
    sql: bool,
    watch: bool,
) -> int | None:
    """Show what waits, in a namespace or everywhere."""
    from gatelog.readmodel.statements import PENDING
    from gatelog.terminal import console, following, lookup

    if sql:
        text = model.statement(PENDING, {"namespace": namespace, "limit": _MOST})
        console.console().print(text, soft_wrap=True)
        return None
    rows = _pending(model, namespace)
    if not rows and lookup.nothing_known(model, namespace):
        return FAILED
    _print_pending(rows, namespace, output, headers=headers)
    if watch:
        last = rows

        def again() -> None:
            nonlocal last
            rows = _pending(model, namespace)
            if rows != last:
                last = rows
                _print_pending(rows, namespace, output, headers=headers)

        following.whenever_written(model, again)
    return None


def _pending(model: "ReadModel", namespace: str) -> "list[PendingRow]":
    """Return what is not admitted, and before it what is admitted and held up at its gate."""
    from gatelog.readmodel import heldup
    from gatelog.readmodel.rows import PendingRow

    now = datetime.now(UTC)
    held = model.held_up(now - heldup.SOON, namespace=namespace, limit=_MOST)
    return [
        *(
            PendingRow(
                namespace=row.namespace,
                name=row.name,
                kind=row.kind,
                state=row.state,
                queue=row.queue,
                cluster_queue=row.cluster_queue,
                priority=row.priority,
                reason=heldup.REASON,
                message=heldup.sentence(row, now),
                since=row.since,
                stage="",
                position=None,
            )
            for row in held
        ),
        *model.pending(namespace, _MOST + 1),
    ]


def _print_pending(
    rows: "list[PendingRow]", namespace: str, output: "Output | None", *, headers: bool
) -> None:
    from gatelog.terminal import printing

    now = datetime.now(UTC)
    if rows or output in ("json", "yaml"):
        columns = _pending_columns(now)
        printing.show(
            rows[:_MOST],
            columns,
            output,
            names=lambda row: f"{row.namespace}/{row.name}",
            headers=headers,
        )
    else:
        sys.stderr.write(f"nothing waits{f' in namespace {namespace}' if namespace else ''}\n")
    if len(rows) > _MOST:
        sys.stderr.write(f"gatelog: more than {_MOST} wait; name a namespace, or see --sql\n")


def _pending_columns(now: datetime) -> "list[Column[PendingRow]]":
    from gatelog.readmodel.timeline import duration
    from gatelog.terminal.printing import Column

    def waited(row: "PendingRow") -> str:
        return "" if row.since is None else duration((now - row.since).total_seconds())

    return [
        Column("NAMESPACE", lambda row: row.namespace),
        Column("NAME", lambda row: row.name),
        Column("POSITION", lambda row: "" if row.position is None else str(row.position)),
        Column("FOR", waited),
        Column("REASON", lambda row: row.reason or row.state),
        Column("QUEUE", lambda row: row.queue, wide=True),
        Column("CLUSTERQUEUE", lambda row: row.cluster_queue, wide=True),
        Column("PRIORITY", lambda row: str(row.priority), wide=True),
        Column("MESSAGE", lambda row: row.message),
    ]


def _competition(model: "ReadModel", group: "GroupRow") -> tuple[list["HolderRow"], int | None]:
    """Return who holds the quota a queued group waits for, and its position (None: in no line)."""
    inactive = group.wait_reason == "ClusterQueueInactive"
    waits = group.state == "Queued" or inactive
    if not waits or not group.cluster_queue or group.queued_at is None:
        return [], None
    return model.holders(group.cluster_queue), model.position(group.id)


def _expected(model: "ReadModel", settings: "Settings", group: "GroupRow") -> "ExpectedRow | None":
    """Return when a group is expected to start: as was said lately, or else worked out now."""
    from projector.storage.database import database_url

    now = datetime.now(UTC)
    known = model.expected(group.id)
    if known is not None and (now - known.as_of).total_seconds() < _FRESH_S:
        return known
    if model.waiting() > _MOST_PLAYED:
        return known
    from gatelog.forecast.refreshing import make
    from gatelog.readmodel.rows import ExpectedRow

    shard = model.shard_of(group.id)
    url = database_url(settings)
    made = make(url, settings.cluster, now, label="team", budget_s=_BUDGET_S, shard=shard)
    one = made[0].of(group.id) if made else None
    if one is None:
        return known

    def at(seconds: float | None) -> datetime | None:
        return None if seconds is None else now + timedelta(seconds=seconds)

    return ExpectedRow(
        expected_at=at(one.expected_s),
        earliest_at=at(one.earliest_s),
        latest_at=at(one.latest_s),
        never=one.never,
        position=one.position,
        as_of=now,
    )


def _as_of(expected: "ExpectedRow", now: datetime) -> str:
    from gatelog.readmodel.timeline import duration

    age_s = (now - expected.as_of).total_seconds()
    return "" if age_s < _FRESH_S else f"; that was {duration(age_s)} ago (gatelog forecast)"


def _answer(
    group: "GroupRow",
    waits: list["WaitRow"],
    holders: list["HolderRow"],
    position: int | None,
    shared: "Shared",
    aside: list["ParkedOfRow"],
    unstarted: list["UnstartedRow"],
    failed: list["UnreplacedRow"],
    repeated: list["RepeatedRow"],
    expected: "ExpectedRow | None",
    held: "HeldUpRow | None",
) -> "Table":
    from rich.table import Table
    from rich.text import Text

    from gatelog.forecast.words import sentence
    from gatelog.readmodel import heldup, repeats
    from gatelog.readmodel.advice import remedy, replacements
    from gatelog.readmodel.shared import sentences
    from gatelog.readmodel.timeline import plain

    now = datetime.now(UTC)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")

    def row(label: str, text: str) -> None:
        table.add_row(label, Text(text))

    if group.wait_since is not None and group.wait_reason:
        row("waits for", f"{group.wait_reason}, since {_when(group.wait_since, now)}")
        row("", plain(group.wait_message))
        row("it takes", remedy(group))
        if group.state == "Queued" and group.cluster_queue:
            if position is not None:
                row("position", f"{position} in ClusterQueue {group.cluster_queue}")
            last = ""
            for label, text in sentences(shared, group.priority):
                row("" if label == last else label, text)
                last = label
        if expected is not None:
            when = (expected.expected_at, expected.latest_at, expected.never, now)
            row("expected", sentence(*when) + _as_of(expected, now))
        for number, holder in enumerate(holders):
            row("" if number else "held by", _holding(holder, now))
    elif held is not None:
        row("held up", heldup.sentence(held, now))
        row("it takes", heldup.advice(held))
    else:
        row("now", _settled(group, now))
    if group.spared and group.state not in ("Finished", "Gone"):
        row("no Workload", _SPARED)
    for number, pod in enumerate(unstarted):
        row("" if number else "not started", _late(pod, group))
    if unstarted:
        row("it takes", _ANOTHER_LIFE)
    for number, lost in enumerate(failed):
        row("" if number else "failed", _failure(lost, now))
    if failed:
        row(
            "it takes",
            replacements(group) + '; or retriable-in-group: "false" on a pod, which '
            "ends the group when nothing runs any more",
        )
    for number, write in enumerate(repeated[: repeats.MOST]):
        row("" if number else "in vain", repeats.sentence(write, now))
    for text in dict.fromkeys(repeats.advice(write) for write in repeated[: repeats.MOST]):
        row("it takes", text)
    for number, one in enumerate(aside):
        row("" if number else "set aside", f"{one.object}: {plain(one.message)}")
    for number, (took, wait) in enumerate(_past(waits)):
        row("" if number else "before that", f"{took} {wait.reason}: {plain(wait.message)}")
    return table


def _past(waits: list["WaitRow"]) -> list[tuple[str, "WaitRow"]]:
    """Return the waits that are over and lasted, with how long, newest first; eight at most."""
    from gatelog.readmodel.timeline import NO_WAIT, duration

    over = [(wait.to_at - wait.from_at, wait) for wait in waits if wait.to_at is not None]
    return [(duration(took.total_seconds()), wait) for took, wait in over if took >= NO_WAIT][:8]


def _settled(group: "GroupRow", now: datetime) -> str:
    """Say why a group that waits for nothing is where it is."""
    from gatelog.readmodel.timeline import plain

    message = plain(group.message or group.reason).rstrip(".")
    match group.state:
        case "Admitted" | "Running" if group.admitted_at is not None:
            return f"it waits for nothing: {message}, {_when(group.admitted_at, now)}"
        case "Finished" | "Finishing" | "Gone" if group.finished_at is not None:
            return f"it is over: {message}, {_when(group.finished_at, now)}"
        case "Gone":
            return "it is over: its pods are gone"
        case _:
            return message or f"it is {group.state}"


def _late(pod: "UnstartedRow", group: "GroupRow") -> str:
    from gatelog.readmodel.timeline import duration

    over = group.finished_at
    if over is None or pod.created_at < over:
        return f"pod {pod.name} was still at its gate when the group ended"
    after = duration((pod.created_at - over).total_seconds())
    return f"pod {pod.name} came {after} after the group had ended"


def _failure(pod: "UnreplacedRow", now: datetime) -> str:
    from gatelog.readmodel.timeline import duration

    how = f" ({pod.exit_reason})" if pod.exit_reason else ""
    ago = duration((now - pod.ended_at).total_seconds())
    return f"pod {pod.name}{how}, {ago} ago, and no pod has its place"


def _holding(holder: "HolderRow", now: datetime) -> str:
    from gatelog.readmodel.timeline import amount as shown
    from gatelog.readmodel.timeline import duration

    amounts = ", ".join(
        f"{shown(resource, amount)} {resource} of {flavor or 'no flavor'}"
        for flavor, resources in holder.resources.items()
        for resource, amount in resources.items()
    )
    since = duration((now - holder.admitted_at).total_seconds())
    if holder.state == "Blocked":
        return f"{holder.namespace}/{holder.name} runs without admission, {amounts} for {since}"
    return (
        f"{holder.namespace}/{holder.name} {amounts} for {since} "
        f"({holder.state}, priority {holder.priority})"
    )


def _when(at: datetime, now: datetime) -> str:
    from gatelog.readmodel.timeline import duration

    return f"{at:%Y-%m-%d %H:%M:%S} UTC ({duration((now - at).total_seconds())} ago)"
