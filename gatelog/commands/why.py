"""`gatelog why NS/NAME`: why does it wait, since when, and what would it take?

Without a name: everything that waits, everywhere or in a namespace.

Invariant: reads only; answers for the newest life of a name.
"""

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from gatelog.shell import options
from gatelog.shell.errors import FAILED, UsageFailed
from gatelog.terminal import completing

if TYPE_CHECKING:
    from gatelog.readmodel.model import ReadModel
    from gatelog.readmodel.rows import PendingRow
    from gatelog.terminal.printing import Column, Output
    from runtime.settings import Settings

EXAMPLES = """
gatelog why
gatelog why team-a
gatelog why team-a/train
gatelog why train -n team-a
gatelog why -A -o wide | sort -k3
gatelog why team-a/train-worker-3 -o json
gatelog why prod/etl --db postgresql://reader@db/gatelog --cluster prod-1
"""

Asked = Annotated[
    str | None,
    typer.Argument(
        metavar="NAMESPACE/NAME",
        autocompletion=completing.groups,
        help="Group or pod. A namespace alone: what waits in it. Nothing: what waits anywhere.",
    ),
]

_MOST = 1000
"""Groups that are listed."""


def why(
    scope: options.ScopeOptions,
    answer: options.TableOptions,
    where: options.ReadModelOptions,
    title: Asked = None,
    watch: options.Watch = False,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL statement instead of running it.")
    ] = False,
) -> int | None:
    """Why a pod group or single pod is where it is: the reason now, since when, what it would take,
    who holds the quota, and what it waited for before. Without NAME: everything that waits.
    """
    from gatelog.readmodel.explain import explain, lines
    from gatelog.readmodel.statements.waiting import WHY
    from gatelog.shell.remedies import here
    from gatelog.terminal import console, lookup, printing

    output, chosen = answer.form, scope.name
    of_one = title is not None and ("/" in title or bool(chosen))
    namespace, name = lookup.titled(title or "", chosen) if of_one else (title or chosen, "")
    if watch and of_one:
        raise UsageFailed(f"--watch is for what waits; of one group: gatelog history {title} -f")
    settings = where.settings(search=True)
    if not sql:
        lookup.say_where(settings, output)
    if not of_one:
        with lookup.open_model(settings) as model:
            _say_awaited(model, settings)
            return _everything(
                model, namespace, output, headers=not answer.no_headers, sql=sql, watch=watch
            )
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
        now = model.clock()
        found = explain(model, group, now)
    if output in ("json", "yaml"):
        known = msgspec.structs.asdict(found)
        shared = known.pop("shared")
        known |= {"short_of": shared.short, "pools": shared.pools, "borrowers": shared.borrowers}
        sys.stdout.write(printing.document(known, output))
        return None
    out = console.console()
    out.print(console.heading(group))
    out.print(console.explained(lines(found, now, here(settings))))
    if found.missing:
        out.print(console.missing(found.missing))
    return None


def _say_awaited(model: "ReadModel", settings: "Settings") -> None:
    """Say on stderr that nothing is decided at all, or that a part does not work, if it is so."""
    from gatelog.terminal.lookup import say_standstill

    say_standstill(model, settings)
    from gatelog.readmodel.readiness import LISTS_REMEDY, awaited

    waits = awaited(model.checkpoint())
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
    from gatelog.readmodel.statements.waiting import PENDING
    from gatelog.terminal import console, following, lookup

    if sql:
        text = model.statement(PENDING, {"namespace": namespace, "limit": _MOST})
        console.console().print(text, soft_wrap=True)
        return None
    rows = _pending(model, namespace)
    if not rows and lookup.nothing_known(model, namespace):
        return FAILED
    _print_pending(rows, model.clock(), namespace, output, headers=headers)
    if watch:
        last = rows

        def again() -> None:
            nonlocal last
            rows = _pending(model, namespace)
            if rows != last:
                last = rows
                _print_pending(rows, model.clock(), namespace, output, headers=headers)

        following.whenever_written(model, again)
    return None


def _pending(model: "ReadModel", namespace: str) -> "list[PendingRow]":
    """Return groups that are not admitted, and before them admitted groups that run nothing."""
    from gatelog.readmodel import heldup, running
    from gatelog.readmodel.rows import PendingRow

    now = model.clock()
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
        *model.idle(namespace, limit=_MOST),
        *running.pending(model.standing_still(now - heldup.SOON, namespace, _MOST)),
        *model.pending(namespace, _MOST + 1),
    ]


def _print_pending(
    rows: "list[PendingRow]",
    now: datetime,
    namespace: str,
    output: "Output | None",
    *,
    headers: bool,
) -> None:
    from gatelog.terminal import printing

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
    from gatelog.readmodel.timeline import duration, plain
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
        Column("MESSAGE", lambda row: plain(row.message)),
    ]
