"""What a person is told once everything runs: what is watched, where the answers are, what to try.

Invariant: every command line printed works as printed, from this directory.
"""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gatelog.narrator import Narrator
from podgroup.runtime.settings import Settings

if TYPE_CHECKING:
    from gatelog.readiness import Ready


def tell_ready(narrator: Narrator, settings: Settings, ready: "Ready") -> None:
    """Say that it is ready, and how to ask."""
    from projector.database import database_url

    absent = f" ({', '.join(ready.missing)} not installed)" if ready.missing else ""
    url = database_url(settings)
    narrator.done(
        "ready",
        f"ready: watching {ready.kinds} kinds{absent}, caught up at seq {ready.sequence}",
        kinds=ready.kinds,
        missing=list(ready.missing),
        sequence=ready.sequence,
        database=place(url),
    )
    narrator.say()
    where = state_option(settings)
    narrator.say(f"  who waits, and why   {query_command(WHY, where)}")
    narrator.say(f"  the story of a group {program()} history NAMESPACE/NAME{where}")
    narrator.say("  [dim]Ctrl-C stops; nothing is lost[/]")
    narrator.say()


WHY = "SELECT namespace, name, reason, message FROM v_why_pending"


def program() -> str:
    """Return how to call this program from here: its name, or its path if that is not on PATH."""
    mine = Path(sys.argv[0]).absolute()
    found = shutil.which("gatelog")
    if mine.name != "gatelog" or (found and Path(found).absolute() == mine):
        return "gatelog"
    return shlex.quote(near(str(mine)))


def query_command(query: str, where: str) -> str:
    """Return the command line that runs a query on the read model; `where` names it."""
    return f'{program()} sql "{query}"{where}'


def place(url: str) -> str:
    """Return where a read model is: the path of a file, or a URL without driver and password."""
    from projector.database import shown

    scheme, _, rest = shown(url).partition("://")
    if scheme.startswith("sqlite"):
        return near(rest.removeprefix("/"))
    return f"{scheme.partition('+')[0]}://{rest}"


def state_option(settings: Settings) -> str:
    """Return ` --state-dir DIR` unless it is the default one and holds the read model."""
    if settings.database.url:
        return f" --db {shlex.quote(place(settings.database.url))}"
    if settings.state_dir == ".gatelog":
        return ""
    return f" --state-dir {shlex.quote(near(settings.state_dir))}"


def near(path: str) -> str:
    """Return a path relative to here when it lies below, else as it is."""
    full = Path(path).absolute()
    here = Path.cwd()
    return os.path.relpath(full, here) if full.is_relative_to(here) else str(full)
