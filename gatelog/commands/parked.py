"""`gatelog parked`: the dead letters, and what becomes of them.

Invariant: listing and showing only read; releasing and discarding write one message to the log.
"""

import asyncio
import getpass
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from gatelog.shell import options
from gatelog.shell.errors import UsageFailed
from gatelog.terminal import console, printing
from runtime.settings import Settings

if TYPE_CHECKING:
    from gatelog.replay.parking import ParkedEvent
    from gatelog.terminal.printing import Output
    from podgroup.log.parked import ParkedMessage

EXAMPLES = """
gatelog parked
gatelog parked -n team-a -o wide
gatelog parked show 1234/0
gatelog parked release 1234/0 --note 'fixed in 0.2'
gatelog parked stream --json | jq '.[].message'
"""

Action = Annotated[
    Literal["list", "show", "release", "discard", "stream"], typer.Argument(help="What to do.")
]
Keys = Annotated[
    list[str] | None, typer.Argument(metavar="SEQ/ORD", help="Which; as the list names it.")
]


@dataclass(frozen=True)
class ParkedOptions:
    """The parked events, and the person and reason of an action."""

    every: Annotated[
        bool, typer.Option("--all", help="list: settled ones too. release, discard: all open.")
    ] = False
    note: Annotated[str, typer.Option(help="Why; kept in history.")] = ""
    by: Annotated[str | None, typer.Option(help="Who; default: the user.")] = None
    watch: options.Watch = False


def parked(
    scope: options.ScopeOptions,
    answer: options.TableOptions,
    where: options.ReadModelOptions,
    given: ParkedOptions,
    action: Action = "list",
    keys: Keys = None,
) -> None:
    """Events and decisions that are parked: list them, show one, release it (its group goes on; a
    decision is made again at once) or discard it (it is done with; its group goes on as well).
    Release after mending the cause: what is still wrong is parked again. `stream` lists the newest
    500 messages of the stream PARKED, whole: those that share one row as well.
    """
    from gatelog.replay import parking
    from gatelog.terminal import lookup

    form, namespace = answer.form, scope.name
    if action != "list" and (namespace or given.watch or form in ("wide", "name")):
        raise UsageFailed(f"-n, --watch and -o wide|name are for parked list, not for {action}")
    only_reads = action in ("list", "show")
    settings = where.settings(search=only_reads)
    wanted = list(keys or ())
    if only_reads:
        lookup.say_where(settings, form)
    if action == "list":
        headers = not answer.no_headers
        _list(settings, namespace, form, settled=given.every, headers=headers, watch=given.watch)
    elif action == "stream":
        _stream(asyncio.run(parking.stream(settings)), form)
    elif action == "show":
        if len(wanted) != 1:
            raise UsageFailed("parked show: name one as SEQ/ORD (gatelog parked list)")
        _show(parking.one(settings, wanted[0]), form)
    else:
        _settle(settings, action, wanted, given)


def _settle(settings: Settings, action: str, keys: list[str], given: ParkedOptions) -> None:
    from gatelog.replay import parking

    if given.every == bool(keys):
        raise UsageFailed(f"parked {action}: name what as SEQ/ORD, or give --all")
    if given.every:
        keys = [row.key for row in parking.found(settings, settled=False)]
    by = given.by or _user()
    groups = asyncio.run(parking.resolve(settings, action, keys, by, given.note)) if keys else []
    done = "released" if action == "release" else "discarded"
    print(f"{done}: {', '.join(keys) or 'nothing is parked'}")
    for group in groups:
        print(f"{group} goes on (gatelog why {group})")


def _list(
    settings: Settings,
    namespace: str,
    output: "Output | None",
    *,
    settled: bool,
    headers: bool,
    watch: bool,
) -> None:
    from gatelog.replay import parking
    from gatelog.terminal import lookup

    def read() -> "list[ParkedEvent]":
        return parking.found(settings, settled=settled, namespace=namespace)

    rows = read()
    _rows(rows, output, headers=headers)
    if not watch:
        return
    known = {row.key: row for row in rows}

    def again() -> None:
        nonlocal known
        found = {row.key: row for row in read()}
        fresh = [row for key, row in found.items() if known.get(key) != row]
        known = found
        if fresh:
            _rows(fresh, output, headers=False)

    with lookup.open_model(settings) as model:
        from gatelog.terminal import following

        following.whenever_written(model, again)


