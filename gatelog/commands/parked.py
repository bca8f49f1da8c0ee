"""`gatelog parked`: what was set aside because nobody could deal with it, and what becomes of it.

Invariant: listing and showing only read; releasing and discarding write one message to the log.
"""

import asyncio
import getpass
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from gatelog.shell import options
from gatelog.shell.errors import UsageFailed
from gatelog.terminal import console
from gatelog.terminal.printing import document
from podgroup.runtime.settings import Settings

if TYPE_CHECKING:
    from gatelog.replay.parking import Parked
    from podgroup.parked import ParkedMessage

HELP = (
    "Events and decisions that were set aside: list them, show one, release it (its group goes on; "
    "a decision is made again at once) or discard it (it is done with; its group goes on as well). "
    "Release after mending the cause: what is still wrong is parked again. `stream` lists the "
    "newest 500 messages of the stream PARKED, whole: those that share one row as well."
)
EPILOG = """[bold]Examples[/]

gatelog parked

gatelog parked show 1234/0

gatelog parked release 1234/0 --note 'fixed in 0.2'

gatelog parked stream --json | jq '.[].message'"""

Action = Annotated[
    Literal["list", "show", "release", "discard", "stream"], typer.Argument(help="What to do.")
]
Keys = Annotated[
    list[str] | None, typer.Argument(metavar="SEQ/ORD", help="Which; as the list names it.")
]


def parked(
    action: Action = "list",
    keys: Keys = None,
    every: Annotated[
        bool, typer.Option("--all", help="list: settled ones too. release, discard: all open.")
    ] = False,
    note: Annotated[str, typer.Option("--note", help="Why; kept in history.")] = "",
    by: Annotated[str | None, typer.Option("--by", help="Who; default: the user.")] = None,
    as_json: options.AsJson = False,
    config: options.Config = None,
    state_dir: options.StateDirOption = None,
    db: options.Database = None,
    cluster: options.Cluster = None,
    assign: options.Assign = None,
) -> None:
    """Run `gatelog parked`; see HELP."""
    from gatelog.replay import parking
    from gatelog.terminal import lookup

    settings = lookup.read_settings(config, assign, state_dir, db, cluster)
    wanted = list(keys or ())
    if action == "list":
        _list(parking.found(settings, settled=every), as_json=as_json)
    elif action == "stream":
        _stream(asyncio.run(parking.stream(settings)), as_json=as_json)
    elif action == "show":
        if len(wanted) != 1:
            raise UsageFailed("parked show: name one as SEQ/ORD (gatelog parked list)")
        _show(parking.one(settings, wanted[0]), as_json=as_json)
    else:
        _settle(settings, action, wanted, every=every, by=by or _user(), note=note)


def _settle(
    settings: Settings, action: str, keys: list[str], *, every: bool, by: str, note: str
) -> None:
    from gatelog.replay import parking

    if every == bool(keys):
        raise UsageFailed(f"parked {action}: name what as SEQ/ORD, or give --all")
    if every:
        keys = [row.key for row in parking.found(settings, settled=False)]
    groups = asyncio.run(parking.settle(settings, action, keys, by, note)) if keys else []
    done = "released" if action == "release" else "discarded"
    print(f"{done}: {', '.join(keys) or 'nothing is parked'}")
    for group in groups:
        print(f"{group} goes on (gatelog why {group})")


def _list(rows: "list[Parked]", *, as_json: bool) -> None:
    if as_json:
        _json(rows)
        return
    if not rows:
        print("nothing is parked")
        return
    out = console.console()
    if out.is_terminal:
        out.print(_table(rows))
        if first := next((row.key for row in rows if not row.resolution), ""):
            out.print(Text(f"\n→ gatelog parked show {first}, then release or discard", "italic"))
        return
    for row in rows:
        state = f"  [{row.resolution} by {row.resolved_by}]" if row.resolution else ""
        what = f"{row.object or row.group or row.group_id or '(unknown)'}: {row.message}"
        still = f"; {row.group} stands still" if row.stands else ""
        print(f"{row.key}  {row.at:%Y-%m-%d %H:%M:%S}Z  {row.reason}  {what}{still}{state}")


def _stream(rows: "list[ParkedMessage]", *, as_json: bool) -> None:
    """Print messages of PARKED, each with its body; that of binary ones as far as it is text."""
    if as_json:
        sys.stdout.write(document(rows, "json"))
        return
    if not rows:
        print("the stream PARKED is empty")
    for row in rows:
        what = f" {row.object}:" if row.object else ""
        at = f"{row.at:%Y-%m-%d %H:%M:%S}Z"
        print(f"{row.stream} {row.seq}/{row.ord}  {at}  by the {row.by}  {row.reason}")
        print(f"   {what} {row.message}\n    {row.body.decode(errors='replace')}")


def _table(rows: "list[Parked]") -> Table:
    """Return what is parked for a person at a terminal: what and its effect, below it why."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(style=console.QUIET, no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        text = Text(row.object or row.group or "an event of nobody knows what")
        if row.resolution:
            done = "released" if row.resolution == "release" else "discarded"
            text.append(f"  {done} by {row.resolved_by}", style=console.GOOD)
        elif row.stands:
            text.append(f"  {row.group} stands still", style=f"bold {console.BAD}")
        else:
            text.append("  nothing stands still", style=console.QUIET)
        text.append(f"\n{row.reason}", style=console.WAIT).append(f": {row.message}")
        table.add_row(row.key, f"{row.at:%Y-%m-%d %H:%M:%S}Z", text)
    return table


def _show(row: "Parked", *, as_json: bool) -> None:
    if as_json:
        _json([row])
        return
    lines = [
        ("parked", f"{row.key} at {row.at:%Y-%m-%d %H:%M:%S}Z"),
        ("reason", row.reason),
        ("message", row.message),
        ("object", row.object or "(unknown)"),
        ("group", f"{row.group or '(none)'} {'stands still' if row.stands else 'is not held up'}"),
    ]
    if not row.group:
        lines[-1] = ("group", "(none stands still)")
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
    """Return a document indented, and what is none as it is."""
    try:
        return msgspec.json.format(raw, indent=2)
    except msgspec.MsgspecError:
        return raw


def _json(rows: "list[Parked]") -> None:
    sys.stdout.write(document(rows, "json"))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an operator"
