"""`gatelog parked`: what was set aside because nobody could deal with it, and what becomes of it.

Invariant: listing and showing only read; releasing and discarding write one message to the log.
"""

import asyncio
import getpass
import sys
from typing import Annotated, Any, Literal

import msgspec
import typer

from gatelog import options
from gatelog.errors import UsageFailed
from podgroup.runtime.settings import Settings

HELP = (
    "Events that were set aside: list them, show one, release it (its group goes on) or discard "
    "it (it is done with; its group goes on as well). Release after mending the cause: what is "
    "still wrong is parked again at the next change."
)
EPILOG = """[bold]Examples[/]

gatelog parked

gatelog parked show 1234/0

gatelog parked release 1234/0 --note 'fixed in 0.2'"""

Action = Annotated[
    Literal["list", "show", "release", "discard"], typer.Argument(help="What to do.")
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
    from gatelog import asking
    from gatelog.replay import parking

    settings = asking.read_settings(config, assign, state_dir, db, cluster)
    wanted = list(keys or ())
    if action == "list":
        _list(parking.found(settings, settled=every), as_json=as_json)
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
    if keys:
        asyncio.run(parking.settle(settings, action, keys, by, note))
    done = "released" if action == "release" else "discarded"
    print(f"{done}: {', '.join(keys) or 'nothing is parked'}")


def _list(rows: list[Any], *, as_json: bool) -> None:
    if as_json:
        _json(rows)
        return
    if not rows:
        print("nothing is parked")
    for row in rows:
        state = f"  [{row.resolution} by {row.resolved_by}]" if row.resolution else ""
        what = row.object or row.group_id or "(unknown)"
        print(f"{row.key}  {row.at:%Y-%m-%d %H:%M:%S}Z  {row.reason}  {what}: {row.message}{state}")


def _show(row: Any, *, as_json: bool) -> None:
    if as_json:
        _json([row])
        return
    lines = [
        ("parked", f"{row.key} at {row.at:%Y-%m-%d %H:%M:%S}Z"),
        ("reason", row.reason),
        ("message", row.message),
        ("object", row.object or "(unknown)"),
        ("group", row.group_id or "(none stands still)"),
    ]
    if row.resolution:
        when = f"{row.resolved_at:%Y-%m-%d %H:%M:%S}Z"
        lines.append(("settled", f"{row.resolution} by {row.resolved_by} at {when}"))
    for name, text in lines:
        print(f"{name:<8} {text}")
    if row.raw:
        print(f"\n{row.raw}")


def _json(rows: list[Any]) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode() + "\n")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "an operator"