def _rows(rows: "list[ParkedEvent]", output: "Output | None", *, headers: bool) -> None:
    if not rows and output in (None, "wide"):
        print("nothing is parked")
        return
    out = console.console()
    if output is None and out.is_terminal:
        out.print(_table(rows))
        if first := next((row.key for row in rows if not row.resolution), ""):
            out.print(Text(f"\n→ gatelog parked show {first}, then release or discard", "italic"))
        return
    printing.show(rows, _columns(), output, names=lambda row: row.key, headers=headers)


def _columns() -> "list[printing.Column[ParkedEvent]]":
    return [
        printing.Column("KEY", lambda row: row.key),
        printing.Column("AT", lambda row: f"{row.at:%Y-%m-%d %H:%M:%S}Z"),
        printing.Column("REASON", lambda row: row.reason),
        printing.Column("GROUP", lambda row: row.group or row.group_id),
        printing.Column("STUCK", lambda row: "yes" if row.stuck else "no"),
        printing.Column("OBJECT", lambda row: row.object or "(unknown)"),
        printing.Column("SETTLED", lambda row: row.resolution, wide=True),
        printing.Column("BY", lambda row: row.resolved_by, wide=True),
        printing.Column("MESSAGE", lambda row: row.message),
    ]


def _stream(rows: "list[ParkedMessage]", output: "Output | None") -> None:
    """Print messages of PARKED, each with its body; of a binary body the parts that are text."""
    if output in ("json", "yaml"):
        sys.stdout.write(printing.document(rows, output))
        return
    if not rows:
        print("the stream PARKED is empty")
    for row in rows:
        what = f" {row.object}:" if row.object else ""
        at = f"{row.at:%Y-%m-%d %H:%M:%S}Z"
        print(f"{row.stream} {row.seq}/{row.ord}  {at}  by the {row.by}  {row.reason}")
        print(f"   {what} {row.message}\n    {row.body.decode(errors='replace')}")


def _table(rows: "list[ParkedEvent]") -> Table:
    """Return parked events as a table for a terminal: object and effect, below it the reason."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(style=console.QUIET, no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        text = Text(row.object or row.group or "an event of an unknown object")
        if row.resolution:
            done = "released" if row.resolution == "release" else "discarded"
            text.append(f"  {done} by {row.resolved_by}", style=console.GOOD)
        elif row.stuck:
            text.append(f"  {row.group} is stuck", style=f"bold {console.BAD}")
        else:
            text.append("  nothing is stuck", style=console.QUIET)
        text.append(f"\n{row.reason}", style=console.WAIT).append(f": {row.message}")
        table.add_row(row.key, f"{row.at:%Y-%m-%d %H:%M:%S}Z", text)
    return table


def _show(row: "ParkedEvent", output: "Output | None") -> None:
    if output in ("json", "yaml"):
        sys.stdout.write(printing.document([row], output))
        return
    lines = [
        ("parked", f"{row.key} at {row.at:%Y-%m-%d %H:%M:%S}Z"),
        ("reason", row.reason),
        ("message", row.message),
        ("object", row.object or "(unknown)"),
        ("group", f"{row.group or '(none)'} {'is stuck' if row.stuck else 'is not stuck'}"),
    ]
    if not row.group:
        lines[-1] = ("group", "(none is stuck)")
    if row.resolution:
        when = f"{row.resolved_at:%Y-%m-%d %H:%M:%S}Z"
        lines.append(("settled", f"{row.resolution} by {row.resolved_by} at {when}"))
    else:
        lines.append(("next", f"gatelog parked release {row.key}   when the cause is mended"))
        lines.append(("", f"gatelog parked discard {row.key}   when it does not matter"))
    out = console.console()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, Text(text))
    out.print(table)
    for raw in (row.decision, row.raw):
        if raw:
            print(f"\n{_readable(raw)}")


def _readable(raw: str) -> str:
    """Return a document indented, and any other text as it is."""
    try:
        return msgspec.json.format(raw, indent=2)
    except msgspec.MsgspecError:
        return raw


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an operator"
